// SPDX-License-Identifier: Apache-2.0
// What a communicator reports of calls that stall; kolo_engine_timers() is in engine.h. Private to
// runtime/.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_TIMERS_H
#define KOLO_RUNTIME_TIMERS_H

struct kolo_comm;
struct kolo_request;

/** Tells the store what the running collective is, for comparison with the other ranks', and whom
 * it needs. */
void kolo_comm_report(struct kolo_comm *comm);
/** The store is told that @p request, which was reported, goes on, or that nobody waits for it. */
void kolo_comm_unreport(struct kolo_comm *comm, struct kolo_request *request);

#endif
