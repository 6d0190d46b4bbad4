// SPDX-License-Identifier: Apache-2.0
// base/alloc.c: what each function allocates, and that the one that a test chooses fails.
#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* SIZE_MAX in a variable, so that the compiler does not warn about what is tested here. */
static volatile size_t huge = SIZE_MAX;

static void assert_no_memory(const char *what)
{
    cr_assert(strstr(kolo_error_detail(), "cannot") == kolo_error_detail(), "%s: detail '%s'", what,
              kolo_error_detail());
    kolo_detail_set(NULL);
}

Test(alloc, calloc_gives_zeroes)
{
    unsigned char *memory = kolo_calloc(1000, 3);
    cr_assert(memory, "memory");
    for (size_t i = 0; i < 3000; i++)
        cr_assert(memory[i] == 0, "byte %zu", i);
    kolo_free_memory(memory);
}

Test(alloc, nothing_is_a_valid_pointer)
{
    static const size_t shapes[][2] = {{0, 8}, {8, 0}, {0, 0}};
    for (size_t i = 0; i < 3; i++) {
        void *memory = kolo_calloc(shapes[i][0], shapes[i][1]);
        cr_assert(memory, "%zu", i);
        kolo_free_memory(memory);
    }
    void *memory = kolo_aligned(64, 0);
    cr_assert(memory, "aligned");
    kolo_free_memory(memory);
    kolo_free_memory(NULL);
    kolo_free_wiped(NULL, 8);
    kolo_free_wiped(kolo_calloc(8, 1), 8);
}

Test(alloc, a_product_that_overflows_is_refused)
{
    cr_assert(!kolo_calloc(huge, 2), "2^65");
    assert_no_memory("2^65");
    cr_assert(!kolo_calloc(huge / 2 + 2, 2), "wraps to 2");
    assert_no_memory("wraps");
    cr_assert(!kolo_calloc(huge, 1), "SIZE_MAX");
    assert_no_memory("SIZE_MAX");
    cr_assert(!kolo_pages(huge, 2), "pages 2^65");
    assert_no_memory("pages 2^65");
    cr_assert(!kolo_pages(huge - 4096, 1), "pages");
    assert_no_memory("pages");
    cr_assert(!kolo_pages(huge / 4, 1), "more than there is of addresses");
    assert_no_memory("addresses");
    cr_assert(!kolo_aligned(64, huge), "aligned");
    assert_no_memory("aligned");
}

Test(alloc, aligned_is_aligned)
{
    for (size_t alignment = 1; alignment <= 1u << 16; alignment *= 2) {
        void *memory = kolo_aligned(alignment, 100);
        cr_assert(memory && (uintptr_t)memory % alignment == 0, "%zu", alignment);
        memset(memory, 1, 100);
        kolo_free_memory(memory);
    }
}

/* Blocks of any size; short ones come from the heap. */
Test(alloc, pages_are_zero_and_go_back)
{
    static const size_t counts[] = {0, 1, 1000, (2 << 20) / 8 - 1, (2 << 20) / 8, 969680};
    for (int round = 0; round < 2; round++) /* what was written before must be gone */
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            uint64_t *memory = kolo_pages(counts[i], sizeof *memory);
            cr_assert(memory, "%zu", counts[i]);
            for (size_t j = 0; j < counts[i]; j++) {
                cr_assert(memory[j] == 0, "%zu: element %zu", counts[i], j);
                memory[j] = j + 1;
            }
            kolo_pages_free(memory, counts[i], sizeof *memory);
        }
    kolo_pages_free(NULL, 5, 1);
    kolo_pages_free(NULL, 5 << 20, 1);
}

Test(alloc, long_pages_begin_where_a_large_page_does)
{
    for (size_t bytes = 2 << 20; bytes < 9 << 20; bytes += (1 << 20) + 4321) {
        char *memory = kolo_pages(1, bytes);
        cr_assert(memory && (uintptr_t)memory % (2 << 20) == 0, "%zu: %p", bytes, (void *)memory);
        memory[bytes - 1] = 1;
        kolo_pages_free(memory, 1, bytes);
    }
}

Test(alloc, grow_keeps_what_was_there_and_zeroes_the_rest)
{
    uint32_t *array = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        size_t before = capacity;
        cr_assert(kolo_grow((void **)&array, &capacity, i + 1, sizeof *array) == KOLO_OK, "%u", i);
        cr_assert(capacity > i, "%u", i);
        for (size_t j = before; j < capacity; j++)
            cr_assert(array[j] == 0, "new element %zu", j);
        array[i] = i;
    }
    for (uint32_t i = 0; i < 10000; i++)
        cr_assert(array[i] == i, "%u", i);
    cr_assert(capacity < 20000, "%zu: doubling, not more", capacity);
    kolo_free_memory(array);
}

Test(alloc, grow_tries_nothing_when_there_is_room)
{
    char *array = NULL;
    size_t capacity = 0;
    cr_assert(kolo_grow((void **)&array, &capacity, 0, 1) == KOLO_OK && !array, "0 of nothing");
    cr_assert(kolo_grow((void **)&array, &capacity, 3, 1) == KOLO_OK, "3");
    uint64_t tried = kolo_alloc_count();
    cr_assert(kolo_grow((void **)&array, &capacity, capacity, 1) == KOLO_OK, "as it is");
    cr_assert(kolo_alloc_count() == tried, "an attempt was made");
    kolo_free_memory(array);
}

Test(alloc, grow_that_cannot_leaves_all_as_it_was)
{
    uint64_t *array = NULL;
    size_t capacity = 0;
    cr_assert(kolo_grow((void **)&array, &capacity, 4, sizeof *array) == KOLO_OK, "4");
    uint64_t *before = array;
    size_t old = capacity;
    static const size_t shift[] = {0, 3};
    for (size_t i = 0; i < 2; i++) {
        kolo_status status = kolo_grow((void **)&array, &capacity, huge >> shift[i], sizeof *array);
        cr_assert(status == KOLO_ERR_NO_MEMORY, "%zu: %d", i, (int)status);
        assert_no_memory("grow");
        cr_assert(array == before && capacity == old, "%zu", i);
    }
    kolo_alloc_fail_nth(1);
    cr_assert(kolo_grow((void **)&array, &capacity, 100, sizeof *array) == KOLO_ERR_NO_MEMORY, "n");
    assert_no_memory("grow, nth");
    cr_assert(array == before && capacity == old, "nth");
    kolo_free_memory(array);
}

Test(alloc, strdup_copies)
{
    char text[] = "ring";
    char *copy = kolo_strdup(text);
    cr_assert(copy && copy != text && strcmp(copy, "ring") == 0, "copy");
    kolo_free_memory(copy);
    copy = kolo_strdup("");
    cr_assert(copy && *copy == '\0', "empty");
    kolo_free_memory(copy);
}

static void *by_calloc(void)
{
    return kolo_calloc(1, 1);
}

static void *by_aligned(void)
{
    return kolo_aligned(64, 64);
}

static void *by_strdup(void)
{
    return kolo_strdup("x");
}

static void *by_grow(void)
{
    void *array = NULL;
    size_t capacity = 0;
    kolo_status status = kolo_grow(&array, &capacity, 1, 1);
    cr_assert((status == KOLO_OK) == (array != NULL), "status %d", (int)status);
    return array;
}

Test(alloc, the_nth_fails_once_in_every_function)
{
    static void *(*const ways[])(void) = {by_calloc, by_aligned, by_strdup, by_grow};
    for (size_t way = 0; way < 4; way++)
        for (uint64_t nth = 1; nth <= 5; nth++) {
            kolo_alloc_fail_nth(nth);
            for (uint64_t i = 1; i <= 7; i++) {
                uint64_t before = kolo_alloc_count();
                kolo_detail_set(NULL);
                void *memory = ways[way]();
                cr_assert((memory == NULL) == (i == nth), "way %zu nth %d: attempt %d", way,
                          (int)nth, (int)i);
                cr_assert(kolo_alloc_count() == before + 1, "way %zu: not counted", way);
                if (!memory)
                    assert_no_memory("nth");
                kolo_free_memory(memory);
            }
        }
}

Test(alloc, pages_fail_when_they_shall)
{
    kolo_alloc_fail_nth(2);
    void *memory = kolo_pages(3, 1 << 20);
    cr_assert(memory, "the first");
    cr_assert(!kolo_pages(3, 1 << 20), "the second");
    assert_no_memory("nth");
    kolo_pages_free(memory, 3, 1 << 20);
}

/* Of the part that is done, whole pages are released; the bytes around them stay, also those on a
 * page that is only partly done. */
Test(alloc, what_is_done_goes_and_what_is_not_stays)
{
    enum { BYTES = 1 << 20, FROM = 100, DONE = BYTES - 300 };
    unsigned char *memory = kolo_calloc(BYTES, 1), resident[BYTES / 4096 + 1];
    memset(memory, 7, BYTES);
    kolo_memory_done(memory + FROM, DONE);
    for (size_t i = 0; i < BYTES; i++)
        if (i < FROM || i >= FROM + DONE)
            cr_assert(memory[i] == 7, "byte %zu", i);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), middle = BYTES / 2;
    unsigned char *at = memory + middle - (uintptr_t)(memory + middle) % page;
    cr_assert_eq(mincore(at, page, resident), 0);
    cr_assert(!(resident[0] & 1), "a page that is done is still there");
    memset(memory, 8, BYTES);
    kolo_memory_done(memory, 10);
    cr_assert_eq(memory[5], 8, "less than a page");
    kolo_memory_done(memory, 0);
    kolo_free_memory(memory);
}

Test(alloc, zero_switches_the_failure_off)
{
    kolo_alloc_fail_nth(1);
    kolo_alloc_fail_nth(0);
    void *memory = kolo_calloc(1, 1);
    cr_assert(memory, "switched off");
    kolo_free_memory(memory);
}
