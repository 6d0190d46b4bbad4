// SPDX-License-Identifier: Apache-2.0
// Waits for all earlier work of a context, on every stream, with a deadline. Owns nothing after a
// call, except for what a driver does not return. Must never change the thread's current context.
//
// Most waits are short: an event of the context covers all of its streams (cuCtxRecordEvent, in
// drivers since CUDA 12.5), and is polled between yields. But neither an event nor cuCtxSynchronize
// can be waited for with a deadline. So for longer waits, and if a driver has no such event, an
// errand (base/errand.h) calls cuCtxSynchronize, and is left when the deadline has passed. The same
// is done if a driver has the function but refuses it for this context.
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/errand.h"
#include "memory/cuda_memory.h"

enum { YIELD_NS = 200000 /* longer than a thread takes to start */ };

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

struct wait {
    struct kolo_cuda_visit visit;
    const char *call; /* the call that returned the result */
    int result;
};

static void synchronize(void *memory)
{
    struct wait *wait = memory;
    wait->call = "cuCtxPushCurrent";
    wait->result = kolo_cuda_push(&wait->visit);
    if (wait->result != KOLO_CUDA_SUCCESS)
        return;
    wait->call = "cuCtxSynchronize";
    wait->result = wait->visit.driver->context_synchronize();
    kolo_cuda_leave(&wait->visit);
}

static kolo_status judge(const struct wait *wait)
{
    if (wait->result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(wait->visit.driver, wait->call, wait->visit.ordinal, wait->result);
}

static kolo_status await_thread(const struct kolo_cuda_visit *visit, kolo_deadline deadline,
                                const struct kolo_unless *unless)
{
    static const struct kolo_errand errand = {.run = synchronize};
    struct wait *wait = kolo_errand_create(sizeof *wait);
    kolo_status status = KOLO_OK;
    if (!wait)
        return KOLO_ERR_NO_MEMORY;
    wait->visit = *visit;
    const int error = kolo_errand_run(&errand, wait, deadline, unless);
    if (error == ETIMEDOUT || error == ECANCELED)
        return KOLO_AGAIN;
    if (error == 0)
        status = judge(wait);
    else
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, error, "a thread that waits for a device");
    kolo_errand_destroy(wait);
    return status;
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
