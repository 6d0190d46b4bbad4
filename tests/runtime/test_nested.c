// SPDX-License-Identifier: Apache-2.0
// runtime/nested.c in host memory: every type and operator against the reference, calls of many
// pieces, each kind of call (in place, asynchronous, persistent, in a group, scaled), and that
// calls which differ, ranks that leave and deadlines are noticed as in other calls.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/reduce.h"
#include "runtime/nested.h"
#include "tests/support/hosts.h"
#include "tests/support/oracle.h"
#include "tests/support/world.h"

enum { LONG = (18 << 20) / 4 + 5 }; /* elements: pieces of a quarter, and a short one */

struct setup { /* no pointers, because the test runs in another process */
    int size, hosts;
    char transport[8];
};

static struct world world_of(const struct setup *setup)
{
    hosts_pretend(setup->hosts);
    return (struct world){.size = setup->size,
                          .transport = setup->transport[0] ? setup->transport : NULL,
                          .settings = {"KOLO_NESTED_BYTES=1"}};
}

/** Allreduces what the oracle says, and checks every byte of the result. */
static kolo_status check(struct kolo_comm *comm, const struct oracle *oracle, size_t count,
                         bool in_place)
{
    const size_t bytes = count * kolo_dtype_bytes(oracle->dtype);
    size_t at = 0;
    uint8_t *recv = malloc(bytes), *send = in_place ? recv : malloc(bytes);
    if (!recv || !send)
        abort();
    oracle_fill(oracle, kolo_rank(comm), 0, send, count);
    const uint32_t before = comm->nest->host->sequences.collective;
    const kolo_status status =
        kolo_allreduce(comm, send, recv, count, oracle->dtype, oracle->op, NULL, NULL);
    const bool is_right = status == KOLO_OK && oracle_is_reduced(oracle, 0, recv, count, &at);
    const bool is_nested = comm->nest->host->sequences.collective > before;
    free(recv);
    if (!in_place)
        free(send);
    WORLD_TRY(status);
    WORLD_EXPECT(is_nested, "%zu elements: not nested", count);
    WORLD_EXPECT(is_right, "%zu %s %s%s: element %zu", count, kolo_dtype_text(oracle->dtype),
                 kolo_redop_text(oracle->op), in_place ? " in place" : "", at);
    return KOLO_OK;
}

static kolo_status all_types(struct kolo_comm *comm, void *argument)
{
    static const size_t counts[] = {1, 15, 16, 17, 1000, 70001};
    (void)argument;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++) {
            const struct oracle oracle = {(kolo_dtype)dtype, (kolo_redop)op, kolo_size(comm), 7};
            if (!kolo_reduce_function(oracle.dtype, oracle.op))
                continue;
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                WORLD_TRY(check(comm, &oracle, counts[i], (op + i) % 2 == 1));
        }
    return KOLO_OK;
}

ParameterizedTestParameters(nested, all_types_and_operators)
{
    static struct setup setups[] = {{4, 2, ""}, {6, 3, "tcp"}, {6, 2, "tcp"}, {8, 2, ""}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, nested, all_types_and_operators, .timeout = 300)
{
    struct world world = world_of(setup);
    WORLD_MUST_RUN(&world, all_types, NULL);
}

static kolo_status many_pieces(struct kolo_comm *comm, void *argument)
{
    const struct oracle sum = {KOLO_FLOAT32, KOLO_SUM, kolo_size(comm), 3};
    const struct oracle average = {KOLO_FLOAT32, KOLO_AVERAGE, kolo_size(comm), 4};
    (void)argument;
    WORLD_TRY(check(comm, &sum, LONG, false));
    return check(comm, &average, 2 * LONG, true);
}

ParameterizedTestParameters(nested, long_vectors)
{
    static struct setup setups[] = {{4, 2, ""}, {4, 2, "tcp"}, {6, 3, ""}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, nested, long_vectors, .timeout = 300)
{
    struct world world = world_of(setup);
    WORLD_MUST_RUN(&world, many_pieces, NULL);
}

/* ---- which calls ---- */

static kolo_status by_size(struct kolo_comm *comm, void *argument)
{
    enum { LEAST = 4096 / 4 };
    const struct kolo_opts strict = {.size = sizeof strict, .flags = KOLO_DETERMINISTIC};
    float one = 1;
    (void)argument;
    int32_t *mine = calloc(LEAST, sizeof *mine);
    float *reals = calloc(LEAST, sizeof *reals);
    if (!mine || !reals)
        abort();
    const uint32_t before = comm->nest->host->sequences.collective;
    WORLD_TRY(kolo_allreduce(comm, mine, mine, LEAST - 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, reals, reals, LEAST, KOLO_FLOAT32, KOLO_SUM, &strict, NULL));
    WORLD_TRY(kolo_broadcast(comm, mine, LEAST, KOLO_INT32, 0, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, &one, &one, 0, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(comm->nest->host->sequences.collective == before,
                 "a call was nested that should not be");
    WORLD_TRY(kolo_allreduce(comm, mine, mine, LEAST, KOLO_INT32, KOLO_SUM, &strict, NULL));
    WORLD_EXPECT(comm->nest->host->sequences.collective > before, "a call was not nested");
    free(mine);
    free(reals);
    return KOLO_OK;
}

Test(nested, takes_long_allreduces_whose_order_is_free, .timeout = 60)
{
    struct world world = {.size = 4, .settings = {"KOLO_NESTED_BYTES=4KiB"}};
    hosts_pretend(2);
    WORLD_MUST_RUN(&world, by_size, NULL);
}

static kolo_status is_forced(struct kolo_comm *comm, void *argument)
{
    int32_t value = 1;
    const uint32_t before = comm->nest->host->sequences.collective;
    (void)argument;
    WORLD_TRY(kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(value == 4 && comm->nest->host->sequences.collective == before,
                 "the forced plan was not used");
    return KOLO_OK;
}

static kolo_status is_refused(struct kolo_comm *comm, void *argument)
{
    int32_t value = 1;
    (void)argument;
    const kolo_status status =
        kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED && strstr(kolo_error_detail(), "KOLO_NESTED_BYTES"),
                 "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(nested, a_forced_plan_comes_first, .timeout = 60)
{
    struct world world = {.size = 4, .settings = {"KOLO_NESTED_BYTES=1", "KOLO_PLAN=ring"}};
    hosts_pretend(2);
    WORLD_MUST_RUN(&world, is_forced, NULL);
    world.settings[1] = "KOLO_PLAN=nested";
    hosts_pretend(2);
    WORLD_MUST_RUN(&world, is_refused, NULL);
}

/* ---- kinds of calls ---- */

static kolo_status expect_all(const float *data, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(data[i] == value, "element %zu is %g, not %g", i, (double)data[i],
                     (double)value);
    return KOLO_OK;
}

static void set_all(float *data, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value;
}

enum { KIND_COUNT = 900001 }; /* four pieces */

static kolo_status scaled(struct kolo_comm *comm, float *a, float *b)
{
    const struct kolo_opts opts = {.size = sizeof opts, .prescale = 2, .postscale = 0.5};
    struct kolo_opts differ = {.size = sizeof differ};
    set_all(a, KIND_COUNT, 3);
    WORLD_TRY(kolo_allreduce(comm, a, b, KIND_COUNT, KOLO_FLOAT32, KOLO_AVERAGE, &opts, NULL));
    WORLD_TRY(expect_all(a, KIND_COUNT, 3));
    WORLD_TRY(expect_all(b, KIND_COUNT, 3));
    /* each rank may have its own prescale */
    differ.prescale = kolo_rank(comm) == 0 ? 4 : 1;
    WORLD_TRY(kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, &differ, NULL));
    return expect_all(a, KIND_COUNT, (float)(3 * (kolo_size(comm) + 3)));
}

static kolo_status started(struct kolo_comm *comm, float *a, float *b)
{
    struct kolo_request *first = NULL, *second = NULL, *again = NULL;
    const struct kolo_opts persistent = {.size = sizeof persistent, .flags = KOLO_PERSISTENT};
    const float size = (float)kolo_size(comm);
    set_all(a, KIND_COUNT, 1);
    set_all(b, KIND_COUNT, 2);
    WORLD_TRY(kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, &first));
    WORLD_TRY(kolo_allreduce(comm, b, b, KIND_COUNT, KOLO_FLOAT32, KOLO_MAX, NULL, &second));
    WORLD_TRY(kolo_wait(&second, -1));
    WORLD_TRY(kolo_wait(&first, -1));
    WORLD_TRY(expect_all(a, KIND_COUNT, size));
    WORLD_TRY(expect_all(b, KIND_COUNT, 2));
    WORLD_TRY(kolo_allreduce(comm, a, b, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, &persistent, &again));
    for (int round = 1; round < 6; round++) {
        set_all(a, KIND_COUNT, (float)round);
        if (round % 2 == 0)
            WORLD_TRY(kolo_run(again));
        else
            WORLD_TRY(kolo_start(again));
        WORLD_TRY(kolo_wait(&again, -1));
        WORLD_TRY(expect_all(b, KIND_COUNT, size * (float)round));
    }
    return kolo_request_free(&again);
}

static kolo_status grouped(struct kolo_comm *comm, float *a, float *b)
{
    float small[2] = {1, 1};
    set_all(a, KIND_COUNT, 1);
    set_all(b, KIND_COUNT, 1);
    WORLD_TRY(kolo_group_begin(comm));
    for (int i = 0; i < 2; i++)
        WORLD_TRY(
            kolo_allreduce(comm, &small[i], &small[i], 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, b, b, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_group_end(comm, NULL, NULL));
    WORLD_TRY(expect_all(small, 2, (float)kolo_size(comm)));
    WORLD_TRY(expect_all(a, KIND_COUNT, (float)kolo_size(comm)));
    return expect_all(b, KIND_COUNT, (float)kolo_size(comm));
}

static kolo_status kinds(struct kolo_comm *comm, void *argument)
{
    float *a = malloc(KIND_COUNT * sizeof *a), *b = malloc(KIND_COUNT * sizeof *b);
    (void)argument;
    if (!a || !b)
        abort();
    WORLD_TRY(scaled(comm, a, b));
    WORLD_TRY(started(comm, a, b));
    WORLD_TRY(grouped(comm, a, b));
    free(a);
    free(b);
    return KOLO_OK;
}

ParameterizedTestParameters(nested, kinds_of_calls)
{
    static struct setup setups[] = {{4, 2, ""}, {6, 3, "tcp"}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, nested, kinds_of_calls, .timeout = 120)
{
    struct world world = world_of(setup);
    WORLD_MUST_RUN(&world, kinds, NULL);
}

/* ---- failures ---- */

enum { WRONG_COUNT, WRONG_OP, WRONG_CALL, WRONG_BROADCAST, WRONGS };

/** Rank 1 makes another call than the others; all must learn of it, and what it was. */
static kolo_status mismatch(struct kolo_comm *comm, void *argument)
{
    const int wrong = kolo_rank(comm) == 1 ? *(const int *)argument : WRONGS;
    size_t count = wrong == WRONG_COUNT ? KIND_COUNT - 1 : KIND_COUNT;
    float *a = calloc(KIND_COUNT, sizeof *a);
    kolo_status status;
    if (!a)
        abort();
    if (*(const int *)argument == WRONG_BROADCAST) /* an open one, which the next call closes */
        WORLD_TRY(
            kolo_broadcast(comm, a, 1, KOLO_FLOAT32, wrong == WRONG_BROADCAST ? 1 : 0, NULL, NULL));
    if (wrong == WRONG_CALL)
        status = kolo_barrier(comm, NULL, NULL);
    else
        status = kolo_allreduce(comm, a, a, count, KOLO_FLOAT32,
                                wrong == WRONG_OP ? KOLO_MAX : KOLO_SUM, NULL, NULL);
    free(a);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    WORLD_EXPECT(strstr(kolo_error_detail(), "allreduce(count 900001, float32, sum)") ||
                     *(const int *)argument == WRONG_BROADCAST,
                 "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(nested, calls_that_differ_are_noticed, .timeout = 120)
{
    for (int wrong = 0; wrong < WRONGS; wrong++) {
        struct world world = world_of(&(struct setup){4, 2, ""});
        WORLD_MUST_RUN(&world, mismatch, &wrong);
    }
}

/** The ranks with one share and those with another disagree about the factor. */
static kolo_status scaled_differently(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .postscale = comm->local_rank == 0 ? 2 : 3};
    float *a = calloc(KIND_COUNT, sizeof *a);
    (void)argument;
    if (!a)
        abort();
    const kolo_status status =
        kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
    free(a);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    return KOLO_OK;
}

Test(nested, postscale_must_be_equal, .timeout = 60)
{
    struct world world = world_of(&(struct setup){4, 2, ""});
    WORLD_MUST_RUN(&world, scaled_differently, NULL);
}

/** Two ranks of a host differ while the third is late: it finds calls inside the host refused,
 * before it knows that the outer call fails. */
static kolo_status late_after_a_mismatch(struct kolo_comm *comm, void *argument)
{
    const bool is_there = comm->choices.hosts[comm->rank] == 0;
    const bool differs = is_there && comm->local_rank == 1;
    const struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL;
    float a[1000] = {0};
    (void)argument;
    WORLD_TRY(kolo_allreduce(comm, a, a, 1000, KOLO_FLOAT32, differs ? KOLO_MAX : KOLO_SUM, &opts,
                             &request));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    bool may_begin = !is_there || comm->local_rank != 2;
    while (!may_begin) {
        kolo_comm_enter(comm);
        kolo_engine_poll(comm->engine);
        may_begin = comm->nest->host->failure.status != KOLO_OK;
        kolo_comm_leave(comm);
    }
    const kolo_status status = kolo_run(request);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    return kolo_request_free(&request);
}

Test(nested, a_late_rank_learns_of_a_mismatch_among_others, .timeout = 60)
{
    struct world world = world_of(&(struct setup){6, 2, ""});
    WORLD_MUST_RUN(&world, late_after_a_mismatch, NULL);
}

static kolo_status late_in_a_group(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 20000};
    const struct timespec late = {.tv_nsec = 600000000};
    float *a = calloc(KIND_COUNT, sizeof *a);
    (void)argument;
    if (!a)
        abort();
    if (kolo_rank(comm) == 2)
        (void)nanosleep(&late, NULL); /* longer than KOLO_TIMEOUT */
    WORLD_TRY(kolo_group_begin(comm));
    WORLD_TRY(kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    const kolo_status status = kolo_group_end(comm, &opts, NULL);
    free(a);
    return status;
}

Test(nested, a_group_has_its_own_deadline, .timeout = 60)
{
    struct world world = world_of(&(struct setup){4, 2, ""});
    world.settings[1] = "KOLO_TIMEOUT=300ms";
    WORLD_MUST_RUN(&world, late_in_a_group, NULL);
}

static kolo_status late(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    float *a = calloc(KIND_COUNT, sizeof *a);
    (void)argument;
    if (!a)
        abort();
    size_t bytes = 0;
    const kolo_status status =
        kolo_rank(comm) == 2 /* waits until the communicator fails */
            ? kolo_kv_get(comm, "never", NULL, &bytes, -1)
            : kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
    free(a);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT &&
                     strstr(kolo_error_detail(), "0.3 s passed, waiting for"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(nested, a_deadline_ends_it_on_all_ranks, .timeout = 60)
{
    struct world world = world_of(&(struct setup){4, 2, ""});
    WORLD_MUST_RUN(&world, late, NULL);
}

static kolo_status aborted(struct kolo_comm *comm, void *argument)
{
    struct kolo_request *request = NULL;
    float *a = calloc(KIND_COUNT, sizeof *a);
    (void)argument;
    if (!a)
        abort();
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 3)
        kolo_abort(comm, "a test");
    else
        WORLD_TRY(kolo_allreduce(comm, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, &request) ==
                              KOLO_OK ||
                          comm->failure.status != KOLO_OK
                      ? KOLO_OK
                      : KOLO_ERR_INTERNAL);
    const kolo_status status = request ? kolo_wait(&request, -1) : KOLO_ERR_ABORTED;
    WORLD_EXPECT(status == KOLO_ERR_ABORTED, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    free(a);
    return KOLO_OK;
}

Test(nested, an_abort_ends_it_on_all_ranks, .timeout = 60)
{
    struct world world = world_of(&(struct setup){4, 2, ""});
    WORLD_MUST_RUN(&world, aborted, NULL);
}

/** A rank that finalizes ends its own calls that still run. One that is late cannot begin its call
 * any more. */
static kolo_status left_running(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *dup = NULL;
    struct kolo_request *request = NULL;
    float *a = calloc(KIND_COUNT, sizeof *a);
    (void)argument;
    if (!a)
        abort();
    WORLD_TRY(kolo_dup(comm, NULL, &dup));
    if (kolo_rank(comm) != 0) {
        const kolo_status status =
            kolo_allreduce(dup, a, a, KIND_COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, &request);
        WORLD_EXPECT(status == KOLO_OK ||
                         (status == KOLO_ERR_PEER && strstr(kolo_error_detail(), "has finalized")),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
    }
    WORLD_TRY(kolo_finalize(dup));
    free(a);
    return kolo_barrier(comm, NULL, NULL);
}

Test(nested, finalizing_ends_calls_that_run, .timeout = 60)
{
    struct world world = world_of(&(struct setup){4, 2, ""});
    WORLD_MUST_RUN(&world, left_running, NULL);
}
