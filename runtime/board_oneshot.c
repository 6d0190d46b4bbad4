// SPDX-License-Identifier: Apache-2.0
// The way for short vectors: each member publishes its whole contribution, and takes what it needs
// from those of the others. There is one synchronisation: a member that has seen all others enter
// (in a broadcast: the root) is done. A contribution remains until all have taken it; route_board.c
// ensures that before it enters the next call.
//
// An ordinary store must first fetch each line back from the caches of the members that read it in
// the previous call; data stored past the caches is read from memory. Which is faster depends on
// the distance between the cores. So each member tries both, for long contributions to collectives
// in which all members publish and take the same amount, and judges by the duration of the whole
// call, because the cost of a store may show only while others wait for it. The other collectives
// use the latest result of these. A trial in a call that might have run as a oneshot, but did not,
// is discarded; all members know that once all have entered.
#include <string.h>

#include "runtime/board_hub.h"

enum {
    RETAKEN_BYTES = 8 << 10, /* at most this much of the lines is fetched back in advance */
    BOTH = 1 << KOLO_STORE_CACHED | 1 << KOLO_STORE_STREAM,
    MOVES_KEPT = sizeof((struct kolo_oneshot){0}.moves) / sizeof(struct kolo_move)
};

/** The place of contribution number @p number in @p member's stage. */
static uint8_t *place_of(const struct kolo_hub *hub, int member, uint64_t number)
{
    uint8_t *stage = hub->members[member].stage;
    if (hub->run.is_short)
        return stage + KOLO_BOARD_SHORT_AT + number % KOLO_BOARD_ENTRIES * KOLO_BOARD_SHORT_BYTES;
    return stage + number % KOLO_BOARD_SHOWN * KOLO_BOARD_ONESHOT_BYTES;
}

/** Fetches the lines of the next contribution, which is assumed to be as long as this one. Nearly
 * always the others have read its place by now, so the lines can come back before the next call
 * needs them. */
static void take_lines_back(const struct kolo_hub *hub, size_t bytes)
{
    uint64_t next = hub->number + 1;
    const uint8_t *data = place_of(hub, hub->self, next);
    __builtin_prefetch(&hub->members[hub->self].notes->entries[next % KOLO_BOARD_ENTRIES], 1);
    for (size_t at = 0; !hub->run.is_inline && at < bytes && at < RETAKEN_BYTES;
         at += KOLO_BOARD_LINE)
        __builtin_prefetch(data + at, 1);
}

/** Elements of the longest contribution. */
static size_t longest(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    size_t elements = 0, count = kolo_moves_count(collective, args), unused;
    if (!args->counts) {
        kolo_moves_extent(collective, args, args->root, &elements, &unused);
        return elements;
    }
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        if (move.send_at + move.count > elements)
            elements = move.send_at + move.count;
    }
    return elements;
}

size_t kolo_oneshot_bytes(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow(longest(collective, args), element_bytes, &bytes) ? SIZE_MAX
                                                                                    : bytes;
}

/** The contribution of @p member. */
static uint8_t *put_up(const struct kolo_hub *hub, int member)
{
    return hub->run.is_inline ? kolo_hub_entry(hub, member)->data
                              : place_of(hub, member, hub->number);
}

/** The index of the trials for a collective, 0 to KOLO_SHOWS_KINDS - 1; -1: it has none. */
static int kind_of(enum kolo_collective collective)
{
    static const enum kolo_collective kinds[KOLO_SHOWS_KINDS] = {
        KOLO_COLLECTIVE_ALLREDUCE, KOLO_COLLECTIVE_ALLGATHER, KOLO_COLLECTIVE_ALLTOALL,
        KOLO_COLLECTIVE_REDUCE_SCATTER};
    for (int kind = 0; kind < KOLO_SHOWS_KINDS; kind++)
        if (kinds[kind] == collective)
            return kind;
    return -1; /* members publish or take different amounts */
}

/** The trials for contributions of this many bytes, the same on all members; NULL: none. */
static struct kolo_trials *trials_of(struct kolo_hub *hub, size_t bytes)
{
    const int kind = kind_of(hub->run.collective);
    const size_t twice_long = (size_t)2 * KOLO_BOARD_LONG_BYTES;
    int length = 0;
    if (kind < 0 || hub->run.request->args.counts)
        return NULL;
    while (length < KOLO_SHOWS_LENGTHS - 1 && bytes >= twice_long << length)
        length++;
    return &hub->shows.trials[kind][length];
}

/** Determines what this member does in the running collective, unless an earlier start has done
 * so. */
static const struct kolo_oneshot *find_out(struct kolo_hub *hub)
{
    struct kolo_oneshot *oneshot = &hub->run.request->oneshot;
    const struct kolo_plan_args *args = &hub->run.request->args;
    size_t send, recv;
    if (oneshot->is_known)
        return oneshot;
    size_t most = longest(hub->run.collective, args) * hub->run.element_bytes;
    oneshot->is_inline = hub->run.is_oneshot && most <= KOLO_BOARD_INLINE_BYTES;
    oneshot->is_short = hub->run.is_oneshot && !oneshot->is_inline &&
                        most <= KOLO_BOARD_SHORT_BYTES &&
                        hub->run.collective == KOLO_COLLECTIVE_BROADCAST;
    kolo_moves_extent(hub->run.collective, args, hub->self, &send, &recv);
    oneshot->put_bytes = send * hub->run.element_bytes;
    oneshot->count = kolo_moves_to(hub->run.collective, args, hub->self, &oneshot->first);
    for (size_t i = 0; i < oneshot->count && i < MOVES_KEPT; i++)
        kolo_moves_at(hub->run.collective, args, oneshot->first + i, &oneshot->moves[i]);
    oneshot->is_known = true;
    return oneshot;
}

void kolo_oneshot_choose(struct kolo_hub *hub)
{
    struct kolo_shows *shows = &hub->shows;
    const size_t bytes = find_out(hub)->put_bytes;
    bool is_measured = false;
    shows->how = KOLO_STORE_CACHED;
    shows->taken = NULL;
    if (bytes < KOLO_BOARD_LONG_BYTES)
        return;
    struct kolo_trials *trials = trials_of(hub, bytes);
    if (!trials) {
        shows->how = shows->found;
        return;
    }
    trials->is_even = true;
    shows->taken = trials;
    shows->before = *trials;
    shows->found_before = shows->found;
    shows->how = (enum kolo_store_how)kolo_trials_take(trials, BOTH, &is_measured);
    if (is_measured)
        shows->measured = trials;
    else
        shows->found = shows->how;
}

void kolo_oneshot_unchoose(struct kolo_hub *hub)
{
    struct kolo_shows *shows = &hub->shows;
    if (shows->taken) {
        *shows->taken = shows->before;
        shows->found = shows->found_before;
    }
    shows->taken = shows->measured = NULL;
}

kolo_status kolo_oneshot_put(struct kolo_hub *hub)
{
    const struct kolo_oneshot *oneshot = find_out(hub);
    hub->run.is_inline = oneshot->is_inline;
    hub->run.is_short = oneshot->is_short;
    if (oneshot->put_bytes == 0)
        return KOLO_OK;
    if (!hub->run.is_inline && !hub->has_shown) {
        const kolo_status status = kolo_board_reserve(hub->board, KOLO_BOARD_SHOWN_BYTES);
        if (status != KOLO_OK)
            return status;
        hub->has_shown = true;
    }
    if (!hub->run.is_inline && !hub->run.is_short) /* the others have a place for each entry */
        hub->shown[hub->number % KOLO_BOARD_SHOWN] = hub->number;
    if (hub->shows.measured)
        hub->shows.began_ns = kolo_now_ns();
    kolo_copy(put_up(hub, hub->self), hub->run.request->send, oneshot->put_bytes, hub->shows.how);
    return KOLO_OK;
}

/** Runs @p move to this member only. */
static void take(struct kolo_hub *hub, const struct kolo_move *move)
{
    struct kolo_move mine = *move;
    mine.to = hub->self;
    if (move->count > 0)
        kolo_hub_move(hub, &mine);
}

static void take_all(struct kolo_hub *hub, const struct kolo_oneshot *oneshot)
{
    const struct kolo_request *request = hub->run.request;
    hub->run.how = KOLO_STORE_CACHED;
    take_lines_back(hub, oneshot->put_bytes);
    for (int member = 0; member < hub->count; member++)
        hub->members[member].send = put_up(hub, member);
    hub->members[hub->self].send = (uint8_t *)(uintptr_t)request->send; /* only read */
    hub->members[hub->self].recv = request->recv;
    for (size_t i = 0; i < oneshot->count; i++) {
        struct kolo_move move;
        if (i >= MOVES_KEPT)
            kolo_moves_at(hub->run.collective, &request->args, oneshot->first + i, &move);
        take(hub, i < MOVES_KEPT ? &oneshot->moves[i] : &move);
    }
}

void kolo_oneshot_take(struct kolo_hub *hub)
{
    const struct kolo_oneshot *oneshot = find_out(hub);
    struct kolo_shows *shows = &hub->shows;
    take_all(hub, oneshot);
    if (shows->measured)
        kolo_trials_note(shows->measured, (int)shows->how,
                         (double)(kolo_now_ns() - shows->began_ns));
    shows->taken = shows->measured = NULL;
}
