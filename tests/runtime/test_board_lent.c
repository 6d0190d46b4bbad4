// SPDX-License-Identifier: Apache-2.0
// runtime/board_lent.c, staging_lent.c and loans.c: every collective on memory of
// kolo_alloc_device, by kernels that access the memory of all ranks, against the same call on host
// memory, bit for bit. Also tested: that none of the data passes through the host, the cases that
// do go through the host, memory that is freed while others have it mapped, and failures. Ranks are
// threads here, so their memory is accessed directly; tests/bench/device.sh runs processes.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/cuda_image.h"
#include "memory/reduce.h"
#include "runtime/comm.h"
#include "tests/support/any_collective.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { RANKS_MAX = 8, COUNT = 3001, BYTES = RANKS_MAX * COUNT * 8 };

static const struct mock_cuda *mock;
static atomic_bool is_freed;

static void begin(unsigned seed)
{
    mock = mock_cuda_load();
    if (kolo_cuda_image_bytes == 0)
        cr_skip_test("this build has no CUDA kernels: nvcc was not found");
    mock->begin();
    mock->set_current(0);
    mock->delays(seed, 50);
}

static int launches(void)
{
    return mock->calls("cuLaunchKernel");
}

static int copies(void)
{
    return mock->calls("cuMemcpyAsync");
}

/** The buffers of one rank, on the host and on the device. */
struct side {
    uint8_t send[BYTES], recv[BYTES], got[BYTES];
    void *device_send, *device_recv, *stream;
};

static kolo_status side_create(struct kolo_comm *comm, struct side **side_out)
{
    const int device = kolo_rank(comm) % MOCK_DEVICES;
    struct side *side = calloc(1, sizeof *side);
    if (!side)
        abort();
    WORLD_TRY(kolo_alloc_device(comm, BYTES, device, &side->device_send));
    WORLD_TRY(kolo_alloc_device(comm, BYTES, device, &side->device_recv));
    side->stream = mock->stream(device);
    *side_out = side;
    return KOLO_OK;
}

static kolo_status side_free(struct kolo_comm *comm, struct side *side)
{
    WORLD_TRY(kolo_free(comm, side->device_send));
    WORLD_TRY(kolo_free(comm, side->device_recv));
    free(side);
    return KOLO_OK;
}

/* ---- the collectives, as the test calls them ---- */

/** Every collective that can use the board. */
static struct any_call call_of(enum any_collective which, kolo_dtype dtype, kolo_redop op,
                               const struct kolo_opts *opts)
{
    return (struct any_call){.which = which,
                             .dtype = dtype,
                             .op = op,
                             .count = COUNT,
                             .less = 17,
                             .apart = COUNT,
                             .opts = opts};
}

/** Small numbers that differ by rank, element and salt; sums of floats need rounding. */
static void fill(uint8_t *buffer, kolo_dtype dtype, int rank, int salt)
{
    const size_t size = kolo_dtype_bytes(dtype);
    for (size_t i = 0; i < BYTES / size; i++) {
        const size_t n = (i * 7 + (size_t)rank * 13 + (size_t)salt) % 101;
        const float f = (float)n * 0.37f + 1e-3f;
        const double d = (double)n * 0.37 + 1e-3;
        uint64_t bits = n + 1;
        if (dtype == KOLO_FLOAT32)
            memcpy(&bits, &f, sizeof f);
        else if (dtype == KOLO_FLOAT64)
            memcpy(&bits, &d, sizeof d);
        else if (dtype == KOLO_FLOAT16)
            bits = 0x3c00 + n; /* a little more than 1 */
        else if (dtype == KOLO_BFLOAT16)
            bits = 0x3f80 + n % 64;
        memcpy(buffer + i * size, &bits, size);
    }
}

/** Makes the call with host memory and with device memory, whose input a late stream writes, both
 * with the same factors. */
static kolo_status compare(struct kolo_comm *comm, struct side *side, const struct any_call *how,
                           bool in_place)
{
    const int rank = kolo_rank(comm), salt = 3 * (int)how->which + in_place;
    fill(side->send, how->dtype, rank, salt);
    fill(side->recv, how->dtype, rank, salt + 50);
    mock->write_on(side->stream, side->device_send, side->send, BYTES);
    mock->write_on(side->stream, side->device_recv, side->recv, BYTES);
    struct kolo_opts opts = {.size = sizeof opts};
    struct any_call plain = *how;
    plain.opts = &opts;
    if (how->opts) {
        opts.prescale = how->opts->prescale;
        opts.postscale = how->opts->postscale;
    }
    WORLD_TRY(any_collective(comm, &plain, in_place ? side->recv : side->send, side->recv));
    WORLD_TRY(any_collective(comm, how, in_place ? side->device_recv : side->device_send,
                             side->device_recv));
    mock->read(side->device_recv, side->got, BYTES);
    WORLD_EXPECT(memcmp(side->got, side->recv, BYTES) == 0, "collective %d of %s %s, rank %d%s",
                 (int)how->which, kolo_dtype_text(how->dtype), kolo_redop_text(how->op), rank,
                 in_place ? ", in place" : "");
    mock->read(side->device_send, side->got, BYTES);
    WORLD_EXPECT(memcmp(side->got, side->send, BYTES) == 0, "the input was written");
    return KOLO_OK;
}

static kolo_status all_calls(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    for (int which = 0; which < ANY_ALLTOALLV; which++) {
        const struct any_call any =
            call_of((enum any_collective)which, KOLO_FLOAT64, KOLO_SUM, NULL);
        WORLD_TRY(compare(comm, side, &any, false));
    }
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++) {
            const struct any_call any =
                call_of(ANY_ALLREDUCE, (kolo_dtype)dtype, (kolo_redop)op, NULL);
            if (kolo_reduce_function(any.dtype, any.op))
                WORLD_TRY(compare(comm, side, &any, op % 2 == 1));
        }
    return side_free(comm, side);
}

struct setup { /* no pointers, because the test runs in another process */
    int size;
    char transport[8];
};

ParameterizedTestParameters(board_lent, all_collectives)
{
    static struct setup setups[] = {{2, "inproc"}, {2, "shm"}, {3, "inproc"}, {4, "shm"},
                                    {5, "inproc"}, {7, "shm"}, {8, "inproc"}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

/** A plan on the board, whatever is expected to be fast. */
static struct world twoshot(int size, const char *transport, const char *setting)
{
    return (struct world){
        .size = size, .transport = transport, .settings = {"KOLO_PLAN=twoshot", setting, NULL}};
}

/** Runs @p body, and asserts that it leaves nothing allocated. */
static void run_clean(struct world world,
                      kolo_status (*body)(struct kolo_comm *comm, void *argument), unsigned seed)
{
    begin(seed);
    const int before = mock->allocated();
    WORLD_MUST_RUN(&world, body, NULL);
    cr_assert_eq(mock->allocated(), before);
}

ParameterizedTest(struct setup *setup, board_lent, all_collectives, .timeout = 300)
{
    run_clean(twoshot(setup->size, setup->transport, NULL), all_calls, (unsigned)setup->size);
    cr_assert_gt(launches(), 0, "nothing was lent");
    cr_assert_eq(copies(), 0, "%d copies by way of the host", copies());
    cr_assert_eq(mock->registered(), 0);
}

/* ---- what goes by the host ---- */

static kolo_status sum(struct kolo_comm *comm, struct side *side, const struct kolo_opts *opts)
{
    const struct any_call any = call_of(ANY_ALLREDUCE, KOLO_FLOAT32, KOLO_SUM, opts);
    return any_collective(comm, &any, side->device_send, side->device_recv);
}

static kolo_status compare_sum(struct kolo_comm *comm, struct side *side, bool in_place)
{
    const struct any_call any = call_of(ANY_ALLREDUCE, KOLO_FLOAT32, KOLO_SUM, NULL);
    return compare(comm, side, &any, in_place);
}

static kolo_status one_call(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(compare_sum(comm, side, false));
    return side_free(comm, side);
}

Test(board_lent, a_setting_keeps_it_off)
{
    struct world world = twoshot(3, "inproc", "KOLO_CUDA_IPC=0");
    begin(1);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(launches() == 0 && copies() > 0);
}

Test(board_lent, oneshots_are_lent_too)
{
    struct world world = {
        .size = 3, .transport = "inproc", .settings = {"KOLO_PLAN=oneshot", NULL}};
    begin(1);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(launches() > 0 && copies() == 0);
}

Test(board_lent, a_plan_over_links_is_carried_out_as_it_was)
{
    struct world world = {.size = 3, .transport = "shm", .settings = {"KOLO_PLAN=ring", NULL}};
    begin(1);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(launches() == 0 && copies() > 0);
}

enum mixture { SEND_OF_HOST, ALL_OF_HOST, OWN_ALLOCATION, MIXTURES };

/** The last rank passes another kind of memory. */
static kolo_status mixed_call(struct kolo_comm *comm, struct side *side, enum mixture mixture)
{
    const bool is_last = kolo_rank(comm) == kolo_size(comm) - 1;
    const void *send = side->device_send;
    void *recv = side->device_recv, *other = NULL;
    if (mixture == OWN_ALLOCATION && is_last) {
        other = mock->alloc(MOCK_DEVICE, kolo_rank(comm) % MOCK_DEVICES, BYTES);
        mock->write(other, side->send, BYTES);
        send = other;
    } else if (is_last) {
        send = side->send;
        recv = mixture == ALL_OF_HOST ? side->got : recv;
    }
    return kolo_allreduce(comm, send, recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
}

static kolo_status mixed(struct kolo_comm *comm, void *argument)
{
    const enum mixture mixture = *(const enum mixture *)argument;
    const bool is_last = kolo_rank(comm) == kolo_size(comm) - 1;
    struct side *side;
    WORLD_TRY(side_create(comm, &side));
    for (int round = 0; round < 3; round++) {
        fill(side->send, KOLO_FLOAT32, kolo_rank(comm), round);
        mock->write_on(side->stream, side->device_send, side->send, BYTES);
        WORLD_TRY(mixed_call(comm, side, mixture));
        if (!is_last || mixture != ALL_OF_HOST)
            mock->read(side->device_recv, side->got, BYTES);
        WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL,
                                 NULL));
        for (size_t i = 0; i < COUNT; i++) {
            float expected, got;
            memcpy(&expected, side->recv + 4 * i, 4);
            memcpy(&got, side->got + 4 * i, 4);
            WORLD_EXPECT(memcmp(&expected, &got, 4) == 0, "mixture %d, [%zu] is %g, not %g",
                         (int)mixture, i, (double)got, (double)expected);
        }
    }
    WORLD_EXPECT(!comm->lends, "the ranks have not seen it");
    return side_free(comm, side);
}

static void check_mixture(const char *transport, enum mixture mixture)
{
    struct world world = twoshot(4, transport, NULL);
    begin(7);
    WORLD_MUST_RUN(&world, mixed, &mixture);
    cr_assert(launches() == 0 && copies() > 0, "mixture %d", (int)mixture);
}

Test(board_lent, one_rank_with_memory_of_the_host_takes_all_there, .timeout = 100)
{
    check_mixture("inproc", SEND_OF_HOST);
    check_mixture("shm", ALL_OF_HOST);
}

Test(board_lent, memory_that_kolo_has_not_allocated_is_not_lent, .timeout = 100)
{
    check_mixture("inproc", OWN_ALLOCATION);
}

/* ---- scaling ---- */

static const kolo_dtype floats[] = {KOLO_FLOAT16, KOLO_BFLOAT16, KOLO_FLOAT32, KOLO_FLOAT64};
enum { FLOATS = sizeof floats / sizeof *floats };

static kolo_status scaled_calls(struct kolo_comm *comm, void *argument)
{
    static const kolo_redop ops[] = {KOLO_SUM, KOLO_AVERAGE, KOLO_MAX, KOLO_PROD};
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    for (int round = 0; round < 3 * FLOATS; round++) {
        const bool is_behind = round % 2 == 1;
        struct kolo_opts opts = {.size = sizeof opts,
                                 .postscale = round % 3 == 0 ? 0 : 1.0 / 3,
                                 .stream = is_behind ? side->stream : NULL};
        struct any_call any = call_of(ANY_ALLREDUCE, floats[round % FLOATS], ops[round % 4], &opts);
        opts.prescale = round % 3 == 1 ? 0 : 0.3 + 0.1 * kolo_rank(comm);
        WORLD_TRY(compare(comm, side, &any, round % 5 < 2));
        opts.prescale = 0; /* the others scale their results only */
        opts.postscale = 1.0 / 7;
        any.which = round % 2 ? ANY_REDUCE : ANY_REDUCE_SCATTER;
        WORLD_TRY(compare(comm, side, &any, false));
        any.which = ANY_REDUCE_SCATTERV;
        WORLD_TRY(compare(comm, side, &any, false));
    }
    WORLD_EXPECT(comm->lends, "the ranks have given up to lend");
    return side_free(comm, side);
}

Test(board_lent, what_is_scaled_stays_on_the_devices, .timeout = 100)
{
    const char *const transports[] = {"inproc", "shm"};
    for (int i = 0; i < 4; i++) {
        struct world world = twoshot(2 + i, transports[i % 2], NULL);
        begin(21 + (unsigned)i);
        WORLD_MUST_RUN(&world, scaled_calls, NULL);
        cr_assert(launches() > 0 && copies() == 0, "%d ranks: %d copies", world.size, copies());
    }
}

/** No buffer of such a call holds its scaled input on all ranks. */
static kolo_status scaled_apart(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    const struct kolo_opts half = {.size = sizeof half, .prescale = 0.5};
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    for (int which = ANY_REDUCE; which <= ANY_REDUCE_SCATTERV; which++) {
        const struct any_call any =
            call_of((enum any_collective)which, KOLO_FLOAT32, KOLO_SUM, &half);
        if (which == ANY_REDUCE || which >= ANY_REDUCE_SCATTER)
            WORLD_TRY(compare(comm, side, &any, false));
    }
    WORLD_EXPECT(comm->lends, "other calls must still lend");
    return side_free(comm, side);
}

Test(board_lent, what_is_scaled_elsewhere_goes_by_the_host, .timeout = 100)
{
    struct world world = twoshot(3, "inproc", NULL);
    begin(25);
    WORLD_MUST_RUN(&world, scaled_apart, NULL);
    cr_assert(launches() == 0 && copies() > 0);
}

/** One rank cannot map; the others have scaled their input by then, out of place or in place. */
static kolo_status scaled_in_vain(struct kolo_comm *comm, void *in_place)
{
    struct side *side;
    const struct kolo_opts opts = {.size = sizeof opts, .prescale = 0.7, .postscale = 3};
    const struct any_call any = call_of(ANY_ALLREDUCE, KOLO_FLOAT32, KOLO_SUM, &opts);
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(compare(comm, side, &any, *(const bool *)in_place));
    WORLD_TRY(compare(comm, side, &any, *(const bool *)in_place));
    WORLD_EXPECT(!comm->lends, "the ranks have not seen it");
    return side_free(comm, side);
}

Test(board_lent, no_input_is_scaled_twice, .timeout = 100)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct world world = twoshot(4, "inproc", NULL);
        bool argument = in_place != 0;
        begin(26);
        mock->fail("cuCtxEnablePeerAccess", 2, KOLO_CUDA_PEER_UNSUPPORTED);
        WORLD_MUST_RUN(&world, scaled_in_vain, &argument);
        cr_assert(launches() > 0 && copies() > 0);
    }
}

/** A request that is started again: first on the devices, then, since another call was a mixture,
 * through the host. Each start scales what is in the buffer then. */
static kolo_status scaled_again(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts once = {.size = sizeof once, .prescale = 0.7, .postscale = 3};
    struct kolo_opts again = once;
    struct kolo_request *request = NULL;
    struct side *side;
    (void)argument;
    again.flags = KOLO_PERSISTENT;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(kolo_allreduce(comm, side->device_recv, side->device_recv, COUNT, KOLO_FLOAT32,
                             KOLO_SUM, &again, &request));
    for (int start = 0; start < 4; start++) {
        if (start == 2)
            WORLD_TRY(mixed_call(comm, side, ALL_OF_HOST));
        WORLD_EXPECT(comm->lends == (start < 2), "start %d", start);
        fill(side->recv, KOLO_FLOAT32, kolo_rank(comm), start);
        mock->write(side->device_recv, side->recv, BYTES);
        WORLD_TRY(start % 2 ? kolo_run(request) : kolo_start(request));
        WORLD_TRY(kolo_wait(&request, -1));
        WORLD_TRY(kolo_allreduce(comm, side->recv, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, &once,
                                 NULL));
        mock->read(side->device_recv, side->got, BYTES);
        WORLD_EXPECT(memcmp(side->recv, side->got, BYTES) == 0, "start %d", start);
    }
    WORLD_TRY(kolo_request_free(&request));
    return side_free(comm, side);
}

Test(board_lent, each_start_of_a_request_is_scaled, .timeout = 100)
{
    struct world world = twoshot(3, "shm", NULL);
    begin(27);
    WORLD_MUST_RUN(&world, scaled_again, NULL);
    cr_assert(launches() > 0 && copies() > 0);
}

/** Long buffers are only reserved addresses until they are needed. */
enum { LONG_COUNT = 700000 };

static kolo_status long_call(struct kolo_comm *comm, void *argument)
{
    const bool is_mixed = *(const bool *)argument;
    const size_t bytes = LONG_COUNT * sizeof(float);
    float *send = calloc(LONG_COUNT, sizeof *send), *recv = calloc(LONG_COUNT, sizeof *recv);
    void *device_send = NULL, *device_recv = NULL;
    if (!send || !recv)
        abort();
    WORLD_TRY(kolo_alloc_device(comm, bytes, 0, &device_send));
    WORLD_TRY(kolo_alloc_device(comm, bytes, 0, &device_recv));
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < LONG_COUNT; i++)
            send[i] = (float)(i % 1000 + (size_t)kolo_rank(comm) + (size_t)round);
        mock->write(device_send, send, bytes);
        if (is_mixed && kolo_rank(comm) == 1)
            WORLD_TRY(
                kolo_allreduce(comm, send, recv, LONG_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
        else
            WORLD_TRY(kolo_allreduce(comm, device_send, device_recv, LONG_COUNT, KOLO_FLOAT32,
                                     KOLO_SUM, NULL, NULL));
        if (!is_mixed || kolo_rank(comm) != 1)
            mock->read(device_recv, recv, bytes);
        for (size_t i = 0; i < LONG_COUNT; i++)
            WORLD_EXPECT(recv[i] == (float)(3 * (i % 1000) + 3 + 3 * (size_t)round), "[%zu] is %g",
                         i, (double)recv[i]);
    }
    free(send);
    free(recv);
    WORLD_TRY(kolo_free(comm, device_send));
    return kolo_free(comm, device_recv);
}

static void check_long(bool is_mixed, const char *plan, bool is_lent)
{
    struct world world = {.size = 3, .transport = "shm", .settings = {plan, NULL}};
    begin(3);
    WORLD_MUST_RUN(&world, long_call, &is_mixed);
    cr_assert((launches() > 0) == is_lent && (copies() == 0) == is_lent);
}

Test(board_lent, long_buffers_take_no_memory_of_the_host, .timeout = 100)
{
    check_long(false, NULL, true);
    cr_assert_eq(mock->calls("cuMemHostRegister_v2"), 0, "pages were locked for nothing");
}

Test(board_lent, long_buffers_get_memory_where_they_need_it, .timeout = 100)
{
    check_long(true, NULL, false);
}

Test(board_lent, long_buffers_over_links_have_slabs, .timeout = 100)
{
    check_long(false, "KOLO_PLAN=ring", false);
}

/** If the device of one rank cannot access another's memory, all ranks make the call through the
 * host, with their inputs unchanged. */
Test(board_lent, where_one_rank_cannot_map_all_go_by_the_host, .timeout = 100)
{
    struct world world = twoshot(4, "inproc", NULL);
    begin(5);
    mock->fail("cuCtxEnablePeerAccess", 2, KOLO_CUDA_PEER_UNSUPPORTED);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(launches() == 0 && copies() > 0);
}

Test(board_lent, without_a_way_to_lend_calls_go_by_the_host, .timeout = 100)
{
    struct world world = twoshot(2, "shm", NULL);
    begin(5);
    mock->fail("cuIpcGetMemHandle", 1, KOLO_CUDA_NOT_SUPPORTED);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(copies() > 0);
}

Test(board_lent, without_kernels_calls_go_by_the_host, .timeout = 100)
{
    struct world world = twoshot(2, "shm", NULL);
    begin(5);
    mock->fail("cuModuleLoadData", 1, KOLO_CUDA_UNSUPPORTED_PTX);
    WORLD_MUST_RUN(&world, one_call, NULL);
    cr_assert(copies() > 0);
}

/* ---- requests and streams ---- */

static kolo_status behind_streams(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    for (int i = 0; i < 5; i++) {
        const struct any_call any =
            call_of(i % 2 ? ANY_ALLGATHER : ANY_ALLREDUCE, KOLO_INT32, KOLO_SUM, &opts);
        WORLD_TRY(compare(comm, side, &any, i == 2));
    }
    return side_free(comm, side);
}

Test(board_lent, a_call_begins_behind_its_stream, .timeout = 100)
{
    struct world world = twoshot(3, "shm", NULL);
    begin(11);
    WORLD_MUST_RUN(&world, behind_streams, NULL);
    cr_assert(launches() > 0 && copies() == 0);
}

static kolo_status held_streams(struct kolo_comm *comm, void *argument)
{
    struct kolo_request *request = NULL;
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream, .timeout_ms = 9000};
    for (int op = 0; op < KOLO_REDOPS; op++) {
        WORLD_TRY(kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_INT16,
                                 (kolo_redop)op, &opts, &request));
        WORLD_TRY(kolo_wait(&request, -1));
    }
    return side_free(comm, side);
}

/** A driver may load a kernel at its first launch, and then waits for all streams, including those
 * that wait for the call whose kernel it is. */
Test(board_lent, kernels_are_loaded_before_a_stream_waits_for_them, .timeout = 100)
{
    struct world world = twoshot(3, "shm", NULL);
    begin(12);
    WORLD_MUST_RUN(&world, held_streams, NULL);
    cr_assert(launches() > 0 && copies() == 0);
}

/** A device serves many streams with few queues. A stream that waits for a call must not be in a
 * queue with the work of that call. */
Test(board_lent, a_stream_that_waits_holds_up_no_lane, .timeout = 100)
{
    struct world world = twoshot(2, "shm", NULL);
    begin(13);
    mock->one_queue(1);
    WORLD_MUST_RUN(&world, held_streams, NULL);
    cr_assert(launches() > 0 && copies() == 0);
}

static kolo_status again_and_again(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL, *two[2] = {NULL};
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_INT32,
                             KOLO_SUM, &again, &request));
    for (int i = 0; i < 4; i++) {
        fill(side->send, KOLO_INT32, kolo_rank(comm), i);
        mock->write_on(side->stream, side->device_send, side->send, BYTES);
        WORLD_TRY(i % 2 ? kolo_run(request) : kolo_start(request));
        WORLD_TRY(kolo_wait(&request, -1));
        WORLD_TRY(
            kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
        mock->read(side->device_recv, side->got, BYTES);
        WORLD_EXPECT(memcmp(side->recv, side->got, COUNT * 4) == 0, "start %d", i);
    }
    WORLD_TRY(kolo_request_free(&request));
    for (int i = 0; i < 2; i++) /* one after the other */
        WORLD_TRY(kolo_allreduce(comm, side->device_recv, side->device_recv, COUNT, KOLO_INT32,
                                 KOLO_SUM, NULL, &two[i]));
    for (int i = 0; i < 2; i++)
        WORLD_TRY(kolo_wait(&two[i], -1));
    WORLD_TRY(
        kolo_allreduce(comm, side->recv, side->recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(
        kolo_allreduce(comm, side->recv, side->recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
    mock->read(side->device_recv, side->got, BYTES);
    WORLD_EXPECT(memcmp(side->recv, side->got, COUNT * 4) == 0, "one behind the other");
    return side_free(comm, side);
}

Test(board_lent, requests_repeat_and_queue, .timeout = 100)
{
    struct world world = twoshot(3, "inproc", NULL);
    begin(12);
    WORLD_MUST_RUN(&world, again_and_again, NULL);
    cr_assert(launches() > 0 && copies() == 0);
}

/* ---- memory that is freed ---- */

enum { LIVES = 40 };

/** Makes calls until only page-locked memory of the host is left: while ranks wait in calls, they
 * unmap what others have freed. */
static kolo_status await_return(struct kolo_comm *comm)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(AWAIT_MS);
    int32_t state[2]; /* allocations, and whether it is too late: the same on all ranks */
    do {
        state[0] = mock->allocated() - mock->registered();
        state[1] = kolo_deadline_passed(deadline);
        WORLD_TRY(kolo_allreduce(comm, state, state, 2, KOLO_INT32, KOLO_MAX, NULL, NULL));
    } while (state[0] > 0 && !state[1]);
    WORLD_EXPECT(state[0] == 0, "%d allocations are left", (int)state[0]);
    return KOLO_OK;
}

/** In each life, memory is freed while the others have it mapped; all of it is reclaimed. */
static kolo_status many_lives(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int life = 0; life < LIVES; life++) {
        struct side *side;
        WORLD_TRY(side_create(comm, &side));
        WORLD_TRY(compare_sum(comm, side, false));
        WORLD_TRY(side_free(comm, side));
        WORLD_TRY(await_return(comm));
    }
    return KOLO_OK;
}

Test(board_lent, memory_is_freed_once_all_have_returned_it, .timeout = 200)
{
    run_clean(twoshot(4, "shm", NULL), many_lives, 13);
}

/** Rank 0 frees memory that rank 1 has mapped, and has no room for more; only then rank 1 unmaps
 * it. */
static kolo_status no_room(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    int *asked = argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(compare_sum(comm, side, false));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0) {
        const int before = mock->allocated();
        WORLD_TRY(kolo_free(comm, side->device_send));
        mock->fail("cuMemAlloc_v2", 1, KOLO_CUDA_OUT_OF_MEMORY);
        __atomic_store_n(asked, mock->calls("cuMemAlloc_v2"), __ATOMIC_RELEASE);
        WORLD_TRY(kolo_alloc_device(comm, BYTES, 0, &side->device_send));
        WORLD_EXPECT(mock->allocated() <= before, "%d allocations after %d", mock->allocated(),
                     before);
    } else {
        WORLD_EXPECT(AWAIT(__atomic_load_n(asked, __ATOMIC_ACQUIRE) != 0 &&
                           mock->calls("cuMemAlloc_v2") > __atomic_load_n(asked, __ATOMIC_ACQUIRE)),
                     "nothing was asked of the device again");
    }
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(compare_sum(comm, side, false));
    return side_free(comm, side);
}

Test(board_lent, memory_that_is_to_come_back_is_waited_for, .timeout = 100)
{
    struct world world = twoshot(2, "inproc", NULL);
    int asked = 0;
    begin(22);
    WORLD_MUST_RUN(&world, no_room, &asked);
}

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert_not_null(tasks);
    while (readdir(tasks))
        count++;
    (void)closedir(tasks);
    return count;
}

enum { CALLS = 50 };

/** The device is busy for as long as rank 0 wants, and memory that it freed meanwhile stays
 * allocated. */
static kolo_status busy_device(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    float value = 1, sum_out = 0;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(compare_sum(comm, side, false));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0) {
        mock->hold(1);
        mock->write_on(side->stream, side->device_recv, &value, sizeof value);
        WORLD_TRY(kolo_free(comm, side->device_send));
    }
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    const int before = threads();
    for (int i = 0; i < CALLS; i++)
        WORLD_TRY(kolo_allreduce(comm, &value, &sum_out, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(threads() < before + CALLS / 2, "%d threads after %d", threads(), before);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0) {
        mock->hold(0);
        side->device_send = NULL;
    }
    return side_free(comm, side);
}

Test(board_lent, calls_beside_a_busy_device_leave_no_threads, .timeout = 100)
{
    run_clean(twoshot(2, "inproc", NULL), busy_device, 23);
}

/** A rank leaves while another still has its memory mapped, and goes on in another communicator. */
static kolo_status part_of_world(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part = NULL;
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    for (int round = 0; round < 3; round++) {
        WORLD_TRY(kolo_split(comm, kolo_rank(comm) % 2, kolo_rank(comm), NULL, &part));
        WORLD_TRY(compare_sum(part, side, false));
        WORLD_TRY(compare_sum(comm, side, true));
        WORLD_TRY(kolo_finalize(part));
    }
    return side_free(comm, side);
}

Test(board_lent, communicators_come_and_go, .timeout = 200)
{
    run_clean(twoshot(4, "inproc", NULL), part_of_world, 14);
    cr_assert(launches() > 0 && copies() == 0);
}

/* ---- failures ---- */

static kolo_status failing(struct kolo_comm *comm, void *argument)
{
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    const kolo_status status = sum(comm, side, NULL);
    free(side);
    return status;
}

/** A device that fails in a kernel ends the communicator on all ranks, with a text. The ranks are
 * threads of one process, so any of them that calls the driver after the failed launch gets the
 * error there, and may be the first to report it. */
Test(board_lent, a_kernel_that_fails_is_named, .timeout = 100)
{
    struct world world = twoshot(3, "shm", "KOLO_EXIT_TIMEOUT=2s");
    begin(15);
    mock->fail("cuLaunchKernel", 2, KOLO_CUDA_LAUNCH_FAILED);
    cr_assert_neq(world_run(&world, failing, NULL), KOLO_OK);
    int naming = 0;
    for (int rank = 0; rank < 3; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert_neq(result->status, KOLO_OK, "rank %d", rank);
        cr_assert(strstr(result->text, "allreduce") && strstr(result->text, "on device"), "%s",
                  result->text);
        naming += strstr(result->text, "cuLaunchKernel on device") != NULL;
    }
    cr_assert_geq(naming, 1, "%s", world_cause(&world)->text);
}

Test(board_lent, a_device_that_is_lost_under_a_kernel_ends_all, .timeout = 100)
{
    struct world world = twoshot(3, "shm", "KOLO_EXIT_TIMEOUT=2s");
    begin(16);
    mock->fail_async(1, KOLO_CUDA_ILLEGAL_ADDRESS);
    cr_assert_neq(world_run(&world, failing, NULL), KOLO_OK);
    for (int rank = 0; rank < 3; rank++)
        cr_assert_neq(world.results[rank].status, KOLO_OK, "rank %d", rank);
}

/** An error of the program: memory is freed before its call begins, because an earlier call still
 * runs. */
static kolo_status free_too_early(struct kolo_comm *comm, void *argument)
{
    const size_t bytes = LONG_COUNT * sizeof(float);
    void *memory[2] = {NULL, NULL};
    struct kolo_request *requests[2] = {NULL, NULL};
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < 2; i++)
        WORLD_TRY(kolo_alloc_device(comm, bytes, 0, &memory[i]));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1) /* while the other waits for its first call */
        WORLD_EXPECT(AWAIT(atomic_load(&is_freed)), "rank 0 has not freed its memory");
    for (int i = 0; i < 2 && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, memory[i], memory[i], LONG_COUNT, KOLO_FLOAT32, KOLO_SUM,
                                NULL, &requests[i]);
    if (kolo_rank(comm) == 0) {
        WORLD_TRY(status);
        WORLD_TRY(kolo_free(comm, memory[1]));
        atomic_store(&is_freed, true);
    }
    for (int i = 0; i < 2 && status == KOLO_OK; i++)
        status = kolo_wait(&requests[i], -1);
    return status;
}

Test(board_lent, memory_that_was_freed_too_early_is_an_error, .timeout = 100)
{
    struct world world = twoshot(2, "shm", "KOLO_EXIT_TIMEOUT=500ms");
    begin(28);
    cr_assert_eq(world_run(&world, free_too_early, NULL), KOLO_ERR_INVALID, "%s",
                 world_cause(&world)->text);
    cr_assert_not_null(strstr(world_cause(&world)->text, "freed while the call has it"), "%s",
                       world_cause(&world)->text);
}

/** From when all ranks are here, no stream begins anything. */
static kolo_status hold_all(struct kolo_comm *comm)
{
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        mock->hold(1);
    return kolo_barrier(comm, NULL, NULL);
}

/** Kernels that never end are ended by the deadline. */
static kolo_status held_up(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 200};
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(hold_all(comm));
    const kolo_status status = sum(comm, side, &opts);
    free(side);
    return status;
}

Test(board_lent, kernels_that_do_not_end_hold_nobody_up, .timeout = 100)
{
    struct world world = twoshot(3, "shm", "KOLO_EXIT_TIMEOUT=500ms");
    begin(17);
    cr_assert_eq(world_run(&world, held_up, NULL), KOLO_ERR_TIMEOUT, "%s",
                 world_cause(&world)->text);
    mock->hold(0);
}

/** Only rank 1 scales its input, on a device that does nothing. */
static kolo_status held_while_scaling(struct kolo_comm *comm, void *argument)
{
    const bool scales = kolo_rank(comm) == 1;
    const struct kolo_opts opts = {
        .size = sizeof opts, .timeout_ms = scales ? 200 : 9000, .prescale = scales ? 0.5 : 1};
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(hold_all(comm));
    const kolo_status status = sum(comm, side, &opts);
    free(side);
    return status;
}

Test(board_lent, a_device_that_does_not_scale_is_named, .timeout = 100)
{
    struct world world = twoshot(3, "shm", "KOLO_EXIT_TIMEOUT=500ms");
    begin(28);
    cr_assert_eq(world_run(&world, held_while_scaling, NULL), KOLO_ERR_TIMEOUT);
    mock->hold(0);
    const char *text = world.results[1].text;
    cr_assert(strstr(text, "on rank 1") && strstr(text, "waiting for the work of its device"), "%s",
              text);
}

static kolo_status await_devices(void)
{
    for (int device = 0; device < MOCK_DEVICES; device++) {
        mock->set_current(device);
        WORLD_EXPECT(kolo_cuda_driver_loaded()->context_synchronize() == KOLO_CUDA_SUCCESS, "late");
    }
    return KOLO_OK;
}

/** Kernels were late when their call failed, and are over when their communicator is finalized:
 * then the memory that they used is given back. */
static kolo_status late_kernels(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 200};
    struct kolo_comm *copy = NULL;
    struct side *side;
    (void)argument;
    WORLD_TRY(kolo_dup(comm, NULL, &copy));
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(hold_all(comm));
    WORLD_EXPECT(sum(copy, side, &opts) == KOLO_ERR_TIMEOUT, "%s", kolo_error_detail());
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* it has failed on all ranks */
    if (kolo_rank(comm) == 0)
        mock->hold(0);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(await_devices());
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    (void)kolo_finalize(copy);
    WORLD_TRY(side_free(comm, side));
    return await_return(comm);
}

Test(board_lent, memory_of_late_kernels_is_freed_after_their_communicator, .timeout = 100)
{
    struct world world = twoshot(3, "shm", NULL);
    begin(29);
    WORLD_MUST_RUN(&world, late_kernels, NULL);
}

/** A rank that never calls is named, and the others get their memory back. */
static kolo_status one_is_missing(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, &side));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    kolo_status status = KOLO_OK;
    if (kolo_rank(comm) != 2)
        status = sum(comm, side, &opts);
    free(side);
    return status;
}

Test(board_lent, who_is_missing_is_named, .timeout = 100)
{
    struct world world = twoshot(3, "shm", NULL);
    begin(18);
    cr_assert_neq(world_run(&world, one_is_missing, NULL), KOLO_OK);
    cr_assert(strstr(world_cause(&world)->text, "rank 2") != NULL, "%s", world_cause(&world)->text);
}
