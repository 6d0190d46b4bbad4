// SPDX-License-Identifier: Apache-2.0
// Owns the queue of the threads that wait for a turn; each waits on a status of its own. Must never
// let a thread overtake another, since all ranks count on the order.
#include "runtime/turn.h"

#include "runtime/comm.h"

struct kolo_turn_waiter {
    kolo_status status; /* KOLO_AGAIN until it has the turn */
    struct kolo_turn_waiter *next;
};

static void append(struct kolo_turn *turn, struct kolo_turn_waiter *waiter)
{
    if (turn->last)
        turn->last->next = waiter;
    else
        turn->first = waiter;
    turn->last = waiter;
}

static void take_out(struct kolo_turn *turn, const struct kolo_turn_waiter *waiter)
{
    struct kolo_turn_waiter **at = &turn->first, *before = NULL;
    while (*at != waiter) {
        before = *at;
        at = &before->next;
    }
    *at = waiter->next;
    if (turn->last == waiter)
        turn->last = before;
}

kolo_status kolo_turn_take(struct kolo_comm *comm, struct kolo_turn *turn, kolo_deadline deadline)
{
    struct kolo_turn_waiter waiter = {.status = KOLO_AGAIN};
    if (!turn->is_taken) {
        turn->is_taken = true;
        return KOLO_OK;
    }
    append(turn, &waiter);
    (void)kolo_engine_wait(comm, &waiter.status, deadline);
    if (waiter.status == KOLO_OK && comm->failure.status == KOLO_OK)
        return KOLO_OK;
    if (waiter.status == KOLO_OK)
        kolo_turn_give(comm, turn);
    else
        take_out(turn, &waiter);
    return comm->failure.status != KOLO_OK ? kolo_comm_failed(comm, NULL) : KOLO_ERR_TIMEOUT;
}

void kolo_turn_give(struct kolo_comm *comm, struct kolo_turn *turn)
{
    struct kolo_turn_waiter *next = turn->first;
    turn->is_taken = next != NULL;
    if (!next)
        return;
    take_out(turn, next);
    next->status = KOLO_OK;
    kolo_engine_news(comm->engine);
    if (comm->engine->is_sleeping) /* the sleeping thread may be the next */
        kolo_endpoint_wake(comm->engine->endpoint);
}
