// SPDX-License-Identifier: Apache-2.0
// The way for small vectors: each member puts up all that it contributes, and takes what it needs
// from what the others put up. One flag, seen once: whoever has seen all members enter is over, and
// in a broadcast whoever has seen the root. A contribution stays up until all have taken it, which
// route_board.c sees to before it enters the next.
//
// Ordinary stores have to take each line back from the caches of those who read what stood there
// before, and stores round the caches are read from memory: which is faster turns on how far the
// cores are from each other. Each member tries both on long contributions to collectives in which
// all put and take as much, and is told by how long it is in the call: what a store costs may only
// show while others wait for it. The other collectives go by what the latest of those went by. A
// call that might have gone as a oneshot, and does not, is no use: all know that once all have
// entered.
#include <string.h>

#include "runtime/board_hub.h"

enum {
    RETAKEN_BYTES = 8 << 10, /* of lines at most that are had back before they are needed */
    BOTH = 1 << KOLO_STORE_CACHED | 1 << KOLO_STORE_STREAM,
    MOVES_KEPT = sizeof((struct kolo_oneshot){0}.moves) / sizeof(struct kolo_move)
};

/** Where in @p member's stage its contribution to number @p number stands. */
static uint8_t *place_of(const struct kolo_hub *hub, int member, uint64_t number)
{
    uint8_t *stage = hub->members[member].stage;
    if (hub->is_short)
        return stage + KOLO_BOARD_SHORT_AT + number % KOLO_BOARD_ENTRIES * KOLO_BOARD_SHORT_BYTES;
    return stage + number % KOLO_BOARD_SHOWN * KOLO_BOARD_ONESHOT_BYTES;
}

/** The next contribution will be as long as this one, as a guess. Its place has been read by the
 * others, nearly always: the lines are had back now, not when the next call needs them. */
static void take_lines_back(const struct kolo_hub *hub, size_t bytes)
{
    uint64_t next = hub->number + 1;
    const uint8_t *data = place_of(hub, hub->self, next);
    __builtin_prefetch(&hub->members[hub->self].notes->entries[next % KOLO_BOARD_ENTRIES], 1);
    for (size_t at = 0; !hub->is_inline && at < bytes && at < RETAKEN_BYTES; at += KOLO_BOARD_LINE)
        __builtin_prefetch(data + at, 1);
}

/** Elements of the longest contribution. */
static size_t longest(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    size_t elements = 0, count = kolo_moves_count(collective, args), unused;
    if (args->counts == NULL) {
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

/** What @p member has put up. */
static uint8_t *put_up(const struct kolo_hub *hub, int member)
{
    return hub->is_inline ? kolo_hub_entry(hub, member)->data : place_of(hub, member, hub->number);
}

/** Of which trials a collective takes its way: 0 to KOLO_SHOWS_KINDS - 1, or -1. */
static int kind_of(enum kolo_collective collective)
{
    static const enum kolo_collective kinds[KOLO_SHOWS_KINDS] = {
        KOLO_COLLECTIVE_ALLREDUCE, KOLO_COLLECTIVE_ALLGATHER, KOLO_COLLECTIVE_ALLTOALL,
        KOLO_COLLECTIVE_REDUCE_SCATTER};
    for (int kind = 0; kind < KOLO_SHOWS_KINDS; kind++)
        if (kinds[kind] == collective)
            return kind;
    return -1; /* not all members put and take as much */
}

/** The same on all members: those of long contributions of that many bytes, or NULL. */
static struct kolo_trials *trials_of(struct kolo_hub *hub, size_t bytes)
{
    const int kind = kind_of(hub->collective);
    const size_t twice_long = (size_t)2 * KOLO_BOARD_LONG_BYTES;
    int length = 0;
    if (kind < 0 || hub->running->args.counts != NULL)
        return NULL;
    while (length < KOLO_SHOWS_LENGTHS - 1 && bytes >= twice_long << length)
        length++;
    return &hub->shows.trials[kind][length];
}

/** Finds out what this member does in the running collective, unless an earlier start has. */
static const struct kolo_oneshot *find_out(struct kolo_hub *hub)
{
    struct kolo_oneshot *oneshot = &hub->running->oneshot;
    const struct kolo_plan_args *args = &hub->running->args;
    size_t send, recv;
    if (oneshot->is_known)
        return oneshot;
    size_t most = longest(hub->collective, args) * hub->element_bytes;
    oneshot->is_inline = hub->is_oneshot && most <= KOLO_BOARD_INLINE_BYTES;
    oneshot->is_short = hub->is_oneshot && !oneshot->is_inline && most <= KOLO_BOARD_SHORT_BYTES &&
                        hub->collective == KOLO_COLLECTIVE_BROADCAST;
    kolo_moves_extent(hub->collective, args, hub->self, &send, &recv);
    oneshot->put_bytes = send * hub->element_bytes;
    oneshot->count = kolo_moves_to(hub->collective, args, hub->self, &oneshot->first);
    for (size_t i = 0; i < oneshot->count && i < MOVES_KEPT; i++)
        kolo_moves_at(hub->collective, args, oneshot->first + i, &oneshot->moves[i]);
    oneshot->is_known = true;
    return oneshot;
}

void kolo_oneshot_choose(struct kolo_hub *hub)
{
    struct kolo_shows *shows = &hub->shows;
    const size_t bytes = find_out(hub)->put_bytes;
    bool is_measured = false;
    shows->how = KOLO_STORE_CACHED;
    if (bytes < KOLO_BOARD_LONG_BYTES)
        return;
    struct kolo_trials *trials = trials_of(hub, bytes);
    if (trials == NULL) {
        shows->how = shows->found;
        return;
    }
    trials->is_even = true;
    shows->how = (enum kolo_store_how)kolo_trials_take(trials, BOTH, &is_measured);
    if (is_measured)
        shows->measured = trials;
    else
        shows->found = shows->how;
}

void kolo_oneshot_unchoose(struct kolo_hub *hub)
{
    struct kolo_shows *shows = &hub->shows;
    if (shows->measured != NULL)
        kolo_trials_untake(shows->measured, (int)shows->how);
    shows->measured = NULL;
}

void kolo_oneshot_put(struct kolo_hub *hub)
{
    const struct kolo_oneshot *oneshot = find_out(hub);
    hub->is_inline = oneshot->is_inline;
    hub->is_short = oneshot->is_short;
    if (oneshot->put_bytes == 0)
        return;
    if (!hub->is_inline && !hub->is_short) /* else no more than as many as there are entries */
        hub->shown[hub->number % KOLO_BOARD_SHOWN] = hub->number;
    if (hub->shows.measured != NULL)
        hub->shows.began_ns = kolo_now_ns();
    kolo_copy(put_up(hub, hub->self), hub->running->send, oneshot->put_bytes, hub->shows.how);
}

/** To this member. */
static void take(struct kolo_hub *hub, const struct kolo_move *move)
{
    struct kolo_move mine = *move;
    mine.to = hub->self;
    if (move->count > 0)
        kolo_hub_move(hub, &mine);
}

static void take_all(struct kolo_hub *hub, const struct kolo_oneshot *oneshot)
{
    const struct kolo_request *request = hub->running;
    hub->how = KOLO_STORE_CACHED;
    take_lines_back(hub, oneshot->put_bytes);
    for (int member = 0; member < hub->count; member++)
        hub->members[member].send = put_up(hub, member);
    hub->members[hub->self].send = (uint8_t *)(uintptr_t)request->send; /* only read */
    hub->members[hub->self].recv = request->recv;
    for (size_t i = 0; i < oneshot->count; i++) {
        struct kolo_move move;
        if (i >= MOVES_KEPT)
            kolo_moves_at(hub->collective, &request->args, oneshot->first + i, &move);
        take(hub, i < MOVES_KEPT ? &oneshot->moves[i] : &move);
    }
}

void kolo_oneshot_take(struct kolo_hub *hub)
{
    const struct kolo_oneshot *oneshot = find_out(hub);
    struct kolo_shows *shows = &hub->shows;
    take_all(hub, oneshot);
    if (shows->measured != NULL)
        kolo_trials_note(shows->measured, (int)shows->how,
                         (double)(kolo_now_ns() - shows->began_ns));
    shows->measured = NULL;
}
