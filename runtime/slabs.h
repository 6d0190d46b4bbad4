// SPDX-License-Identifier: Apache-2.0
// Slabs: host memory that stands in for device buffers. Private to staging*.c.
//
// Threads: any; each function says whether the engine's lock must be held.
#ifndef KOLO_RUNTIME_SLABS_H
#define KOLO_RUNTIME_SLABS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "memory/memory.h"

struct kolo_comm;
struct kolo_engine;
struct kolo_heap;
struct kolo_pointer;

struct kolo_slab {
    struct kolo_slab *next;
    void *memory;
    size_t bytes;
    struct kolo_heap *heap; /* the heap it is part of; NULL: ordinary memory */
    struct kolo_pin pin;    /* page lock of ordinary memory */
    bool is_used;
};

/** Takes a slab of at least @p bytes bytes for a call on @p comm: one that was kept, or a new one.
 * The device that @p near points to copies it fast. Held: lock; it is released while a new slab is
 * made, for which a driver may wait for its devices. ERR_NO_MEMORY. */
kolo_status kolo_slab_take(struct kolo_comm *comm, size_t bytes, const struct kolo_pointer *near,
                           struct kolo_slab **slab_out) KOLO_NODISCARD;
/** Returns a slab when its call is over and no copy from or to it is in flight. Held: lock. */
void kolo_slab_give_back(struct kolo_engine *engine, struct kolo_slab *slab);
/** Frees kept slabs beyond the limit, unless a stream is held. Not held: lock, which is taken. */
void kolo_slabs_trim(struct kolo_engine *engine);
/** Frees all slabs when no call is running any more. @p may_be_late: copies to slabs that were not
 * returned may still be in flight; these slabs are never freed. False: one of those is in the heap,
 * so the heap must stay too. Not held: lock. */
bool kolo_slabs_close(struct kolo_engine *engine, bool may_be_late);

#endif
