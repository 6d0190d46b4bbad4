// SPDX-License-Identifier: Apache-2.0
// Counts the forks between the process that watched first and this one. Owns the handler that
// fork() calls in a child.
#include "base/forks.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"

static atomic_uint forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_error;

static void in_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch(void)
{
    watch_error = pthread_atfork(NULL, NULL, in_child);
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
