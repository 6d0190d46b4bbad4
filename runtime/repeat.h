// SPDX-License-Identifier: Apache-2.0
// Requests of blocking calls over a board, kept so that an equal call later can use what the first
// one found out (plan, arguments, checks) instead of finding it out again.
#ifndef KOLO_RUNTIME_REPEAT_H
#define KOLO_RUNTIME_REPEAT_H

#include "runtime/submit.h"

/** Whether a request may have been kept for a call like @p task, as far as can be told without the
 * lock. */
bool kolo_repeat_may(const struct kolo_comm *comm, const struct kolo_task *task);
/** A kept request that is ready to be submitted for @p task; NULL: none was kept for such a call,
 * or another thread is using it. Only if kolo_repeat_may said true for @p task. Held: lock, as in
 * all below. */
struct kolo_request *kolo_repeat_take(struct kolo_comm *comm, const struct kolo_task *task);
/** Returns @p kept once its caller has read the status. */
void kolo_repeat_give_back(struct kolo_request *kept);
/** Keeps what the call of @p request, which is over, has found out, if that saves later calls
 * anything. Only for a task for which kolo_repeat_may said true. */
void kolo_repeat_keep(struct kolo_comm *comm, const struct kolo_request *request);

#endif
