// SPDX-License-Identifier: Apache-2.0
// The spans of a rank, in an array sorted by base address. Owns the spans: their pages and
// descriptors live until kolo_heap_free or kolo_heap_destroy. Must never use an id for other pages
// again, so that a process that kept a mapping cannot take new memory for old.
//
// An allocation is one span until a part of it is severed (memory/heap_sever.c). Then it is several
// spans, one after the other, which know where the allocation begins.
//
// Locks: `lock` guards the array; finds share it. `count` is also read without it, so that a find
// in an empty heap returns at once: a thread that was given a pointer from kolo_heap_alloc sees the
// count of that time or a later one. System calls run outside the lock, except those of sever,
// which nobody may see half done.
//
// Pages are locked for devices in two cases: the thread that allocates them has a device's context,
// or kolo_heap_pin was called, at the first use of a device; that call locks all existing pages
// too. Pages are unlocked before they are unmapped. kolo_heap_sever does that as well, and then
// locks the pieces. Two kinds of memory are never locked: what only the host uses
// (kolo_heap_alloc_plain), and what is about to be freed (kolo_heap_unpin).
//
// kolo_heap_pin locks span by span, without `lock`, because a driver takes a while, or waits for
// its devices. Meanwhile `locking` names the span, and a thread that would change that span waits.
//
// An allocation whose pages a driver cannot unlock at the moment is put aside instead of freed. Its
// spans stay until somebody frees it later, or an allocation of the same length gets it; so a
// program that allocates and frees in a loop does not grow meanwhile.
//
// A few short spans that are freed are kept for allocations of the same length (memory/kept.h),
// which find them filled with zeros. They are in no array, so nobody finds them meanwhile. Their
// ids stay, so what the neighbours have mapped need not be mapped again. Never kept: what is locked
// for devices (a driver would have to be called), what was severed (the call failed, and its old
// users may come late), what a child of fork() has too, and what somebody asks not to be kept.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/forks.h"
#include "memory/heap_private.h"

static const struct kolo_memory_ops *host_kind(void)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->kind == KOLO_MEMORY_HOST)
            return kolo_memory_kinds[i];
    return NULL;
}

/** Returns an errno value; 0: success. */
static int init_locks(struct kolo_heap *heap)
{
    int error = pthread_rwlock_init(&heap->lock, NULL);
    if (error != 0)
        return error;
    error = pthread_mutex_init(&heap->locking_lock, NULL);
    if (error == 0) {
        error = pthread_cond_init(&heap->locked, NULL);
        if (error != 0)
            (void)pthread_mutex_destroy(&heap->locking_lock);
    }
    if (error != 0)
        (void)pthread_rwlock_destroy(&heap->lock);
    return error;
}

static void destroy_locks(struct kolo_heap *heap)
{
    (void)pthread_cond_destroy(&heap->locked);
    (void)pthread_mutex_destroy(&heap->locking_lock);
    (void)pthread_rwlock_destroy(&heap->lock);
}

kolo_status kolo_heap_create(struct kolo_heap **heap_out)
{
    const struct kolo_memory_ops *kind = host_kind();
    if (!kind)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "this build has no host memory kind");
    const kolo_status status = kolo_forks_watch();
    if (status != KOLO_OK)
        return status;
    struct kolo_heap *heap = kolo_calloc(1, sizeof *heap);
    if (!heap)
        return KOLO_ERR_NO_MEMORY;
    const int error = init_locks(heap);
    if (error != 0) {
        kolo_free_memory(heap);
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "lock of the heap");
    }
    heap->kind = kind;
    heap->next_id = 1;
    *heap_out = heap;
    return KOLO_OK;
}

size_t kolo_heap_spans_upto(const struct kolo_heap *heap, uintptr_t address)
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

/* ---- locked pages ---- */

/** What to lock pages for; NULL: devices of which the calling thread has a context. */
static const struct kolo_pointer *near_of(const struct kolo_heap *heap)
{
    return atomic_load_explicit(&heap->is_pinned, memory_order_acquire) ? &heap->near : NULL;
}

void kolo_heap_pin_span(const struct kolo_pointer *near, struct kolo_span *span)
{
    if (!span->pin.ops && !span->is_plain)
        kolo_pin(near, span->base, span->bytes, &span->pin);
}

static void release(const struct kolo_heap *heap, struct kolo_span *span)
{
    kolo_unpin(&span->pin, span->base);
    heap->kind->release(span);
}

/** Names the first span after @p last whose pages must be locked, and copies it to *span_out.
 * False: there is none. */
static bool begin_locking(struct kolo_heap *heap, uintptr_t last, struct kolo_span *span_out)
{
    bool found = false;
    (void)pthread_rwlock_rdlock(&heap->lock);
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    for (size_t i = kolo_heap_spans_upto(heap, last); i < count && !found; i++) {
        *span_out = heap->spans[i];
        found = !span_out->pin.ops && !span_out->is_plain;
    }
    if (found) {
        (void)pthread_mutex_lock(&heap->locking_lock);
        heap->locking = span_out->base;
        (void)pthread_mutex_unlock(&heap->locking_lock);
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    return found;
}

/** Stores the pin of the span, which has not moved. */
static void end_locking(struct kolo_heap *heap, const struct kolo_span *span)
{
    (void)pthread_rwlock_wrlock(&heap->lock);
    heap->spans[kolo_heap_spans_upto(heap, (uintptr_t)span->base) - 1].pin = span->pin;
    (void)pthread_mutex_lock(&heap->locking_lock);
    heap->locking = NULL;
    (void)pthread_cond_broadcast(&heap->locked);
    (void)pthread_mutex_unlock(&heap->locking_lock);
    (void)pthread_rwlock_unlock(&heap->lock);
}

bool kolo_heap_await_locking(struct kolo_heap *heap, size_t first, size_t last)
{
    const uintptr_t low = (uintptr_t)heap->spans[first].base,
                    high = (uintptr_t)heap->spans[last].base;
    (void)pthread_mutex_lock(&heap->locking_lock);
    const void *locking = heap->locking;
    if (!locking || (uintptr_t)locking < low || (uintptr_t)locking > high) {
        (void)pthread_mutex_unlock(&heap->locking_lock);
        return false;
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    while (heap->locking == locking)
        (void)pthread_cond_wait(&heap->locked, &heap->locking_lock);
    (void)pthread_mutex_unlock(&heap->locking_lock);
    (void)pthread_rwlock_wrlock(&heap->lock);
    return true;
}

void kolo_heap_pin(struct kolo_heap *heap, const struct kolo_pointer *near)
{
    struct kolo_span span = {.base = NULL};
    if (near_of(heap))
        return;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool is_first = !near_of(heap);
    if (is_first) {
        heap->near = *near;
        atomic_store_explicit(&heap->is_pinned, true, memory_order_release);
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    while (is_first && begin_locking(heap, (uintptr_t)span.base, &span)) {
        kolo_heap_pin_span(near, &span);
        end_locking(heap, &span);
    }
}

/* ---- allocation ---- */

void kolo_heap_destroy(struct kolo_heap *heap)
{
    if (!heap)
        return;
    kolo_heap_drop_kept(heap, NULL, NULL);
    const size_t count = atomic_load(&heap->count);
    for (size_t i = 0; i < count; i++) {
        kolo_memory_remove_plain(heap->spans[i].base);
        release(heap, &heap->spans[i]);
    }
    kolo_free_memory(heap->spans);
    destroy_locks(heap);
    kolo_free_memory(heap);
}

/** Makes room in the array for one more span. held: lock, for writing */
static kolo_status make_room(struct kolo_heap *heap)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    void *spans = heap->spans;
    const kolo_status status = kolo_grow(&spans, &heap->capacity, count + 1, sizeof *heap->spans);
    heap->spans = spans;
    return status;
}

/** held: lock, for writing */
static kolo_status insert(struct kolo_heap *heap, struct kolo_span *span)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const kolo_status status = make_room(heap);
    if (status != KOLO_OK)
        return status;
    const size_t at = kolo_heap_spans_upto(heap, (uintptr_t)span->base);
    memmove(&heap->spans[at + 1], &heap->spans[at], (count - at) * sizeof *heap->spans);
    if (span->id == 0) /* otherwise it was kept */
        span->id = heap->next_id++;
    span->allocation = span->base;
    heap->spans[at] = *span;
    atomic_store_explicit(&heap->count, count + 1, memory_order_release);
    return KOLO_OK;
}

static kolo_status alloc(struct kolo_heap *heap, size_t bytes, bool is_plain, void **memory_out)
{
    struct kolo_span span;
    const uint64_t stamp = kolo_forks_stamp(); /* before a child can have the pages too */
    kolo_status status = heap->kind->alloc(bytes, &span);
    if (status != KOLO_OK)
        return status;
    span.stamp = stamp;
    span.is_plain = is_plain;
    span.end = (uint8_t *)span.base + bytes;
    const struct kolo_pointer *near = near_of(heap);
    kolo_heap_pin_span(near, &span);
    (void)pthread_rwlock_wrlock(&heap->lock);
    if (!near && near_of(heap)) { /* kolo_heap_pin may already have passed this span's place */
        (void)pthread_rwlock_unlock(&heap->lock);
        kolo_heap_pin_span(near_of(heap), &span);
        (void)pthread_rwlock_wrlock(&heap->lock);
    }
    status = insert(heap, &span);
    (void)pthread_rwlock_unlock(&heap->lock);
    if (status != KOLO_OK) {
        release(heap, &span);
        return status;
    }
    kolo_memory_add_plain(span.base, span.bytes);
    *memory_out = span.base;
    return KOLO_OK;
}

kolo_status kolo_heap_alloc_plain(struct kolo_heap *heap, size_t bytes, void **memory_out)
{
    return alloc(heap, bytes, true, memory_out);
}

/** Finds the spans of the allocation at @p memory. False: there is none. held: lock */
static bool find_allocation(const struct kolo_heap *heap, const void *memory, size_t *first_out,
                            size_t *last_out)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const size_t after = kolo_heap_spans_upto(heap, (uintptr_t)memory);
    if (after == 0 || heap->spans[after - 1].base != memory ||
        heap->spans[after - 1].allocation != memory)
        return false;
    *first_out = *last_out = after - 1;
    while (*last_out + 1 < count && heap->spans[*last_out + 1].allocation == memory)
        ++*last_out;
    return true;
}

/** The same, before they are changed: waits while pages of one are being locked. held: lock, for
 * writing */
static bool find_settled(struct kolo_heap *heap, const void *memory, size_t *first_out,
                         size_t *last_out)
{
    bool found;
    do
        found = find_allocation(heap, memory, first_out, last_out);
    while (found && kolo_heap_await_locking(heap, *first_out, *last_out));
    return found;
}

/** The same for the program, for which there is none if it is aside. held: lock, for writing */
static bool find_owned(struct kolo_heap *heap, const void *memory, size_t *first_out,
                       size_t *last_out)
{
    return find_settled(heap, memory, first_out, last_out) && !heap->spans[*first_out].is_aside;
}

/** Takes the pin of the first span of the allocation that is locked, and makes all spans plain.
 * False: none is locked, nor will be. */
static bool take_pin(struct kolo_heap *heap, const void *memory, struct kolo_pin *pin_out,
                     void **base_out)
{
    size_t first, last;
    bool found = false;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool is_there = find_settled(heap, memory, &first, &last);
    for (size_t i = first; is_there && i <= last; i++) {
        struct kolo_span *span = &heap->spans[i];
        span->is_plain = true;
        if (found || !span->pin.ops)
            continue;
        found = true;
        *pin_out = span->pin;
        *base_out = span->base;
        span->pin = (struct kolo_pin){.ops = NULL};
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    return found;
}

void kolo_heap_unpin(struct kolo_heap *heap, const void *memory)
{
    struct kolo_pin pin;
    void *base;
    while (take_pin(heap, memory, &pin, &base))
        kolo_unpin(&pin, base);
}

static kolo_status no_memory_of_ours(const void *memory)
{
    return kolo_fail(
        KOLO_ERR_INVALID,
        "kolo_free: %p is not the start of memory from kolo_alloc or kolo_alloc_device of this "
        "rank, or was freed before",
        memory);
}

/** Removes span number @p at from the array. held: lock, for writing */
static void remove_span(struct kolo_heap *heap, size_t at, struct kolo_span *span_out)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    *span_out = heap->spans[at];
    memmove(&heap->spans[at], &heap->spans[at + 1], (count - at - 1) * sizeof *heap->spans);
    atomic_store_explicit(&heap->count, count - 1, memory_order_release);
}

/** Removes the last span of the allocation at @p memory from the array. */
static bool take(struct kolo_heap *heap, const void *memory, struct kolo_span *span_out)
{
    size_t first, last;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool is_base = find_owned(heap, memory, &first, &last);
    if (is_base)
        remove_span(heap, last, span_out);
    (void)pthread_rwlock_unlock(&heap->lock);
    return is_base;
}

kolo_status kolo_heap_free(struct kolo_heap *heap, void *memory,
                           void (*gone)(void *context, uint64_t id), void *context)
{
    struct kolo_span span;
    if (!take(heap, memory, &span))
        return no_memory_of_ours(memory);
    kolo_memory_remove_plain(memory);
    // From the end, so that the address is not used for another allocation before the first span is
    // gone.
    for (bool is_first = false; !is_first;) {
        is_first = span.base == memory;
        if (gone)
            gone(context, span.id);
        release(heap, &span);
        if (!is_first && !take(heap, memory, &span))
            break;
    }
    return KOLO_OK;
}

/* ---- aside ---- */

/** held: lock, for writing */
static void set_aside(struct kolo_heap *heap, struct kolo_span *span, bool is_aside)
{
    span->is_aside = is_aside;
    if (is_aside)
        (void)atomic_fetch_add_explicit(&heap->aside, 1, memory_order_relaxed);
    else
        (void)atomic_fetch_sub_explicit(&heap->aside, 1, memory_order_relaxed);
}

kolo_status kolo_heap_put_aside(struct kolo_heap *heap, void *memory)
{
    size_t first, last;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool is_owned = find_owned(heap, memory, &first, &last);
    if (is_owned)
        set_aside(heap, &heap->spans[first], true);
    (void)pthread_rwlock_unlock(&heap->lock);
    return is_owned ? KOLO_OK : no_memory_of_ours(memory);
}

bool kolo_heap_has_aside(const struct kolo_heap *heap)
{
    return atomic_load_explicit(&heap->aside, memory_order_relaxed) > 0;
}

/** Whether the allocation whose first span is number @p first has @p bytes bytes, in one piece that
 * can be lent. held: lock */
static bool has_length(const struct kolo_heap *heap, size_t first, size_t bytes)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const struct kolo_span *span = &heap->spans[first];
    return span->bytes == bytes && span->fd >= 0 &&
           (first + 1 == count || span[1].allocation != span->base);
}

/** Finds an allocation that is aside, of @p bytes bytes in whole pages (0: of any length), and
 * takes it back, for @p used bytes. */
static bool take_back(struct kolo_heap *heap, size_t bytes, size_t used, void **memory_out)
{
    bool found = false;
    if (!kolo_heap_has_aside(heap))
        return false;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    for (size_t i = 0; i < count && !found; i++) {
        if (!heap->spans[i].is_aside || (bytes > 0 && !has_length(heap, i, bytes)))
            continue;
        found = true;
        set_aside(heap, &heap->spans[i], false);
        if (bytes > 0)
            heap->spans[i].end = (uint8_t *)heap->spans[i].base + used;
        *memory_out = heap->spans[i].base;
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    return found;
}

bool kolo_heap_take_aside(struct kolo_heap *heap, void **memory_out)
{
    return take_back(heap, 0, 0, memory_out);
}

/* ---- kept ---- */

/** Whether the only span of an allocation may be kept. held: lock */
static bool may_keep(const struct kolo_span *span)
{
    return span->bytes <= KOLO_KEPT_LONGEST && !span->pin.ops && !span->is_plain &&
           !span->is_aside && span->stamp != 0 && span->stamp == kolo_forks_stamp();
}

/** Removes the allocation at @p memory from the array if it may be kept. Does not wait for pages
 * that are being locked: while kolo_heap_pin was not called there are none. */
static bool take_to_keep(struct kolo_heap *heap, const void *memory, struct kolo_span *span_out)
{
    size_t first, last;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool may = !near_of(heap) && find_allocation(heap, memory, &first, &last) &&
                     first == last && may_keep(&heap->spans[first]);
    if (may)
        remove_span(heap, first, span_out);
    (void)pthread_rwlock_unlock(&heap->lock);
    return may;
}

static bool put(struct kolo_heap *heap, const struct kolo_span *span, struct kolo_span *oldest_out)
{
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool is_put = kolo_kept_put(&heap->kept, span, oldest_out);
    (void)pthread_rwlock_unlock(&heap->lock);
    return is_put;
}

bool kolo_heap_keep(struct kolo_heap *heap, void *memory, void (*gone)(void *context, uint64_t id),
                    void *context)
{
    struct kolo_span span, oldest;
    if (kolo_pointer_may_be_foreign() || !take_to_keep(heap, memory, &span))
        return false;
    kolo_memory_remove_plain(memory);
    for (bool is_over = false; !is_over && !put(heap, &span, &oldest);) {
        is_over = oldest.base == span.base;
        if (gone)
            gone(context, oldest.id);
        release(heap, &oldest);
    }
    return true;
}

static bool take_oldest(struct kolo_heap *heap, struct kolo_span *span_out)
{
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool found = kolo_kept_take_oldest(&heap->kept, span_out);
    (void)pthread_rwlock_unlock(&heap->lock);
    return found;
}

bool kolo_heap_drop_kept(struct kolo_heap *heap, void (*gone)(void *context, uint64_t id),
                         void *context)
{
    struct kolo_span span;
    bool was_any = false;
    while (take_oldest(heap, &span)) {
        was_any = true;
        if (gone)
            gone(context, span.id);
        release(heap, &span);
    }
    return was_any;
}

void kolo_heap_never_keep(struct kolo_heap *heap, const void *memory)
{
    (void)pthread_rwlock_wrlock(&heap->lock);
    const size_t after = kolo_heap_spans_upto(heap, (uintptr_t)memory);
    if (after > 0)
        heap->spans[after - 1].stamp = 0;
    (void)pthread_rwlock_unlock(&heap->lock);
}

/** Finds an allocation of @p bytes bytes in whole pages that is kept, for @p used bytes. If pages
 * are to be locked for devices, there is none: they would have to be locked before they are in the
 * array. */
static bool take_kept(struct kolo_heap *heap, size_t bytes, size_t used, void **memory_out)
{
    struct kolo_span span;
    if (bytes > KOLO_KEPT_LONGEST || kolo_pointer_may_be_foreign())
        return false;
    (void)pthread_rwlock_wrlock(&heap->lock);
    const bool found = heap->kept.count > 0 && !near_of(heap) && make_room(heap) == KOLO_OK &&
                       kolo_kept_take(&heap->kept, bytes, kolo_forks_stamp(), &span);
    if (found) {
        span.end = (uint8_t *)span.base + used;
        (void)insert(heap, &span); /* it has room */
    }
    (void)pthread_rwlock_unlock(&heap->lock);
    if (!found)
        return false;
    kolo_memory_add_plain(span.base, span.bytes);
    *memory_out = span.base;
    return true;
}

kolo_status kolo_heap_alloc(struct kolo_heap *heap, size_t bytes, void **memory_out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = bytes <= SIZE_MAX - page ? (bytes + page - 1) / page * page : 0;
    if (whole == 0 ||
        !(take_back(heap, whole, bytes, memory_out) || take_kept(heap, whole, bytes, memory_out)))
        return alloc(heap, bytes, false, memory_out);
    memset(*memory_out, 0, whole); /* as fresh memory is */
    return KOLO_OK;
}

/* ---- finding ---- */

/** Finds the span that contains the bytes, whether or not they can be lent. */
static bool find(struct kolo_heap *heap, const void *memory, size_t bytes,
                 struct kolo_span *span_out)
{
    if (atomic_load_explicit(&heap->count, memory_order_acquire) == 0)
        return false;
    bool found = false;
    (void)pthread_rwlock_rdlock(&heap->lock);
    const size_t after = kolo_heap_spans_upto(heap, (uintptr_t)memory);
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

bool kolo_heap_has(struct kolo_heap *heap, const void *memory)
{
    struct kolo_span span;
    return find(heap, memory, 1, &span);
}

bool kolo_heap_find(struct kolo_heap *heap, const void *memory, size_t bytes,
                    struct kolo_span *span_out)
{
    struct kolo_span span;
    if (!find(heap, memory, bytes, &span) || span.fd < 0)
        return false;
    *span_out = span;
    return true;
}
