// SPDX-License-Identifier: Apache-2.0
// Calls on device buffers over RDMA, with RDMA devices in memory and the mock's CUDA devices.
// runtime/staging_direct.c: calls that compute nothing, on memory of kolo_alloc_device, against the
// same calls on host memory, by every plan; failures on the way; and what still goes through the
// host. runtime/request.c: a call that fails while its receives are offered to a peer's RDMA
// device, and while copies of data that has arrived are still in progress.
#include <errno.h>
#include <stdlib.h>

#include "memory/cuda_driver.h"
#include "tests/support/any_collective.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { PIECES = 32, PIECE = 64 << 10, BYTES = PIECES * PIECE };

TestSuite(rdma_staging, .init = begin, .fini = end, .timeout = 100);

static const struct mock_cuda *mock;

static kolo_status reduce(struct kolo_comm *comm, void *argument)
{
    void *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm), BYTES);
    (void)argument;
    return kolo_allreduce(comm, memory, memory, BYTES, KOLO_UINT8, KOLO_SUM, NULL, NULL);
}

/** The offers are cut off, and pages are unlocked for that: the mock aborts if copies still use
 * them. */
Test(rdma_staging, pages_are_cut_off_when_copies_are_over)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->delays(1, 5000);
    for (int nth = 24; nth < 56; nth += 4) {
        struct world world = {.size = 2,
                              .transport = "rdma",
                              .settings = {"KOLO_STAGE_BYTES=64KiB", "KOLO_SEGMENT_BYTES=64KiB",
                                           "KOLO_RDMA_DIRECT_BYTES=4KiB", "KOLO_PLAN=ring"}};
        mock->fail("cuMemcpyAsync", 2 * PIECES + nth, KOLO_CUDA_INVALID_VALUE);
        const kolo_status status = world_run(&world, reduce, NULL);
        mock->fail("", 1, 0); /* a call may end with fewer copies */
        cr_assert(status == KOLO_OK || status == KOLO_ERR_SYSTEM, "%s", world_cause(&world)->text);
    }
}

/** Rank 1 waits on a stream for a broadcast that does not come, with further calls behind it. What
 * it has offered is cut off, for which its driver waits until all streams are idle. */
static kolo_status in_vain(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm);
    struct kolo_opts opts = {.size = sizeof opts, .stream = mock->stream(rank)};
    struct kolo_request *requests[2] = {NULL};
    void *memory = mock->alloc(MOCK_DEVICE, rank, BYTES);
    uint8_t byte = 0, *host = NULL;
    (void)argument;
    mock->set_current(rank);
    WORLD_TRY(kolo_alloc(comm, BYTES, (void **)&host));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* the link is up */
    if (rank == 0)
        return kolo_recv(comm, &byte, 1, KOLO_UINT8, 1, NULL, NULL);
    opts.timeout_ms = 300;
    WORLD_TRY(kolo_broadcast(comm, memory, BYTES, KOLO_UINT8, 0, &opts, &requests[0]));
    WORLD_TRY(kolo_broadcast(comm, host, BYTES, KOLO_UINT8, 0, &opts, &requests[1]));
    mock->lock_slowly(1);
    const kolo_status status = kolo_wait(&requests[0], -1);
    WORLD_EXPECT(kolo_cuda_driver_loaded()->stream_synchronize(opts.stream) == KOLO_CUDA_SUCCESS,
                 "its stream does not go on");
    return status;
}

Test(rdma_staging, pages_are_cut_off_when_no_stream_waits_for_the_call)
{
    struct world world = {
        .size = 2,
        .transport = "rdma",
        .settings = {"KOLO_RDMA_DIRECT_BYTES=4KiB", "KOLO_SHM_DIRECT_BYTES=4KiB"}};
    mock = mock_cuda_load();
    mock->begin();
    const kolo_status status = world_run(&world, in_vain, NULL);
    cr_assert_eq(status, KOLO_ERR_TIMEOUT, "%s", world_cause(&world)->text);
}

/* ---- memory that links reach ---- */

enum { COUNT = 70001, RANKS_MAX = 4, ROOM = RANKS_MAX * (COUNT + 100) };

/** The calls that compute nothing; the last one stands for messages. */
static const enum any_collective kinds[] = {ANY_ALLGATHER,  ANY_ALLGATHERV, ANY_BROADCAST,
                                            ANY_ALLTOALL,   ANY_SCATTER,    ANY_GATHER,
                                            ANY_COLLECTIVES};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct side {
    uint8_t send[ROOM], recv[ROOM], got[ROOM];
    void *device_send, *device_recv;
};

static kolo_status pass_on(struct kolo_comm *comm, const uint8_t *send, uint8_t *recv)
{
    const int size = kolo_size(comm), rank = kolo_rank(comm);
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_recv(comm, recv, COUNT, KOLO_UINT8, (rank + size - 1) % size, NULL, &request));
    WORLD_TRY(kolo_send(comm, send, COUNT, KOLO_UINT8, (rank + 1) % size, NULL, NULL));
    return kolo_wait(&request, -1);
}

static kolo_status call(struct kolo_comm *comm, int kind, const uint8_t *send, uint8_t *recv)
{
    if (kinds[kind] == ANY_COLLECTIVES)
        return pass_on(comm, send, recv);
    return any_collective(comm,
                          &(struct any_call){.which = kinds[kind],
                                             .dtype = KOLO_UINT8,
                                             .count = COUNT,
                                             .less = 100,
                                             .apart = COUNT + 100},
                          send, recv);
}

static void fill_in(uint8_t *buffer, int rank, int salt)
{
    for (size_t i = 0; i < ROOM; i++)
        buffer[i] = (uint8_t)(i * 7 + i / 250 + (size_t)rank * 13 + (size_t)salt * 29);
}

/** @p places is a set of bits: 1: send is on a device, 2: recv is. */
static kolo_status check(struct kolo_comm *comm, struct side *side, int which, int places)
{
    const int rank = kolo_rank(comm), salt = which * 4 + places;
    fill_in(side->send, rank, salt);
    fill_in(side->recv, rank, salt + 50);
    memcpy(side->got, side->recv, ROOM);
    mock->write(side->device_send, side->send, ROOM);
    mock->write(side->device_recv, side->recv, ROOM);
    const kolo_status status = call(comm, which, side->send, side->recv);
    if (status == KOLO_ERR_UNSUPPORTED) /* the plan does not support blocks of different lengths */
        return KOLO_OK;
    WORLD_TRY(status);
    WORLD_TRY(call(comm, which, (places & 1) != 0 ? side->device_send : side->send,
                   (places & 2) != 0 ? side->device_recv : side->got));
    if ((places & 2) != 0)
        mock->read(side->device_recv, side->got, ROOM);
    WORLD_EXPECT(memcmp(side->got, side->recv, ROOM) == 0, "collective %d, rank %d, places %d",
                 which, rank, places);
    return KOLO_OK;
}

static kolo_status all_calls(struct kolo_comm *comm, void *argument)
{
    struct side *side = calloc(1, sizeof *side);
    const int device = kolo_rank(comm) % MOCK_DEVICES;
    kolo_status status = side ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    (void)argument;
    if (status == KOLO_OK)
        status = kolo_alloc_device(comm, ROOM, device, &side->device_send);
    if (status == KOLO_OK)
        status = kolo_alloc_device(comm, ROOM, device, &side->device_recv);
    for (int which = 0; which < KINDS && status == KOLO_OK; which++)
        for (int turn = 0; turn < 4 && status == KOLO_OK; turn++)
            status = check(comm, side, which, (turn + kolo_rank(comm)) % 4);
    if (status == KOLO_OK)
        status = kolo_free(comm, side->device_send);
    free(side);
    return status;
}

static void run_all(int size, const char *plan, const char *checksum)
{
    struct world world = {.size = size,
                          .transport = "rdma",
                          .settings = {"KOLO_STAGE_BYTES=16KiB", "KOLO_SEGMENT_BYTES=16KiB",
                                       "KOLO_RDMA_DIRECT_BYTES=4KiB", plan, checksum}};
    WORLD_MUST_RUN(&world, all_calls, NULL);
}

Test(rdma_staging, data_is_the_same_by_every_plan)
{
    static const char *const plans[] = {"KOLO_PLAN=auto", "KOLO_PLAN=ring", "KOLO_PLAN=direct",
                                        "KOLO_PLAN=tree", "KOLO_PLAN=bruck"};
    mock = mock_cuda_load();
    mock->begin();
    for (int size = 2; size <= RANKS_MAX; size++)
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            mock->delays((unsigned)(size * 10 + (int)i), 300);
            run_all(size, plans[i], "KOLO_CHECKSUM=0");
        }
    cr_assert(mock->calls("cuMemGetHandleForAddressRange") > 0);
}

/** Everything is copied through the host if device memory cannot be registered. */
Test(rdma_staging, data_is_the_same_where_memory_cannot_be_registered)
{
    mock = mock_cuda_load();
    mock->begin();
    for (int nth = 1; nth <= 4; nth++) {
        fake_verbs_fail("reg_dmabuf_mr", nth, EOPNOTSUPP);
        run_all(2, "KOLO_PLAN=auto", "KOLO_CHECKSUM=0");
    }
    mock->shares(0, 0);
    run_all(3, "KOLO_PLAN=auto", "KOLO_CHECKSUM=0");
}

/** No processor could verify what a network card writes into a device's memory. */
Test(rdma_staging, data_is_the_same_with_checksums_and_goes_through_the_host)
{
    mock = mock_cuda_load();
    mock->begin();
    for (int size = 2; size <= 3; size++)
        run_all(size, "KOLO_PLAN=auto", "KOLO_CHECKSUM=1");
    cr_assert(mock->calls("cuMemGetHandleForAddressRange") == 0);
    cr_assert(fake_verbs_written() > 0, "the host's memory is still written directly");
}

/** The receiver's message that its receive is posted follows the offer, so the sender writes
 * directly. */
static kolo_status land(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), peer = 1 - rank;
    uint8_t *bytes = calloc(1, ROOM), word = 0;
    void *memory = NULL;
    (void)argument;
    WORLD_TRY(kolo_alloc_device(comm, ROOM, rank, &memory));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* the link is up */
    for (int salt = 0; salt < 20; salt++) {
        struct kolo_request *request = NULL;
        if (rank == 0) {
            fill_in(bytes, 0, salt);
            mock->write(memory, bytes, ROOM);
            WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_UINT8, peer, NULL, NULL));
            WORLD_TRY(kolo_send(comm, memory, ROOM, KOLO_UINT8, peer, NULL, NULL));
            continue;
        }
        WORLD_TRY(kolo_recv(comm, memory, ROOM, KOLO_UINT8, peer, NULL, &request));
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_UINT8, peer, NULL, NULL));
        WORLD_TRY(kolo_wait(&request, -1));
        uint8_t *expected = calloc(1, ROOM);
        fill_in(expected, 0, salt);
        mock->read(memory, bytes, ROOM);
        const bool is_right = memcmp(bytes, expected, ROOM) == 0;
        free(expected);
        WORLD_EXPECT(is_right, "message %d", salt);
    }
    free(bytes);
    return KOLO_OK;
}

Test(rdma_staging, a_message_between_devices_is_copied_by_nobody)
{
    struct world world = {.size = 2, .transport = "rdma"};
    mock = mock_cuda_load();
    mock->begin();
    WORLD_MUST_RUN(&world, land, NULL);
    cr_assert(fake_verbs_written() >= (size_t)20 * ROOM, "%zu", fake_verbs_written());
    cr_assert(mock->calls("cuMemcpyAsync") == 0, "%d", mock->calls("cuMemcpyAsync"));
}

/** Each copy on a device fails in turn, and each operation of a stream, while data that has arrived
 * is being copied to the device. */
Test(rdma_staging, a_device_that_fails_fails_the_call)
{
    int failed = 0;
    mock = mock_cuda_load();
    mock->begin();
    for (int nth = 1; nth < 60; nth += 5) {
        struct world world = {.size = 3, .transport = "rdma", .settings = {"KOLO_PLAN=ring"}};
        if (nth % 2)
            mock->fail("cuMemcpyAsync", nth, KOLO_CUDA_INVALID_VALUE);
        else
            mock->fail_async(nth, KOLO_CUDA_ILLEGAL_ADDRESS);
        const kolo_status status = world_run(&world, all_calls, NULL);
        mock->fail("", 1, 0); /* no more failures */
        mock->fail_async(0, 0);
        failed += status != KOLO_OK;
        cr_assert(status == KOLO_OK || status == KOLO_ERR_SYSTEM, "%d: %s", nth,
                  world_cause(&world)->text);
    }
    cr_assert(failed >= 6, "%d", failed);
}
