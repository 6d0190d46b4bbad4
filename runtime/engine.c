// SPDX-License-Identifier: Apache-2.0
// The engine: who moves things along, and how waiting threads spend their time.
//
// A thread that waits becomes the progressor if there is none: it moves the endpoint and advances
// requests until what it waits for is over, then gives the place to another that waits. Others wait
// on comm->changed. While asynchronous requests are outstanding and no caller waits, the progress
// thread (started with the first such request) has the place; a caller that comes takes it over.
//
// The progressor spins for comm->spin_ns, then yields the processor for comm->yield_ns, then arms
// the endpoint and sleeps until a peer wakes it or a timer is due. It holds the lock but for the
// sleep, and lets go of it as soon as another thread wants it.
#include "runtime/comm.h"

#include <sched.h>
#include <time.h>

#include "base/log.h"
#include "runtime/relax.h"

/* While spinning the clock is read every so many looks. */
enum { LOOKS_PER_CLOCK = 16 };

/** One look at everything. True: something moved. */
static bool turn(struct kolo_comm *comm)
{
    bool moved = false;
    kolo_status status = kolo_endpoint_progress(comm->endpoint, &moved);
    if (status != KOLO_OK)
        kolo_comm_fail(comm, status, kolo_error_detail(), true);
    kolo_requests_advance(comm);
    if (comm->suspicion.status != KOLO_OK)
        kolo_comm_settle(comm);
    return moved;
}

/** Lets those in who want the lock. */
static void let_in(struct kolo_comm *comm)
{
    if (atomic_load_explicit(&comm->wanting, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&comm->lock);
    while (atomic_load_explicit(&comm->wanting, memory_order_relaxed) > 0)
        sched_yield();
    pthread_mutex_lock(&comm->lock);
}

static void yield(struct kolo_comm *comm)
{
    pthread_mutex_unlock(&comm->lock);
    sched_yield();
    pthread_mutex_lock(&comm->lock);
}

/** Sleeps until a peer, a notification or a deadline ends it. */
static void sleep_until(struct kolo_comm *comm, const kolo_status *status, kolo_deadline deadline)
{
    kolo_endpoint_arm(comm->endpoint);
    bool moved = turn(comm);
    if (!moved && (status == NULL || *status == KOLO_AGAIN) && comm->failure.status == KOLO_OK) {
        deadline = kolo_deadline_min(deadline, comm->next_timer);
        comm->is_sleeping = true;
        pthread_mutex_unlock(&comm->lock);
        kolo_endpoint_sleep(comm->endpoint, deadline);
        pthread_mutex_lock(&comm->lock);
        comm->is_sleeping = false;
    }
    kolo_endpoint_disarm(comm->endpoint);
}

/** Has the place of the progressor until *status changes, the deadline passes, or the communicator
 * fails. */
static void progress(struct kolo_comm *comm, const kolo_status *status, kolo_deadline deadline)
{
    int64_t idle_since = 0, now = 0;
    unsigned looks = 0;
    while (*status == KOLO_AGAIN && comm->failure.status == KOLO_OK) {
        if (turn(comm)) {
            idle_since = 0;
            let_in(comm);
            continue;
        }
        if (*status != KOLO_AGAIN)
            return;
        let_in(comm);
        if (idle_since != 0 && ++looks % LOOKS_PER_CLOCK != 0 && now - idle_since < comm->spin_ns) {
            kolo_relax();
            continue;
        }
        now = kolo_now_ns();
        if (idle_since == 0)
            idle_since = now;
        if (now >= comm->next_timer)
            kolo_comm_timers(comm, now);
        if (now >= deadline)
            return;
        if (now - idle_since < comm->spin_ns)
            kolo_relax();
        else if (now - idle_since < comm->spin_ns + comm->yield_ns)
            yield(comm);
        else
            sleep_until(comm, status, deadline);
    }
}

/** Waits until another thread has news. The wait has a lock of its own, and comes back by
 * kolo_comm_enter: a progressor that is busy would keep the lock from a condition's waiter. */
static void wait_for_news(struct kolo_comm *comm, kolo_deadline deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000),
                             .tv_nsec = (long)(deadline % 1000000000)};
    uint64_t seen = comm->news;
    int error = 0;
    comm->waiting++;
    if (comm->is_sleeping)
        kolo_endpoint_wake(comm->endpoint); /* the progress thread makes room */
    kolo_comm_leave(comm);
    pthread_mutex_lock(&comm->news_lock);
    while (comm->news == seen && error == 0)
        error = deadline == KOLO_NEVER
                    ? pthread_cond_wait(&comm->changed, &comm->news_lock)
                    : pthread_cond_timedwait(&comm->changed, &comm->news_lock, &until);
    pthread_mutex_unlock(&comm->news_lock);
    kolo_comm_enter(comm);
    comm->waiting--;
}

void kolo_engine_news(struct kolo_comm *comm)
{
    if (comm->waiting == 0)
        return;
    pthread_mutex_lock(&comm->news_lock);
    comm->news++;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->news_lock);
}

/** Somebody must take the place while there is something to do. */
static void offer_place(struct kolo_comm *comm)
{
    if (comm->has_progressor)
        return;
    if (comm->waiting > 0)
        kolo_engine_news(comm);
    else if (comm->outstanding > 0 && comm->has_thread)
        pthread_cond_signal(&comm->thread_wake);
}

static void release(struct kolo_comm *comm)
{
    comm->has_progressor = false;
    offer_place(comm);
}

bool kolo_engine_wait(struct kolo_comm *comm, const kolo_status *status, kolo_deadline deadline)
{
    while (*status == KOLO_AGAIN && comm->failure.status == KOLO_OK) {
        if (comm->has_progressor) {
            wait_for_news(comm, deadline);
        } else {
            comm->has_progressor = true;
            progress(comm, status, deadline);
            release(comm);
        }
        if (*status == KOLO_AGAIN && kolo_deadline_passed(deadline))
            break;
    }
    offer_place(comm); /* the progress thread may have made room for us, who give up */
    return *status != KOLO_AGAIN;
}

void kolo_engine_poll(struct kolo_comm *comm)
{
    if (comm->has_progressor)
        return;
    int64_t now = kolo_now_ns();
    (void)turn(comm);
    if (now >= comm->next_timer)
        kolo_comm_timers(comm, now);
}

void kolo_engine_notify(struct kolo_comm *comm)
{
    if (comm->is_sleeping)
        kolo_endpoint_wake(comm->endpoint);
    else if (!comm->has_progressor && comm->outstanding > 0 && comm->has_thread)
        pthread_cond_signal(&comm->thread_wake);
}

/* ---- the progress thread ---- */

static bool thread_has_work(const struct kolo_comm *comm)
{
    return comm->outstanding > 0 && comm->waiting == 0 && comm->failure.status == KOLO_OK &&
           !comm->is_stopping;
}

static void *thread_main(void *argument)
{
    struct kolo_comm *comm = argument;
    kolo_log_set_rank(comm->rank);
    pthread_mutex_lock(&comm->lock);
    while (!comm->is_stopping) {
        if (comm->has_progressor || !thread_has_work(comm)) {
            pthread_cond_wait(&comm->thread_wake, &comm->lock);
            continue;
        }
        comm->has_progressor = true;
        while (thread_has_work(comm)) {
            int64_t now = kolo_now_ns();
            if (now >= comm->next_timer)
                kolo_comm_timers(comm, now);
            if (!turn(comm) && thread_has_work(comm))
                sleep_until(comm, NULL, KOLO_NEVER);
            let_in(comm);
        }
        release(comm);
    }
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

kolo_status kolo_engine_start_thread(struct kolo_comm *comm)
{
    if (comm->has_thread)
        return KOLO_OK;
    int error = pthread_create(&comm->thread, NULL, thread_main, comm);
    if (error != 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "cannot start the progress thread");
    comm->has_thread = true;
    return KOLO_OK;
}

void kolo_engine_stop_thread(struct kolo_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool has_thread = comm->has_thread;
    comm->is_stopping = true;
    comm->has_thread = false;
    pthread_cond_signal(&comm->thread_wake);
    if (comm->is_sleeping)
        kolo_endpoint_wake(comm->endpoint);
    pthread_mutex_unlock(&comm->lock);
    if (has_thread)
        pthread_join(comm->thread, NULL);
}
