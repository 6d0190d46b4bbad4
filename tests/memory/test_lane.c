// SPDX-License-Identifier: Apache-2.0
// memory/lane.c and memory/cuda_lane.c with the mock driver: which driver calls a check makes, and
// when a sleeping thread is woken, also by a mark whose event another mark has taken over, and with
// a driver that does not notify. tests/runtime/test_staging.c tests the data that copies move.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/held.h"
#include "memory/lane.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"

enum { BYTES = 64, ROUNDS = 20, MORE_THAN_EVENTS = 70, LONG_MS = 20000 };

static const struct mock_cuda *mock;
static struct kolo_lane *lane;
static uint8_t *device, host[BYTES];
static atomic_int wakes;

static void wake(void *context)
{
    (void)context;
    atomic_fetch_add(&wakes, 1);
}

static void begin(void)
{
    struct kolo_pointer pointer;
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
    device = mock->alloc(MOCK_DEVICE, 0, BYTES);
    cr_assert_eq(kolo_pointer_look(device, &pointer), KOLO_OK);
    cr_assert_eq(kolo_lane_open(&pointer, wake, NULL, &lane), KOLO_OK);
}

static void end(void)
{
    cr_assert(kolo_lane_close(lane, kolo_deadline_in_ms(LONG_MS)));
}

static uint64_t put(void)
{
    uint64_t mark = 0;
    cr_assert_eq(kolo_lane_copy(lane, KOLO_WAY_IN, host, device, BYTES), KOLO_OK);
    cr_assert_eq(kolo_lane_mark(lane, KOLO_WAY_IN, &mark), KOLO_OK);
    return mark;
}

static int told(void)
{
    return mock->calls("cuLaunchHostFunc");
}

static void await_wakes(int least)
{
    cr_assert(AWAIT(atomic_load(&wakes) >= least), "not woken: %d of %d", wakes, least);
}

static void await_mark(uint64_t mark)
{
    cr_assert(AWAIT(kolo_lane_passed(lane, KOLO_WAY_IN, mark) != KOLO_AGAIN));
    cr_assert_eq(kolo_lane_passed(lane, KOLO_WAY_IN, mark), KOLO_OK);
}

Test(lane, who_looks_has_nobody_called, .timeout = 60)
{
    begin();
    const int before = mock->calls(NULL), queries = mock->calls("cuEventQuery");
    for (int i = 0; i < ROUNDS; i++)
        await_mark(put());
    cr_assert_eq(told(), 0);
    cr_assert_eq(mock->calls("cuStreamWaitEvent"), 0);
    cr_assert_eq(mock->calls("cuEventRecord"), ROUNDS);
    /* contexts are entered and left for each copy, mark and query */
    const int looks = mock->calls("cuEventQuery") - queries;
    cr_assert_leq(mock->calls(NULL) - before, ROUNDS * 2 + looks + 4 * (2 * ROUNDS + looks));
    cr_assert_eq(kolo_lane_passed(lane, KOLO_WAY_IN, ROUNDS), KOLO_OK);
    const int again = mock->calls(NULL);
    cr_assert_eq(kolo_lane_passed(lane, KOLO_WAY_IN, 1), KOLO_OK);
    cr_assert_eq(mock->calls(NULL), again, "what was seen is not asked for again");
    cr_assert_eq(atomic_load(&wakes), 0);
    end();
}

Test(lane, waits_for_the_device_share_an_event, .timeout = 60)
{
    begin();
    cr_assert_eq(kolo_lane_await_device(lane, kolo_deadline_in_ms(LONG_MS), NULL), KOLO_OK);
    const int made = mock->calls("cuEventCreate");
    for (int i = 0; i < ROUNDS; i++)
        cr_assert_eq(kolo_lane_await_device(lane, kolo_deadline_in_ms(LONG_MS), NULL), KOLO_OK);
    cr_assert_eq(mock->calls("cuEventCreate"), made);
    cr_assert_eq(mock->calls("cuCtxRecordEvent"), ROUNDS + 1);
    const int before = mock->calls("cuEventDestroy_v2");
    end();
    cr_assert_eq(mock->calls("cuEventDestroy_v2") - before, made, "all of the lane's");
}

/** Memory of a pool has no context. The program's work on it is in the program's own context, which
 * is not the primary one here, and which a lane must wait for. */
Test(lane, memory_of_a_pool_is_of_the_context_of_the_thread, .timeout = 60)
{
    static const char text[] = "written by a kernel";
    char copy[sizeof text] = "";
    struct kolo_pointer other, pointer;
    struct kolo_lane *its = NULL;
    uint64_t mark = 0;
    void *popped;
    begin();
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    cr_assert_eq(kolo_pointer_look(mock->alloc(MOCK_OTHER, 0, 1), &other), KOLO_OK);
    cr_assert_eq(driver->context_push(other.context), KOLO_CUDA_SUCCESS);
    const void *memory = mock_cuda_copy(mock, MOCK_NO_CONTEXT, 0, text, sizeof text);
    const void *there = mock->alloc(MOCK_NO_CONTEXT, 1, 1);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    cr_assert_eq(driver->context_pop(&popped), KOLO_CUDA_SUCCESS);
    cr_expect(pointer.context == other.context && kolo_lane_serves(lane, &pointer) == false);
    cr_assert_eq(kolo_lane_open(&pointer, wake, NULL, &its), KOLO_OK);
    cr_assert_eq(kolo_lane_await_device(its, kolo_deadline_in_ms(LONG_MS), NULL), KOLO_OK);
    cr_assert_eq(kolo_lane_copy(its, KOLO_WAY_IN, copy, memory, sizeof text), KOLO_OK);
    cr_assert_eq(kolo_lane_mark(its, KOLO_WAY_IN, &mark), KOLO_OK);
    cr_assert_eq(kolo_lane_wait(its, KOLO_WAY_IN, mark, kolo_deadline_in_ms(LONG_MS)), KOLO_OK);
    cr_assert_str_eq(copy, text);
    cr_assert(kolo_lane_close(its, kolo_deadline_in_ms(LONG_MS)));
    cr_assert_eq(kolo_pointer_look(there, &pointer), KOLO_OK);
    cr_assert_null(pointer.context, "the thread's context is one of another device");
    end();
}

Test(lane, who_sleeps_is_woken_by_the_next_mark, .timeout = 60)
{
    begin();
    cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
    cr_assert_eq(told(), 0, "there is nothing to wait for");
    cr_assert_eq(kolo_lane_sleeps(lane, false), KOLO_OK);
    mock->hold(1);
    put();
    const uint64_t last = put();
    cr_assert_eq(told(), 0, "nobody sleeps");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
    cr_assert_eq(told(), 1, "one is enough, however often that is said");
    mock->hold(0);
    await_wakes(1);
    await_mark(last);
    cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
    cr_assert_eq(told(), 1, "all marks have passed");
    end();
}

/** Marks are put by another thread, and only the sleeper's wake() tells it. */
Test(lane, who_sleeps_is_woken_by_what_is_put_meanwhile, .timeout = 60)
{
    begin();
    cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
    const uint64_t mark = put();
    await_wakes(1);
    await_mark(mark);
    cr_assert_eq(kolo_lane_sleeps(lane, false), KOLO_OK);
    await_mark(put());
    cr_assert_eq(told(), 1);
    end();
}

/** More marks than events: the first ones are seen when the later ones have passed, and a sleeper
 * that was woken too early is woken again. */
Test(lane, who_sleeps_is_woken_although_its_event_was_taken_over, .timeout = 60)
{
    begin();
    mock->hold(1);
    put();
    cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
    cr_assert_eq(kolo_lane_sleeps(lane, false), KOLO_OK);
    uint64_t last = 0;
    for (int i = 0; i < MORE_THAN_EVENTS; i++)
        last = put();
    mock->hold(0);
    for (int sleeps = 1; kolo_lane_passed(lane, KOLO_WAY_IN, last) == KOLO_AGAIN; sleeps++) {
        const int seen = atomic_load(&wakes);
        cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK);
        if (kolo_lane_passed(lane, KOLO_WAY_IN, last) == KOLO_AGAIN)
            await_wakes(seen + 1);
        cr_assert_leq(sleeps, MORE_THAN_EVENTS + 2);
    }
    end();
}

static void where_nobody_tells(const char *call, int result)
{
    begin();
    mock->hold(1);
    uint64_t mark = put();
    mock->fail(call, 1, result);
    cr_assert_neq(kolo_lane_sleeps(lane, true), KOLO_OK, "%s", call);
    cr_assert_not_null(strstr(kolo_error_detail(), call), "%s", kolo_error_detail());
    mock->fail("", 1, 0);
    cr_assert_eq(kolo_lane_sleeps(lane, true), KOLO_OK, "it is asked again");
    mock->hold(0);
    await_wakes(1);
    await_mark(mark);
    mock->fail(call, 1, result);
    mark = put();
    mock->fail("", 1, 0);
    await_wakes(2); /* a sleeper that wakes must find something */
    await_mark(mark);
    cr_assert_eq(kolo_lane_sleeps(lane, false), KOLO_OK);
    mock->delays(3, 3000); /* longer than kolo_lane_wait polls */
    for (int i = 0; i < ROUNDS; i++) {
        mark = put();
        mock->fail(call, 1, result);
        cr_assert_eq(kolo_lane_wait(lane, KOLO_WAY_IN, mark, kolo_deadline_in_ms(LONG_MS)),
                     KOLO_OK);
        mock->fail("", 1, 0);
    }
    end();
}

Test(lane, a_refused_function_is_done_without, .timeout = 60)
{
    where_nobody_tells("cuLaunchHostFunc", KOLO_CUDA_NOT_SUPPORTED);
}

Test(lane, a_refused_wait_is_done_without, .timeout = 60)
{
    where_nobody_tells("cuStreamWaitEvent", KOLO_CUDA_NOT_PERMITTED);
}

Test(lane, a_copy_is_over_only_if_the_driver_tells, .timeout = 60)
{
    begin();
    mock->hold(1);
    const uint64_t mark = put();
    cr_assert_not(kolo_lane_is_over(lane, KOLO_WAY_IN, mark, kolo_deadline_in_ms(20)), "held");
    cr_assert_eq(setenv("MOCK_CUDA_FAIL", "cuEventQuery=801", 1), 0);
    cr_assert_not(kolo_lane_is_over(lane, KOLO_WAY_IN, mark, kolo_deadline_in_ms(20)), "no event");
    mock->hold(0);
    cr_assert(kolo_lane_is_over(lane, KOLO_WAY_IN, mark, kolo_deadline_in_ms(LONG_MS)), "stream");
    mock->hold(1);
    const uint64_t next = put();
    mock->fail("cuStreamQuery", 1, KOLO_CUDA_NOT_SUPPORTED);
    cr_assert_not(kolo_lane_is_over(lane, KOLO_WAY_IN, next, kolo_deadline_in_ms(20)), "neither");
    (void)kolo_fail(KOLO_ERR_SYSTEM, "why");
    mock->fail("cuCtxPushCurrent_v2", 2, KOLO_CUDA_INVALID_CONTEXT); /* 1: for the event */
    cr_assert(kolo_lane_is_over(lane, KOLO_WAY_IN, next, kolo_deadline_in_ms(20)), "no context");
    cr_assert_str_eq(kolo_error_detail(), "why");
}

ParameterizedTestParameters(lane, on_a_lost_device_all_copies_are_over)
{
    static int results[] = {KOLO_CUDA_ILLEGAL_ADDRESS, KOLO_CUDA_LAUNCH_FAILED,
                            MOCK_ECC_UNCORRECTABLE, MOCK_UNKNOWN};
    return cr_make_param_array(int, results, sizeof results / sizeof *results);
}

ParameterizedTest(int *result, lane, on_a_lost_device_all_copies_are_over, .timeout = 60)
{
    begin();
    mock->hold(1);
    const uint64_t mark = put();
    mock->fail("cuEventQuery", 1, *result);
    cr_assert(kolo_lane_is_over(lane, KOLO_WAY_IN, mark, kolo_deadline_in_ms(20)));
}

/** The call may free memory, before which the driver waits for all work of the program. */
Test(lane, a_gate_waits_for_a_call_of_the_driver_until_its_deadline, .timeout = 60)
{
    struct kolo_gate *gate = NULL;
    begin();
    void *stream = mock->stream(0);
    cr_assert_eq(kolo_none_held_begin(NULL, 0, NULL), KOLO_OK);
    cr_assert_eq(kolo_lane_place(lane, stream, true, 50, &gate), KOLO_ERR_TIMEOUT);
    cr_assert_eq(told(), 0, "the stream was given a gate");
    cr_assert_eq(kolo_lane_place(lane, stream, false, 50, &gate), KOLO_OK, "no stream waits");
    kolo_gate_open(gate);
    kolo_none_held_end(NULL);
    cr_assert_eq(kolo_lane_place(lane, stream, true, LONG_MS, &gate), KOLO_OK);
    kolo_gate_open(gate);
    end();
}
