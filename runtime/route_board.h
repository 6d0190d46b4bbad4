// SPDX-License-Identifier: Apache-2.0
// What the rest of the runtime asks the route over a board.
#ifndef KOLO_RUNTIME_ROUTE_BOARD_H
#define KOLO_RUNTIME_ROUTE_BOARD_H

#include "runtime/comm.h"

/** Whether its members can have a board; the same on all of them. Once there is a table of ranks.
 */
bool kolo_board_has(const struct kolo_comm *comm);
/** Whether a member has entered a broadcast over the board that this rank has not called. Held:
 * lock. */
bool kolo_board_has_missed(const struct kolo_comm *comm);
/** Fails the communicator if a member called one of its last broadcasts over the board otherwise,
 * as far as that stands there yet. Held: lock. */
void kolo_board_look_back(struct kolo_comm *comm);

#endif
