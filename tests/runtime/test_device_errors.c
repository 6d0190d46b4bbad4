// SPDX-License-Identifier: Apache-2.0
// Failures of a CUDA device, at every place where one can occur: an asynchronous error that every
// later call of the driver returns, a device that is gone, memory that runs out. One rank has its
// buffers on a device, the others on the host or on a device too. All ranks must end with the same
// status, whose detail names the driver's call, the device and the rank, without a timeout, and
// finalize as usual.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/cuda_driver.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { RANKS = 3, LOSER = 1, DEVICE = 1, SHORT = 100, LONG = 9001, CALLS = 60 };

static const struct mock_cuda *mock;
static void *followed; /* a stream of the device, for calls that follow a stream */

/* ---- the calls ---- */

/** One use of a device: the length of calls, and which other ranks have a device. */
struct use {
    size_t count;
    bool all_on_devices, gathers;
    const char *transport;
    bool follows; /* calls follow a stream of the loser */
};

static const struct use uses[] = {{SHORT, false, false, "inproc", false},
                                  {LONG, false, false, "tcp", false},
                                  {LONG, false, true, "shm", false},
                                  {LONG, true, false, "shm", false},
                                  {LONG, false, false, "inproc", true}};
enum { USES = sizeof uses / sizeof *uses };

struct side {
    float *send, *recv;
    void *stream;      /* NULL: calls follow none */
    bool is_allocated; /* recv, by kolo */
    float host_send[LONG], host_recv[RANKS * LONG], got[RANKS * LONG];
};

/** The rank whose device fails: the only one in a world of one. */
static bool is_loser(const struct kolo_comm *comm)
{
    return kolo_rank(comm) == LOSER % kolo_size(comm);
}

/** @p is_plain: all buffers are the program's own, so that the first call makes the lane;
 *  kolo_alloc_device makes it otherwise. */
static kolo_status side_open(struct kolo_comm *comm, const struct use *use, struct side *side,
                             bool is_plain)
{
    const int rank = kolo_rank(comm);
    side->send = side->host_send;
    side->recv = side->host_recv;
    for (size_t i = 0; i < use->count; i++)
        side->host_send[i] = (float)(rank + 1);
    if (!is_loser(comm) && !use->all_on_devices)
        return KOLO_OK;
    side->stream = use->follows ? followed : NULL;
    side->send = mock->alloc(MOCK_DEVICE, DEVICE, sizeof side->host_send);
    mock->write(side->send, side->host_send, use->count * sizeof(float));
    side->is_allocated = !is_plain;
    if (!is_plain)
        return kolo_alloc_device(comm, sizeof side->host_recv, DEVICE, (void **)&side->recv);
    side->recv = mock->alloc(MOCK_DEVICE, DEVICE, sizeof side->host_recv);
    return KOLO_OK;
}

/** Memory of a lost device is gone. A driver that has no memory left still frees it. */
static kolo_status side_close(struct kolo_comm *comm, struct side *side, bool is_lost)
{
    kolo_status status = KOLO_OK;
    if (side->is_allocated)
        status = kolo_free(comm, side->recv);
    free(side);
    return is_lost && status == KOLO_ERR_SYSTEM ? KOLO_OK : status;
}

static kolo_status call(struct kolo_comm *comm, const struct use *use, const struct side *side)
{
    const struct kolo_opts follow = {.size = sizeof follow, .stream = side->stream};
    const struct kolo_opts *opts = side->stream ? &follow : NULL;
    struct kolo_request *request = NULL;
    kolo_status status = use->gathers ? kolo_allgather(comm, side->send, side->recv, use->count,
                                                       KOLO_FLOAT32, opts, &request)
                                      : kolo_allreduce(comm, side->send, side->recv, use->count,
                                                       KOLO_FLOAT32, KOLO_SUM, opts, &request);
    return status == KOLO_OK ? kolo_wait(&request, -1) : status;
}

/** Checks the results of a call that succeeded. */
static bool is_right(const struct use *use, struct side *side, int ranks)
{
    const size_t count = use->gathers ? (size_t)ranks * use->count : use->count;
    const float sum = (float)(ranks * (ranks + 1) / 2);
    const float *got = side->recv;
    if (side->recv != side->host_recv) {
        mock->read(side->recv, side->got, count * sizeof(float));
        got = side->got;
    }
    for (size_t i = 0; i < count; i++)
        if (got[i] != (use->gathers ? (float)(i / use->count + 1) : sum))
            return false;
    return true;
}

/* ---- what fails ---- */

struct trial {
    const struct use *use;
    const char *function; /* "*": any function; NULL: an operation of a stream fails, not a call */
    int nth, result;
    bool at_first; /* no call was made before, so there are no links or lanes yet */
    /* Not 0: in a world of this many ranks an allocation on the host fails, one that is not a
     * call's. */
    int host_ranks;
};

static void arm(const struct trial *trial)
{
    if (trial->host_ranks)
        kolo_alloc_fail_nth((uint64_t)trial->nth);
    else if (trial->function)
        mock->fail(trial->function, trial->nth, trial->result);
    else
        mock->fail_async(trial->nth, trial->result);
}

static struct side *side_create(void)
{
    struct side *side = calloc(1, sizeof *side);
    if (!side)
        abort();
    return side;
}

/** The device is lost after a successful call, so that links and lanes exist, or before any
 * call. */
static kolo_status until_it_fails(struct kolo_comm *comm, void *argument)
{
    const struct trial *trial = argument;
    struct side *side = side_create();
    char words[KOLO_DETAIL_MAX] = "";
    kolo_status status = side_open(comm, trial->use, side, trial->at_first);
    if (status == KOLO_OK && !trial->at_first)
        status = call(comm, trial->use, side);
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    if (is_loser(comm))
        arm(trial);
    for (int i = 0; i < CALLS && status == KOLO_OK; i++)
        status = call(comm, trial->use, side);
    strcpy(words, kolo_error_detail());
    const kolo_status freed = side_close(comm, side, true);
    WORLD_EXPECT(freed == KOLO_OK, "kolo_free: %s", kolo_error_detail());
    return kolo_fail(status, "%s", words);
}

static void begin(const struct trial *trial)
{
    mock = mock_cuda_load();
    mock->fail("", 1, 0); /* no more failures */
    mock->fail_async(0, 0);
    mock->begin();
    if (!followed)
        followed = mock->stream(DEVICE);
    mock->set_current(0);
    mock->delays((unsigned)trial->nth, 30);
}

static struct world world_for(const struct use *use)
{
    return (struct world){.size = RANKS,
                          .transport = use->transport,
                          .settings = {"KOLO_STAGE_BYTES=4KiB", "KOLO_SEGMENT_BYTES=4KiB", NULL}};
}

/** The calls that find out on which device a buffer or a stream is. */
static const char *const askers[] = {"cuPointerGetAttributes", "cuStreamGetCtx",
                                     "cuCtxPushCurrent",       "cuCtxGetDevice",
                                     "cuDeviceGetCount",       "cuDeviceGet"};
enum { ASKERS = sizeof askers / sizeof *askers };

static bool is_of_asker(const struct trial *trial, const char *text)
{
    char call[64];
    for (size_t i = 0; i < ASKERS; i++) {
        (void)snprintf(call, sizeof call, "%s: ", askers[i]);
        if ((i == 0 || trial->use->follows) && strstr(text, call))
            return true;
    }
    return false;
}

/** Checks that the text has the call, the device (unless the failed call was to find it out), the
 * result and the rank. */
static void check_words(const struct trial *trial, const struct world_result *result)
{
    char number[32];
    (void)snprintf(number, sizeof number, "(%d)", trial->result);
    cr_assert(strstr(result->text, trial->use->gathers ? "allgather(" : "allreduce(") &&
                  strstr(result->text, " on rank ") &&
                  (strstr(result->text, ": cu") || strstr(result->text, ": copying on device")) &&
                  (strstr(result->text, " on device 1: ") || is_of_asker(trial, result->text)) &&
                  strstr(result->text, number),
              "%s, %d: %s", trial->function ? trial->function : "a stream", trial->nth,
              result->text);
}

static void lose_device(const struct trial *trial)
{
    struct trial own = *trial;
    struct world world = world_for(trial->use);
    begin(trial);
    (void)world_run(&world, until_it_fails, &own);
    for (int rank = 0; rank < RANKS; rank++) {
        cr_assert_eq(world.results[rank].status, KOLO_ERR_SYSTEM, "%s, %d, rank %d: %s",
                     trial->function ? trial->function : "a stream", trial->nth, rank,
                     world.results[rank].text);
        check_words(trial, &world.results[rank]);
    }
}

/** A device that has failed once fails for ever: each call of the driver in turn is the first to
 * report it. */
Test(device_errors, whichever_call_hears_of_a_lost_device_first_all_ranks_know, .timeout = 300)
{
    static const int results[] = {KOLO_CUDA_ILLEGAL_ADDRESS, KOLO_CUDA_LAUNCH_FAILED,
                                  MOCK_ECC_UNCORRECTABLE, MOCK_UNKNOWN};
    for (int use = 0; use < USES; use++)
        for (int nth = 1 + use % 3; nth < 60; nth += 3)
            lose_device(&(struct trial){
                .use = &uses[use], .function = "*", .nth = nth, .result = results[nth % 4]});
}

/** The same at the first call, which also creates streams, pages and events. */
Test(device_errors, a_device_that_fails_at_the_first_call_is_told_to_all, .timeout = 300)
{
    struct trial trial = {.result = KOLO_CUDA_LAUNCH_FAILED, .at_first = true};
    for (int use = 0; use < USES; use++) {
        trial.use = &uses[use];
        trial.function = "cuStreamCreateWithPriority";
        for (trial.nth = 1; trial.nth <= 2; trial.nth++)
            lose_device(&trial);
        trial.function = "*";
        for (trial.nth = 1 + use % 2; trial.nth < 40; trial.nth += 2)
            lose_device(&trial);
    }
}

/** The calls that are made once per call, which the test above therefore hits only sometimes. */
Test(device_errors, who_asks_what_a_stream_is_may_hear_of_a_lost_device_first, .timeout = 300)
{
    static const char *const names[] = {"cuStreamGetCtx", "cuCtxPushCurrent_v2",
                                        "cuCtxGetDevice", "cuDeviceGetCount",
                                        "cuDeviceGet",    "cuStreamIsCapturing"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int nth = 1; nth <= 2; nth++)
            lose_device(&(struct trial){.use = &uses[USES - 1],
                                        .function = names[i],
                                        .nth = nth,
                                        .result = KOLO_CUDA_LAUNCH_FAILED});
}

/** In the middle of a collective: the work of its streams fails, and so do all later calls. */
Test(device_errors, whatever_a_stream_does_may_be_its_last, .timeout = 300)
{
    for (int use = 0; use < USES; use++)
        for (int nth = 1; nth < 40; nth += 3)
            lose_device(&(struct trial){.use = &uses[use],
                                        .nth = nth,
                                        .result = nth % 2 ? KOLO_CUDA_ILLEGAL_ADDRESS
                                                          : KOLO_CUDA_LAUNCH_FAILED});
}

/* ---- memory that runs out ---- */

/** A call that is refused has not begun, and is repeated; one that has failed fails on all
 * ranks. */
static kolo_status with_little_memory(struct kolo_comm *comm, void *argument)
{
    const struct trial *trial = argument;
    struct side *side = side_create();
    char words[KOLO_DETAIL_MAX] = "";
    bool right = true;
    kolo_status status = side_open(comm, trial->use, side, trial->at_first);
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    if (is_loser(comm))
        arm(trial);
    for (int i = 0; i < 3 && status == KOLO_OK && right; i++) {
        status = call(comm, trial->use, side);
        if (status == KOLO_ERR_NO_MEMORY)
            status = call(comm, trial->use, side);
        right = status != KOLO_OK || is_right(trial->use, side, kolo_size(comm));
    }
    if (status == KOLO_OK) /* a failure of another rank's last call is reported here */
        status = kolo_barrier(comm, NULL, NULL);
    strcpy(words, kolo_error_detail());
    mock->fail("", 1, 0); /* freeing it takes an event, on every rank */
    if (trial->host_ranks)
        kolo_alloc_fail_nth(0);
    const kolo_status freed = side_close(comm, side, false);
    WORLD_EXPECT(freed == KOLO_OK, "kolo_free: %s", kolo_error_detail());
    WORLD_EXPECT(right, "wrong numbers");
    return status == KOLO_OK ? KOLO_OK : kolo_fail(status, "%s", words);
}

static void run_out(const struct trial *trial)
{
    struct trial own = *trial;
    struct world world = world_for(trial->use);
    begin(trial);
    if (trial->host_ranks)
        world.size = trial->host_ranks;
    const kolo_status status = world_run(&world, with_little_memory, &own);
    for (int rank = 0; rank < world.size; rank++) {
        const kolo_status own_status = world.results[rank].status;
        cr_assert(own_status == (status == KOLO_OK ? KOLO_OK : KOLO_ERR_NO_MEMORY),
                  "%s, %d, rank %d: %s", trial->function ? trial->function : "the host's",
                  trial->nth, rank, world.results[rank].text);
        if (own_status != KOLO_OK && !trial->host_ranks)
            check_words(trial, &world.results[rank]);
    }
}

/** Every call that allocates memory of the driver, or locks the host's, fails at its first to
 * fourth time. */
Test(device_errors, memory_that_runs_out_is_told_to_all_or_done_without, .timeout = 300)
{
    static const char *const takers[] = {
        "cuStreamCreateWithPriority",   "cuEventCreate", "cuMemHostRegister_v2",
        "cuMemHostGetDevicePointer_v2", "cuMemAlloc_v2", "cuLaunchHostFunc"};
    for (int use = 0; use < USES; use++)
        for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
            for (int nth = 1; nth <= 4; nth++)
                run_out(&(struct trial){.use = &uses[use],
                                        .function = takers[i],
                                        .nth = nth,
                                        .result = KOLO_CUDA_OUT_OF_MEMORY,
                                        .at_first = (use + nth) % 2 == 0});
}

/** Memory of the host runs out in a world of one, so that each trial fails the same allocation. */
Test(device_errors, memory_of_the_host_that_runs_out_is_a_status, .timeout = 300)
{
    for (int use = 0; use < USES; use++)
        for (int nth = 1; nth <= 40; nth++)
            run_out(&(struct trial){
                .use = &uses[use], .nth = nth, .host_ranks = 1, .at_first = nth % 2 == 0});
}
