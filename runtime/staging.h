// SPDX-License-Identifier: Apache-2.0
// Staging of device buffers, as the rest of the runtime sees it. A task gets host memory in place
// of its device buffers; a request asks here when it may continue. The same for messages and
// collectives. A request without device buffers has request->staged NULL and must not call these.
#ifndef KOLO_RUNTIME_STAGING_H
#define KOLO_RUNTIME_STAGING_H

#include "runtime/submit.h"

/** Replaces the device buffers of @p task, which is a copy, by host memory. Takes the lock.
 * ERR_NO_MEMORY; an error of a device fails the communicator. */
kolo_status kolo_staging_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 struct kolo_task *task) KOLO_NODISCARD;
/** The part of kolo_staging_prepare() that concerns the stream of @p task, if it follows one. The
 * request has its call. ERR_UNSUPPORTED: the stream is being captured. */
kolo_status kolo_staging_follow(struct kolo_comm *comm, struct kolo_request *request,
                                const struct kolo_task *task) KOLO_NODISCARD;
/** Waits for the work that the program gave to the device earlier; for a message, also for its copy
 * to the host. ERR_UNSUPPORTED: a stream of that context is being captured. Any other failure fails
 * the communicator. Not held: lock. */
kolo_status kolo_staging_await(struct kolo_request *request) KOLO_NODISCARD;
/** Starts the copies of a collective to the host; if the collective follows a stream, once the
 * stream has reached its place. Held: lock, as in all below. */
kolo_status kolo_staging_begin(struct kolo_request *request) KOLO_NODISCARD;
/** Whether the route can continue. If the device failed, the communicator has failed and the
 * request has ended. */
bool kolo_staging_is_in(struct kolo_request *request);
/** Whether everything that @p step touches is on the host. A failure as in kolo_staging_is_in. */
bool kolo_staging_has(struct kolo_request *request, const struct kolo_step *step);
/** For a request whose links reach its devices' memory (KOLO_STAGING_DIRECT): the device address
 * for @p host, an address in what stands in for a buffer; NULL: @p host is plain host memory. */
uint8_t *kolo_staging_address(const struct kolo_request *request, uint8_t *host);
/** Whether step number @p index may begin; in that stage the step itself copies nothing. A failure
 * as in kolo_staging_is_in. */
bool kolo_staging_may(struct kolo_request *request, size_t index, const struct kolo_step *step);
/** The receive @p work of the request is over. False: a failure as in kolo_staging_is_in. */
bool kolo_staging_received(struct kolo_request *request, const struct kolo_work *work);
/** If the copies run beside the plan: starts those that its next steps need, and those of what it
 * has finished with. To be called after steps have begun, or were found to be over. A failure as in
 * kolo_staging_is_in. */
void kolo_staging_flow(struct kolo_request *request);
/** The call is over: completes its result and copies it to the device. Whether the result is there;
 * a failure as in kolo_staging_is_in. */
bool kolo_staging_is_out(struct kolo_request *request);
/** Starts no further copies, and waits a moment for those in flight; a warning says if the device
 * may still write to the program's buffers then. A stream that waits for the end of the request
 * continues, unless its work could touch memory that other ranks may still access: host memory, or
 * device memory that links reach. */
void kolo_staging_cancel(struct kolo_request *request);
/** Moves what stands in for the buffers of @p from to @p to. */
void kolo_staging_take(struct kolo_request *to, struct kolo_request *from);
/** Returns what stood in for the buffers. */
void kolo_staging_drop(struct kolo_request *request);
/** Ends staging; no call is running. False: copies may still arrive, so the heap must stay. Not
 * held: lock. */
bool kolo_staging_close(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- staging_lent.c ---- */

/** The program has allocated @p memory, which calls may lend: prepares the lane that they will use.
 * Drivers load kernels only when all earlier work of the device is done, that of the program too,
 * and at the first call this may be work that waits for the call. What fails here is found again by
 * the call. Not held: lock. */
void kolo_lent_expect(struct kolo_engine *engine, const struct kolo_pointer *memory);
/** Once the plan is known: if the buffers will not be lent, address ranges that only reserve places
 * for them are replaced by host memory. Releases the lock meanwhile. ERR_NO_MEMORY. Held: lock. */
kolo_status kolo_lent_settle(struct kolo_request *request) KOLO_NODISCARD;

#endif
