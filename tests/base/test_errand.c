// SPDX-License-Identifier: Apache-2.0
// base/errand.c: what is done in time is the caller's, and what is not is released by the thread
// that was left, and by nobody else.
#include "base/errand.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/await.h"

TestSuite(errand, .timeout = 60);

enum { BYTES = 5000 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: the errands below wait */
static atomic_int running, ended, discarded, alive;

struct parcel {
    pthread_t caller;
    bool is_elsewhere;
    unsigned char rest[BYTES];
};

static void fill(void *memory)
{
    struct parcel *parcel = memory;
    atomic_fetch_add(&running, 1);
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    parcel->is_elsewhere = !pthread_equal(parcel->caller, pthread_self());
    memset(parcel->rest, 7, sizeof parcel->rest);
    atomic_fetch_add(&alive, 1);
    atomic_fetch_add(&ended, 1);
}

static void discard(void *memory)
{
    const struct parcel *parcel = memory;
    cr_assert(parcel->rest[BYTES - 1] == 7);
    atomic_fetch_sub(&alive, 1);
    atomic_fetch_add(&discarded, 1);
}

static const struct kolo_errand errand = {fill, discard};

static struct parcel *create(void)
{
    struct parcel *parcel = kolo_errand_create(sizeof *parcel);
    cr_assert(parcel && (uintptr_t)parcel % _Alignof(max_align_t) == 0);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert(parcel->rest[i] == 0);
    parcel->caller = pthread_self();
    return parcel;
}

static bool is_third(void *looks)
{
    return ++*(int *)looks == 3;
}

Test(errand, what_is_done_in_time_is_the_callers)
{
    int looks = 3; /* never over */
    const struct kolo_unless unless = {is_third, &looks};
    const kolo_deadline deadlines[] = {KOLO_NEVER, kolo_deadline_in_ms(50000)};
    for (int i = 0; i < 4; i++) {
        struct parcel *parcel = create();
        cr_assert(kolo_errand_run(&errand, parcel, deadlines[i / 2], i % 2 ? &unless : NULL) == 0);
        cr_assert(parcel->is_elsewhere && parcel->rest[0] == 7);
        cr_assert(atomic_load(&alive) == i + 1 && atomic_load(&discarded) == 0);
        kolo_errand_destroy(parcel);
    }
    kolo_errand_destroy(NULL);
}

Test(errand, what_is_left_is_released_when_it_ends)
{
    int looks = 0;
    const struct kolo_unless unless = {is_third, &looks};
    const struct kolo_errand alone = {.run = fill};
    const int64_t begun = kolo_now_ns();
    (void)pthread_mutex_lock(&gate);
    cr_assert(kolo_errand_run(&errand, create(), kolo_deadline_in_ms(20), NULL) == ETIMEDOUT);
    cr_assert(kolo_now_ns() - begun >= 20000000);
    cr_assert(kolo_errand_run(&errand, create(), 0, NULL) == ETIMEDOUT);
    cr_assert(kolo_errand_run(&errand, create(), KOLO_NEVER, &unless) == ECANCELED);
    cr_assert(looks == 3);
    cr_assert(kolo_errand_run(&alone, create(), 0, NULL) == ETIMEDOUT);
    cr_assert(AWAIT(atomic_load(&running) == 4));
    cr_assert(atomic_load(&discarded) == 0);
    (void)pthread_mutex_unlock(&gate);
    cr_assert(AWAIT(atomic_load(&ended) == 4 && atomic_load(&discarded) == 3));
    cr_assert(atomic_load(&alive) == 1);
}

Test(errand, without_memory_there_is_none)
{
    cr_assert(kolo_errand_create(SIZE_MAX / 2) == NULL);
    cr_assert(strlen(kolo_error_detail()) > 0);
}
