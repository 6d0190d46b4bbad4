// SPDX-License-Identifier: Apache-2.0
// The spans of one communicator, an array sorted by base address. Owns the spans: their pages and
// descriptors live until kolo_heap_free or kolo_heap_destroy. Never hands out an id twice, so that
// a neighbour who kept a mapping cannot take new memory for old.
//
// Locks: `lock` guards the array; finds share it. `count` is also read without it, to answer "not
// ours" at once while the heap is empty: a thread that was handed a pointer from kolo_heap_alloc
// sees the count that came before it. System calls run outside the lock.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/memory.h"

struct kolo_heap {
    const struct kolo_memory_ops *kind;
    pthread_rwlock_t lock;
    struct kolo_span *spans; /* sorted by base; held: lock */
    size_t capacity;         /* held: lock */
    atomic_size_t count;     /* of spans; written: lock */
    uint64_t next_id;        /* held: lock */
};

static const struct kolo_memory_ops *host_kind(void)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->kind == KOLO_MEMORY_HOST)
            return kolo_memory_kinds[i];
    return NULL;
}

kolo_status kolo_heap_create(struct kolo_heap **heap_out)
{
    const struct kolo_memory_ops *kind = host_kind();
    if (!kind)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "this build has no host memory kind");
    struct kolo_heap *heap = kolo_calloc(1, sizeof(*heap));
    if (!heap)
        return KOLO_ERR_NO_MEMORY;
    const int error = pthread_rwlock_init(&heap->lock, NULL);
    if (error != 0) {
        kolo_free_memory(heap);
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "lock of the heap");
    }
    heap->kind = kind;
    heap->next_id = 1;
    *heap_out = heap;
    return KOLO_OK;
}

void kolo_heap_destroy(struct kolo_heap *heap)
{
    if (!heap)
        return;
    const size_t count = atomic_load(&heap->count);
    for (size_t i = 0; i < count; i++)
        heap->kind->release(&heap->spans[i]);
    kolo_free_memory(heap->spans);
    (void)pthread_rwlock_destroy(&heap->lock);
    kolo_free_memory(heap);
}

/** The number of spans whose base is at or below @p address. held: lock */
static size_t spans_upto(const struct kolo_heap *heap, uintptr_t address)
{
    size_t low = 0, high = atomic_load_explicit(&heap->count, memory_order_relaxed);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)heap->spans[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/** held: lock, for writing */
static kolo_status insert(struct kolo_heap *heap, struct kolo_span *span)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    void *spans = heap->spans;
    const kolo_status status = kolo_grow(&spans, &heap->capacity, count + 1, sizeof(*heap->spans));
    heap->spans = spans;
    if (status != KOLO_OK)
        return status;
    const size_t at = spans_upto(heap, (uintptr_t)span->base);
    memmove(&heap->spans[at + 1], &heap->spans[at], (count - at) * sizeof(*heap->spans));
    span->id = heap->next_id++;
    heap->spans[at] = *span;
    atomic_store_explicit(&heap->count, count + 1, memory_order_release);
    return KOLO_OK;
}

kolo_status kolo_heap_alloc(struct kolo_heap *heap, size_t bytes, void **memory_out)
{
    struct kolo_span span;
    kolo_status status = heap->kind->alloc(bytes, &span);
    if (status != KOLO_OK)
        return status;
    (void)pthread_rwlock_wrlock(&heap->lock);
    status = insert(heap, &span);
    (void)pthread_rwlock_unlock(&heap->lock);
    if (status != KOLO_OK) {
        heap->kind->release(&span);
        return status;
    }
    *memory_out = span.base;
    return KOLO_OK;
}

/** Takes the span that begins at @p memory out of the array. */
static bool take(struct kolo_heap *heap, const void *memory, struct kolo_span *span_out)
{
    (void)pthread_rwlock_wrlock(&heap->lock);
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const size_t after = spans_upto(heap, (uintptr_t)memory);
    const bool is_base = after > 0 && heap->spans[after - 1].base == memory;
    if (is_base) {
        *span_out = heap->spans[after - 1];
        memmove(&heap->spans[after - 1], &heap->spans[after],
                (count - after) * sizeof(*heap->spans));
        atomic_store_explicit(&heap->count, count - 1, memory_order_release);
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    return is_base;
}

kolo_status kolo_heap_free(struct kolo_heap *heap, void *memory,
                           void (*gone)(void *context, uint64_t id), void *context)
{
    struct kolo_span span;
    if (!take(heap, memory, &span))
        return kolo_fail(KOLO_ERR_INVALID,
                         "%p is not the start of memory from kolo_alloc of this communicator, or "
                         "was freed before",
                         memory);
    if (gone)
        gone(context, span.id);
    heap->kind->release(&span);
    return KOLO_OK;
}

bool kolo_heap_find(struct kolo_heap *heap, const void *memory, size_t bytes,
                    struct kolo_span *span_out)
{
    if (atomic_load_explicit(&heap->count, memory_order_acquire) == 0)
        return false;
    bool found = false;
    (void)pthread_rwlock_rdlock(&heap->lock);
    const size_t after = spans_upto(heap, (uintptr_t)memory);
    if (after > 0) {
        const struct kolo_span *span = &heap->spans[after - 1];
        const size_t offset = (size_t)((uintptr_t)memory - (uintptr_t)span->base);
        found = offset < span->bytes && bytes <= span->bytes - offset;
        if (found)
            *span_out = *span;
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    return found;
}
