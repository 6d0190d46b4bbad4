// SPDX-License-Identifier: Apache-2.0
// Finds the same call on all ranks, and who came last to it. A collective is known by communicator
// and sequence number, which nobody gives out twice; a message by communicator, sender, receiver
// and its number between the two. Waits belong to the collective that they wait for.
#include "launcher/trace.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Sorts what belongs together side by side, in the order of ranks. */
struct key {
    uint64_t comm_sequence, ends; /* from and to, of a message */
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

static bool key_of(const struct kolo_trace *trace, uint32_t index, struct key *key_out)
{
    const struct kolo_trace_call *call = &trace->calls[index];
    const struct kolo_timeline_record *record = &call->record;
    const uint32_t mine = (uint32_t)trace->tracks[call->track].rank, other = (uint32_t)record->peer;
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    uint64_t ends = no_ends;
    if (shape == KOLO_SHAPE_SEND)
        ends = (uint64_t)mine << 32 | other;
    else if (shape == KOLO_SHAPE_RECV)
        ends = (uint64_t)other << 32 | mine;
    *key_out = (struct key){(uint64_t)record->comm << 32 | record->sequence, ends, index, 0};
    return shape != KOLO_SHAPE_OWN && (shape != KOLO_SHAPE_WAIT || record->plan != 0);
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
    struct key *keys = kolo_calloc(trace->call_count, sizeof(*keys));
    uint32_t *calls = kolo_calloc(trace->call_count, sizeof(*calls));
    if (keys == NULL || calls == NULL)
        goto out;
    for (uint32_t i = 0; i < trace->call_count; i++)
        count += key_of(trace, i, &keys[count]);
    if (count > 0)
        qsort(keys, count, sizeof(*keys), by_key);
    status = for_each(trace, keys, count, calls, fn, context);
out:
    kolo_free_memory(keys);
    kolo_free_memory(calls);
    return status;
}

/* ---- who came last ---- */

/** When a call's turn had come, by the first clock; false: it has not. */
static bool arrival(const struct kolo_trace *trace, const struct kolo_trace_call *call,
                    int64_t *ns_out)
{
    const int64_t entered = kolo_trace_entered(&call->record);
    if (entered == 0)
        return false;
    *ns_out = kolo_trace_time(trace, &trace->tracks[call->track], entered);
    return true;
}

struct arrivals {
    size_t members;
    bool are_all; /* that the communicator has */
    int last;
    int64_t last_ns, before_ns; /* of the last, and of the one before it */
};

/** The members of a collective. False: they are none that could be one call (a rank is in it
 * twice). */
static bool look(const struct kolo_trace_group *group, struct arrivals *found)
{
    const struct kolo_trace *trace = group->trace;
    int before = KOLO_TRACE_NOBODY;
    uint32_t size = 0;
    *found =
        (struct arrivals){.last = KOLO_TRACE_NOBODY, .last_ns = INT64_MIN, .before_ns = INT64_MIN};
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[group->calls[i]];
        const int rank = trace->tracks[call->track].rank;
        int64_t ns;
        if (kolo_timeline_shape(&call->record) == KOLO_SHAPE_WAIT)
            continue;
        if (rank == before || (found->members > 0 && call->record.size != size))
            return false;
        before = rank;
        size = call->record.size;
        found->members++;
        if (!arrival(trace, call, &ns))
            return false;
        if (ns >= found->last_ns) {
            found->before_ns = found->last_ns;
            found->last_ns = ns;
            found->last = rank;
        } else if (ns > found->before_ns) {
            found->before_ns = ns;
        }
    }
    found->are_all = found->members == size;
    return found->members > 0;
}

/** The root of a broadcast that waits for nobody, as the last. */
static void look_for_root(const struct kolo_trace_group *group, struct arrivals *found)
{
    const struct kolo_trace *trace = group->trace;
    found->are_all = false;
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[group->calls[i]];
        const int rank = trace->tracks[call->track].rank;
        if (kolo_timeline_shape(&call->record) != KOLO_SHAPE_ROOT || call->record.peer != rank)
            continue;
        found->are_all = arrival(trace, call, &found->last_ns);
        found->last = rank;
    }
}

static bool is_rooted(const struct kolo_trace_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (kolo_timeline_shape(&group->trace->calls[group->calls[i]].record) == KOLO_SHAPE_ROOT)
            return true;
    return false;
}

static kolo_status keep_late(struct kolo_trace *trace, const struct arrivals *found)
{
    void *lates = trace->lates;
    kolo_status status =
        kolo_grow(&lates, &trace->late_capacity, trace->late_count + 1, sizeof(*trace->lates));
    if (status != KOLO_OK)
        return status;
    trace->lates = lates;
    trace->lates[trace->late_count++] =
        (struct kolo_trace_late){found->last, found->last_ns - found->before_ns};
    return KOLO_OK;
}

static kolo_status match_collective(const struct kolo_trace_group *group)
{
    struct kolo_trace *trace = group->trace;
    struct arrivals found;
    if (!look(group, &found))
        return KOLO_OK;
    const bool has_root = is_rooted(group);
    if (has_root)
        look_for_root(group, &found);
    if (!found.are_all)
        return KOLO_OK;
    for (size_t i = 0; i < group->count; i++) {
        trace->calls[group->calls[i]].last = found.last;
        trace->calls[group->calls[i]].arrived_ns = found.last_ns;
    }
    const bool is_start = trace->calls[group->calls[0]].record.comm == KOLO_TIMELINE_NO_COMM;
    return has_root || is_start || found.members < 2 ? KOLO_OK : keep_late(trace, &found);
}

static void match_message(const struct kolo_trace_group *group, uint32_t *messages)
{
    struct kolo_trace *trace = group->trace;
    if (group->count != 2)
        return;
    struct kolo_trace_call *send = &trace->calls[group->calls[0]];
    struct kolo_trace_call *recv = &trace->calls[group->calls[1]];
    if (kolo_timeline_shape(&send->record) == KOLO_SHAPE_RECV) {
        struct kolo_trace_call *other = send;
        send = recv;
        recv = other;
    }
    if (kolo_timeline_shape(&send->record) != KOLO_SHAPE_SEND ||
        kolo_timeline_shape(&recv->record) != KOLO_SHAPE_RECV ||
        !arrival(trace, send, &recv->arrived_ns))
        return;
    recv->last = trace->tracks[send->track].rank;
    send->message = recv->message = ++*messages;
}

static kolo_status match(const struct kolo_trace_group *group, void *context)
{
    const struct kolo_timeline_record *first = &group->trace->calls[group->calls[0]].record;
    if (kolo_timeline_shape(first) != KOLO_SHAPE_SEND &&
        kolo_timeline_shape(first) != KOLO_SHAPE_RECV)
        return match_collective(group);
    match_message(group, context);
    return KOLO_OK;
}

kolo_status kolo_trace_match(struct kolo_trace *trace)
{
    uint32_t messages = 0;
    return kolo_trace_groups(trace, match, &messages);
}
