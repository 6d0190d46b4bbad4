// SPDX-License-Identifier: Apache-2.0
// memory/cuda_alloc.c with the mock driver: on which device and in which context memory is
// allocated, how long it lives, and what is left when a call fails.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/held.h"
#include "memory/memory.h"
#include "tests/support/mock_cuda.h"

static const struct mock_cuda *mock;

static void begin(void)
{
    mock = mock_cuda_load();
    mock->begin();
}

static struct kolo_pointer take(int device, int turn, size_t bytes)
{
    const struct kolo_device_share share = {.numa_node = -1, .turn = turn};
    struct kolo_pointer pointer, found;
    cr_assert_eq(kolo_device_alloc(device, &share, bytes, &pointer), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_pointer_look(pointer.memory, &found), KOLO_OK);
    cr_assert(found.kind == KOLO_MEMORY_DEVICE && found.device == pointer.device &&
              found.context == pointer.context);
    return pointer;
}

static void give(const struct kolo_pointer *pointer)
{
    cr_assert_eq(kolo_device_free(pointer, KOLO_NEVER, NULL), KOLO_OK, "%s", kolo_error_detail());
    kolo_device_release(pointer);
}

/** A program that has not used CUDA before gets memory too. */
Test(cuda_alloc, the_first_use_of_all)
{
    mock = mock_cuda_load();
    const struct kolo_pointer pointer = take(-1, 3, 64);
    cr_assert_eq(pointer.device, 3 % MOCK_DEVICES);
    give(&pointer);
    cr_assert(mock->depth() == 0 && mock->allocated() == 0 && mock->retained(1) == 0);
}

Test(cuda_alloc, the_device_is_the_one_asked_for_else_the_threads_else_the_ranks, .init = begin)
{
    for (int current = -1; current < MOCK_DEVICES; current++)
        for (int device = -1; device < MOCK_DEVICES; device++) {
            mock->set_current(current);
            const int depth = mock->depth(), top = mock->current();
            const int retained = mock->retained(1);
            const struct kolo_pointer pointer = take(device, 1, 0);
            cr_assert_eq(pointer.device, device >= 0 ? device : current >= 0 ? current : 1);
            cr_assert_eq(mock->retained(1), retained + (pointer.device == 1));
            give(&pointer);
            cr_assert(mock->depth() == depth && mock->current() == top);
            cr_assert_eq(mock->retained(1), retained);
        }
    cr_assert_eq(mock->allocated(), 0);
}

/** The devices are at nodes 1 and 2. */
Test(cuda_alloc, a_rank_takes_a_device_at_its_node_if_there_is_one, .init = begin)
{
    static const struct {
        struct kolo_device_share share;
        int device;
    } cases[] = {{{.numa_node = 1, .turn_there = 0, .turn = 1}, 0},
                 {{.numa_node = 1, .turn_there = 3, .turn = 1}, 0},
                 {{.numa_node = 2, .turn_there = 0, .turn = 0}, 1},
                 {{.numa_node = 3, .turn_there = 0, .turn = 1}, 1},
                 {{.numa_node = 3, .turn_there = 1, .turn = 2}, 0},
                 {{.numa_node = -1, .turn_there = 0, .turn = 1}, 1}};
    struct kolo_pointer pointer;
    if (!mock_cuda_at_nodes(1, 2))
        cr_skip("no name space for a /sys of its own: %s", strerror(errno));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(kolo_device_alloc(-1, &cases[i].share, 64, &pointer), KOLO_OK);
        cr_expect_eq(pointer.device, cases[i].device, "case %zu: %d", i, pointer.device);
        give(&pointer);
    }
    mock->fail("cuDeviceGetPCIBusId", 1,
               KOLO_CUDA_INVALID_VALUE); /* for the first device: its node is unknown */
    cr_assert_eq(kolo_device_alloc(-1, &cases[0].share, 64, &pointer), KOLO_OK);
    cr_expect_eq(pointer.device, 1);
    give(&pointer);
}

/** Two devices at one node, used in turn. */
Test(cuda_alloc, ranks_of_a_node_take_its_devices_in_turn, .init = begin)
{
    struct kolo_pointer pointer;
    if (!mock_cuda_at_nodes(4, 4))
        cr_skip("no name space for a /sys of its own: %s", strerror(errno));
    for (int turn = 0; turn < 5; turn++) {
        const struct kolo_device_share share = {.numa_node = 4, .turn_there = turn, .turn = 7};
        cr_assert_eq(kolo_device_alloc(-1, &share, 64, &pointer), KOLO_OK);
        cr_expect_eq(pointer.device, turn % 2);
        give(&pointer);
    }
}

Test(cuda_alloc, an_address_that_is_given_out_again_is_what_it_is_then, .init = begin)
{
    for (int i = 0; i < 8; i++) {
        const struct kolo_pointer pointer = take(i % MOCK_DEVICES, 0, 4096);
        give(&pointer);
        struct kolo_pointer gone;
        cr_assert_eq(kolo_pointer_look(pointer.memory, &gone), KOLO_OK);
        cr_assert(kolo_pointer_is_host(&gone) && gone.kind == KOLO_MEMORY_HOST);
    }
}

Test(cuda_alloc, refusals_leave_nothing, .init = begin)
{
    static const struct {
        const char *function;
        int result;
        kolo_status status;
    } cases[] = {
        {"cuInit", KOLO_CUDA_NO_DEVICE, KOLO_ERR_UNSUPPORTED},
        {"cuInit", KOLO_CUDA_NOT_INITIALIZED, KOLO_ERR_UNSUPPORTED}, /* in a forked child */
        {"cuInit", KOLO_CUDA_SYSTEM_DRIVER_MISMATCH, KOLO_ERR_SYSTEM},
        {"cuDeviceGetCount", KOLO_CUDA_STUB_LIBRARY, KOLO_ERR_UNSUPPORTED},
        {"cuDeviceGet", KOLO_CUDA_INVALID_VALUE, KOLO_ERR_SYSTEM},
        {"cuDevicePrimaryCtxRetain", KOLO_CUDA_OUT_OF_MEMORY, KOLO_ERR_NO_MEMORY},
        {"cuDevicePrimaryCtxRetain", KOLO_CUDA_DEVICE_UNAVAILABLE, KOLO_ERR_SYSTEM},
        {"cuCtxPushCurrent_v2", KOLO_CUDA_INVALID_CONTEXT, KOLO_ERR_SYSTEM},
        {"cuMemAlloc_v2", KOLO_CUDA_OUT_OF_MEMORY, KOLO_ERR_NO_MEMORY},
    };
    struct kolo_pointer pointer = {.device = 77};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[64];
        mock->fail(cases[i].function, 1, cases[i].result);
        cr_assert_eq(kolo_device_alloc(1, NULL, 64, &pointer), cases[i].status, "%s: %s",
                     cases[i].function, kolo_error_detail());
        snprintf(call, sizeof call, "%.*s", (int)strcspn(cases[i].function, "_"),
                 cases[i].function);
        cr_assert_not_null(strstr(kolo_error_detail(), call), "%s", kolo_error_detail());
        cr_assert((cases[i].result == KOLO_CUDA_NOT_INITIALIZED) ==
                      (strstr(kolo_error_detail(), "this process was forked") != NULL),
                  "%s", kolo_error_detail());
        cr_assert(mock->depth() == 0 && mock->retained(1) == 0, "%s", cases[i].function);
    }
    mock->fail("", 1, 0);
    cr_assert_eq(kolo_device_alloc(MOCK_DEVICES, NULL, 64, &pointer), KOLO_ERR_INVALID);
    cr_assert_str_eq(kolo_error_detail(), "device 2: this process has 2, from 0 on");
    cr_assert_eq(kolo_device_alloc(0, NULL, SIZE_MAX / 2, &pointer), KOLO_ERR_NO_MEMORY);
    cr_assert(pointer.device == 77 && mock->allocated() == 0);
}

Test(cuda_alloc, a_device_at_work_keeps_its_memory, .init = begin)
{
    const struct kolo_pointer pointer = take(0, 0, 64);
    char byte = 1;
    mock->hold(1);
    mock->write_on(mock->stream(0), (void *)(uintptr_t)pointer.memory, &byte, 1);
    cr_assert_eq(kolo_device_free(&pointer, kolo_deadline_in_ms(20), NULL), KOLO_AGAIN);
    cr_assert_eq(mock->allocated(), 1);
    mock->hold(0);
    give(&pointer);
    cr_assert_eq(mock->allocated(), 0);
}

/** Such a wait would be a thread in the driver, which is of no use: memory is not freed before. */
Test(cuda_alloc, while_a_stream_is_held_nobody_waits_for_the_device, .init = begin)
{
    enum { SHORT_MS = 30 };
    const struct kolo_pointer pointer = take(0, 0, 64);
    const int before = mock->calls(NULL);
    cr_assert_eq(kolo_held_begin(pointer.context, KOLO_NEVER), KOLO_OK);
    cr_assert_eq(kolo_device_free(&pointer, kolo_deadline_in_ms(SHORT_MS), NULL), KOLO_AGAIN);
    cr_assert_eq(mock->calls(NULL), before);
    kolo_held_end(pointer.context);
    give(&pointer);
}

Test(cuda_alloc, a_device_that_is_lost_is_an_error, .init = begin)
{
    const struct kolo_pointer pointer = take(0, 0, 64);
    mock->fail("cuMemFree_v2", 1, KOLO_CUDA_ILLEGAL_ADDRESS);
    cr_assert_eq(kolo_device_free(&pointer, KOLO_NEVER, NULL), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(kolo_error_detail(), "cuMemFree on device 0"), "%s",
                       kolo_error_detail());
    cr_assert_eq(mock->depth(), 0);
}
