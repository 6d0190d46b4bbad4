// SPDX-License-Identifier: Apache-2.0
// Slabs: memory of the host's that stands in for a device's buffers while calls have them. Owned by
// the engine: those that calls have and those that are kept for later calls are in one list, up to
// SLABS_KEPT_BYTES of the latter; of more, those go that were not taken for longest, when the next
// call comes, or at the end.
//
// All are locked for devices, if their driver agrees. They are made, locked and unlocked without
// the engine's lock, and never freed in a call that waits by a deadline of the program's: a driver
// may wait until all that it was given is done, and that may be for another call. One that
// neighbours would not read in place is ordinary memory, because each piece of kolo_alloc memory
// takes a file descriptor.
#include "runtime/slabs.h"

#include <unistd.h>

#include "base/alloc.h"
#include "runtime/comm.h"

enum { SLABS_KEPT_BYTES = 128 << 20 };

static void free_ordinary(struct kolo_slab *slab)
{
    kolo_unpin(&slab->pin, slab->memory);
    kolo_free_memory(slab->memory);
}

/** Takes the slab that *@p at leads to, which no call has, out of the list: it will be freed. */
static void give_up(struct kolo_engine *engine, struct kolo_slab **at)
{
    struct kolo_slab *slab = *at;
    *at = slab->next;
    engine->slab_bytes_unused -= slab->bytes;
    slab->next = engine->slabs_to_free;
    engine->slabs_to_free = slab;
    atomic_store_explicit(&engine->has_slabs_to_free, true, memory_order_relaxed);
}

/** Not held: lock, which is taken for what is the heap's once that is unlocked. */
static void destroy(struct kolo_engine *engine, struct kolo_slab *slab)
{
    if (slab->heap != NULL) {
        kolo_heap_unpin(slab->heap, slab->memory);
        kolo_engine_enter(engine);
        (void)kolo_heap_free(slab->heap, slab->memory, kolo_engine_tell_gone, engine);
        kolo_engine_leave(engine);
    } else {
        free_ordinary(slab);
    }
    kolo_free_memory(slab);
}

void kolo_slabs_trim(struct kolo_engine *engine)
{
    if (!atomic_load_explicit(&engine->has_slabs_to_free, memory_order_relaxed))
        return;
    kolo_engine_enter(engine);
    struct kolo_slab *slab = engine->slabs_to_free;
    engine->slabs_to_free = NULL;
    atomic_store_explicit(&engine->has_slabs_to_free, false, memory_order_relaxed);
    kolo_engine_leave(engine);
    for (struct kolo_slab *next; slab != NULL; slab = next) {
        next = slab->next;
        destroy(engine, slab);
    }
}

/** Ordinary memory, of whole pages: what shares a page with others' memory cannot be locked. */
static kolo_status make_ordinary(struct kolo_slab *slab, const struct kolo_pointer *near)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    slab->bytes = (slab->bytes + page - 1) / page * page;
    slab->memory = kolo_aligned(page, slab->bytes);
    if (slab->memory == NULL)
        return KOLO_ERR_NO_MEMORY;
    kolo_pin(near, slab->memory, slab->bytes, &slab->pin);
    return KOLO_OK;
}

static kolo_status make(struct kolo_engine *engine, size_t bytes, const struct kolo_pointer *near,
                        struct kolo_slab **slab_out)
{
    struct kolo_slab *slab = kolo_calloc(1, sizeof(*slab));
    kolo_status status = slab != NULL ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status != KOLO_OK)
        return status;
    slab->bytes = bytes;
    if (bytes >= engine->settings.shm_direct_bytes)
        slab->heap = engine->heap;
    if (slab->heap != NULL)
        status = kolo_heap_alloc(slab->heap, bytes, &slab->memory);
    else
        status = make_ordinary(slab, near);
    if (status == KOLO_OK)
        *slab_out = slab;
    else
        kolo_free_memory(slab);
    return status;
}

/** The smallest that no call has and that is large enough; NULL: there is none. */
static struct kolo_slab *find(struct kolo_engine *engine, size_t bytes)
{
    struct kolo_slab **best = NULL;
    for (struct kolo_slab **at = &engine->slabs; *at != NULL; at = &(*at)->next)
        if (!(*at)->is_used && (*at)->bytes >= bytes &&
            (best == NULL || (*at)->bytes < (*best)->bytes))
            best = at;
    if (best == NULL)
        return NULL;
    struct kolo_slab *slab = *best;
    *best = slab->next;
    engine->slab_bytes_unused -= slab->bytes;
    return slab;
}

/** It is a call's, and the first. */
static void use(struct kolo_engine *engine, struct kolo_slab *slab)
{
    slab->is_used = true;
    slab->next = engine->slabs;
    engine->slabs = slab;
}

kolo_status kolo_slab_take(struct kolo_comm *comm, size_t bytes, const struct kolo_pointer *near,
                           struct kolo_slab **slab_out)
{
    struct kolo_slab *slab = find(comm->engine, bytes);
    if (slab == NULL) {
        kolo_comm_leave(comm);
        const kolo_status status = make(comm->engine, bytes, near, &slab);
        kolo_comm_enter(comm);
        if (status != KOLO_OK)
            return status;
    }
    use(comm->engine, slab);
    *slab_out = slab;
    return KOLO_OK;
}

void kolo_slab_give_back(struct kolo_engine *engine, struct kolo_slab *slab)
{
    slab->is_used = false;
    engine->slab_bytes_unused += slab->bytes;
    while (engine->slab_bytes_unused > SLABS_KEPT_BYTES) {
        struct kolo_slab **oldest = NULL;
        for (struct kolo_slab **at = &engine->slabs; *at != NULL; at = &(*at)->next)
            if (!(*at)->is_used)
                oldest = at;
        if (oldest == NULL)
            return;
        give_up(engine, oldest);
    }
}

/** For ever: a late copy may still come to its memory. */
static void keep(struct kolo_slab *slab)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct kolo_slab *kept; /* held: lock */
    (void)pthread_mutex_lock(&lock);
    slab->next = kept;
    kept = slab;
    (void)pthread_mutex_unlock(&lock);
}

bool kolo_slabs_close(struct kolo_engine *engine, bool may_be_late)
{
    bool may_free_heap = true;
    kolo_slabs_trim(engine); /* now: the driver has no stream left to wait for */
    while (engine->slabs != NULL) {
        struct kolo_slab *slab = engine->slabs;
        engine->slabs = slab->next;
        if (slab->is_used && may_be_late) { /* by a copy alone: calls have given theirs back */
            may_free_heap &= slab->heap == NULL;
            keep(slab);
            continue;
        }
        if (slab->heap == NULL)
            free_ordinary(slab);
        kolo_free_memory(slab); /* memory of the heap goes with it */
    }
    return may_free_heap;
}
