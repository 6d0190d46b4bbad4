// SPDX-License-Identifier: Apache-2.0
// runtime/staging.c: every collective with buffers on devices, on one side or both, in place and
// mixed between ranks, against the same call on host memory, bit for bit, including the bytes
// between blocks. The devices are the mock's, whose streams are late: what is sent was written by a
// stream that nobody has waited for.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "memory/cuda_driver.h"
#include "runtime/comm.h"
#include "tests/support/any_collective.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { COUNT = 1003, RANKS_MAX = 8, GAP = 5, BLOCK = COUNT + GAP };
enum { BYTES = RANKS_MAX * BLOCK * 4 };

static const struct mock_cuda *mock;

static void begin(unsigned seed)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
    mock->delays(seed, 200);
}

/** The buffers of one rank: the host's, the expected ones, and the device's. */
struct side {
    uint8_t send[BYTES], recv[BYTES], got[BYTES];
    uint8_t *device_send, *device_recv;
    void *stream;
};

static struct side *side_create(int rank)
{
    struct side *side = calloc(1, sizeof *side);
    const int device = rank % MOCK_DEVICES;
    if (!side)
        abort();
    side->device_send = mock->alloc(rank % 3 == 2 ? MOCK_MANAGED : MOCK_DEVICE, device, BYTES);
    side->device_recv = mock->alloc(rank % 3 == 1 ? MOCK_NO_CONTEXT : MOCK_DEVICE, device, BYTES);
    side->stream = mock->stream(device);
    return side;
}

/* ---- the collectives, as the test calls them ---- */

enum { SCALED = ANY_COLLECTIVES, MESSAGES, GROUP, CALL_KINDS };

static kolo_status messages(struct kolo_comm *comm, const uint8_t *send, uint8_t *recv)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    kolo_status status = kolo_group_begin(comm);
    if (status == KOLO_OK)
        status = kolo_send(comm, send, COUNT, KOLO_FLOAT32, (rank + 1) % size, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_recv(comm, recv, COUNT, KOLO_FLOAT32, (rank + size - 1) % size, NULL, NULL);
    const kolo_status ended = kolo_group_end(comm, NULL, NULL);
    return status == KOLO_OK ? ended : status;
}

/** Short calls, which are fused into one, and a long one. */
static kolo_status group(struct kolo_comm *comm, const uint8_t *send, uint8_t *recv)
{
    kolo_status status = kolo_group_begin(comm);
    for (size_t i = 0; status == KOLO_OK && i < 3; i++)
        status = kolo_allreduce(comm, send + i * 400, recv + i * 400, 100, KOLO_INT32, KOLO_SUM,
                                NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, send + 4000, recv + 4000, COUNT * (size_t)kolo_size(comm) / 2,
                                KOLO_INT32, KOLO_MAX, NULL, NULL);
    const kolo_status ended = kolo_group_end(comm, NULL, NULL);
    return status == KOLO_OK ? ended : status;
}

static kolo_status call(struct kolo_comm *comm, int which, const uint8_t *send, uint8_t *recv)
{
    const struct kolo_opts factors = {.size = sizeof factors, .prescale = 0.5, .postscale = 3};
    struct any_call any = {.which = (enum any_collective)which,
                           .dtype = KOLO_FLOAT32,
                           .op = which == ANY_ALLREDUCE ? KOLO_AVERAGE : KOLO_SUM,
                           .count = COUNT,
                           .less = 1,
                           .apart = BLOCK};
    if (which == MESSAGES)
        return messages(comm, send, recv);
    if (which == GROUP)
        return group(comm, send, recv);
    if (which == SCALED) {
        any.which = ANY_ALLREDUCE;
        any.op = KOLO_SUM;
        any.opts = &factors;
    }
    return any_collective(comm, &any, send, recv);
}

/** The position of the input of a call in place within its one buffer; false: the call cannot be in
 * place. */
static bool in_place_at(const struct kolo_comm *comm, int which, size_t *send_at, size_t *recv_at)
{
    const size_t rank = (size_t)kolo_rank(comm);
    *send_at = *recv_at = 0;
    if (which == ANY_ALLGATHER)
        *send_at = rank * COUNT * 4;
    else if (which == ANY_ALLGATHERV)
        *send_at = rank * BLOCK * 4;
    else if (which == ANY_REDUCE_SCATTER)
        *recv_at = rank * COUNT * 4;
    else
        return which == ANY_ALLREDUCE || which == SCALED;
    return true;
}

/* ---- one call on the host and on the device ---- */

/** Small integers as float32: their bits are valid int32 numbers too, and their sums do not depend
 * on the order. */
static void fill(uint8_t *buffer, int rank, int salt)
{
    for (size_t i = 0; i < BYTES / 4; i++) {
        const float x = (float)((i * 7 + (size_t)rank * 13 + (size_t)salt) % 101);
        memcpy(buffer + 4 * i, &x, 4);
    }
}

/** Reads the device's memory once the program's stream is idle: a call that does not touch it waits
 * for nothing. */
static kolo_status read_received(struct side *side)
{
    WORLD_EXPECT(kolo_cuda_driver_loaded()->stream_synchronize(side->stream) == KOLO_CUDA_SUCCESS,
                 "the stream");
    mock->read(side->device_recv, side->got, BYTES);
    return KOLO_OK;
}

static kolo_status check(struct kolo_comm *comm, struct side *side, int which, int places)
{
    const int rank = kolo_rank(comm), salt = which * 3 + places;
    const bool has_send = places & 1, has_recv = places & 2;
    fill(side->send, rank, salt);
    fill(side->recv, rank, salt + 50);
    mock->write_on(side->stream, side->device_send, side->send, BYTES);
    mock->write_on(side->stream, side->device_recv, side->recv, BYTES);
    memcpy(side->got, side->recv, BYTES);
    kolo_status status = call(comm, which, side->send, side->recv);
    if (status == KOLO_OK)
        status = call(comm, which, has_send ? side->device_send : side->send,
                      has_recv ? side->device_recv : side->got);
    if (status != KOLO_OK)
        return status;
    if (has_recv)
        WORLD_TRY(read_received(side));
    WORLD_EXPECT(memcmp(side->got, side->recv, BYTES) == 0, "collective %d, places %d, rank %d",
                 which, places, rank);
    return KOLO_OK;
}

static kolo_status check_in_place(struct kolo_comm *comm, struct side *side, int which)
{
    size_t send_at, recv_at;
    if (!in_place_at(comm, which, &send_at, &recv_at))
        return KOLO_OK;
    fill(side->recv, kolo_rank(comm), which);
    mock->write_on(side->stream, side->device_recv, side->recv, BYTES);
    kolo_status status = call(comm, which, side->recv + send_at, side->recv + recv_at);
    if (status == KOLO_OK)
        status = call(comm, which, side->device_recv + send_at, side->device_recv + recv_at);
    if (status != KOLO_OK)
        return status;
    WORLD_TRY(read_received(side));
    const size_t bytes =
        which == ANY_REDUCE_SCATTER ? COUNT * 4 : BYTES; /* the rest is unspecified */
    WORLD_EXPECT(
        memcmp(side->got + recv_at, side->recv + recv_at, bytes - (bytes == BYTES) * recv_at) == 0,
        "collective %d in place, rank %d", which, kolo_rank(comm));
    return KOLO_OK;
}

static kolo_status all_calls(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int which = 0; which < CALL_KINDS && status == KOLO_OK; which++) {
        if (which == MESSAGES && kolo_size(comm) == 1)
            continue;
        for (int places = 0; places < 4 && status == KOLO_OK; places++)
            /* ranks differ in which buffers are on a device */
            status = check(comm, side, which, (places + kolo_rank(comm)) % 4);
        if (status == KOLO_OK)
            status = check_in_place(comm, side, which);
    }
    free(side);
    return status;
}

struct setup { /* no pointers, because the test runs in another process */
    int size;
    char transport[8];
};

ParameterizedTestParameters(staging, all_collectives)
{
    static struct setup setups[] = {{1, "inproc"}, {2, "inproc"}, {3, "tcp"}, {4, "shm"},
                                    {5, "inproc"}, {7, "tcp"},    {8, "shm"}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, staging, all_collectives, .timeout = 200)
{
    struct world world = {.size = setup->size, .transport = setup->transport};
    begin((unsigned)setup->size);
    const kolo_status status = world_run(&world, all_calls, NULL);
    cr_assert_eq(status, KOLO_OK, "np %d over %s: %s", setup->size, setup->transport,
                 world_cause(&world)->text);
    cr_assert_eq(mock->registered(), 0);
}

/* ---- locked pages ---- */

static bool is_pinned(const void *memory)
{
    struct kolo_pointer pointer;
    return kolo_pointer_look(memory, &pointer) == KOLO_OK && pointer.kind == KOLO_MEMORY_PINNED;
}

/** Every copy is between a device and locked pages, which the first copy finds already locked. */
static kolo_status call_with_locked_pages(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    void *early = NULL, *late = NULL;
    (void)argument;
    kolo_status status = kolo_alloc(comm, BYTES, &early);
    WORLD_EXPECT(!is_pinned(early), "no device was used");
    for (size_t count = 1; count <= COUNT && status == KOLO_OK; count += COUNT - 1)
        status = kolo_allreduce(comm, side->device_send, side->device_recv, count, KOLO_FLOAT32,
                                KOLO_SUM, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_alloc(comm, BYTES, &late);
    WORLD_EXPECT(status != KOLO_OK || (is_pinned(early) && is_pinned(late)), "not locked");
    WORLD_EXPECT(status != KOLO_OK || mock->registered() >= 4, "slabs are not locked");
    free(side);
    return status;
}

Test(staging, pages_are_locked_from_the_first_use_of_a_device_to_their_end)
{
    struct world world = {
        .size = 2, .transport = "inproc", .settings = {"KOLO_SHM_DIRECT_BYTES=1KiB", NULL}};
    begin(2);
    mock->set_current(-1);
    const kolo_status status = world_run(&world, call_with_locked_pages, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert_eq(mock->registered(), 0);
}

/* ---- calls that run in the background ---- */

enum { CALLS = 6 };

/** Several calls in progress at the same time, and again as persistent ones, each after a late
 * stream's write. */
static kolo_status requests(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    struct kolo_request *running[CALLS] = {NULL};
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    const size_t count = 500;
    kolo_status status = KOLO_OK;
    (void)argument;
    fill(side->send, kolo_rank(comm), 1);
    mock->write_on(side->stream, side->device_send, side->send, BYTES);
    for (size_t i = 0; i < CALLS && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, side->device_send + i * count * 4,
                                side->device_recv + i * count * 4, count, KOLO_FLOAT32, KOLO_SUM,
                                NULL, &running[i]);
    for (size_t i = 0; i < CALLS && status == KOLO_OK; i++)
        status = kolo_wait(&running[i], -1);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, side->send, side->recv, CALLS * count, KOLO_FLOAT32, KOLO_SUM,
                                NULL, NULL);
    mock->read(side->device_recv, side->got, BYTES);
    const bool is_right = memcmp(side->got, side->recv, CALLS * count * 4) == 0;
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, side->device_recv, side->device_recv, count, KOLO_FLOAT32,
                                KOLO_MAX, &again, &running[0]);
    for (int i = 0; i < CALLS && status == KOLO_OK; i++) {
        fill(side->send, kolo_rank(comm), i);
        mock->write_on(side->stream, side->device_recv, side->send, BYTES);
        status = i % 2 ? kolo_run(running[0]) : kolo_start(running[0]);
        if (status == KOLO_OK)
            status = kolo_wait(&running[0], -1);
        if (status == KOLO_OK)
            status = kolo_allreduce(comm, side->send, side->send, count, KOLO_FLOAT32, KOLO_MAX,
                                    NULL, NULL);
        mock->read(side->device_recv, side->got, BYTES);
        if (status == KOLO_OK && memcmp(side->got, side->send, count * 4) != 0)
            status = kolo_fail(KOLO_ERR_INTERNAL, "start %d is wrong", i);
    }
    (void)kolo_request_free(&running[0]);
    free(side);
    WORLD_EXPECT(status != KOLO_OK || is_right, "several at once: wrong");
    return status;
}

Test(staging, requests_overlap_and_repeat)
{
    struct world world = {.size = 4, .transport = "inproc"};
    begin(3);
    const kolo_status status = world_run(&world, requests, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

/* ---- notifications of copies ---- */

static void *let_go_when_asked(void *argument)
{
    const int *before = argument;
    const bool is_asked = AWAIT(mock->calls("cuLaunchHostFunc") > *before);
    mock->hold(0);
    return is_asked ? NULL : argument;
}

/** All copies are held until the rank that waits for one has asked for a notification. */
static kolo_status sum_asleep(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    int before = 0;
    pthread_t thread;
    void *in_vain = NULL;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    (void)argument;
    if (kolo_rank(comm) == 0) {
        before = mock->calls("cuLaunchHostFunc");
        mock->hold(1);
        if (pthread_create(&thread, NULL, let_go_when_asked, &before) != 0)
            abort();
    }
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_FLOAT32,
                                KOLO_SUM, NULL, NULL);
    if (kolo_rank(comm) == 0) {
        (void)pthread_join(thread, &in_vain);
        WORLD_EXPECT(in_vain == NULL, "nobody asked the driver to be woken");
    }
    free(side);
    return status;
}

Test(staging, who_sleeps_is_told_of_copies, .timeout = 100)
{
    struct world world = {
        .size = 2, .transport = "inproc", .settings = {"KOLO_SPIN_US=0", "KOLO_YIELD_US=0"}};
    begin(5);
    const kolo_status status = world_run(&world, sum_asleep, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

static kolo_status sums_awake(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < 20 && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_FLOAT32,
                                KOLO_SUM, NULL, NULL);
    free(side);
    return status;
}

/** A function that a stream calls costs more than a short copy. */
Test(staging, nobody_is_told_of_copies_who_looks, .timeout = 100)
{
    struct world world = {.size = 2, .transport = "inproc", .settings = {"KOLO_SPIN_US=1000000"}};
    begin(6);
    const kolo_status status = world_run(&world, sums_awake, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert_eq(mock->calls("cuLaunchHostFunc"), 0);
    cr_assert_eq(mock->calls("cuStreamWaitEvent"), 0);
}

/* ---- a copy delays nobody else ---- */

static void *let_go_when_received(void *request)
{
    const kolo_status status = kolo_wait(request, -1);
    mock->hold(0);
    return (void *)(uintptr_t)status;
}

/** Rank 0's copy ends only after its other thread has received what rank 1 sends after the copy
 * began. */
static kolo_status send_held_up(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    struct kolo_request *coming = NULL;
    pthread_t thread;
    void *received = NULL;
    kolo_status status = KOLO_OK;
    (void)argument;
    if (kolo_rank(comm) == 0) {
        status = kolo_recv(comm, side->recv, COUNT, KOLO_FLOAT32, 1, NULL, &coming);
        if (status != KOLO_OK || pthread_create(&thread, NULL, let_go_when_received, &coming) != 0)
            abort();
        status = kolo_send(comm, side->device_send, COUNT, KOLO_FLOAT32, 1, NULL, NULL);
        (void)pthread_join(thread, &received);
        WORLD_EXPECT(received == NULL, "receiving: %d", (int)(uintptr_t)received);
    } else {
        WORLD_EXPECT(AWAIT(mock->calls("cuMemcpyAsync") > 0), "nothing was copied");
        status = kolo_send(comm, side->send, COUNT, KOLO_FLOAT32, 0, NULL, NULL);
        if (status == KOLO_OK)
            status = kolo_recv(comm, side->recv, COUNT, KOLO_FLOAT32, 0, NULL, NULL);
    }
    free(side);
    return status;
}

Test(staging, while_a_message_is_copied_others_come, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc"};
    begin(1);
    mock->hold(1);
    const kolo_status status = world_run(&world, send_held_up, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

/* ---- a sender that finalizes before its message is on the device ---- */

/** Waits for the message of rank 0, which has arrived but cannot be copied to the device, while
 * rank 0 finalizes the communicator. */
static kolo_status receive_held_up(struct kolo_comm *comm, struct kolo_comm *copy,
                                   struct side *side)
{
    enum { TESTS = 1000 };
    struct kolo_request *coming = NULL;
    mock->hold(1);
    WORLD_TRY(kolo_recv(copy, side->device_recv, COUNT, KOLO_FLOAT32, 0, NULL, &coming));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* behind the announcement, on the same link */
    for (int i = 0; i < TESTS; i++)
        WORLD_EXPECT(kolo_test(&coming) == KOLO_AGAIN, "test %d: %s", i, kolo_error_detail());
    mock->hold(0);
    WORLD_TRY(kolo_wait(&coming, -1));
    mock->read(side->device_recv, side->got, COUNT * 4);
    WORLD_EXPECT(memcmp(side->got, side->send, COUNT * 4) == 0, "wrong bytes");
    return KOLO_OK;
}

static kolo_status receive_from_gone(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    struct kolo_comm *copy = NULL;
    kolo_status status;
    (void)argument;
    fill(side->send, 0, 1);
    KOLO_TRY(kolo_dup(comm, NULL, &copy));
    if (kolo_rank(comm) == 1) {
        KOLO_TRY(receive_held_up(comm, copy, side));
        KOLO_TRY(kolo_finalize(copy));
    } else {
        KOLO_TRY(kolo_send(copy, side->send, COUNT, KOLO_FLOAT32, 1, NULL, NULL));
        KOLO_TRY(kolo_finalize(copy));
        KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    }
out:
    free(side);
    return status;
}

ParameterizedTestParameters(staging, what_has_arrived_is_received_although_its_sender_is_gone)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, staging,
                  what_has_arrived_is_received_although_its_sender_is_gone, .timeout = 60)
{
    struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=40"}};
    begin(1);
    WORLD_MUST_RUN(&world, receive_from_gone, NULL);
}

/* ---- a copy that does not end ---- */

static kolo_status send_once(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 100};
    struct side *side = side_create(kolo_rank(comm));
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all are there */
    (void)argument;
    if (kolo_rank(comm) == 0 && status == KOLO_OK)
        status = kolo_send(comm, side->device_send, COUNT, KOLO_FLOAT32, 1, &opts, NULL);
    else if (status == KOLO_OK)
        status = kolo_recv(comm, side->recv, COUNT, KOLO_FLOAT32, 0, NULL, NULL);
    free(side);
    return status;
}

/** @p setting: whether the late copy's memory is from the heap. */
static void check_late_copy(const char *setting)
{
    struct world world = {
        .size = 2, .transport = "inproc", .settings = {"KOLO_EXIT_TIMEOUT=200ms", setting, NULL}};
    begin(1);
    mock->hold(1);
    const kolo_status status = world_run(&world, send_once, NULL);
    mock->hold(0); /* the copy runs now, into memory that still exists */
    cr_assert_eq(kolo_cuda_driver_loaded()->context_synchronize(), KOLO_CUDA_SUCCESS);
    cr_assert_eq(status, KOLO_ERR_TIMEOUT, "%s", world_cause(&world)->text);
    for (int rank = 0; rank < world.size; rank++)
        cr_assert_not_null(strstr(world.results[rank].text, "has not copied within 100 ms"), "%s",
                           world.results[rank].text);
}

Test(staging, a_copy_that_does_not_end_ends_the_call, .timeout = 60)
{
    check_late_copy("KOLO_SHM_DIRECT_BYTES=1");
    check_late_copy("KOLO_SHM_DIRECT_BYTES=1MiB");
}

/* ---- a result that comes too late ---- */

static atomic_int late_warnings;

static void count_late(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    if (level == KOLO_LOG_WARN &&
        strstr(line, "allreduce(count 1003, int32, sum) sequence 1 has failed, but the device") &&
        strstr(line, "it may still write to the buffers of that call"))
        atomic_fetch_add(&late_warnings, 1);
}

/** The device of rank 0 begins nothing before the call has failed. @p argument: whether it fails
 * before there is a result to copy, since rank 1 does not call. */
static kolo_status result_is_late(struct kolo_comm *comm, void *argument)
{
    const bool *is_alone = argument;
    struct side *side = side_create(kolo_rank(comm));
    struct kolo_request *request = NULL;
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all are there */
    if (status != KOLO_OK) {
        free(side);
        return status;
    }
    if (kolo_rank(comm) == 0) {
        mock->hold(1); /* with its input on the host, all that is copied is the result */
        status = kolo_allreduce(comm, side->send, side->device_recv, COUNT, KOLO_INT32, KOLO_SUM,
                                NULL, &request);
        WORLD_EXPECT(*is_alone || AWAIT(kolo_test(&request) != KOLO_AGAIN ||
                                        request->stage == KOLO_STAGING_OUT),
                     "there is no result");
        kolo_abort(comm, "enough");
        if (status == KOLO_OK)
            status = kolo_wait(&request, -1);
    } else if (*is_alone) {
        status = kolo_recv(comm, side->recv, 1, KOLO_INT32, 0, NULL, NULL); /* until it fails */
    } else {
        status =
            kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL);
    }
    free(side);
    return status;
}

/** What was queued cannot be taken back: the program is warned that its buffer may still change. */
Test(staging, a_result_that_may_come_after_the_failure_is_warned_of, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        bool is_alone = i == 1;
        struct world world = {.size = 2,
                              .transport = "inproc",
                              .settings = {"KOLO_EXIT_TIMEOUT=200ms", "KOLO_TIMEOUT=40"}};
        begin(1);
        atomic_store(&late_warnings, 0);
        kolo_log_set_sink(count_late, NULL);
        (void)world_run(&world, result_is_late, &is_alone);
        kolo_log_set_sink(NULL, NULL);
        mock->hold(0); /* the copy runs now */
        cr_assert_eq(kolo_cuda_driver_loaded()->context_synchronize(), KOLO_CUDA_SUCCESS);
        cr_assert_eq(world.results[0].status, KOLO_ERR_ABORTED, "%s", world.results[0].text);
        cr_assert_eq(atomic_load(&late_warnings), is_alone ? 0 : 1, "%d", i);
    }
}

/* ---- a copy whose end nobody tells ---- */

/** Waits for a device's copy to the host, which does not begin, by a driver that does not tell. */
static kolo_status sum_behind_a_stream(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    struct kolo_request *request = NULL;
    kolo_status status = kolo_allreduce(comm, side->device_send, side->device_recv, COUNT,
                                        KOLO_FLOAT32, KOLO_SUM, &opts, &request);
    (void)argument;
    if (status == KOLO_OK)
        status = kolo_wait(&request, -1);
    free(side);
    return status;
}

/** The copy may not be over although its call has failed. */
static void check_untold_copy(const char *setting)
{
    struct world world = {.size = 2,
                          .transport = "inproc",
                          .settings = {"KOLO_EXIT_TIMEOUT=200ms", "KOLO_PLAN=ring", setting, NULL}};
    begin(1);
    mock->pace(0);
    cr_assert_eq(setenv("MOCK_CUDA_FAIL", "cuEventQuery=801", 1), 0); /* not supported */
    cr_assert_neq(world_run(&world, sum_behind_a_stream, NULL), KOLO_OK);
    cr_assert_eq(unsetenv("MOCK_CUDA_FAIL"), 0);
    mock->pace(-1); /* the copies run now, into memory that still exists */
    for (int device = 0; device < MOCK_DEVICES; device++) {
        mock->set_current(device);
        cr_assert_eq(kolo_cuda_driver_loaded()->context_synchronize(), KOLO_CUDA_SUCCESS);
    }
    cr_assert_not_null(strstr(world_cause(&world)->text, "cuEventQuery on device"), "%s",
                       world_cause(&world)->text);
}

Test(staging, memory_of_a_copy_whose_end_nobody_tells_is_kept, .timeout = 60)
{
    check_untold_copy("KOLO_SHM_DIRECT_BYTES=1");
    check_untold_copy("KOLO_SHM_DIRECT_BYTES=1MiB");
}

/* ---- host memory that stands in for device buffers ---- */

enum { MANY = 300, LARGE = 40 << 20 };

/** One group with more buffers than this process may have files, then large ones of many sizes. */
static kolo_status many_and_large(struct kolo_comm *comm, void *argument)
{
    uint8_t *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm), LARGE);
    kolo_status status = kolo_group_begin(comm);
    (void)argument;
    for (size_t i = 0; i < MANY && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, memory + i * 4096, memory + i * 4096, i % 2 ? 1 : 1000,
                                KOLO_INT32, i % 3 ? KOLO_SUM : KOLO_MAX, NULL, NULL);
    const kolo_status ended = kolo_group_end(comm, NULL, NULL);
    if (status != KOLO_OK || ended != KOLO_OK)
        return status != KOLO_OK ? status : ended;
    for (size_t i = 0; i < 5 && status == KOLO_OK; i++) {
        status = kolo_broadcast(comm, memory, LARGE - (4 - i) * 4096, KOLO_UINT8, 0, NULL, NULL);
        WORLD_EXPECT(comm->engine->slabs.bytes_unused <= (size_t)128 << 20, "%zu bytes are kept",
                     comm->engine->slabs.bytes_unused);
    }
    WORLD_EXPECT(status != KOLO_OK || comm->engine->slabs.bytes_unused >= LARGE, "none is kept");
    return status;
}

Test(staging, many_buffers_take_few_files_and_few_bytes_are_kept, .timeout = 100)
{
    struct world world = {.size = 2, .transport = "shm"};
    const struct rlimit files = {.rlim_cur = 200, .rlim_max = 200};
    begin(5);
    mock->delays(5, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    const kolo_status status = world_run(&world, many_and_large, NULL);
    cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
}

static kolo_status five_sums(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < 5 && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_FLOAT32,
                                KOLO_SUM, NULL, NULL);
    free(side);
    return status;
}

/** Asking what a device has done is expensive compared with a short call. One buffer of rank 1 has
 * no context, and thus uses another lane. */
Test(staging, a_device_is_asked_once_a_call_for_both_buffers, .timeout = 100)
{
    struct world world = {.size = 2, .transport = "inproc"};
    begin(2);
    const int before = mock->calls("cuCtxRecordEvent");
    cr_assert_eq(world_run(&world, five_sums, NULL), KOLO_OK, "%s", world_cause(&world)->text);
    cr_assert_eq(mock->calls("cuCtxRecordEvent") - before, 5 + 2 * 5);
}

/* ---- failures ---- */

static kolo_status until_it_fails(struct kolo_comm *comm, void *argument)
{
    struct side *side = side_create(kolo_rank(comm));
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all are there */
    (void)argument;
    for (int i = 0; i < 50 && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, side->device_send, side->device_recv, COUNT, KOLO_FLOAT32,
                                KOLO_SUM, NULL, NULL);
    free(side);
    return status;
}

static const char *const functions[] = {
    "cuPointerGetAttributes", "cuEventCreate", "cuCtxRecordEvent",          "cuEventQuery",
    "cuMemcpyAsync",          "cuEventRecord", "cuStreamCreateWithPriority"};

/** Whatever call fails, all ranks get the same text, long before a deadline. */
Test(staging, a_failing_call_of_the_driver_is_everybodys, .timeout = 100)
{
    begin(1);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct world world = {.size = 3, .transport = "inproc"};
        mock->fail(functions[i], 2, KOLO_CUDA_INVALID_VALUE);
        const kolo_status status = world_run(&world, until_it_fails, NULL);
        mock->fail("", 1, 0);
        cr_assert_eq(status, KOLO_ERR_SYSTEM, "%s: %s", functions[i], world_cause(&world)->text);
        for (int rank = 0; rank < world.size; rank++) {
            const char *text = world.results[rank].text;
            cr_assert_eq(world.results[rank].status, KOLO_ERR_SYSTEM, "%s", text);
            cr_assert(strstr(text, "allreduce") && strstr(text, "rank ") && strstr(text, "(1)"),
                      "%s: %s", functions[i], text);
        }
    }
}

static kolo_status call_with_what_it_has(struct kolo_comm *comm, void *argument)
{
    struct side *side = calloc(1, sizeof *side);
    (void)argument;
    if (!side)
        abort();
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all are there */
    if (status == KOLO_OK)
        status =
            kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    free(side);
    return status;
}

/** Its memory is not mistaken for host memory. */
Test(staging, a_driver_that_cannot_copy_refuses_the_call, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc"};
    cr_assert_not_null(dlopen(MOCK_CUDA_LACKING, RTLD_NOW | RTLD_LOCAL));
    const kolo_status status = world_run(&world, call_with_what_it_has, NULL);
    cr_assert_eq(status, KOLO_ERR_UNSUPPORTED, "%s", world_cause(&world)->text);
    for (int rank = 0; rank < world.size; rank++)
        cr_assert_not_null(strstr(world.results[rank].text, "libcuda.so.1 has no cu"), "%s",
                           world.results[rank].text);
}

/** Memory of device 0, where a stream waits until it contains 1. */
static void *hold_device_up(void)
{
    static const uint32_t zero = 0;
    void *stream = mock->stream(0), *flag = mock->alloc(MOCK_DEVICE, 0, COUNT * 4);
    mock->write(flag, &zero, sizeof zero);
    mock->await(stream, flag, 1);
    return flag;
}

static kolo_status call_behind_endless_work(struct kolo_comm *comm, void *stuck)
{
    struct side *side = side_create(kolo_rank(comm));
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 200};
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all are there */
    if (kolo_rank(comm) == 0)                            /* on device 0, like the stream */
        status = kolo_allreduce(comm, stuck, side->device_recv, COUNT, KOLO_FLOAT32, KOLO_SUM,
                                &opts, NULL);
    else if (status == KOLO_OK)
        status =
            kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    free(side);
    return status;
}

/** The default deadline is minutes; the call has one of its own, and its rank tells the others. */
Test(staging, work_of_the_programs_that_does_not_end_is_not_waited_for_without_end, .timeout = 60)
{
    static const uint32_t one = 1;
    struct world world = {.size = 3, .transport = "inproc"};
    begin(1);
    void *flag = hold_device_up();
    const kolo_status status = world_run(&world, call_behind_endless_work, flag);
    mock->write(flag, &one, sizeof one);
    cr_assert_eq(status, KOLO_ERR_TIMEOUT, "%s", world_cause(&world)->text);
    for (int rank = 0; rank < world.size; rank++) {
        const char *text = world.results[rank].text;
        cr_assert_eq(world.results[rank].status, KOLO_ERR_TIMEOUT, "%s", text);
        cr_assert(strstr(text, "allreduce") && strstr(text, "rank 0") &&
                      strstr(text, "has not finished the program's earlier work within 200 ms"),
                  "%s", text);
    }
}

static kolo_status abort_meanwhile(struct kolo_comm *comm, void *stuck)
{
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) != 1)
        return kolo_allreduce(comm, stuck, stuck, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    kolo_abort(comm, "enough");
    return kolo_barrier(comm, NULL, NULL);
}

/** Ranks 0 and 2 wait for their devices, with the default deadline of minutes. */
Test(staging, who_waits_for_a_device_hears_that_another_rank_has_failed, .timeout = 60)
{
    static const uint32_t one = 1;
    struct world world = {.size = 3, .transport = "tcp"};
    begin(1);
    void *flag = hold_device_up();
    const kolo_status status = world_run(&world, abort_meanwhile, flag);
    mock->write(flag, &one, sizeof one);
    cr_assert_eq(status, KOLO_ERR_ABORTED, "%s", world_cause(&world)->text);
    for (int rank = 0; rank < world.size; rank++) {
        const char *text = world.results[rank].text;
        cr_assert_eq(world.results[rank].status, KOLO_ERR_ABORTED, "%s", text);
        cr_assert(strstr(text, "rank 1") && strstr(text, "enough"), "%s", text);
    }
}

/** A lost device never passes a mark and notifies nobody. */
Test(staging, a_device_that_is_lost_ends_the_call, .timeout = 60)
{
    begin(1);
    for (int nth = 1; nth < 14; nth += 3) {
        struct world world = {
            .size = 2, .transport = "inproc", .settings = {"KOLO_STALL=200ms", NULL}};
        mock->fail("", 1, 0);
        begin((unsigned)nth);
        mock->fail_async(nth, KOLO_CUDA_ILLEGAL_ADDRESS);
        const kolo_status status = world_run(&world, until_it_fails, NULL);
        cr_assert_eq(status, KOLO_ERR_SYSTEM, "operation %d: %s", nth, world_cause(&world)->text);
        cr_assert_not_null(strstr(world_cause(&world)->text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s",
                           world_cause(&world)->text);
    }
}
