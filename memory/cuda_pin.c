// SPDX-License-Identifier: Apache-2.0
// Pages of the host that CUDA's devices reach by themselves. A hold may own one use of a device's
// primary context, where the memory that it was taken for has no context of its own. A thread's
// current context is after each call what it was before.
//
// They are registered for all contexts (PORTABLE), and with an address that kernels can use
// (DEVICEMAP). The registration is gone with the context that it was made in: then there is nothing
// to be taken back.
#include <stdio.h>

#include "memory/cuda_memory.h"

/** The context that the calling thread uses; KOLO_AGAIN: none. */
static kolo_status visit_current(struct kolo_cuda_visit *visit)
{
    *visit = (struct kolo_cuda_visit){.driver = kolo_cuda_driver_loaded(), .ordinal = -1};
    if (!visit->driver || visit->driver->missing ||
        visit->driver->context_get_current(&visit->context) != KOLO_CUDA_SUCCESS || !visit->context)
        return KOLO_AGAIN;
    return KOLO_OK;
}

/** In the context. */
static kolo_status lock_pages(const struct kolo_cuda_visit *visit, void *memory, size_t bytes)
{
    char call[64];
    const int result = visit->driver->host_register(
        memory, bytes, KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    if (result == KOLO_CUDA_ALREADY_REGISTERED)
        return KOLO_AGAIN; /* the program did: it takes it back too */
    (void)snprintf(call, sizeof call, "cuMemHostRegister of %zu bytes", bytes);
    return kolo_cuda_fail(visit->driver, call, visit->ordinal, result);
}

kolo_status kolo_cuda_pin(const struct kolo_pointer *near, void *memory, size_t bytes,
                          struct kolo_pin *pin_out)
{
    struct kolo_cuda_visit visit;
    kolo_status status = near ? kolo_cuda_visit_primary(near, &visit) : visit_current(&visit);
    if (status != KOLO_OK)
        return status;
    status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        status = lock_pages(&visit, memory, bytes);
        kolo_cuda_leave(&visit);
    }
    if (status == KOLO_OK)
        *pin_out = (struct kolo_pin){.ops = &kolo_memory_cuda,
                                     .context = visit.context,
                                     .device = visit.ordinal,
                                     .is_held = visit.is_retained};
    else
        kolo_cuda_release(&visit);
    return status;
}

void kolo_cuda_unpin(const struct kolo_pin *pin, void *memory)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    struct kolo_cuda_visit visit = {.driver = driver,
                                    .ordinal = pin->device,
                                    .context = pin->context,
                                    .is_retained = pin->is_held};
    if (kolo_cuda_push(&visit) == KOLO_CUDA_SUCCESS) {
        (void)driver->host_unregister(memory);
        kolo_cuda_leave(&visit);
    }
    if (!pin->is_held || driver->device_get(&visit.device, visit.ordinal) == KOLO_CUDA_SUCCESS)
        kolo_cuda_release(&visit);
}
