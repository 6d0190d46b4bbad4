// SPDX-License-Identifier: Apache-2.0
// Buffers in the memory of devices, as the rest of the runtime sees them: a task gets the host's
// memory in their place, and a request asks when it may go on. Of messages and collectives alike; a
// request without such buffers (request->staged NULL) is none of its affair.
#ifndef KOLO_RUNTIME_STAGING_H
#define KOLO_RUNTIME_STAGING_H

#include "runtime/submit.h"

/** Memory of the host's in place of those buffers of @p task that are a device's. @p task is a
 * copy. Takes the lock. ERR_NO_MEMORY; what a device failed with fails the communicator. */
kolo_status kolo_staging_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 struct kolo_task *task) KOLO_NODISCARD;
/** Waits for what the program gave to the device before; of a message also for its copy to the
 * host. ERR_UNSUPPORTED: a stream of that context is captured; else a failure is the
 * communicator's. Not held: lock. */
kolo_status kolo_staging_await(struct kolo_request *request) KOLO_NODISCARD;
/** Puts the copies of a collective to the host on their way; if it follows a stream, once that has
 * come to its place. Held: lock, as of all below. */
kolo_status kolo_staging_begin(struct kolo_request *request) KOLO_NODISCARD;
/** Can the route go on? If the device failed, the communicator has failed, and all is over. */
bool kolo_staging_is_in(struct kolo_request *request);
/** Is all that @p step touches on the host? */
bool kolo_staging_has(const struct kolo_request *request, const struct kolo_step *step);
/** Of a request whose links reach its devices' memory (KOLO_STAGE_DIRECT): where @p host, the
 * host's address of a part, is there; NULL: it is the host's own. */
uint8_t *kolo_staging_address(const struct kolo_request *request, uint8_t *host);
/** May step number @p index begin, which copies nothing itself then? A failure as above. */
bool kolo_staging_may(struct kolo_request *request, size_t index, const struct kolo_step *step);
/** Receive @p work of it is over. False: a failure as above. */
bool kolo_staging_received(struct kolo_request *request, const struct kolo_work *work);
/** Brings what the plan has done with to the device, if that goes beside it. A failure as above. */
void kolo_staging_flow(struct kolo_request *request);
/** The call is over: finishes its result and brings it to the device. Is it there? As above. */
bool kolo_staging_is_out(struct kolo_request *request);
/** Nothing is copied any more; waits a moment for what is. A stream that waits for the end goes on,
 * unless it could touch what other ranks still may: what is the host's, or its links reach. */
void kolo_staging_cancel(struct kolo_request *request);
/** What stands in for the buffers of @p from does so for a call of @p to from here on. */
void kolo_staging_take(struct kolo_request *to, struct kolo_request *from);
/** Gives back what stood in for the buffers. */
void kolo_staging_drop(struct kolo_request *request);
/** Of all calls: none is running. False: copies may still come, and the heap must stay. Not held:
 * lock. */
bool kolo_staging_close(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- staging_lent.c (held: lock) ---- */

/** A call whose plan is known: what only holds places for its buffers becomes memory of the host's,
 * if it will not be lent. Gives up the lock meanwhile. ERR_NO_MEMORY. */
kolo_status kolo_lent_settle(struct kolo_request *request) KOLO_NODISCARD;

#endif
