// SPDX-License-Identifier: Apache-2.0
// Ways that are chosen by trying them: whatever each rank would measure by itself, all take the
// same way in each call, each allowed one is tried, and every result is right; also if the memory
// or settings of ranks differ, lengths change, or memory can no longer be read.
#include <criterion/criterion.h>

#include <sched.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/board_hub.h"
#include "tests/support/refuse.h"
#include "tests/support/world.h"

enum { RANKS = 3, CALLS = 400, PULLED = 1, STREAMED = 2, CELLS_STREAMED = 4, SHOWN = 8, WAYS = 16 };
enum what { ALLTOALL, SUMS, GATHERS, BROADCASTS, SCATTERS, GAPS /* GAPS is a scatterv */ };
enum memory { OF_PROCESS, OF_KOLO, MIXED };

/** The way that each call took. */
static int ways[RANKS][CALLS];

static int way_of(const struct kolo_comm *comm, enum memory memory)
{
    const struct kolo_hub *hub = comm->hub;
    if (hub->run.may_show && memory == OF_PROCESS)
        return SHOWN;
    return (hub->run.is_pulled ? PULLED : 0) | (hub->run.how == KOLO_STORE_STREAM ? STREAMED : 0) |
           (hub->run.cell_how == KOLO_STORE_STREAM ? CELLS_STREAMED : 0);
}

/** Delays ranks, each in calls of its own, so that they would measure different times. */
static void be_late(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    for (unsigned i = (*seed >> 16) % 8 == 0 ? (*seed >> 20) % 50 : 0; i > 0; i--)
        sched_yield();
}

struct calls {
    enum what what, then; /* then: for every second call, if it differs */
    enum memory memory;
    int calls;
    size_t count;   /* elements of a block, or of the vector */
    size_t longest; /* count of every third call; 0: all calls have the same */
    int refused_at; /* from this call on, rank 1 must not read others' memory; 0: never */
    bool is_set;    /* a setting tells rank 1 to pull */
    bool *cannot;   /* set if reading cannot be refused */
};

struct buffers {
    int32_t *send, *recv;
};

static enum what what_of(const struct calls *calls, int call)
{
    return call % 2 == 1 && calls->then != ALLTOALL ? calls->then : calls->what;
}

static size_t count_of(const struct calls *calls, int call)
{
    return calls->longest != 0 && call % 3 == 2 ? calls->longest : calls->count;
}

static int root_of(int call)
{
    return call % RANKS;
}

static int32_t value(int call, int from, int to)
{
    return call * 10000 + from * 100 + to;
}

/** Blocks of a scatterv are one block apart, the last one first. */
static size_t gap_at(int to, size_t count)
{
    return (size_t)(RANKS - 1 - to) * 2 * count;
}

static bool has_blocks(enum what what)
{
    return what == ALLTOALL || what == SCATTERS || what == GAPS;
}

static void fill(const struct calls *calls, int call, int rank, int32_t *send)
{
    const enum what what = what_of(calls, call);
    const size_t count = count_of(calls, call);
    for (int to = 0; to < (has_blocks(what) ? RANKS : 1); to++)
        for (size_t i = 0; i < count; i++)
            send[(what == GAPS ? gap_at(to, count) : (size_t)to * count) + i] =
                value(call, rank, to);
}

static kolo_status check_block(int call, const int32_t *recv, size_t count, int32_t expected)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(recv[i] == expected, "call %d, element %zu: %d, not %d", call, i, (int)recv[i],
                     (int)expected);
    return KOLO_OK;
}

static kolo_status check(const struct calls *calls, int call, int rank, const int32_t *recv)
{
    const enum what what = what_of(calls, call);
    const size_t count = count_of(calls, call);
    const int root = root_of(call);
    int32_t sum = 0;
    for (int from = 0; from < RANKS; from++)
        sum += value(call, from, 0);
    if (what == SUMS)
        return check_block(call, recv, count, sum);
    if (what == BROADCASTS)
        return check_block(call, recv, count, value(call, root, 0));
    if (what == SCATTERS || what == GAPS)
        return check_block(call, recv, count, value(call, root, rank));
    for (int from = 0; from < (what == GATHERS && rank != root ? 0 : RANKS); from++)
        WORLD_TRY(check_block(call, recv + (size_t)from * count, count,
                              value(call, from, what == GATHERS ? 0 : rank)));
    return KOLO_OK;
}

static kolo_status call_gaps(struct kolo_comm *comm, int root, const struct buffers *at, size_t n)
{
    size_t counts[RANKS], displs[RANKS];
    for (int to = 0; to < RANKS; to++)
        counts[to] = n, displs[to] = gap_at(to, n);
    return kolo_scatterv(comm, at->send, counts, displs, at->recv, KOLO_INT32, root, NULL, NULL);
}

static kolo_status call_now(struct kolo_comm *comm, const struct calls *calls, int call,
                            const struct buffers *at)
{
    const size_t n = count_of(calls, call);
    const int root = root_of(call);
    switch (what_of(calls, call)) {
    case SUMS:
        return kolo_allreduce(comm, at->send, at->recv, n, KOLO_INT32, KOLO_SUM, NULL, NULL);
    case GATHERS:
        return kolo_gather(comm, at->send, at->recv, n, KOLO_INT32, root, NULL, NULL);
    case BROADCASTS:
        return kolo_broadcast(comm, kolo_rank(comm) == root ? at->send : at->recv, n, KOLO_INT32,
                              root, NULL, NULL);
    case SCATTERS:
        return kolo_scatter(comm, at->send, at->recv, n, KOLO_INT32, root, NULL, NULL);
    case GAPS:
        return call_gaps(comm, root, at, n);
    case ALLTOALL:
        break;
    }
    return kolo_alltoall(comm, at->send, at->recv, n, KOLO_INT32, NULL, NULL);
}

/** Where the result of a broadcast is. */
static const int32_t *result_of(const struct calls *calls, int call, int rank,
                                const struct buffers *at)
{
    return what_of(calls, call) == BROADCASTS && rank == root_of(call) ? at->send : at->recv;
}

/** Long calls, of which every 13th is checked, with short ones in between. */
static kolo_status call_again_and_again(struct kolo_comm *comm, const struct calls *calls,
                                        const struct buffers *at)
{
    const int rank = kolo_rank(comm);
    unsigned seed = (unsigned)rank + 1;
    int32_t one = 1, sum;
    for (int call = 0; call < calls->calls; call++) {
        const bool is_checked = call % 13 == 0 || calls->calls <= 32;
        if (calls->refused_at != 0 && call == calls->refused_at && rank == 1)
            *calls->cannot = !refuse_reading();
        if (is_checked)
            fill(calls, call, rank, at->send);
        be_late(&seed);
        WORLD_TRY(call_now(comm, calls, call, at));
        ways[rank][call] = way_of(comm, calls->memory);
        if (is_checked)
            WORLD_TRY(check(calls, call, rank, result_of(calls, call, rank, at)));
        if (call % 5 == 0)
            WORLD_TRY(kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    }
    WORLD_EXPECT(calls->refused_at == 0 || *calls->cannot || comm->hub->pull_bytes == SIZE_MAX,
                 "they would try to read again");
    return KOLO_OK;
}

/** Records in this rank's notes that a setting wants blocks of 64 KiB and more to be pulled. */
static kolo_status set_pulls(struct kolo_comm *comm)
{
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* opens the board */
    atomic_store(&comm->hub->members[comm->hub->self].notes->pulls.value, (uint64_t)64 << 10);
    return KOLO_OK;
}

static kolo_status run_calls(struct kolo_comm *comm, void *argument)
{
    const struct calls *calls = argument;
    const size_t most = calls->longest > calls->count ? calls->longest : calls->count;
    const size_t bytes = (size_t)2 * RANKS * most * sizeof(int32_t);
    const bool is_kolos =
        calls->memory == OF_KOLO || (calls->memory == MIXED && kolo_rank(comm) == 1);
    void *send, *recv;
    if (calls->is_set && kolo_rank(comm) == 1)
        WORLD_TRY(set_pulls(comm));
    else if (calls->is_set)
        WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (is_kolos) {
        WORLD_TRY(kolo_alloc(comm, bytes, &send));
        WORLD_TRY(kolo_alloc(comm, bytes, &recv));
        return call_again_and_again(comm, calls, &(struct buffers){send, recv});
    }
    send = malloc(bytes), recv = malloc(bytes);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (send && recv)
        status = call_again_and_again(comm, calls, &(struct buffers){send, recv});
    free(send), free(recv);
    return status;
}

/** Runs @p calls; counts_out gets the number of calls that took each way. */
static void run(const struct calls *calls, int counts_out[WAYS])
{
    struct world world = {
        .size = RANKS, .transport = "shm", .settings = {"KOLO_TIMEOUT=60", "KOLO_PLAN=twoshot"}};
    WORLD_MUST_RUN(&world, run_calls, (void *)(uintptr_t)calls);
    for (int way = 0; way < WAYS; way++)
        counts_out[way] = 0;
    for (int call = 0; call < calls->calls; call++) {
        for (int rank = 1; rank < RANKS; rank++)
            cr_assert_eq(ways[rank][call], ways[0][call], "call %d on rank %d: %d, not %d", call,
                         rank, ways[rank][call], ways[0][call]);
        counts_out[ways[0][call]]++;
    }
}

static kolo_status find_out(struct kolo_comm *comm, void *argument)
{
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        *(bool *)argument = kolo_board_may_pull(comm->hub->board, 1) == KOLO_OK;
    return KOLO_OK;
}

static bool may_pull(void)
{
    bool may = false;
    struct world world = {.size = 2, .transport = "shm"};
    WORLD_MUST_RUN(&world, find_out, &may);
    return may;
}

/** Asserts that calls went through the stages with both kinds of stores, and were pulled if they
 * may be. */
static void expect_tried(const struct calls *calls, bool may)
{
    int counts[WAYS];
    run(calls, counts);
    cr_assert(counts[0] >= 2 && counts[CELLS_STREAMED] >= 2, "staged: %d, %d", counts[0],
              counts[CELLS_STREAMED]);
    cr_assert((counts[PULLED] >= 2) == may, "pulled: %d", counts[PULLED]);
    cr_assert_eq(counts[0] + counts[CELLS_STREAMED] + counts[PULLED], calls->calls);
}

Test(board_ways, memory_that_others_do_not_see_is_staged_and_pulled, .timeout = 120)
{
    const struct calls calls = {.calls = CALLS, .count = 20000};
    expect_tried(&calls, may_pull());
}

/** One rank's memory is from kolo_alloc: the others need not pull it. */
Test(board_ways, memory_of_which_some_is_seen, .timeout = 120)
{
    const struct calls calls = {.memory = MIXED, .calls = CALLS, .count = 20000};
    expect_tried(&calls, may_pull());
}

/** Lengths of several classes: one class stands for another at first, until each has its own
 * trials. */
Test(board_ways, lengths_in_turn, .timeout = 120)
{
    const struct calls calls = {.calls = CALLS, .count = 12000, .longest = 50000};
    expect_tried(&calls, may_pull());
}

/** Shorter memory may be shown instead, which is chosen before a call; one's turn in which some
 * memory is seen counts for nothing. */
Test(board_ways, what_is_short_is_shown_staged_and_pulled, .timeout = 120)
{
    static const struct calls cases[] = {
        {.calls = CALLS, .count = 2500},
        {.what = SCATTERS, .calls = CALLS, .count = 5000},
        {.what = SCATTERS, .then = GAPS, .calls = CALLS, .count = 5000},
        {.calls = CALLS, .count = 2500, .longest = 6000},
        {.calls = CALLS, .count = 2500, .longest = 20000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int counts[WAYS];
        run(&cases[i], counts);
        if (!may_pull()) {
            cr_assert_eq(counts[PULLED], 0);
            continue;
        }
        cr_assert(counts[SHOWN] >= 2 && counts[PULLED] >= 2 && counts[0] >= 2,
                  "case %zu: shown %d, pulled %d, staged %d", i, counts[SHOWN], counts[PULLED],
                  counts[0]);
    }
}

Test(board_ways, what_is_short_and_of_which_some_is_seen, .timeout = 120)
{
    const struct calls calls = {.memory = MIXED, .calls = CALLS, .count = 2500};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert_eq(counts[PULLED] + counts[0] + counts[CELLS_STREAMED], calls.calls);
}

Test(board_ways, sums_are_not_pulled, .timeout = 120)
{
    const struct calls calls = {.what = SUMS, .calls = CALLS, .count = 60000};
    expect_tried(&calls, false);
}

Test(board_ways, broadcasts_and_gathers_are_not_pulled, .timeout = 120)
{
    const struct calls calls = {
        .what = BROADCASTS, .then = GATHERS, .calls = CALLS, .count = 60000};
    expect_tried(&calls, false);
}

/** A scatter and a scatterv are the same collective here, of the same length: the root's gaps do
 * not count. */
Test(board_ways, scatters_with_and_without_gaps, .timeout = 120)
{
    struct calls calls = {.what = SCATTERS, .then = GAPS, .calls = CALLS, .count = 60000};
    expect_tried(&calls, may_pull());
    calls.memory = OF_KOLO;
    int counts[WAYS];
    run(&calls, counts);
    cr_assert_eq(counts[0], calls.calls, "nothing is to be found out");
}

/** One rank is refused reading while the trials run: from then on no rank pulls. */
Test(board_ways, one_that_must_not_read_any_more, .timeout = 120)
{
    bool cannot = false;
    if (!may_pull())
        cr_skip("this system lets no process read another");
    for (int at = 1; at < 76; at += 5) { /* there is one more round of trials after it */
        const struct calls calls = {
            .calls = 200, .count = 20000, .refused_at = at, .cannot = &cannot};
        int counts[WAYS], pulled = 0;
        run(&calls, counts);
        if (cannot)
            cr_skip("no seccomp filter can be set here");
        for (int call = at; call < calls.calls; call++)
            pulled += ways[0][call] == PULLED;
        cr_assert_eq(pulled, 0, "refused at call %d, pulled after it: %d", at, pulled);
    }
}

/** All ranks do what one rank's setting says, and nothing is tried. */
Test(board_ways, one_is_told_by_a_setting, .timeout = 120)
{
    const struct calls calls = {.calls = 60, .count = 20000, .is_set = true};
    const struct calls shorter = {.calls = 60, .count = 15000, .is_set = true};
    int counts[WAYS];
    if (!may_pull())
        cr_skip("this system lets no process read another");
    run(&calls, counts);
    cr_assert_eq(counts[PULLED], calls.calls, "of 80000 bytes each: %d", counts[PULLED]);
    run(&shorter, counts);
    cr_assert_eq(counts[PULLED], 0, "of 60000 bytes each: %d", counts[PULLED]);
}

Test(board_ways, memory_that_all_see_is_stored_both_ways, .timeout = 120)
{
    const struct calls calls = {.what = SUMS, .memory = OF_KOLO, .calls = 40, .count = 1 << 20};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert(counts[0] >= 2 && counts[STREAMED] >= 2, "%d, %d", counts[0], counts[STREAMED]);
    cr_assert_eq(counts[0] + counts[STREAMED], calls.calls);
}

/** The buffer of a gather's root is longer than the average over ranks. */
Test(board_ways, long_results_of_a_root_are_stored_both_ways, .timeout = 120)
{
    const struct calls calls = {.what = GATHERS, .calls = 80, .count = 800000};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert(counts[STREAMED] >= 2 && counts[0] >= 2, "%d, %d", counts[STREAMED], counts[0]);
}

Test(board_ways, what_is_longer_than_all_caches_goes_round_them, .timeout = 120)
{
    const struct calls calls = {.what = SUMS, .memory = OF_KOLO, .calls = 4, .count = 8 << 20};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert_eq(counts[STREAMED], calls.calls);
}
