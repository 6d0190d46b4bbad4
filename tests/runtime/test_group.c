// SPDX-License-Identifier: Apache-2.0
// runtime/group.c: calls that are started as one group. Exchanges that would deadlock one by one,
// and mixed and fused collectives against their sums, over every transport; a refused call keeps
// all others from starting; repeated groups; calls that cannot be in a group.
#include <criterion/criterion.h>

#include <kolo/metrics.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

enum { LONG = 40000, CALLS = 20, PEERS = 4 };

/** Every rank sends long messages to all others before it receives, and receives in another
 * order. */
static kolo_status exchange(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    static int32_t sent[PEERS][PEERS][LONG], got[PEERS][PEERS][LONG];
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    WORLD_TRY(kolo_group_begin(comm));
    for (int peer = 0; peer < size; peer++) {
        if (peer == rank)
            continue;
        for (int i = 0; i < LONG; i++)
            sent[rank][peer][i] = rank * 1000003 + peer * 1009 + i;
        WORLD_TRY(kolo_send(comm, sent[rank][peer], LONG, KOLO_INT32, peer, NULL, NULL));
    }
    for (int peer = 0; peer < size; peer++)
        if (peer != rank)
            WORLD_TRY(kolo_recv(comm, got[rank][peer], LONG, KOLO_INT32, peer, NULL, NULL));
    WORLD_TRY(kolo_group_end(comm, NULL, NULL));
    for (int peer = 0; peer < size; peer++)
        for (int i = 0; peer != rank && i < LONG; i++)
            WORLD_EXPECT(got[rank][peer][i] == peer * 1000003 + rank * 1009 + i,
                         "from %d: element %d is %d", peer, i, got[rank][peer][i]);
    return KOLO_OK;
}

/** The calls of one rank's group, and their expected results. */
struct mixed {
    float sums[CALLS][8], in_place[3];
    double big[CALLS];
    int64_t maximum, token[PEERS];
    int32_t from_left, rank;
};

static void fill(struct mixed *mixed, int rank, int round)
{
    memset(mixed, 0, sizeof *mixed);
    mixed->rank = rank;
    mixed->maximum = rank + round;
    for (int i = 0; i < 3; i++)
        mixed->in_place[i] = (float)(rank + i + round);
    mixed->token[0] = rank == 1 ? 77 + round : 0;
}

/** Adjacent allreduces of one type, in and out of place, some of them empty, with other calls and
 * messages between them. */
static kolo_status call_all(struct kolo_comm *comm, struct mixed *mixed, const float *inputs)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    struct kolo_opts scaled = {.size = sizeof scaled, .prescale = 0.5};
    for (int i = 0; i < CALLS; i++)
        WORLD_TRY(kolo_allreduce(comm, inputs + i, mixed->sums[i], (size_t)(i % 8), KOLO_FLOAT32,
                                 KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_send(comm, &mixed->rank, 1, KOLO_INT32, (rank + 1) % size, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, mixed->in_place, mixed->in_place, 3, KOLO_FLOAT32, KOLO_SUM,
                             NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, &mixed->maximum, &mixed->maximum, 1, KOLO_INT64, KOLO_MAX, NULL,
                             NULL));
    WORLD_TRY(kolo_broadcast(comm, mixed->token, 1, KOLO_INT64, 1, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, inputs, mixed->big, 1, KOLO_FLOAT32, KOLO_SUM, &scaled, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    return kolo_recv(comm, &mixed->from_left, 1, KOLO_INT32, (rank + size - 1) % size, NULL, NULL);
}

static kolo_status compare(const struct mixed *mixed, int rank, int size, int round)
{
    const float ranks = (float)(size * (size - 1) / 2);
    float half;
    for (int i = 0; i < CALLS; i++)
        for (int k = 0; k < 8; k++) {
            float want = k < i % 8 ? ranks + (float)(size * (i + k)) : 0;
            WORLD_EXPECT(mixed->sums[i][k] == want, "sum %d: element %d is %g, not %g", i, k,
                         (double)mixed->sums[i][k], (double)want);
        }
    for (int i = 0; i < 3; i++)
        WORLD_EXPECT(mixed->in_place[i] == ranks + (float)(size * (i + round)), "in place: %g",
                     (double)mixed->in_place[i]);
    WORLD_EXPECT(mixed->maximum == size - 1 + round, "maximum %d", (int)mixed->maximum);
    WORLD_EXPECT(mixed->token[0] == 77 + round, "broadcast %d", (int)mixed->token[0]);
    memcpy(&half, mixed->big, sizeof half);
    WORLD_EXPECT(half == ranks / 2, "scaled: %g", (double)half);
    WORLD_EXPECT(mixed->from_left == (rank + size - 1) % size, "message %d", mixed->from_left);
    return KOLO_OK;
}

static kolo_status mixed_calls(struct kolo_comm *comm, void *argument)
{
    const bool is_persistent = *(const bool *)argument;
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL;
    struct mixed mixed;
    float inputs[CALLS + 8];
    for (int i = 0; i < CALLS + 8; i++)
        inputs[i] = (float)(rank + i);
    for (int round = 0; round < 3; round++) {
        fill(&mixed, rank, round);
        if (!request) {
            WORLD_TRY(kolo_group_begin(comm));
            WORLD_TRY(call_all(comm, &mixed, inputs));
            WORLD_EXPECT(mixed.sums[1][0] == 0, "something ran before the end");
            WORLD_TRY(kolo_group_end(comm, is_persistent ? &again : NULL, &request));
        }
        if (is_persistent && round == 1)
            WORLD_TRY(kolo_run(request));
        else if (is_persistent)
            WORLD_TRY(kolo_start(request));
        WORLD_TRY(kolo_wait(&request, -1));
        WORLD_EXPECT((request != NULL) == is_persistent, "freed, or not");
        WORLD_TRY(compare(&mixed, rank, size, round));
    }
    return kolo_request_free(&request);
}

/** Each rank chooses its own prescale: here 1, 2 or none, and not the same for all calls of a
 * group. */
static double weight_of(int rank, int call)
{
    return (rank + call) % 3;
}

static kolo_status weigh(struct kolo_comm *comm, const double *inputs, double (*sums)[2])
{
    WORLD_TRY(kolo_group_begin(comm));
    for (int call = 0; call < CALLS; call++) {
        const struct kolo_opts opts = {.size = sizeof opts,
                                       .prescale = weight_of(kolo_rank(comm), call)};
        const double *from = call % 2 == 0 ? inputs : sums[call];
        WORLD_TRY(kolo_allreduce(comm, from, sums[call], 2, KOLO_FLOAT64, KOLO_SUM, &opts, NULL));
    }
    return KOLO_OK;
}

static kolo_status weights(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    const double inputs[2] = {rank + 1, 10 * rank};
    struct kolo_request *request = NULL;
    double sums[CALLS][2];
    (void)argument;
    WORLD_TRY(weigh(comm, inputs, sums));
    WORLD_TRY(kolo_group_end(comm, &again, &request));
    for (int round = 0; round < 2; round++) {
        for (int call = 0; call < CALLS; call++)
            memcpy(sums[call], inputs, sizeof inputs);
        WORLD_TRY(kolo_run(request));
        for (int call = 0; call < CALLS; call++) {
            double want[2] = {0, 0};
            for (int other = 0; other < size; other++) {
                const double factor = weight_of(other, call) != 0 ? weight_of(other, call) : 1;
                want[0] += factor * (other + 1);
                want[1] += factor * 10 * other;
            }
            WORLD_EXPECT(memcmp(sums[call], want, sizeof want) == 0, "call %d: %g and %g", call,
                         sums[call][0], sums[call][1]);
        }
    }
    return kolo_request_free(&request);
}

Test(group, ranks_may_have_other_weights, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {
            .size = 4, .transport = world_transports[t], .settings = {"KOLO_TIMEOUT=20"}};
        WORLD_MUST_RUN(&world, weights, NULL);
    }
}

Test(group, exchanges_do_not_deadlock, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {.size = PEERS, .transport = world_transports[t]};
        WORLD_MUST_RUN(&world, exchange, NULL);
    }
}

Test(group, mixed_calls, .timeout = 120)
{
    static const char *const settings[] = {"KOLO_PLAN=auto", "KOLO_PLAN=ring",
                                           "KOLO_DETERMINISTIC=1"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 6; i++) {
            bool is_persistent = i % 2 == 1;
            struct world world = {
                .size = 3, .transport = world_transports[t], .settings = {settings[i / 2]}};
            WORLD_MUST_RUN(&world, mixed_calls, &is_persistent);
        }
}

/** One rank's group has another call in it. The short sums are fused into one call, and its name
 * says so. */
static kolo_status different_groups(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    float a[8] = {1, 2};
    WORLD_TRY(kolo_group_begin(comm));
    for (int i = 0; i < 4 + kolo_rank(comm); i++)
        WORLD_TRY(kolo_allreduce(comm, a + i, a + i, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    kolo_status status = kolo_group_end(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "group of") != NULL, "%s", kolo_error_detail());
    return KOLO_OK;
}

/** The same total number of elements, divided differently. */
static kolo_status cut_otherwise(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    float a[4] = {1, 2, 3, 4};
    const size_t first = kolo_rank(comm) == 0 ? 1 : 3;
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, a, a, first, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(
        kolo_allreduce(comm, a + first, a + first, 4 - first, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    kolo_status status = kolo_group_end(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "in a group of other calls") != NULL, "%s",
                 kolo_error_detail());
    return KOLO_OK;
}

Test(group, ranks_that_differ, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {
            .size = 2, .transport = world_transports[t], .settings = {"KOLO_STALL=1"}};
        WORLD_MUST_RUN(&world, different_groups, NULL);
        WORLD_MUST_RUN(&world, cut_otherwise, NULL);
    }
}

/** Calls of a group run concurrently, so a call that needs another's result might or might not see
 * it, and is refused. Columns of one matrix, which lie in each other's gaps, do not overlap. */
static kolo_status need_each_other(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    float a[2] = {1, 2}, b[2] = {9, 9}, c[2] = {9, 9}, matrix[4] = {0};
    const size_t counts[2] = {1, 1}, even[2] = {0, 2}, odd[2] = {1, 3};
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, a, b, 2, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, b + 1, c, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_INVALID(kolo_group_end(comm, NULL, NULL),
                  "call 3 (kolo_allreduce) reads what call 1 (kolo_allreduce) writes, 4 bytes");
    WORLD_EXPECT(b[0] == 9 && b[1] == 9 && c[0] == 9, "something was written");
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allgatherv(comm, a, matrix, counts, even, KOLO_FLOAT32, NULL, NULL));
    WORLD_TRY(kolo_allgatherv(comm, a + 1, matrix, counts, odd, KOLO_FLOAT32, NULL, NULL));
    WORLD_TRY(kolo_group_end(comm, NULL, NULL));
    WORLD_EXPECT(matrix[0] == 1 && matrix[1] == 2 && matrix[2] == 1 && matrix[3] == 2, "columns");
    return KOLO_OK;
}

Test(group, calls_that_need_each_other, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, need_each_other, NULL);
}

/** If anything is refused in a group, nothing of it starts, and kolo_group_end() returns the same
 * error. */
static kolo_status refused_inside(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts half = {.size = sizeof half, .prescale = 0.5};
    float a[4] = {1, 2, 3, 4}, b[4] = {9, 9, 9, 9};
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, a, b, 4, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, a, a, 4, KOLO_FLOAT32, KOLO_SUM, &half, NULL));
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, 2, KOLO_FLOAT32, KOLO_SUM, NULL, NULL), "overlap");
    WORLD_INVALID(kolo_send(comm, a, 1, KOLO_FLOAT32, 99, NULL, NULL), "99");
    WORLD_TRY(kolo_allreduce(comm, a, b, 4, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_INVALID(kolo_group_end(comm, NULL, &request), "overlap");
    WORLD_EXPECT(!request && a[0] == 1 && b[0] == 9 && b[3] == 9, "something was written");
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_INVALID(kolo_barrier(comm, NULL, &request), "request_out");
    WORLD_INVALID(kolo_group_end(comm, NULL, NULL), "request_out");
    return kolo_barrier(comm, NULL, NULL);
}

static void keep_all(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    (void)into, (void)from, (void)count, (void)dtype, (void)context;
}

/** What is refused when the plan is chosen is refused at the call, too. */
static kolo_status no_plan_inside(struct kolo_comm *comm, void *argument)
{
    const struct kolo_op keep = {.size = sizeof keep, .name = "keep", .fold = keep_all};
    float a[4] = {1, 2, 3, 4}, b[4] = {9, 9, 9, 9};
    kolo_redop op;
    (void)argument;
    WORLD_TRY(kolo_op_create(comm, &keep, &op));
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, a, b, 4, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    kolo_status status = kolo_allreduce(comm, a, b, 4, KOLO_FLOAT32, op, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "%s", kolo_status_name(status));
    status = kolo_group_end(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "%s", kolo_status_name(status));
    WORLD_EXPECT(b[0] == 9 && b[3] == 9, "something was written");
    return kolo_op_free(comm, op);
}

Test(group, calls_without_a_plan, .timeout = 60)
{
    struct world world = {.size = 3, .settings = {"KOLO_PLAN=ring"}};
    WORLD_MUST_RUN(&world, no_plan_inside, NULL);
}

static kolo_status refused_around(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT};
    struct kolo_comm *other = NULL;
    struct kolo_request *request = NULL;
    WORLD_INVALID(kolo_group_begin(NULL), "comm");
    WORLD_INVALID(kolo_group_end(NULL, NULL, NULL), "comm");
    WORLD_INVALID(kolo_group_end(comm, NULL, NULL), "no group");
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_INVALID(kolo_group_begin(comm), "open");
    WORLD_INVALID(kolo_dup(comm, NULL, &other), "group");
    WORLD_INVALID(kolo_metrics_compute(comm, NULL, 0, NULL), "group");
    WORLD_INVALID(kolo_group_end(comm, &opts, NULL), "KOLO_PERSISTENT");
    WORLD_TRY(kolo_group_begin(comm)); /* the last group was closed nevertheless */
    WORLD_TRY(kolo_group_end(comm, NULL, &request));
    WORLD_EXPECT(request == NULL, "a request for nothing");
    opts.flags = 0;
    opts.timeout_ms = -1;
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_INVALID(kolo_group_end(comm, &opts, NULL), "timeout_ms");
    WORLD_TRY(kolo_group_begin(comm)); /* a group that is still open ends with the communicator */
    return kolo_barrier(comm, NULL, NULL);
}

Test(group, refusals, .timeout = 60)
{
    for (int size = 1; size <= 2; size++) {
        struct world world = {.size = size};
        WORLD_MUST_RUN(&world, refused_inside, NULL);
        WORLD_MUST_RUN(&world, refused_around, NULL);
    }
}

static char logged[1024];

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

/** Leaves the group open that it has begun, with two calls in it. */
static kolo_status leave_open(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *copy;
    float a = 1, b = 1;
    (void)argument;
    WORLD_TRY(kolo_dup(comm, NULL, &copy));
    WORLD_TRY(kolo_group_begin(copy));
    WORLD_TRY(kolo_allreduce(copy, &a, &a, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_allreduce(copy, &b, &b, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    if (kolo_rank(comm) == 0)
        WORLD_TRY(kolo_finalize(copy));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        WORLD_EXPECT(strstr(logged, "rank 0 ") &&
                         strstr(logged, " (dup) with an open group: 2 calls were never started"),
                     "%s", logged);
    if (kolo_rank(comm) == 1) {
        WORLD_EXPECT(kolo_group_end(copy, NULL, NULL) == KOLO_ERR_PEER, "%s", kolo_error_detail());
        WORLD_TRY(kolo_finalize(copy));
    }
    return KOLO_OK;
}

Test(group, who_leaves_one_open_is_told, .timeout = 60)
{
    struct world world = {.size = 2};
    kolo_log_set_sink(keep_line, NULL);
    WORLD_MUST_RUN(&world, leave_open, NULL);
    kolo_log_set_sink(NULL, NULL);
}

static kolo_status too_late(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    float a = 1;
    if (kolo_rank(comm) == 1)
        return KOLO_OK;
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, &a, &a, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    kolo_status status = kolo_group_end(comm, &opts, NULL);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER, "%s",
                 kolo_status_name(status));
    return KOLO_OK;
}

Test(group, has_a_deadline, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, too_late, NULL);
}

/* ---- another thread calls while groups open and close ---- */

enum { ROUNDS = 20000 };

/** Each call is included in a group, or runs by itself, or comes just too late. */
static void *call_meanwhile(void *comm)
{
    for (int i = 0; i < ROUNDS; i++) {
        kolo_status status = kolo_barrier(comm, NULL, NULL);
        if (status != KOLO_OK && status != KOLO_ERR_INVALID)
            return comm;
    }
    return NULL;
}

static kolo_status groups_meanwhile(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    pthread_t thread;
    void *failed;
    WORLD_EXPECT(pthread_create(&thread, NULL, call_meanwhile, comm) == 0, "no thread");
    for (int i = 0; i < ROUNDS; i++) {
        kolo_status status = kolo_group_begin(comm);
        if (status == KOLO_OK)
            status = kolo_group_end(comm, NULL, NULL);
        if (status != KOLO_ERR_INVALID)
            WORLD_TRY(status);
    }
    pthread_join(thread, &failed);
    WORLD_EXPECT(failed == NULL, "a call failed");
    return KOLO_OK;
}

Test(group, another_thread_calls_meanwhile, .timeout = 100)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, groups_meanwhile, NULL);
}

/* ---- calls of several calls, which began before the group ---- */

struct beside {
    struct kolo_comm *comm;
    bool computes;
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
};

static kolo_status compute_mean(struct kolo_comm *comm)
{
    const struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_mean_result result = {.size = sizeof result};
    const double value = kolo_rank(comm) + 1;
    struct kolo_metric *mean = NULL;
    WORLD_TRY(kolo_mean_create(&config, &mean));
    kolo_status status = kolo_mean_update_float64(mean, &value, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &mean, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_mean_result(mean, &result);
    kolo_metric_destroy(mean);
    WORLD_TRY(status);
    WORLD_EXPECT(result.mean == 1.5, "a mean of %g", result.mean);
    return KOLO_OK;
}

static kolo_status make_copy(struct kolo_comm *comm)
{
    struct kolo_comm *copy = NULL;
    int32_t one = 1, sum = 0;
    WORLD_TRY(kolo_dup(comm, NULL, &copy));
    WORLD_TRY(kolo_allreduce(copy, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(sum == 2, "a sum of %d", (int)sum);
    return kolo_finalize(copy);
}

static void *beside_main(void *argument)
{
    struct beside *beside = argument;
    beside->status = beside->computes ? compute_mean(beside->comm) : make_copy(beside->comm);
    snprintf(beside->text, sizeof beside->text, "%s", kolo_error_detail());
    return NULL;
}

/** Whether a call waits for the other rank, and if it makes a communicator, another one for it. */
static bool have_begun(struct kolo_comm *comm, bool computes)
{
    kolo_comm_enter(comm);
    const bool has = comm->collectives.first && (computes || comm->creating.first);
    kolo_comm_leave(comm);
    return has;
}

/** On rank 0 threads are in such calls when a group begins. Rank 1 comes when it has. */
static kolo_status begun_before(struct kolo_comm *comm, void *argument)
{
    const bool computes = *(const bool *)argument;
    const int count = computes ? 1 : 2, rank = kolo_rank(comm);
    struct beside beside[2] = {{.comm = comm, .computes = computes}};
    pthread_t threads[2];
    int32_t token = rank == 0 ? 7 : 0;
    size_t bytes = 0;
    beside[1] = beside[0];
    for (int i = 0; rank == 0 && i < count; i++)
        WORLD_EXPECT(pthread_create(&threads[i], NULL, beside_main, &beside[i]) == 0, "no thread");
    if (rank == 0) {
        WORLD_EXPECT(AWAIT(have_begun(comm, computes)), "the calls do not begin");
        WORLD_TRY(kolo_group_begin(comm));
        WORLD_TRY(kolo_send(comm, &token, 1, KOLO_INT32, 1, NULL, NULL));
        WORLD_TRY(kolo_kv_set(comm, "open", "", 0));
    } else {
        WORLD_TRY(kolo_kv_get(comm, "open", NULL, &bytes, -1));
    }
    for (int i = 0; i < count; i++)
        if (rank == 0)
            pthread_join(threads[i], NULL);
        else
            (void)beside_main(&beside[i]);
    for (int i = 0; i < count; i++)
        if (beside[i].status != KOLO_OK)
            return kolo_fail(beside[i].status, "call %d: %s", i, beside[i].text);
    if (rank == 0)
        return kolo_group_end(comm, NULL, NULL);
    WORLD_TRY(kolo_recv(comm, &token, 1, KOLO_INT32, 0, NULL, NULL));
    WORLD_EXPECT(token == 7, "%d arrives", (int)token);
    return KOLO_OK;
}

Test(group, takes_no_part_of_a_call_that_began_before, .timeout = 100)
{
    for (int computes = 0; computes < 2; computes++) {
        struct world world = {.size = 2, .settings = {"KOLO_TIMEOUT=10"}};
        bool argument = computes != 0;
        WORLD_MUST_RUN(&world, begun_before, &argument);
    }
}
