// SPDX-License-Identifier: Apache-2.0
// Opens gates after the deadline of their collectives, and warns before that. Owns the list of
// watched gates and a thread, which is started for the first of them. Must never call a driver, or
// take a lock that is held during such a call: this thread is the one that still runs when all
// others wait there.
//
// How it works: the thread looks once a second while there are gates, and sleeps otherwise. So a
// collective costs a lock and rarely a signal.
#include "memory/gate_watch.h"

#include "base/log.h"
#include "memory/held.h"

#define TEXT                                                                                       \
    "while a stream waits for a collective, no thread may be in cudaFree, cudaFreeHost, "          \
    "cudaHostUnregister or the first launch of a kernel (CUDA_MODULE_LOADING=EAGER loads all "     \
    "kernels at the start)"

static const int64_t look_ns = INT64_C(1000000000);  /* between two looks */
static const int64_t grace_ns = INT64_C(3000000000); /* for a collective to end by itself */
static const int64_t stuck_ns = INT64_C(5000000000); /* until a warning */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* with the monotonic clock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kolo_gate *first; /* held: lock, as all below */
static int lanes;
static pthread_t thread;
static bool has_thread;
static bool is_dozing; /* the thread sleeps until it is told of a gate */

/** What the thread has seen of calls of the driver. */
struct calls {
    uint64_t ended;
    int64_t since;
    bool has_warned;
};
static _Atomic uint64_t entered, left;

void kolo_driver_entered(void)
{
    atomic_fetch_add_explicit(&entered, 1, memory_order_relaxed);
}

void kolo_driver_left(void)
{
    atomic_fetch_add_explicit(&left, 1, memory_order_relaxed);
}

static void init(void)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/* ---- the thread ---- */

/** Lets one stream go; returns for how long the deadline has passed, or 0 if none is due. Held:
 * lock. */
static int64_t let_one_go(int64_t now)
{
    for (struct kolo_gate *gate = first; gate; gate = gate->next_watched)
        if (!gate->is_let_go && gate->deadline <= now - grace_ns) {
            gate->is_let_go = true;
            kolo_gate_release(gate);
            return now - gate->deadline;
        }
    return 0;
}

/** Returns for how long no call has come back, if that is to be told; otherwise 0. Held: lock. */
static int64_t look_for_stuck(struct calls *calls, int64_t now)
{
    const uint64_t ended = atomic_load_explicit(&left, memory_order_relaxed);
    const bool is_inside = atomic_load_explicit(&entered, memory_order_relaxed) != ended;
    if (!is_inside || ended != calls->ended || !first) {
        *calls = (struct calls){.ended = ended, .since = now};
        return 0;
    }
    if (calls->has_warned || now - calls->since < stuck_ns)
        return 0;
    calls->has_warned = true;
    return now - calls->since;
}

/** A thread that is to end has a successor, or none. Held: lock. */
static bool is_wanted(void)
{
    return has_thread && pthread_equal(thread, pthread_self());
}

/** Held: lock, released meanwhile. */
static void rest(int64_t now)
{
    const struct timespec until = {.tv_sec = (time_t)((now + look_ns) / 1000000000),
                                   .tv_nsec = (long)((now + look_ns) % 1000000000)};
    is_dozing = !first;
    if (is_dozing)
        (void)pthread_cond_wait(&changed, &lock);
    else
        (void)pthread_cond_timedwait(&changed, &lock, &until);
    if (is_wanted())
        is_dozing = false;
}

/** Says what was found, without the lock: a program's own function for messages may do anything. */
static void tell(int64_t overdue, int64_t stuck)
{
    if (overdue > 0)
        KOLO_WARN("a stream goes on before its collective has ended, whose deadline passed %.1f s "
                  "ago: the thread that carries it out has not come back from CUDA; " TEXT,
                  (double)overdue / 1e9);
    if (stuck > 0)
        KOLO_WARN("no call of CUDA has come back to kolo for %.0f s: " TEXT
                  "; the stream goes on at the collective's deadline",
                  (double)stuck / 1e9);
}

static void *thread_main(void *unused)
{
    struct calls calls = {.since = kolo_now_ns()};
    (void)pthread_mutex_lock(&lock);
    while (is_wanted()) {
        const int64_t now = kolo_now_ns();
        const int64_t overdue = let_one_go(now), stuck = look_for_stuck(&calls, now);
        if (overdue == 0 && stuck == 0) {
            rest(now);
            continue;
        }
        (void)pthread_mutex_unlock(&lock);
        tell(overdue, stuck);
        (void)pthread_mutex_lock(&lock);
    }
    (void)pthread_mutex_unlock(&lock);
    return unused;
}

/** Held: lock. */
static void start_thread(void)
{
    static bool has_warned;
    has_thread = pthread_create(&thread, NULL, thread_main, NULL) == 0;
    if (!has_thread && !has_warned) {
        has_warned = true;
        KOLO_WARN(
            "there is no thread to let streams go at the deadline of their collectives: " TEXT);
    }
}

/* ---- lanes and gates ---- */

void kolo_gate_watch_join(void)
{
    (void)pthread_once(&once, init);
    (void)pthread_mutex_lock(&lock);
    lanes++;
    (void)pthread_mutex_unlock(&lock);
}

void kolo_gate_watch_leave(void)
{
    (void)pthread_mutex_lock(&lock);
    const bool ends = --lanes == 0 && has_thread;
    const pthread_t ended = thread;
    if (ends) {
        has_thread = false;
        (void)pthread_cond_broadcast(&changed);
    }
    (void)pthread_mutex_unlock(&lock);
    if (ends)
        (void)pthread_join(ended, NULL);
}

void kolo_gate_watch(struct kolo_gate *gate, kolo_deadline deadline)
{
    if (!gate->is_holding)
        return;
    (void)pthread_mutex_lock(&lock);
    gate->deadline = deadline;
    gate->is_let_go = false;
    gate->is_watched = true;
    gate->next_watched = first;
    gate->last_watched = NULL;
    if (first)
        first->last_watched = gate;
    first = gate;
    if (!has_thread)
        start_thread();
    else if (is_dozing)
        (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

void kolo_gate_unwatch(struct kolo_gate *gate)
{
    (void)pthread_mutex_lock(&lock);
    if (gate->is_watched) {
        if (gate->last_watched)
            gate->last_watched->next_watched = gate->next_watched;
        else
            first = gate->next_watched;
        if (gate->next_watched)
            gate->next_watched->last_watched = gate->last_watched;
    }
    gate->is_watched = false;
    (void)pthread_mutex_unlock(&lock);
}

bool kolo_gate_was_let_go(const struct kolo_gate *gate)
{
    (void)pthread_mutex_lock(&lock);
    const bool is_let_go = gate->is_let_go;
    (void)pthread_mutex_unlock(&lock);
    return is_let_go;
}
