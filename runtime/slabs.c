// SPDX-License-Identifier: Apache-2.0
// Owns the slabs: host memory that stands in for device buffers during calls. The engine has one
// list of slabs, of those that calls use and those that are kept for later calls. As much is kept
// as the calls of the recent past used at the same time, or SLABS_KEPT_BYTES if that is more, since
// a slab costs more than the copies through it: 0.7 s for a GiB. Beyond that, those that were
// unused for the longest time are freed when the next call comes, or at the end.
//
// All slabs are locked for devices if the driver agrees. They are made, locked and unlocked without
// the engine's lock, and never freed in a call that waits with a deadline of the program, nor while
// a stream is held (memory/held.h): a driver may wait until all its work is done, and that work may
// wait for another call. A slab that is too short for neighbours to read it in place is ordinary
// memory, because each piece of kolo_alloc memory takes a file descriptor.
#include "runtime/slabs.h"

#include <unistd.h>

#include "base/alloc.h"
#include "memory/held.h"
#include "runtime/comm.h"
#include "runtime/host_memory.h"

enum { SLABS_KEPT_BYTES = 128 << 20, FORGOTTEN = 64 /* the part that each lull forgets */ };

static void free_ordinary(struct kolo_slab *slab)
{
    kolo_unpin(&slab->pin, slab->memory);
    kolo_free_memory(slab->memory);
}

/** Takes the slab at *@p at, which no call uses, out of the list of slabs; it will be freed. */
static void give_up(struct kolo_engine *engine, struct kolo_slab **at)
{
    struct kolo_slab *slab = *at;
    *at = slab->next;
    engine->slabs.bytes_unused -= slab->bytes;
    slab->next = engine->slabs.to_free;
    engine->slabs.to_free = slab;
    atomic_store_explicit(&engine->slabs.has_to_free, true, memory_order_relaxed);
}

/** Not held: lock, which is taken to free memory of the heap after it has been unlocked. */
static void destroy(struct kolo_engine *engine, struct kolo_slab *slab)
{
    if (slab->heap) {
        (void)kolo_host_memory_free(engine, slab->memory);
    } else {
        free_ordinary(slab);
    }
    kolo_free_memory(slab);
}

void kolo_slabs_trim(struct kolo_engine *engine)
{
    if (!atomic_load_explicit(&engine->slabs.has_to_free, memory_order_relaxed) ||
        kolo_none_held_begin(NULL, 0, NULL) != KOLO_OK)
        return;
    kolo_engine_enter(engine);
    struct kolo_slab *slab = engine->slabs.to_free;
    engine->slabs.to_free = NULL;
    atomic_store_explicit(&engine->slabs.has_to_free, false, memory_order_relaxed);
    kolo_engine_leave(engine);
    for (struct kolo_slab *next; slab; slab = next) {
        next = slab->next;
        destroy(engine, slab);
    }
    kolo_none_held_end(NULL);
}

/** Allocates ordinary memory in whole pages, since a page that is shared with other memory cannot
 * be locked. */
static kolo_status make_ordinary(struct kolo_slab *slab, const struct kolo_pointer *near)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    slab->bytes = (slab->bytes + page - 1) / page * page;
    slab->memory = kolo_aligned(page, slab->bytes);
    if (!slab->memory)
        return KOLO_ERR_NO_MEMORY;
    kolo_pin(near, slab->memory, slab->bytes, &slab->pin);
    return KOLO_OK;
}

static kolo_status make(struct kolo_engine *engine, size_t bytes, const struct kolo_pointer *near,
                        struct kolo_slab **slab_out)
{
    struct kolo_slab *slab = kolo_calloc(1, sizeof *slab);
    kolo_status status = slab ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status != KOLO_OK)
        return status;
    slab->bytes = bytes;
    if (bytes >= engine->settings.shm_direct_bytes)
        slab->heap = engine->heap;
    if (slab->heap)
        status = kolo_heap_alloc(slab->heap, bytes, &slab->memory);
    else
        status = make_ordinary(slab, near);
    if (status == KOLO_OK)
        *slab_out = slab;
    else
        kolo_free_memory(slab);
    return status;
}

/** Whether its memory is in one piece. When a call has failed, a part may have been severed from a
 * rank that still had it mapped (kolo_heap_sever). Then each piece is locked apart, and CUDA
 * refuses a copy of which only a part is locked; nor do neighbours read it in place. */
static bool is_whole(const struct kolo_slab *slab)
{
    struct kolo_span span;
    return !slab->heap || kolo_heap_find(slab->heap, slab->memory, slab->bytes, &span);
}

/** Where the smallest unused slab that is large enough is in the list; NULL: there is none. */
static struct kolo_slab **find_best(struct kolo_engine *engine, size_t bytes)
{
    struct kolo_slab **best = NULL;
    for (struct kolo_slab **at = &engine->slabs.first; *at; at = &(*at)->next)
        if (!(*at)->is_used && (*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    return best;
}

/** Takes that slab out of the list; NULL: there is none. */
static struct kolo_slab *find(struct kolo_engine *engine, size_t bytes)
{
    struct kolo_slab **best;
    while ((best = find_best(engine, bytes)) != NULL && !is_whole(*best))
        give_up(engine, best);
    if (!best)
        return NULL;
    struct kolo_slab *slab = *best;
    *best = slab->next;
    engine->slabs.bytes_unused -= slab->bytes;
    return slab;
}

/** Marks the slab as used, and puts it first in the list. */
static void use(struct kolo_engine *engine, struct kolo_slab *slab)
{
    slab->is_used = true;
    slab->next = engine->slabs.first;
    engine->slabs.first = slab;
    engine->slabs.bytes_used += slab->bytes;
    if (engine->slabs.bytes_used > engine->slabs.bytes_kept)
        engine->slabs.bytes_kept = engine->slabs.bytes_used;
}

kolo_status kolo_slab_take(struct kolo_comm *comm, size_t bytes, const struct kolo_pointer *near,
                           struct kolo_slab **slab_out)
{
    struct kolo_slab *slab = find(comm->engine, bytes);
    if (!slab) {
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
    engine->slabs.bytes_unused += slab->bytes;
    engine->slabs.bytes_used -= slab->bytes;
    const size_t most =
        engine->slabs.bytes_kept > SLABS_KEPT_BYTES ? engine->slabs.bytes_kept : SLABS_KEPT_BYTES;
    if (engine->slabs.bytes_used == 0)
        engine->slabs.bytes_kept -= engine->slabs.bytes_kept / FORGOTTEN;
    while (engine->slabs.bytes_unused > most) {
        struct kolo_slab **oldest = NULL;
        for (struct kolo_slab **at = &engine->slabs.first; *at; at = &(*at)->next)
            if (!(*at)->is_used)
                oldest = at;
        if (!oldest)
            return;
        give_up(engine, oldest);
    }
}

/** Never frees the slab, since a late copy may still write to its memory. */
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
    /* Not kolo_slabs_trim, which would leave these if another rank of this process holds a stream;
     * unlocking waits for that stream, for a while. */
    for (struct kolo_slab *slab; (slab = engine->slabs.to_free) != NULL;) {
        engine->slabs.to_free = slab->next;
        slab->next = engine->slabs.first;
        engine->slabs.first = slab;
    }
    while (engine->slabs.first) {
        struct kolo_slab *slab = engine->slabs.first;
        engine->slabs.first = slab->next;
        /* in use only by a copy, since all calls have returned their slabs */
        if (slab->is_used && may_be_late) {
            may_free_heap &= slab->heap == NULL;
            keep(slab);
            continue;
        }
        if (!slab->heap)
            free_ordinary(slab);
        kolo_free_memory(slab); /* memory of the heap is freed with the heap */
    }
    return may_free_heap;
}
