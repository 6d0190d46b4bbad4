// SPDX-License-Identifier: Apache-2.0
// What memory/heap.c and memory/heap_sever.c share. Private to them.
#ifndef KOLO_MEMORY_HEAP_PRIVATE_H
#define KOLO_MEMORY_HEAP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/kept.h"
#include "memory/memory.h"

struct kolo_heap {
    const struct kolo_memory_ops *kind;
    pthread_rwlock_t lock;
    struct kolo_span *spans;      /* sorted by base; held: lock */
    size_t capacity;              /* held: lock */
    atomic_size_t count;          /* number of spans; written: lock */
    atomic_size_t aside;          /* number of allocations that are aside; written: lock */
    uint64_t next_id;             /* held: lock */
    struct kolo_kept kept;        /* held: lock */
    struct kolo_pointer near;     /* selects the devices; written once, before is_pinned */
    atomic_bool is_pinned;        /* written: lock */
    pthread_mutex_t locking_lock; /* taken after lock, if both are */
    pthread_cond_t locked;
    const void *locking; /* base of the span whose pages are being locked; held: locking_lock */
};

/** The number of spans whose base is at or below @p address. Held: lock. */
size_t kolo_heap_spans_upto(const struct kolo_heap *heap, uintptr_t address);
/** Called before the spans from @p first to @p last are changed. True: pages of one were being
 * locked; the lock was released until that was over, and everything may have changed. Held: lock,
 * for writing. */
bool kolo_heap_await_locking(struct kolo_heap *heap, size_t first, size_t last);
/** Locks the pages of @p span for the devices near @p near (NULL: those of which the calling thread
 * has a context), unless they are locked or plain. */
void kolo_heap_pin_span(const struct kolo_pointer *near, struct kolo_span *span);

#endif
