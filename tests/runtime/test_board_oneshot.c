// SPDX-License-Identifier: Apache-2.0
// Oneshots with long contributions: both kinds of stores are tried, by all ranks at the same time,
// and the results are right with either, also when calls of a kind that is tried alternate with
// calls of a kind that is not. (test_route_board.c and test_collectives.c cover all oneshots, short
// and long.)
#include <criterion/criterion.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "runtime/board_hub.h"
#include "tests/support/refuse.h"
#include "tests/support/world.h"

enum { RANKS = 3, CALLS = 200, HALF = KOLO_TRIALS_TIMES_EVEN, COUNT = 4099, LENGTH = 1 };

/** The trials of the calls below after each of them, and which stores each call used. */
static struct kolo_trials trials[RANKS][CALLS];
static enum kolo_store_how how[RANKS][CALLS];

static void look(const struct kolo_comm *comm, int call)
{
    trials[comm->rank][call] = comm->hub->shows.trials[0][LENGTH];
    how[comm->rank][call] = comm->hub->shows.how;
}

static int32_t value(int call, int rank, int i)
{
    return call * 1000 + rank * 100 + i % 97;
}

static kolo_status sum_once(struct kolo_comm *comm, int call)
{
    static _Thread_local int32_t send[COUNT], recv[COUNT];
    const int rank = kolo_rank(comm);
    for (int i = 0; i < COUNT; i++)
        send[i] = value(call, rank, i);
    WORLD_TRY(kolo_allreduce(comm, send, recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        WORLD_EXPECT(recv[i] == value(call, 0, i) + value(call, 1, i) + value(call, 2, i),
                     "call %d, element %d: %d", call, i, (int)recv[i]);
    look(comm, call);
    return KOLO_OK;
}

/** A broadcast is not tried: it uses the stores that were found best last. */
static kolo_status broadcast_once(struct kolo_comm *comm, int call)
{
    static _Thread_local int32_t data[COUNT];
    const enum kolo_store_how found = comm->hub->shows.found;
    const int root = call % RANKS;
    for (int i = 0; i < COUNT; i++)
        data[i] = kolo_rank(comm) == root ? value(call, root, i) : -1;
    WORLD_TRY(kolo_broadcast(comm, data, COUNT, KOLO_INT32, root, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        WORLD_EXPECT(data[i] == value(call, root, i), "broadcast %d, element %d: %d", call, i,
                     (int)data[i]);
    WORLD_EXPECT(comm->hub->shows.measured == NULL, "broadcast %d is measured", call);
    WORLD_EXPECT(kolo_rank(comm) != root || comm->hub->shows.how == found, "broadcast %d", call);
    return KOLO_OK;
}

static kolo_status sum_and_broadcast(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int call = 0; call < CALLS; call++) {
        WORLD_TRY(sum_once(comm, call));
        WORLD_TRY(broadcast_once(comm, call));
    }
    return KOLO_OK;
}

/** After each call all ranks have taken each way equally often, and have counted as many uses. */
static void expect_step(void)
{
    for (int rank = 1; rank < RANKS; rank++)
        for (int call = 0; call < CALLS; call++) {
            const struct kolo_trials *is = &trials[rank][call], *first = &trials[0][call];
            cr_assert(memcmp(is->taken, first->taken, sizeof is->taken) == 0 &&
                          memcmp(is->told, first->told, sizeof is->told) == 0 &&
                          is->left == first->left,
                      "rank %d is out of step at call %d", rank, call);
        }
}

Test(board_oneshot, long_contributions_go_up_by_both_kinds_of_stores, .timeout = 60)
{
    struct world world = {
        .size = RANKS, .transport = "shm", .settings = {"KOLO_TIMEOUT=60", "KOLO_PLAN=oneshot"}};
    WORLD_MUST_RUN(&world, sum_and_broadcast, NULL);
    for (int rank = 0; rank < RANKS; rank++)
        for (int call = 0; call < 2 * HALF; call++) {
            const struct kolo_trials *is = &trials[rank][call];
            const int first = call < HALF ? call + 1 : HALF, second = call + 1 - first;
            cr_assert(is->taken[0] == first && is->taken[1] == second, "call %d on rank %d", call,
                      rank);
            cr_assert(is->told[0] == first && is->told[1] == second, "call %d on rank %d", call,
                      rank);
            cr_assert_eq(how[rank][call], call < HALF ? KOLO_STORE_CACHED : KOLO_STORE_STREAM);
        }
    expect_step();
}

/** The last rank gets nothing, so it has nothing to announce or store, and ends with the others. */
static kolo_status scatter_to_some(struct kolo_comm *comm, int call)
{
    static _Thread_local int32_t send[2 * 64], recv[64];
    const size_t counts[RANKS] = {64, 64, 0};
    for (int i = 0; i < 2 * 64; i++)
        send[i] = value(call, 0, i);
    WORLD_TRY(kolo_scatterv(comm, send, counts, NULL, recv, KOLO_INT32, 0, NULL, NULL));
    for (int i = 0; i < 64 && kolo_rank(comm) < 2; i++)
        WORLD_EXPECT(recv[i] == value(call, 0, 64 * kolo_rank(comm) + i), "scatterv %d", call);
    return KOLO_OK;
}

/** The other ranks see all memory of one rank: the trials are not told of such a call, and all
 * ranks take the same step. */
static kolo_status some_are_seen(struct kolo_comm *comm, void *argument)
{
    static _Thread_local int32_t plain[2 * COUNT];
    void *seen;
    WORLD_TRY(kolo_alloc(comm, sizeof plain, &seen));
    for (int call = 0; call < CALLS; call++) {
        const bool is_mixed = call % 7 < 3 || call < 40;
        int32_t *send = is_mixed && kolo_rank(comm) == 0 ? seen : plain, *recv = send + COUNT;
        for (int i = 0; i < COUNT; i++)
            send[i] = value(call, kolo_rank(comm), i);
        WORLD_TRY(kolo_allreduce(comm, send, recv, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
        for (int i = 0; i < COUNT; i++)
            WORLD_EXPECT(recv[i] == value(call, 0, i) + value(call, 1, i) + value(call, 2, i),
                         "call %d, element %d: %d", call, i, (int)recv[i]);
        look(comm, call);
        WORLD_TRY(scatter_to_some(comm, call));
    }
    kolo_comm_enter(comm);
    if (kolo_rank(comm) == 0)
        *(bool *)argument =
            kolo_comm_shown(comm, KOLO_COLLECTIVE_ALLREDUCE) >= COUNT * sizeof(int32_t);
    kolo_comm_leave(comm);
    return KOLO_OK;
}

Test(board_oneshot, all_keep_step_where_some_memory_is_seen, .timeout = 60)
{
    struct world world = {
        .size = RANKS, .transport = "shm", .settings = {"KOLO_TIMEOUT=60", "KOLO_PLAN=twoshot"}};
    bool is_shown = false; /* contributions of this length are shown if there are few cores */
    WORLD_MUST_RUN(&world, some_are_seen, &is_shown);
    cr_assert_eq(trials[0][39].told[0] + trials[0][39].taken[0] + trials[0][39].taken[1], 0);
    cr_assert_eq(trials[0][CALLS - 1].pause + trials[0][CALLS - 1].told[0] > 0, is_shown);
    expect_step();
}

/* ---- memory of the stage ---- */

/** Rank 1 has no memory for contributions, which the first long one needs: calls that do without go
 * on, and that one fails on all ranks, with its name. */
static kolo_status without_room(struct kolo_comm *comm, void *argument)
{
    int32_t data[64] = {0};
    _Atomic bool *cannot = argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1)
        *cannot = !refuse_call(SYS_fallocate, -1, 0, ENOSPC);
    WORLD_TRY(kolo_allreduce(comm, data, data, 8, KOLO_INT32, KOLO_SUM, NULL, NULL));
    if (*cannot)
        return KOLO_OK;
    const kolo_status status =
        kolo_allreduce(comm, data, data, 64, KOLO_INT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_NO_MEMORY && strstr(kolo_error_detail(), "rank 1 (") &&
                     strstr(kolo_error_detail(), "bytes of shared memory"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(board_oneshot, lacks_memory_only_when_it_needs_it, .timeout = 60)
{
    _Atomic bool cannot = false;
    struct world world = {.size = RANKS, .transport = "shm"};
    WORLD_MUST_RUN(&world, without_room, &cannot);
    if (cannot)
        cr_skip("no system call can be refused here");
}
