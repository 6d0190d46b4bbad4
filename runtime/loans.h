// SPDX-License-Identifier: Apache-2.0
// Loans of device memory between the ranks of a host: what others want back, and the thread that
// returns it (loans.c).
#ifndef KOLO_RUNTIME_LOANS_H
#define KOLO_RUNTIME_LOANS_H

#include "memory/memory.h"
#include "runtime/engine.h"

/** Rank @p world_rank wants loan @p id of its memory back. Held: lock, as for the next two. */
void kolo_loans_recalled(struct kolo_engine *engine, int world_rank, uint64_t id);
/** Rank @p world_rank has returned loan @p id of this rank's memory; 0: no loan. */
void kolo_loans_returned(struct kolo_engine *engine, int world_rank, uint64_t id);
/** Rank @p world_rank has gone, or is unreachable. */
void kolo_loans_gone(struct kolo_engine *engine, int world_rank);
/** Starts the thread that tidies; called before the first allocation of device memory. Not held:
 * lock, as for _settle. */
kolo_status kolo_loans_start(struct kolo_engine *engine) KOLO_NODISCARD;
/** Waits until memory that the program has freed is freed on the device, or until @p deadline. */
void kolo_loans_settle(struct kolo_engine *engine, kolo_deadline deadline);
/** Makes the thread check whether there is something to unmap, answer or free. Held: lock. */
void kolo_loans_look(struct kolo_engine *engine);
/** Unmaps all that others have lent, and waits until @p deadline for them to return all of this
 * rank's loans. No call may use any of it any more. Not held: lock. */
void kolo_loans_end(struct kolo_engine *engine, kolo_deadline deadline);

#endif
