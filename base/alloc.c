// SPDX-License-Identifier: Apache-2.0
// The only file of the library that calls malloc and its kin. Every attempt is counted; a test may
// arm a countdown at whose end one attempt fails as if memory had run out.
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

/* Counts one attempt; true if a test wants it to fail. */
static bool attempt_fails(void)
{
    atomic_fetch_add_explicit(&attempts, 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&countdown, memory_order_relaxed);
    while (left > 0)
        if (atomic_compare_exchange_weak(&countdown, &left, left - 1))
            return left == 1;
    return false;
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

kolo_status kolo_grow(void **array, size_t *capacity, size_t need, size_t bytes)
{
    enum { FIRST_CAPACITY = 8 };
    assert(bytes > 0);
    if (need <= *capacity)
        return KOLO_OK;
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
