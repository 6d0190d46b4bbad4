// SPDX-License-Identifier: Apache-2.0
// The engine: which thread makes progress, and how waiting threads spend their time.
//
// A thread that waits becomes the progressor if there is none: it polls the endpoint and advances
// requests until what it waits for is over, then passes the role to another waiting thread. Other
// waiters wait on engine->changed. While asynchronous requests are outstanding and no caller waits,
// the progress thread is the progressor. It is started with the first such request, and a caller
// that comes to wait takes over from it.
//
// Most callers that start a request soon wait for it, or start more, and waking the thread costs
// them more than a short message takes. So while requests are started again and again the thread is
// not woken; it checks by itself whether it is needed. It checks every DOZE_LEAST_US at first, and
// less often while it finds that callers make progress on what they started (a check costs the work
// on that processor some 10 us), until it finds that it is needed. After DOZES checks without a
// start it sleeps, and the next start wakes it. While requests follow a device's stream, everything
// that may need the thread wakes it at once: their callers wait for the stream, not here.
//
// The progressor spins for engine->spin_ns (not at all while it finds that it shares its core with
// the rank it waits for: patience.h), then yields the processor for engine->yield_ns, then arms the
// endpoint and sleeps until a peer wakes it or a timer is due. It holds the lock except
// while it sleeps, and releases it as soon as another thread wants it. The spin loop has no pause
// instruction: a poll is some 200 instructions, and an emulated processor exits to its host for a
// pause.
#include "runtime/comm.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/condition.h"
#include "base/log.h"
#include "base/thread.h"
#include "memory/lane.h"
#include "runtime/finalized.h"

enum {
    LOOKS_PER_CLOCK = 16, /* polls for each reading of the clock while spinning */
    /* the same while things move, which may go on for ever, and not for this caller */
    MOVES_PER_CLOCK = 64,
    YIELDS_PER_TURN = 8, /* if ranks share processors and only a board is waited for */
    ASKS_PER_YIELD = 8,  /* by a program that asks repeatedly, in vain */
    AWAITED_NS =
        KOLO_NS_PER_MS, /* as long as the progressor leaves the lock to others that want it */
    DOZE_LEAST_US = 100,
    DOZE_MOST_US = 1600,
    DOZES = 12
};

/** The endpoint has failed; the detail says why. Fails all communicators. */
static void fail_all(struct kolo_engine *engine, kolo_status status)
{
    char text[KOLO_DETAIL_MAX];
    kolo_detail_keep(text);
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next)
        kolo_comm_fail(comm, status, text);
}

/** Whether it has no requests, no suspicion, and no parent that has failed. */
static bool is_idle(const struct kolo_comm *comm)
{
    return !comm->collectives.first && !comm->messages.list.first &&
           comm->suspicion.status == KOLO_OK && comm->orphan_by == 0;
}

bool kolo_engine_is_busy(struct kolo_engine *engine)
{
    for (struct kolo_comm *comm = engine->busy, *next; comm; comm = next) {
        next = comm->busy.next;
        if (!is_idle(comm))
            return true;
        kolo_comm_set_idle(comm);
    }
    return false;
}

/** Polls everything once. Returns whether something moved. */
static bool turn(struct kolo_engine *engine)
{
    bool moved = false;
    engine->turns++;
    kolo_status status = kolo_endpoint_progress(engine->endpoint, &moved);
    if (status != KOLO_OK)
        fail_all(engine, status);
    for (struct kolo_comm *comm = engine->busy, *next; comm; comm = next) {
        next = comm->busy.next;
        if (is_idle(comm))
            kolo_comm_set_idle(comm);
        kolo_requests_advance(comm);
        if (comm->finalized)
            kolo_comm_check_finalized(comm);
        if (comm->suspicion.status != KOLO_OK)
            kolo_comm_settle(comm);
    }
    moved |= engine->has_moved;
    engine->has_moved = false;
    return moved;
}

/** The progressor takes the lock again. A lock goes to any thread that asks for it, so threads that
 * call again and again could keep it for ever: after AWAITED_NS they give way (kolo_engine_enter).
 */
static void take_back(struct kolo_engine *engine)
{
    if (pthread_mutex_trylock(&engine->lock) == 0)
        return;
    /* pthread_mutex_clocklock would do, but ThreadSanitizer of gcc 12 does not see it. */
    const kolo_deadline end = kolo_now_ns() + AWAITED_NS;
    do {
        sched_yield();
        if (pthread_mutex_trylock(&engine->lock) == 0)
            return;
    } while (!kolo_deadline_passed(end));
    atomic_store_explicit(&engine->is_awaited, true, memory_order_relaxed);
    pthread_mutex_lock(&engine->lock);
    atomic_store_explicit(&engine->is_awaited, false, memory_order_relaxed);
}

/** Releases the lock briefly if other threads want it. With many that call again and again there
 * is always one. */
static void let_in(struct kolo_engine *engine)
{
    if (atomic_load_explicit(&engine->wanting, memory_order_relaxed) == 0)
        return;
    const kolo_deadline end = kolo_now_ns() + AWAITED_NS;
    pthread_mutex_unlock(&engine->lock);
    while (atomic_load_explicit(&engine->wanting, memory_order_relaxed) > 0 &&
           !kolo_deadline_passed(end))
        sched_yield();
    take_back(engine);
}

static void yield(struct kolo_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
    sched_yield();
    take_back(engine);
}

/** Whether the wait is over. @p comm NULL: its failure would not end the wait. */
static bool is_over(const struct kolo_comm *comm, const kolo_status *status)
{
    return *status != KOLO_AGAIN || (comm && comm->failure.status != KOLO_OK);
}

/** Before a sleep, asks the devices' lanes to wake the sleeper, and undoes that afterwards.
 * *deadline: moved closer if a lane cannot wake it, so that the lane is polled soon. */
static void set_lanes_asleep(struct kolo_engine *engine, bool is_asleep, kolo_deadline *deadline)
{
    for (struct kolo_lane *lane = engine->lanes; lane; lane = lane->next)
        if (kolo_lane_sleeps(lane, is_asleep) != KOLO_OK)
            *deadline = kolo_deadline_min(*deadline, kolo_now_ns() + KOLO_LANE_UNTOLD_NS);
}

/** Sleeps until a peer, a notification or a deadline. @p status NULL: nobody waits for a status. */
static void sleep_until(struct kolo_engine *engine, const struct kolo_comm *comm,
                        const kolo_status *status, kolo_deadline deadline)
{
    kolo_endpoint_arm(engine->endpoint);
    set_lanes_asleep(engine, true, &deadline);
    bool moved = turn(engine);
    if (!moved && (!status || !is_over(comm, status))) {
        deadline = kolo_deadline_min(deadline, engine->next_timer);
        engine->is_sleeping = true;
        pthread_mutex_unlock(&engine->lock);
        kolo_endpoint_sleep(engine->endpoint, deadline);
        take_back(engine);
        engine->is_sleeping = false;
    }
    set_lanes_asleep(engine, false, &deadline);
    kolo_endpoint_disarm(engine->endpoint);
}

/** If ranks share processors, a collective on a board waits for other ranks to run. So only its
 * requests are advanced between yields, and everything else is polled once in YIELDS_PER_TURN. */
static void yield_on_board(struct kolo_comm *comm, const kolo_status *status)
{
    struct kolo_engine *engine = comm->engine;
    for (int i = 0; i < YIELDS_PER_TURN && !is_over(comm, status) && !engine->has_moved; i++) {
        const struct kolo_request *request = comm->collectives.first;
        if (engine->spin_ns > 0 || !request || !request->route->is_on_board)
            return;
        yield(engine);
        let_in(engine);
        kolo_requests_advance(comm);
    }
}

/** Reads the clock, and fires the timers that are due. */
static int64_t look_at_clock(struct kolo_engine *engine)
{
    const int64_t now = kolo_now_ns();
    if (now >= engine->next_timer)
        kolo_engine_timers(engine, now);
    return now;
}

/** The first yield of a wait, at @p now. What the look after it finds says how long the waits to
 * come should spin. Returns whether something moved. */
static bool yield_and_learn(struct kolo_engine *engine, int64_t now, const kolo_status *status)
{
    yield(engine);
    const int64_t took_ns = kolo_now_ns() - now;
    const bool moved = turn(engine);
    kolo_patience_yielded(&engine->patience, took_ns, moved || *status != KOLO_AGAIN);
    return moved;
}

/** A wait of the progressor, since something last moved. */
struct idleness {
    int64_t since; /* 0: the first look has yet to be in vain */
    int64_t spin_ns;
    bool has_yielded;
};

/** Nothing has moved, at @p now. Returns whether something has moved after all. */
static bool idle(struct kolo_engine *engine, struct idleness *idleness, int64_t now,
                 const struct kolo_comm *comm, const kolo_status *status, kolo_deadline deadline)
{
    if (idleness->since == 0)
        *idleness =
            (struct idleness){.since = now, .spin_ns = kolo_patience_begin(&engine->patience)};
    const int64_t idle_ns = now - idleness->since;
    if (idle_ns < idleness->spin_ns)
        return false;
    if (idle_ns >= engine->spin_ns + engine->yield_ns) {
        sleep_until(engine, comm, status, deadline);
        return false;
    }
    const bool learns = engine->patience.learns && !idleness->has_yielded;
    idleness->has_yielded = true;
    if (learns)
        return yield_and_learn(engine, now, status);
    yield(engine);
    return false;
}

/** Is the progressor until *status changes, the deadline passes, or the communicator fails. */
static void progress(struct kolo_engine *engine, struct kolo_comm *comm, const kolo_status *status,
                     kolo_deadline deadline)
{
    struct idleness idleness = {0};
    int64_t now = 0;
    while (!is_over(comm, status)) {
        if (comm)
            yield_on_board(comm, status);
        if (turn(engine)) {
            idleness.since = 0;
            let_in(engine);
            if (++engine->looks < MOVES_PER_CLOCK)
                continue;
            engine->looks = 0;
            if (look_at_clock(engine) >= deadline)
                return;
            continue;
        }
        if (*status != KOLO_AGAIN)
            return;
        let_in(engine);
        if (idleness.since != 0 && ++engine->looks < LOOKS_PER_CLOCK &&
            now - idleness.since < idleness.spin_ns)
            continue;
        engine->looks = 0;
        now = look_at_clock(engine);
        if (now >= deadline)
            return;
        if (idle(engine, &idleness, now, comm, status, deadline))
            idleness.since = 0;
    }
}

/** Waits until another thread has news. The wait uses a lock of its own, and then
 * kolo_engine_enter, because a busy progressor would keep engine->lock from a thread that waits on
 * a condition with it. */
static void wait_for_news(struct kolo_engine *engine, kolo_deadline deadline)
{
    uint64_t seen = engine->news;
    int error = 0;
    engine->waiting++;
    if (engine->is_sleeping)
        kolo_endpoint_wake(engine->endpoint); /* the progress thread makes room */
    kolo_engine_leave(engine);
    pthread_mutex_lock(&engine->news_lock);
    while (engine->news == seen && error == 0)
        error = kolo_condition_wait(&engine->changed, &engine->news_lock, deadline);
    pthread_mutex_unlock(&engine->news_lock);
    kolo_engine_enter(engine);
    engine->waiting--;
}

void kolo_engine_news(struct kolo_engine *engine)
{
    if (engine->waiting == 0)
        return;
    pthread_mutex_lock(&engine->news_lock);
    engine->news++;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->news_lock);
}

/** Makes the progress thread run at once. One post is enough, however often this is called. */
static void wake_thread(struct kolo_engine *engine)
{
    engine->thread.is_asleep = false;
    if (!atomic_exchange(&engine->thread.is_woken, true))
        (void)sem_post(&engine->thread.wake); /* fails only if there are too many posts */
}

/** Makes the progress thread check whether it is needed: soon, if it dozes. */
static void call_thread(struct kolo_engine *engine)
{
    atomic_fetch_add_explicit(&engine->thread.calls, 1, memory_order_relaxed);
    if (engine->thread.is_asleep || engine->following > 0)
        wake_thread(engine);
}

/** Finds another progressor while there is something to do. */
static void offer_place(struct kolo_engine *engine)
{
    if (engine->has_progressor)
        return;
    if (engine->waiting > 0)
        kolo_engine_news(engine);
    else if (engine->outstanding > 0 && engine->thread.is_running)
        call_thread(engine);
}

/** Written with the lock held, but the progress thread reads it without. */
static void set_progressor(struct kolo_engine *engine, bool is_there)
{
    atomic_store_explicit(&engine->has_progressor, is_there, memory_order_relaxed);
}

static void release(struct kolo_engine *engine)
{
    set_progressor(engine, false);
    offer_place(engine);
}

bool kolo_engine_await(struct kolo_engine *engine, struct kolo_comm *comm,
                       const kolo_status *status, kolo_deadline deadline)
{
    while (!is_over(comm, status)) {
        if (engine->has_progressor) {
            wait_for_news(engine, deadline);
        } else {
            set_progressor(engine, true);
            progress(engine, comm, status, deadline);
            release(engine);
        }
        if (*status == KOLO_AGAIN && kolo_deadline_passed(deadline))
            break;
    }
    offer_place(engine); /* the progress thread may have made room for this one, which gives up */
    return *status != KOLO_AGAIN;
}

void kolo_engine_poll(struct kolo_engine *engine)
{
    if (engine->has_progressor)
        return;
    int64_t now = kolo_now_ns();
    (void)turn(engine);
    if (now >= engine->next_timer)
        kolo_engine_timers(engine, now);
}

void kolo_engine_asked_in_vain(struct kolo_engine *engine)
{
    if (engine->spin_ns > 0 || ++engine->asks % ASKS_PER_YIELD != 0)
        return;
    kolo_engine_leave(engine);
    sched_yield();
    kolo_engine_enter(engine);
}

void kolo_engine_notify(struct kolo_engine *engine)
{
    if (engine->is_sleeping)
        kolo_endpoint_wake(engine->endpoint);
    else if (!engine->has_progressor && engine->outstanding > 0 && engine->thread.is_running)
        call_thread(engine);
}

/* ---- the progress thread ---- */

static bool thread_has_work(const struct kolo_engine *engine)
{
    return engine->outstanding > 0 && engine->waiting == 0 && !engine->thread.is_stopping;
}

/** Takes the lock if the thread is needed. Never waits for the lock: its holder makes progress
 * itself, or would have to release it for a mere check. */
static bool enter_if_needed(struct kolo_engine *engine)
{
    const bool is_stopping =
        atomic_load_explicit(&engine->thread.is_stopping, memory_order_relaxed);
    if (!is_stopping && (atomic_load_explicit(&engine->outstanding, memory_order_relaxed) == 0 ||
                         atomic_load_explicit(&engine->has_progressor, memory_order_relaxed)))
        return false;
    return pthread_mutex_trylock(&engine->lock) == 0;
}

/** Sleeps for @p us microseconds (negative: without limit), or until wake_thread(), and then
 * returns true. Not held: lock. */
static bool nap(struct kolo_engine *engine, int us)
{
    const kolo_deadline end = kolo_now_ns() + us * INT64_C(1000);
    const struct timespec until = kolo_timespec(end);
    int error;
    do
        error = us < 0 ? sem_wait(&engine->thread.wake)
                       : sem_clockwait(&engine->thread.wake, CLOCK_MONOTONIC, &until);
    while (error != 0 && errno == EINTR);
    if (error == 0)
        atomic_store(&engine->thread.is_woken, false);
    return error == 0;
}

/** Sleeps until it is woken. Held: lock, released meanwhile. */
static void sleep_deeply(struct kolo_engine *engine)
{
    engine->thread.is_asleep = true;
    pthread_mutex_unlock(&engine->lock);
    (void)nap(engine, -1);
    kolo_engine_enter(engine);
    engine->thread.is_asleep = false;
}

/** Checks every *nap_us until the thread is needed or woken. After DOZES checks without a call it
 * sleeps until the next. Checks become rarer while they find calls that others have served, and
 * more frequent while there are none. *calls: the number of calls at the last check. Held: lock. */
static void doze(struct kolo_engine *engine, int *nap_us, uint64_t *calls)
{
    unsigned looks = 0;
    pthread_mutex_unlock(&engine->lock);
    do {
        if (nap(engine, *nap_us)) {
            kolo_engine_enter(engine);
            return;
        }
        if (enter_if_needed(engine))
            return;
        const uint64_t now = atomic_load_explicit(&engine->thread.calls, memory_order_relaxed);
        const int next_us = now != *calls ? *nap_us * 2 : *nap_us / 2;
        *nap_us = next_us < DOZE_LEAST_US  ? DOZE_LEAST_US
                  : next_us > DOZE_MOST_US ? DOZE_MOST_US
                                           : next_us;
        looks = now == *calls ? looks + 1 : 0;
        *calls = now;
    } while (looks < DOZES);
    kolo_engine_enter(engine);
    if (*calls == engine->thread.calls && (engine->has_progressor || !thread_has_work(engine)))
        sleep_deeply(engine);
    *nap_us = DOZE_LEAST_US;
}

static void *thread_main(void *argument)
{
    struct kolo_engine *engine = argument;
    uint64_t calls = 0;
    int nap_us = DOZE_LEAST_US;
    kolo_log_set_rank(engine->rank);
    pthread_mutex_lock(&engine->lock);
    while (!engine->thread.is_stopping) {
        if (engine->has_progressor || !thread_has_work(engine)) {
            doze(engine, &nap_us, &calls);
            continue;
        }
        set_progressor(engine, true);
        nap_us = DOZE_LEAST_US;
        while (thread_has_work(engine)) {
            (void)look_at_clock(engine);
            if (!turn(engine) && thread_has_work(engine))
                sleep_until(engine, NULL, NULL, KOLO_NEVER);
            let_in(engine);
        }
        release(engine);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

kolo_status kolo_engine_start_thread(struct kolo_engine *engine)
{
    if (engine->thread.is_running)
        return KOLO_OK;
    int error = kolo_thread_start(&engine->thread.id, NULL, thread_main, engine);
    if (error != 0)
        return kolo_fail_start(error, "cannot start the progress thread");
    engine->thread.is_running = true;
    return KOLO_OK;
}

void kolo_engine_stop_thread(struct kolo_engine *engine)
{
    kolo_engine_enter(engine); /* the thread to be stopped may hold the lock for long */
    bool has_thread = engine->thread.is_running;
    engine->thread.is_stopping = true;
    engine->thread.is_running = false;
    wake_thread(engine);
    if (engine->is_sleeping)
        kolo_endpoint_wake(engine->endpoint);
    kolo_engine_leave(engine);
    if (has_thread)
        pthread_join(engine->thread.id, NULL);
}
