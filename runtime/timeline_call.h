// SPDX-License-Identifier: Apache-2.0
// What the timeline keeps of a rank's calls. For engines that have one.
#ifndef KOLO_RUNTIME_TIMELINE_CALL_H
#define KOLO_RUNTIME_TIMELINE_CALL_H

#include "runtime/comm.h"
#include "runtime/timeline.h"

/** A request is about to begin, and @p waits_for_turn: kolo_timeline_enter says when that comes.
 * Its ticket. Held: lock, as of the next. */
uint64_t kolo_timeline_request(const struct kolo_request *request, bool waits_for_turn);
/** Somebody waits for an asynchronous request from here on. */
uint64_t kolo_timeline_wait(const struct kolo_request *request);
/** The rank comes up, since @p begun_ns. */
uint64_t kolo_timeline_start(const struct kolo_engine *engine, int64_t begun_ns);

#endif
