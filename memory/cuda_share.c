// SPDX-License-Identifier: Apache-2.0
// Access of other devices to memory of CUDA devices: finds the allocation of a pointer, and makes a
// dma-buf of it. Owns nothing: the descriptor is the caller's.
//
// The driver's number of an allocation (CU_POINTER_ATTRIBUTE_BUFFER_ID) distinguishes it from a
// later one at the same address. Must never share memory of a device that does not order the writes
// of other devices before its own reads, since its kernels could read old data.
#include <stdio.h>
#include <unistd.h>

#include "memory/cuda_memory.h"

kolo_status kolo_cuda_extent(const struct kolo_pointer *pointer, struct kolo_extent *extent_out)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned long long id = 0;
    kolo_cuda_address start = 0;
    size_t bytes = 0;
    int attributes[] = {KOLO_CUDA_POINTER_BUFFER_ID, KOLO_CUDA_POINTER_RANGE_START,
                        KOLO_CUDA_POINTER_RANGE_BYTES};
    void *values[] = {&id, &start, &bytes};
    const int result =
        driver->pointer_get_attributes(sizeof attributes / sizeof *attributes, attributes, values,
                                       (kolo_cuda_address)(uintptr_t)pointer->memory);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuPointerGetAttributes", pointer->device, result);
    if (id == 0 || bytes == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "device %d: the driver knows no allocation at %p",
                         pointer->device, pointer->memory);
    const uintptr_t first = (uintptr_t)start / page * page;
    const uintptr_t end = ((uintptr_t)start + bytes + page - 1) / page * page;
    *extent_out = (struct kolo_extent){.start = (uint8_t *)(uintptr_t)start,
                                       .length = bytes,
                                       .base = (uint8_t *)first,
                                       .bytes = end - first,
                                       .id = id};
    return KOLO_OK;
}

/** Checks that the device supports it. */
static kolo_status check(const struct kolo_cuda_driver *driver, int ordinal)
{
    int device = 0, has_dma_buf = 0, ordering = 0;
    const char *call = "cuDeviceGet";
    int result = driver->device_get(&device, ordinal);
    if (result == KOLO_CUDA_SUCCESS) {
        call = "cuDeviceGetAttribute";
        result = driver->device_get_attribute(&has_dma_buf, KOLO_CUDA_ATTRIBUTE_DMA_BUF, device);
    }
    if (result == KOLO_CUDA_SUCCESS)
        result =
            driver->device_get_attribute(&ordering, KOLO_CUDA_ATTRIBUTE_WRITES_ORDERING, device);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, call, ordinal, result);
    if (!has_dma_buf)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "device %d: its driver gives no dma-buf; NVIDIA's open kernel modules do, "
                         "on Linux 5.12 or newer",
                         ordinal);
    if (ordering < KOLO_CUDA_WRITES_ORDERED_FOR_OWNER)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "device %d: it does not order what others write for its own kernels",
                         ordinal);
    return KOLO_OK;
}

kolo_status kolo_cuda_share(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                            int *fd_out)
{
    struct kolo_cuda_visit visit;
    char call[96];
    int fd = -1;
    kolo_status status;
    KOLO_TRY(kolo_cuda_visit_primary(pointer, &visit));
    if (!visit.driver->get_handle)
        status = kolo_fail(KOLO_ERR_UNSUPPORTED,
                           "the driver has no cuMemGetHandleForAddressRange: one of CUDA 11.7 or "
                           "later has");
    if (status == KOLO_OK)
        status = check(visit.driver, visit.ordinal);
    if (status == KOLO_OK)
        status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        const int result = visit.driver->get_handle(&fd, (kolo_cuda_address)(uintptr_t)extent->base,
                                                    extent->bytes, KOLO_CUDA_HANDLE_DMA_BUF, 0);
        (void)snprintf(call, sizeof call, "cuMemGetHandleForAddressRange of %zu bytes",
                       extent->bytes);
        if (result != KOLO_CUDA_SUCCESS)
            status = kolo_cuda_fail(visit.driver, call, visit.ordinal, result);
        kolo_cuda_leave(&visit);
    }
    if (status == KOLO_OK)
        *fd_out = fd;
    kolo_cuda_release(&visit);
out:
    return status;
}
