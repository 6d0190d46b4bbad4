// SPDX-License-Identifier: Apache-2.0
// Reports of a communicator's stalled calls to the store. kolo_engine_timers() is in engine.h.
// Private to runtime/.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_TIMERS_H
#define KOLO_RUNTIME_TIMERS_H

#include "runtime/store.h"

struct kolo_comm;
struct kolo_request;

/** Tells the store the description of the running collective, for comparison with those of other
 * ranks, and which ranks it needs. */
void kolo_comm_report(struct kolo_comm *comm);
/** The stream of @p request went on before it was over (kolo_follow_was_let_go): ends it as its
 * deadline does. */
void kolo_request_expire(struct kolo_comm *comm, const struct kolo_request *request);
/** Tells the store that @p request, which was reported, continues, or that no thread waits for it
 * any more. */
void kolo_comm_unreport(struct kolo_comm *comm, struct kolo_request *request);
/** Tells the store that @p request, which has not begun, waits for @p own. Returns the number of
 * that report; 0: there was no memory for it. */
uint32_t kolo_comm_report_before(struct kolo_comm *comm, const struct kolo_request *request,
                                 enum kolo_own_wait own);
/** Tells the store that the wait of report @p number is over. */
void kolo_comm_unreport_before(struct kolo_comm *comm, uint32_t number);

#endif
