// SPDX-License-Identifier: Apache-2.0
// A turn that threads of this rank take one after the other, in the order in which they ask, for
// calls on one communicator that other ranks must see in that order.
#ifndef KOLO_RUNTIME_TURN_H
#define KOLO_RUNTIME_TURN_H

#include <stdbool.h>

#include <kolo/kolo.h>

#include "base/clock.h"
#include "base/status.h"

struct kolo_comm;
struct kolo_turn_waiter;

/** Free if zeroed. */
struct kolo_turn {
    bool is_taken;
    struct kolo_turn_waiter *first, *last;
};

/** Takes the turn, and waits for it until @p deadline, while others make progress. Held: the
 * engine's lock, which is released meanwhile. ERR_TIMEOUT, without a detail: not in time; the
 * failure of @p comm, if it fails meanwhile. */
kolo_status kolo_turn_take(struct kolo_comm *comm, struct kolo_turn *turn,
                           kolo_deadline deadline) KOLO_NODISCARD;
/** Gives the turn to the thread that has waited longest. Held: lock. */
void kolo_turn_give(struct kolo_comm *comm, struct kolo_turn *turn);

#endif
