// SPDX-License-Identifier: Apache-2.0
// memory/heap.c: what it finds and refuses, use by several threads, and failing allocations.
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/memory/heap_stress.h"
#include "tests/memory/heap_support.h"

Test(heap, finds_at_the_edges)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = page_bytes();
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
        memory[i] = heap_take(heap, (size_t)(1 + i % 3) * page_bytes());
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

/** For the program it is freed; only an allocation of the same length gets it, and finds zeros. */
Test(heap, what_is_put_aside_waits_to_be_freed)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = page_bytes();
    unsigned char *first = heap_take(heap, 3 * page), *second = heap_take(heap, page);
    const int files = open_files();
    struct kolo_span span;
    void *memory = NULL;
    uint64_t id = 0;
    memset(first, 7, 3 * page);
    cr_assert(!kolo_heap_has_aside(heap) && !kolo_heap_take_aside(heap, &memory));
    cr_assert(kolo_heap_put_aside(heap, first + page) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_put_aside(heap, first) == KOLO_OK && kolo_heap_has_aside(heap));
    cr_assert(kolo_heap_put_aside(heap, first) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_free(heap, first, note_id, &id) == KOLO_ERR_INVALID && id == 0);
    cr_assert(strstr(kolo_error_detail(), "freed before") != NULL, "%s", kolo_error_detail());
    cr_assert(heap_take(heap, 2 * page) != first && heap_take(heap, 0) != first);
    cr_assert(kolo_heap_alloc_plain(heap, 3 * page, &memory) == KOLO_OK && memory != first);
    cr_assert(heap_take(heap, 2 * page + 1) == first && !kolo_heap_has_aside(heap));
    cr_assert(kolo_heap_find(heap, first, 1, &span) && span.end == first + 2 * page + 1);
    for (size_t i = 0; i < 3 * page; i++)
        cr_assert(first[i] == 0, "[%zu]", i);
    cr_assert(kolo_heap_put_aside(heap, first) == KOLO_OK);
    cr_assert(kolo_heap_put_aside(heap, second) == KOLO_OK);
    cr_assert(open_files() == files + 3);
    while (kolo_heap_take_aside(heap, &memory))
        cr_assert(kolo_heap_free(heap, memory, note_id, &id) == KOLO_OK);
    cr_assert(open_files() == files + 3 - 2);
    kolo_heap_destroy(heap);
}

/** A part of it can still be severed, and then nothing else gets it. */
Test(heap, what_is_put_aside_can_be_severed)
{
    for (size_t part = 0; part < 3; part++) {
        struct kolo_heap *heap = heap_new();
        const size_t page = page_bytes();
        unsigned char *memory = heap_take(heap, 3 * page);
        struct kolo_span span;
        void *aside = NULL;
        cr_assert(kolo_heap_put_aside(heap, memory) == KOLO_OK);
        cr_assert(kolo_heap_sever(heap, memory + part * page, page, NULL, NULL) == KOLO_OK);
        cr_assert(heap_take(heap, page) != memory && heap_take(heap, 3 * page) != memory);
        cr_assert(kolo_heap_take_aside(heap, &aside) && aside == memory);
        cr_assert(!kolo_heap_take_aside(heap, &aside) && !kolo_heap_has_aside(heap));
        cr_assert(kolo_heap_free(heap, memory, NULL, NULL) == KOLO_OK);
        cr_assert(!kolo_heap_find(heap, memory + 2 * page, 1, &span));
        kolo_heap_destroy(heap);
    }
}

/** Frees it as kolo_free does. */
static void keep_or_free(struct kolo_heap *heap, void *memory)
{
    if (!kolo_heap_keep(heap, memory, NULL, NULL))
        cr_assert(kolo_heap_free(heap, memory, NULL, NULL) == KOLO_OK);
}

/** For the program it is freed; only an allocation of the same length gets it, and finds zeros. The
 * neighbours' mappings are still right. */
Test(heap, what_is_kept_is_given_out_again)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = page_bytes();
    unsigned char *memory = heap_take(heap, 2 * page + 5);
    void *plain = NULL;
    struct kolo_span before, after;
    uint64_t gone = 0;
    cr_assert(kolo_heap_find(heap, memory, 3 * page, &before));
    memset(memory, 7, 3 * page);
    cr_assert(!kolo_heap_keep(heap, memory + page, note_id, &gone));
    check_unlocked(heap);
    cr_assert(kolo_memory_is_plain(memory, 3 * page));
    cr_assert(kolo_heap_keep(heap, memory, note_id, &gone) && gone == 0);
    cr_assert(!kolo_memory_is_plain(memory, 3 * page));
    check_unlocked(heap);
    cr_assert(!kolo_heap_keep(heap, memory, note_id, &gone));
    cr_assert(kolo_heap_free(heap, memory, note_id, &gone) == KOLO_ERR_INVALID && gone == 0);
    cr_assert(kolo_heap_put_aside(heap, memory) == KOLO_ERR_INVALID);
    cr_assert(!kolo_heap_find(heap, memory, 1, &after) && !kolo_heap_has(heap, memory));
    cr_assert(kolo_heap_sever(heap, memory, page, NULL, NULL) == KOLO_ERR_INVALID);
    cr_assert(heap_take(heap, page) != memory && heap_take(heap, 4 * page) != memory);
    cr_assert(kolo_heap_alloc_plain(heap, 3 * page, &plain) == KOLO_OK && plain != memory);
    cr_assert(heap_take(heap, 3 * page - 1) == memory && kolo_memory_is_plain(memory, 3 * page));
    for (size_t i = 0; i < 3 * page; i++)
        cr_assert(memory[i] == 0, "[%zu]", i);
    cr_assert(kolo_heap_find(heap, memory, 3 * page, &after));
    cr_assert(after.id == before.id && after.fd == before.fd && after.end == memory + 3 * page - 1);
    cr_assert(heap_take(heap, 3 * page) != memory);
    kolo_heap_destroy(heap);
}

/** However much is freed, and of whatever length, at most 2 MiB in 16 descriptors stay, and what is
 * longer than 1 MiB goes at once. */
Test(heap, keeps_little)
{
    enum { MANY = 60, MOST = 16, MOST_BYTES = 2 << 20, LONGEST = 1 << 20 };
    const int files = open_files();
    const size_t page = page_bytes();
    struct kolo_heap *heap = heap_new();
    struct told told = {.count = 0};
    unsigned char *memory[MANY];
    for (size_t step = page; step <= LONGEST / 4; step *= 8) {
        size_t kept = 0;
        for (int i = 0; i < MANY; i++)
            memory[i] = heap_take(heap, (size_t)(1 + i % 4) * step);
        for (int i = 0; i < MANY; i++)
            keep_or_free(heap, memory[i]);
        cr_assert(open_files() <= files + MOST, "%d descriptors stay", open_files() - files);
        for (int i = 0; i < MANY; i++) {
            int stay = open_files();
            memory[i] = heap_take(heap, (size_t)(1 + i % 4) * step);
            kept += open_files() == stay ? (size_t)(1 + i % 4) * step : 0;
        }
        cr_assert(kept > 0 && kept <= MOST_BYTES, "%zu bytes stayed", kept);
        for (int i = 0; i < MANY; i++)
            cr_assert(kolo_heap_free(heap, memory[i], NULL, NULL) == KOLO_OK);
    }
    cr_assert(!kolo_heap_keep(heap, heap_take(heap, LONGEST + 1), NULL, NULL));
    cr_assert(kolo_heap_keep(heap, heap_take(heap, LONGEST), NULL, NULL));
    cr_assert(kolo_heap_keep(heap, heap_take(heap, page), NULL, NULL));
    cr_assert(kolo_heap_drop_kept(heap, note_gone, &told) && told.count == 2);
    cr_assert(!kolo_heap_drop_kept(heap, note_gone, &told) && open_files() == files + 1);
    cr_assert(kolo_heap_keep(heap, heap_take(heap, LONGEST), NULL, NULL));
    kolo_heap_destroy(heap);
    cr_assert(open_files() == files, "%d descriptors are left", open_files() - files);
}

/** Nor does a process with many ranks keep many descriptors. */
Test(heap, many_heaps_keep_little)
{
    enum { HEAPS = 20, EACH = 5, MOST = 64 };
    const int files = open_files();
    struct kolo_heap *heaps[HEAPS];
    for (int i = 0; i < HEAPS; i++) {
        unsigned char *memory[EACH];
        heaps[i] = heap_new();
        for (int k = 0; k < EACH; k++)
            memory[k] = heap_take(heaps[i], page_bytes());
        for (int k = 0; k < EACH; k++)
            keep_or_free(heaps[i], memory[k]);
    }
    cr_assert(open_files() == files + MOST, "%d descriptors stay", open_files() - files);
    for (int i = 0; i < HEAPS; i++)
        kolo_heap_destroy(heaps[i]);
    cr_assert(open_files() == files);
}

/** What makes room for it is freed, and the neighbours are told. */
Test(heap, what_is_kept_longest_goes_first)
{
    struct kolo_heap *heap = heap_new();
    struct told told = {.count = 0};
    struct kolo_span spans[3];
    for (int i = 0; i < 3; i++) {
        unsigned char *memory = heap_take(heap, (1 << 20) - (size_t)i * page_bytes());
        cr_assert(kolo_heap_find(heap, memory, 1, &spans[i]));
        cr_assert(kolo_heap_keep(heap, memory, note_gone, &told));
    }
    cr_assert(told.count == 1 && told.ids[0] == spans[0].id);
    cr_assert(heap_take(heap, spans[2].bytes) == spans[2].base);
    cr_assert(heap_take(heap, spans[1].bytes) == spans[1].base);
    kolo_heap_destroy(heap);
}

/** Others may still use what was severed, from outside, or be asked to be told. */
Test(heap, does_not_keep_what_others_may_use)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = page_bytes();
    const struct {
        size_t at, bytes;
    } parts[] = {{0, 3 * page}, {0, page}, {page, page}, {1, 3 * page - 2}};
    struct rlimit limit, none;
    void *plain = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        unsigned char *memory = heap_take(heap, 3 * page);
        cr_assert(kolo_heap_sever(heap, memory + parts[i].at, parts[i].bytes, NULL, NULL) ==
                  KOLO_OK);
        cr_assert(!kolo_heap_keep(heap, memory, NULL, NULL), "part %zu", i);
        cr_assert(kolo_heap_free(heap, memory, NULL, NULL) == KOLO_OK);
    }
    unsigned char *memory = heap_take(heap, 3 * page); /* it could not be severed */
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    cr_assert(setrlimit(RLIMIT_NOFILE, &none) == 0);
    cr_assert(kolo_heap_sever(heap, memory, 3 * page, NULL, NULL) == KOLO_ERR_SYSTEM);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    cr_assert(!kolo_heap_keep(heap, memory, NULL, NULL));
    memory = heap_take(heap, 3 * page);
    kolo_heap_never_keep(heap, memory + 1);
    kolo_heap_never_keep(heap, NULL);
    cr_assert(!kolo_heap_keep(heap, memory, NULL, NULL));
    cr_assert(kolo_heap_alloc_plain(heap, page, &plain) == KOLO_OK);
    cr_assert(!kolo_heap_keep(heap, plain, NULL, NULL));
    memory = heap_take(heap, page);
    cr_assert(kolo_heap_put_aside(heap, memory) == KOLO_OK);
    cr_assert(!kolo_heap_keep(heap, memory, NULL, NULL));
    kolo_heap_destroy(heap);
}

/** Makes a child that lives until the pipe is closed, which maps all that this process maps. */
static pid_t child_that_waits(int pipe_out[2])
{
    char byte;
    cr_assert(pipe(pipe_out) == 0);
    const pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        (void)close(pipe_out[1]);
        _exit(read(pipe_out[0], &byte, 1) == 0 ? 0 : 1);
    }
    return pid;
}

/** A child could read and write what is allocated there later. */
Test(heap, does_not_keep_what_a_child_has)
{
    struct kolo_heap *heap = heap_new();
    const size_t page = page_bytes();
    unsigned char *kept = heap_take(heap, page), *held = heap_take(heap, 2 * page);
    int ends[2], status;
    cr_assert(kolo_heap_keep(heap, kept, NULL, NULL));
    const pid_t pid = child_that_waits(ends);
    cr_assert(!kolo_heap_keep(heap, held, NULL, NULL));
    cr_assert(heap_take(heap, page) != kept);
    unsigned char *later = heap_take(heap, 3 * page); /* which it has not */
    const int files = open_files();
    cr_assert(kolo_heap_keep(heap, later, NULL, NULL));
    cr_assert(open_files() == files - 1, "what was kept before stays");
    cr_assert(heap_take(heap, 3 * page) == later);
    (void)close(ends[1]);
    (void)close(ends[0]);
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
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

/** Each allocation fails in turn: the result is an error, nothing leaks, and the heap still
 * works. */
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
