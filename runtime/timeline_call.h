// SPDX-License-Identifier: Apache-2.0
// Fills the timeline's records of a rank's calls. Only for engines that have a timeline.
#ifndef KOLO_RUNTIME_TIMELINE_CALL_H
#define KOLO_RUNTIME_TIMELINE_CALL_H

#include "runtime/comm.h"
#include "runtime/timeline.h"

/** Begins the record of a request that is about to begin, and returns its ticket. @p
 * waits_for_turn: kolo_timeline_enter will say when its turn comes. Held: lock, as in the next. */
uint64_t kolo_timeline_request(const struct kolo_request *request, bool waits_for_turn);
/** Begins the record of a wait for an asynchronous request. */
uint64_t kolo_timeline_wait(const struct kolo_request *request);
/** Begins the record of the rank's start, which began at @p begun_ns. */
uint64_t kolo_timeline_start(const struct kolo_engine *engine, int64_t begun_ns);

#endif
