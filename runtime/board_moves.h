// SPDX-License-Identifier: Apache-2.0
// What a collective is, as moves: pure functions from its arguments to who reads what and writes
// where, for ranks that see each other's memory. No I/O, no allocation, no order: moves of one
// collective may run in any order and side by side, because
//   - each element of a result is written by exactly one move;
//   - what a move writes no other move reads, also where SEND and RECV share memory as kolo.h
//     allows it (the element is then that move's own input, at the same address).
#ifndef KOLO_RUNTIME_BOARD_MOVES_H
#define KOLO_RUNTIME_BOARD_MOVES_H

#include "runtime/plan.h"

enum { KOLO_EVERY = -1 };

/** RECV[recv_at + i] of @p to = SEND[send_at + i] of @p from, for i < count. From KOLO_EVERY: the
 * fold of all members' SEND in the order of their ranks. To KOLO_EVERY: into each member's RECV. */
struct kolo_move {
    int from, to;
    size_t send_at, recv_at, count;
};

/** NULL, or why there are no moves for it. Only where it is NULL may the others be asked. */
const char *kolo_moves_fit(enum kolo_collective collective, const struct kolo_plan_args *args);
/** How many; args->rank and args->in_place say nothing here, so that all members agree. */
size_t kolo_moves_count(enum kolo_collective collective, const struct kolo_plan_args *args);
void kolo_moves_at(enum kolo_collective collective, const struct kolo_plan_args *args, size_t index,
                   struct kolo_move *move_out);
/** How many moves write to @p member, one after the other from *first_out on. */
size_t kolo_moves_to(enum kolo_collective collective, const struct kolo_plan_args *args, int member,
                     size_t *first_out);
/** Elements of SEND and RECV of @p member, from their start, that any move touches; 0: it has no
 * such buffer. */
void kolo_moves_extent(enum kolo_collective collective, const struct kolo_plan_args *args,
                       int member, size_t *send_out, size_t *recv_out);

/** A share of all moves: those of one member, so that all have as much to do. */
struct kolo_share {
    enum kolo_collective collective;
    const struct kolo_plan_args *args;
    size_t index, at;     /* the next: move, element in it */
    size_t last, last_at; /* where it ends */
};
/** Share @p part of @p parts. Cuts within a move fall on multiples of @p align elements. */
void kolo_share_begin(enum kolo_collective collective, const struct kolo_plan_args *args, int part,
                      int parts, size_t align, struct kolo_share *share_out);
/** Is there no piece left? False where only empty moves are. */
bool kolo_share_is_over(const struct kolo_share *share);
/** The next piece, of at most @p most (> 0) elements. False: there is none. */
bool kolo_share_next(struct kolo_share *share, size_t most, struct kolo_move *move_out);

#endif
