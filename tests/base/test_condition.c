// SPDX-License-Identifier: Apache-2.0
// base/condition.c: waits that end by a signal or by their deadline.
#include "base/condition.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static bool is_told;

static void begin(void)
{
    cr_assert_eq(kolo_condition_init(&condition), 0);
    (void)pthread_mutex_lock(&lock);
}

static void end(void)
{
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_cond_destroy(&condition);
}

TestSuite(condition, .init = begin, .fini = end, .timeout = 60);

static void *tell(void *unused)
{
    (void)pthread_mutex_lock(&lock);
    is_told = true;
    (void)pthread_cond_signal(&condition);
    (void)pthread_mutex_unlock(&lock);
    return unused;
}

static void wait_until_told(kolo_deadline deadline)
{
    pthread_t thread;
    is_told = false;
    cr_assert_eq(pthread_create(&thread, NULL, tell, NULL), 0);
    while (!is_told)
        cr_assert_eq(kolo_condition_wait(&condition, &lock, deadline), 0);
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_join(thread, NULL);
    (void)pthread_mutex_lock(&lock);
}

Test(condition, a_wait_ends_by_a_signal)
{
    wait_until_told(KOLO_NEVER);
    wait_until_told(kolo_deadline_in_ms(50000));
}

/** By the wall clock, whose numbers are larger, the deadline would have passed long ago. */
Test(condition, a_wait_ends_at_its_deadline_and_not_before)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(30);
    while (kolo_condition_wait(&condition, &lock, deadline) == 0)
        cr_assert(!kolo_deadline_passed(deadline + INT64_C(20000000000)));
    cr_assert(kolo_deadline_passed(deadline));
    cr_assert_eq(kolo_condition_wait(&condition, &lock, 0), ETIMEDOUT);
}
