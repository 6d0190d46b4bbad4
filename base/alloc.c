// SPDX-License-Identifier: Apache-2.0
// The only file of the library that calls malloc and its relatives. Every attempt is counted. A
// test may set a countdown; the attempt at its end fails as if memory had run out. Large pages are
// only requested: on a system without them the pages are small.
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t attempts;
static _Atomic uint64_t countdown; /* 0: off; 1: the next attempt fails */

void kolo_alloc_fail_nth(uint64_t nth)
{
    atomic_store(&countdown, nth);
}

uint64_t kolo_alloc_count(void)
{
    return atomic_load(&attempts);
}

/* Counts one attempt; true if a test wants it to fail. Whoever sees the count knows that the
 * countdown has counted it too. */
static bool attempt_fails(void)
{
    uint64_t left = atomic_load_explicit(&countdown, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        ;
    atomic_fetch_add_explicit(&attempts, 1, memory_order_release);
    return left == 1;
}

void *kolo_calloc(size_t count, size_t bytes)
{
    size_t total;
    void *memory = NULL;
    bool fits = !__builtin_mul_overflow(count, bytes, &total) && total <= PTRDIFF_MAX;
    if (!attempt_fails() && fits)
        memory = calloc(1, total ? total : 1);
    if (!memory)
        (void)kolo_fail(KOLO_ERR_NO_MEMORY, "cannot allocate %zu elements of %zu bytes", count,
                        bytes);
    return memory;
}

void *kolo_aligned(size_t alignment, size_t bytes)
{
    assert(alignment && (alignment & (alignment - 1)) == 0);
    void *memory = NULL;
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (attempt_fails() || bytes > PTRDIFF_MAX ||
        posix_memalign(&memory, least, bytes ? bytes : 1) != 0) {
        (void)kolo_fail(KOLO_ERR_NO_MEMORY, "cannot allocate %zu bytes aligned to %zu", bytes,
                        alignment);
        return NULL;
    }
    return memory;
}

kolo_status kolo_grow_now(void **array, size_t *capacity, size_t need, size_t bytes)
{
    enum { FIRST_CAPACITY = 8 };
    assert(bytes > 0);
    size_t most = PTRDIFF_MAX / bytes;
    size_t wanted = *capacity > most / 2 ? most : *capacity * 2;
    if (wanted < FIRST_CAPACITY && FIRST_CAPACITY <= most)
        wanted = FIRST_CAPACITY;
    if (wanted < need)
        wanted = need;
    void *grown = NULL;
    if (!attempt_fails() && wanted <= most)
        grown = realloc(*array, wanted * bytes);
    if (!grown)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "cannot grow an array to %zu elements of %zu bytes",
                         need, bytes);
    memset((char *)grown + *capacity * bytes, 0, (wanted - *capacity) * bytes);
    *array = grown;
    *capacity = wanted;
    return KOLO_OK;
}

/* ---- pages ---- */

enum {
    LARGE_PAGE = 2 << 20
}; /* if the system's have another size, the request covers less than it could */

/* The size in whole small pages; 0: too little for kolo_pages() to map memory of its own, or too
 * much for any allocation. */
static size_t pages_of(size_t count, size_t bytes)
{
    size_t total, page = (size_t)sysconf(_SC_PAGESIZE);
    if (__builtin_mul_overflow(count, bytes, &total) || total > PTRDIFF_MAX - 2 * LARGE_PAGE ||
        total < LARGE_PAGE)
        return 0;
    return (total + page - 1) / page * page;
}

/* The memory begins at a large page's boundary. Large pages are requested only for the part that it
 * fills completely, so that none of them is shared with other memory. */
void *kolo_pages(size_t count, size_t bytes)
{
    size_t total = pages_of(count, bytes);
    if (total == 0)
        return kolo_calloc(count, bytes);
    char *whole = MAP_FAILED;
    if (!attempt_fails())
        whole = mmap(NULL, total + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    if (whole == MAP_FAILED) {
        (void)kolo_fail(KOLO_ERR_NO_MEMORY, "cannot allocate %zu elements of %zu bytes", count,
                        bytes);
        return NULL;
    }
    size_t before = (LARGE_PAGE - (uintptr_t)whole % LARGE_PAGE) % LARGE_PAGE;
    if (before > 0)
        (void)munmap(whole, before);
    (void)munmap(whole + before + total, LARGE_PAGE - before);
    (void)madvise(whole + before, total / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return whole + before;
}

void kolo_pages_free(void *memory, size_t count, size_t bytes)
{
    size_t total = pages_of(count, bytes);
    if (total == 0)
        kolo_free_memory(memory);
    else if (memory)
        (void)munmap(memory, total);
}

void kolo_memory_done(void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)from;
    uintptr_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (first < end)
        (void)madvise((char *)from + (first - at), end - first, MADV_DONTNEED);
}

char *kolo_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = kolo_calloc(bytes, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void kolo_free_memory(void *memory)
{
    free(memory);
}

void kolo_free_wiped(void *memory, size_t bytes)
{
    if (memory)
        explicit_bzero(memory, bytes);
    free(memory);
}
