// SPDX-License-Identifier: Apache-2.0
// runtime/stream.c and the gates below it: collectives in the order of a stream of the program, on
// the mock's streams, which are late. A call sees what the stream was given before it, what the
// stream is given afterwards sees the result, and the calling thread waits for neither.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/memory.h"
#include "runtime/comm.h"
#include "runtime/submit.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

/* COUNT: more words than a page */
enum { COUNT = 1003, BYTES = COUNT * 4, ROUNDS = 5, MANY = 150 };

static const struct mock_cuda *mock;

static void begin(unsigned seed)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
    mock->delays(seed, 300);
}

static const struct kolo_cuda_driver *driver(void)
{
    return kolo_cuda_driver_loaded();
}

/** What one rank uses. */
struct side {
    void *stream;
    int32_t *send, *recv, *copy; /* on the device */
    int32_t values[COUNT];
};

static struct side *side_create(int rank)
{
    struct side *side = calloc(1, sizeof *side);
    const int device = rank % MOCK_DEVICES;
    if (!side)
        abort();
    side->stream = mock->stream(device);
    side->send = mock->alloc(MOCK_DEVICE, device, BYTES);
    side->recv = mock->alloc(rank % 3 == 1 ? MOCK_NO_CONTEXT : MOCK_DEVICE, device, BYTES);
    side->copy = mock->alloc(MOCK_DEVICE, device, BYTES);
    return side;
}

static void fill(struct side *side, int rank, int round)
{
    for (int i = 0; i < COUNT; i++)
        side->values[i] = (rank + 1) * 1000 * (round + 1) + i;
}

/** Whether these are the sums of what all ranks fill in. */
static bool is_sum(const int32_t *got, int size, int round)
{
    const int ranks = size * (size + 1) / 2;
    for (int i = 0; i < COUNT; i++)
        if (got[i] != ranks * 1000 * (round + 1) + size * i)
            return false;
    return true;
}

static kolo_status on_stream(int result)
{
    return result == KOLO_CUDA_SUCCESS
               ? KOLO_OK
               : kolo_fail(KOLO_ERR_INTERNAL, "the stream's work failed with %d", result);
}

/** Like a kernel that reads the result of the previous call. */
static kolo_status copy_on(void *stream, void *to, const void *from)
{
    return on_stream(driver()->copy((uintptr_t)to, (uintptr_t)from, BYTES, stream));
}

/** Waits until the stream is idle, without waiting for a request: the stream must end by itself. */
static kolo_status drain(void *stream)
{
    return on_stream(driver()->stream_synchronize(stream));
}

static bool says(kolo_status got, kolo_status expected, const char *words)
{
    return got == expected && strstr(kolo_error_detail(), words);
}

/** Whether the progress thread may sleep again: all calls are over, whatever their result. */
static bool nothing_follows(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    const bool is_so = comm->engine->following == 0 && comm->engine->outstanding == 0;
    kolo_comm_leave(comm);
    return is_so;
}

/* ---- in order with the stream's work ---- */

/** Writes, calls and reads are in the stream's order, with no waits in between. */
static kolo_status rounds_of_work(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    struct side *sides[ROUNDS];
    struct kolo_request *requests[ROUNDS] = {NULL};
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        sides[i] = side_create(rank);
        struct side *side = sides[i];
        const struct kolo_opts opts = {.size = sizeof opts, .stream = sides[0]->stream};
        fill(side, rank, i);
        mock->write_on(sides[0]->stream, side->send, side->values, BYTES);
        WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts,
                                 &requests[i]));
        WORLD_TRY(copy_on(sides[0]->stream, side->copy, side->recv));
    }
    WORLD_TRY(drain(sides[0]->stream)); /* it must go on without kolo_wait */
    for (int i = 0; i < ROUNDS; i++) {
        int32_t got[COUNT];
        mock->read(sides[i]->copy, got, BYTES);
        WORLD_EXPECT(is_sum(got, size, i), "round %d on rank %d of %d", i, rank, size);
    }
    for (int i = 0; i < ROUNDS; i++) {
        WORLD_TRY(kolo_wait(&requests[i], -1));
        free(sides[i]);
    }
    WORLD_EXPECT(nothing_follows(comm), "rank %d of %d", rank, size);
    return KOLO_OK;
}

struct setup {
    int size;
    char transport[8], settings[40];
};

ParameterizedTestParameters(stream, work_before_and_after_is_in_order)
{
    static struct setup setups[] = {{1, "inproc", "KOLO_PLAN=auto"},
                                    {2, "inproc", "KOLO_PLAN=auto"},
                                    {3, "tcp", "KOLO_STAGE_BYTES=4KiB"},
                                    {4, "shm", "KOLO_PLAN=auto"},
                                    {4, "tcp", "KOLO_PLAN=ring"}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, stream, work_before_and_after_is_in_order, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct world world = {
            .size = setup->size, .transport = setup->transport, .settings = {setup->settings}};
        begin(seed);
        WORLD_MUST_RUN(&world, rounds_of_work, NULL);
        cr_assert_eq(mock->registered(), 0);
    }
}

/** Calls in place, which depend on each other; persistent ones; and one that is waited for at
 * once. */
static kolo_status calls_in_place(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    struct side *side = side_create(rank);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream},
                           again = {.size = sizeof again,
                                    .stream = side->stream,
                                    .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL;
    int32_t got[COUNT];
    (void)argument;
    fill(side, rank, 0);
    mock->write_on(side->stream, side->send, side->values, BYTES);
    WORLD_TRY(kolo_allreduce(comm, side->send, side->send, COUNT, KOLO_INT32, KOLO_SUM, &again,
                             &request));
    for (int i = 0; i < 3; i++) {
        WORLD_TRY(i == 1 ? kolo_run(request) : kolo_start(request));
        if (i != 1)
            WORLD_TRY(kolo_wait(&request, -1));
        WORLD_TRY(copy_on(side->stream, side->copy, side->send));
    }
    WORLD_TRY(kolo_request_free(&request));
    WORLD_TRY(kolo_allreduce(comm, side->copy, side->recv, COUNT, KOLO_INT32, KOLO_MIN, &opts,
                             NULL)); /* of the data that the stream has just copied */
    mock->read(side->recv, got, BYTES);
    for (int i = 0; i < COUNT; i++)
        WORLD_EXPECT(got[i] == size * size * (size * (size + 1) / 2 * 1000 + size * i),
                     "element %d: %d", i, got[i]);
    free(side);
    return KOLO_OK;
}

Test(stream, requests_that_repeat_and_blocking_calls_follow_it_too, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct world world = {.size = 3, .transport = seed % 2 ? "inproc" : "tcp"};
        begin(seed);
        WORLD_MUST_RUN(&world, calls_in_place, NULL);
    }
}

/** The default streams, as CUDA's header names them. A stream of the program that was made without
 * cudaStreamNonBlocking writes before the call and reads after it: it is in the order of the legacy
 * default stream. */
static kolo_status on_default_streams(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    struct side *side = side_create(rank);
    struct kolo_request *request = NULL;
    int32_t got[COUNT];
    (void)argument;
    mock->set_current(rank % MOCK_DEVICES);
    for (uintptr_t handle = 1; handle <= 2; handle++) { /* CU_STREAM_LEGACY, _PER_THREAD */
        void *stream = (void *)handle, *beside = handle == 1 ? side->stream : stream;
        const struct kolo_opts opts = {.size = sizeof opts, .stream = stream};
        fill(side, rank, (int)handle);
        mock->write_on(beside, side->send, side->values, BYTES);
        WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts,
                                 &request));
        WORLD_TRY(copy_on(beside, side->copy, side->recv));
        WORLD_TRY(drain(beside));
        mock->read(side->copy, got, BYTES);
        WORLD_EXPECT(is_sum(got, size, (int)handle), "handle %d on rank %d", (int)handle, rank);
        WORLD_TRY(kolo_wait(&request, -1));
    }
    mock->set_current(-1);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = (void *)(uintptr_t)1};
    WORLD_EXPECT(says(kolo_barrier(comm, &opts, NULL), KOLO_ERR_INVALID, "is not a CUDA stream"),
                 "%s", kolo_error_detail());
    free(side);
    return KOLO_OK;
}

Test(stream, default_streams_are_followed_too, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct world world = {.size = 2, .transport = seed % 2 ? "inproc" : "tcp"};
        begin(seed);
        WORLD_MUST_RUN(&world, on_default_streams, NULL);
        cr_assert_eq(mock->registered(), 0);
    }
}

/** Host memory, which the stream writes before and reads after a call; and a barrier, which has no
 * memory. */
static kolo_status host_memory(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    struct side *side = side_create(rank);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *sum = NULL, *barrier = NULL;
    int32_t got[COUNT];
    void *send = NULL, *recv = NULL;
    (void)argument;
    mock->set_current(rank % MOCK_DEVICES); /* so that this memory is locked at once */
    WORLD_TRY(kolo_alloc(comm, BYTES, &send));
    WORLD_TRY(kolo_alloc(comm, BYTES, &recv));
    fill(side, rank, 0);
    mock->write_on(side->stream, side->send, side->values, BYTES);
    WORLD_TRY(copy_on(side->stream, send, side->send));
    WORLD_TRY(kolo_allreduce(comm, send, recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &sum));
    WORLD_TRY(copy_on(side->stream, side->recv, recv));
    WORLD_TRY(kolo_barrier(comm, &opts, &barrier));
    WORLD_TRY(copy_on(side->stream, side->copy, side->recv));
    WORLD_TRY(drain(side->stream));
    mock->read(side->copy, got, BYTES);
    WORLD_EXPECT(is_sum(got, size, 0), "the copy of the host's result");
    WORLD_TRY(kolo_wait(&sum, -1));
    WORLD_TRY(kolo_wait(&barrier, -1));
    free(side);
    return KOLO_OK;
}

ParameterizedTestParameters(stream, memory_of_the_hosts_is_in_order_too)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}

ParameterizedTest(struct world_param *param, stream, memory_of_the_hosts_is_in_order_too,
                  .timeout = 120)
{
    struct world world = {.size = 3, .transport = param->name};
    begin(7);
    WORLD_MUST_RUN(&world, host_memory, NULL);
}

/* ---- which waits depend on which ---- */

/** Makes a stream wait until the word at @p flag is 1. */
static void hold_up(void *stream, uint32_t *flag)
{
    static const uint32_t zero = 0;
    mock->write(flag, &zero, sizeof zero);
    mock->await(stream, flag, 1);
}

static void let_go(uint32_t *flag)
{
    static const uint32_t one = 1;
    mock->write(flag, &one, sizeof one);
}

/** Calls without a stream, on another communicator, are not delayed by those that wait for their
 * stream. */
static kolo_status others_pass(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    struct kolo_request *request = NULL, *other = NULL;
    struct kolo_comm *second = NULL;
    int32_t one = 1, sum = 0;
    (void)argument;
    WORLD_TRY(kolo_dup(comm, NULL, &second));
    hold_up(side->stream, flag);
    WORLD_TRY(
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request));
    WORLD_TRY(kolo_allreduce(second, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, &other));
    WORLD_TRY(kolo_wait(&other, -1));
    WORLD_EXPECT(sum == kolo_size(comm), "%d", sum);
    WORLD_EXPECT(kolo_test(&request) == KOLO_AGAIN, "it did not wait for its stream");
    let_go(flag);
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_TRY(kolo_finalize(second));
    free(side);
    return KOLO_OK;
}

Test(stream, a_call_that_waits_for_its_stream_holds_up_nothing_else, .timeout = 120)
{
    struct world world = {.size = 2, .transport = "inproc"};
    begin(3);
    WORLD_MUST_RUN(&world, others_pass, NULL);
}

/** The first call on such memory is behind work that ends after the call has returned. A driver
 * that loads kernels waits for all earlier work, so they are there by then. */
static kolo_status first_call(struct kolo_comm *comm, void *argument)
{
    const int device = kolo_rank(comm);
    void *stream = mock->stream(device), *memory = NULL;
    const struct kolo_opts opts = {.size = sizeof opts, .stream = stream};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, device, 4);
    struct kolo_request *request = NULL;
    (void)argument;
    WORLD_TRY(kolo_alloc_device(comm, BYTES, device, &memory));
    hold_up(stream, flag);
    WORLD_TRY(kolo_allreduce(comm, memory, memory, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request));
    WORLD_EXPECT(kolo_test(&request) == KOLO_AGAIN, "it did not wait for its stream");
    let_go(flag);
    WORLD_TRY(kolo_wait(&request, -1));
    return kolo_free(comm, memory);
}

Test(stream, the_first_call_on_allocated_memory_does_not_wait_for_the_device, .timeout = 60)
{
    struct world world = {.size = 2};
    begin(5);
    WORLD_MUST_RUN(&world, first_call, NULL);
}

/** All calls are started before one may begin, each on a stream of its own; the streams then go on
 * in another order. */
static kolo_status many(struct kolo_comm *comm, void *argument)
{
    static struct kolo_request *requests[4][MANY];
    static uint32_t *flags[4][3];
    const int rank = kolo_rank(comm);
    void *streams[3];
    int32_t(*values)[2] = calloc(MANY, sizeof *values);
    (void)argument;
    for (int i = 0; i < 3; i++) {
        streams[i] = mock->stream(0);
        flags[rank][i] = mock->alloc(MOCK_DEVICE, 0, 4);
        hold_up(streams[i], flags[rank][i]);
    }
    for (int i = 0; i < MANY; i++) {
        const struct kolo_opts opts = {.size = sizeof opts, .stream = streams[i % 3]};
        values[i][0] = rank + i;
        requests[rank][i] = NULL;
        WORLD_TRY(kolo_allreduce(comm, &values[i][0], &values[i][1], 1, KOLO_INT32, KOLO_SUM, &opts,
                                 &requests[rank][i]));
    }
    for (int i = 0; i < 3; i++)
        let_go(flags[rank][(i + rank) % 3]);
    for (int i = 0; i < 3; i++)
        WORLD_TRY(drain(streams[i]));
    for (int i = 0; i < MANY; i++) {
        WORLD_TRY(kolo_wait(&requests[rank][i], -1));
        WORLD_EXPECT(values[i][1] == 2 * i + 1, "call %d: %d", i, values[i][1]);
    }
    free(values);
    return KOLO_OK;
}

Test(stream, many_wait_at_once, .timeout = 120)
{
    struct world world = {.size = 2, .transport = "inproc"};
    begin(4);
    mock->delays(4, 20);
    WORLD_MUST_RUN(&world, many, NULL);
    cr_assert_eq(mock->registered(), 0);
}

/** Rank 1 calls when rank 0 is about to lock and unlock pages. Its driver does that only once the
 * stream is idle, and hence after the call. */
static kolo_status lock_meanwhile(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    void *memory = NULL;
    int32_t got[COUNT];
    (void)argument;
    mock->set_current(kolo_rank(comm)); /* in a shared context rank 1 could not lock anything */
    WORLD_TRY(kolo_alloc(comm, BYTES, &memory));
    for (int i = 0; i < 3; i++) {
        fill(side, kolo_rank(comm), i);
        mock->write_on(side->stream, side->send, side->values, BYTES);
        if (kolo_rank(comm) == 1)
            WORLD_TRY(kolo_recv(comm, got, 1, KOLO_INT32, 0, NULL, NULL));
        WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts,
                                 &request));
        if (kolo_rank(comm) == 0)
            WORLD_TRY(kolo_send(comm, got, 1, KOLO_INT32, 1, NULL, NULL));
        WORLD_TRY(kolo_free(comm, memory));
        WORLD_TRY(kolo_alloc(comm, BYTES, &memory));
        WORLD_TRY(kolo_wait(&request, -1));
        mock->read(side->recv, got, BYTES);
        WORLD_EXPECT(is_sum(got, 2, i), "round %d", i);
    }
    free(side);
    return KOLO_OK;
}

Test(stream, a_driver_that_locks_pages_slowly_holds_up_no_call_in_progress, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct world world = {.size = 2,
                              .transport = seed % 2 ? "shm" : "tcp",
                              .settings = {"KOLO_SHM_DIRECT_BYTES=1KiB", NULL}};
        begin(seed);
        mock->lock_slowly(1);
        WORLD_MUST_RUN(&world, lock_meanwhile, NULL);
        WORLD_MUST_RUN(&world, rounds_of_work, NULL);
        cr_assert_eq(mock->registered(), 0);
    }
}

/** Rank 0 queues calls behind its own calls until the driver blocks its thread; only then rank 1
 * calls. */
static kolo_status call_until_held(struct kolo_comm *comm, void *argument)
{
    enum { CALLS = 70 };
    const bool aborts = argument != NULL;
    const struct kolo_opts opts = {.size = sizeof opts,
                                   .stream = kolo_rank(comm) == 0 ? mock->stream(0) : NULL};
    struct kolo_request *requests[CALLS] = {NULL};
    int32_t values[CALLS][2], last = 1, sum = 0;
    kolo_status status = KOLO_OK;
    WORLD_EXPECT(kolo_rank(comm) != 1 || AWAIT(mock->blocked() > 0), "nothing waits");
    if (kolo_rank(comm) == 1 && aborts)
        kolo_abort(comm, "enough");
    for (int i = 0; i < CALLS && status == KOLO_OK; i++) {
        values[i][0] = kolo_rank(comm) + i;
        status = kolo_allreduce(comm, &values[i][0], &values[i][1], 1, KOLO_INT32, KOLO_SUM, &opts,
                                &requests[i]);
    }
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, &last, &sum, 1, KOLO_INT32, KOLO_SUM, &opts, NULL);
    if (opts.stream) /* a refused call must leave nothing in the stream */
        WORLD_TRY(drain(opts.stream));
    if (aborts)
        return status;
    WORLD_TRY(status);
    WORLD_EXPECT(sum == 2, "%d", sum);
    for (int i = 0; i < CALLS; i++) {
        WORLD_TRY(kolo_wait(&requests[i], -1));
        WORLD_EXPECT(values[i][1] == 2 * i + 1, "call %d: %d", i, values[i][1]);
    }
    return KOLO_OK;
}

Test(stream, a_driver_whose_queue_is_full_holds_the_caller_alone, .timeout = 60)
{
    for (int longest = 1; longest < 8; longest++) {
        struct world world = {.size = 2, .transport = longest % 2 ? "shm" : "tcp"};
        begin((unsigned)longest);
        mock->delays(1, 20);
        mock->queue(longest);
        WORLD_MUST_RUN(&world, call_until_held, NULL);
        const kolo_status status = world_run(&world, call_until_held, &world);
        cr_assert_eq(status, KOLO_ERR_ABORTED, "%s", world_cause(&world)->text);
        cr_assert_eq(mock->registered(), 0);
    }
}

Test(stream, a_driver_that_locks_a_page_of_gates_slowly_holds_the_caller_alone, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "shm"};
    begin(1);
    mock->delays(1, 20);
    mock->lock_slowly(1);
    WORLD_MUST_RUN(&world, call_until_held, NULL);
    const kolo_status status = world_run(&world, call_until_held, &world);
    cr_assert_eq(status, KOLO_ERR_ABORTED, "%s", world_cause(&world)->text);
}

struct caller {
    struct kolo_comm *comm;
    void *stream;
    kolo_status status;
};

static void *call_often(void *argument)
{
    enum { OFTEN = 40 };
    struct caller *caller = argument;
    const struct kolo_opts opts = {.size = sizeof opts, .stream = caller->stream};
    struct kolo_request *requests[OFTEN] = {NULL};
    int32_t one = 1, sums[OFTEN];
    for (int i = 0; i < OFTEN && caller->status == KOLO_OK; i++)
        caller->status = kolo_allreduce(caller->comm, &one, &sums[i], 1, KOLO_INT32, KOLO_SUM,
                                        &opts, i % 8 == 7 ? NULL : &requests[i]);
    for (int i = 0; i < OFTEN && caller->status == KOLO_OK; i++)
        caller->status = kolo_wait(&requests[i], -1);
    return NULL;
}

/** Calls whose order in the stream differed from that in the engine would wait for each other. */
static kolo_status call_from_threads(struct kolo_comm *comm, void *argument)
{
    enum { THREADS = 3 };
    void *stream = mock->stream(kolo_rank(comm) % MOCK_DEVICES);
    pthread_t threads[THREADS];
    struct caller callers[THREADS];
    (void)argument;
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){comm, stream, KOLO_OK};
        WORLD_EXPECT(pthread_create(&threads[i], NULL, call_often, &callers[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        WORLD_TRY(callers[i].status);
    return drain(stream);
}

Test(stream, calls_of_several_threads_are_in_one_order, .timeout = 60)
{
    for (int longest = 1; longest < 8; longest++) {
        struct world world = {.size = 2, .transport = "inproc"};
        begin((unsigned)longest + 1);
        mock->delays(1, 20);
        mock->queue(longest);
        WORLD_MUST_RUN(&world, call_from_threads, NULL);
    }
}

/** A call with a shorter deadline than the time for which the driver blocks another thread returns
 * an error, and the communicator still works. */
static kolo_status behind_a_held_call(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {
        .size = sizeof opts, .stream = mock->stream(0), .timeout_ms = 50};
    const struct kolo_opts patient = {.size = sizeof patient, .stream = opts.stream};
    struct caller caller = {comm, mock->stream(0), KOLO_OK};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    struct kolo_request *request = NULL;
    pthread_t thread;
    (void)argument;
    hold_up(caller.stream, flag);
    WORLD_EXPECT(pthread_create(&thread, NULL, call_often, &caller) == 0, "no thread");
    WORLD_EXPECT(AWAIT(mock->blocked() > 0), "nothing waits");
    const kolo_status status = kolo_barrier(comm, &opts, &request);
    let_go(flag);
    (void)pthread_join(thread, NULL);
    WORLD_EXPECT(says(status, KOLO_ERR_TIMEOUT, "has not been put into its stream"), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    WORLD_TRY(caller.status);
    return kolo_barrier(comm, &patient, NULL);
}

Test(stream, who_waits_for_a_place_in_a_stream_does_so_by_its_deadline, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    begin(1);
    mock->delays(1, 20);
    mock->queue(2);
    WORLD_MUST_RUN(&world, behind_a_held_call, NULL);
}

/** Two results, of which only one is kept. The pages that stood in for the other are unlocked, for
 * which the driver waits for a stream that ends only after kolo_wait. */
static kolo_status give_up_slabs(struct kolo_comm *comm, void *argument)
{
    enum { LARGE = 70 << 20 };
    uint32_t *flags = mock->alloc(MOCK_NO_CONTEXT, 0, 8);
    void *stream = mock->stream(0), *other = mock->stream(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = stream};
    struct kolo_request *requests[2] = {NULL};
    (void)argument;
    hold_up(stream, &flags[0]);
    for (int i = 0; i < 2; i++) {
        void *memory = mock->alloc(MOCK_DEVICE, 0, LARGE);
        WORLD_TRY(
            kolo_allreduce(comm, memory, memory, LARGE, KOLO_UINT8, KOLO_SUM, &opts, &requests[i]));
    }
    hold_up(other, &flags[1]);
    mock->lock_slowly(1);
    let_go(&flags[0]);
    for (int i = 0; i < 2; i++)
        WORLD_TRY(kolo_wait(&requests[i], -1));
    WORLD_EXPECT(driver()->stream_query(other) == KOLO_CUDA_NOT_READY, "nothing was held up");
    let_go(&flags[1]);
    return KOLO_OK;
}

Test(stream, who_waits_for_a_call_does_not_wait_for_pages_to_be_unlocked, .timeout = 120)
{
    struct world world = {.size = 1, .transport = "inproc"};
    begin(1);
    WORLD_MUST_RUN(&world, give_up_slabs, NULL);
    cr_assert_eq(mock->registered(), 0);
}

/* ---- beside captures of others ---- */

/** Another thread of the program captures a stream meanwhile, in a context of its own or in this
 * one. */
static kolo_status beside_a_capture(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    int32_t got[COUNT];
    (void)argument;
    for (int round = 0; round < 3; round++) {
        fill(side, kolo_rank(comm), round);
        mock->write_on(side->stream, side->send, side->values, BYTES);
        WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts,
                                 round == 0 ? NULL : &request));
        WORLD_TRY(kolo_wait(&request, -1));
        mock->read(side->recv, got, BYTES);
        WORLD_EXPECT(is_sum(got, kolo_size(comm), round), "round %d", round);
        WORLD_EXPECT(mock->capture_mode() == 0, "the thread's mode is not what it was");
    }
    free(side);
    return KOLO_OK;
}

Test(stream, a_capture_of_another_stream_and_calls_do_not_spoil_each_other, .timeout = 120)
{
    for (int device = 0; device < MOCK_DEVICES; device++) {
        struct world world = {.size = 3, .transport = "inproc"};
        begin(9);
        void *captured = mock->stream(device);
        (void)mock->capture(captured, MOCK_CAPTURE_GLOBAL);
        WORLD_MUST_RUN(&world, beside_a_capture, NULL);
        cr_assert(mock->capture(captured, MOCK_NO_CAPTURE));
    }
}

/* ---- how it fails ---- */

/** None of these errors fails the communicator. */
static kolo_status refusals(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    int32_t one = 1, sum = 0;
    (void)argument;
#define REFUSED(status, words, call)                                                               \
    WORLD_EXPECT(says(call, status, words), "line %d: %s", __LINE__, kolo_error_detail())
#define CALL(out) kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, &opts, out)
    REFUSED(KOLO_ERR_UNSUPPORTED, "for collectives",
            kolo_send(comm, &one, 1, KOLO_INT32, 0, &opts, &request));
    REFUSED(KOLO_ERR_UNSUPPORTED, "for collectives",
            kolo_recv(comm, &one, 1, KOLO_INT32, 0, &opts, &request));
    WORLD_TRY(kolo_group_begin(comm));
    REFUSED(KOLO_ERR_UNSUPPORTED, "a group cannot follow a stream", CALL(NULL));
    REFUSED(KOLO_ERR_UNSUPPORTED, "a group cannot follow a stream",
            kolo_group_end(comm, NULL, NULL));
    WORLD_TRY(kolo_group_begin(comm));
    REFUSED(KOLO_ERR_UNSUPPORTED, "a group cannot follow a stream",
            kolo_group_end(comm, &opts, NULL));
    struct kolo_request *again = NULL;
    opts.flags = KOLO_PERSISTENT;
    WORLD_TRY(CALL(&again));
    opts.flags = 0;
    mock->capture(side->stream, MOCK_CAPTURE);
    REFUSED(KOLO_ERR_UNSUPPORTED, "is captured into a graph", kolo_start(again));
    REFUSED(KOLO_ERR_UNSUPPORTED, "is captured into a graph", kolo_run(again));
    REFUSED(KOLO_ERR_UNSUPPORTED, "is captured into a graph", CALL(&request));
    REFUSED(KOLO_ERR_UNSUPPORTED, "is captured into a graph", CALL(NULL));
    WORLD_EXPECT(mock->capture(side->stream, MOCK_NO_CAPTURE), "the capture is spoilt");
    opts.stream = &one;
    REFUSED(KOLO_ERR_INVALID, "is not a CUDA stream", CALL(&request));
    opts.stream = side->stream;
    WORLD_EXPECT(request == NULL, "there is a request");
    WORLD_TRY(kolo_run(again));
    WORLD_TRY(kolo_request_free(&again));
    WORLD_TRY(CALL(&request));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_EXPECT(sum == kolo_size(comm), "%d", sum);
    free(side);
    return KOLO_OK;
}

Test(stream, what_it_cannot_do_is_refused, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc"};
    begin(5);
    WORLD_MUST_RUN(&world, refusals, NULL);
}

/** Every collective, with device memory. */
static kolo_status collective(struct kolo_comm *comm, int which, void *memory,
                              const struct kolo_opts *opts, struct kolo_request **out)
{
    static const size_t counts[] = {1, 1}, displs[] = {0, 1};
    int32_t *send = memory, *recv = send + 16;
    switch (which) {
    case 0:
        return kolo_allreduce(comm, send, recv, 1, KOLO_INT32, KOLO_SUM, opts, out);
    case 1:
        return kolo_reduce(comm, send, recv, 1, KOLO_INT32, KOLO_SUM, 0, opts, out);
    case 2:
        return kolo_broadcast(comm, send, 1, KOLO_INT32, 0, opts, out);
    case 3:
        return kolo_allgather(comm, send, recv, 1, KOLO_INT32, opts, out);
    case 4:
        return kolo_allgatherv(comm, send, recv, counts, displs, KOLO_INT32, opts, out);
    case 5:
        return kolo_reduce_scatter(comm, send, recv, 1, KOLO_INT32, KOLO_SUM, opts, out);
    case 6:
        return kolo_gather(comm, send, recv, 1, KOLO_INT32, 0, opts, out);
    case 7:
        return kolo_gatherv(comm, send, recv, counts, displs, KOLO_INT32, 0, opts, out);
    case 8:
        return kolo_scatter(comm, send, recv, 1, KOLO_INT32, 0, opts, out);
    case 9:
        return kolo_scatterv(comm, send, counts, displs, recv, KOLO_INT32, 0, opts, out);
    case 10:
        return kolo_reduce_scatterv(comm, send, recv, counts, KOLO_INT32, KOLO_SUM, opts, out);
    case 11:
        return kolo_alltoall(comm, send, recv, 1, KOLO_INT32, opts, out);
    case 12:
        return kolo_alltoallv(comm, send, counts, displs, recv, counts, displs, KOLO_INT32, opts,
                              out);
    case 13:
        return kolo_barrier(comm, opts, out);
    default:
        return kolo_fail(KOLO_ERR_INTERNAL, "there is no collective %d", which);
    }
}
enum { COLLECTIVES = 14 };

/** As if another thread were in kolo_metrics_compute. */
static void *bind_main(void *comm)
{
    kolo_comm_bind(comm, true);
    return NULL;
}

/** @p argument: whether the captured stream is the call's; otherwise it is another one of the
 * context. */
static kolo_status in_a_capture(struct kolo_comm *comm, void *argument)
{
    const bool is_followed = *(const bool *)argument;
    const int rank = kolo_rank(comm);
    void *stream = mock->stream(rank), *memory = mock->alloc(MOCK_DEVICE, rank, BYTES);
    struct kolo_opts opts = {.size = sizeof opts, .stream = is_followed ? stream : NULL};
    struct kolo_request *request = NULL, *again = NULL;
    void *allocated = NULL;
    pthread_t thread;
    static const char words[] = "is captured into a graph";
    WORLD_TRY(kolo_alloc_device(comm, BYTES, rank, &allocated));
    opts.flags = KOLO_PERSISTENT;
    WORLD_TRY(collective(comm, 0, memory, &opts, &again));
    opts.flags = 0;
    (void)mock->capture(stream, MOCK_CAPTURE);
    for (int which = 0; which < COLLECTIVES - !is_followed; which++) { /* a barrier has no memory */
        REFUSED(KOLO_ERR_UNSUPPORTED, words, collective(comm, which, memory, &opts, NULL));
        REFUSED(KOLO_ERR_UNSUPPORTED, words, collective(comm, which, memory, &opts, &request));
        WORLD_EXPECT(request == NULL, "collective %d: there is a request", which);
    }
    REFUSED(KOLO_ERR_UNSUPPORTED, words, kolo_start(again));
    REFUSED(KOLO_ERR_UNSUPPORTED, words, kolo_run(again));
    REFUSED(KOLO_ERR_UNSUPPORTED, words,
            kolo_send(comm, memory, 1, KOLO_INT32, 1 - rank, NULL, NULL));
    REFUSED(KOLO_ERR_UNSUPPORTED, words,
            kolo_recv(comm, memory, 1, KOLO_INT32, 1 - rank, NULL, &request));
    WORLD_EXPECT(pthread_create(&thread, NULL, bind_main, comm) == 0, "no thread");
    pthread_join(thread, NULL);
    REFUSED(KOLO_ERR_UNSUPPORTED, words,
            kolo_recv(comm, memory, 1, KOLO_INT32, 1 - rank, NULL, NULL));
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_recv(comm, (int32_t *)memory + 8, 1, KOLO_INT32, 1 - rank, NULL, NULL));
    WORLD_TRY(collective(comm, 3, memory, NULL, NULL));
    REFUSED(KOLO_ERR_UNSUPPORTED, words, kolo_group_end(comm, NULL, &request));
    REFUSED(KOLO_ERR_UNSUPPORTED, words, kolo_free(comm, allocated));
    (void)mock->capture(stream, MOCK_NO_CAPTURE);
    WORLD_TRY(drain(stream));
    WORLD_TRY(kolo_free(comm, allocated));
    WORLD_TRY(kolo_run(again));
    WORLD_TRY(kolo_request_free(&again));
    for (int which = 0; which < COLLECTIVES; which++)
        WORLD_TRY(collective(comm, which, memory, &opts, NULL));
    return KOLO_OK;
}

Test(stream, in_a_capture_all_calls_are_refused_and_nothing_is_left, .timeout = 60)
{
    for (int is_followed = 0; is_followed < 2; is_followed++) {
        struct world world = {.size = 2, .transport = "tcp"};
        bool argument = is_followed != 0;
        begin(1);
        WORLD_MUST_RUN(&world, in_a_capture, &argument);
        cr_assert_eq(mock->registered(), 0);
    }
}

static kolo_status with_no_driver(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *child = NULL;
    int32_t one = 1, sum = 0;
    const struct kolo_opts opts = {.size = sizeof opts, .stream = &one};
    struct kolo_request *request = NULL;
    (void)argument;
    REFUSED(KOLO_ERR_UNSUPPORTED, "no driver of devices is loaded", CALL(&request));
    REFUSED(KOLO_ERR_UNSUPPORTED, "no driver of devices is loaded",
            kolo_barrier(comm, &opts, NULL));
    REFUSED(KOLO_ERR_UNSUPPORTED, "for collectives", kolo_dup(comm, &opts, &child));
    REFUSED(KOLO_ERR_UNSUPPORTED, "for collectives", kolo_shrink(comm, &opts, &child));
    return kolo_barrier(comm, NULL, NULL);
}

Test(stream, a_process_without_a_driver_is_told_so, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc"};
    WORLD_MUST_RUN(&world, with_no_driver, NULL);
}

/** With such a device, blocking calls still follow its streams. */
static kolo_status without_waits(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    int32_t one = 1, sum = 0;
    (void)argument;
    mock->fail("cuDeviceGetAttribute", 1, KOLO_CUDA_NOT_SUPPORTED);
    REFUSED(KOLO_ERR_UNSUPPORTED, "cannot wait for the host", CALL(&request));
    WORLD_TRY(CALL(NULL));
    WORLD_EXPECT(sum == 1, "%d", sum);
    free(side);
    return KOLO_OK;
}

Test(stream, a_device_whose_streams_cannot_wait_is_told_of, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    begin(6);
    WORLD_MUST_RUN(&world, without_waits, NULL);
}

/** @p argument 0: rank 1 makes no call, but aborts; 1: its stream never reaches the call. */
static kolo_status a_call_that_fails(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    const int rank = kolo_rank(comm), is_stuck = *(const int *)argument;
    const struct kolo_opts opts = {
        .size = sizeof opts, .stream = side->stream, .timeout_ms = is_stuck && rank == 1 ? 300 : 0};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    struct kolo_request *request = NULL;
    /* otherwise a rank that is still starting would get the abort at its start */
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status != KOLO_OK) {
        free(side);
        return status;
    }
    if (rank == 1 && !is_stuck) {
        kolo_abort(comm, "enough");
        free(side);
        return kolo_barrier(comm, NULL, NULL);
    }
    if (rank == 1)
        hold_up(side->stream, flag);
    status =
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request);
    if (status == KOLO_OK)
        status = kolo_wait(&request, -1);
    let_go(flag);
    char detail[KOLO_DETAIL_MAX];
    strcpy(detail, kolo_error_detail());
    WORLD_TRY(drain(side->stream)); /* it no longer waits for a call that failed */
    free(side);
    return kolo_fail(status, "%s", detail);
}

Test(stream, a_stream_goes_on_when_the_call_it_waits_for_fails, .timeout = 120)
{
    static const kolo_status expected[] = {KOLO_ERR_ABORTED, KOLO_ERR_TIMEOUT};
    static const char *const words[] = {"enough", "the earlier work of its stream"};
    for (int is_stuck = 0; is_stuck < 2; is_stuck++) {
        struct world world = {.size = 3, .transport = "tcp"};
        begin(8);
        const kolo_status status = world_run(&world, a_call_that_fails, &is_stuck);
        cr_assert_eq(status, expected[is_stuck], "%s", world_cause(&world)->text);
        cr_assert_not_null(strstr(world_cause(&world)->text, words[is_stuck]), "%s",
                           world_cause(&world)->text);
    }
}

/** A failure of the driver is reported, nothing hangs, and the stream goes on. With an argument the
 * device may also be lost when the call is over. */
static kolo_status one_call(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    const bool may_be_late = argument != NULL;
    kolo_status status =
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request);
    if (status == KOLO_OK)
        status = kolo_wait(&request, -1);
    if (status != KOLO_OK)
        WORLD_EXPECT(strlen(kolo_error_detail()) > 0, "no words");
    WORLD_EXPECT(nothing_follows(comm), "after %s", kolo_error_detail());
    const int drained = driver()->stream_synchronize(side->stream);
    WORLD_EXPECT(status != KOLO_OK || drained == KOLO_CUDA_SUCCESS || may_be_late, "%d", drained);
    free(side);
    return status;
}

static const char *const functions[] = {
    "cuStreamGetCtx",       "cuStreamIsCapturing",          "cuCtxPushCurrent_v2",
    "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuLaunchHostFunc",
    "cuStreamBatchMemOp_v2"};

Test(stream, a_driver_that_fails_is_told_of, .timeout = 200)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int nth = 1; nth <= 4; nth++) {
            struct world world = {.size = 1, .transport = "inproc"};
            begin((unsigned)nth);
            mock->fail(functions[i], nth, KOLO_CUDA_OUT_OF_MEMORY);
            (void)world_run(&world, one_call, NULL);
            mock->fail("", 1, 0);
            begin((unsigned)nth);
            world = (struct world){.size = 1, .transport = "inproc"};
            WORLD_MUST_RUN(&world, one_call, NULL);
        }
}

/** The device is lost at each operation of its streams in turn: the stream reaches the call, the
 * data is copied, an event is recorded. The call may be over when the later ones come: one that
 * waits for the event and one that tells of it, and the one that ends the stream's wait. */
Test(stream, a_device_that_is_lost_ends_the_call, .timeout = 200)
{
    for (int nth = 1; nth < 7; nth++) {
        struct world world = {.size = 1, .transport = "inproc"};
        const bool may_be_late = nth > 3;
        mock = mock_cuda_load();
        mock->fail("", 1, 0);
        begin((unsigned)nth);
        mock->fail_async(nth, KOLO_CUDA_ILLEGAL_ADDRESS);
        const kolo_status status = world_run(&world, one_call, may_be_late ? &world : NULL);
        cr_assert(status == KOLO_ERR_SYSTEM || (status == KOLO_OK && may_be_late), "%d: %s", nth,
                  world_cause(&world)->text);
    }
}

/* ---- while the program waits for all streams ---- */

/** Once a thread waits for all streams, lets the stream that @p flag holds up reach its call. */
static void *let_go_when_blocked(void *flag)
{
    const bool is_blocked = AWAIT(mock->blocked() > 0);
    let_go(flag);
    return is_blocked ? flag : NULL;
}

/** Rank 0 frees memory while its stream waits for a call whose copies begin only then, and which
 * rank 1 makes only when the memory is free. */
static kolo_status free_before_it_is_over(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream, .timeout_ms = 2000};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    struct kolo_request *request = NULL;
    pthread_t helper;
    void *helped = NULL;
    int32_t one = 1;
    (void)argument;
    if (kolo_rank(comm) == 1) {
        free(side);
        return kolo_recv(comm, &one, 1, KOLO_INT32, 0, NULL, NULL);
    }
    hold_up(side->stream, flag);
    WORLD_TRY(
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request));
    WORLD_EXPECT(pthread_create(&helper, NULL, let_go_when_blocked, flag) == 0, "no thread");
    WORLD_TRY(on_stream(driver()->free((uintptr_t)side->copy)));
    (void)pthread_join(helper, &helped);
    WORLD_EXPECT(helped == flag, "nothing waited for the streams");
    const kolo_status status = kolo_wait(&request, -1);
    WORLD_EXPECT(says(status, KOLO_ERR_TIMEOUT, "waiting for CUDA, probably since a thread of"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    WORLD_TRY(drain(side->stream));
    WORLD_EXPECT(nothing_follows(comm), "rank 0");
    free(side);
    return kolo_fail(KOLO_ERR_TIMEOUT, "as it should");
}

/** Such a call and the collective wait for each other, until the collective's deadline. */
Test(stream, a_call_that_waits_for_all_streams_ends_by_the_deadline, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "tcp"};
    setenv("MOCK_CUDA_ALONE", "1", 1);
    begin(9);
    cr_assert_eq(world_run(&world, free_before_it_is_over, NULL), KOLO_ERR_TIMEOUT);
    cr_assert_str_eq(world_cause(&world)->text, "as it should");
}

enum { OURS = 11, THEIRS = 77, NEXT = 5000 };

static void fill_all(int32_t *values, int32_t value)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = value;
}

/** Rank 1 must not get a sum of what rank 0 did not mean. */
static kolo_status add_theirs(struct kolo_comm *comm, struct kolo_comm *second, int32_t *buffer)
{
    const struct kolo_opts longer = {.size = sizeof longer, .timeout_ms = 100000};
    int32_t one;
    fill_all(buffer, THEIRS);
    const kolo_status status =
        kolo_allreduce(comm, buffer, buffer, COUNT, KOLO_INT32, KOLO_SUM, &longer, NULL);
    WORLD_EXPECT(status != KOLO_OK || buffer[0] == OURS + THEIRS, "the sum is %d", buffer[0]);
    return kolo_recv(second, &one, 1, KOLO_INT32, 0, &longer, NULL);
}

/** The stream of rank 0 reads the result and writes the next input. The engine comes back from the
 * driver only when the stream was let go, and could still carry out the call then, because the
 * copies of another call keep it from its clock. */
static kolo_status use_after_it_was_let_go(struct kolo_comm *comm, struct kolo_comm *second,
                                           int32_t *buffer)
{
    static const int32_t one = 1;
    static int32_t next[COUNT];
    struct side *side = side_create(0);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream, .timeout_ms = 2000};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    struct kolo_request *request = NULL, *other = NULL, *never = NULL;
    int32_t nothing = 0, seen = 0;
    pthread_t helper;
    fill_all(buffer, OURS);
    fill_all(next, NEXT);
    WORLD_TRY(kolo_recv(comm, &nothing, 1, KOLO_INT32, 1, NULL, &never)); /* comm is busy first */
    mock->pace(0);
    WORLD_TRY(
        kolo_allreduce(second, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, &other));
    hold_up(side->stream, flag);
    WORLD_TRY(kolo_allreduce(comm, buffer, buffer, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request));
    WORLD_TRY(copy_on(side->stream, side->copy, buffer));
    mock->write_on(side->stream, buffer, next, BYTES);
    WORLD_EXPECT(pthread_create(&helper, NULL, let_go_when_blocked, flag) == 0, "no thread");
    WORLD_TRY(on_stream(driver()->free((uintptr_t)side->send)));
    (void)pthread_join(helper, NULL);
    const kolo_status status = kolo_wait(&request, -1);
    WORLD_TRY(drain(side->stream));
    mock->read(side->copy, &seen, sizeof seen);
    mock->pace(-1);
    WORLD_EXPECT(status != KOLO_OK || seen == OURS + THEIRS, "its stream saw %d", seen);
    free(side);
    return kolo_send(second, &one, 1, KOLO_INT32, 1, NULL, NULL);
}

static kolo_status two_ranks_add(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *second = NULL;
    void *buffer = NULL;
    (void)argument;
    mock->set_current(0);
    WORLD_TRY(kolo_dup(comm, NULL, &second));
    WORLD_TRY(kolo_alloc(comm, BYTES, &buffer));
    return kolo_rank(comm) == 0 ? use_after_it_was_let_go(comm, second, buffer)
                                : add_theirs(comm, second, buffer);
}

/** Sometimes the engine ends the call before the driver is closed to it: hence three times. */
Test(stream, what_a_stream_changed_that_was_let_go_is_no_result, .timeout = 120)
{
    setenv("MOCK_CUDA_ALONE", "1", 1);
    for (int i = 0; i < 3; i++) {
        struct world world = {.size = 2, .transport = "tcp"};
        begin(9);
        const kolo_status status = world_run(&world, two_ranks_add, NULL);
        cr_assert(status != KOLO_ERR_INTERNAL, "%s", world_cause(&world)->text);
    }
}

struct placing {
    struct kolo_comm *comm;
    struct side *side;
    struct kolo_request *request;
};

static void *place(void *argument)
{
    struct placing *placing = argument;
    const struct kolo_opts opts = {
        .size = sizeof opts, .stream = placing->side->stream, .timeout_ms = 500};
    (void)!kolo_allreduce(placing->comm, placing->side->send, placing->side->recv, COUNT,
                          KOLO_INT32, KOLO_SUM, &opts, &placing->request);
    return NULL;
}

static void *free_on_device(void *memory)
{
    (void)driver()->free((uintptr_t)memory);
    return NULL;
}

/** The thread that has put a gate into its stream waits for the engine's lock, whose owner waits
 * for the driver. */
static kolo_status free_while_a_call_begins(struct kolo_comm *comm, void *argument)
{
    struct placing placing = {.comm = comm, .side = side_create(0)};
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, 4);
    pthread_t caller, other;
    (void)argument;
    hold_up(placing.side->stream, flag);
    mock->queue(2);
    WORLD_EXPECT(pthread_create(&caller, NULL, place, &placing) == 0, "no thread");
    WORLD_EXPECT(AWAIT(mock->blocked() == 1), "it finds room");
    kolo_comm_enter(comm);
    mock->queue(0);
    WORLD_EXPECT(AWAIT(atomic_load(&comm->engine->wanting) == 1), "it is not in the stream");
    WORLD_EXPECT(pthread_create(&other, NULL, free_on_device, placing.side->copy) == 0, "none");
    WORLD_EXPECT(AWAIT(mock->blocked() == 1), "nothing waits for the streams");
    let_go(flag);
    (void)driver()->stream_query(placing.side->stream); /* as an engine does, with its lock */
    kolo_comm_leave(comm);
    (void)pthread_join(other, NULL);
    (void)pthread_join(caller, NULL);
    if (placing.request)
        (void)!kolo_wait(&placing.request, -1);
    free(placing.side);
    return KOLO_OK;
}

Test(stream, a_call_that_has_not_begun_is_let_go_too, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    setenv("MOCK_CUDA_ALONE", "1", 1);
    begin(9);
    (void)world_run(&world, free_while_a_call_begins, NULL);
}

/** Rank 2 ends while the stream of rank 0 waits for a call that rank 1 makes only when the engine
 * of rank 2 is gone, or wants to be. */
static kolo_status end_while_others_wait(struct kolo_comm *comm, struct side *side)
{
    const int rank = kolo_rank(comm);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    struct kolo_comm *two = NULL;
    const int64_t begun = kolo_now_ns();
    int32_t one = 1;
    WORLD_TRY(kolo_split(comm, rank == 2, 0, NULL, &two));
    WORLD_TRY(
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, &request));
    WORLD_TRY(kolo_wait(&request, -1));
    if (rank == 0) {
        WORLD_TRY(kolo_allreduce(two, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts,
                                 &request));
        WORLD_TRY(kolo_send(comm, &one, 1, KOLO_INT32, 2, NULL, NULL));
        WORLD_TRY(kolo_send(comm, &one, 1, KOLO_INT32, 1, NULL, NULL));
        return kolo_wait(&request, -1);
    }
    WORLD_TRY(kolo_recv(comm, &one, 1, KOLO_INT32, 0, NULL, NULL));
    if (rank == 2)
        return KOLO_OK;
    /* once rank 2 is at its end; 1 s is more than its end takes if it does not wait */
    (void)AWAIT(kolo_now_ns() > begun + INT64_C(1000000000));
    return kolo_allreduce(two, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, &opts, NULL);
}

static kolo_status with_a_side(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(0);
    (void)argument;
    const kolo_status status = end_while_others_wait(comm, side);
    free(side);
    return status;
}

Test(stream, a_rank_ends_while_the_stream_of_another_waits, .timeout = 60)
{
    struct world world = {.size = 3, .transport = "tcp", .settings = {"KOLO_TIMEOUT=20s", NULL}};
    setenv("MOCK_CUDA_ALONE", "1", 1);
    begin(9);
    WORLD_MUST_RUN(&world, with_a_side, NULL);
}
