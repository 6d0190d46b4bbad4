// SPDX-License-Identifier: Apache-2.0
// runtime/persistent.c: requests of every kind of call that are started repeatedly, mixed with
// calls that run once, over every transport; what is refused; and what is left at the end.
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/comm.h"
#include "tests/support/world.h"

enum { ROUNDS = 6, BLOCK = 700, RANKS = 3, KINDS = 6 };

struct stage {
    float send[RANKS * BLOCK], recv[RANKS * BLOCK];
    struct kolo_request *requests[KINDS];
};

static float value(int rank, int i, int round)
{
    return (float)(rank * 1000 + i + round * 7);
}

/** The value expected in recv of @p rank after a call of that kind; -1: not checked. */
static float expected(int kind, int rank, int i, int round)
{
    float sum = 0;
    switch (kind) {
    case 0: /* allreduce */
        for (int r = 0; r < RANKS; r++)
            sum += value(r, i, round);
        return i < BLOCK ? sum : -1;
    case 1: /* allgatherv, displacements reversed */
        return value(RANKS - 1 - i / BLOCK, i % BLOCK, round);
    case 2: /* reduce_scatter, prescaled by a half */
        for (int r = 0; r < RANKS; r++)
            sum += value(r, rank * BLOCK + i, round) / 2;
        return i < BLOCK ? sum : -1;
    case 3: /* alltoall */
        return value(i / BLOCK, rank * BLOCK + i % BLOCK, round);
    case 4: /* scatter from 1 */
        return i < BLOCK ? value(1, rank * BLOCK + i, round) : -1;
    default: /* from the left */
        return i < BLOCK ? value((rank + RANKS - 1) % RANKS, i, round) : -1;
    }
}

static kolo_status make(struct kolo_comm *comm, struct stage *stage, struct kolo_request **send)
{
    struct kolo_opts opts = {.size = sizeof opts, .name = "again", .flags = KOLO_PERSISTENT};
    size_t counts[RANKS], displs[RANKS];
    const int rank = kolo_rank(comm);
    for (size_t r = 0; r < RANKS; r++) {
        counts[r] = BLOCK;
        displs[r] = (RANKS - 1 - r) * BLOCK;
    }
    struct kolo_request **out = stage->requests;
    WORLD_TRY(kolo_allreduce(comm, stage->send, stage->recv, BLOCK, KOLO_FLOAT32, KOLO_SUM, &opts,
                             &out[0]));
    WORLD_TRY(kolo_allgatherv(comm, stage->send, stage->recv, counts, displs, KOLO_FLOAT32, &opts,
                              &out[1]));
    memset(counts, 0xff, sizeof counts); /* they were copied */
    opts.prescale = 0.5;
    WORLD_TRY(kolo_reduce_scatter(comm, stage->send, stage->recv, BLOCK, KOLO_FLOAT32, KOLO_SUM,
                                  &opts, &out[2]));
    opts.prescale = 0;
    WORLD_TRY(kolo_alltoall(comm, stage->send, stage->recv, BLOCK, KOLO_FLOAT32, &opts, &out[3]));
    WORLD_TRY(kolo_scatter(comm, stage->send, stage->recv, BLOCK, KOLO_FLOAT32, 1, &opts, &out[4]));
    WORLD_TRY(kolo_recv(comm, stage->recv, BLOCK, KOLO_FLOAT32, (rank + RANKS - 1) % RANKS, &opts,
                        &out[5]));
    return kolo_send(comm, stage->send, BLOCK, KOLO_FLOAT32, (rank + 1) % RANKS, &opts, send);
}

static kolo_status run_one(struct kolo_comm *comm, struct stage *stage, int kind, int round,
                           struct kolo_request **send)
{
    const int rank = kolo_rank(comm);
    struct kolo_request **request = &stage->requests[kind];
    for (int i = 0; i < RANKS * BLOCK; i++) {
        stage->send[i] = value(rank, i, round);
        stage->recv[i] = -1;
    }
    if (kind == 5)
        WORLD_TRY(kolo_start(*send));
    if (round % 2 == 0) {
        WORLD_TRY(kolo_run(*request));
    } else {
        WORLD_TRY(kolo_start(*request));
        kolo_status status;
        do
            status = kolo_test(request);
        while (status == KOLO_AGAIN);
        WORLD_TRY(status);
    }
    if (kind == 5)
        WORLD_TRY(kolo_wait(send, -1));
    WORLD_EXPECT(*request && *send, "freed");
    for (int i = 0; i < RANKS * BLOCK; i++)
        WORLD_EXPECT(stage->recv[i] == expected(kind, rank, i, round),
                     "kind %d, round %d: element %d is %g, not %g", kind, round, i,
                     (double)stage->recv[i], (double)expected(kind, rank, i, round));
    return KOLO_OK;
}

static kolo_status every_kind(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    static struct stage stages[WORLD_RANKS_MAX];
    struct stage *stage = &stages[kolo_rank(comm)];
    struct kolo_request *send = NULL;
    memset(stage, 0, sizeof *stage);
    WORLD_TRY(make(comm, stage, &send));
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            int32_t one = 1;
            WORLD_TRY(run_one(comm, stage, kind, round, &send));
            WORLD_TRY(kolo_allreduce(comm, &one, &one, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
            WORLD_EXPECT(one == RANKS, "a call between: %d", one);
        }
    WORLD_TRY(kolo_request_free(&stage->requests[0]));
    WORLD_TRY(kolo_request_free(&stage->requests[0]));
    return KOLO_OK; /* the rest is freed with the communicator */
}

Test(persistent, every_kind, .timeout = 120)
{
    static const char *const plans[] = {"KOLO_PLAN=auto", "KOLO_PLAN=ring", "KOLO_PLAN=direct"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 3; i++) {
            struct world world = {.size = RANKS,
                                  .transport = world_transports[t],
                                  .settings = {plans[i], "KOLO_SEGMENT_BYTES=4KiB"}};
            WORLD_MUST_RUN(&world, every_kind, NULL);
        }
}

/** Several are started before one is waited for. */
static kolo_status side_by_side(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    enum { MANY = 5 };
    const struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT};
    struct kolo_request *requests[MANY];
    int64_t sums[MANY];
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(
            kolo_allreduce(comm, &sums[i], &sums[i], 1, KOLO_INT64, KOLO_SUM, &opts, &requests[i]));
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < MANY; i++) {
            sums[i] = i + round;
            WORLD_TRY(kolo_start(requests[i]));
        }
        for (int i = MANY - 1; i >= 0; i--)
            WORLD_TRY(kolo_wait(&requests[i], -1));
        for (int i = 0; i < MANY; i++)
            WORLD_EXPECT(sums[i] == kolo_size(comm) * (i + round), "sum %d is %d", i, (int)sums[i]);
    }
    return KOLO_OK;
}

Test(persistent, side_by_side, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {.size = 2, .transport = world_transports[t]};
        WORLD_MUST_RUN(&world, side_by_side, NULL);
    }
}

static kolo_status refusals(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    const int peer = 1 - kolo_rank(comm);
    struct kolo_request *request = NULL, *once = NULL;
    int32_t a = 5, b = 0;
    WORLD_INVALID(kolo_start(NULL), "NULL");
    WORLD_INVALID(kolo_run(NULL), "NULL");
    WORLD_INVALID(kolo_request_free(NULL), "NULL");
    WORLD_TRY(kolo_request_free(&request));
    WORLD_INVALID(kolo_barrier(comm, &again, NULL), "request_out");
    WORLD_TRY(kolo_recv(comm, &b, 1, KOLO_INT32, peer, &again, &request));
    WORLD_TRY(kolo_wait(&request, -1)); /* it was never started */
    WORLD_TRY(kolo_test(&request));
    WORLD_TRY(kolo_start(request));
    WORLD_INVALID(kolo_start(request), "running");
    WORLD_INVALID(kolo_run(request), "running");
    WORLD_INVALID(kolo_request_free(&request), "running");
    /* before this barrier the other rank's message could complete it */
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_send(comm, &a, 1, KOLO_INT32, peer, NULL, &once));
    WORLD_INVALID(kolo_start(once), "KOLO_PERSISTENT");
    WORLD_INVALID(kolo_request_free(&once), "KOLO_PERSISTENT");
    WORLD_TRY(kolo_wait(&once, -1));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_EXPECT(b == 5, "received %d", b);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_start(request)); /* finalize cancels it */
    return KOLO_OK;
}

Test(persistent, refusals, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, refusals, NULL);
}

static kolo_status after_a_failure(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL;
    int32_t a = 1;
    WORLD_TRY(kolo_allreduce(comm, &a, &a, 1, KOLO_INT32, KOLO_SUM, &again, &request));
    WORLD_TRY(kolo_run(request));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    kolo_abort(comm, "for the test");
    WORLD_EXPECT(kolo_start(request) == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_run(request) == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    return kolo_request_free(&request);
}

Test(persistent, after_a_failure, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, after_a_failure, NULL);
}

/** A start that is refused must not scale its input, since it may be tried again. */
static kolo_status refused_before_it_writes(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts twice = {.size = sizeof twice, .flags = KOLO_PERSISTENT, .prescale = 2};
    struct kolo_request *request = NULL, *group = NULL;
    float a[2] = {1, 1};
    (void)argument;
    WORLD_TRY(kolo_allreduce(comm, a, a, 1, KOLO_FLOAT32, KOLO_SUM, &twice, &request));
    WORLD_TRY(kolo_group_begin(comm));
    const struct kolo_opts once = {.size = sizeof once, .prescale = 2};
    WORLD_TRY(kolo_allreduce(comm, a + 1, a + 1, 1, KOLO_FLOAT32, KOLO_SUM, &once, NULL));
    kolo_abort(comm, "for the test");
    WORLD_EXPECT(kolo_start(request) == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_group_end(comm, NULL, &group) == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    WORLD_EXPECT(a[0] == 1 && a[1] == 1, "scaled to %g and %g", (double)a[0], (double)a[1]);
    return kolo_request_free(&request);
}

Test(persistent, refused_before_it_writes, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, refused_before_it_writes, NULL);
}
