// SPDX-License-Identifier: Apache-2.0
// From a call that has been checked to a request that can be started.
#ifndef KOLO_RUNTIME_PREPARE_H
#define KOLO_RUNTIME_PREPARE_H

#include "runtime/submit.h"

/** Fills in everything that can be determined without the lock: all but plan and number. If the
 * call may have buffers outside host memory, or follows a stream, makes @p *task point to @p copy,
 * with host buffers instead. */
kolo_status kolo_request_fill_in(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task **task,
                                 struct kolo_task *copy) KOLO_NODISCARD;
/** Whether @p task, or the settings, want float results that depend only on the operands. */
bool kolo_task_is_deterministic(const struct kolo_comm *comm, const struct kolo_task *task);
/** Chooses the request's plan and allocates what it needs. Nothing has been sent or written yet.
 * Held: lock. */
kolo_status kolo_request_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task *task) KOLO_NODISCARD;
/** Checks whether the communicator has failed, and returns why. Held: lock. */
kolo_status kolo_request_check_comm(struct kolo_comm *comm,
                                    struct kolo_request *request) KOLO_NODISCARD;

#endif
