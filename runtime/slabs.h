// SPDX-License-Identifier: Apache-2.0
// Memory of the host's that stands in for a device's buffers. Private to staging*.c.
//
// Threads: any; who holds the engine's lock is said of each call.
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
    struct kolo_heap *heap; /* that it is of; NULL: ordinary memory */
    struct kolo_pin pin;    /* of ordinary memory */
    bool is_used;
};

/** At least @p bytes bytes, which the device that @p near leads to copies fast, for a call on
 * @p comm: one that was kept, or a new one. Held: lock; it is given up while one is made, for which
 * a driver may wait for its devices. ERR_NO_MEMORY. */
kolo_status kolo_slab_take(struct kolo_comm *comm, size_t bytes, const struct kolo_pointer *near,
                           struct kolo_slab **slab_out) KOLO_NODISCARD;
/** The call is over, and no copy of it is on its way. Held: lock. */
void kolo_slab_give_back(struct kolo_engine *engine, struct kolo_slab *slab);
/** Frees what is too much. Not held: lock, which is taken. */
void kolo_slabs_trim(struct kolo_engine *engine);
/** Frees them all when no call is running any more. @p may_be_late: copies may still come to those
 * that were not given back, which stay for ever then. False: one of those is of the heap, which
 * must stay too. Not held: lock. */
bool kolo_slabs_close(struct kolo_engine *engine, bool may_be_late);

#endif
