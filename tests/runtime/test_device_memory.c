// SPDX-License-Identifier: Apache-2.0
// runtime/device_memory.c: kolo_alloc_device and kolo_free on the mock's devices.
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "memory/cuda_driver.h"
#include "memory/held.h"
#include "memory/memory.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/refuse.h"
#include "tests/support/signal_masks.h"
#include "tests/support/world.h"

enum { COUNT = 1000 };

static const struct mock_cuda *mock;

static kolo_status use(struct kolo_comm *comm, void *argument)
{
    void *send = NULL, *recv = NULL, *left = NULL;
    int32_t numbers[COUNT], sums[COUNT];
    struct kolo_pointer pointer;
    (void)argument;
    kolo_status status = kolo_alloc_device(comm, sizeof numbers, -1, &send);
    if (status == KOLO_OK)
        status = kolo_alloc_device(comm, sizeof numbers, 1, &recv);
    if (status == KOLO_OK)
        status = kolo_alloc_device(comm, 0, 0, &left); /* not freed by the test */
    if (status == KOLO_OK)
        status = kolo_pointer_look(send, &pointer);
    WORLD_EXPECT(status != KOLO_OK || pointer.device == kolo_rank(comm) % MOCK_DEVICES, "device %d",
                 pointer.device);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i * (kolo_rank(comm) + 1);
    if (status == KOLO_OK) {
        mock->write(send, numbers, sizeof numbers);
        status = kolo_allreduce(comm, send, recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL);
    }
    if (status != KOLO_OK)
        return status;
    mock->read(recv, sums, sizeof sums);
    for (int i = 0; i < COUNT; i++)
        WORLD_EXPECT(sums[i] == i * 6, "[%d] is %d", i, sums[i]);
    WORLD_EXPECT(kolo_free(comm, (char *)send + 1) == KOLO_ERR_INVALID, "inside");
    WORLD_EXPECT(kolo_free(comm, send) == KOLO_OK, "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_free(comm, send) == KOLO_ERR_INVALID, "freed before");
    WORLD_EXPECT(strstr(kolo_error_detail(), "kolo_alloc_device") != NULL, "%s",
                 kolo_error_detail());
    return kolo_free(comm, recv);
}

Test(device_memory, is_used_and_freed_at_the_latest_with_its_rank)
{
    struct world world = {.size = 3, .transport = "inproc"};
    mock = mock_cuda_load();
    mock->begin();
    const int retained = mock->retained(0);
    const kolo_status status = world_run(&world, use, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert(mock->allocated() == 0 && mock->retained(0) == retained && mock->retained(1) == 0,
              "%d %d %d", mock->allocated(), mock->retained(0), mock->retained(1));
}

struct nodes {
    int first, second;         /* the two devices */
    int devices[MOCK_DEVICES]; /* the devices of even and odd ranks */
};

static kolo_status where(struct kolo_comm *comm, void *argument)
{
    const struct nodes *nodes = argument;
    const int expected = nodes->devices[kolo_rank(comm) % MOCK_DEVICES];
    struct kolo_pointer pointer;
    void *memory = NULL;
    WORLD_TRY(kolo_alloc_device(comm, 64, -1, &memory));
    WORLD_TRY(kolo_pointer_look(memory, &pointer));
    WORLD_EXPECT(pointer.device == expected, "rank %d is on device %d, not %d", kolo_rank(comm),
                 pointer.device, expected);
    return kolo_free(comm, memory);
}

/** The ranks are bound to node 2. */
Test(device_memory, is_of_a_device_at_the_ranks_node, .timeout = 60)
{
    static struct nodes all[] = {{1, 2, {1, 1}}, {2, 1, {0, 0}}, {2, 2, {0, 1}}, {0, 1, {0, 1}}};
    mock = mock_cuda_load();
    mock->begin();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct world world = {
            .size = 4, .transport = "inproc", .settings = {"KOLO_NUMA_NODE=2", NULL}};
        if (!mock_cuda_at_nodes(all[i].first, all[i].second))
            cr_skip("no name space for a /sys of its own: %s", strerror(errno));
        WORLD_MUST_RUN(&world, where, &all[i]);
    }
}

/** Nothing else retains the context of device 1, in which calls have put their lanes. */
static kolo_status again(struct kolo_comm *comm, void *argument)
{
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < 3 && status == KOLO_OK; i++) {
        void *memory = NULL;
        status = kolo_alloc_device(comm, 64, 1, &memory);
        if (status == KOLO_OK)
            status = kolo_broadcast(comm, memory, 64, KOLO_UINT8, 0, NULL, NULL);
        if (status == KOLO_OK)
            status = kolo_free(comm, memory);
        WORLD_EXPECT(status != KOLO_OK || mock->retained(1) > 0, "the context is gone");
    }
    return status;
}

Test(device_memory, its_context_stays_for_the_rank)
{
    struct world world = {.size = 2, .transport = "inproc"};
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, again, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert(mock->retained(1) == 0 && mock->registered() == 0 && mock->allocated() == 0);
}

static kolo_status refusals(struct kolo_comm *comm, void *argument)
{
    void *memory = &memory;
    (void)argument;
    WORLD_EXPECT(kolo_alloc_device(NULL, 1, -1, &memory) == KOLO_ERR_INVALID, "comm");
    WORLD_EXPECT(kolo_alloc_device(comm, 1, -1, NULL) == KOLO_ERR_INVALID, "memory_out");
    WORLD_EXPECT(kolo_alloc_device(comm, 1, -2, &memory) == KOLO_ERR_INVALID, "device");
    WORLD_EXPECT(kolo_alloc_device(comm, 1, 99, &memory) == KOLO_ERR_INVALID, "%s",
                 kolo_error_detail());
    mock->fail("cuInit", 1, KOLO_CUDA_NO_DEVICE);
    WORLD_EXPECT(kolo_alloc_device(comm, 1, -1, &memory) == KOLO_ERR_UNSUPPORTED, "%s",
                 kolo_error_detail());
    WORLD_EXPECT(memory == &memory, "written");
    return kolo_barrier(comm, NULL, NULL); /* the communicator still works */
}

Test(device_memory, what_cannot_be_had_is_refused)
{
    struct world world = {.size = 1, .transport = "inproc"};
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, refusals, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

/** Forbids this thread to start others. */
static bool refuse_threads(void)
{
    return refuse_call(SYS_clone3, -1, 0, EAGAIN) && refuse_call(SYS_clone, -1, 0, EAGAIN);
}

/** While a stream is held memory is freed by a thread of the library, which must be there. */
static kolo_status free_without_threads(struct kolo_comm *comm, void *argument)
{
    void *memory = NULL;
    struct kolo_pointer pointer;
    const struct signal_masks before = signal_masks_of(SIGUSR1);
    WORLD_TRY(kolo_alloc_device(comm, 64, 0, &memory));
    const struct signal_masks after = signal_masks_of(SIGUSR1);
    WORLD_EXPECT(after.taking <= before.taking, "a thread takes the program's signals");
    WORLD_TRY(kolo_pointer_look(memory, &pointer));
    *(bool *)argument = refuse_threads();
    WORLD_TRY(kolo_held_begin(pointer.context, KOLO_NEVER));
    const kolo_status status = kolo_free(comm, memory);
    const int left = mock->allocated();
    const bool is_known = kolo_free(comm, memory) != KOLO_ERR_INVALID;
    kolo_held_end(pointer.context);
    WORLD_EXPECT(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(left == 1 && !is_known, "%d", left);
    WORLD_EXPECT(AWAIT(mock->allocated() == 0), "it is not freed");
    return KOLO_OK;
}

Test(device_memory, is_freed_while_no_thread_can_be_started, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    bool is_refused = false;
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, free_without_threads, &is_refused);
    if (!is_refused)
        cr_skip("no seccomp filters here");
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

static kolo_status allocate_without_threads(struct kolo_comm *comm, void *argument)
{
    void *memory = &memory;
    *(bool *)argument = refuse_threads();
    const kolo_status status = kolo_alloc_device(comm, 64, 0, &memory);
    WORLD_EXPECT(status == KOLO_ERR_SYSTEM && strstr(kolo_error_detail(), "thread"), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(memory == &memory && mock->allocated() == 0, "%d", mock->allocated());
    return kolo_barrier(comm, NULL, NULL); /* the communicator still works */
}

Test(device_memory, is_not_given_if_no_thread_can_be_started_to_free_it, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    bool is_refused = false;
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, allocate_without_threads, &is_refused);
    if (!is_refused)
        cr_skip("no seccomp filters here");
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

static kolo_status free_at_work(struct kolo_comm *comm, void *argument)
{
    void *memory = NULL;
    char byte = 1;
    (void)argument;
    kolo_status status = kolo_alloc_device(comm, 64, 0, &memory);
    if (status != KOLO_OK)
        return status;
    mock->hold(1);
    mock->write_on(mock->stream(0), memory, &byte, 1);
    status = kolo_free(comm, memory);
    mock->hold(0);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT, "%d", (int)status);
    WORLD_EXPECT(strstr(kolo_error_detail(),
                        "device 0 has not finished its earlier work within 100 ms") != NULL,
                 "%s", kolo_error_detail());
    return kolo_free(comm, memory);
}

Test(device_memory, is_still_there_if_its_device_is_at_work_too_long)
{
    struct world world = {
        .size = 1, .transport = "inproc", .settings = {"KOLO_TIMEOUT=100ms", NULL}};
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, free_at_work, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert_eq(mock->allocated(), 0);
}

/** How often the context of device 1 was retained when the rank, which had the memory, ended. */
static int held_at_the_end;

static kolo_status leave_at_work(struct kolo_comm *comm, void *argument)
{
    void *memory = NULL;
    char byte = 1;
    (void)argument;
    const kolo_status status = kolo_alloc_device(comm, 64, 1, &memory);
    if (status != KOLO_OK)
        return status;
    void *stream = mock->stream(1);
    mock->hold(1);
    mock->write_on(stream, memory, &byte, 1);
    held_at_the_end = mock->retained(1);
    return KOLO_OK;
}

/** When a context is released for the last time, the driver destroys it while work still runs in
 * it, or waits for that work without a limit. */
Test(device_memory, a_context_outlives_a_rank_that_leaves_its_device_at_work)
{
    struct world world = {
        .size = 1, .transport = "inproc", .settings = {"KOLO_EXIT_TIMEOUT=200ms", NULL}};
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, leave_at_work, NULL);
    const int retained = mock->retained(1);
    mock->hold(0);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert_eq(retained, held_at_the_end);
    cr_assert_eq(mock->allocated(), 1);
}
