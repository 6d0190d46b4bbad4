// SPDX-License-Identifier: Apache-2.0
// The route of the meeting in which the members of a new communicator learn that all have opened it
// (split.c), through words on their parent's board.
#ifndef KOLO_RUNTIME_MEETING_H
#define KOLO_RUNTIME_MEETING_H

#include <stdbool.h>

#include "runtime/request.h"

/** A barrier of a communicator that is opened and has its parent still (comm->parent): over when
 * all members have begun theirs. Needs no memory, and no link. */
extern const struct kolo_route kolo_route_meeting;

/** Whether the members of @p comm can meet by that route: if its parent's board is ready. The same
 * on all of them, once a collective of the parent is over. Held: lock. */
bool kolo_meeting_has_board(const struct kolo_comm *comm);

#endif
