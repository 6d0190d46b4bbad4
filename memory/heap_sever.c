// SPDX-License-Identifier: Apache-2.0
// Severs a part of an allocation from the processes that have mapped it. Owns nothing: it works on
// the spans of memory/heap.c. Must never lose what the program writes beside the part.
//
// The allocation is several spans then, one after the other, which know where it begins: the memory
// before and after the part stays in the old file (processes that have mapped it see it as before),
// and the part gets a file of its own.
//
// The first and the last page of the part may have other bytes too, to which the program may write
// at any time. Such a page is not copied here, but by the kernel, which loses no write. The copy
// has no file: it is this process's alone, and kolo_heap_find does not find it.
//
// All of it runs under the heap's lock, since nobody may see it half done. Pages that are locked
// for devices are unlocked first, since a part of them cannot be, and the pieces are locked again.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/heap_private.h"

static uint8_t *end_of(const struct kolo_span *span)
{
    return (uint8_t *)span->base + span->bytes;
}

/** The spans from @p first to @p last, which contain the pages from @p low to @p high. */
struct cut {
    uint8_t *low, *high;
    size_t first, last;
    void *own;                /* for take_page, if it is one page; NULL: fresh pages of a file */
    int tail_fd;              /* second descriptor if one span has parts on both sides; -1: none */
    struct kolo_pointer near; /* what some span was locked for; ops NULL: none was locked */
};

/** Finds the spans to cut. False: the memory is not in one allocation. held: lock */
static bool find_cut(const struct kolo_heap *heap, const void *memory, size_t bytes,
                     struct cut *cut_out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const size_t after = kolo_heap_spans_upto(heap, (uintptr_t)memory);
    struct cut cut = {.first = after - 1, .last = after - 1, .tail_fd = -1};
    if (after == 0 || bytes == 0)
        return false;
    const uint8_t *low = memory;
    const void *allocation = heap->spans[cut.first].allocation;
    while (cut.last + 1 < count && heap->spans[cut.last + 1].allocation == allocation &&
           bytes > (size_t)(end_of(&heap->spans[cut.last]) - low))
        cut.last++;
    if (low >= end_of(&heap->spans[cut.first]) ||
        bytes > (size_t)(end_of(&heap->spans[cut.last]) - low))
        return false;
    uint8_t *base = heap->spans[cut.first].base;
    cut.low = base + (size_t)(low - base) / page * page;
    cut.high = cut.low + ((size_t)(low - cut.low) + bytes + page - 1) / page * page;
    *cut_out = cut;
    return true;
}

/** Before anything changes, makes room in the array and the second descriptor. */
static kolo_status prepare(struct kolo_heap *heap, struct cut *cut)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const struct kolo_span *first = &heap->spans[cut->first];
    void *spans = heap->spans;
    if (cut->first == cut->last && (uint8_t *)first->base < cut->low && end_of(first) > cut->high) {
        cut->tail_fd = fcntl(first->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (cut->tail_fd < 0)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "a second descriptor of memory");
    }
    const kolo_status status = kolo_grow(&spans, &heap->capacity, count + 2, sizeof *heap->spans);
    heap->spans = spans;
    return status;
}

/** Replaces the spans of the cut in the array by @p fresh, which is at its place, and what remains
 * of the old spans. */
static void replace(struct kolo_heap *heap, const struct cut *cut, struct kolo_span *fresh)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    const struct kolo_span first = heap->spans[cut->first], last = heap->spans[cut->last];
    struct kolo_span now[3];
    size_t pieces = 0;
    for (size_t i = cut->first; i <= cut->last; i++)
        if ((uint8_t *)heap->spans[i].base >= cut->low && end_of(&heap->spans[i]) <= cut->high &&
            heap->spans[i].fd >= 0)
            (void)close(heap->spans[i].fd);
    if ((uint8_t *)first.base < cut->low) {
        now[pieces] = first;
        now[pieces++].bytes = (size_t)(cut->low - (uint8_t *)first.base);
    }
    fresh->allocation = first.allocation;
    fresh->end = first.end;
    fresh->is_plain = first.is_plain;
    fresh->is_aside = first.is_aside && (uint8_t *)first.base == cut->low;
    now[pieces++] = *fresh;
    if (end_of(&last) > cut->high) {
        now[pieces] = last;
        now[pieces].base = cut->high;
        now[pieces].is_aside = false;
        now[pieces].bytes = (size_t)(end_of(&last) - cut->high);
        now[pieces].file_offset += (size_t)(cut->high - (uint8_t *)last.base);
        if (cut->tail_fd >= 0)
            now[pieces].fd = cut->tail_fd;
        pieces++;
    }
    for (size_t i = 0; i < pieces; i++)
        now[i].id = heap->next_id++;
    memmove(&heap->spans[cut->first + pieces], &heap->spans[cut->last + 1],
            (count - cut->last - 1) * sizeof *heap->spans);
    memcpy(&heap->spans[cut->first], now, pieces * sizeof *now);
    atomic_store_explicit(&heap->count, count - (cut->last - cut->first + 1) + pieces,
                          memory_order_release);
}

/** Unlocks all spans that the cut touches, since a part of locked pages cannot be unlocked. */
static void unpin(struct kolo_heap *heap, struct cut *cut)
{
    for (size_t i = cut->first; i <= cut->last; i++) {
        struct kolo_span *span = &heap->spans[i];
        if (span->pin.ops)
            cut->near =
                (struct kolo_pointer){.kind = KOLO_MEMORY_PINNED,
                                      .device = span->pin.device,
                                      .context = span->pin.is_held ? NULL : span->pin.context,
                                      .ops = span->pin.ops};
        kolo_unpin(&span->pin, span->base);
    }
}

/** Locks the spans from @p low to @p high that are there now, if some were locked before. */
static void pin_again(struct kolo_heap *heap, const struct cut *cut, const uint8_t *low,
                      const uint8_t *high)
{
    const size_t count = atomic_load_explicit(&heap->count, memory_order_relaxed);
    for (size_t i = kolo_heap_spans_upto(heap, (uintptr_t)low) - 1;
         cut->near.ops && i < count && (const uint8_t *)heap->spans[i].base < high; i++)
        kolo_heap_pin_span(&cut->near, &heap->spans[i]);
}

/** Puts the new pages in the place of the cut. held: lock, for writing */
static kolo_status put_pages(struct kolo_heap *heap, const struct cut *cut,
                             struct kolo_span *fresh_out)
{
    const size_t bytes = (size_t)(cut->high - cut->low);
    kolo_status status;
    if (!cut->own) {
        KOLO_TRY(heap->kind->alloc(bytes, fresh_out));
        memcpy(fresh_out->base, cut->low, bytes);
    }
    status = cut->own
                 ? heap->kind->take_page(&heap->spans[cut->first], cut->low, cut->own, fresh_out)
                 : heap->kind->move(fresh_out, cut->low);
    if (status != KOLO_OK && !cut->own)
        heap->kind->release(fresh_out);
out:
    return status;
}

/** held: lock, for writing */
static kolo_status sever(struct kolo_heap *heap, struct cut *cut,
                         void (*gone)(void *context, uint64_t id), void *context)
{
    struct kolo_span fresh;
    kolo_status status = prepare(heap, cut);
    if (status == KOLO_OK)
        status = put_pages(heap, cut, &fresh);
    if (status != KOLO_OK) {
        if (cut->tail_fd >= 0)
            (void)close(cut->tail_fd);
        return status;
    }
    for (size_t i = cut->first; gone && i <= cut->last; i++)
        gone(context, heap->spans[i].id);
    replace(heap, cut, &fresh);
    return KOLO_OK;
}

/** Severs the pages from @p low to @p high: by fresh ones of a file, or, since it is one that has
 * other bytes than @p own of the call, by a page of this process alone. held: lock, for writing */
static kolo_status sever_pages(struct kolo_heap *heap, const uint8_t *low, const uint8_t *high,
                               void *own, void (*gone)(void *context, uint64_t id), void *context)
{
    struct cut cut;
    if (low >= high || !find_cut(heap, low, (size_t)(high - low), &cut))
        return KOLO_OK;
    if (own && heap->spans[cut.first].fd < 0)
        return KOLO_OK; /* nobody else has it */
    cut.own = own;
    return sever(heap, &cut, gone, context);
}

/** Severs the @p bytes bytes at @p memory, which @p cut contains: the whole pages first, since
 * these need memory. No page is locked. held: lock, for writing */
static kolo_status sever_parts(struct kolo_heap *heap, const struct cut *cut, uint8_t *memory,
                               size_t bytes, void (*gone)(void *context, uint64_t id),
                               void *context)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint8_t *end = memory + bytes, *used = heap->spans[cut->first].end;
    const uint8_t *low = memory == cut->low ? cut->low : cut->low + page;
    const uint8_t *high = end == cut->high || end >= used ? cut->high : cut->high - page;
    kolo_status status;
    KOLO_TRY(sever_pages(heap, low, high, NULL, gone, context));
    if (low != cut->low)
        KOLO_TRY(sever_pages(heap, cut->low, low, memory, gone, context));
    if (high != cut->high && high >= low)
        KOLO_TRY(sever_pages(heap, high, cut->high, memory + bytes - 1, gone, context));
out:
    return status;
}

/** Whoever uses the pages of the spans that the cut touches may come late. */
static void do_not_keep(struct kolo_heap *heap, const struct cut *cut)
{
    for (size_t i = cut->first; i <= cut->last; i++)
        heap->spans[i].stamp = 0;
}

/** held: lock, for writing */
static kolo_status sever_bytes(struct kolo_heap *heap, struct cut *cut, uint8_t *memory,
                               size_t bytes, void (*gone)(void *context, uint64_t id),
                               void *context)
{
    const uint8_t *low = heap->spans[cut->first].base, *high = end_of(&heap->spans[cut->last]);
    do_not_keep(heap, cut);
    unpin(heap, cut);
    const kolo_status status = sever_parts(heap, cut, memory, bytes, gone, context);
    pin_again(heap, cut, low, high);
    return status;
}

kolo_status kolo_heap_sever(struct kolo_heap *heap, const void *memory, size_t bytes,
                            void (*gone)(void *context, uint64_t id), void *context)
{
    struct cut cut;
    bool found;
    (void)pthread_rwlock_wrlock(&heap->lock);
    do
        found = find_cut(heap, memory, bytes, &cut);
    while (found && kolo_heap_await_locking(heap, cut.first, cut.last));
    const kolo_status status =
        found ? sever_bytes(heap, &cut, (uint8_t *)(uintptr_t)memory, bytes, gone, context)
              : kolo_fail(KOLO_ERR_INVALID, "%zu bytes at %p do not lie in one allocation", bytes,
                          memory);
    (void)pthread_rwlock_unlock(&heap->lock);
    return status;
}
