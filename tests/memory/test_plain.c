// SPDX-License-Identifier: Apache-2.0
// memory/plain.c: the heap of brk and the main stack are plain, whatever else there is is not, nor
// what only begins or ends in them; the heap also as far as it grows later.
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

static char fixed[64];

Test(plain, heap_of_brk)
{
    enum { STEP = 1 << 16 };
    void *first =
        sbrk(STEP); /* beside malloc, which copes with that; AddressSanitizer's has none */
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
