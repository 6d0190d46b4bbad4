// SPDX-License-Identifier: Apache-2.0
// The backend "cuda": recognises memory of NVIDIA devices that a program passes, and reads it. Owns
// no memory, and no context for longer than a call. Must never change a thread's current context:
// after each call it is what it was before.
//
// A copy is made in the context in which the memory was allocated, after all earlier work of this
// context is done, on every stream. That waits for more than the work that wrote the memory; but
// nobody has said which work that was, and waiting only for the default stream would read too early
// what was written on a stream that does not synchronise with it (cudaStreamNonBlocking). Memory of
// a pool, or mapped by the program, belongs to its device and to no context. It is taken for memory
// of the thread's current context, in which the program most likely uses it, if that is one of the
// same device, and else of the device's primary one.
#include <stdio.h>
#include <string.h>

#include "memory/cuda_loan.h"
#include "memory/cuda_memory.h"

static bool cuda_is_present(void)
{
    return kolo_cuda_driver_loaded() != NULL;
}

/** The thread's current context if it is one of device number @p ordinal, else NULL. Below 0, as
 * for managed memory of the host: of any device. */
static kolo_status find_current(const struct kolo_cuda_driver *driver, int ordinal,
                                void **context_out)
{
    int device = -1, current_device = -1;
    void *current = NULL;
    *context_out = NULL;
    if (driver->missing || driver->context_get_current(&current) != KOLO_CUDA_SUCCESS || !current ||
        driver->context_get_device(&current_device) != KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    const int result = ordinal < 0 ? KOLO_CUDA_SUCCESS : driver->device_get(&device, ordinal);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuDeviceGet", ordinal, result);
    if (ordinal < 0 || device == current_device)
        *context_out = current;
    return KOLO_OK;
}

static kolo_status cuda_look(const void *memory, struct kolo_pointer *pointer)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    unsigned type = 0, is_managed = 0;
    int ordinal = -1;
    void *context = NULL;
    int attributes[] = {KOLO_CUDA_POINTER_MEMORY_TYPE, KOLO_CUDA_POINTER_IS_MANAGED,
                        KOLO_CUDA_POINTER_DEVICE_ORDINAL, KOLO_CUDA_POINTER_CONTEXT};
    void *values[] = {&type, &is_managed, &ordinal, &context};
    if (!driver)
        return KOLO_OK;
    const int result =
        driver->pointer_get_attributes(sizeof attributes / sizeof *attributes, attributes, values,
                                       (kolo_cuda_address)(uintptr_t)memory);
    if (kolo_cuda_has_no_devices(result))
        return KOLO_OK;
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuPointerGetAttributes", -1, result);
    if (is_managed)
        pointer->kind = KOLO_MEMORY_MANAGED;
    else if (type == KOLO_CUDA_MEMORY_DEVICE)
        pointer->kind = KOLO_MEMORY_DEVICE;
    else if (type == KOLO_CUDA_MEMORY_HOST)
        pointer->kind = KOLO_MEMORY_PINNED;
    else
        return KOLO_OK; /* not memory of CUDA */
    pointer->device = ordinal;
    pointer->context = context;
    pointer->ops = &kolo_memory_cuda;
    if (context || pointer->kind == KOLO_MEMORY_PINNED) /* the host accesses it without a context */
        return KOLO_OK;
    return find_current(driver, ordinal, &pointer->context);
}

/* ---- captures ---- */

/* While some thread captures a stream into a graph in global mode, calls of other threads that are
 * unsafe for a graph are refused, and the capture is lost. What is done here is never meant for a
 * graph. */
static _Thread_local struct {
    int depth;
    int mode;        /* the mode before the outermost relax() */
    bool is_changed; /* the driver has accepted the change */
} relaxed;

static void relax(const struct kolo_cuda_driver *driver)
{
    if (relaxed.depth++ > 0)
        return;
    relaxed.is_changed = false;
    if (!driver->thread_exchange_capture_mode)
        return; /* and so it has no captures */
    relaxed.mode = KOLO_CUDA_CAPTURE_MODE_RELAXED;
    relaxed.is_changed = driver->thread_exchange_capture_mode(&relaxed.mode) == KOLO_CUDA_SUCCESS;
}

static void restore(const struct kolo_cuda_driver *driver)
{
    if (--relaxed.depth == 0 && relaxed.is_changed)
        (void)driver->thread_exchange_capture_mode(&relaxed.mode);
}

/* ---- contexts ---- */

static kolo_status retain_primary(struct kolo_cuda_visit *visit)
{
    const struct kolo_cuda_driver *driver = visit->driver;
    relax(driver);
    const int result = driver->primary_context_retain(&visit->context, visit->device);
    restore(driver);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuDevicePrimaryCtxRetain", visit->ordinal, result);
    visit->is_retained = true;
    return KOLO_OK;
}

static kolo_status begin_visit(const struct kolo_pointer *pointer, struct kolo_cuda_visit *visit)
{
    *visit =
        (struct kolo_cuda_visit){.driver = kolo_cuda_driver_loaded(), .ordinal = pointer->device};
    if (!visit->driver)
        return kolo_fail(KOLO_ERR_INTERNAL, "memory of a device, but no driver");
    const kolo_status status = kolo_cuda_driver_check(visit->driver);
    if (status != KOLO_OK)
        return status;
    visit->context = pointer->context;
    if (visit->context)
        return KOLO_OK;
    const int result = visit->driver->device_get(&visit->device, visit->ordinal);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(visit->driver, "cuDeviceGet", visit->ordinal, result);
    return KOLO_OK;
}

kolo_status kolo_cuda_visit_primary(const struct kolo_pointer *pointer,
                                    struct kolo_cuda_visit *visit_out)
{
    kolo_status status = begin_visit(pointer, visit_out);
    if (status == KOLO_OK && !visit_out->context)
        status = retain_primary(visit_out);
    return status;
}

void kolo_cuda_release(struct kolo_cuda_visit *visit)
{
    if (visit->is_retained)
        (void)visit->driver->primary_context_release(visit->device);
    visit->is_retained = false;
}

int kolo_cuda_push(const struct kolo_cuda_visit *visit)
{
    relax(visit->driver);
    const int result = visit->driver->context_push(visit->context);
    if (result != KOLO_CUDA_SUCCESS)
        restore(visit->driver);
    return result;
}

kolo_status kolo_cuda_enter(const struct kolo_cuda_visit *visit)
{
    const int result = kolo_cuda_push(visit);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(visit->driver, "cuCtxPushCurrent", visit->ordinal, result);
}

void kolo_cuda_leave(const struct kolo_cuda_visit *visit)
{
    void *popped;
    (void)visit->driver->context_pop(&popped);
    restore(visit->driver);
}

/* ---- blocking copies ---- */

/** Must be in the memory's context. */
static kolo_status copy(const struct kolo_cuda_visit *visit, const struct kolo_pointer *pointer,
                        size_t bytes, void *copy_out)
{
    char call[64];
    const int result =
        visit->driver->copy_to_host(copy_out, (kolo_cuda_address)(uintptr_t)pointer->memory, bytes);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    (void)snprintf(call, sizeof call, "cuMemcpyDtoH of %zu bytes", bytes);
    return kolo_cuda_fail(visit->driver, call, pointer->device, result);
}

static kolo_status cuda_fetch(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                              kolo_deadline deadline)
{
    struct kolo_cuda_visit visit;
    kolo_status status = kolo_cuda_visit_primary(pointer, &visit);
    if (status != KOLO_OK)
        return status;
    status = kolo_cuda_await(&visit, NULL, deadline, NULL);
    if (status == KOLO_OK)
        status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        status = copy(&visit, pointer, bytes, copy_out);
        kolo_cuda_leave(&visit);
    }
    if (status != KOLO_AGAIN) /* otherwise a thread may still be waiting in it */
        kolo_cuda_release(&visit);
    return status;
}

/** Writes how many devices there are and the name of the first. */
static kolo_status describe(const struct kolo_cuda_driver *driver, struct kolo_why *why_out)
{
    enum { TENTHS = 10, THOUSAND = 1000 };
    int count = 0, version = 0, first;
    char name[128] = "?";
    int result = driver->device_get_count(&count);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuDeviceGetCount", -1, result);
    if (count == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "the driver shows no device: see "
                                               "CUDA_VISIBLE_DEVICES and nvidia-smi");
    (void)driver->driver_get_version(&version);
    if (driver->device_get(&first, 0) == KOLO_CUDA_SUCCESS)
        (void)driver->device_get_name(name, sizeof name - 1, first);
    (void)snprintf(why_out->text, sizeof why_out->text, "%d device%s, the first %s; driver %d.%d",
                   count, count == 1 ? "" : "s", name, version / THOUSAND,
                   version % THOUSAND / TENTHS);
    return KOLO_OK;
}

static kolo_status with_why(kolo_status status, struct kolo_why *why_out)
{
    if (status != KOLO_OK)
        (void)snprintf(why_out->text, sizeof why_out->text, "%s", kolo_error_detail());
    return status;
}

static kolo_status cuda_probe(struct kolo_why *why_out)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    if (!driver)
        return with_why(kolo_fail(KOLO_ERR_UNSUPPORTED,
                                  "this process has not loaded libcuda.so.1; `kolorun info` looks "
                                  "for it on the machine"),
                        why_out);
    const kolo_status status = kolo_cuda_driver_check(driver);
    return with_why(status == KOLO_OK ? describe(driver, why_out) : status, why_out);
}

static kolo_status cuda_survey(struct kolo_why *why_out)
{
    const struct kolo_cuda_driver *driver = NULL;
    kolo_status status;
    KOLO_TRY(kolo_cuda_driver_load(&driver));
    const int result = driver->init(0);
    status = result == KOLO_CUDA_SUCCESS ? describe(driver, why_out)
                                         : kolo_cuda_fail(driver, "cuInit", -1, result);
out:
    return with_why(status, why_out);
}

const struct kolo_memory_ops kolo_memory_cuda = {
    .name = "cuda",
    .kind = KOLO_MEMORY_DEVICE,
    .probe = cuda_probe,
    .survey = cuda_survey,
    .is_present = cuda_is_present,
    .look = cuda_look,
    .stream_look = kolo_cuda_stream_look,
    .fetch = cuda_fetch,
    .lane_open = kolo_cuda_lane_open,
    .pin = kolo_cuda_pin,
    .unpin = kolo_cuda_unpin,
    .device_alloc = kolo_cuda_alloc,
    .device_free = kolo_cuda_free,
    .device_release = kolo_cuda_let_go,
    .extent = kolo_cuda_extent,
    .share = kolo_cuda_share,
    .lend = kolo_cuda_lend,
};
