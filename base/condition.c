// SPDX-License-Identifier: Apache-2.0
// Condition variables of the monotonic clock.
#include "base/condition.h"

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
    const struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000),
                                   .tv_nsec = (long)(deadline % 1000000000)};
    return deadline == KOLO_NEVER ? pthread_cond_wait(condition, lock)
                                  : pthread_cond_timedwait(condition, lock, &until);
}
