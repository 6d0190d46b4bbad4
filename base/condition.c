// SPDX-License-Identifier: Apache-2.0
// Condition variables of the monotonic clock.
#include "base/condition.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

int kolo_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* always supported */
    error = pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return error;
}

int kolo_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, kolo_deadline deadline)
{
    const struct timespec until = kolo_timespec(deadline);
    return deadline == KOLO_NEVER ? pthread_cond_wait(condition, lock)
                                  : pthread_cond_timedwait(condition, lock, &until);
}

int kolo_condition_wait_unless(pthread_cond_t *condition, pthread_mutex_t *lock,
                               kolo_deadline deadline, const struct kolo_unless *unless)
{
    if (!unless)
        return kolo_condition_wait(condition, lock, deadline);
    const kolo_deadline look = kolo_deadline_min(deadline, kolo_now_ns() + KOLO_LOOK_NS);
    const int error = kolo_condition_wait(condition, lock, look);
    (void)pthread_mutex_unlock(lock);
    const bool is_over = unless->is_over(unless->context);
    (void)pthread_mutex_lock(lock);
    if (is_over)
        return ECANCELED;
    return look < deadline ? 0 : error;
}
