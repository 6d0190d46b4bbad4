// SPDX-License-Identifier: Apache-2.0
// What the tests of memory/heap.c and memory/heap_sever.c share.
#ifndef KOLO_TESTS_HEAP_SUPPORT_H
#define KOLO_TESTS_HEAP_SUPPORT_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <unistd.h>

#include "memory/heap_private.h"

/** Pages have 4 to 64 KiB, depending on the machine; spans are cut at page boundaries. */
static inline size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline struct kolo_heap *heap_new(void)
{
    struct kolo_heap *heap = NULL;
    cr_assert(kolo_heap_create(&heap) == KOLO_OK, "%s", kolo_error_detail());
    return heap;
}

static inline unsigned char *heap_take(struct kolo_heap *heap, size_t bytes)
{
    void *memory = NULL;
    cr_assert(kolo_heap_alloc(heap, bytes, &memory) == KOLO_OK, "%s", kolo_error_detail());
    return memory;
}

static inline int open_files(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/** Nobody may be kept waiting by a call that is over. */
static inline void check_unlocked(struct kolo_heap *heap)
{
    cr_assert(pthread_rwlock_trywrlock(&heap->lock) == 0, "the heap is still locked");
    cr_assert(pthread_rwlock_unlock(&heap->lock) == 0);
}

/** The ids of spans that are gone. */
struct told {
    uint64_t ids[16];
    int count;
};

static inline void note_gone(void *context, uint64_t id)
{
    struct told *told = context;
    cr_assert(told->count < 16);
    told->ids[told->count++] = id;
}

#endif
