// SPDX-License-Identifier: Apache-2.0
// What all lanes have in common: marks are counted, and whoever waits for one is told. Owns no device
// and no stream; those are the backend's (memory/cuda_lane.c).
#include "memory/lane.h"

#include <errno.h>
#include <time.h>

enum { LOOK_NS = 20000000 }; /* a device that failed passes no mark: it is asked so often */

kolo_status kolo_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                           void *context, struct kolo_lane **lane_out)
{
    if (pointer->ops && pointer->ops->lane_open)
        return pointer->ops->lane_open(pointer, wake, context, lane_out);
    return kolo_fail(KOLO_ERR_UNSUPPORTED, "memory at %p is of a kind without copies",
                     pointer->memory);
}

kolo_status kolo_lane_init(struct kolo_lane *lane, const struct kolo_lane_ops *ops,
                           void (*wake)(void *context), void *context)
{
    pthread_condattr_t attributes;
    *lane = (struct kolo_lane){.ops = ops, .wake = wake, .context = context};
    int error = pthread_condattr_init(&attributes);
    if (error == 0) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        error = pthread_cond_init(&lane->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
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

void kolo_lane_pass(struct kolo_lane *lane, enum kolo_way way)
{
    (void)pthread_mutex_lock(&lane->lock);
    lane->passed[way]++;
    if (lane->wake)
        lane->wake(lane->context);
    (void)pthread_cond_broadcast(&lane->changed);
    (void)pthread_mutex_unlock(&lane->lock);
}

kolo_status kolo_lane_mark(struct kolo_lane *lane, enum kolo_way way, uint64_t *mark_out)
{
    const kolo_status status = lane->ops->mark(lane, way);
    if (status == KOLO_OK)
        *mark_out = ++lane->marks[way];
    return status;
}

uint64_t kolo_lane_reached(struct kolo_lane *lane, enum kolo_way way)
{
    (void)pthread_mutex_lock(&lane->lock);
    const uint64_t passed = lane->passed[way];
    (void)pthread_mutex_unlock(&lane->lock);
    return passed;
}

kolo_status kolo_lane_passed(struct kolo_lane *lane, enum kolo_way way, uint64_t mark)
{
    return kolo_lane_reached(lane, way) >= mark ? KOLO_OK : lane->ops->check(lane, way);
}

kolo_status kolo_lane_wait(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           kolo_deadline deadline)
{
    kolo_status status;
    while ((status = kolo_lane_passed(lane, way, mark)) == KOLO_AGAIN &&
           !kolo_deadline_passed(deadline)) {
        const kolo_deadline look = kolo_deadline_min(deadline, kolo_now_ns() + LOOK_NS);
        const struct timespec until = {.tv_sec = (time_t)(look / 1000000000),
                                       .tv_nsec = (long)(look % 1000000000)};
        int error = 0;
        (void)pthread_mutex_lock(&lane->lock);
        while (lane->passed[way] < mark && error == 0)
            error = pthread_cond_timedwait(&lane->changed, &lane->lock, &until);
        (void)pthread_mutex_unlock(&lane->lock);
    }
    return status;
}

/** For ever: a function of the driver's may still come for it. */
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
    (void)pthread_mutex_lock(&lane->lock);
    lane->wake = NULL;
    (void)pthread_mutex_unlock(&lane->lock);
    if (is_over)
        lane->ops->close(lane);
    else
        keep(lane);
    return is_over;
}
