// SPDX-License-Identifier: Apache-2.0
// The common part of all lanes: counts marks, records gates that are reached and opened, and wakes
// threads that wait for either. Owns no device, stream or gate; these belong to the backend
// (memory/cuda_lane.c).
#include "memory/lane.h"

#include <errno.h>
#include <sched.h>

#include "base/condition.h"
#include "memory/gate_watch.h"
#include "memory/held.h"

enum {
    SPIN_NS = 200000, /* polling sees a mark long before the driver reports it */
    /* How long to wait for a stream that has reached an open gate: it passes the gate soon, and
     * reports that to nobody. */
    PASS_NS = 100000
};

kolo_status kolo_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                           void *context, struct kolo_lane **lane_out)
{
    if (!pointer->ops || !pointer->ops->lane_open)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "memory at %p is of a kind without copies",
                         pointer->memory);
    const kolo_status status = pointer->ops->lane_open(pointer, wake, context, lane_out);
    if (status == KOLO_OK)
        kolo_gate_watch_join();
    return status;
}

kolo_status kolo_lane_init(struct kolo_lane *lane, const struct kolo_lane_ops *ops,
                           void (*wake)(void *context), void *context)
{
    *lane = (struct kolo_lane){.ops = ops, .wake = wake, .context = context};
    int error = kolo_condition_init(&lane->changed);
    if (error == 0) {
        error = pthread_mutex_init(&lane->lock, NULL);
        if (error != 0)
            (void)pthread_cond_destroy(&lane->changed);
    }
    return error == 0 ? KOLO_OK : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "lock of a lane");
}

void kolo_lane_deinit(struct kolo_lane *lane)
{
    (void)pthread_mutex_destroy(&lane->lock);
    (void)pthread_cond_destroy(&lane->changed);
}

/** Wakes the lane's owner, unless the lane is closing. Held: lock. */
static void wake_owner(struct kolo_lane *lane)
{
    if (lane->wake)
        lane->wake(lane->context);
}

/* ---- marks ---- */

void kolo_lane_told(struct kolo_lane *lane, enum kolo_way way)
{
    (void)pthread_mutex_lock(&lane->lock);
    lane->is_telling[way] = false;
    lane->wakes++;
    wake_owner(lane);
    (void)pthread_cond_broadcast(&lane->changed);
    (void)pthread_mutex_unlock(&lane->lock);
}

/** Returns whether it was set before. */
static bool set_telling(struct kolo_lane *lane, enum kolo_way way, bool is_telling)
{
    (void)pthread_mutex_lock(&lane->lock);
    const bool was_telling = lane->is_telling[way];
    lane->is_telling[way] = is_telling;
    (void)pthread_mutex_unlock(&lane->lock);
    return was_telling;
}

/** Asks the driver to notify. Only one notification of each direction is outstanding at a time: the
 * thread that it wakes checks the marks and asks for the next. */
static kolo_status tell(struct kolo_lane *lane, enum kolo_way way, uint64_t mark)
{
    if (set_telling(lane, way, true))
        return KOLO_OK;
    const kolo_status status = lane->ops->tell(lane, way, mark);
    if (status != KOLO_OK)
        (void)set_telling(lane, way, false);
    return status;
}

/** Asks for a notification of the first mark that has not passed, if there is one. */
static kolo_status tell_of_next(struct kolo_lane *lane, enum kolo_way way)
{
    const uint64_t last = atomic_load_explicit(&lane->marks[way], memory_order_acquire);
    uint64_t passed;
    const kolo_status status = kolo_lane_look(lane, way, last, &passed);
    return status == KOLO_AGAIN ? tell(lane, way, passed + 1) : status;
}

kolo_status kolo_lane_sleeps(struct kolo_lane *lane, bool is_asleep)
{
    kolo_status status = KOLO_OK;
    atomic_store_explicit(&lane->is_asleep, is_asleep, memory_order_relaxed);
    for (int way = 0; way < KOLO_WAYS && is_asleep && status == KOLO_OK; way++)
        status = tell_of_next(lane, (enum kolo_way)way);
    return status;
}

kolo_status kolo_lane_mark(struct kolo_lane *lane, enum kolo_way way, uint64_t *mark_out)
{
    const uint64_t next = atomic_load_explicit(&lane->marks[way], memory_order_relaxed) + 1;
    const kolo_status status = lane->ops->mark(lane, way, next);
    if (status != KOLO_OK)
        return status;
    atomic_store_explicit(&lane->marks[way], next, memory_order_release);
    *mark_out = next;
    if (atomic_load_explicit(&lane->is_asleep, memory_order_relaxed) &&
        tell(lane, way, next) != KOLO_OK) { /* a sleeping thread must check by itself */
        (void)pthread_mutex_lock(&lane->lock);
        wake_owner(lane);
        (void)pthread_mutex_unlock(&lane->lock);
    }
    return KOLO_OK;
}

kolo_status kolo_lane_look(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           uint64_t *passed_out)
{
    const uint64_t last = atomic_load_explicit(&lane->marks[way], memory_order_acquire);
    *passed_out = 0;
    const kolo_status status = last > 0 ? lane->ops->look(lane, way, last, passed_out) : KOLO_OK;
    if (*passed_out >= mark || status != KOLO_OK)
        return *passed_out >= mark ? KOLO_OK : status;
    return mark <= last ? KOLO_AGAIN : lane->ops->check(lane, way);
}

kolo_status kolo_lane_passed(struct kolo_lane *lane, enum kolo_way way, uint64_t mark)
{
    uint64_t passed;
    return kolo_lane_look(lane, way, mark, &passed);
}

static uint64_t wakes_of(struct kolo_lane *lane)
{
    (void)pthread_mutex_lock(&lane->lock);
    const uint64_t wakes = lane->wakes;
    (void)pthread_mutex_unlock(&lane->lock);
    return wakes;
}

/** Sleeps until a mark is reported after @p seen of them, but not long. */
static void rest(struct kolo_lane *lane, uint64_t seen, kolo_deadline deadline, int64_t most_ns)
{
    const kolo_deadline look = kolo_deadline_min(deadline, kolo_now_ns() + most_ns);
    int error = 0;
    (void)pthread_mutex_lock(&lane->lock);
    while (lane->wakes == seen && error == 0)
        error = kolo_condition_wait(&lane->changed, &lane->lock, look);
    (void)pthread_mutex_unlock(&lane->lock);
}

/** Sleeps until a mark is reported, or until it is time to check for a failed device, which passes
 * no marks. */
static void sleep_on(struct kolo_lane *lane, enum kolo_way way, kolo_deadline deadline)
{
    const uint64_t seen = wakes_of(lane);
    const bool is_told = tell_of_next(lane, way) == KOLO_OK;
    rest(lane, seen, deadline, is_told ? KOLO_LOOK_NS : KOLO_LANE_UNTOLD_NS);
}

kolo_status kolo_lane_wait(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           kolo_deadline deadline)
{
    const kolo_deadline soon = kolo_now_ns() + SPIN_NS;
    kolo_status status;
    while ((status = kolo_lane_passed(lane, way, mark)) == KOLO_AGAIN &&
           !kolo_deadline_passed(deadline))
        if (kolo_deadline_passed(soon))
            sleep_on(lane, way, deadline);
        else
            (void)sched_yield();
    return status;
}

/** Whoever marks or looks may have been refused by the driver, while the device copies. So then the
 * stream itself is asked. */
bool kolo_lane_is_over(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                       kolo_deadline deadline)
{
    char detail[KOLO_DETAIL_MAX]; /* why the call ended, which is the answer that matters */
    kolo_detail_keep(detail);
    kolo_status status = kolo_lane_wait(lane, way, mark, deadline);
    bool is_late = false;
    while (status != KOLO_OK && (status = lane->ops->check_over(lane, way)) == KOLO_AGAIN &&
           !is_late) {
        is_late = kolo_deadline_passed(deadline);
        if (!is_late)
            rest(lane, wakes_of(lane), deadline, KOLO_LANE_UNTOLD_NS);
    }
    kolo_detail_set(detail);
    return status == KOLO_OK;
}

/* ---- memory that others have lent ---- */

kolo_status kolo_lane_ready(struct kolo_lane *lane, kolo_deadline deadline)
{
    if (kolo_lane_is_ready(lane))
        return KOLO_OK;
    if (!lane->ops->ready)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "its device cannot access memory of other ranks");
    const kolo_status status = lane->ops->ready(lane, deadline);
    if (status == KOLO_OK)
        atomic_store_explicit(&lane->is_ready, true, memory_order_release);
    return status;
}

bool kolo_lane_forget(struct kolo_lane *lane, int lender, uint64_t id)
{
    return !kolo_lane_is_ready(lane) || lane->ops->forget(lane, lender, id);
}

struct kolo_mapping *kolo_lane_detach(struct kolo_lane *lane)
{
    return kolo_lane_is_ready(lane) ? lane->ops->detach(lane) : NULL;
}

/* ---- gates ---- */

kolo_status kolo_lane_place(struct kolo_lane *lane, void *stream, bool holds, int64_t timeout_ms,
                            struct kolo_gate **gate_out)
{
    kolo_status status = KOLO_OK;
    if (holds)
        status = kolo_held_begin(lane->streams, kolo_deadline_in_ms(timeout_ms));
    if (status != KOLO_OK)
        return status;
    status = lane->ops->place(lane, stream, holds, timeout_ms, gate_out);
    if (status != KOLO_OK && holds)
        kolo_held_end(lane->streams);
    return status;
}

bool kolo_gate_take(struct kolo_gate *gate)
{
    struct kolo_lane *lane = gate->lane;
    (void)pthread_mutex_lock(&lane->lock);
    const bool is_free = !gate->is_taken && !gate->is_due;
    if (is_free) {
        gate->is_taken = gate->is_due = true;
        lane->gates_due++;
    }
    (void)pthread_mutex_unlock(&lane->lock);
    return is_free;
}

void kolo_gate_drop(struct kolo_gate *gate)
{
    struct kolo_lane *lane = gate->lane;
    (void)pthread_mutex_lock(&lane->lock);
    gate->is_taken = gate->is_due = false;
    lane->gates_due--;
    (void)pthread_mutex_unlock(&lane->lock);
}

void kolo_gate_reach(struct kolo_gate *gate)
{
    struct kolo_lane *lane = gate->lane;
    (void)pthread_mutex_lock(&lane->lock);
    gate->is_due = false;
    lane->gates_due--;
    wake_owner(lane);
    (void)pthread_cond_broadcast(&lane->changed);
    (void)pthread_mutex_unlock(&lane->lock);
}

kolo_status kolo_gate_reached(const struct kolo_gate *gate)
{
    struct kolo_lane *lane = gate->lane;
    (void)pthread_mutex_lock(&lane->lock);
    const bool is_due = gate->is_due;
    (void)pthread_mutex_unlock(&lane->lock);
    if (!is_due)
        return KOLO_OK;
    /* a context that failed calls no functions, and its streams may be gone: check the lane's own
     * stream */
    const kolo_status status = lane->ops->check(lane, KOLO_WAY_IN);
    return status == KOLO_OK ? KOLO_AGAIN : status;
}

void kolo_gate_release(struct kolo_gate *gate)
{
    const bool was_holding = gate->is_holding;
    gate->is_holding = false;
    __atomic_store_n(gate->word, gate->ticket, __ATOMIC_RELEASE);
    if (was_holding)
        kolo_held_end(gate->lane->streams);
}

void kolo_gate_open(struct kolo_gate *gate)
{
    struct kolo_lane *lane = gate->lane;
    kolo_gate_unwatch(gate);
    kolo_gate_release(gate);
    (void)pthread_mutex_lock(&lane->lock);
    gate->is_taken = false;
    (void)pthread_mutex_unlock(&lane->lock);
}

/** A device that has failed lets no stream reach a gate. */
static bool has_failed(void *context)
{
    struct kolo_lane *lane = context;
    const kolo_status status = lane->ops->check(lane, KOLO_WAY_IN);
    return status != KOLO_OK && status != KOLO_AGAIN;
}

/** Waits until streams have reached all gates of the lane. */
static bool await_reached(struct kolo_lane *lane, kolo_deadline deadline)
{
    const struct kolo_unless unless = {.is_over = has_failed, .context = lane};
    int error = 0;
    (void)pthread_mutex_lock(&lane->lock);
    while (lane->gates_due > 0 && error == 0)
        error = kolo_condition_wait_unless(&lane->changed, &lane->lock, deadline, &unless);
    const bool is_due = lane->gates_due > 0;
    (void)pthread_mutex_unlock(&lane->lock);
    return !is_due;
}

/** Waits until no stream will reach a gate of the lane, or reads one, any more. */
static bool await_gates(struct kolo_lane *lane, kolo_deadline deadline)
{
    kolo_status status = KOLO_AGAIN;
    bool is_late = !await_reached(lane, deadline);
    while (!is_late && (status = lane->ops->check_gates(lane)) == KOLO_AGAIN) {
        is_late = kolo_deadline_passed(deadline);
        rest(lane, wakes_of(lane), deadline, PASS_NS);
    }
    return status == KOLO_OK;
}

/** Never frees the lane, since the driver may still call a function for it. */
static void keep(struct kolo_lane *lane)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct kolo_lane *kept; /* held: lock */
    (void)pthread_mutex_lock(&lock);
    lane->next = kept;
    kept = lane;
    (void)pthread_mutex_unlock(&lock);
}

bool kolo_lane_close(struct kolo_lane *lane, kolo_deadline deadline)
{
    bool is_over = true;
    if (!lane)
        return true;
    for (int way = 0; way < KOLO_WAYS; way++)
        is_over &= kolo_lane_wait(lane, (enum kolo_way)way, KOLO_LANE_IDLE, deadline) == KOLO_OK;
    is_over = await_gates(lane, deadline) && is_over;
    (void)pthread_mutex_lock(&lane->lock);
    lane->wake = NULL;
    (void)pthread_mutex_unlock(&lane->lock);
    /* it unlocks pages and unloads kernels, and streams of other ranks of this process may wait */
    const void *streams = lane->streams;
    is_over = is_over && kolo_none_held_begin(streams, deadline, NULL) == KOLO_OK;
    if (is_over) {
        lane->ops->close(lane);
        kolo_none_held_end(streams);
    } else {
        keep(lane);
    }
    kolo_gate_watch_leave();
    return is_over;
}
