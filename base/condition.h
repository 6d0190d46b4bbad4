// SPDX-License-Identifier: Apache-2.0
// Condition variables whose waits end by a deadline of base/clock.h.
#ifndef KOLO_BASE_CONDITION_H
#define KOLO_BASE_CONDITION_H

#include <pthread.h>

#include "base/clock.h"

/** Like pthread_cond_init, with the monotonic clock. Returns 0 or an errno. */
int kolo_condition_init(pthread_cond_t *condition);

/** Like pthread_cond_timedwait, without a bound for KOLO_NEVER. The real clock counts, also if a
 *  test has replaced it. Returns 0 or ETIMEDOUT. Held: @p lock, released meanwhile. */
int kolo_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, kolo_deadline deadline);

#endif
