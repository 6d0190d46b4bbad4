// SPDX-License-Identifier: Apache-2.0
// The functions of the route over a board (route_board.c) that the rest of the runtime calls.
#ifndef KOLO_RUNTIME_ROUTE_BOARD_H
#define KOLO_RUNTIME_ROUTE_BOARD_H

#include "runtime/comm.h"

/** Whether the members of @p comm can have a board. The answer is the same on all of them. Call it
 * once the table of ranks is there. */
bool kolo_board_has(const struct kolo_comm *comm);
/** Whether a member has entered a broadcast over the board that this rank has not called. Held:
 * lock. */
bool kolo_board_has_missed(const struct kolo_comm *comm);
/** Compares this rank's last broadcasts over the board with the entries of the other members, as
 * far as they exist, and fails the communicator if one differs. Held: lock. */
void kolo_board_look_back(struct kolo_comm *comm);

#endif
