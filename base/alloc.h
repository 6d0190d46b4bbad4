// SPDX-License-Identifier: Apache-2.0
// Checked allocation: multiplications cannot overflow, a failure is a status with a detail, and a
// test can make the nth allocation fail. alloc.c is the only file of the library that calls malloc
// and its relatives.
#ifndef KOLO_BASE_ALLOC_H
#define KOLO_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** Allocates @p count zeroed elements of @p bytes bytes each. NULL: ERR_NO_MEMORY, with the detail
 *  set. count 0 returns a valid pointer. */
void *kolo_calloc(size_t count, size_t bytes) __attribute__((malloc));

/** As kolo_calloc, but aligned to @p alignment (a power of two) and not zeroed. Free it with
 *  kolo_free_memory. */
void *kolo_aligned(size_t alignment, size_t bytes) __attribute__((malloc));

/** Grows @p *array, by doubling, to hold at least @p need elements of @p bytes bytes each; new
 *  elements are zero. On failure *array is unchanged. */
static inline kolo_status kolo_grow(void **array, size_t *capacity, size_t need,
                                    size_t bytes) KOLO_NODISCARD;
kolo_status kolo_grow_now(void **array, size_t *capacity, size_t need,
                          size_t bytes) KOLO_NODISCARD; /* if it is too small */

static inline kolo_status kolo_grow(void **array, size_t *capacity, size_t need, size_t bytes)
{
    return need <= *capacity ? KOLO_OK : kolo_grow_now(array, capacity, need, bytes);
}

/** As kolo_calloc, for long memory all of which will be written: uses large pages as far as the
 *  system gives them on request, since the first touch of a small page costs more than writing it.
 *  Free it with kolo_pages_free(), with the same count and bytes. */
void *kolo_pages(size_t count, size_t bytes);
/** @p memory may be NULL. */
void kolo_pages_free(void *memory, size_t count, size_t bytes);

/** The content of these bytes, within any allocation of the above, is not needed any more: the
 *  pages that they fill are returned to the system before the allocation is freed. Until then the
 *  bytes can be written again; reading them gives undefined values. */
void kolo_memory_done(void *from, size_t bytes);

/** A copy of @p text, or NULL with the detail set. */
char *kolo_strdup(const char *text) __attribute__((malloc));

/** As free(); @p memory may be NULL. */
void kolo_free_memory(void *memory);
/** The same for @p bytes bytes that may hold a secret, which are overwritten first. */
void kolo_free_wiped(void *memory, size_t bytes);

/** For tests: the nth allocation from now on (1: the next one) by any thread fails, once; 0
 *  switches this off. */
void kolo_alloc_fail_nth(uint64_t nth);

/** How many allocations were attempted since the process began. */
uint64_t kolo_alloc_count(void);

#endif
