// SPDX-License-Identifier: Apache-2.0
// Finds the same call on all ranks, and which rank came to it last. A collective is identified by
// communicator and sequence number, which is never reused; a message by communicator, sender,
// receiver and its number between the two. Waits belong to the collective or the receive that they
// wait for. Also adds up how long ranks waited for each other. If no rank ended a call well, a
// member that is not in it is the one waited for, for as long as the others were in it, unless its
// record may have been overwritten.
#include "launcher/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Sorts records of the same call side by side, in the order of ranks. */
struct key {
    uint64_t comm_sequence, ends; /* ends: sender and receiver of a message */
    uint32_t call, unused;
};
static const uint64_t no_ends = UINT64_MAX;

static int by_key(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    if (a->comm_sequence != b->comm_sequence)
        return a->comm_sequence < b->comm_sequence ? -1 : 1;
    if (a->ends != b->ends)
        return a->ends < b->ends ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

/** Whether it belongs to a message: a send, a receive, or a wait for one. */
static bool is_of_message(const struct kolo_timeline_record *record)
{
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    return shape == KOLO_SHAPE_SEND || shape == KOLO_SHAPE_RECV ||
           (shape == KOLO_SHAPE_WAIT && record->plan == 0 && record->peer >= 0);
}

static bool key_of(const struct kolo_trace *trace, uint32_t index, struct key *key_out)
{
    const struct kolo_trace_call *call = &trace->calls[index];
    const struct kolo_timeline_record *record = &call->record;
    const uint32_t mine = (uint32_t)trace->tracks[call->track].rank, other = (uint32_t)record->peer;
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    uint64_t ends = no_ends;
    if (shape == KOLO_SHAPE_SEND)
        ends = (uint64_t)mine << 32 | other;
    else if (is_of_message(record))
        ends = (uint64_t)other << 32 | mine;
    *key_out = (struct key){(uint64_t)record->comm << 32 | record->sequence, ends, index, 0};
    return shape != KOLO_SHAPE_OWN &&
           (shape != KOLO_SHAPE_WAIT || record->plan != 0 || is_of_message(record));
}

static kolo_status for_each(struct kolo_trace *trace, const struct key *keys, size_t count,
                            uint32_t *calls, kolo_trace_group_fn *fn, void *context)
{
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && keys[end].comm_sequence == keys[first].comm_sequence &&
                          keys[end].ends == keys[first].ends;
             end++)
            calls[end - first] = keys[end].call;
        const struct kolo_trace_group group = {trace, calls, end - first};
        kolo_status status = fn(&group, context);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

kolo_status kolo_trace_groups(struct kolo_trace *trace, kolo_trace_group_fn *fn, void *context)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    size_t count = 0;
    struct key *keys = kolo_calloc(trace->call_count, sizeof *keys);
    uint32_t *calls = kolo_calloc(trace->call_count, sizeof *calls);
    if (!keys || !calls)
        goto out;
    for (uint32_t i = 0; i < trace->call_count; i++)
        count += key_of(trace, i, &keys[count]);
    if (count > 0)
        qsort(keys, count, sizeof *keys, by_key);
    status = for_each(trace, keys, count, calls, fn, context);
out:
    kolo_free_memory(keys);
    kolo_free_memory(calls);
    return status;
}

/* ---- who came last ---- */

/** When a call's turn came, by the first clock; false: it has not come. */
static bool arrival(const struct kolo_trace *trace, const struct kolo_trace_call *call,
                    int64_t *ns_out)
{
    const int64_t entered = kolo_trace_entered(&call->record);
    if (entered == 0)
        return false;
    *ns_out = kolo_trace_time(trace, &trace->tracks[call->track], entered);
    return true;
}

/* A member of a call, and when it came. */
struct member {
    int64_t ns; /* never_ns: it did not */
    int rank;
};
static const int64_t never_ns = INT64_MAX;

struct matching {
    uint32_t messages;
    uint32_t comm, epoch;   /* the current communicator, and its number here */
    uint32_t *seen;         /* by rank: the last communicator that it was seen in, as an epoch */
    uint32_t *track_of;     /* by rank: index + 1 */
    struct member *members; /* of the current call */
    size_t count;           /* number of members */
    double *gaps;           /* total waiting between the arrivals of two successive members */
};

/** Collects the members of a collective that have a record of it. Returns false if the records
 * cannot be of one call (a rank is in it twice). */
static bool look(const struct kolo_trace_group *group, struct matching *matching)
{
    const struct kolo_trace *trace = group->trace;
    uint32_t size = 0;
    matching->count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[group->calls[i]];
        const int rank = trace->tracks[call->track].rank;
        if (kolo_timeline_shape(&call->record) == KOLO_SHAPE_WAIT)
            continue;
        if (matching->count > 0 &&
            (rank == matching->members[matching->count - 1].rank || call->record.size != size))
            return false;
        size = call->record.size;
        struct member *member = &matching->members[matching->count++];
        *member = (struct member){never_ns, rank};
        (void)arrival(trace, call, &member->ns);
        matching->seen[rank] = matching->epoch;
    }
    return matching->count > 0 && matching->count <= size;
}

/** No member has ended the call well: members that are not in it keep the others waiting. */
static bool is_stuck(const struct kolo_trace_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_timeline_record *record = &group->trace->calls[group->calls[i]].record;
        if (kolo_timeline_shape(record) != KOLO_SHAPE_WAIT && record->end_ns > 0 &&
            record->status == KOLO_OK)
            return false;
    }
    return true;
}

/** Whether a record that is missing for @p rank never existed: none of it could have been
 * overwritten since. */
static bool is_whole(const struct kolo_trace *trace, const struct matching *matching, int rank)
{
    const uint32_t track = matching->track_of[rank];
    return track == 0 || trace->tracks[track - 1].dropped == 0 ||
           matching->seen[rank] == matching->epoch;
}

/** Adds the ranks that are not in the call as members that never came. If the communicator is
 * smaller than the world, these are the ranks that were seen in an earlier call of it. */
static void add_absent(const struct kolo_trace *trace, struct matching *matching, uint32_t size)
{
    const size_t there = matching->count;
    size_t at = 0;
    for (int rank = 0; rank < trace->size && matching->count < size; rank++) {
        while (at < there && matching->members[at].rank < rank)
            at++;
        const bool is_there = at < there && matching->members[at].rank == rank;
        const bool is_member =
            size == (uint32_t)trace->size || matching->seen[rank] == matching->epoch;
        if (!is_there && is_member && is_whole(trace, matching, rank))
            matching->members[matching->count++] = (struct member){never_ns, rank};
    }
}

static int by_coming(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/** The last member of a call that needs all its members; if several never came, the lowest of
 * these. Returns false if it is not known. */
static bool find_last(const struct kolo_trace_group *group, struct matching *matching,
                      struct member *last_out)
{
    const uint32_t size = group->trace->calls[group->calls[0]].record.size;
    const bool stuck = is_stuck(group);
    if (stuck && matching->count < size)
        add_absent(group->trace, matching, size);
    if (matching->count != size)
        return false;
    qsort(matching->members, matching->count, sizeof *matching->members, by_coming);
    size_t last = matching->count - 1;
    while (last > 0 && matching->members[last - 1].ns == never_ns)
        last--;
    *last_out = matching->members[last];
    return stuck || last_out->ns != never_ns;
}

/** In a broadcast, whose root waits for no one, the root counts as the last. */
static bool find_root(const struct kolo_trace_group *group, const struct matching *matching,
                      int root, struct member *last_out)
{
    *last_out = (struct member){never_ns, root};
    for (size_t i = 0; i < matching->count; i++)
        if (matching->members[i].rank == root)
            *last_out = matching->members[i];
    return last_out->ns != never_ns || (is_stuck(group) && is_whole(group->trace, matching, root));
}

static int root_of(const struct kolo_trace_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_timeline_record *record = &group->trace->calls[group->calls[i]].record;
        if (kolo_timeline_shape(record) == KOLO_SHAPE_ROOT)
            return record->peer;
    }
    return KOLO_TRACE_NOBODY;
}

/* ---- what that cost the others ---- */

enum { COUNTED_NS = 1000 /* from this on, a rank counts as waited for in a call */ };

static void charge(struct kolo_trace *trace, int rank, double ns)
{
    trace->costs[rank].ns += ns;
    trace->costs[rank].calls += ns >= (double)COUNTED_NS;
}

/** How long a call's rank waited in it, if it spent that time itself. */
static int64_t waited_in(const struct kolo_trace *trace, const struct kolo_trace_call *call)
{
    const int64_t entered_ns = kolo_trace_entered(&call->record);
    if (entered_ns == 0 || !kolo_trace_is_of_rank(&call->record))
        return 0;
    return kolo_trace_waited(trace, call, entered_ns, kolo_trace_end(trace, call));
}

/** Adds a wait from @p from_ns to @p to_ns to the gaps that it overlaps. */
static void add_wait(struct matching *matching, int64_t from_ns, int64_t to_ns)
{
    size_t low = 0, high = matching->count - 1; /* the gap is in low to high - 1 */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (matching->members[middle].ns <= from_ns)
            low = middle;
        else
            high = middle;
    }
    for (size_t gap = low; gap + 1 < matching->count; gap++) {
        const int64_t begin_ns = matching->members[gap].ns, end_ns = matching->members[gap + 1].ns;
        const int64_t first_ns = from_ns > begin_ns ? from_ns : begin_ns;
        const int64_t last_ns = to_ns < end_ns ? to_ns : end_ns;
        if (begin_ns >= to_ns)
            return;
        if (first_ns < last_ns)
            matching->gaps[gap] += (double)(last_ns - first_ns);
    }
}

/** At each moment, the waiting is divided among the ranks that have not come yet, so that two late
 * ranks do not hide each other. */
static void share(const struct kolo_trace_group *group, struct matching *matching)
{
    struct kolo_trace *trace = group->trace;
    const size_t count = matching->count;
    double sum = 0;
    memset(matching->gaps, 0, count * sizeof *matching->gaps);
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[group->calls[i]];
        const int64_t waited_ns = waited_in(trace, call);
        if (waited_ns == 0)
            continue;
        const int64_t from_ns =
            kolo_trace_time(trace, &trace->tracks[call->track], kolo_trace_entered(&call->record));
        add_wait(matching, from_ns, from_ns + waited_ns);
    }
    for (size_t gap = 0; gap + 1 < count; gap++) {
        sum += matching->gaps[gap] / (double)(count - 1 - gap);
        charge(trace, matching->members[gap + 1].rank, sum);
    }
}

static void charge_all(const struct kolo_trace_group *group, int rank)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < group->count; i++)
        sum_ns += waited_in(group->trace, &group->trace->calls[group->calls[i]]);
    charge(group->trace, rank, (double)sum_ns);
}

static void match_collective(const struct kolo_trace_group *group, struct matching *matching)
{
    struct kolo_trace *trace = group->trace;
    const uint32_t comm = trace->calls[group->calls[0]].record.comm;
    const int root = root_of(group);
    struct member last;
    if (comm != matching->comm || matching->epoch == 0) {
        matching->comm = comm;
        matching->epoch++;
    }
    if (!look(group, matching))
        return;
    if (root != KOLO_TRACE_NOBODY ? !find_root(group, matching, root, &last)
                                  : !find_last(group, matching, &last))
        return;
    for (size_t i = 0; i < group->count; i++) {
        trace->calls[group->calls[i]].last = last.rank;
        trace->calls[group->calls[i]].arrived_ns = last.ns;
    }
    if (comm == KOLO_TIMELINE_NO_COMM || trace->calls[group->calls[0]].record.size < 2)
        return;
    trace->matched++;
    if (root != KOLO_TRACE_NOBODY)
        charge_all(group, root);
    else
        share(group, matching);
}

/** The number of records of a message that have @p shape, and the last of them. */
static size_t find(const struct kolo_trace_group *group, enum kolo_timeline_shape shape,
                   struct kolo_trace_call **call_out)
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct kolo_trace_call *call = &group->trace->calls[group->calls[i]];
        if (kolo_timeline_shape(&call->record) != shape)
            continue;
        *call_out = call;
        count++;
    }
    return count;
}

/** All records of a message except its send waited for @p sender until @p arrived_ns. */
static void blame(const struct kolo_trace_group *group, int sender, int64_t arrived_ns)
{
    for (size_t i = 0; i < group->count; i++) {
        struct kolo_trace_call *call = &group->trace->calls[group->calls[i]];
        if (kolo_timeline_shape(&call->record) == KOLO_SHAPE_SEND)
            continue;
        call->last = sender;
        call->arrived_ns = arrived_ns;
    }
    group->trace->matched++;
    charge_all(group, sender);
}

/** A receive that failed, or has not ended, and whose send was never begun. */
static void match_lone(const struct kolo_trace_group *group, const struct kolo_trace_call *recv,
                       const struct matching *matching)
{
    const int sender = recv->record.peer;
    const uint32_t track = matching->track_of[sender];
    if (is_stuck(group) && (track == 0 || group->trace->tracks[track - 1].dropped == 0))
        blame(group, sender, never_ns);
}

static void match_message(const struct kolo_trace_group *group, struct matching *matching)
{
    struct kolo_trace *trace = group->trace;
    struct kolo_trace_call *send, *recv;
    int64_t arrived_ns;
    const size_t sends = find(group, KOLO_SHAPE_SEND, &send);
    if (find(group, KOLO_SHAPE_RECV, &recv) != 1)
        return;
    if (sends == 0) {
        match_lone(group, recv, matching);
    } else if (sends == 1 && arrival(trace, send, &arrived_ns)) {
        send->message = recv->message = ++matching->messages;
        blame(group, trace->tracks[send->track].rank, arrived_ns);
    }
}

static kolo_status match(const struct kolo_trace_group *group, void *context)
{
    const struct kolo_timeline_record *first = &group->trace->calls[group->calls[0]].record;
    if (is_of_message(first))
        match_message(group, context);
    else
        match_collective(group, context);
    return KOLO_OK;
}

kolo_status kolo_trace_match(struct kolo_trace *trace)
{
    const size_t size = (size_t)trace->size;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (trace->track_count == 0)
        return KOLO_OK;
    struct matching matching = {.seen = kolo_calloc(size, sizeof *matching.seen),
                                .track_of = kolo_calloc(size, sizeof *matching.track_of),
                                .members = kolo_calloc(size, sizeof *matching.members),
                                .gaps = kolo_calloc(size, sizeof *matching.gaps)};
    trace->costs = kolo_calloc(size, sizeof *trace->costs);
    if (!matching.seen || !matching.track_of || !matching.members || !matching.gaps ||
        !trace->costs)
        goto out;
    for (uint32_t i = 0; i < trace->track_count; i++)
        matching.track_of[trace->tracks[i].rank] = i + 1;
    status = kolo_trace_groups(trace, match, &matching);
out:
    kolo_free_memory(matching.seen);
    kolo_free_memory(matching.track_of);
    kolo_free_memory(matching.members);
    kolo_free_memory(matching.gaps);
    return status;
}
