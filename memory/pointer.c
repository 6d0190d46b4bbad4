// SPDX-License-Identifier: Apache-2.0
// Finds out what a pointer or a stream of the program belongs to, and allocates device memory for
// it, by asking every backend of the build. Owns nothing. Must never touch the memory itself.
//
// Nothing is remembered from one call to the next: an address that was freed and allocated again
// may belong to another kind, device or context, and only its driver knows.
#include <string.h>

#include "memory/memory.h"

bool kolo_pointer_may_be_foreign(void)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->is_present && kolo_memory_kinds[i]->is_present())
            return true;
    return false;
}

kolo_status kolo_pointer_look(const void *memory, struct kolo_pointer *pointer_out)
{
    struct kolo_pointer pointer = {.memory = memory, .kind = KOLO_MEMORY_HOST, .device = -1};
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && !pointer.ops && kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->is_present && kolo_memory_kinds[i]->is_present())
            status = kolo_memory_kinds[i]->look(memory, &pointer);
    if (status == KOLO_OK)
        *pointer_out = pointer;
    return status;
}

kolo_status kolo_stream_look(void *stream, struct kolo_pointer *pointer_out)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->stream_look && kolo_memory_kinds[i]->is_present())
            return kolo_memory_kinds[i]->stream_look(stream, pointer_out);
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "a stream, but no driver of devices is loaded in this process");
}

kolo_status kolo_pointer_fetch(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                               kolo_deadline deadline)
{
    if (bytes == 0)
        return KOLO_OK;
    if (pointer->ops)
        return pointer->ops->fetch(pointer, bytes, copy_out, deadline);
    memcpy(copy_out, pointer->memory, bytes);
    return KOLO_OK;
}

kolo_status kolo_device_alloc(int device, const struct kolo_device_share *share, size_t bytes,
                              struct kolo_pointer *pointer_out)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->device_alloc)
            return kolo_memory_kinds[i]->device_alloc(device, share, bytes, pointer_out);
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "this build knows no devices: build it with KOLO_CUDA=AUTO");
}

kolo_status kolo_device_free(const struct kolo_pointer *pointer, kolo_deadline deadline,
                             const struct kolo_unless *unless)
{
    return pointer->ops->device_free(pointer, deadline, unless);
}

void kolo_device_release(const struct kolo_pointer *pointer)
{
    pointer->ops->device_release(pointer);
}

/* ---- access of other devices ---- */

static kolo_status is_apart(const struct kolo_pointer *pointer)
{
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "memory at %p is of a kind that other devices do not reach", pointer->memory);
}

kolo_status kolo_pointer_extent(const struct kolo_pointer *pointer, struct kolo_extent *extent_out)
{
    if (pointer->ops && pointer->ops->extent)
        return pointer->ops->extent(pointer, extent_out);
    return is_apart(pointer);
}

kolo_status kolo_pointer_share(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                               int *fd_out)
{
    if (pointer->ops && pointer->ops->share)
        return pointer->ops->share(pointer, extent, fd_out);
    return is_apart(pointer);
}

kolo_status kolo_pointer_lend(const struct kolo_pointer *pointer, struct kolo_loan *loan_out)
{
    if (pointer->ops && pointer->ops->lend)
        return pointer->ops->lend(pointer, loan_out);
    return is_apart(pointer);
}
