// SPDX-License-Identifier: Apache-2.0
// runtime/staging_flow.c: calls over links whose device buffers are copied in segments while the
// plan runs, by every plan, against the same call on host memory, bit for bit. The mock's streams
// are late, and the host memory that stands in for the buffers still has the data of the previous
// call. So a step that does not wait for a segment, or a segment that is copied back too early,
// gives a wrong result.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "runtime/staging_private.h"
#include "tests/support/any_collective.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { COUNT = 9001, RANKS_MAX = 5, GAP = 700, BLOCK = COUNT + GAP };
enum { BYTES = RANKS_MAX * BLOCK * 4 };

static const struct mock_cuda *mock;

static void begin(unsigned seed, int most_us)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
    mock->delays(seed, most_us);
}

/* ---- how a buffer is divided ---- */

Test(staging_flow, segments_are_as_long_as_asked_for_and_not_too_many)
{
    cr_assert_eq(kolo_flow_segment_bytes(1, 4096), 4096);
    cr_assert_eq(kolo_flow_segment_bytes(1 << 18, 5000), 8192);
    for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes = bytes * 3 + 1) {
        const size_t segment = kolo_flow_segment_bytes(bytes, 1 << 20);
        cr_assert(segment >= 1 << 20 && segment % 4096 == 0 &&
                      (bytes + segment - 1) / segment <= 256,
                  "%zu bytes in segments of %zu", bytes, segment);
    }
}

/* ---- every plan ---- */

struct side {
    uint8_t send[BYTES], recv[BYTES], got[BYTES];
    uint8_t *device_send, *device_recv;
};

static kolo_status call(struct kolo_comm *comm, enum any_collective which, const uint8_t *send,
                        uint8_t *recv)
{
    return any_collective(comm,
                          &(struct any_call){.which = which,
                                             .dtype = KOLO_FLOAT32,
                                             .op = which == ANY_ALLREDUCE ? KOLO_AVERAGE : KOLO_SUM,
                                             .count = COUNT,
                                             .less = 1,
                                             .apart = BLOCK},
                          send, recv);
}

static void fill(uint8_t *buffer, int rank, int salt)
{
    for (size_t i = 0; i < BYTES / 4; i++) {
        const float x = (float)((i * 7 + (size_t)rank * 13 + (size_t)salt * 29) % 1009);
        memcpy(buffer + 4 * i, &x, 4);
    }
}

/** @p send_at: the position of the input of a call in place within its one buffer. */
static kolo_status check(struct kolo_comm *comm, struct side *side, enum any_collective which,
                         int salt, bool in_place, size_t send_at)
{
    fill(side->send, kolo_rank(comm), salt);
    fill(side->recv, kolo_rank(comm), salt + 50);
    mock->write(side->device_send, side->send, BYTES);
    mock->write(side->device_recv, side->recv, BYTES);
    kolo_status status =
        call(comm, which, in_place ? side->recv + send_at : side->send, side->recv);
    if (status == KOLO_OK)
        status = call(comm, which, in_place ? side->device_recv + send_at : side->device_send,
                      side->device_recv);
    if (status == KOLO_ERR_UNSUPPORTED) /* the plan does not support blocks of different lengths */
        return KOLO_OK;
    if (status != KOLO_OK)
        return status;
    mock->read(side->device_recv, side->got, BYTES);
    WORLD_EXPECT(memcmp(side->got, side->recv, BYTES) == 0, "collective %d%s, rank %d, round %d",
                 (int)which, in_place ? " in place" : "", kolo_rank(comm), salt);
    return KOLO_OK;
}

static kolo_status all_calls(struct kolo_comm *comm, void *argument)
{
    struct side *side = calloc(1, sizeof *side);
    const int device = kolo_rank(comm) % MOCK_DEVICES;
    kolo_status status = KOLO_OK;
    (void)argument;
    if (!side)
        abort();
    side->device_send = mock->alloc(MOCK_DEVICE, device, BYTES);
    side->device_recv = mock->alloc(MOCK_DEVICE, device, BYTES);
    for (int salt = 0; salt < 2 && status == KOLO_OK; salt++)
        for (int which = 0; which < ANY_COLLECTIVES && status == KOLO_OK; which++)
            status = check(comm, side, (enum any_collective)which, salt, false, 0);
    if (status == KOLO_OK)
        status = check(comm, side, ANY_ALLREDUCE, 7, true, 0);
    if (status == KOLO_OK)
        status = check(comm, side, ANY_ALLGATHERV, 8, true, (size_t)kolo_rank(comm) * BLOCK * 4);
    free(side);
    return status;
}

struct setup { /* no pointers, because the test runs in another process */
    int size;
    char transport[8], plan[24];
};

ParameterizedTestParameters(staging_flow, every_plan)
{
    static struct setup setups[] = {
        {2, "inproc", "KOLO_PLAN=ring"},     {3, "tcp", "KOLO_PLAN=ring"},
        {5, "shm", "KOLO_PLAN=ring"},        {4, "inproc", "KOLO_PLAN=halving"},
        {5, "inproc", "KOLO_PLAN=doubling"}, {3, "inproc", "KOLO_PLAN=direct"},
        {4, "tcp", "KOLO_PLAN=flat"},        {5, "inproc", "KOLO_PLAN=tree"},
        {4, "tcp", "KOLO_PLAN=scattered"},   {5, "inproc", "KOLO_PLAN=binary"},
        {4, "inproc", "KOLO_PLAN=bruck"},    {4, "tcp", "KOLO_PLAN=auto"}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, staging_flow, every_plan, .timeout = 200)
{
    struct world world = {
        .size = setup->size,
        .transport = setup->transport,
        .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB", setup->plan}};
    begin((unsigned)setup->size, 100);
    const kolo_status status = world_run(&world, all_calls, NULL);
    cr_assert_eq(status, KOLO_OK, "np %d over %s, %s: %s", setup->size, setup->transport,
                 setup->plan, world_cause(&world)->text);
}

/* ---- side by side ---- */

enum { PIECES = 16, PIECE = 4096 };

static kolo_status reduce_long(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 20000};
    const size_t bytes = *(const size_t *)argument;
    uint8_t *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm), bytes);
    return kolo_allreduce(comm, memory, memory, bytes, KOLO_UINT8, KOLO_SUM, &opts, NULL);
}

/** Two ranks reduce that much by a ring. */
static void reduce_in_ring(size_t bytes)
{
    struct world world = {
        .size = 2,
        .transport = "inproc",
        .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB", "KOLO_PLAN=ring"}};
    cr_assert_eq(world_run(&world, reduce_long, &bytes), KOLO_OK, "%s", world_cause(&world)->text);
}

enum { LONG = 200 * PIECE };

/** The last copies to the host begin only after a copy from the host. So a call that waits for all
 * of its input, or keeps back its result until it is complete, ends by its deadline. Of some 100
 * copies one rank may make its half before the other has made those of its first step, which are
 * 8. */
Test(staging_flow, results_go_back_while_input_is_still_to_come, .timeout = 100)
{
    begin(1, 0);
    mock->pace(70);
    reduce_in_ring(LONG);
}

enum { MOST_AHEAD = 18 /* copies of a rank, of some 50 */ };

static kolo_status start_and_look(struct kolo_comm *comm, void *argument)
{
    static atomic_int looked;
    uint8_t *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm), LONG);
    struct kolo_request *request = NULL;
    (void)argument;
    WORLD_TRY(kolo_allreduce(comm, memory, memory, LONG, KOLO_UINT8, KOLO_SUM, NULL, &request));
    kolo_status status = KOLO_AGAIN;
    for (int i = 0; i < 100 && status == KOLO_AGAIN; i++)
        status = kolo_test(&request);
    const int copies = mock->calls("cuMemcpyAsync");
    atomic_fetch_add(&looked, 1);
    while (atomic_load(&looked) < kolo_size(comm))
        (void)sched_yield();
    mock->hold(0);
    WORLD_TRY(kolo_wait(&request, 20000));
    WORLD_EXPECT(status == KOLO_AGAIN && copies <= kolo_size(comm) * MOST_AHEAD,
                 "%d copies before the first step", copies);
    return KOLO_OK;
}

/** Segments that no step needs soon would only push the next ones out of the cache, and, on a
 * device of several ranks, come before the first ones of others. */
Test(staging_flow, only_the_next_segments_are_copied_ahead, .timeout = 100)
{
    struct world world = {
        .size = 2,
        .transport = "tcp",
        .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB", "KOLO_PLAN=ring"}};
    begin(3, 0);
    mock->hold(1);
    cr_assert_eq(world_run(&world, start_and_look, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

enum { HALF = PIECES * PIECE / 8 }; /* of the elements that the next test reduces */

struct folder {
    int rank;
    bool was_there;
    kolo_deadline deadline;
    const int32_t *_Atomic *first; /* rank 0's result, on its device */
};

/** Rank 1 computes its half of the result only when rank 0's half is on rank 0's device. */
static void add_late(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    struct folder *folder = context;
    int32_t sum[HALF] = {0};
    (void)dtype;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)into)[i] += ((const int32_t *)from)[i];
    while (folder->rank == 1 && !folder->was_there && !kolo_deadline_passed(folder->deadline)) {
        const int32_t *result = atomic_load(folder->first);
        if (result)
            mock->read(result, sum, sizeof sum);
        folder->was_there = sum[0] == 3 && sum[HALF - 1] == 3;
    }
}

static kolo_status reduce_by_turns(struct kolo_comm *comm, void *argument)
{
    struct folder folder = {
        .rank = kolo_rank(comm), .deadline = kolo_deadline_in_ms(10000), .first = argument};
    const struct kolo_op late = {.size = sizeof late,
                                 .name = "late",
                                 .fold = add_late,
                                 .context = &folder,
                                 .flags = KOLO_COMMUTATIVE};
    int32_t in[2 * HALF];
    int32_t *send = mock->alloc(MOCK_DEVICE, folder.rank, sizeof in);
    int32_t *recv = mock->alloc(MOCK_DEVICE, folder.rank, sizeof in);
    kolo_redop op;
    for (size_t i = 0; i < 2 * HALF; i++)
        in[i] = folder.rank + 1;
    mock->write(send, in, sizeof in);
    if (folder.rank == 0)
        atomic_store(folder.first, recv);
    WORLD_TRY(kolo_op_create(comm, &late, &op));
    WORLD_TRY(kolo_allreduce(comm, send, recv, (size_t)2 * HALF, KOLO_INT32, op, NULL, NULL));
    WORLD_EXPECT(folder.rank == 0 || folder.was_there, "rank 0's half is not on its device");
    return KOLO_OK;
}

/** What a step has computed is copied back while its messages are on their way. */
Test(staging_flow, a_computed_result_goes_back_before_its_step_is_over, .timeout = 100)
{
    struct world world = {
        .size = 2, .transport = "tcp", .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_PLAN=direct"}};
    const int32_t *_Atomic first = NULL;
    begin(5, 0);
    cr_assert_eq(world_run(&world, reduce_by_turns, &first), KOLO_OK, "%s",
                 world_cause(&world)->text);
}

static kolo_status without_being_told(struct kolo_comm *comm, void *argument)
{
    const size_t bytes = PIECES * PIECE;
    kolo_status status = reduce_long(comm, (void *)(uintptr_t)&bytes);
    (void)argument;
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    mock->mute(0);
    return status;
}

/** Functions that streams call may be much later than the copy itself. They only serve ranks that
 * sleep: neither a rank that polls nor the next copy waits for one. */
Test(staging_flow, nobody_waits_for_the_function_that_a_stream_calls, .timeout = 100)
{
    struct world world = {.size = 2,
                          .transport = "tcp",
                          .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB",
                                       "KOLO_PLAN=ring", "KOLO_SPIN_US=1000000"}};
    begin(4, 20);
    mock->mute(1);
    cr_assert_eq(world_run(&world, without_being_told, NULL), KOLO_OK, "%s",
                 world_cause(&world)->text);
}

/* ---- failures ---- */

static kolo_status until_it_fails(struct kolo_comm *comm, void *argument)
{
    const bool *is_broadcast = argument;
    uint8_t *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm) % MOCK_DEVICES, PIECES * PIECE);
    struct kolo_comm *other = NULL;
    char detail[KOLO_DETAIL_MAX];
    kolo_status status = kolo_dup(comm, NULL, &other); /* also: all are there */
    for (int i = 0; i < 50 && status == KOLO_OK; i++)
        status = *is_broadcast
                     ? kolo_broadcast(other, memory, PIECES * PIECE, KOLO_UINT8, i % 3, NULL, NULL)
                     : kolo_allreduce(other, memory, memory, PIECES * PIECE, KOLO_UINT8, KOLO_SUM,
                                      NULL, NULL);
    kolo_detail_keep(detail);
    kolo_finalize(other);
    kolo_detail_set(detail);
    return status;
}

/** Each copy on a stream fails in turn, and each operation of a stream: on the way in, between two
 * steps, and on the way out. A broadcast has a second strand of steps, which must not go on. */
Test(staging_flow, a_failure_in_between_is_everybodys, .timeout = 200)
{
    for (int nth = 1; nth < 150; nth += 7) {
        bool is_broadcast = nth / 7 % 2 == 0;
        struct world world = {.size = 3,
                              .transport = "inproc",
                              .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB",
                                           is_broadcast ? "KOLO_PLAN=auto" : "KOLO_PLAN=ring",
                                           "KOLO_STALL=200ms"}};
        begin((unsigned)nth, 50);
        if (nth % 2)
            mock->fail("cuMemcpyAsync", nth, KOLO_CUDA_INVALID_VALUE);
        else
            mock->fail_async(nth, KOLO_CUDA_ILLEGAL_ADDRESS);
        const kolo_status status = world_run(&world, until_it_fails, &is_broadcast);
        mock->fail("", 1, 0); /* no more failures */
        cr_assert_eq(status, KOLO_ERR_SYSTEM, "%d: %s", nth, world_cause(&world)->text);
        for (int rank = 0; rank < world.size; rank++)
            cr_assert(strstr(world.results[rank].text, is_broadcast ? "broadcast" : "allreduce") &&
                          strstr(world.results[rank].text, "rank "),
                      "%d: %s", nth, world.results[rank].text);
    }
}
