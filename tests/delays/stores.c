// SPDX-License-Identifier: Apache-2.0
// Owns the stores that are not visible yet: a queue for each thread, which a thread of this file
// empties bit by bit, so that every store becomes visible within about a millisecond, whatever its
// own thread does. Order: stores of one thread become visible in their order, which is what release
// asks for. Must never keep a store to the thread's own stack, which may be gone when it is done,
// nor call anything that calls.c replaces.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/delays/delays.h"

enum { KEPT_MAX = 32, THREADS_MAX = 512, EMPTIED_EVERY_US = 200 };

struct kept {
    void *at;
    uint64_t value;
    size_t bytes;
};

struct thread {
    atomic_bool is_used;
    atomic_int lock;
    atomic_int count; /* changed with the lock held, and by others than its thread only reduced */
    struct kept stores[KEPT_MAX];
    uintptr_t stack_begin, stack_end;
};

static struct thread threads[THREADS_MAX];
static __thread struct thread *self;
static __thread bool is_excluded; /* the thread of this file, and a thread that registers itself */
static pthread_key_t key;
static atomic_bool is_ready;

static void lock(struct thread *thread)
{
    while (atomic_exchange(&thread->lock, 1) != 0)
        syscall(SYS_sched_yield);
}

static void unlock(struct thread *thread)
{
    atomic_store(&thread->lock, 0);
}

static void show(const struct kept *kept)
{
    switch (kept->bytes) {
    case 1:
        __atomic_store_n((uint8_t *)kept->at, (uint8_t)kept->value, __ATOMIC_SEQ_CST);
        break;
    case 2:
        __atomic_store_n((uint16_t *)kept->at, (uint16_t)kept->value, __ATOMIC_SEQ_CST);
        break;
    case 4:
        __atomic_store_n((uint32_t *)kept->at, (uint32_t)kept->value, __ATOMIC_SEQ_CST);
        break;
    default:
        __atomic_store_n((uint64_t *)kept->at, kept->value, __ATOMIC_SEQ_CST);
        break;
    }
}

/** Makes the first @p count stores visible. Held: lock. */
static void show_first(struct thread *thread, int count)
{
    for (int i = 0; i < count; i++)
        show(&thread->stores[i]);
    thread->count -= count;
    memmove(thread->stores, thread->stores + count,
            (size_t)thread->count * sizeof thread->stores[0]);
}

static void show_all(struct thread *thread)
{
    lock(thread);
    show_first(thread, thread->count);
    unlock(thread);
}

/* ---- the threads ---- */

static void *empty(void *unused)
{
    (void)unused;
    is_excluded = true;
    while (true) {
        delays_sleep(1 + (long)(delays_random() % EMPTIED_EVERY_US));
        for (int i = 0; i < THREADS_MAX; i++) {
            if (threads[i].count == 0)
                continue;
            lock(&threads[i]);
            if (threads[i].count > 0)
                show_first(&threads[i], 1 + (int)(delays_random() % (uint64_t)threads[i].count));
            unlock(&threads[i]);
        }
    }
    return NULL;
}

static void start_emptying(void)
{
    pthread_t id;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&id, NULL, empty, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void end_thread(void *thread)
{
    show_all(thread);
    self = NULL;
    is_excluded = true;
    atomic_store(&((struct thread *)thread)->is_used, false);
}

static void before_fork(void)
{
    delays_flush();
    for (int i = 0; i < THREADS_MAX; i++)
        lock(&threads[i]);
}

static void after_fork(void)
{
    for (int i = 0; i < THREADS_MAX; i++)
        unlock(&threads[i]);
}

/** The other threads are gone, and with them what they had not shown. */
static void in_child(void)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        threads[i].count = 0;
        if (&threads[i] != self)
            threads[i].is_used = false;
        unlock(&threads[i]);
    }
    start_emptying();
}

__attribute__((constructor)) static void begin(void)
{
    pthread_key_create(&key, end_thread);
    pthread_atfork(before_fork, after_fork, in_child);
    start_emptying();
    is_ready = true;
}

static void find_stack(struct thread *thread)
{
    pthread_attr_t attr;
    void *stack;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &stack, &bytes) == 0) {
        thread->stack_begin = (uintptr_t)stack;
        thread->stack_end = (uintptr_t)stack + bytes;
    }
    pthread_attr_destroy(&attr);
}

/** This thread, which is registered if it was not. NULL: there are too many, or it is too early or
 * too late for that: nothing is kept. */
static struct thread *find_self(void)
{
    if (self || is_excluded || !is_ready)
        return self;
    is_excluded = true;
    for (int i = 0; i < THREADS_MAX && !self; i++) {
        bool is_used = false;
        if (!atomic_compare_exchange_strong(&threads[i].is_used, &is_used, true))
            continue;
        find_stack(&threads[i]);
        pthread_setspecific(key, &threads[i]);
        self = &threads[i];
    }
    is_excluded = !self;
    return self;
}

/* ---- stores ---- */

static bool is_on_stack(const struct thread *thread, const void *at)
{
    return (uintptr_t)at >= thread->stack_begin && (uintptr_t)at < thread->stack_end;
}

bool delays_keep(void *at, uint64_t value, size_t bytes)
{
    struct thread *thread = find_self();
    if (!thread || is_on_stack(thread, at)) {
        delays_flush();
        return false;
    }
    if (thread->count == 0 && delays_random() % 4 != 0)
        return false; /* most are not delayed, or nothing would go on */
    lock(thread);
    if (thread->count == KEPT_MAX)
        show_first(thread, 1 + (int)(delays_random() % KEPT_MAX));
    thread->stores[thread->count] = (struct kept){at, value, bytes};
    thread->count++;
    unlock(thread);
    return true;
}

static bool overlaps(const struct kept *kept, const void *at, size_t bytes)
{
    const uintptr_t mine = (uintptr_t)kept->at, other = (uintptr_t)at;
    return mine < other + bytes && other < mine + kept->bytes;
}

bool delays_kept(const void *at, size_t bytes, uint64_t *value_out)
{
    bool is_found = false;
    if (!self || self->count == 0)
        return false;
    lock(self);
    for (int i = self->count - 1; i >= 0 && !is_found; i--) {
        if (!overlaps(&self->stores[i], at, bytes))
            continue;
        is_found = self->stores[i].at == at && self->stores[i].bytes == bytes;
        *value_out = self->stores[i].value;
        if (!is_found)
            show_first(self, self->count);
        break;
    }
    unlock(self);
    return is_found;
}

void delays_touch(const void *at, size_t bytes)
{
    if (!self || self->count == 0)
        return;
    lock(self);
    for (int i = 0; i < self->count; i++)
        if (overlaps(&self->stores[i], at, bytes))
            show_first(self, self->count);
    unlock(self);
}

void delays_flush(void)
{
    if (self && self->count > 0)
        show_all(self);
}
