// SPDX-License-Identifier: Apache-2.0
// A nested allreduce: a request whose data moves by requests on the communicators of a nest.
// Private to runtime/.
#ifndef KOLO_RUNTIME_NESTED_H
#define KOLO_RUNTIME_NESTED_H

#include "runtime/nest.h"
#include "runtime/submit.h"

extern const struct kolo_route kolo_route_nested;

/** Whether a call is carried out in this way: the same on all ranks that make the same call. */
bool kolo_nested_takes(const struct kolo_comm *comm, const struct kolo_task *task);
/** Prepares the inner calls of @p task, and the place in its stream. On failure too the caller must
 * drop them. ERR_NO_MEMORY; ERR_UNSUPPORTED: the stream is being captured; an error of a device
 * fails the communicator. Not held: lock, as in the next. */
kolo_status kolo_nested_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                const struct kolo_task *task) KOLO_NODISCARD;
/** kolo_staging_await() for a nested request. */
kolo_status kolo_nested_await(struct kolo_request *request) KOLO_NODISCARD;
/** The inner calls that are running, one of each communicator at most; NULL: none. Held: lock, as
 * in the next. */
void kolo_nested_running(const struct kolo_request *request,
                         const struct kolo_request *calls_out[2]);
/** Frees the inner calls; none is running. */
void kolo_nested_drop(struct kolo_request *request);

#endif
