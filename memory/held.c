// SPDX-License-Identifier: Apache-2.0
// Streams that are held, and driver calls that must not meet them. Owns two counts for each
// context. A call that only waits to begin must never keep a stream from being held: in a process
// with several ranks, the stream of one rank may be held until another rank's stream, which is not
// held yet, has joined the same collective.
//
// Contexts are told apart by a hash. If two have the same, calls for one also wait for streams of
// the other, which is slower, but not wrong.
#include "memory/held.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONTEXTS = 64 /* a process has few of them */ };

/** How many streams are held, and how many calls are being made. */
struct counts {
    int streams, calls;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct counts contexts[CONTEXTS]; /* held: lock, as the next */
static struct counts every;              /* streams of all contexts, and calls for all */

static void init(void)
{
    (void)kolo_condition_init(&changed);
}

static void take_lock(void)
{
    (void)pthread_once(&once, init);
    (void)pthread_mutex_lock(&lock);
}

static struct counts *counts_of(const void *context)
{
    const uint64_t hash = (uint64_t)(uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15);
    return &contexts[hash >> 58];
}
_Static_assert(CONTEXTS == 1 << (64 - 58), "six bits of a hash");

/** Held: lock. */
static bool is_any_held(const void *context)
{
    return context ? counts_of(context)->streams > 0 : every.streams > 0;
}

/** Held: lock. */
static bool is_called(const void *context)
{
    return every.calls > 0 || counts_of(context)->calls > 0;
}

kolo_status kolo_held_begin(const void *context, kolo_deadline deadline)
{
    int error = 0;
    take_lock();
    while (is_called(context) && error == 0)
        error = kolo_condition_wait(&changed, &lock, deadline);
    const bool is_free = !is_called(context);
    if (is_free) {
        every.streams++;
        counts_of(context)->streams++;
    }
    (void)pthread_mutex_unlock(&lock);
    return is_free ? KOLO_OK
                   : kolo_fail(KOLO_ERR_TIMEOUT,
                               "no stream may wait for a collective while a thread of this process "
                               "frees, unmaps or unlocks memory of devices or loads kernels, and "
                               "one still does");
}

void kolo_held_end(const void *context)
{
    take_lock();
    every.streams--;
    counts_of(context)->streams--;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

/** Counts a call that begins or ends. Held: lock. */
static void count_call(const void *context, int change)
{
    if (context)
        counts_of(context)->calls += change;
    else
        every.calls += change;
}

kolo_status kolo_none_held_begin(const void *context, kolo_deadline deadline,
                                 const struct kolo_unless *unless)
{
    int error = 0;
    take_lock();
    while (is_any_held(context) && error == 0)
        error = kolo_condition_wait_unless(&changed, &lock, deadline, unless);
    const bool is_begun = !is_any_held(context);
    if (is_begun)
        count_call(context, 1);
    (void)pthread_mutex_unlock(&lock);
    return is_begun ? KOLO_OK : KOLO_AGAIN;
}

void kolo_none_held_end(const void *context)
{
    take_lock();
    count_call(context, -1);
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}
