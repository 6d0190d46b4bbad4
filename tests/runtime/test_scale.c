// SPDX-License-Identifier: Apache-2.0
// runtime/scale.c: reductions with factors against the arithmetic of single elements, over every
// plan, in and out of place; factors that are refused; and options of an older program.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/float_mode.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

#define KOLO_TRY_RETURN(call)                                                                      \
    do {                                                                                           \
        kolo_status status_ = (call);                                                              \
        if (status_ != KOLO_OK)                                                                    \
            return status_;                                                                        \
    } while (0)

enum { RANKS = 3, COUNT = 7 };

static float input(int rank, size_t i)
{
    return (float)(rank + 1) * 0.25f + (float)i;
}

/** Sums of few small numbers are exact, so the order does not matter. */
static float expected_sum(size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < RANKS; rank++)
        sum += input(rank, i) * 0.5f;
    return sum * 0.1f;
}

/** Rank 0 has loaded a library that takes subnormals for zero, and it rounds towards zero. */
static kolo_status sum_in_odd_mode(struct kolo_comm *comm, void *argument)
{
    enum { MOST = 200000 };
    static float in[RANKS][MOST], out[RANKS][MOST];
    const int rank = kolo_rank(comm);
    const size_t counts[] = {1, 2, 600, 5000, MOST};
    (void)argument;
    for (size_t i = 0; i < MOST; i++)
        in[rank][i] = i % 2 == 0 ? 0x1p-140f : rank == 0 ? 1.0f : 0x1.8p-24f;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        if (rank == 0)
            kolo_float_mode_set(KOLO_FLOAT_ODD);
        const kolo_status status = kolo_allreduce(comm, in[rank], out[rank], counts[c],
                                                  KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
        kolo_float_mode_set(KOLO_FLOAT_MODE);
        KOLO_TRY_RETURN(status);
        for (size_t i = 0; i < counts[c]; i++)
            WORLD_EXPECT(out[rank][i] == (i % 2 == 0 ? 0x1.8p-139f : 1 + 0x1p-22f) ||
                             (i % 2 == 1 && out[rank][i] == 1 + 0x1p-23f),
                         "element %zu of %zu is %a", i, counts[c], (double)out[rank][i]);
    }
    KOLO_TRY_RETURN(kolo_barrier(comm, NULL, NULL)); /* all are there */
    return memcmp(out[rank], out[0], sizeof out[0]) == 0
               ? KOLO_OK
               : kolo_fail(KOLO_ERR_INTERNAL, "not the bits of rank 0");
}

ParameterizedTestParameters(scale, ranks_in_different_modes_get_the_same_bits)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, scale, ranks_in_different_modes_get_the_same_bits,
                  .timeout = 60)
{
    struct world world = {.size = RANKS, .transport = param->name};
    WORLD_MUST_RUN(&world, sum_in_odd_mode, NULL);
}

static struct kolo_opts factors(double prescale, double postscale)
{
    return (struct kolo_opts){
        .size = sizeof(struct kolo_opts), .prescale = prescale, .postscale = postscale};
}

static kolo_status scaled_allreduce(struct kolo_comm *comm, bool in_place)
{
    const struct kolo_opts opts = factors(0.5, 0.1);
    float send[COUNT], recv[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        send[i] = recv[i] = input(kolo_rank(comm), i);
    KOLO_TRY_RETURN(kolo_allreduce(comm, in_place ? recv : send, recv, COUNT, KOLO_FLOAT32,
                                   KOLO_SUM, &opts, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        WORLD_EXPECT(recv[i] == expected_sum(i), "allreduce: element %zu is %a", i,
                     (double)recv[i]);
        WORLD_EXPECT(send[i] == input(kolo_rank(comm), i), "send was written");
    }
    return KOLO_OK;
}

static kolo_status scaled_reduce(struct kolo_comm *comm, bool in_place)
{
    const struct kolo_opts opts = factors(0.5, 0.1);
    const int root = 1;
    float send[COUNT], recv[COUNT] = {0};
    bool is_root = kolo_rank(comm) == root;
    for (size_t i = 0; i < COUNT; i++)
        send[i] = input(kolo_rank(comm), i);
    float *result = in_place ? send : recv;
    KOLO_TRY_RETURN(kolo_reduce(comm, send, is_root ? result : NULL, COUNT, KOLO_FLOAT32, KOLO_SUM,
                                root, &opts, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        WORLD_EXPECT(!is_root || result[i] == expected_sum(i), "reduce: element %zu is %a", i,
                     (double)result[i]);
        WORLD_EXPECT((is_root && in_place) || send[i] == input(kolo_rank(comm), i),
                     "send was written");
    }
    return KOLO_OK;
}

static kolo_status scaled_reduce_scatter(struct kolo_comm *comm, bool has_lengths)
{
    const struct kolo_opts opts = factors(0.5, 0.1);
    const size_t counts[RANKS] = {3, 0, 2}, first[RANKS] = {0, 3, 3};
    int rank = kolo_rank(comm);
    size_t count = has_lengths ? counts[rank] : 2,
           at = has_lengths ? first[rank] : 2 * (size_t)rank;
    float send[COUNT], recv[COUNT] = {0};
    for (size_t i = 0; i < COUNT; i++)
        send[i] = input(rank, i);
    struct kolo_request *request = NULL;
    if (has_lengths)
        KOLO_TRY_RETURN(kolo_reduce_scatterv(comm, send, recv, counts, KOLO_FLOAT32, KOLO_SUM,
                                             &opts, &request));
    else
        KOLO_TRY_RETURN(
            kolo_reduce_scatter(comm, send, recv, 2, KOLO_FLOAT32, KOLO_SUM, &opts, &request));
    KOLO_TRY_RETURN(kolo_wait(&request, -1));
    for (size_t i = 0; i < COUNT; i++) {
        WORLD_EXPECT(recv[i] == (i < count ? expected_sum(at + i) : 0),
                     "reduce_scatter: element %zu is %a", i, (double)recv[i]);
        WORLD_EXPECT(send[i] == input(rank, i), "send was written");
    }
    return KOLO_OK;
}

/** Weights: each rank has its own factor. */
static kolo_status weighted(struct kolo_comm *comm)
{
    const struct kolo_opts opts = factors(kolo_rank(comm) + 1, 0);
    double value = 1, sum = 0;
    KOLO_TRY_RETURN(kolo_allreduce(comm, &value, &sum, 1, KOLO_FLOAT64, KOLO_SUM, &opts, NULL));
    WORLD_EXPECT(sum == 1 + 2 + 3, "weighted: %g", sum);
    return KOLO_OK;
}

static kolo_status all_shapes(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int i = 0; i < 2; i++) {
        KOLO_TRY_RETURN(scaled_allreduce(comm, i == 1));
        KOLO_TRY_RETURN(scaled_reduce(comm, i == 1));
        KOLO_TRY_RETURN(scaled_reduce_scatter(comm, i == 1));
    }
    return weighted(comm);
}

Test(scale, every_plan, .timeout = 60)
{
    static const char *const plans[] = {"KOLO_SMALL_BYTES=0", "KOLO_SMALL_BYTES=16KiB",
                                        "KOLO_PLAN=direct", "KOLO_PLAN=flat"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 4; i++) {
            struct world world = {
                .size = RANKS, .transport = world_transports[t], .settings = {plans[i]}};
            WORLD_MUST_RUN(&world, all_shapes, NULL);
        }
}

#define EXPECT_INVALID(call)                                                                       \
    WORLD_EXPECT((call) == KOLO_ERR_INVALID, "line %d: %s", __LINE__, kolo_error_detail())

static kolo_status refusals(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts half = factors(0.5, 0), infinite = factors(1, INFINITY);
    const struct kolo_opts none = factors(1, 1), nan = factors(NAN, 0);
    struct kolo_opts old = factors(0.5, 0.5), between = factors(0.5, 0.5);
    const struct kolo_opts huge = factors(1e300, 0), tiny = factors(0, -1e-300);
    float f[2] = {1, 0};
    double d[2] = {1, 0};
    int32_t n[2] = {1, 0};
    EXPECT_INVALID(kolo_allreduce(comm, n, n + 1, 1, KOLO_INT32, KOLO_SUM, &half, NULL));
    EXPECT_INVALID(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &infinite, NULL));
    EXPECT_INVALID(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &nan, NULL));
    EXPECT_INVALID(kolo_allgather(comm, f, f + 1, 1, KOLO_FLOAT32, &half, NULL));
    EXPECT_INVALID(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &huge, NULL));
    EXPECT_INVALID(kolo_allreduce(comm, f, f + 1, 1, KOLO_BFLOAT16, KOLO_SUM, &tiny, NULL));
    between.size = offsetof(struct kolo_opts, postscale);
    EXPECT_INVALID(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &between, NULL));
    WORLD_EXPECT(f[1] == 0 && n[1] == 0, "written");
    KOLO_TRY_RETURN(kolo_allreduce(comm, n, n + 1, 1, KOLO_INT32, KOLO_SUM, &none, NULL));
    old.size = offsetof(struct kolo_opts, prescale);
    KOLO_TRY_RETURN(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &old, NULL));
    WORLD_EXPECT(f[1] == 1 && n[1] == 1, "scaled: %g", (double)f[1]);
    KOLO_TRY_RETURN(kolo_allreduce(comm, f, f + 1, 1, KOLO_FLOAT32, KOLO_SUM, &half, NULL));
    WORLD_EXPECT(f[1] == 0.5f, "not scaled: %g", (double)f[1]);
    KOLO_TRY_RETURN(kolo_allreduce(comm, d, d + 1, 1, KOLO_FLOAT64, KOLO_SUM, &huge, NULL));
    WORLD_EXPECT(d[1] == 1e300, "float64 not scaled: %g", d[1]);
    return KOLO_OK;
}

Test(scale, refusals_and_old_options)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, refusals, NULL);
}

static kolo_status other_factor(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_opts opts = factors(0, kolo_rank(comm) + 2);
    float value = 1;
    kolo_status status =
        kolo_allreduce(comm, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    return KOLO_OK;
}

Test(scale, postscale_must_be_equal, .timeout = 60)
{
    struct world world = {.size = 2, .settings = {"KOLO_STALL=1"}};
    WORLD_MUST_RUN(&world, other_factor, NULL);
}

/* ---- a communicator that fails while an input is scaled ---- */

enum { LONG = 1 << 24 };
static float longs[LONG];

/** Reads what the other thread writes, because it waits for exactly that. */
__attribute__((no_sanitize("thread"))) static void *abort_meanwhile(void *comm)
{
    (void)AWAIT(*(volatile float *)&longs[0] != 1);
    kolo_abort(comm, "meanwhile");
    return NULL;
}

static kolo_status fails_meanwhile(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct kolo_comm *copy;
    pthread_t thread;
    KOLO_TRY_RETURN(kolo_dup(comm, NULL, &copy));
    if (kolo_rank(comm) == 0) {
        const struct kolo_opts twice = factors(2, 0);
        longs[0] = 1;
        WORLD_EXPECT(pthread_create(&thread, NULL, abort_meanwhile, copy) == 0, "no thread");
        kolo_status status =
            kolo_allreduce(copy, longs, longs, LONG, KOLO_FLOAT32, KOLO_SUM, &twice, NULL);
        pthread_join(thread, NULL);
        WORLD_EXPECT(status == KOLO_ERR_ABORTED, "%s", kolo_status_name(status));
        WORLD_EXPECT(copy->collectives.first == NULL, "the call is over, its request is not");
    }
    KOLO_TRY_RETURN(kolo_barrier(comm, NULL, NULL));
    return kolo_finalize(copy);
}

Test(scale, communicator_fails_meanwhile, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, fails_meanwhile, NULL);
}
