// SPDX-License-Identifier: Apache-2.0
// Repeated short calls, whose plan and description are kept: results with other buffers, in and out
// of place, with alternating lengths, types, operators and roots; what is not kept; two threads in
// one call; and that a call which differs, or never comes, is noticed as in a first call.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm.h"
#include "runtime/repeat.h"
#include "runtime/submit.h"
#include "tests/support/world.h"

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument))
{
    struct world world = {.size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=60"}};
    WORLD_MUST_RUN(&world, body, NULL);
}

enum { ROUNDS = 12, COUNT_MAX = 300, RANKS_MAX = 8 };

static int32_t value(int rank, int round, size_t index)
{
    return (int32_t)(rank * 1000003 + round * 7919 + (int)index);
}

static void fill(int32_t *data, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value(rank, round, i);
}

static kolo_status reduces(struct kolo_comm *comm, size_t count, int round)
{
    static const kolo_redop ops[] = {KOLO_SUM, KOLO_MAX};
    int32_t in[COUNT_MAX], out[COUNT_MAX];
    int n = kolo_size(comm);
    for (int i = 0; i < 2; i++) {
        int32_t *to = round % 3 == 0 ? in : out;
        fill(in, count, kolo_rank(comm), round);
        WORLD_TRY(kolo_allreduce(comm, in, to, count, KOLO_INT32, ops[i], NULL, NULL));
        for (size_t k = 0; k < count; k++) {
            int32_t sum = 0;
            for (int rank = 0; rank < n; rank++)
                sum = ops[i] == KOLO_SUM
                          ? (int32_t)((uint32_t)sum + (uint32_t)value(rank, round, k))
                          : value(rank, round, k);
            WORLD_EXPECT(to[k] == sum, "round %d, %s, element %zu of %zu: %d, not %d", round,
                         i == 0 ? "sum" : "max", k, count, to[k], sum);
        }
    }
    return KOLO_OK;
}

static kolo_status passes(struct kolo_comm *comm, size_t count, int round)
{
    int32_t in[COUNT_MAX], all[RANKS_MAX * COUNT_MAX];
    int n = kolo_size(comm), root = round % n;
    fill(in, count, kolo_rank(comm), round);
    WORLD_TRY(kolo_allgather(comm, in, all, count, KOLO_INT32, NULL, NULL));
    for (int rank = 0; rank < n; rank++)
        for (size_t i = 0; i < count; i++)
            WORLD_EXPECT(all[(size_t)rank * count + i] == value(rank, round, i),
                         "round %d, block of rank %d, element %zu: %d", round, rank, i,
                         all[(size_t)rank * count + i]);
    WORLD_TRY(kolo_broadcast(comm, in, count, KOLO_INT32, root, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(in[i] == value(root, round, i), "round %d, root %d, element %zu: %d", round,
                     root, i, in[i]);
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status again_and_again(struct kolo_comm *comm, void *argument)
{
    static const size_t counts[] = {0, 1, 2, 8, 9, 100, COUNT_MAX};
    (void)argument;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            WORLD_TRY(reduces(comm, counts[c], round));
            WORLD_TRY(passes(comm, counts[c], round));
        }
    return KOLO_OK;
}

ParameterizedTestParameters(repeat, results)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, repeat, results, .timeout = 120)
{
    static const int sizes[] = {2, 3, RANKS_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run(param->name, sizes[i], again_and_again);
}

/* ---- what is kept ---- */

static bool is_kept(struct kolo_comm *comm, const struct kolo_task *task)
{
    kolo_comm_enter(comm);
    struct kolo_request *kept = kolo_repeat_may(comm, task) ? kolo_repeat_take(comm, task) : NULL;
    /* a call holds it until it has read the status, even if that is no longer KOLO_AGAIN */
    bool is_found = kept && !kolo_repeat_take(comm, task);
    if (kept)
        kolo_repeat_give_back(kept);
    kolo_comm_leave(comm);
    return is_found;
}

static kolo_status keeps(struct kolo_comm *comm, void *argument)
{
    struct kolo_opts opts = {.size = sizeof opts, .name = "grad"};
    struct kolo_task task = {
        .kind = KOLO_CALL_ALLREDUCE, .count = 4, .dtype = KOLO_INT32, .op = KOLO_SUM};
    struct kolo_task other = task, named = task, max = task, rooted = task;
    int32_t data[8] = {0};
    (void)argument;
    WORLD_EXPECT(!is_kept(comm, &task), "kept before the first call");
    WORLD_TRY(kolo_allreduce(comm, data, data, 4, KOLO_INT32, KOLO_SUM, &opts, NULL));
    WORLD_EXPECT(!is_kept(comm, &task), "a call with options was kept");
    WORLD_TRY(kolo_allreduce(comm, data, data, 4, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(is_kept(comm, &task), "not kept");
    other.count = 5;
    max.op = KOLO_MAX;
    rooted.kind = KOLO_CALL_BROADCAST;
    named.opts = &opts;
    WORLD_EXPECT(!is_kept(comm, &other) && !is_kept(comm, &max) && !is_kept(comm, &rooted),
                 "another call passes for it");
    WORLD_EXPECT(!is_kept(comm, &named), "a call with a name passes for one without");
    return KOLO_OK;
}

Test(repeat, what_is_kept, .timeout = 60)
{
    run("shm", 2, keeps);
}

/* ---- two threads ---- */

static void *barriers(void *argument)
{
    struct kolo_comm *comm = argument;
    for (int i = 0; i < 300; i++)
        if (kolo_barrier(comm, NULL, NULL) != KOLO_OK)
            return comm;
    return NULL;
}

/** Both threads make the same call: which of them is which does not matter, but none may be
 * lost. */
static kolo_status two_threads(struct kolo_comm *comm, void *argument)
{
    pthread_t thread;
    void *failed = NULL;
    (void)argument;
    if (pthread_create(&thread, NULL, barriers, comm) != 0)
        return KOLO_ERR_SYSTEM;
    void *failed_here = barriers(comm);
    pthread_join(thread, &failed);
    WORLD_EXPECT(!failed && !failed_here, "a barrier failed: %s", kolo_error_detail());
    return KOLO_OK;
}

ParameterizedTestParameters(repeat, two_threads_of_a_rank)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, repeat, two_threads_of_a_rank, .timeout = 120)
{
    run(param->name, 2, two_threads);
    run(param->name, 3, two_threads);
}

/* ---- what is not alike ---- */

/** Both lengths are kept; then one rank calls with the other length. */
static kolo_status one_differs(struct kolo_comm *comm, void *argument)
{
    int32_t data[2] = {1, 1};
    (void)argument;
    for (int i = 0; i < 20; i++)
        for (size_t count = 1; count <= 2; count++)
            WORLD_TRY(kolo_allreduce(comm, data, data, count, KOLO_INT32, KOLO_MAX, NULL, NULL));
    size_t count = kolo_rank(comm) == 1 ? 2 : 1;
    kolo_status status = kolo_allreduce(comm, data, data, count, KOLO_INT32, KOLO_MAX, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "count 2") && strstr(kolo_error_detail(), "count 1"),
                 "%s", kolo_error_detail());
    status = kolo_allreduce(comm, data, data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK, "a call after the failure went on");
    return KOLO_OK;
}

/** Rank 1 passes itself as the root once, among broadcasts that end at once. Rank 2, which is not a
 * root, may be several calls behind when the others notice, and then gets the error in an earlier
 * call. */
static kolo_status one_differs_in_root(struct kolo_comm *comm, void *argument)
{
    int32_t value = 1;
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < 3; i++) /* so that the call that finds it is a repetition too */
        WORLD_TRY(kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
    for (int i = 0; i < 20 && status == KOLO_OK; i++)
        status = kolo_broadcast(comm, &value, 1, KOLO_INT32, i % 2, NULL, NULL);
    WORLD_EXPECT(status == KOLO_OK || kolo_rank(comm) == 2, "%s", kolo_error_detail());
    int root = kolo_rank(comm) == 1 ? 1 : 0;
    for (int i = 0; i < 3 && status == KOLO_OK; i++)
        status = kolo_broadcast(comm, &value, 1, KOLO_INT32, i == 0 ? root : 0, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH && strstr(kolo_error_detail(), "sequence 23"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

/** Rank 1 does not come to the last call. */
static kolo_status one_stays_away(struct kolo_comm *comm, void *argument)
{
    int32_t data = 1;
    (void)argument;
    for (int i = 0; i < 20; i++)
        WORLD_TRY(kolo_allreduce(comm, &data, &data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
    if (kolo_rank(comm) == 1)
        return KOLO_OK;
    kolo_status status = kolo_allreduce(comm, &data, &data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER, "%s",
                 kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "rank 1 (") != NULL, "%s", kolo_error_detail());
    return KOLO_OK;
}

struct victim {
    _Atomic(struct kolo_comm *) comm; /* of rank 0, when it runs the call that is to fail */
};

/** Rank 1 fails rank 0's kept call as soon as it runs; rank 0's next call reports the one that
 * ran. */
static kolo_status fails_while_it_runs(struct kolo_comm *comm, void *argument)
{
    struct victim *victim = argument;
    char first[KOLO_DETAIL_MAX];
    int32_t data = 1;
    for (int i = 0; i < 20; i++)
        WORLD_TRY(kolo_allreduce(comm, &data, &data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
    if (kolo_rank(comm) == 1) {
        struct kolo_comm *other;
        for (bool is_over = false; !is_over; sched_yield()) {
            if ((other = atomic_load(&victim->comm)) == NULL)
                continue;
            kolo_comm_enter(other);
            is_over = other->collectives.first != NULL;
            if (is_over)
                kolo_comm_fail(other, KOLO_ERR_ABORTED, "broken off");
            kolo_comm_leave(other);
        }
        return KOLO_OK;
    }
    atomic_store(&victim->comm, comm);
    kolo_status status = kolo_allreduce(comm, &data, &data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
    snprintf(first, sizeof first, "%s", kolo_error_detail());
    WORLD_EXPECT(status == KOLO_ERR_ABORTED && strstr(first, "sequence 20"), "%s", first);
    status = kolo_allreduce(comm, &data, &data, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED && strcmp(first, kolo_error_detail()) == 0,
                 "'%s', not '%s'", kolo_error_detail(), first);
    return KOLO_OK;
}

Test(repeat, a_call_after_the_failure_tells_of_the_one_that_ran, .timeout = 60)
{
    struct victim victim = {NULL};
    struct world world = {.size = 2, .transport = "shm", .settings = {"KOLO_TIMEOUT=60"}};
    WORLD_MUST_RUN(&world, fails_while_it_runs, &victim);
}

ParameterizedTestParameters(repeat, differences_are_noticed)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, repeat, differences_are_noticed, .timeout = 60)
{
    struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=1"}};
    run(param->name, 2, one_differs);
    run(param->name, 3, one_differs);
    run(param->name, 2, one_differs_in_root);
    run(param->name, 3, one_differs_in_root);
    WORLD_MUST_RUN(&world, one_stays_away, NULL);
}
