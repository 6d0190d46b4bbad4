// SPDX-License-Identifier: Apache-2.0
// Checked allocation: multiplication cannot overflow, failure is a status with a detail, tests make
// the nth one fail. The only file of the library that calls malloc and its kin.
#ifndef KOLO_BASE_ALLOC_H
#define KOLO_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** @p count zeroed elements of @p bytes each; NULL with ERR_NO_MEMORY in the detail. count 0 gives
 * a valid pointer. */
void *kolo_calloc(size_t count, size_t bytes) __attribute__((malloc));

/** As kolo_calloc, aligned to @p alignment (a power of two), not zeroed. Freed by kolo_free_memory.
 */
void *kolo_aligned(size_t alignment, size_t bytes) __attribute__((malloc));

/** Grows @p *array to hold @p need elements of @p bytes each (doubling); new
 * elements are zero. On failure *array is as before. */
static inline kolo_status kolo_grow(void **array, size_t *capacity, size_t need,
                                    size_t bytes) KOLO_NODISCARD;
kolo_status kolo_grow_now(void **array, size_t *capacity, size_t need,
                          size_t bytes) KOLO_NODISCARD; /* where it is too small */

static inline kolo_status kolo_grow(void **array, size_t *capacity, size_t need, size_t bytes)
{
    return need <= *capacity ? KOLO_OK : kolo_grow_now(array, capacity, need, bytes);
}

/** As kolo_calloc, for what is long and will be written all over: in large pages as far as the
 *  system has them on request, since the first touch of a small one costs more than what is written
 *  there. Given back by kolo_pages_free() with the same count and bytes. */
void *kolo_pages(size_t count, size_t bytes);
/** NULL is fine. */
void kolo_pages_free(void *memory, size_t count, size_t bytes);

/** What is written in these bytes, of any allocation of the above, is not needed any more: as far
 *  as they fill pages, these go back to the system before the whole is freed. Until then the bytes
 *  can be written again; what they read as is not defined. */
void kolo_memory_done(void *from, size_t bytes);

/** A copy of @p text, or NULL. */
char *kolo_strdup(const char *text) __attribute__((malloc));

/** free(); NULL is fine. */
void kolo_free_memory(void *memory);

/** The nth allocation from now (1 = the next) fails, once; 0 switches it off. For tests; any
 * thread's counts. */
void kolo_alloc_fail_nth(uint64_t nth);

/** Allocations tried since the process began. */
uint64_t kolo_alloc_count(void);

#endif
