// SPDX-License-Identifier: Apache-2.0
// memory/plain.c: the heap of brk, the main stack and memory of the library's heaps are plain; all
// other memory is not, and neither are ranges that only begin or end in plain memory. The heap of
// brk may also grow later. Memory that a heap has freed is not plain, also while other threads
// allocate and free.
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

static char fixed[64];

Test(plain, heap_of_brk)
{
    enum { STEP = 1 << 16 };
    /* next to malloc, which can cope with that; AddressSanitizer's malloc does not use brk */
    void *first = sbrk(STEP);
    cr_assert_neq(first, (void *)-1);
    kolo_memory_find_plain();
    char *end = sbrk(STEP);
    cr_assert_neq((void *)end, (void *)-1);
    cr_assert(kolo_memory_is_plain(end, STEP));
    cr_assert(kolo_memory_is_plain(end + STEP - 1, 1));
    cr_assert_not(kolo_memory_is_plain(end + STEP - 1, 2), "beyond the end");
    cr_assert_not(kolo_memory_is_plain(end + STEP, 1));
    char *more = sbrk(STEP);
    cr_assert(kolo_memory_is_plain(more, STEP), "the heap has grown");
}

static void *on_a_thread(void *argument)
{
    char here[64];
    memset(here, 0, sizeof here);
    *(bool *)argument = kolo_memory_is_plain(here, sizeof here);
    return NULL;
}

Test(plain, stacks)
{
    char here[64];
    memset(here, 0, sizeof here);
    bool is_plain = true;
    pthread_t thread;
    kolo_memory_find_plain();
    cr_assert(kolo_memory_is_plain(here, sizeof here));
    cr_assert_eq(pthread_create(&thread, NULL, on_a_thread, &is_plain), 0);
    pthread_join(thread, NULL);
    cr_assert_not(is_plain, "a thread's stack is a mapping as any other");
}

Test(plain, nothing_else_is)
{
    enum { BYTES = 1 << 16 };
    kolo_memory_find_plain();
    void *mapping = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_not(kolo_memory_is_plain(mapping, BYTES));
    cr_assert_not(kolo_memory_is_plain(fixed, sizeof fixed));
    cr_assert_not(kolo_memory_is_plain(NULL, 1));
    cr_assert_not(kolo_memory_is_plain((void *)UINTPTR_MAX, 1));
    cr_assert(kolo_memory_is_plain(NULL, 0), "no byte of it is looked at");
    munmap(mapping, BYTES);
}

/* ---- heaps ---- */

enum { PAGE = 4096 };

Test(plain, what_a_heap_has)
{
    struct kolo_heap *heap = NULL;
    void *memory = NULL, *rest[40];
    kolo_memory_find_plain();
    cr_assert_eq(kolo_heap_create(&heap), KOLO_OK);
    cr_assert_eq(kolo_heap_alloc(heap, 3 * PAGE, &memory), KOLO_OK);
    char *at = memory;
    cr_assert(kolo_memory_is_plain(at, 3 * PAGE));
    cr_assert(kolo_memory_is_plain(at + 2 * PAGE, PAGE));
    cr_assert_not(kolo_memory_is_plain(at + 2 * PAGE, PAGE + 1));
    cr_assert_not(kolo_memory_is_plain(at - 1, 2));
    cr_assert_eq(kolo_heap_sever(heap, at + PAGE, 1, NULL, NULL), KOLO_OK);
    cr_assert(kolo_memory_is_plain(at, 3 * PAGE), "other pages of the host's are there");
    cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    cr_assert_not(kolo_memory_is_plain(at, 1));
    for (size_t i = 0; i < 40; i++) /* more than it records */
        cr_assert_eq(kolo_heap_alloc(heap, PAGE, &rest[i]), KOLO_OK);
    cr_assert(kolo_memory_is_plain(rest[0], PAGE));
    cr_assert_eq(kolo_heap_free(heap, rest[0], NULL, NULL), KOLO_OK);
    cr_assert_eq(kolo_heap_alloc(heap, 2 * PAGE, &memory), KOLO_OK);
    cr_assert(kolo_memory_is_plain(memory, 2 * PAGE), "where another was");
    kolo_heap_destroy(heap);
    for (size_t i = 0; i < 40; i++)
        cr_assert_not(kolo_memory_is_plain(rest[i], PAGE));
    cr_assert_not(kolo_memory_is_plain(memory, PAGE));
}

/** Two ranges alternate; they neither overlap nor touch. */
static void *change(void *argument)
{
    for (int i = 0; i < 2000000; i++) {
        const uintptr_t low = 64 * PAGE + (uintptr_t)(i % 2) * 16 * PAGE;
        kolo_memory_add_plain((const void *)low, PAGE);
        kolo_memory_remove_plain((const void *)low);
    }
    atomic_store((atomic_bool *)argument, true);
    return NULL;
}

Test(plain, never_half_of_one_and_half_of_another, .timeout = 60)
{
    atomic_bool is_over = false;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, change, &is_over), 0);
    while (!atomic_load(&is_over)) {
        cr_assert_not(kolo_memory_is_plain((const void *)(uintptr_t)(65 * PAGE), PAGE));
        cr_assert_not(kolo_memory_is_plain((const void *)(uintptr_t)(64 * PAGE), 2 * PAGE));
    }
    pthread_join(thread, NULL);
}
