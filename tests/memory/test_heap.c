// SPDX-License-Identifier: Apache-2.0
// memory/heap.c: what it finds, what it refuses, several threads, and failing allocations.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/memory/heap_stress.h"

static struct kolo_heap *heap_new(void)
{
    struct kolo_heap *heap = NULL;
    cr_assert(kolo_heap_create(&heap) == KOLO_OK, "%s", kolo_error_detail());
    return heap;
}

static unsigned char *heap_take(struct kolo_heap *heap, size_t bytes)
{
    void *memory = NULL;
    cr_assert(kolo_heap_alloc(heap, bytes, &memory) == KOLO_OK, "%s", kolo_error_detail());
    return memory;
}

static int open_files(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

Test(heap, finds_at_the_edges)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = heap_take(heap, page + 1);
    struct kolo_span span = {0}, untouched = {.id = 77};
    cr_assert(kolo_heap_find(heap, memory, page + 1, &span));
    cr_assert(span.base == memory && span.bytes == 2 * page && span.fd >= 0 && span.id != 0);
    cr_assert(kolo_heap_find(heap, memory, 2 * page, &span));
    cr_assert(kolo_heap_find(heap, memory + 2 * page - 1, 1, &span));
    cr_assert(kolo_heap_find(heap, memory + 2 * page - 1, 0, &span));
    cr_assert(!kolo_heap_find(heap, memory, 2 * page + 1, &untouched));
    cr_assert(!kolo_heap_find(heap, memory + 1, 2 * page, &untouched));
    cr_assert(!kolo_heap_find(heap, memory - 1, 1, &untouched));
    cr_assert(!kolo_heap_find(heap, memory + 2 * page, 0, &untouched));
    cr_assert(!kolo_heap_find(heap, memory + 1, SIZE_MAX, &untouched));
    cr_assert(!kolo_heap_find(heap, NULL, 0, &untouched));
    cr_assert(!kolo_heap_find(heap, &span, 1, &untouched));
    cr_assert(untouched.id == 77, "written without success");
    kolo_heap_destroy(heap);
}

Test(heap, finds_among_many)
{
    enum { MANY = 200 };
    struct kolo_heap *heap = heap_new();
    unsigned char *memory[MANY];
    uint64_t ids[MANY];
    for (int i = 0; i < MANY; i++)
        memory[i] = heap_take(heap, (size_t)(1 + i % 3) * 4096);
    struct kolo_span span;
    for (int i = 0; i < MANY; i++) {
        cr_assert(kolo_heap_find(heap, memory[i] + 4095, 1, &span));
        cr_assert(span.base == memory[i]);
        ids[i] = span.id;
        for (int j = 0; j < i; j++)
            cr_assert(ids[j] != ids[i], "id given twice");
    }
    for (int i = 0; i < MANY; i += 2)
        cr_assert(kolo_heap_free(heap, memory[i], NULL, NULL) == KOLO_OK);
    for (int i = 0; i < MANY; i++)
        cr_assert(kolo_heap_find(heap, memory[i], 1, &span) == (i % 2 == 1));
    kolo_heap_destroy(heap);
}

static void note_id(void *context, uint64_t id)
{
    *(uint64_t *)context = id;
}

Test(heap, frees_only_its_own)
{
    struct kolo_heap *heap = heap_new(), *other = heap_new();
    unsigned char *memory = heap_take(heap, 100);
    uint64_t id = 0;
    struct kolo_span span;
    cr_assert(kolo_heap_find(heap, memory, 100, &span));
    cr_assert(kolo_heap_free(other, memory, note_id, &id) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_free(heap, memory + 1, note_id, &id) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_free(heap, &span, note_id, &id) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_free(heap, NULL, note_id, &id) == KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kolo_alloc") != NULL, "%s", kolo_error_detail());
    cr_assert(id == 0);
    cr_assert(kolo_heap_free(heap, memory, note_id, &id) == KOLO_OK);
    cr_assert(id == span.id);
    cr_assert(kolo_heap_free(heap, memory, note_id, &id) == KOLO_ERR_INVALID);
    kolo_heap_destroy(heap);
    kolo_heap_destroy(other);
    kolo_heap_destroy(NULL);
}

Test(heap, ids_are_never_reused)
{
    struct kolo_heap *heap = heap_new();
    uint64_t last = 0, id = 0;
    for (int i = 0; i < 50; i++) {
        unsigned char *memory = heap_take(heap, 1);
        cr_assert(kolo_heap_free(heap, memory, note_id, &id) == KOLO_OK);
        cr_assert(id > last);
        last = id;
    }
    kolo_heap_destroy(heap);
}

Test(heap, leaves_nothing)
{
    const int before = open_files();
    struct kolo_heap *heap = heap_new();
    for (int i = 0; i < 20; i++)
        heap_take(heap, 5000);
    cr_assert(open_files() == before + 20);
    kolo_heap_destroy(heap);
    cr_assert(open_files() == before, "%d descriptors are left", open_files() - before);
}

/** Every allocation in turn fails: an error, no leak, and the heap goes on. */
Test(heap, torture)
{
    enum { SPANS = 20 };
    const int before = open_files();
    int failures = 0;
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        struct kolo_heap *heap = NULL;
        int allocated = 0;
        failed = false;
        kolo_alloc_fail_nth(nth);
        if (kolo_heap_create(&heap) != KOLO_OK) {
            failed = true;
        } else {
            for (int i = 0; i < SPANS; i++) {
                void *memory = NULL;
                const kolo_status status = kolo_heap_alloc(heap, 1, &memory);
                cr_assert(status == KOLO_OK || status == KOLO_ERR_NO_MEMORY);
                cr_assert((status == KOLO_OK) == (memory != NULL));
                failed |= status != KOLO_OK;
                allocated += status == KOLO_OK;
            }
            cr_assert(allocated == SPANS - failed);
        }
        kolo_alloc_fail_nth(0);
        kolo_heap_destroy(heap);
        cr_assert(open_files() == before, "descriptors leaked at allocation %d", (int)nth);
        failures += failed;
    }
    cr_assert(failures >= 2, "only %d allocations were made to fail", failures);
}

Test(heap, threads, .timeout = 120)
{
    const int failures = heap_stress_run();
    cr_assert(failures == 0, "%d failures", failures);
}
