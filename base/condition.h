// SPDX-License-Identifier: Apache-2.0
// Condition variables whose waits end by a deadline of base/clock.h, or by something that nobody
// signals.
#ifndef KOLO_BASE_CONDITION_H
#define KOLO_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"

/** How often a thread that sleeps looks at what nobody signals. */
enum { KOLO_LOOK_NS = 20000000 };

/** A further condition that ends a wait, checked now and then by the waiting thread. */
struct kolo_unless {
    bool (*is_over)(void *context);
    void *context;
};

/** Like pthread_cond_init, with the monotonic clock. Returns 0 or an errno. */
int kolo_condition_init(pthread_cond_t *condition);

/** Like pthread_cond_timedwait, without a bound for KOLO_NEVER. The real clock counts, also if a
 *  test has replaced it. Returns 0 or ETIMEDOUT. Held: @p lock, released meanwhile. */
int kolo_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, kolo_deadline deadline);

/** The same; also returns ECANCELED if @p unless (NULL: nothing) is over, which it asks after every
 *  wake-up, at least every KOLO_LOOK_NS, without @p lock. Whatever it returns, what @p lock guards
 *  may have changed. */
int kolo_condition_wait_unless(pthread_cond_t *condition, pthread_mutex_t *lock,
                               kolo_deadline deadline, const struct kolo_unless *unless);

#endif
