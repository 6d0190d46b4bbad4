// SPDX-License-Identifier: Apache-2.0
// Ways that are found out by trying: whatever each rank would measure by itself, all take the same
// one in each call, each that is open is tried, and every result is right.
#include <criterion/criterion.h>

#include <sched.h>
#include <stdlib.h>

#include "runtime/board_hub.h"
#include "tests/support/world.h"

enum { RANKS = 3, CALLS = 400, PULLED = 1, STREAMED = 2, CELLS_STREAMED = 4, WAYS = 8 };

/** By which way each call went. */
static int ways[RANKS][CALLS];

static int way_of(const struct kolo_comm *comm)
{
    const struct kolo_hub *hub = comm->hub;
    return (hub->is_pulled ? PULLED : 0) | (hub->how == KOLO_STORE_STREAM ? STREAMED : 0) |
           (hub->cell_how == KOLO_STORE_STREAM ? CELLS_STREAMED : 0);
}

/** Ranks are late, each in calls of its own: so what one would measure by itself differs. */
static void be_late(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    for (unsigned i = (*seed >> 16) % 8 == 0 ? (*seed >> 20) % 50 : 0; i > 0; i--)
        sched_yield();
}

struct calls {
    bool sums, in_heap; /* an allreduce, else an alltoall; of kolo_alloc memory */
    int calls;
    size_t count; /* elements of a block, or of the vector */
};

static int32_t value(int call, int from, int to)
{
    return call * 10000 + from * 100 + to;
}

static void fill(const struct calls *calls, int call, int rank, int32_t *send)
{
    for (int to = 0; to < (calls->sums ? 1 : RANKS); to++)
        for (size_t i = 0; i < calls->count; i++)
            send[(size_t)to * calls->count + i] = value(call, rank, to);
}

static kolo_status check(const struct calls *calls, int call, int rank, const int32_t *recv)
{
    int32_t sum = 0;
    for (int from = 0; from < RANKS; from++)
        sum += value(call, from, 0);
    for (int from = 0; from < (calls->sums ? 1 : RANKS); from++) {
        const int32_t expected = calls->sums ? sum : value(call, from, rank);
        for (size_t i = 0; i < calls->count; i++)
            WORLD_EXPECT(recv[(size_t)from * calls->count + i] == expected,
                         "call %d, element %zu from %d: %d", call, i, from,
                         (int)recv[(size_t)from * calls->count + i]);
    }
    return KOLO_OK;
}

static kolo_status call_once(struct kolo_comm *comm, const struct calls *calls, int32_t *send,
                             int32_t *recv)
{
    return calls->sums
               ? kolo_allreduce(comm, send, recv, calls->count, KOLO_INT32, KOLO_SUM, NULL, NULL)
               : kolo_alltoall(comm, send, recv, calls->count, KOLO_INT32, NULL, NULL);
}

/** Long calls, every 16th checked, and short ones between them. */
static kolo_status call_again_and_again(struct kolo_comm *comm, const struct calls *calls,
                                        int32_t *send, int32_t *recv)
{
    const int rank = kolo_rank(comm);
    unsigned seed = (unsigned)rank + 1;
    int32_t one = 1, sum;
    for (int call = 0; call < calls->calls; call++) {
        const bool is_checked = call % 16 == 0 || calls->calls <= 32;
        if (is_checked)
            fill(calls, call, rank, send);
        be_late(&seed);
        WORLD_TRY(call_once(comm, calls, send, recv));
        ways[rank][call] = way_of(comm);
        if (is_checked)
            WORLD_TRY(check(calls, call, rank, recv));
        if (call % 5 == 0)
            WORLD_TRY(kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    }
    return KOLO_OK;
}

static kolo_status run_calls(struct kolo_comm *comm, void *argument)
{
    const struct calls *calls = argument;
    const size_t bytes = (size_t)RANKS * calls->count * sizeof(int32_t);
    void *send = NULL, *recv = NULL;
    kolo_status status;
    if (calls->in_heap) {
        WORLD_TRY(kolo_alloc(comm, bytes, &send));
        WORLD_TRY(kolo_alloc(comm, bytes, &recv));
        return call_again_and_again(comm, calls, send, recv);
    }
    send = malloc(bytes), recv = malloc(bytes);
    status = send != NULL && recv != NULL ? call_again_and_again(comm, calls, send, recv)
                                          : KOLO_ERR_NO_MEMORY;
    free(send), free(recv);
    return status;
}

/** Runs @p calls; how many went by each way comes in counts_out. */
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

Test(board_ways, memory_that_others_do_not_see_is_staged_and_pulled, .timeout = 120)
{
    const struct calls calls = {.calls = CALLS, .count = 20000};
    const bool may = may_pull();
    int counts[WAYS];
    run(&calls, counts);
    cr_assert(counts[0] >= 2 && counts[CELLS_STREAMED] >= 2, "staged: %d, %d", counts[0],
              counts[CELLS_STREAMED]);
    cr_assert((counts[PULLED] >= 2) == may, "pulled: %d", counts[PULLED]);
    cr_assert_eq(counts[0] + counts[CELLS_STREAMED] + counts[PULLED], CALLS);
}

Test(board_ways, sums_are_not_pulled, .timeout = 120)
{
    const struct calls calls = {.sums = true, .calls = CALLS, .count = 60000};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert(counts[0] >= 2 && counts[CELLS_STREAMED] >= 2, "%d, %d", counts[0],
              counts[CELLS_STREAMED]);
    cr_assert_eq(counts[0] + counts[CELLS_STREAMED], CALLS);
}

Test(board_ways, memory_that_all_see_is_stored_both_ways, .timeout = 120)
{
    const struct calls calls = {.sums = true, .in_heap = true, .calls = 20, .count = 1 << 20};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert(counts[0] >= 2 && counts[STREAMED] >= 2, "%d, %d", counts[0], counts[STREAMED]);
    cr_assert_eq(counts[0] + counts[STREAMED], calls.calls);
}

Test(board_ways, what_is_longer_than_all_caches_goes_round_them, .timeout = 120)
{
    const struct calls calls = {.sums = true, .in_heap = true, .calls = 4, .count = 8 << 20};
    int counts[WAYS];
    run(&calls, counts);
    cr_assert_eq(counts[STREAMED], calls.calls);
}
