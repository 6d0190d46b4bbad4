// SPDX-License-Identifier: Apache-2.0
// memory/cuda_await.c with the mock driver, both one that has events of contexts and an older one.
// Late streams are waited for, a wait for one that does not end is given up at the deadline and not
// before, and the thread's current context is unchanged.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "memory/cuda_memory.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/signal_masks.h"

enum { BYTES = 4096, FOREVER_MS = 60000, SHORT_MS = 50 };

struct bench {
    const struct mock_cuda *mock;
    struct kolo_cuda_driver *driver; /* threads that gave up may still use it */
    struct kolo_cuda_visit visit;
    void *stream;
    uint32_t *flag; /* on the device */
};

static void begin(struct bench *bench, bool is_older)
{
    static struct kolo_cuda_driver drivers[2];
    struct kolo_pointer pointer;
    bench->mock = mock_cuda_load();
    bench->mock->begin();
    bench->driver = &drivers[is_older];
    *bench->driver = *kolo_cuda_driver_loaded();
    if (is_older)
        bench->driver->context_record_event = NULL;
    bench->flag = bench->mock->alloc(MOCK_DEVICE, 1, BYTES);
    bench->stream = bench->mock->stream(1);
    bench->mock->set_current(0);
    cr_assert_eq(kolo_pointer_look(bench->flag, &pointer), KOLO_OK);
    cr_assert_eq(kolo_cuda_visit_primary(&pointer, &bench->visit), KOLO_OK);
    bench->visit.driver = bench->driver;
}

/** Makes its stream wait until the flag is 1. */
static void hold_up(const struct bench *bench)
{
    static const uint32_t zero = 0;
    bench->mock->write(bench->flag, &zero, sizeof zero);
    bench->mock->await(bench->stream, bench->flag, 1);
}

static void check_context(const struct bench *bench)
{
    cr_assert(bench->mock->depth() == 1 && bench->mock->current() == 0);
}

static const bool kinds[] = {false, true};

Test(cuda_await, what_streams_are_late_with_is_there)
{
    for (size_t kind = 0; kind < 2; kind++) {
        struct bench bench;
        unsigned char wrote[BYTES], got[BYTES];
        begin(&bench, kinds[kind]);
        bench.mock->delays(3, 3000);
        for (int i = 1; i < 20; i++) {
            if (i % 5 == 0) /* as for a context that has no such events */
                bench.mock->fail("cuCtxRecordEvent", 1,
                                 i % 2 ? KOLO_CUDA_NOT_SUPPORTED : KOLO_CUDA_INVALID_HANDLE);
            memset(wrote, i, BYTES);
            bench.mock->write_on(bench.stream, bench.flag, wrote, BYTES);
            cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, kolo_deadline_in_ms(FOREVER_MS), NULL),
                         KOLO_OK);
            bench.mock->read(bench.flag, got, BYTES);
            cr_assert(memcmp(wrote, got, BYTES) == 0, "older: %d, %d", (int)kind, i);
        }
        check_context(&bench);
    }
}

Test(cuda_await, what_does_not_end_is_given_up_at_the_deadline)
{
    static const uint32_t one = 1;
    for (size_t kind = 0; kind < 2; kind++) {
        struct bench bench;
        begin(&bench, kinds[kind]);
        hold_up(&bench);
        for (int i = 0; i < 3; i++) {
            const int64_t before = kolo_now_ns();
            cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, kolo_deadline_in_ms(SHORT_MS), NULL),
                         KOLO_AGAIN);
            cr_assert_geq(kolo_now_ns() - before, SHORT_MS * (int64_t)1000000);
            check_context(&bench);
        }
        bench.mock->write(bench.flag, &one, sizeof one);
        cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, kolo_deadline_in_ms(FOREVER_MS), NULL),
                     KOLO_OK);
    }
}

static bool is_third(void *looks)
{
    return ++*(int *)looks == 3;
}

Test(cuda_await, somebody_else_may_end_it)
{
    static const uint32_t one = 1;
    for (size_t kind = 0; kind < 2; kind++) {
        struct bench bench;
        int looks = 0;
        const struct kolo_unless unless = {is_third, &looks};
        begin(&bench, kinds[kind]);
        hold_up(&bench);
        cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, KOLO_NEVER, &unless), KOLO_AGAIN);
        cr_assert_eq(looks, 3);
        check_context(&bench);
        bench.mock->write(bench.flag, &one, sizeof one);
        cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, kolo_deadline_in_ms(FOREVER_MS), NULL),
                     KOLO_OK);
    }
}

/** Waits until the stream's thread runs: one that starts blocks all signals. */
static void use_stream(const struct bench *bench)
{
    static const uint32_t wrote = 7;
    uint32_t got = 0;
    bench->mock->write_on(bench->stream, bench->flag, &wrote, sizeof wrote);
    cr_assert(AWAIT((bench->mock->read(bench->flag, &got, sizeof got), got == wrote)));
}

static bool look(void *masks)
{
    *(struct signal_masks *)masks = signal_masks_of(SIGUSR1);
    return true;
}

Test(cuda_await, its_thread_takes_no_signal)
{
    static const uint32_t one = 1;
    struct bench bench;
    struct signal_masks masks;
    const struct kolo_unless unless = {look, &masks};
    begin(&bench, true);
    use_stream(&bench);
    hold_up(&bench);
    const struct signal_masks before = signal_masks_of(SIGUSR1);
    cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, KOLO_NEVER, &unless), KOLO_AGAIN);
    cr_assert_eq(masks.threads, before.threads + 1);
    cr_assert_eq(masks.taking, before.taking);
    bench.mock->write(bench.flag, &one, sizeof one);
}

Test(cuda_await, a_call_that_fails_is_named)
{
    static const struct {
        const char *function;
        bool is_older;
    } calls[] = {{"cuEventCreate", false},   {"cuCtxRecordEvent", false},
                 {"cuEventQuery", false},    {"cuCtxPushCurrent_v2", false},
                 {"cuCtxSynchronize", true}, {"cuCtxPushCurrent_v2", true}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct bench bench;
        char call[32];
        begin(&bench, calls[i].is_older);
        bench.mock->fail(calls[i].function, 1, KOLO_CUDA_INVALID_VALUE);
        cr_assert_eq(kolo_cuda_await(&bench.visit, NULL, kolo_deadline_in_ms(FOREVER_MS), NULL),
                     KOLO_ERR_SYSTEM);
        (void)snprintf(call, sizeof call, "%.*s on device 1", (int)strcspn(calls[i].function, "_"),
                       calls[i].function);
        cr_assert_not_null(strstr(kolo_error_detail(), call), "%s", kolo_error_detail());
        check_context(&bench);
    }
}
