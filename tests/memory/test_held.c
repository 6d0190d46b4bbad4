// SPDX-License-Identifier: Apache-2.0
// memory/held.c: a call for a context begins only while none of its streams is held, and a stream
// becomes held only while no such call is being made.
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "memory/held.h"

static int here, there; /* two contexts */

static kolo_status begin_now(const void *context)
{
    return kolo_none_held_begin(context, 0, NULL);
}

static void hold_now(const void *context)
{
    cr_assert_eq(kolo_held_begin(context, 0), KOLO_OK);
}

Test(held, a_call_does_not_begin_while_a_stream_of_its_context_is_held, .timeout = 60)
{
    hold_now(&here);
    cr_assert_eq(begin_now(&here), KOLO_AGAIN);
    cr_assert_eq(begin_now(NULL), KOLO_AGAIN, "a call for every context");
    cr_assert_eq(begin_now(&there), KOLO_OK, "a call for another context");
    kolo_none_held_end(&there);
    hold_now(&here);
    kolo_held_end(&here);
    cr_assert_eq(begin_now(&here), KOLO_AGAIN, "the other of two streams is held");
    kolo_held_end(&here);
    cr_assert_eq(begin_now(&here), KOLO_OK);
    cr_assert_eq(begin_now(NULL), KOLO_OK, "calls do not exclude each other");
    kolo_none_held_end(NULL);
    kolo_none_held_end(&here);
}

struct other {
    const void *context;
    atomic_bool is_done;
};

static void *hold(void *argument)
{
    struct other *other = argument;
    cr_assert_eq(kolo_held_begin(other->context, KOLO_NEVER), KOLO_OK);
    atomic_store(&other->is_done, true);
    return NULL;
}

static void *call(void *argument)
{
    struct other *other = argument;
    cr_assert_eq(kolo_none_held_begin(other->context, KOLO_NEVER, NULL), KOLO_OK);
    atomic_store(&other->is_done, true);
    return NULL;
}

static bool is_done(const void *argument)
{
    return atomic_load(&((const struct other *)argument)->is_done);
}

/** Runs @p run in a thread, which must wait until @p end is called for @p context. */
static void must_wait(void *(*run)(void *argument), struct other *other,
                      void (*end)(const void *context), const void *context)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, run, other), 0);
    (void)poll(NULL, 0, 50);
    cr_assert_not(is_done(other));
    end(context);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert(is_done(other));
}

Test(held, a_stream_is_not_held_while_a_call_is_made, .timeout = 60)
{
    const void *const calls[] = {&here, NULL};
    for (int i = 0; i < 2; i++) {
        struct other other = {.context = &here};
        cr_assert_eq(begin_now(calls[i]), KOLO_OK);
        must_wait(hold, &other, kolo_none_held_end, calls[i]);
        kolo_held_end(&here);
    }
}

Test(held, a_stream_waits_for_a_call_until_its_deadline, .timeout = 60)
{
    const void *const calls[] = {&here, NULL};
    for (int i = 0; i < 2; i++) {
        const kolo_deadline deadline = kolo_deadline_in_ms(30);
        cr_assert_eq(begin_now(calls[i]), KOLO_OK);
        cr_assert_eq(kolo_held_begin(&here, deadline), KOLO_ERR_TIMEOUT);
        cr_assert(kolo_deadline_passed(deadline));
        cr_assert_not_null(strstr(kolo_error_detail(), "loads kernels"), "%s", kolo_error_detail());
        kolo_none_held_end(calls[i]);
        cr_assert_eq(begin_now(&here), KOLO_OK, "a stream that is not held counts as held");
        kolo_none_held_end(&here);
    }
}

Test(held, a_call_begins_when_the_last_stream_is_released, .timeout = 60)
{
    struct other other = {.context = &here};
    hold_now(&here);
    must_wait(call, &other, kolo_held_end, &here);
    kolo_none_held_end(&here);
}

static bool is_over(void *context)
{
    return ++*(int *)context == 3;
}

Test(held, a_wait_ends_early_by_what_else_may_end_it, .timeout = 60)
{
    int looks = 0;
    const struct kolo_unless unless = {.is_over = is_over, .context = &looks};
    hold_now(&here);
    cr_assert_eq(kolo_none_held_begin(&here, KOLO_NEVER, &unless), KOLO_AGAIN);
    cr_assert_eq(looks, 3);
    kolo_held_end(&here);
}
