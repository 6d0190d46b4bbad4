// SPDX-License-Identifier: Apache-2.0
// kolo_alloc and kolo_free: host memory of the rank's heap that the program has asked for. Owns
// none of it; the heap does (memory/heap.c). Must never wait in kolo_free for a stream that is held
// (memory/held.h): in a process with several ranks that of another rank may wait for the very next
// call of this one.
//
// A few short allocations are kept when they are freed, and given out again, since nearly all that
// an allocation costs is spent in the kernel, here and at the neighbours that map it. The heap
// decides which. If an allocation fails, what its rank keeps is freed, and it is tried again.
//
// While any stream is held, memory that may be locked for devices is only put aside. The tidying
// thread (runtime/loans.c) frees it once none is held. If there is no such thread because it could
// not be started, the next kolo_free that meets no held stream does, or the end of the rank.
#include "runtime/host_memory.h"

#include "memory/held.h"
#include "memory/memory.h"
#include "runtime/comm.h"
#include "runtime/device_memory.h"
#include "runtime/loans.h"

static void tell_gone(void *context, uint64_t id)
{
    struct kolo_engine *engine = context;
    kolo_engine_enter(engine);
    kolo_engine_tell_gone(engine, id);
    kolo_engine_leave(engine);
}

kolo_status kolo_alloc(struct kolo_comm *comm, size_t bytes, void **memory_out)
{
    kolo_status status = kolo_comm_check(comm, "kolo_alloc");
    if (status != KOLO_OK)
        return status;
    if (!memory_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc: memory_out is NULL");
    struct kolo_heap *heap = comm->engine->heap;
    status = kolo_heap_alloc(heap, bytes, memory_out);
    if (status != KOLO_OK && kolo_heap_drop_kept(heap, tell_gone, comm->engine)) {
        status = kolo_heap_alloc(heap, bytes, memory_out);
        if (status == KOLO_OK)
            kolo_detail_set(""); /* the program's call has not failed */
    }
    return status;
}

kolo_status kolo_host_memory_free(struct kolo_engine *engine, void *memory)
{
    if (kolo_heap_keep(engine->heap, memory, tell_gone, engine))
        return KOLO_OK;
    kolo_heap_unpin(engine->heap, memory);
    kolo_engine_enter(engine);
    const kolo_status status = kolo_heap_free(engine->heap, memory, kolo_engine_tell_gone, engine);
    kolo_engine_leave(engine);
    return status;
}

void kolo_host_memory_reap(struct kolo_engine *engine, kolo_deadline deadline,
                           const struct kolo_unless *unless)
{
    void *memory;
    if (!kolo_heap_has_aside(engine->heap) ||
        kolo_none_held_begin(NULL, deadline, unless) != KOLO_OK)
        return;
    while (kolo_heap_take_aside(engine->heap, &memory))
        (void)kolo_host_memory_free(engine, memory);
    kolo_none_held_end(NULL);
}

static kolo_status put_aside(struct kolo_engine *engine, void *memory)
{
    const kolo_status status = kolo_heap_put_aside(engine->heap, memory);
    if (status != KOLO_OK)
        return status;
    if (kolo_loans_start(engine) != KOLO_OK)
        kolo_detail_set(""); /* the program's call has not failed */
    kolo_engine_enter(engine);
    kolo_loans_look(engine);
    kolo_engine_leave(engine);
    return KOLO_OK;
}

static kolo_status free_any(struct kolo_comm *comm, void *memory)
{
    kolo_status status = kolo_comm_check(comm, "kolo_free");
    if (status != KOLO_OK)
        return status;
    status = kolo_device_memory_free(comm->engine, memory);
    if (status != KOLO_ERR_INVALID)
        return status;
    if (kolo_none_held_begin(NULL, 0, NULL) != KOLO_OK)
        return put_aside(comm->engine, memory);
    /* Before the engine's lock: the driver may wait for its device, and the device for a call that
     * needs the lock. */
    status = kolo_host_memory_free(comm->engine, memory);
    kolo_none_held_end(NULL);
    kolo_host_memory_reap(comm->engine, 0, NULL);
    return status;
}

/* Programs free their memory before they report why a call failed. So the detail of that failure
 * stays, whatever happens on the way: a peer that has left is not told of the freed memory. */
kolo_status kolo_free(struct kolo_comm *comm, void *memory)
{
    char detail[KOLO_DETAIL_MAX];
    if (!memory)
        return KOLO_OK;
    kolo_detail_keep(detail);
    const kolo_status status = free_any(comm, memory);
    if (status == KOLO_OK)
        kolo_detail_set(detail);
    return status;
}
