// SPDX-License-Identifier: Apache-2.0
// Collectives as moves, and the division of all moves into equal shares. Pure functions.
#include "runtime/board_moves.h"

/** Whether there is a single move, of the whole vector. */
static bool is_whole(enum kolo_collective collective)
{
    return collective == KOLO_COLLECTIVE_ALLREDUCE || collective == KOLO_COLLECTIVE_REDUCE ||
           collective == KOLO_COLLECTIVE_BROADCAST;
}

const char *kolo_moves_fit(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    if (collective == KOLO_COLLECTIVE_ALLTOALL && args->counts)
        return "each rank knows only its own blocks' offsets";
    return NULL;
}

size_t kolo_moves_count(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    if (collective == KOLO_COLLECTIVE_BARRIER)
        return 0;
    size_t n = (size_t)args->size;
    if (collective == KOLO_COLLECTIVE_ALLTOALL)
        return n * n;
    return is_whole(collective) ? 1 : n;
}

void kolo_moves_at(enum kolo_collective collective, const struct kolo_plan_args *args, size_t index,
                   struct kolo_move *move_out)
{
    bool is_one = is_whole(collective), is_alltoall = collective == KOLO_COLLECTIVE_ALLTOALL;
    size_t n = (size_t)args->size;
    int rank = (int)(is_alltoall ? index / n : index);
    /* so that not all read from one at once */
    int sender = (int)(is_alltoall ? (index + (size_t)rank) % n : 0);
    size_t block = is_one ? args->count : kolo_plan_block(args, rank);
    size_t at = is_one ? 0 : kolo_plan_block_offset(args, rank);
    struct kolo_move move = {.from = KOLO_EVERY, .to = KOLO_EVERY, .count = block};
    switch (collective) {
    case KOLO_COLLECTIVE_REDUCE:
        move.to = args->root;
        break;
    case KOLO_COLLECTIVE_BROADCAST:
        move.from = args->root;
        break;
    case KOLO_COLLECTIVE_ALLGATHER:
        move.from = rank;
        move.recv_at = at;
        break;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
        move.to = rank;
        move.send_at = at;
        break;
    case KOLO_COLLECTIVE_GATHER:
        move.from = rank;
        move.to = args->root;
        move.recv_at = at;
        break;
    case KOLO_COLLECTIVE_SCATTER:
        move.from = args->root;
        move.to = rank;
        move.send_at = at;
        break;
    case KOLO_COLLECTIVE_ALLTOALL:
        move.from = sender;
        move.to = rank;
        move.send_at = at;
        move.recv_at = block * (size_t)sender;
        break;
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    *move_out = move;
}

static void extend(size_t *extent, size_t at, size_t count)
{
    if (count > 0 && at + count > *extent)
        *extent = at + count;
}

size_t kolo_moves_to(enum kolo_collective collective, const struct kolo_plan_args *args, int member,
                     size_t *first_out)
{
    size_t count = kolo_moves_count(collective, args), n = (size_t)args->size;
    bool is_own_block =
        collective == KOLO_COLLECTIVE_REDUCE_SCATTER || collective == KOLO_COLLECTIVE_SCATTER;
    bool is_rooted = collective == KOLO_COLLECTIVE_REDUCE || collective == KOLO_COLLECTIVE_GATHER;
    *first_out = 0;
    if (collective == KOLO_COLLECTIVE_ALLTOALL) {
        *first_out = (size_t)member * n;
        return n;
    }
    if (is_own_block) {
        *first_out = (size_t)member;
        return 1;
    }
    return is_rooted && member != args->root ? 0 : count;
}

/** Elements of a member's SEND and RECV, if it has them and all blocks have the same length. */
static void even_extent(enum kolo_collective collective, const struct kolo_plan_args *args,
                        bool is_root, size_t *send_out, size_t *recv_out)
{
    size_t one = args->count, all = args->count * (size_t)args->size;
    *send_out = *recv_out = 0;
    switch (collective) {
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
    case KOLO_COLLECTIVE_BROADCAST:
        *send_out = collective != KOLO_COLLECTIVE_BROADCAST || is_root ? one : 0;
        *recv_out = collective != KOLO_COLLECTIVE_REDUCE || is_root ? one : 0;
        break;
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        *send_out = one;
        *recv_out = collective == KOLO_COLLECTIVE_ALLGATHER || is_root ? all : 0;
        break;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        *send_out = collective == KOLO_COLLECTIVE_REDUCE_SCATTER || is_root ? all : 0;
        *recv_out = one;
        break;
    case KOLO_COLLECTIVE_ALLTOALL:
        *send_out = *recv_out = all;
        break;
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
}

void kolo_moves_extent(enum kolo_collective collective, const struct kolo_plan_args *args,
                       int member, size_t *send_out, size_t *recv_out)
{
    size_t count = kolo_moves_count(collective, args);
    if (!args->counts) {
        even_extent(collective, args, member == args->root, send_out, recv_out);
        return;
    }
    *send_out = *recv_out = 0;
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        if (move.from == KOLO_EVERY || move.from == member)
            extend(send_out, move.send_at, move.count);
        if (move.to == KOLO_EVERY || move.to == member)
            extend(recv_out, move.recv_at, move.count);
    }
}

/* ---- shares ---- */

struct position {
    size_t index, at;
};

static size_t total_of(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    size_t total = 0, count = kolo_moves_count(collective, args);
    if (!args->counts)
        return count * args->count; /* all moves have the same length */
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        total += move.count;
    }
    return total;
}

/** The position of element @p target in the concatenation of all moves, rounded down to @p align
 * inside a move. */
static struct position find(enum kolo_collective collective, const struct kolo_plan_args *args,
                            size_t target, size_t align)
{
    size_t count = kolo_moves_count(collective, args), each = args->count;
    if (!args->counts && (each == 0 || target / each >= count))
        return (struct position){count, 0};
    if (!args->counts)
        return (struct position){target / each, target % each - target % each % align};
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        if (target < move.count)
            return (struct position){i, target - target % align};
        target -= move.count;
    }
    return (struct position){count, 0};
}

void kolo_share_begin(enum kolo_collective collective, const struct kolo_plan_args *args, int part,
                      int parts, size_t align, struct kolo_share *share_out)
{
    size_t total = total_of(collective, args), n = (size_t)parts, r = (size_t)part;
    size_t each = total / n, rest = total % n;
    struct position first = find(collective, args, each * r + rest * r / n, align);
    struct position last = find(collective, args, each * (r + 1) + rest * (r + 1) / n, align);
    *share_out = (struct kolo_share){.collective = collective,
                                     .args = args,
                                     .index = first.index,
                                     .at = first.at,
                                     .last = last.index,
                                     .last_at = last.at};
}

bool kolo_share_is_over(const struct kolo_share *share)
{
    return share->index > share->last ||
           (share->index == share->last && share->at >= share->last_at);
}

bool kolo_share_next(struct kolo_share *share, size_t most, struct kolo_move *move_out)
{
    while (!kolo_share_is_over(share)) {
        struct kolo_move move;
        kolo_moves_at(share->collective, share->args, share->index, &move);
        size_t end = share->index < share->last ? move.count : share->last_at;
        size_t count = end - share->at;
        if (count == 0) {
            share->index++;
            share->at = 0;
            continue;
        }
        if (count > most)
            count = most;
        move.send_at += share->at;
        move.recv_at += share->at;
        move.count = count;
        share->at += count;
        if (share->at == end && share->index < share->last) {
            share->index++;
            share->at = 0;
        }
        *move_out = move;
        return true;
    }
    return false;
}
