// SPDX-License-Identifier: Apache-2.0
// The threads of streams. Owns their ids and joins them: none is left when the process ends. A
// thread that was just ending sometimes crashed LeakSanitizer, which stops and reads all threads at
// the end of a process.
#include <stdlib.h>
#include <unistd.h>

#include "tests/mock/mock.h"

enum { THREADS_MAX = 4096 };

static struct thread {
    pthread_t id;
    bool is_there, is_over;
} threads[THREADS_MAX];
static pid_t owner; /* a forked child has none of the threads */

/** Joins a finished thread, which had released the lock before we could take it. Held: lock. */
static void reap(void)
{
    for (int i = 0; i < THREADS_MAX; i++)
        if (threads[i].is_there && threads[i].is_over) {
            (void)pthread_join(threads[i].id, NULL);
            threads[i] = (struct thread){.is_there = false};
        }
}

static void end_all(void)
{
    if (getpid() != owner)
        return;
    (void)pthread_mutex_lock(&mock_lock);
    mock_streams_end();
    (void)pthread_mutex_unlock(&mock_lock);
    for (int i = 0; i < THREADS_MAX; i++)
        if (threads[i].is_there)
            (void)pthread_join(threads[i].id, NULL);
}

void mock_thread_start(void *(*run)(void *argument), void *argument)
{
    int at = 0;
    if (owner != getpid() && atexit(end_all) != 0)
        abort();
    owner = getpid();
    reap();
    while (at < THREADS_MAX && threads[at].is_there)
        at++;
    if (at == THREADS_MAX || pthread_create(&threads[at].id, NULL, run, argument) != 0)
        abort();
    threads[at].is_there = true;
}

void mock_thread_over(void)
{
    for (int i = 0; i < THREADS_MAX; i++)
        if (threads[i].is_there && pthread_equal(threads[i].id, pthread_self()))
            threads[i].is_over = true;
}
