// SPDX-License-Identifier: Apache-2.0
// Lanes to CUDA devices: two streams of the library in the context of the memory. Owns the streams,
// their events and gates, the mappings of memory that others have lent, the kernels, and a hold on
// the device's primary context if the memory has no context of its own. Must never change a
// thread's current context: after each call it is what it was before.
//
// The streams have the highest priority, but not for speed. A device has only a few queues for all
// streams of a context (CUDA_DEVICE_MAX_CONNECTIONS, usually 8), and separate ones for each
// priority. If a copy of a collective were in one queue behind a stream of the program that waits
// for that collective, it would wait for ever.
//
// A mark is an event. A caller that waits polls it; for a caller that sleeps, the driver also calls
// a function. While the driver calls a function for a stream, that stream stops, and the call comes
// tens of microseconds late. So these functions are given to a second stream, the teller, which
// waits for the events and does nothing else. There are EVENTS events, and mark m + EVENTS takes
// over the event of mark m. From then on the event passes only with the later mark: it may report m
// late, never early.
//
// The streams do not synchronise with the default stream. The earlier work of the program on the
// device is waited for by await_device, for the reason in memory/cuda.c.
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "memory/cuda_driver.h"
#include "memory/cuda_fold.h"
#include "memory/cuda_loan.h"
#include "memory/cuda_memory.h"
#include "memory/gate_watch.h"
#include "memory/lane.h"

enum { EVENTS = 128 };

struct way {
    struct cuda_lane *lane;
    enum kolo_way number;
    void *stream, *teller;
    void *events[EVENTS];  /* mark m uses event m % EVENTS */
    _Atomic uint64_t seen; /* the latest mark that an event showed to have passed */
};

struct cuda_lane {
    struct kolo_lane base;
    struct kolo_cuda_visit visit;
    struct way ways[KOLO_WAYS];
    _Atomic(void *) awaiting; /* an event kept between two waits for the device */
    struct kolo_cuda_gates *gates;
    pthread_mutex_t making; /* guards the next three; its holder may take long (it loads kernels) */
    struct kolo_cuda_borrower *borrower;
    struct kolo_cuda_kernels *kernels;
    bool lacks_kernels; /* the driver cannot load them, which does not change */
};

static struct cuda_lane *lane_of(struct kolo_lane *lane)
{
    return (struct cuda_lane *)lane;
}

static kolo_status judge(const struct cuda_lane *lane, const char *call, int result)
{
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(lane->visit.driver, call, lane->visit.ordinal, result);
}

static bool cuda_serves(const struct kolo_lane *lane, const struct kolo_pointer *pointer)
{
    const struct kolo_cuda_visit *visit = &((const struct cuda_lane *)lane)->visit;
    return pointer->context ? visit->context == pointer->context && !visit->is_retained
                            : visit->is_retained && visit->ordinal == pointer->device;
}

static void close_way(const struct kolo_cuda_driver *driver, struct way *way)
{
    if (way->stream)
        (void)driver->stream_destroy(way->stream);
    if (way->teller)
        (void)driver->stream_destroy(way->teller);
    for (int i = 0; i < EVENTS; i++)
        if (way->events[i])
            (void)driver->event_destroy(way->events[i]);
}

static void close_ways(struct cuda_lane *lane)
{
    if (!lane->visit.context || kolo_cuda_enter(&lane->visit) != KOLO_OK)
        return;
    for (int way = 0; way < KOLO_WAYS; way++)
        close_way(lane->visit.driver, &lane->ways[way]);
    if (atomic_load(&lane->awaiting))
        (void)lane->visit.driver->event_destroy(atomic_load(&lane->awaiting));
    kolo_cuda_gates_free(lane->gates, &lane->visit);
    kolo_cuda_kernels_unload(lane->kernels);
    kolo_cuda_leave(&lane->visit);
}

static void cuda_close(struct kolo_lane *base)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_cuda_borrower_close(lane->borrower);
    close_ways(lane);
    kolo_cuda_release(&lane->visit);
    (void)pthread_mutex_destroy(&lane->making);
    kolo_lane_deinit(base);
    kolo_free_memory(lane);
}

static kolo_status cuda_await_device(struct kolo_lane *base, kolo_deadline deadline,
                                     const struct kolo_unless *unless)
{
    struct cuda_lane *lane = lane_of(base);
    return kolo_cuda_await(&lane->visit, &lane->awaiting, deadline, unless);
}

/** Around calls that the driver answers at once, unless another thread keeps this one out of it. */
static kolo_status enter(const struct cuda_lane *lane)
{
    kolo_driver_entered();
    const kolo_status status = kolo_cuda_enter(&lane->visit);
    if (status != KOLO_OK)
        kolo_driver_left();
    return status;
}

static void leave(const struct cuda_lane *lane)
{
    kolo_cuda_leave(&lane->visit);
    kolo_driver_left();
}

static kolo_status cuda_copy(struct kolo_lane *base, enum kolo_way way, void *to, const void *from,
                             size_t bytes)
{
    struct cuda_lane *lane = lane_of(base);
    char call[64];
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    (void)snprintf(call, sizeof call, "cuMemcpyAsync of %zu bytes %s", bytes,
                   way == KOLO_WAY_IN ? "to the host" : "to the device");
    status = judge(
        lane, call,
        lane->visit.driver->copy((uintptr_t)to, (uintptr_t)from, bytes, lane->ways[way].stream));
    leave(lane);
    return status;
}

static kolo_status cuda_mark(struct kolo_lane *base, enum kolo_way number, uint64_t mark)
{
    struct cuda_lane *lane = lane_of(base);
    struct way *way = &lane->ways[number];
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    status = judge(lane, "cuEventRecord",
                   lane->visit.driver->event_record(way->events[mark % EVENTS], way->stream));
    leave(lane);
    return status;
}

static void told(void *context)
{
    const struct way *way = context;
    kolo_lane_told(&way->lane->base, way->number);
}

/** Must be in the context. */
static kolo_status put_function(struct cuda_lane *lane, struct way *way, uint64_t mark)
{
    const struct kolo_cuda_driver *driver = lane->visit.driver;
    const kolo_status status =
        judge(lane, "cuStreamWaitEvent",
              driver->stream_wait_event(way->teller, way->events[mark % EVENTS], 0));
    if (status != KOLO_OK)
        return status;
    return judge(lane, "cuLaunchHostFunc", driver->launch_host(way->teller, told, way));
}

static kolo_status cuda_tell(struct kolo_lane *base, enum kolo_way way, uint64_t mark)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    status = put_function(lane, &lane->ways[way], mark);
    leave(lane);
    return status;
}

static kolo_status cuda_look(struct kolo_lane *base, enum kolo_way number, uint64_t last,
                             uint64_t *passed)
{
    struct cuda_lane *lane = lane_of(base);
    struct way *way = &lane->ways[number];
    uint64_t seen = atomic_load_explicit(&way->seen, memory_order_relaxed);
    int result = KOLO_CUDA_SUCCESS;
    *passed = *passed > seen ? *passed : seen;
    if (*passed >= last)
        return KOLO_OK;
    const kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    while (*passed < last && result == KOLO_CUDA_SUCCESS) {
        result = lane->visit.driver->event_query(way->events[(*passed + 1) % EVENTS]);
        *passed += result == KOLO_CUDA_SUCCESS;
    }
    leave(lane);
    while (seen < *passed && !atomic_compare_exchange_weak(&way->seen, &seen, *passed)) {
    }
    return result == KOLO_CUDA_NOT_READY ? KOLO_OK : judge(lane, "cuEventQuery", result);
}

/** Whether the stream has done all its work. Must be in the context. */
static kolo_status query(const struct cuda_lane *lane, void *stream)
{
    const int result = lane->visit.driver->stream_query(stream);
    return result == KOLO_CUDA_NOT_READY ? KOLO_AGAIN : judge(lane, "copying", result);
}

static kolo_status cuda_check(struct kolo_lane *base, enum kolo_way way)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    status = query(lane, lane->ways[way].stream);
    leave(lane);
    return status;
}

static kolo_status cuda_check_over(struct kolo_lane *base, enum kolo_way way)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_driver_entered();
    int result = kolo_cuda_push(&lane->visit);
    const bool is_gone = result == KOLO_CUDA_INVALID_CONTEXT;
    if (result == KOLO_CUDA_SUCCESS) {
        result = lane->visit.driver->stream_query(lane->ways[way].stream);
        kolo_cuda_leave(&lane->visit);
    }
    kolo_driver_left();
    if (result == KOLO_CUDA_SUCCESS || is_gone || kolo_cuda_is_loss(result))
        return KOLO_OK;
    return result == KOLO_CUDA_NOT_READY ? KOLO_AGAIN : judge(lane, "cuStreamQuery", result);
}

static kolo_status cuda_place(struct kolo_lane *base, void *stream, bool holds, int64_t timeout_ms,
                              struct kolo_gate **gate_out)
{
    struct cuda_lane *lane = lane_of(base);
    return kolo_cuda_gate_place(&lane->gates, base, &lane->visit, stream, holds, timeout_ms,
                                gate_out);
}

static kolo_status cuda_check_gates(struct kolo_lane *base)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    for (int way = 0; status == KOLO_OK && way < KOLO_WAYS; way++)
        status = query(lane, lane->ways[way].teller);
    leave(lane);
    return status == KOLO_OK ? kolo_cuda_gates_check(lane->gates) : status;
}

/* ---- memory that others have lent ---- */

static kolo_status load_kernels(struct cuda_lane *lane, kolo_deadline deadline)
{
    kolo_status status = kolo_cuda_enter(&lane->visit);
    if (status != KOLO_OK)
        return status;
    status =
        kolo_cuda_kernels_load(lane->visit.driver, lane->visit.ordinal, deadline, &lane->kernels);
    kolo_cuda_leave(&lane->visit);
    return status;
}

static kolo_status cuda_ready(struct kolo_lane *base, kolo_deadline deadline)
{
    struct cuda_lane *lane = lane_of(base);
    const struct kolo_pointer near = {.device = lane->visit.ordinal,
                                      .context =
                                          lane->visit.is_retained ? NULL : lane->visit.context};
    kolo_status status = KOLO_OK;
    (void)pthread_mutex_lock(&lane->making);
    if (lane->lacks_kernels)
        status = kolo_fail(KOLO_ERR_UNSUPPORTED, "device %d: its kernels could not be loaded",
                           lane->visit.ordinal);
    else if (!lane->kernels)
        status = load_kernels(lane, deadline);
    lane->lacks_kernels |= status == KOLO_ERR_UNSUPPORTED;
    if (status == KOLO_OK && !lane->borrower)
        status = kolo_cuda_borrower_open(&near, &lane->borrower);
    (void)pthread_mutex_unlock(&lane->making);
    return status;
}

static kolo_status cuda_map(struct kolo_lane *base, int lender, const struct kolo_loan *loan,
                            struct kolo_mapping **mapping_out)
{
    return kolo_cuda_borrower_map(lane_of(base)->borrower, lender, loan, mapping_out);
}

static bool cuda_forget(struct kolo_lane *base, int lender, uint64_t id)
{
    return kolo_cuda_borrower_forget(lane_of(base)->borrower, lender, id);
}

static struct kolo_mapping *cuda_detach(struct kolo_lane *base)
{
    return kolo_cuda_borrower_detach(lane_of(base)->borrower);
}

static void cuda_unmap(struct kolo_lane *base, struct kolo_mapping *mappings)
{
    kolo_cuda_borrower_unmap(lane_of(base)->borrower, mappings);
}

static bool cuda_stuck(struct kolo_lane *base, int *lender_out, uint64_t *id_out)
{
    return kolo_cuda_borrower_stuck(lane_of(base)->borrower, lender_out, id_out);
}

static kolo_status cuda_fold(struct kolo_lane *base, enum kolo_way way,
                             const struct kolo_fold *fold, void *const out[], size_t nout,
                             const void *const in[], size_t nin, size_t count)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    status = kolo_cuda_fold(lane->kernels, lane->ways[way].stream, fold, out, nout, in, nin, count);
    leave(lane);
    return status;
}

static kolo_status cuda_scale(struct kolo_lane *base, enum kolo_way way, void *out, const void *in,
                              size_t count, kolo_dtype dtype, double factor)
{
    struct cuda_lane *lane = lane_of(base);
    kolo_status status = enter(lane);
    if (status != KOLO_OK)
        return status;
    status = kolo_cuda_scale(lane->kernels, lane->ways[way].stream, out, in, count, dtype, factor);
    leave(lane);
    return status;
}

static const struct kolo_lane_ops cuda_lane_ops = {.serves = cuda_serves,
                                                   .close = cuda_close,
                                                   .await_device = cuda_await_device,
                                                   .copy = cuda_copy,
                                                   .mark = cuda_mark,
                                                   .tell = cuda_tell,
                                                   .look = cuda_look,
                                                   .check = cuda_check,
                                                   .check_over = cuda_check_over,
                                                   .place = cuda_place,
                                                   .check_gates = cuda_check_gates,
                                                   .ready = cuda_ready,
                                                   .map = cuda_map,
                                                   .reach = kolo_cuda_mapping_reach,
                                                   .done = kolo_cuda_mapping_done,
                                                   .forget = cuda_forget,
                                                   .detach = cuda_detach,
                                                   .unmap = cuda_unmap,
                                                   .stuck = cuda_stuck,
                                                   .fold = cuda_fold,
                                                   .scale = cuda_scale};

/** Must be in the context. */
static kolo_status open_way(struct cuda_lane *lane, struct way *way, int priority)
{
    const struct kolo_cuda_driver *driver = lane->visit.driver;
    const unsigned flags = KOLO_CUDA_STREAM_NON_BLOCKING;
    kolo_status status;
    KOLO_TRY(judge(lane, "cuStreamCreateWithPriority",
                   driver->stream_create(&way->stream, flags, priority)));
    KOLO_TRY(judge(lane, "cuStreamCreateWithPriority",
                   driver->stream_create(&way->teller, flags, priority)));
    for (int i = 0; i < EVENTS; i++)
        KOLO_TRY(judge(lane, "cuEventCreate",
                       driver->event_create(&way->events[i], KOLO_CUDA_EVENT_NO_TIMING)));
out:
    return status;
}

/** Finds the highest priority. Without priorities everything works, except for what the head of
 * this file says about queues. Must be in the context. */
static kolo_status find_priority(struct cuda_lane *lane, int *greatest_out)
{
    const struct kolo_cuda_driver *driver = lane->visit.driver;
    int least = 0, result = KOLO_CUDA_NOT_SUPPORTED;
    *greatest_out = 0;
    if (driver->context_get_priorities)
        result = driver->context_get_priorities(&least, greatest_out);
    if (!kolo_cuda_is_refusal(result))
        return judge(lane, "cuCtxGetStreamPriorityRange", result);
    KOLO_INFO("copies from and to device %d have no priority, since its driver reports none "
              "(cuCtxGetStreamPriorityRange)",
              lane->visit.ordinal);
    return KOLO_OK;
}

static kolo_status open_ways(struct cuda_lane *lane)
{
    int greatest = 0;
    kolo_status status = kolo_cuda_enter(&lane->visit);
    if (status != KOLO_OK)
        return status;
    status = find_priority(lane, &greatest);
    for (int way = 0; way < KOLO_WAYS && status == KOLO_OK; way++) {
        lane->ways[way].lane = lane;
        lane->ways[way].number = (enum kolo_way)way;
        status = open_way(lane, &lane->ways[way], greatest);
    }
    kolo_cuda_leave(&lane->visit);
    return status;
}

kolo_status kolo_cuda_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                                void *context, struct kolo_lane **lane_out)
{
    struct cuda_lane *lane = kolo_calloc(1, sizeof *lane);
    if (!lane)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_lane_init(&lane->base, &cuda_lane_ops, wake, context);
    if (status != KOLO_OK) {
        kolo_free_memory(lane);
        return status;
    }
    (void)pthread_mutex_init(&lane->making, NULL); /* without attributes this does not fail */
    status = kolo_cuda_visit_primary(pointer, &lane->visit);
    lane->base.streams = lane->visit.context;
    if (status == KOLO_OK)
        status = open_ways(lane);
    if (status == KOLO_OK)
        *lane_out = &lane->base;
    else
        cuda_close(&lane->base);
    return status;
}
