// SPDX-License-Identifier: Apache-2.0
// kolo_alloc_device: memory of devices that the program asked for. Owns the list of it, by which
// kolo_free and the end of the rank find it. Must never wait for a device under the engine's lock.
//
// The last memory of a context leaves its hold on that in the list, until the rank ends: lanes have
// streams in it, and pages of the host are locked in it, which would go with it.
// A device that is still at work then keeps its hold for the rest of the process.
#include "base/alloc.h"
#include "base/log.h"
#include "memory/memory.h"
#include "runtime/comm.h"

struct kolo_device_memory {
    struct kolo_device_memory *next;
    struct kolo_pointer pointer; /* to NULL: only its context is held */
    size_t bytes;
};

static void add(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    kolo_engine_enter(engine);
    memory->next = engine->device_memory;
    engine->device_memory = memory;
    kolo_engine_leave(engine);
}

/** Takes it out of the list; NULL: it is not there. */
static struct kolo_device_memory *take(struct kolo_engine *engine, const void *memory)
{
    kolo_engine_enter(engine);
    struct kolo_device_memory **at = &engine->device_memory, *found;
    while (*at != NULL && (*at)->pointer.memory != memory)
        at = &(*at)->next;
    found = *at;
    if (found != NULL) {
        *at = found->next;
        kolo_endpoint_device_gone(engine->endpoint, memory);
    }
    kolo_engine_leave(engine);
    return found;
}

/** Freed memory: its hold stays, if it is the last one on its context. */
static void retire(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    kolo_engine_enter(engine);
    const struct kolo_device_memory *other = engine->device_memory;
    while (other != NULL && other->pointer.context != memory->pointer.context)
        other = other->next;
    if (other == NULL) {
        memory->pointer.memory = NULL;
        memory->next = engine->device_memory;
        engine->device_memory = memory;
    }
    kolo_engine_leave(engine);
    if (other != NULL) {
        kolo_device_release(&memory->pointer);
        kolo_free_memory(memory);
    }
}

kolo_status kolo_alloc_device(struct kolo_comm *comm, size_t bytes, int device, void **memory_out)
{
    if (comm == NULL || memory_out == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc_device: %s is NULL",
                         comm == NULL ? "comm" : "memory_out");
    if (device < -1)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc_device: device is %d; -1 lets kolo choose",
                         device);
    struct kolo_device_memory *memory = kolo_calloc(1, sizeof(*memory));
    if (memory == NULL)
        return KOLO_ERR_NO_MEMORY;
    const kolo_status status =
        kolo_device_alloc(device, comm->engine->world->local_rank, bytes, &memory->pointer);
    if (status != KOLO_OK) {
        kolo_free_memory(memory);
        return status;
    }
    memory->bytes = bytes;
    add(comm->engine, memory);
    *memory_out = (void *)(uintptr_t)memory->pointer.memory;
    return KOLO_OK;
}

bool kolo_device_memory_find(const struct kolo_engine *engine, const void *address, size_t bytes,
                             struct kolo_pointer *pointer_out)
{
    const struct kolo_device_memory *memory = engine->device_memory;
    for (; memory != NULL; memory = memory->next) {
        const uintptr_t offset = (uintptr_t)address - (uintptr_t)memory->pointer.memory;
        if (memory->pointer.memory == NULL || offset > memory->bytes ||
            bytes > memory->bytes - offset)
            continue;
        *pointer_out = memory->pointer;
        return true;
    }
    return false;
}

kolo_status kolo_device_memory_free(struct kolo_engine *engine, void *address)
{
    const int timeout_ms = (int)engine->settings.timeout_ms;
    struct kolo_device_memory *memory = take(engine, address);
    if (memory == NULL)
        return KOLO_ERR_INVALID;
    const kolo_status status = kolo_device_free(&memory->pointer, kolo_deadline_in_ms(timeout_ms));
    if (status == KOLO_AGAIN) {
        add(engine, memory);
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "kolo_free: device %d has not done within %d ms what it was given before",
                         memory->pointer.device, timeout_ms);
    }
    if (status == KOLO_ERR_UNSUPPORTED) { /* a stream is captured */
        add(engine, memory);
        return status;
    }
    retire(engine, memory);
    return status;
}

/** The end of one, or of a hold. A device that is still at work keeps both: its context would go
 * with the last hold, under the work and under the thread that waits for it. */
static void close_one(struct kolo_device_memory *memory, kolo_deadline deadline)
{
    const kolo_status status =
        memory->pointer.memory == NULL ? KOLO_OK : kolo_device_free(&memory->pointer, deadline);
    if (status != KOLO_OK)
        KOLO_WARN("memory of device %d is left to the end of the process: %s",
                  memory->pointer.device,
                  status == KOLO_AGAIN ? "the device is still at work" : kolo_error_detail());
    if (status != KOLO_AGAIN)
        kolo_device_release(&memory->pointer);
    kolo_free_memory(memory);
}

void kolo_device_memory_close(struct kolo_engine *engine, kolo_deadline deadline)
{
    while (engine->device_memory != NULL) {
        struct kolo_device_memory *memory = engine->device_memory;
        engine->device_memory = memory->next;
        close_one(memory, deadline);
    }
}
