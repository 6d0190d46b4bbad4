// SPDX-License-Identifier: Apache-2.0
// From a checked call to a request that can be started.
#ifndef KOLO_RUNTIME_PREPARE_H
#define KOLO_RUNTIME_PREPARE_H

#include "runtime/submit.h"

/** What can be said of a call without the lock: all but its plan and its number. Lets @p *task lead
 * to @p copy, whose buffers are the host's, if there may be any that are not, or it follows a
 * stream. */
kolo_status kolo_request_fill_in(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task **task,
                                 struct kolo_task *copy) KOLO_NODISCARD;
/** Chooses its plan, and makes room for it. Nothing has been sent or written. Held: lock. */
kolo_status kolo_request_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task *task) KOLO_NODISCARD;
/** Whether the communicator has failed, and why. Held: lock. */
kolo_status kolo_request_check_comm(struct kolo_comm *comm,
                                    struct kolo_request *request) KOLO_NODISCARD;

#endif
