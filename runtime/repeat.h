// SPDX-License-Identifier: Apache-2.0
// Blocking calls over a board that are like one before them.
#ifndef KOLO_RUNTIME_REPEAT_H
#define KOLO_RUNTIME_REPEAT_H

#include "runtime/submit.h"

/** Whether a call like @p task may be one that was kept, as far as can be told without the lock. */
bool kolo_repeat_may(const struct kolo_comm *comm, const struct kolo_task *task);
/** A request that is ready to be submitted for @p task; NULL: no call like it was kept, or another
 * thread has it. Of a task that may. Held: lock, as of all below. */
struct kolo_request *kolo_repeat_take(struct kolo_comm *comm, const struct kolo_task *task);
/** The call has its status. */
void kolo_repeat_give_back(struct kolo_request *kept);
/** Keeps what the call of @p request, which is over, has found out, if it is worth it. Of a task
 * that may. */
void kolo_repeat_keep(struct kolo_comm *comm, const struct kolo_request *request);

#endif
