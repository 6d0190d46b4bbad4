// SPDX-License-Identifier: Apache-2.0
// Waits for all earlier work of a context, on every stream, with a deadline. Owns nothing after a
// call, except for what a driver does not return. Must never change the thread's current context.
//
// Most waits are short: an event of the context covers all of its streams (cuCtxRecordEvent, in
// drivers since CUDA 12.5), and is polled between yields. But neither an event nor cuCtxSynchronize
// can be waited for with a deadline. So for longer waits, and if a driver has no such event, a
// thread of its own calls cuCtxSynchronize; the caller waits for that thread, and abandons it when
// the deadline has passed. The same is done if a driver has the function but refuses it for this
// context.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "base/condition.h"
#include "base/thread.h"
#include "memory/cuda_memory.h"

enum {
    YIELD_NS = 200000, /* longer than a thread takes to start */
    LOOK_NS = 20000000 /* between two checks of what else may end the wait */
};

/* ---- with an event ---- */

static kolo_status poll_event(const struct kolo_cuda_visit *visit, void *event,
                              kolo_deadline deadline)
{
    int result;
    while ((result = visit->driver->event_query(event)) == KOLO_CUDA_NOT_READY) {
        if (kolo_deadline_passed(deadline))
            return KOLO_AGAIN;
        (void)sched_yield();
    }
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(visit->driver, "cuEventQuery", visit->ordinal, result);
}

/** Takes the event that was kept, unless another thread has it, or makes one. */
static kolo_status take_event(const struct kolo_cuda_visit *visit, _Atomic(void *) *spare,
                              void **event_out)
{
    *event_out = spare ? atomic_exchange(spare, NULL) : NULL;
    if (*event_out)
        return KOLO_OK;
    const int result = visit->driver->event_create(event_out, KOLO_CUDA_EVENT_NO_TIMING);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(visit->driver, "cuEventCreate", visit->ordinal, result);
}

static void put_back(const struct kolo_cuda_visit *visit, _Atomic(void *) *spare, void *event)
{
    void *none = NULL;
    if (!spare || !atomic_compare_exchange_strong(spare, &none, event))
        (void)visit->driver->event_destroy(event);
}

/** Must be in the context. */
static kolo_status await_event(const struct kolo_cuda_visit *visit, _Atomic(void *) *spare,
                               kolo_deadline deadline)
{
    void *event = NULL;
    kolo_status status = take_event(visit, spare, &event);
    if (status != KOLO_OK)
        return status;
    const int result = visit->driver->context_record_event(visit->context, event);
    if (result == KOLO_CUDA_SUCCESS)
        status = poll_event(visit, event, deadline);
    else if (kolo_cuda_is_refusal(result) || result == KOLO_CUDA_INVALID_HANDLE)
        status = KOLO_AGAIN;
    else
        status = kolo_cuda_fail(visit->driver, "cuCtxRecordEvent", visit->ordinal, result);
    put_back(visit, spare, event);
    return status;
}

/* ---- with a thread ---- */

/** A wait in a thread. Shared by the caller and the thread; the last of them frees it. */
struct errand {
    struct kolo_cuda_visit visit;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done, is_left; /* held: lock, as the next two */
    const char *call;      /* the call that returned the result */
    int result;
};

static void free_errand(struct errand *errand)
{
    (void)pthread_mutex_destroy(&errand->lock);
    (void)pthread_cond_destroy(&errand->done);
    kolo_free_memory(errand);
}

static void *synchronize(void *argument)
{
    struct errand *errand = argument;
    const struct kolo_cuda_driver *driver = errand->visit.driver;
    const char *call = "cuCtxPushCurrent";
    int result = kolo_cuda_push(&errand->visit);
    if (result == KOLO_CUDA_SUCCESS) {
        call = "cuCtxSynchronize";
        result = driver->context_synchronize();
        kolo_cuda_leave(&errand->visit);
    }
    (void)pthread_mutex_lock(&errand->lock);
    errand->call = call;
    errand->result = result;
    errand->is_done = true;
    const bool is_left = errand->is_left;
    (void)pthread_cond_signal(&errand->done);
    (void)pthread_mutex_unlock(&errand->lock);
    if (is_left)
        free_errand(errand);
    return NULL;
}

static kolo_status make_errand(const struct kolo_cuda_visit *visit, struct errand **errand_out)
{
    struct errand *errand = kolo_calloc(1, sizeof *errand);
    if (!errand)
        return KOLO_ERR_NO_MEMORY;
    errand->visit = *visit;
    int error = kolo_condition_init(&errand->done);
    if (error == 0) {
        error = pthread_mutex_init(&errand->lock, NULL);
        if (error != 0)
            (void)pthread_cond_destroy(&errand->done);
    }
    if (error != 0) {
        kolo_free_memory(errand);
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "lock of a wait for a device");
    }
    *errand_out = errand;
    return KOLO_OK;
}

/** Waits until the errand is done, or until @p until. Held: its lock. */
static void sleep_on(struct errand *errand, kolo_deadline until)
{
    int error = 0;
    while (!errand->is_done && error == 0)
        error = kolo_condition_wait(&errand->done, &errand->lock, until);
}

static kolo_deadline next_look(kolo_deadline deadline, const struct kolo_unless *unless)
{
    return unless ? kolo_deadline_min(deadline, kolo_now_ns() + LOOK_NS) : deadline;
}

/** Waits for the errand, and frees it unless it is still running. */
static kolo_status await_errand(struct errand *errand, kolo_deadline deadline,
                                const struct kolo_unless *unless)
{
    bool is_over = false;
    (void)pthread_mutex_lock(&errand->lock);
    for (;;) {
        sleep_on(errand, next_look(deadline, unless));
        if (errand->is_done || kolo_deadline_passed(deadline))
            break;
        (void)pthread_mutex_unlock(&errand->lock);
        is_over = unless && unless->is_over(unless->context);
        (void)pthread_mutex_lock(&errand->lock);
        if (is_over)
            break;
    }
    const bool is_done = errand->is_done;
    errand->is_left = !is_done;
    (void)pthread_mutex_unlock(&errand->lock);
    if (!is_done)
        return KOLO_AGAIN;
    const kolo_status status = errand->result == KOLO_CUDA_SUCCESS
                                   ? KOLO_OK
                                   : kolo_cuda_fail(errand->visit.driver, errand->call,
                                                    errand->visit.ordinal, errand->result);
    free_errand(errand);
    return status;
}

static kolo_status await_thread(const struct kolo_cuda_visit *visit, kolo_deadline deadline,
                                const struct kolo_unless *unless)
{
    struct errand *errand = NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    kolo_status status = make_errand(visit, &errand);
    if (status != KOLO_OK)
        return status;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = kolo_thread_start(&thread, &attributes, synchronize, errand);
        (void)pthread_attr_destroy(&attributes);
    }
    if (error == 0)
        return await_errand(errand, deadline, unless);
    free_errand(errand);
    return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "a thread that waits for a device");
}

kolo_status kolo_cuda_await(const struct kolo_cuda_visit *visit, _Atomic(void *) *spare,
                            kolo_deadline deadline, const struct kolo_unless *unless)
{
    kolo_status status = KOLO_AGAIN;
    if (visit->driver->context_record_event) {
        status = kolo_cuda_enter(visit);
        if (status != KOLO_OK)
            return status;
        status = await_event(visit, spare, kolo_deadline_min(deadline, kolo_now_ns() + YIELD_NS));
        kolo_cuda_leave(visit);
    }
    return status == KOLO_AGAIN ? await_thread(visit, deadline, unless) : status;
}
