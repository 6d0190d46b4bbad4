// SPDX-License-Identifier: Apache-2.0
// Allocates memory on CUDA devices for a program. Each allocation owns one use of its device's
// primary context, in which the CUDA runtime works too, until kolo_cuda_let_go. Must never change a
// thread's current context: after each call it is what it was before.
//
// Which device: a rank that is bound to one NUMA node gets a device whose slot is at that node, so
// that data between the device and the host does not cross the machine. The driver's own numbering
// follows other rules.
//
// When memory is freed, the driver would wait for the device's work without a limit, so this file
// first waits for that work with a deadline.
//
// A driver cuts small allocations out of one block, and a process that maps one of them gets the
// whole block (the CUDA programming guide says so of IPC). So memory that others may map is
// allocated in whole blocks, which hold nothing else.
#include <ctype.h>
#include <stdio.h>

#include "base/numa.h"
#include "memory/cuda_memory.h"
#include "memory/held.h"

enum { BLOCK_BYTES = 2 << 20 };

/** If there is no device, that is not the failure of a device. */
static kolo_status refuse(const struct kolo_cuda_driver *driver, const char *call, int result)
{
    const kolo_status status = kolo_cuda_fail(driver, call, -1, result);
    return kolo_cuda_has_no_devices(result) ? KOLO_ERR_UNSUPPORTED : status;
}

static kolo_status begin(const struct kolo_cuda_driver **driver_out, int *count_out)
{
    const kolo_status status = kolo_cuda_driver_load(driver_out);
    if (status != KOLO_OK)
        return status;
    int result = (*driver_out)->init(0);
    if (result != KOLO_CUDA_SUCCESS)
        return refuse(*driver_out, "cuInit", result);
    result = (*driver_out)->device_get_count(count_out);
    if (result == KOLO_CUDA_SUCCESS && *count_out == 0)
        result = KOLO_CUDA_NO_DEVICE;
    return result == KOLO_CUDA_SUCCESS ? KOLO_OK : refuse(*driver_out, "cuDeviceGetCount", result);
}

/** The number of the device whose context the thread uses; -1: it uses none. */
static int current_device(const struct kolo_cuda_driver *driver, int count)
{
    void *context = NULL;
    int current, device;
    if (driver->context_get_current(&context) != KOLO_CUDA_SUCCESS || !context ||
        driver->context_get_device(&current) != KOLO_CUDA_SUCCESS)
        return -1;
    for (int i = 0; i < count; i++)
        if (driver->device_get(&device, i) == KOLO_CUDA_SUCCESS && device == current)
            return i;
    return -1;
}

/** The NUMA node of device number @p ordinal; -1: unknown. */
static int node_of(const struct kolo_cuda_driver *driver, int ordinal)
{
    int device;
    char bus[32], path[64];
    if (driver->device_get(&device, ordinal) != KOLO_CUDA_SUCCESS ||
        driver->device_get_pci(bus, sizeof bus, device) != KOLO_CUDA_SUCCESS)
        return -1;
    for (char *at = bus; *at; at++)
        *at = (char)tolower((unsigned char)*at); /* the kernel writes it in lower case */
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", bus);
    return kolo_numa_node_of(path);
}

/** The number of the device that this rank should use. */
static int share_of(const struct kolo_cuda_driver *driver, int count,
                    const struct kolo_device_share *share)
{
    int near = 0, before;
    for (int i = 0; i < count && share->numa_node >= 0; i++)
        near += node_of(driver, i) == share->numa_node;
    before = near > 0 ? share->turn_there % near : 0;
    for (int i = 0; i < count && near > 0; i++)
        if (node_of(driver, i) == share->numa_node && before-- == 0)
            return i;
    return share->turn % count;
}

/** Must be in the context. */
static kolo_status alloc(const struct kolo_cuda_visit *visit, size_t bytes, void **memory_out)
{
    kolo_cuda_address address;
    char call[64];
    const size_t blocks = bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0 || bytes == 0);
    int result = KOLO_CUDA_OUT_OF_MEMORY; /* for a length beyond the address space */
    if (blocks <= SIZE_MAX / BLOCK_BYTES)
        result = visit->driver->alloc(&address, blocks * BLOCK_BYTES);
    if (result == KOLO_CUDA_SUCCESS) {
        *memory_out = (void *)(uintptr_t)address;
        return KOLO_OK;
    }
    (void)snprintf(call, sizeof call, "cuMemAlloc of %zu bytes", bytes);
    return kolo_cuda_fail(visit->driver, call, visit->ordinal, result);
}

kolo_status kolo_cuda_alloc(int device, const struct kolo_device_share *share, size_t bytes,
                            struct kolo_pointer *pointer_out)
{
    const struct kolo_cuda_driver *driver = NULL;
    struct kolo_pointer pointer = {
        .kind = KOLO_MEMORY_DEVICE, .device = device, .ops = &kolo_memory_cuda};
    struct kolo_cuda_visit visit;
    void *memory = NULL;
    int count = 0;
    kolo_status status;
    KOLO_TRY(begin(&driver, &count));
    if (device >= count)
        return kolo_fail(KOLO_ERR_INVALID, "device %d: this process has %d, from 0 on", device,
                         count);
    if (device < 0)
        pointer.device = current_device(driver, count);
    if (pointer.device < 0)
        pointer.device = share_of(driver, count, share);
    KOLO_TRY(kolo_cuda_visit_primary(&pointer, &visit));
    status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        status = alloc(&visit, bytes, &memory);
        kolo_cuda_leave(&visit);
    }
    if (status != KOLO_OK) {
        kolo_cuda_release(&visit);
        goto out;
    }
    pointer.memory = memory;
    pointer.context = visit.context;
    *pointer_out = pointer;
out:
    return status;
}

/** To wait for the device meanwhile would take a thread that waits in the driver, which spins there
 * by default, and one more each time that the caller gives up and tries again. */
static kolo_status await_none_held(const void *context, kolo_deadline deadline,
                                   const struct kolo_unless *unless)
{
    const kolo_status status = kolo_none_held_begin(context, deadline, unless);
    if (status == KOLO_OK)
        kolo_none_held_end(context);
    return status;
}

kolo_status kolo_cuda_free(const struct kolo_pointer *pointer, kolo_deadline deadline,
                           const struct kolo_unless *unless)
{
    struct kolo_cuda_visit visit;
    kolo_status status = kolo_cuda_visit_primary(pointer, &visit);
    if (status == KOLO_OK)
        status = await_none_held(visit.context, deadline, unless);
    if (status == KOLO_OK)
        status = kolo_cuda_await(&visit, NULL, deadline, unless);
    if (status == KOLO_AGAIN)
        return status;
    if (status == KOLO_OK)
        status = kolo_none_held_begin(visit.context, deadline, unless);
    if (status != KOLO_OK)
        return status;
    status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        const int result = visit.driver->free((uintptr_t)pointer->memory);
        if (result != KOLO_CUDA_SUCCESS)
            status = kolo_cuda_fail(visit.driver, "cuMemFree", visit.ordinal, result);
        kolo_cuda_leave(&visit);
    }
    kolo_none_held_end(visit.context);
    return status;
}

void kolo_cuda_let_go(const struct kolo_pointer *pointer)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    int device;
    if (driver->device_get(&device, pointer->device) == KOLO_CUDA_SUCCESS)
        (void)driver->primary_context_release(device);
}
