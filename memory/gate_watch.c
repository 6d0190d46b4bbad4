// SPDX-License-Identifier: Apache-2.0
// Opens gates after the deadline of their collectives, and warns before that. Owns the list of
// watched gates and a thread, which is started for the first of them. Must never call a driver, or
// take a lock that is held during such a call: this thread is the one that still runs when all
// others wait there.
//
// How it works: the thread looks once a second while there are gates, and sleeps otherwise. So a
// collective costs a lock and rarely a signal.
#include "memory/gate_watch.h"

#include "base/condition.h"
#include "base/log.h"
#include "base/thread.h"
#include "memory/held.h"

#define TEXT                                                                                       \
    "while a stream waits for a collective, no thread may be in cudaFree, cudaFreeHost, "          \
    "cudaHostUnregister or the first launch of a kernel (CUDA_MODULE_LOADING=EAGER loads all "     \
    "kernels at the start)"

enum {
    /* After this many looks at a gate whose deadline has passed its stream is let go. Looks are
     * counted, not seconds, so that a process that was stopped for a while can end the collective
     * itself. */
    GRACE_LOOKS = 4,
    LINE = 64
};
static const int64_t look_ns = INT64_C(1000000000);  /* between two looks */
static const int64_t stuck_ns = INT64_C(5000000000); /* until a warning */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
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
/* not in one cache line, because different threads write them */
static _Alignas(LINE) _Atomic uint64_t entered;
static _Alignas(LINE) _Atomic uint64_t left;

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
    (void)kolo_condition_init(&changed);
}

/* ---- the thread ---- */

/** Lets streams go that are due; returns how many. *@p held_out: how many still wait. Held:
 * lock. */
static int let_go(int64_t now, int *held_out)
{
    int count = 0;
    *held_out = 0;
    for (struct kolo_gate *gate = first; gate; gate = gate->next_watched) {
        if (gate->is_holding && now >= gate->deadline && ++gate->looks >= GRACE_LOOKS) {
            /* first, so that nobody takes data for valid that the stream may change from now on */
            atomic_store(&gate->is_let_go, true);
            kolo_gate_release(gate);
            count++;
        }
        *held_out += gate->is_holding;
    }
    return count;
}

/** Returns for how long no call has come back, if that is to be told; otherwise 0. */
static int64_t look_for_stuck(struct calls *calls, int64_t now, int held)
{
    const uint64_t ended = atomic_load_explicit(&left, memory_order_relaxed);
    const bool is_inside = atomic_load_explicit(&entered, memory_order_relaxed) != ended;
    if (!is_inside || ended != calls->ended || held == 0) {
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
    if (!is_wanted()) /* since the lock was released for a message */
        return;
    is_dozing = !first;
    (void)kolo_condition_wait(&changed, &lock, is_dozing ? KOLO_NEVER : now + look_ns);
    if (is_wanted())
        is_dozing = false;
}

/** Says what was found, without the lock: a program's own function for messages may do anything. */
static void tell(int gone, int64_t stuck)
{
    if (gone > 0)
        KOLO_WARN(
            "%d stream%s of this process no longer wait%s for a collective whose deadline has "
            "passed: probably CUDA keeps the collective waiting, because a thread called what "
            "waits for all streams; " TEXT,
            gone, gone == 1 ? "" : "s", gone == 1 ? "s" : "");
    if (stuck > 0)
        KOLO_WARN("no call of CUDA has come back to kolo for %.0f s: " TEXT
                  "; a stream goes on after its collective's deadline",
                  (double)stuck / 1e9);
}

static void *thread_main(void *unused)
{
    struct calls calls = {.since = kolo_now_ns()};
    (void)pthread_mutex_lock(&lock);
    while (is_wanted()) {
        const int64_t now = kolo_now_ns();
        int held;
        const int gone = let_go(now, &held);
        const int64_t stuck = look_for_stuck(&calls, now, held);
        if (gone > 0 || stuck > 0) {
            (void)pthread_mutex_unlock(&lock);
            tell(gone, stuck);
            (void)pthread_mutex_lock(&lock);
        }
        rest(now);
    }
    (void)pthread_mutex_unlock(&lock);
    return unused;
}

/** Returns whether it failed and nobody knows that yet. Held: lock. */
static bool start_thread(void)
{
    static bool has_failed;
    has_thread = kolo_thread_start(&thread, NULL, thread_main, NULL) == 0;
    const bool is_news = !has_thread && !has_failed;
    has_failed |= !has_thread;
    return is_news;
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

/** Held: lock. */
static void put_in(struct kolo_gate *gate, kolo_deadline deadline)
{
    gate->deadline = deadline;
    gate->looks = 0;
    gate->is_watched = true;
    gate->next_watched = first;
    gate->last_watched = NULL;
    if (first)
        first->last_watched = gate;
    first = gate;
}

void kolo_gate_watch(struct kolo_gate *gate, kolo_deadline deadline)
{
    bool has_failed = false;
    (void)pthread_mutex_lock(&lock);
    put_in(gate, deadline);
    if (!has_thread)
        has_failed = start_thread();
    else if (is_dozing)
        (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    if (has_failed)
        KOLO_WARN(
            "there is no thread to let streams go after the deadline of their collectives: " TEXT);
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
    atomic_store(&gate->is_let_go, false);
    (void)pthread_mutex_unlock(&lock);
}

bool kolo_gate_was_let_go(const struct kolo_gate *gate)
{
    return atomic_load(&gate->is_let_go);
}
