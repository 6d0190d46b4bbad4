// SPDX-License-Identifier: Apache-2.0
// Aligns clocks that differ, by the calls that hosts have in common.
#include <criterion/criterion.h>

#include <stdlib.h>

#include "tests/launcher/trace_maker.h"

enum { SIZE = 4, CALLS = 200 };
static const int64_t start_ns = 50000000000; /* by the first clock */

/* The clock of the second host: its start, and how much faster it runs. */
struct skew {
    int64_t ahead_ns;
    double faster;
};

static int64_t shown(const struct skew *skew, int64_t true_ns)
{
    return true_ns + skew->ahead_ns + (int64_t)(skew->faster * (double)(true_ns - start_ns));
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/** Allreduces of ranks 0 and 1 on one host and 2 and 3 on another, one per 100 ms, to which ranks
 * come up to 2 ms apart, and whose messages take 20 us or sometimes more. */
static void make(struct maker makers[SIZE], const struct skew *skew)
{
    uint64_t state = 88172645463325252u;
    for (int rank = 0; rank < SIZE; rank++)
        makers[rank] = maker_begin(rank, SIZE, rank < 2 ? 7 : 8, rank < 2 ? "a" : "b");
    for (uint32_t i = 0; i < CALLS; i++) {
        int64_t begins[SIZE], last_ns = 0;
        for (int rank = 0; rank < SIZE; rank++) {
            begins[rank] = start_ns + 100000000 * (int64_t)i + (int64_t)(next(&state) % 2000000);
            last_ns = begins[rank] > last_ns ? begins[rank] : last_ns;
        }
        for (int rank = 0; rank < SIZE; rank++) {
            const int64_t end_ns = last_ns + 20000 + (int64_t)(next(&state) % 200000);
            const struct skew none = {0, 0}, *own = rank < 2 ? &none : skew;
            maker_call(&makers[rank], i, shown(own, begins[rank]), shown(own, end_ns));
        }
    }
}

static struct kolo_trace merged(struct maker makers[SIZE])
{
    struct kolo_trace trace = {.size = 0};
    for (int rank = 0; rank < SIZE; rank++)
        cr_assert(maker_give(&makers[rank], &trace) == KOLO_OK);
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    cr_assert(trace.clock_count == 2 && trace.clocks[0].how == KOLO_CLOCK_SAME);
    return trace;
}

/** The largest error of a time of the second host. */
static int64_t worst(const struct kolo_trace *trace, const struct skew *skew)
{
    int64_t worst_ns = 0;
    for (int i = 0; i <= 10; i++) {
        const int64_t true_ns = start_ns + i * (CALLS / 10) * (int64_t)100000000;
        const int64_t got = kolo_trace_time(trace, &trace->tracks[2], shown(skew, true_ns));
        worst_ns = llabs(got - true_ns) > worst_ns ? llabs(got - true_ns) : worst_ns;
    }
    return worst_ns;
}

Test(trace_clocks, one_that_is_ahead)
{
    static const struct skew skews[] = {{0, 0}, {3600000000000, 0}, {-40000000000, 0}};
    for (size_t i = 0; i < sizeof skews / sizeof skews[0]; i++) {
        struct maker makers[SIZE];
        make(makers, &skews[i]);
        struct kolo_trace trace = merged(makers);
        cr_assert(trace.clocks[1].how == KOLO_CLOCK_CALLS && trace.clocks[1].rank == 2);
        cr_assert(trace.clocks[1].rate == 0);
        cr_assert(trace.clocks[1].error_ns > 0 && trace.clocks[1].error_ns < 60000);
        cr_assert(worst(&trace, &skews[i]) <= trace.clocks[1].error_ns, "%ld ns off, %ld said",
                  (long)worst(&trace, &skews[i]), (long)trace.clocks[1].error_ns);
        cr_assert(trace.matched == CALLS);
        kolo_trace_fini(&trace);
    }
}

Test(trace_clocks, one_that_runs_faster)
{
    const struct skew skew = {7000000000, 80e-6}; /* 1.6 ms over the 20 s */
    struct maker makers[SIZE];
    make(makers, &skew);
    struct kolo_trace trace = merged(makers);
    cr_assert(trace.clocks[1].how == KOLO_CLOCK_CALLS);
    cr_assert(trace.clocks[1].rate < -60e-6 && trace.clocks[1].rate > -100e-6, "%g",
              trace.clocks[1].rate);
    cr_assert(worst(&trace, &skew) < 200000, "%ld ns off", (long)worst(&trace, &skew));
    kolo_trace_fini(&trace);
}

Test(trace_clocks, messages_both_ways_bound_it)
{
    struct maker makers[SIZE];
    for (int rank = 0; rank < SIZE; rank++)
        makers[rank] = maker_begin(rank, SIZE, rank < 2 ? 7 : 8, "h");
    maker_message(&makers[0], KOLO_SHAPE_SEND, 2, 0, 1000000, 1001000);
    maker_message(&makers[2], KOLO_SHAPE_RECV, 0, 0, 5900000, 6020000); /* 5 ms ahead */
    maker_message(&makers[2], KOLO_SHAPE_SEND, 0, 0, 6030000, 6031000);
    maker_message(&makers[0], KOLO_SHAPE_RECV, 2, 0, 1010000, 1050000);
    struct kolo_trace trace = merged(makers);
    cr_assert(trace.clocks[1].how == KOLO_CLOCK_CALLS);
    cr_assert(trace.clocks[1].offset_ns == -5000000 && trace.clocks[1].error_ns == 20000, "%ld %ld",
              (long)trace.clocks[1].offset_ns, (long)trace.clocks[1].error_ns);
    kolo_trace_fini(&trace);
}

Test(trace_clocks, what_is_not_known_is_said)
{
    struct maker makers[SIZE];
    for (int rank = 0; rank < SIZE; rank++)
        makers[rank] = maker_begin(rank, SIZE, rank < 2 ? 7 : 8, "h");
    maker_message(&makers[0], KOLO_SHAPE_SEND, 2, 0, 1000000, 1001000);
    maker_message(&makers[2], KOLO_SHAPE_RECV, 0, 0, 5900000, 6020000);
    struct kolo_trace trace = merged(makers);
    cr_assert(trace.clocks[1].how == KOLO_CLOCK_ONE_WAY && trace.clocks[1].error_ns == -1);
    cr_assert(trace.clocks[1].offset_ns == 1000000 - 6020000);
    kolo_trace_fini(&trace);
    for (int rank = 0; rank < SIZE; rank++) {
        makers[rank] = maker_begin(rank, SIZE, rank < 2 ? 7 : 8, "h");
        maker_call(&makers[rank], (uint32_t)rank, rank < 2 ? 1000 : 9000, 0);
    }
    trace = merged(makers);
    cr_assert(trace.clocks[1].how == KOLO_CLOCK_UNKNOWN && trace.clocks[1].error_ns == -1);
    cr_assert(trace.clocks[1].offset_ns == -8000); /* as if both had begun at the same time */
    kolo_trace_fini(&trace);
}

Test(trace_clocks, a_call_that_failed_bounds_nothing)
{
    const struct skew skew = {0, 0};
    struct maker makers[SIZE];
    make(makers, &skew);
    for (int rank = 0; rank < SIZE; rank++) { /* rank 3 comes after the others have given up */
        const struct kolo_timeline_record call = {.sequence = CALLS,
                                                  .begin_ns = start_ns * (rank == 3 ? 4 : 3),
                                                  .end_ns =
                                                      start_ns * 7 / 2 + (rank == 3) * start_ns,
                                                  .size = SIZE,
                                                  .peer = -1,
                                                  .status = KOLO_ERR_TIMEOUT,
                                                  .shape_flags = KOLO_SHAPE_ALL};
        maker_add(&makers[rank], &call);
    }
    struct kolo_trace trace = merged(makers);
    cr_assert(trace.clocks[1].rate == 0 && trace.clocks[1].error_ns < 60000);
    cr_assert(trace.clocks[1].at_ns == 0, "no one distance agrees with all");
    kolo_trace_fini(&trace);
}
