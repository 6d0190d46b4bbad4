// SPDX-License-Identifier: Apache-2.0
// memory/cuda_pin.c, and memory/heap.c's use of it, with the mock driver: when pages are locked,
// for how long, and that a refusal is logged in one line.
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "memory/cuda_driver.h"
#include "memory/memory.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"

enum { PAGE = 4096, PAGES = 6 };

static const struct mock_cuda *mock;
static struct kolo_heap *heap;

static void begin(void)
{
    mock = mock_cuda_load();
    mock->begin();
    cr_assert_eq(kolo_heap_create(&heap), KOLO_OK);
}

static void end(void)
{
    kolo_heap_destroy(heap);
    cr_assert_eq(mock->registered(), 0);
}

static uint8_t *take(size_t pages)
{
    void *memory = NULL;
    cr_assert_eq(kolo_heap_alloc(heap, pages * PAGE, &memory), KOLO_OK, "%s", kolo_error_detail());
    return memory;
}

static bool is_pinned(const uint8_t *memory)
{
    struct kolo_pointer pointer;
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    return pointer.kind == KOLO_MEMORY_PINNED;
}

static struct kolo_pointer device_pointer(enum mock_kind kind, int device)
{
    struct kolo_pointer pointer;
    cr_assert_eq(kolo_pointer_look(mock->alloc(kind, device, 64), &pointer), KOLO_OK);
    return pointer;
}

Test(cuda_pin, memory_is_locked_once_a_device_is_used_and_no_context_is_made, .init = begin,
     .fini = end)
{
    const uint8_t *early = take(2);
    cr_assert(mock->registered() == 0 && !is_pinned(early));
    mock->set_current(0);
    cr_assert(is_pinned(take(1)), "the thread has a context");
    cr_assert_not(is_pinned(early), "no call has used a device");
    mock->set_current(-1);
    const struct kolo_pointer near = device_pointer(MOCK_OTHER, 1);
    kolo_heap_pin(heap, &near);
    cr_assert(is_pinned(early) && is_pinned(early + 2 * PAGE - 1));
    cr_assert(is_pinned(take(1)));
    const int calls = mock->calls(NULL);
    kolo_heap_pin(heap, &near);
    cr_assert_eq(mock->calls(NULL), calls, "once is enough");
    cr_assert(mock->registered() == 3 && mock->depth() == 0);
    cr_assert_eq(mock->calls("cuDevicePrimaryCtxRetain"), 0);
}

Test(cuda_pin, what_is_freed_is_unlocked_before, .init = begin, .fini = end)
{
    const struct kolo_pointer near = device_pointer(MOCK_DEVICE, 0);
    kolo_heap_pin(heap, &near);
    uint8_t *memory = take(PAGES);
    cr_assert_eq(mock->registered(), 1);
    cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    cr_assert_eq(mock->registered(), 0);
}

/** If only pool memory refers to a context, the context is retained as long as pages are locked in
 * it. */
Test(cuda_pin, a_primary_context_is_held, .init = begin, .fini = end)
{
    const struct kolo_pointer near = device_pointer(MOCK_NO_CONTEXT, 1);
    const int retained = mock->retained(1);
    kolo_heap_pin(heap, &near);
    uint8_t *memory = take(1);
    cr_assert(mock->retained(1) == retained + 1 && is_pinned(memory));
    cr_assert_eq(kolo_heap_sever(heap, memory, 1, NULL, NULL), KOLO_OK);
    cr_assert(mock->retained(1) == retained + 1 && is_pinned(memory));
    cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    cr_assert(mock->retained(1) == retained && mock->depth() == 0);
}

Test(cuda_pin, pieces_of_severed_memory_are_locked_anew, .init = begin, .fini = end)
{
    const struct kolo_pointer near = device_pointer(MOCK_DEVICE, 0);
    kolo_heap_pin(heap, &near);
    uint8_t *memory = take(PAGES);
    static const size_t parts[][2] = {{2, 1}, {1, 3}, {0, 1}, {PAGES - 1, 1}, {0, PAGES}};
    static const int pieces[] = {3, 5, 5, 5, 1};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        mock->set_current(-1);
        cr_assert_eq(
            kolo_heap_sever(heap, memory + parts[i][0] * PAGE, parts[i][1] * PAGE, NULL, NULL),
            KOLO_OK);
        for (size_t page = 0; page < PAGES; page++)
            cr_assert(is_pinned(memory + page * PAGE), "part %zu, page %zu", i, page);
        cr_assert_leq(mock->registered(), pieces[i], "part %zu", i);
    }
    cr_assert(mock->registered() == 1 && mock->depth() == 0);
}

/* ---- while the driver waits before it locks pages ---- */

static void *pin_all(void *near)
{
    kolo_heap_pin(heap, near);
    return NULL;
}

static void *free_one(void *memory)
{
    kolo_heap_unpin(heap, memory);
    cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    return NULL;
}

static void *sever_one(void *memory)
{
    cr_assert_eq(kolo_heap_sever(heap, memory, 1, NULL, NULL), KOLO_OK);
    return NULL;
}

/** The first of two spans is locked only when the stream goes on; *@p use_first needs exactly that
 * span. */
static void lock_meanwhile(void *(*use_first)(void *memory))
{
    struct kolo_pointer near = device_pointer(MOCK_DEVICE, 0);
    uint8_t *first = take(1), *second = take(1), *other = NULL, byte = 1;
    struct kolo_span span;
    pthread_t threads[2];
    if (second < first) {
        other = first;
        first = second;
        second = other;
    }
    mock->lock_slowly(1);
    mock->hold(1);
    mock->write_on(mock->stream(0), mock->alloc(MOCK_DEVICE, 0, 1), &byte, 1);
    cr_assert_eq(pthread_create(&threads[0], NULL, pin_all, &near), 0);
    cr_assert(AWAIT(mock->blocked() > 0));
    cr_assert_eq(pthread_create(&threads[1], NULL, use_first, first), 0);
    cr_assert(kolo_heap_find(heap, first, 1, &span) && !span.pin.ops);
    cr_assert_eq(kolo_heap_alloc_plain(heap, PAGE, (void **)&other), KOLO_OK);
    free_one(other);
    free_one(second);
    kolo_heap_pin(heap, &near); /* a later call does not wait for the first */
    mock->hold(0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert(!kolo_heap_find(heap, first, 1, &span) || span.pin.ops);
    cr_assert_eq(mock->registered(), use_first == sever_one);
}

Test(cuda_pin, others_use_the_heap_while_pages_are_locked, .init = begin, .fini = end,
     .timeout = 60)
{
    lock_meanwhile(free_one);
}

Test(cuda_pin, memory_is_severed_once_it_is_locked, .init = begin, .fini = end, .timeout = 60)
{
    lock_meanwhile(sever_one);
}

/* ---- refusals ---- */

static struct {
    int warnings, others;
    char last[512];
} heard;

static void hear(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    heard.warnings += level == KOLO_LOG_WARN;
    heard.others += level != KOLO_LOG_WARN;
    cr_assert(strlen(line) < sizeof heard.last);
    strcpy(heard.last, line);
}

Test(cuda_pin, a_refusal_is_told_and_costs_nothing_else, .init = begin, .fini = end)
{
    static const char *const functions[] = {"cuCtxPushCurrent_v2", "cuMemHostRegister_v2"};
    const struct kolo_pointer near = device_pointer(MOCK_NO_CONTEXT, 1);
    const int retained = mock->retained(1);
    kolo_log_set_level(KOLO_LOG_INFO);
    kolo_log_set_sink(hear, NULL);
    kolo_heap_pin(heap, &near);
    for (int i = 0; i < 2; i++) {
        mock->fail(functions[i], 1, KOLO_CUDA_OUT_OF_MEMORY);
        kolo_detail_set("");
        uint8_t *memory = take(1);
        cr_assert(!is_pinned(memory) && *kolo_error_detail() == '\0', "%s", kolo_error_detail());
        cr_assert(mock->retained(1) == retained && mock->depth() == 0);
        cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    }
    cr_assert(heard.warnings == 1 && heard.others == 1, "%d %d", heard.warnings, heard.others);
    cr_assert_not_null(strstr(heard.last, "4096 bytes are not page-locked"), "%s", heard.last);
    cr_assert_not_null(strstr(heard.last, "cuMemHostRegister of 4096 bytes on device 1: "
                                          "CUDA_ERROR_OUT_OF_MEMORY"),
                       "%s", heard.last);
    kolo_log_set_sink(NULL, NULL);
}

Test(cuda_pin, what_the_program_has_locked_is_left_to_it, .init = begin, .fini = end)
{
    const struct kolo_pointer near = device_pointer(MOCK_DEVICE, 0);
    uint8_t *memory = mock->alloc(MOCK_PINNED, 0, PAGE);
    struct kolo_pin pin = {.ops = near.ops};
    kolo_log_set_sink(hear, NULL);
    kolo_pin(&near, memory, PAGE, &pin);
    cr_assert(!pin.ops && heard.warnings == 0 && is_pinned(memory));
    kolo_unpin(&pin, memory);
    cr_assert(is_pinned(memory));
    kolo_log_set_sink(NULL, NULL);
}

Test(cuda_pin, a_context_that_is_gone_has_nothing_to_unlock, .init = begin)
{
    const struct kolo_pointer near = device_pointer(MOCK_OTHER, 1);
    kolo_heap_pin(heap, &near);
    uint8_t *memory = take(1);
    mock->destroy_other(1);
    cr_assert_eq(kolo_heap_free(heap, memory, NULL, NULL), KOLO_OK);
    cr_assert_eq(mock->depth(), 0);
    kolo_heap_destroy(heap);
}
