// SPDX-License-Identifier: Apache-2.0
// A collective as a set of moves: pure functions from the arguments to who reads what and who
// writes where, for ranks that see each other's memory. No I/O, no allocation. The moves of a
// collective may run in any order and at the same time, because
//   - each element of a result is written by exactly one move;
//   - no other move reads what a move writes, even if SEND and RECV share memory as kolo.h allows
//     it (then the element is that move's own input, at the same address).
#ifndef KOLO_RUNTIME_BOARD_MOVES_H
#define KOLO_RUNTIME_BOARD_MOVES_H

#include "runtime/plan.h"

enum { KOLO_EVERY = -1 };

/** RECV[recv_at + i] of @p to = SEND[send_at + i] of @p from, for i < count. From KOLO_EVERY: the
 * fold of all members' SEND, in the order of ranks. To KOLO_EVERY: into every member's RECV. */
struct kolo_move {
    int from, to;
    size_t send_at, recv_at, count;
};

/** NULL, or why the collective has no moves. The other functions may be called only if it is
 * NULL. */
const char *kolo_moves_fit(enum kolo_collective collective, const struct kolo_plan_args *args);
/** The number of moves. It does not depend on args->rank or args->in_place, so all members
 * agree. */
size_t kolo_moves_count(enum kolo_collective collective, const struct kolo_plan_args *args);
void kolo_moves_at(enum kolo_collective collective, const struct kolo_plan_args *args, size_t index,
                   struct kolo_move *move_out);
/** The number of moves to @p member; they are consecutive, from index *first_out on. */
size_t kolo_moves_to(enum kolo_collective collective, const struct kolo_plan_args *args, int member,
                     size_t *first_out);
/** The number of elements, from the start of SEND and RECV of @p member, that any move uses; 0: it
 * has no such buffer. */
void kolo_moves_extent(enum kolo_collective collective, const struct kolo_plan_args *args,
                       int member, size_t *send_out, size_t *recv_out);

/** The share of all moves that one member runs; all members have equally much to do. */
struct kolo_share {
    enum kolo_collective collective;
    const struct kolo_plan_args *args;
    size_t index, at;     /* the next piece: move, element within it */
    size_t last, last_at; /* the end of the share */
};
/** Share @p part of @p parts. Cuts inside a move fall on multiples of @p align elements. */
void kolo_share_begin(enum kolo_collective collective, const struct kolo_plan_args *args, int part,
                      int parts, size_t align, struct kolo_share *share_out);
/** Whether no piece is left. May be false if only empty moves are left. */
bool kolo_share_is_over(const struct kolo_share *share);
/** The next piece, of at most @p most (> 0) elements. Returns false if there is none. */
bool kolo_share_next(struct kolo_share *share, size_t most, struct kolo_move *move_out);

#endif
