// SPDX-License-Identifier: Apache-2.0
// Locks host pages so that CUDA devices can access them directly. A pin may own one use of a
// device's primary context, if the memory for which it was made has no context of its own. Must
// never change a thread's current context: after each call it is what it was before.
//
// Pages are registered for all contexts (PORTABLE), and with an address that kernels can use
// (DEVICEMAP). The registration ends with the context in which it was made; then nothing needs to
// be undone.
#include <stdio.h>

#include "memory/cuda_memory.h"
#include "memory/held.h"

enum { UNPIN_MS = 2000 };

/** Finds the context that the calling thread uses; KOLO_AGAIN: it uses none. */
static kolo_status visit_current(struct kolo_cuda_visit *visit)
{
    *visit = (struct kolo_cuda_visit){.driver = kolo_cuda_driver_loaded(), .ordinal = -1};
    if (!visit->driver || visit->driver->missing ||
        visit->driver->context_get_current(&visit->context) != KOLO_CUDA_SUCCESS || !visit->context)
        return KOLO_AGAIN;
    return KOLO_OK;
}

/** Must be in the context. */
static kolo_status lock_pages(const struct kolo_cuda_visit *visit, void *memory, size_t bytes)
{
    char call[64];
    const int result = visit->driver->host_register(
        memory, bytes, KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    if (result == KOLO_CUDA_ALREADY_REGISTERED)
        return KOLO_AGAIN; /* the program registered it and will unregister it */
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
    /* Who frees memory cannot keep it, so that after a while the driver itself must wait. */
    const kolo_status none = kolo_none_held_begin(NULL, kolo_deadline_in_ms(UNPIN_MS), NULL);
    if (kolo_cuda_push(&visit) == KOLO_CUDA_SUCCESS) {
        (void)driver->host_unregister(memory);
        kolo_cuda_leave(&visit);
    }
    if (none == KOLO_OK)
        kolo_none_held_end(NULL);
    if (!pin->is_held || driver->device_get(&visit.device, visit.ordinal) == KOLO_CUDA_SUCCESS)
        kolo_cuda_release(&visit);
}
