// SPDX-License-Identifier: Apache-2.0
// Asynchronous calls: waits out of order, many outstanding requests, progress without the caller,
// deadlines of waits, several threads of one rank, and finalize with outstanding requests.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/await.h"
#include "tests/support/world.h"

static void run_with(const char *transport, const char *setting, int size,
                     kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {
        .size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=30", setting}};
    WORLD_MUST_RUN(&world, body, argument);
}

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    run_with(transport, "KOLO_PLAN=auto", size, body, argument);
}

enum { MANY = 60, LENGTH = 3000 };

static kolo_status many_outstanding(struct kolo_comm *comm, void *argument)
{
    int n = kolo_size(comm), rank = kolo_rank(comm);
    struct kolo_request *requests[MANY];
    int64_t(*data)[LENGTH] = calloc(MANY, sizeof *data);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < MANY && status == KOLO_OK; i++) {
        for (int k = 0; k < LENGTH; k++)
            data[i][k] = (int64_t)rank * 1000 + i + k;
        status = kolo_allreduce(comm, data[i], data[i], LENGTH, KOLO_INT64, KOLO_SUM, NULL,
                                &requests[i]);
    }
    for (int i = 0; i < MANY && status == KOLO_OK; i++) {
        int at = (i * 37 + rank) % MANY; /* each rank in an order of its own */
        status = kolo_wait(&requests[at], -1);
        int64_t sum = (int64_t)n * (n - 1) / 2 * 1000 + (int64_t)n * (at + LENGTH - 1);
        if (status == KOLO_OK && (data[at][LENGTH - 1] != sum || requests[at]))
            status = kolo_fail(KOLO_ERR_INTERNAL, "request %d has %lld, not %lld", at,
                               (long long)data[at][LENGTH - 1], (long long)sum);
    }
    free(data);
    return status;
}

ParameterizedTestParameters(submit, many_requests)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, many_requests, .timeout = 60)
{
    for (int size = 1; size <= 5; size += 2)
        run(param->name, size, many_outstanding, NULL);
}

static kolo_status poll_with_test(struct kolo_comm *comm, void *argument)
{
    float data[100] = {1};
    struct kolo_request *request = NULL;
    kolo_status status;
    (void)argument;
    for (int i = 0; i < 20; i++) {
        status = kolo_allreduce(comm, data, data, 100, KOLO_FLOAT32, KOLO_MAX, NULL, &request);
        if (status != KOLO_OK)
            return status;
        struct timespec until, now;
        clock_gettime(CLOCK_MONOTONIC, &until);
        while ((status = kolo_test(&request)) == KOLO_AGAIN) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            WORLD_EXPECT(now.tv_sec - until.tv_sec < 20, "kolo_test never says that it is done");
        }
        WORLD_EXPECT(status == KOLO_OK && !request, "test: %s", kolo_status_name(status));
    }
    return kolo_test(&request);
}

ParameterizedTestParameters(submit, test_makes_progress)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, test_makes_progress, .timeout = 60)
{
    run(param->name, 3, poll_with_test, NULL);
}

/** Rank 0 posts and then computes without calling the library; the others nevertheless need its
 * progress. */
static kolo_status progress_without_the_caller(struct kolo_comm *comm, void *argument)
{
    enum { COUNT = 1 << 19 };
    _Atomic int *others_done = argument;
    float *data = calloc(COUNT, sizeof *data);
    struct kolo_request *request = NULL;
    data[COUNT - 1] = 1;
    kolo_status status =
        kolo_allreduce(comm, data, data, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, &request);
    if (status == KOLO_OK && kolo_rank(comm) == 0) {
        if (!AWAIT(*others_done >= kolo_size(comm) - 1))
            status = kolo_fail(KOLO_ERR_INTERNAL, "nothing moved while rank 0 computed");
    }
    if (status == KOLO_OK)
        status = kolo_wait(&request, -1);
    if (status == KOLO_OK && kolo_rank(comm) != 0)
        ++*others_done;
    if (status == KOLO_OK && data[COUNT - 1] != (float)kolo_size(comm))
        status = kolo_fail(KOLO_ERR_INTERNAL, "the sum is %g", (double)data[COUNT - 1]);
    free(data);
    return status;
}

ParameterizedTestParameters(submit, progress_thread)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, progress_thread, .timeout = 60)
{
    _Atomic int others_done = 0;
    run(param->name, 3, progress_without_the_caller, &others_done);
}

static kolo_status wait_with_a_deadline(struct kolo_comm *comm, void *argument)
{
    float data[8] = {0};
    struct kolo_request *request = NULL;
    (void)argument;
    if (kolo_rank(comm) == 0) {
        kolo_status status = kolo_barrier(comm, NULL, &request);
        if (status != KOLO_OK)
            return status;
        WORLD_EXPECT(kolo_wait(&request, 0) == KOLO_AGAIN, "wait(0) did not say AGAIN");
        WORLD_EXPECT(kolo_wait(&request, 20) == KOLO_AGAIN, "wait(20) did not say AGAIN");
        WORLD_EXPECT(request != NULL, "AGAIN freed the request");
        status = kolo_send(comm, data, 8, KOLO_FLOAT32, 1, NULL, NULL);
        return status != KOLO_OK ? status : kolo_wait(&request, -1);
    }
    kolo_status status = kolo_recv(comm, data, 8, KOLO_FLOAT32, 0, NULL, NULL);
    return status != KOLO_OK ? status : kolo_barrier(comm, NULL, NULL);
}

Test(submit, wait_deadline, .timeout = 60)
{
    run("inproc", 2, wait_with_a_deadline, NULL);
}

enum { ROUNDS = 20, SEVERAL_STEPS = 1 << 16 };
struct rounds {
    /* rounds in which rank 0 has given up, and rounds that rank 1 has finished */
    _Atomic int given_up, done;
};

/** Rank 0 polls with kolo_wait(.., 0), which takes the place of the progress thread, and then
 * computes: the progress thread must take over again. */
static kolo_status give_up_waiting(struct kolo_comm *comm, void *argument)
{
    struct rounds *rounds = argument;
    float *data = calloc(SEVERAL_STEPS, sizeof *data);
    kolo_status status = KOLO_OK;
    for (int i = 0; i < ROUNDS && status == KOLO_OK; i++) {
        struct kolo_request *request = NULL;
        if (kolo_rank(comm) == 1 && !AWAIT(rounds->given_up > i))
            status = kolo_fail(KOLO_ERR_INTERNAL, "rank 0 still waits in round %d", i);
        if (status == KOLO_OK)
            status = kolo_allreduce(comm, data, data, SEVERAL_STEPS, KOLO_FLOAT32, KOLO_SUM, NULL,
                                    kolo_rank(comm) == 0 ? &request : NULL);
        if (status == KOLO_OK && kolo_rank(comm) == 0) {
            for (int k = 0; k <= i % 3 && kolo_wait(&request, 0) == KOLO_AGAIN; k++)
                ;
            ++rounds->given_up;
            if (!AWAIT(rounds->done > i))
                status = kolo_fail(KOLO_ERR_INTERNAL, "nothing moved in round %d", i);
        }
        if (kolo_rank(comm) == 1)
            ++rounds->done;
        if (status == KOLO_OK)
            status = kolo_wait(&request, -1);
    }
    free(data);
    return status;
}

ParameterizedTestParameters(submit, giving_up)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, giving_up, .timeout = 60)
{
    struct rounds rounds = {0};
    run(param->name, 2, give_up_waiting, &rounds);
}

/** Between two starts there is no call for this long, so the progress thread still polls, polls
 * less often, or sleeps. In each of these states a start must make it move data. */
static const int pauses_ms[] = {0, 0, 1, 0, 8, 60, 0, 60};
enum { PAUSES = sizeof pauses_ms / sizeof *pauses_ms };

static kolo_status start_after_pauses(struct kolo_comm *comm, void *argument)
{
    _Atomic int *done = argument;
    float *data = calloc(SEVERAL_STEPS, sizeof *data);
    kolo_status status = data ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (int i = 0; i < PAUSES && status == KOLO_OK; i++) {
        struct kolo_request *request = NULL;
        const struct timespec pause = {.tv_nsec = pauses_ms[i] * 1000000L};
        if (kolo_rank(comm) == 0)
            nanosleep(&pause, NULL);
        status = kolo_allreduce(comm, data, data, SEVERAL_STEPS, KOLO_FLOAT32, KOLO_SUM, NULL,
                                kolo_rank(comm) == 0 ? &request : NULL);
        if (kolo_rank(comm) == 1)
            ++*done;
        if (status == KOLO_OK && kolo_rank(comm) == 0 && !AWAIT(*done > i))
            status = kolo_fail(KOLO_ERR_INTERNAL, "nothing moved after %d ms", pauses_ms[i]);
        if (status == KOLO_OK)
            status = kolo_wait(&request, -1);
    }
    free(data);
    return status;
}

ParameterizedTestParameters(submit, after_pauses)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, after_pauses, .timeout = 60)
{
    _Atomic int done = 0;
    run(param->name, 2, start_after_pauses, &done);
}

/* ---- repeated polling ---- */

enum { ASKED_ROUNDS = 50, ASKS_MOST = 2000 };

/** Both ranks share one processor: a rank's time slice is some milliseconds, in which it could poll
 * ten thousand times. */
static kolo_status ask_on_one_processor(struct kolo_comm *comm, void *argument)
{
    const bool waits = *(const bool *)argument;
    cpu_set_t all, one;
    int processor = 0;
    long asks = 0;
    WORLD_EXPECT(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    while (!CPU_ISSET(processor, &all))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    WORLD_EXPECT(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    for (int i = 0; i < ASKED_ROUNDS; i++) {
        struct kolo_request *request = NULL;
        kolo_status status = kolo_barrier(comm, NULL, &request);
        WORLD_TRY(status);
        do {
            status = waits ? kolo_wait(&request, 0) : kolo_test(&request);
            asks++;
        } while (status == KOLO_AGAIN);
        WORLD_TRY(status);
    }
    WORLD_EXPECT(asks < (long)ASKED_ROUNDS * ASKS_MOST, "asked %ld times in %d rounds", asks,
                 ASKED_ROUNDS);
    return KOLO_OK;
}

ParameterizedTestParameters(submit, asking_lets_others_run)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, asking_lets_others_run, .timeout = 60)
{
    for (int waits = 0; waits < 2; waits++) {
        bool argument = waits != 0;
        struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_SPIN_US=0"}};
        WORLD_MUST_RUN(&world, ask_on_one_processor, &argument);
    }
}

static kolo_status leave_outstanding(struct kolo_comm *comm, void *argument)
{
    static float data[4][1000];
    struct kolo_request *done = NULL, *never = NULL;
    float *mine = data[kolo_rank(comm)];
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, &done);
    if (status == KOLO_OK && kolo_rank(comm) == 0) /* nobody sends this message */
        status = kolo_recv(comm, mine, 1000, KOLO_FLOAT32, 1, NULL, &never);
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    return status; /* kolo_finalize frees both requests */
}

ParameterizedTestParameters(submit, finalize_with_outstanding)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, finalize_with_outstanding, .timeout = 60)
{
    run(param->name, 4, leave_outstanding, NULL);
}

/* ---- several threads of a rank ---- */

struct side_job {
    struct kolo_comm *comm;
    kolo_status status;
};

static void *exchange(void *argument)
{
    struct side_job *job = argument;
    int n = kolo_size(job->comm), rank = kolo_rank(job->comm);
    int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    for (int i = 0; i < 100 && job->status == KOLO_OK; i++) {
        int out = rank * 1000 + i, in = -1;
        struct kolo_request *request = NULL;
        job->status = kolo_send(job->comm, &out, 1, KOLO_INT32, next, NULL, &request);
        if (job->status == KOLO_OK)
            job->status = kolo_recv(job->comm, &in, 1, KOLO_INT32, previous, NULL, NULL);
        if (job->status == KOLO_OK)
            job->status = kolo_wait(&request, -1);
        if (job->status == KOLO_OK && in != previous * 1000 + i)
            job->status = kolo_fail(KOLO_ERR_INTERNAL, "message %d is %d", i, in);
    }
    return NULL;
}

static kolo_status messages_beside_collectives(struct kolo_comm *comm, void *argument)
{
    struct side_job job = {comm, KOLO_OK};
    pthread_t thread;
    kolo_status status = KOLO_OK;
    (void)argument;
    if (pthread_create(&thread, NULL, exchange, &job) != 0)
        return KOLO_ERR_SYSTEM;
    for (int i = 0; i < 100 && status == KOLO_OK; i++) {
        int one = 1;
        status = kolo_allreduce(comm, &one, &one, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
        if (status == KOLO_OK && one != kolo_size(comm))
            status = kolo_fail(KOLO_ERR_INTERNAL, "the sum is %d", one);
    }
    pthread_join(thread, NULL);
    return status != KOLO_OK ? status : job.status;
}

ParameterizedTestParameters(submit, two_threads_per_rank)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, two_threads_per_rank, .timeout = 60)
{
    run(param->name, 3, messages_beside_collectives, NULL);
}

/** Receives a message from rank 1, and asks for it again and again. */
static void *ask_again(void *argument)
{
    struct side_job *job = argument;
    struct kolo_request *request = NULL;
    int got = -1;
    job->status = kolo_recv(job->comm, &got, 1, KOLO_INT32, 1, NULL, &request);
    if (job->status == KOLO_OK)
        do
            job->status = kolo_test(&request);
        while (job->status == KOLO_AGAIN);
    return NULL;
}

enum { ASKERS = 24 };

/** The wait must end although there are always threads that want the lock. */
static kolo_status wait_among_askers(struct kolo_comm *comm, void *argument)
{
    struct side_job jobs[ASKERS];
    pthread_t threads[ASKERS];
    struct kolo_request *request = NULL;
    int one = 1, waits = 0;
    kolo_status status;
    (void)argument;
    if (kolo_rank(comm) == 1) {
        status = kolo_recv(comm, &one, 1, KOLO_INT32, 0, NULL, NULL);
        for (int i = 0; i <= ASKERS && status == KOLO_OK; i++)
            status = kolo_send(comm, &one, 1, KOLO_INT32, 0, NULL, NULL);
        return status;
    }
    status = kolo_recv(comm, &one, 1, KOLO_INT32, 1, NULL, &request);
    for (int i = 0; i < ASKERS; i++) {
        jobs[i] = (struct side_job){comm, KOLO_OK};
        cr_assert(pthread_create(&threads[i], NULL, ask_again, &jobs[i]) == 0);
    }
    while (status == KOLO_OK && waits++ < 5) {
        status = kolo_wait(&request, 20);
        WORLD_EXPECT(status == KOLO_AGAIN, "a wait for nothing ended: %s",
                     kolo_status_name(status));
        status = KOLO_OK;
    }
    status = kolo_send(comm, &one, 1, KOLO_INT32, 1, NULL, NULL);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        status = status == KOLO_OK ? jobs[i].status : status;
    }
    return status == KOLO_OK ? kolo_wait(&request, -1) : status;
}

ParameterizedTestParameters(submit, threads_that_ask)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, submit, threads_that_ask, .timeout = 60)
{
    run(param->name, 2, wait_among_askers, NULL);
}

/* ---- the same bits on every rank and in every run ---- */

enum { NOISE = 10007 };
struct bits {
    float kept[NOISE];
    bool has_kept;
    bool is_long;
};

static kolo_status same_bits(struct kolo_comm *comm, void *argument)
{
    struct bits *bits = argument;
    size_t count = bits->is_long ? NOISE : 301, n = (size_t)kolo_size(comm);
    float *data = calloc(count, sizeof *data), *all = calloc(n * count, sizeof *all);
    uint32_t x = (uint32_t)kolo_rank(comm) * 7919u + 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)x * (i % 3 == 0 ? 1e-9f : 1e3f);
    }
    kolo_status status =
        kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_AVERAGE, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_allgather(comm, data, all, count, KOLO_FLOAT32, NULL, NULL);
    for (size_t rank = 0; rank < n && status == KOLO_OK; rank++)
        if (memcmp(data, all + rank * count, count * sizeof *data) != 0)
            status = kolo_fail(KOLO_ERR_INTERNAL, "rank %zu has other bits than rank %d", rank,
                               kolo_rank(comm));
    if (status == KOLO_OK && kolo_rank(comm) == 0) {
        if (bits->has_kept && memcmp(data, bits->kept, count * sizeof *data) != 0)
            status = kolo_fail(KOLO_ERR_INTERNAL, "another run gave other bits");
        memcpy(bits->kept, data, count * sizeof *data);
        bits->has_kept = true;
    }
    free(data);
    free(all);
    return status;
}

/* With a forced plan, and with all deterministic ones, over every transport; otherwise from run to
 * run. */
Test(submit, bits_do_not_depend_on_rank_run_or_transport, .timeout = 100)
{
    static const char *const settings[] = {"KOLO_DETERMINISTIC=1", "KOLO_PLAN=ring",
                                           "KOLO_PLAN=auto"};
    static struct bits bits;
    for (int size = 2; size <= 7; size++)
        for (int is_long = 0; is_long < 2; is_long++)
            for (int s = 0; s < 3; s++) {
                bits.is_long = is_long;
                bits.has_kept = false;
                for (int i = 0; i < 6; i++) {
                    if (s == 2 && i % 2 == 0)
                        bits.has_kept = false;
                    run_with(world_transports[i / 2], settings[s], size, same_bits, &bits);
                }
            }
}
