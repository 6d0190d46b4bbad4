// SPDX-License-Identifier: Apache-2.0
// What kolo does while a stream waits for a collective, with a real driver, for bench/gpu; the
// tests do the same with one that only imitates it. Two ranks are threads that share a GPU:
//
//   freeing   rank 0 frees memory of both kinds while its stream waits for a call of rank 1. Both
//             frees return, and the result is right.
//   deadline  rank 0 calls cuMemFree instead, which waits for the stream and keeps kolo out of the
//             driver. After the collective's deadline the stream goes on (memory/gate_watch.h), the
//             call returns, and the collective fails.
//
// Prints a line of JSON. Exit status: 1, one of them did otherwise; 77, no device, or its streams
// cannot wait. Must never wait without a bound: an alarm ends the program.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kolo/kolo.h>

#include "base/clock.h"
#include "base/condition.h"
#include "bench/micro/check.h"

enum {
    BYTES = 1 << 20,
    AT_ONCE_MS = 1000, /* in which a call that does not wait returns */
    WATCH_MS = 1000,   /* the deadline of the collective that fails */
    TURN_MS = 40000,
    ALL_S = 90
};

/** What rank 1 waits for. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool is_turn; /* held: lock */

static int64_t device_free_ms, host_free_ms, driver_free_ms;

/** What a rank uses. */
struct side {
    struct kolo_cuda_visit visit;
    void *stream, *send, *recv;
};

static kolo_status status_of(const struct side *side, const char *call, int result)
{
    return result == KOLO_CUDA_SUCCESS
               ? KOLO_OK
               : kolo_cuda_fail(side->visit.driver, call, side->visit.ordinal, result);
}

static void give_turn(void)
{
    (void)pthread_mutex_lock(&lock);
    is_turn = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static kolo_status await_turn(void)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(TURN_MS);
    int error = 0;
    (void)pthread_mutex_lock(&lock);
    while (!is_turn && error == 0)
        error = kolo_condition_wait(&changed, &lock, deadline);
    const bool is_mine = is_turn;
    (void)pthread_mutex_unlock(&lock);
    return is_mine ? KOLO_OK : kolo_fail(KOLO_ERR_TIMEOUT, "rank 0 has not got to its turn");
}

/** Each byte that rank r sends is r + 1. The context is current from then on. */
static kolo_status set_up(struct kolo_comm *comm, struct side *side)
{
    struct kolo_pointer pointer;
    kolo_status status;
    KOLO_TRY(kolo_alloc_device(comm, BYTES, 0, &side->send));
    KOLO_TRY(kolo_alloc_device(comm, BYTES, 0, &side->recv));
    KOLO_TRY(kolo_pointer_look(side->send, &pointer));
    KOLO_TRY(kolo_cuda_visit_primary(&pointer, &side->visit));
    KOLO_TRY(kolo_cuda_enter(&side->visit));
    KOLO_TRY(status_of(
        side, "cuStreamCreate",
        side->visit.driver->stream_create(&side->stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0)));
    KOLO_TRY(status_of(side, "cuMemsetD8",
                       side->visit.driver->clear((uintptr_t)side->send,
                                                 (unsigned char)(kolo_rank(comm) + 1), BYTES)));
    status =
        status_of(side, "cuMemsetD8", side->visit.driver->clear((uintptr_t)side->recv, 0, BYTES));
out:
    return status;
}

static kolo_status begin_sum(struct kolo_comm *comm, const struct side *side, int timeout_ms,
                             struct kolo_request **request)
{
    const struct kolo_opts opts = {
        .size = sizeof opts, .stream = side->stream, .timeout_ms = timeout_ms};
    return kolo_allreduce(comm, side->send, side->recv, BYTES, KOLO_UINT8, KOLO_SUM, &opts,
                          request);
}

static kolo_status check_sum(const struct side *side)
{
    static _Thread_local uint8_t got[BYTES];
    kolo_status status = status_of(
        side, "cuMemcpyDtoH", side->visit.driver->copy_to_host(got, (uintptr_t)side->recv, BYTES));
    for (size_t i = 0; i < BYTES && status == KOLO_OK; i++)
        if (got[i] != 1 + 2)
            status = kolo_fail(KOLO_ERR_INTERNAL, "byte %zu of the sum is %u", i, got[i]);
    return status;
}

/** One call, so that what the next one needs is loaded and locked. */
static kolo_status warm_up(struct kolo_comm *comm, const struct side *side)
{
    struct kolo_request *request = NULL;
    kolo_status status;
    KOLO_TRY(begin_sum(comm, side, 0, &request));
    KOLO_TRY(kolo_wait(&request, -1));
    status = check_sum(side);
out:
    return status;
}

static kolo_status time_free(struct kolo_comm *comm, void *memory, int64_t *ms_out)
{
    const int64_t begun = kolo_now_ns();
    const kolo_status status = kolo_free(comm, memory);
    *ms_out = (kolo_now_ns() - begun) / 1000000;
    return status == KOLO_OK && *ms_out > AT_ONCE_MS
               ? kolo_fail(KOLO_ERR_TIMEOUT, "kolo_free took %lld ms while a stream waits",
                           (long long)*ms_out)
               : status;
}

/* ---- freeing ---- */

static kolo_status free_both(struct kolo_comm *comm, const struct side *side, void *device,
                             void *host)
{
    struct kolo_request *request = NULL;
    kolo_status status;
    KOLO_TRY(begin_sum(comm, side, 0, &request));
    KOLO_TRY(time_free(comm, device, &device_free_ms));
    status = time_free(comm, host, &host_free_ms);
    give_turn();
    KOLO_TRY(status);
    status = kolo_wait(&request, -1);
out:
    return status;
}

static kolo_status freeing(struct kolo_comm *comm, void *argument)
{
    struct side side = {.stream = NULL};
    struct kolo_request *request = NULL;
    void *device = NULL, *host = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(set_up(comm, &side));
    KOLO_TRY(kolo_alloc_device(comm, BYTES, 0, &device));
    KOLO_TRY(kolo_alloc(comm, BYTES, &host));
    KOLO_TRY(warm_up(comm, &side));
    if (kolo_rank(comm) == 0) {
        KOLO_TRY(free_both(comm, &side, device, host));
    } else {
        KOLO_TRY(await_turn());
        KOLO_TRY(begin_sum(comm, &side, 0, &request));
        KOLO_TRY(kolo_wait(&request, -1));
    }
    status = check_sum(&side);
out:
    return status;
}

/* ---- deadline ---- */

/** Its own memory, as a program frees it. */
static kolo_status free_by_driver(const struct side *side)
{
    kolo_cuda_address memory = 0;
    kolo_status status = status_of(side, "cuMemAlloc", side->visit.driver->alloc(&memory, BYTES));
    const int64_t begun = kolo_now_ns();
    if (status == KOLO_OK)
        status = status_of(side, "cuMemFree", side->visit.driver->free(memory));
    driver_free_ms = (kolo_now_ns() - begun) / 1000000;
    return status;
}

static kolo_status deadline(struct kolo_comm *comm, void *argument)
{
    struct side side = {.stream = NULL};
    struct kolo_request *request = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(set_up(comm, &side));
    KOLO_TRY(warm_up(comm, &side));
    if (kolo_rank(comm) == 1)
        return await_turn();
    KOLO_TRY(begin_sum(comm, &side, WATCH_MS, &request));
    status = free_by_driver(&side);
    const kolo_status sum = kolo_wait(&request, -1);
    give_turn();
    if (status == KOLO_OK && sum != KOLO_ERR_TIMEOUT)
        status = kolo_fail(KOLO_ERR_INTERNAL, "a sum that rank 1 did not join ended with %s",
                           kolo_status_name(sum));
    KOLO_TRY(status);
    status =
        status_of(&side, "cuStreamSynchronize", side.visit.driver->stream_synchronize(side.stream));
out:
    return status;
}

static void run(const char *what, kolo_status (*rank_main)(struct kolo_comm *comm, void *argument))
{
    is_turn = false;
    check(kolo_run_threads(2, NULL, rank_main, NULL), what);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        fprintf(stderr, "device_held: %s: expected no argument\n", argv[1]);
        return 2;
    }
    (void)alarm(ALL_S);
    (void)kolo_condition_init(&changed);
    run("freeing", freeing);
    run("deadline", deadline);
    printf("{\"kolo_free of device memory\": %lld, \"kolo_free of host memory\": %lld, "
           "\"cuMemFree with a deadline of %d\": %lld}\n",
           (long long)device_free_ms, (long long)host_free_ms, WATCH_MS, (long long)driver_free_ms);
    return 0;
}
