// SPDX-License-Identifier: Apache-2.0
// Counts the forks between the process that watched first and this one, and those of this one. Owns
// the handlers that fork() calls.
#include "base/forks.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"

static atomic_uint forks;
static _Atomic uint64_t begun, ended; /* forks of this process; in a child ended catches up */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_error;

static void before(void)
{
    atomic_fetch_add(&begun, 1);
}

static void in_parent(void)
{
    atomic_fetch_add(&ended, 1);
}

/** Of the threads that were forking, the child has one. */
static void in_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    atomic_store(&ended, atomic_load(&begun));
}

static void watch(void)
{
    watch_error = pthread_atfork(before, in_parent, in_child);
}

kolo_status kolo_forks_watch(void)
{
    (void)pthread_once(&once, watch);
    return watch_error == 0 ? KOLO_OK
                            : kolo_fail_errno(KOLO_ERR_NO_MEMORY, watch_error, "pthread_atfork");
}

unsigned kolo_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

/* `ended` first: then equal numbers mean that none was under way. */
uint64_t kolo_forks_stamp(void)
{
    const uint64_t over = atomic_load(&ended);
    return atomic_load(&begun) == over ? over + 1 : 0;
}
