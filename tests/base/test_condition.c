// SPDX-License-Identifier: Apache-2.0
// base/condition.c: waits that end by a signal, by their deadline, or by what nobody signals.
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

static int asked; /* and how often until it is over; 0: never */
static int enough;

static bool is_over(void *context)
{
    cr_assert_eq(context, &asked);
    cr_assert_eq(pthread_mutex_trylock(&lock), 0, "it is asked with the lock held");
    (void)pthread_mutex_unlock(&lock);
    return ++asked == enough;
}

static const struct kolo_unless unless = {.is_over = is_over, .context = &asked};

Test(condition, a_wait_ends_by_what_nobody_signals)
{
    const kolo_deadline begin_ns = kolo_now_ns();
    int error = 0;
    enough = 3;
    while (error == 0)
        error = kolo_condition_wait_unless(&condition, &lock, KOLO_NEVER, &unless);
    cr_assert_eq(error, ECANCELED);
    cr_assert_eq(asked, enough);
    cr_assert_geq(kolo_now_ns() - begin_ns, enough * (int64_t)KOLO_LOOK_NS);
    cr_assert_eq(pthread_mutex_trylock(&lock), EBUSY, "the lock is held after the wait");
}

Test(condition, a_wait_with_looks_ends_at_its_deadline_and_not_before)
{
    const kolo_deadline deadline = kolo_now_ns() + KOLO_LOOK_NS * 3 / 2;
    int error = 0;
    enough = 0;
    while (error == 0)
        error = kolo_condition_wait_unless(&condition, &lock, deadline, &unless);
    cr_assert_eq(error, ETIMEDOUT);
    cr_assert(kolo_deadline_passed(deadline));
    cr_assert_geq(asked, 2, "after the first look the wait goes on");
    cr_assert_eq(kolo_condition_wait_unless(&condition, &lock, 0, NULL), ETIMEDOUT);
}

Test(condition, a_wait_with_looks_ends_by_a_signal)
{
    pthread_t thread;
    is_told = false;
    enough = 0;
    cr_assert_eq(pthread_create(&thread, NULL, tell, NULL), 0);
    while (!is_told)
        cr_assert_eq(kolo_condition_wait_unless(&condition, &lock, KOLO_NEVER, &unless), 0);
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_join(thread, NULL);
    (void)pthread_mutex_lock(&lock);
}
