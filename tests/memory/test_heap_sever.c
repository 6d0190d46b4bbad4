// SPDX-License-Identifier: Apache-2.0
// memory/heap_sever.c: what this process and its neighbours see of severed memory, as a model says,
// and that nothing is lost beside it.
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/memory/heap_support.h"

/** Maps @p span as a neighbour would. */
static unsigned char *map_as_neighbour(const struct kolo_span *span)
{
    unsigned char *mapped =
        mmap(NULL, span->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, span->fd, 0);
    cr_assert(mapped != MAP_FAILED);
    return mapped;
}

Test(heap_sever, severs_a_whole_allocation)
{
    const size_t page = page_bytes(), bytes = 5 * page;
    const int files = open_files();
    struct kolo_heap *heap = heap_new();
    unsigned char *memory = heap_take(heap, bytes);
    struct kolo_span before, after;
    struct told told = {.count = 0};
    memset(memory, 1, bytes);
    cr_assert(kolo_heap_find(heap, memory, bytes, &before));
    unsigned char *stale = map_as_neighbour(&before);
    stale[5] = 2;
    cr_assert(memory[5] == 2);
    cr_assert(kolo_heap_sever(heap, memory, bytes, note_gone, &told) == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(told.count == 1 && told.ids[0] == before.id);
    stale[5] = 3;
    memset(stale + page, 3, page);
    cr_assert(memory[5] == 2 && memory[page] == 1 && memory[bytes - 1] == 1);
    cr_assert(kolo_heap_find(heap, memory, bytes, &after));
    cr_assert(after.base == memory && after.bytes == bytes && after.id != before.id);
    cr_assert(after.file_bytes == bytes && after.file_offset == 0);
    unsigned char *fresh = map_as_neighbour(&after);
    fresh[7] = 9;
    cr_assert(memory[7] == 9);
    munmap(fresh, bytes);
    munmap(stale, bytes);
    cr_assert(kolo_heap_free(heap, memory, note_gone, &told) == KOLO_OK);
    cr_assert(told.count == 2 && told.ids[1] == after.id);
    kolo_heap_destroy(heap);
    cr_assert(open_files() == files);
}

/** Who sees a page: those that mapped the first file, those that are passed the file that it is in
 * now, or this process alone. */
enum seen { OLD, FRESH, ALONE };

static void check_pieces(struct kolo_heap *heap, unsigned char *memory, unsigned char *stale,
                         const enum seen *model, size_t pages, const struct told *told)
{
    const size_t page = page_bytes();
    for (size_t i = 0; i < pages; i++) {
        unsigned char *at = memory + i * page;
        struct kolo_span span;
        cr_assert(at[0] == (unsigned char)i && at[page - 1] == (unsigned char)i, "page %zu", i);
        stale[i * page + 1]++;
        cr_assert((at[1] == stale[i * page + 1]) == (model[i] == OLD), "page %zu", i);
        stale[i * page + 1]--;
        cr_assert(kolo_heap_has(heap, at) && kolo_heap_has(heap, at + page - 1));
        cr_assert(kolo_heap_find(heap, at, page, &span) == (model[i] != ALONE), "page %zu", i);
        if (model[i] == ALONE)
            continue;
        unsigned char *mapped = map_as_neighbour(&span);
        size_t offset = span.file_offset + (size_t)(at - (unsigned char *)span.base);
        mapped[offset + 2]++;
        cr_assert(at[2] == mapped[offset + 2], "page %zu lies elsewhere in its file", i);
        mapped[offset + 2]--;
        munmap(mapped, span.file_bytes);
        for (int k = 0; k < told->count; k++)
            cr_assert(span.id != told->ids[k], "page %zu is still in span %llu", i,
                      (unsigned long long)span.id);
    }
}

/** What severing @p bytes bytes at @p at makes of the pages. */
static void sever_model(enum seen *model, size_t at, size_t bytes)
{
    const size_t page = page_bytes();
    for (size_t n = at / page; n * page < at + bytes; n++)
        if (n * page >= at && (n + 1) * page <= at + bytes)
            model[n] = FRESH;
        else
            model[n] = ALONE;
}

Test(heap_sever, severs_parts)
{
    enum { PAGES = 12 };
    const size_t page = page_bytes(), bytes = PAGES * page;
    const struct {
        size_t at, bytes;
    } parts[] = {{4 * page, page},         {4 * page + 5, 10}, {0, 1},    {bytes - 1, 1},
                 {3 * page, 3 * page + 1}, {7 * page - 1, 2},  {0, bytes}};
    const int files = open_files();
    struct kolo_heap *heap = heap_new();
    unsigned char *memory = heap_take(heap, bytes), *other = heap_take(heap, bytes);
    struct kolo_span span;
    enum seen model[PAGES];
    for (size_t i = 0; i < PAGES; i++) {
        memset(memory + i * page, (int)i, page);
        model[i] = OLD;
    }
    cr_assert(kolo_heap_find(heap, memory, bytes, &span));
    unsigned char *stale = map_as_neighbour(&span);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct told told = {.count = 0};
        sever_model(model, parts[i].at, parts[i].bytes);
        cr_assert(kolo_heap_sever(heap, memory + parts[i].at, parts[i].bytes, note_gone, &told) ==
                      KOLO_OK,
                  "part %zu: %s", i, kolo_error_detail());
        cr_assert(told.count > 0);
        check_unlocked(heap);
        check_pieces(heap, memory, stale, model, PAGES, &told);
    }
    cr_assert(kolo_heap_find(heap, memory, bytes, &span)); // they are one span again
    cr_assert(kolo_heap_sever(heap, memory + page, page, NULL, NULL) == KOLO_OK);
    cr_assert(!kolo_heap_find(heap, memory, page + 1, &span));
    const struct {
        const unsigned char *memory;
        size_t bytes;
    } bad[] = {{memory, bytes + 1}, {memory + bytes, 1},    {memory - 1, 1},
               {memory, 0},         {memory + 1, SIZE_MAX}, {NULL, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!kolo_heap_find(heap, bad[i].memory, bad[i].bytes, &span) || bad[i].bytes == 0)
            cr_assert(kolo_heap_sever(heap, bad[i].memory, bad[i].bytes, NULL, NULL) ==
                          KOLO_ERR_INVALID,
                      "case %zu", i);
    check_unlocked(heap);
    struct told told = {.count = 0};
    cr_assert(kolo_heap_free(heap, memory + page, note_gone, &told) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_free(heap, memory, note_gone, &told) == KOLO_OK && told.count == 3);
    cr_assert(kolo_heap_free(heap, memory, note_gone, &told) == KOLO_ERR_INVALID);
    cr_assert(kolo_heap_find(heap, other, bytes, &span));
    munmap(stale, bytes);
    kolo_heap_destroy(heap);
    cr_assert(open_files() == files);
}

/** The bytes behind what was asked for are nobody's: no page is lost for lending. */
Test(heap_sever, severs_to_the_end_of_what_was_asked_for)
{
    const size_t page = page_bytes();
    struct kolo_heap *heap = heap_new();
    struct kolo_span span;
    for (int again = 0; again < 2; again++) { /* the second time, of what was put aside */
        unsigned char *memory = heap_take(heap, 2 * page + 9 - (size_t)again);
        const size_t bytes = page + 9 - (size_t)again;
        cr_assert(kolo_heap_sever(heap, memory + page, bytes, NULL, NULL) == KOLO_OK);
        cr_assert(kolo_heap_find(heap, memory + page, 2 * page, &span));
        cr_assert(kolo_heap_sever(heap, memory, 2 * page + bytes - page, NULL, NULL) == KOLO_OK);
        cr_assert(kolo_heap_find(heap, memory, 3 * page, &span));
        cr_assert(kolo_heap_put_aside(heap, memory) == KOLO_OK);
    }
    kolo_heap_destroy(heap);
}

/** One whose only page cannot be lent any more is not given to anybody else. */
Test(heap_sever, what_is_put_aside_alone_is_not_taken_back)
{
    struct kolo_heap *heap = heap_new();
    unsigned char *memory = heap_take(heap, page_bytes());
    cr_assert(kolo_heap_sever(heap, memory + 1, 1, NULL, NULL) == KOLO_OK);
    cr_assert(kolo_heap_put_aside(heap, memory) == KOLO_OK);
    cr_assert(heap_take(heap, page_bytes()) != memory);
    kolo_heap_destroy(heap);
}

enum { BESIDE = 300 };

/** A thread of the program that writes to memory beside the part that is severed. */
struct writer {
    volatile uint64_t *words[2]; /* before the part, and behind it */
    atomic_bool is_running, is_over;
    uint64_t written, lost;
};

static void *write_beside(void *argument)
{
    struct writer *writer = argument;
    uint64_t last[2][BESIDE] = {{0}};
    bool is_over = false;
    for (uint64_t round = 1; !is_over; round++) {
        is_over = atomic_load(&writer->is_over);
        for (int i = 0; i < 2 * BESIDE; i++) {
            volatile uint64_t *word = &writer->words[i % 2][i / 2];
            writer->lost += *word != last[i % 2][i / 2];
            *word = last[i % 2][i / 2] = round;
        }
        writer->written = round;
        atomic_store(&writer->is_running, true);
    }
    return NULL;
}

/** The neighbours keep the old pages, and no write of this process gets lost in them. */
Test(heap_sever, severing_loses_no_write_beside_the_part, .timeout = 120)
{
    const size_t page = page_bytes(), inner = 256 * page, edge = BESIDE * sizeof(uint64_t);
    struct kolo_heap *heap = heap_new();
    for (int round = 0; round < 60; round++) {
        unsigned char *memory = heap_take(heap, inner + 2 * page), *part = memory + edge;
        const size_t bytes = inner + 2 * (page - edge);
        struct writer writer = {.words = {(void *)memory, (void *)(part + bytes)}};
        struct kolo_span span;
        pthread_t thread;
        memset(part, 5, bytes);
        cr_assert(kolo_heap_find(heap, memory, inner, &span));
        unsigned char *stale = map_as_neighbour(&span);
        cr_assert(pthread_create(&thread, NULL, write_beside, &writer) == 0);
        while (!atomic_load(&writer.is_running))
            sched_yield();
        cr_assert(kolo_heap_sever(heap, part, bytes, NULL, NULL) == KOLO_OK);
        memset(stale, 9, span.file_bytes);
        atomic_store(&writer.is_over, true);
        cr_assert(pthread_join(thread, NULL) == 0);
        cr_assert(writer.lost == 0, "round %d: %llu writes are lost", round,
                  (unsigned long long)writer.lost);
        for (size_t i = 0; i < bytes; i++)
            cr_assert(part[i] == 5, "round %d: [%zu]", round, i);
        munmap(stale, span.file_bytes);
        cr_assert(kolo_heap_free(heap, memory, NULL, NULL) == KOLO_OK);
    }
    kolo_heap_destroy(heap);
}

Test(heap_sever, severing_that_fails_changes_nothing)
{
    const size_t page = page_bytes(), bytes = 3 * page;
    struct kolo_heap *heap = heap_new();
    unsigned char *memory = heap_take(heap, bytes);
    const int files = open_files();
    struct kolo_span before, after;
    struct told told = {.count = 0};
    struct rlimit limit, none;
    memset(memory, 6, bytes);
    cr_assert(kolo_heap_find(heap, memory, bytes, &before));
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int more = 0; more < 2; more++) { // first no second descriptor, then no new file
        none =
            (struct rlimit){.rlim_cur = (rlim_t)(before.fd + 1 + more), .rlim_max = limit.rlim_max};
        cr_assert(setrlimit(RLIMIT_NOFILE, &none) == 0);
        cr_assert(kolo_heap_sever(heap, memory + page, page, note_gone, &told) == KOLO_ERR_SYSTEM);
        cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        cr_assert(open_files() == files && told.count == 0);
        cr_assert(kolo_heap_find(heap, memory, bytes, &after) && after.id == before.id);
        cr_assert(memory[page] == 6);
    }
    kolo_heap_destroy(heap);
}
