// SPDX-License-Identifier: Apache-2.0
// Long contributions to oneshots: both kinds of stores are tried, by all ranks at a time, and what
// comes out is right by either; also where kinds of call of which one is not tried go in turn.
// (test_route_board.c and test_collectives.c have all oneshots, short and long.)
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/board_hub.h"
#include "tests/support/world.h"

enum { RANKS = 3, CALLS = 200, ROUND = 2 * KOLO_TRIALS_TIMES_MOST, COUNT = 4099 };

/** By which stores each tried call went, and whether it was measured. */
static int how[RANKS][CALLS];
static bool is_measured[RANKS][CALLS];

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
    how[rank][call] = comm->hub->shows.way;
    is_measured[rank][call] = comm->hub->shows.is_measured;
    return KOLO_OK;
}

/** A broadcast is not tried: it goes by what was found, and leaves the trials as they are. */
static kolo_status broadcast_once(struct kolo_comm *comm, int call)
{
    static _Thread_local int32_t data[COUNT];
    const struct kolo_trials before = comm->hub->shows.trials;
    const int root = call % RANKS;
    for (int i = 0; i < COUNT; i++)
        data[i] = kolo_rank(comm) == root ? value(call, root, i) : -1;
    WORLD_TRY(kolo_broadcast(comm, data, COUNT, KOLO_INT32, root, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        WORLD_EXPECT(data[i] == value(call, root, i), "broadcast %d, element %d: %d", call, i,
                     (int)data[i]);
    WORLD_EXPECT(memcmp(&before, &comm->hub->shows.trials, sizeof(before)) == 0, "it was tried");
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

Test(board_oneshot, long_contributions_go_up_by_both_kinds_of_stores, .timeout = 60)
{
    struct world world = {
        .size = RANKS, .transport = "shm", .settings = {"KOLO_TIMEOUT=60", "KOLO_PLAN=oneshot"}};
    WORLD_MUST_RUN(&world, sum_and_broadcast, NULL);
    for (int rank = 0; rank < RANKS; rank++)
        for (int call = 0; call < ROUND; call++) {
            const int expected = call < ROUND / 2 ? KOLO_STORE_CACHED : KOLO_STORE_STREAM;
            cr_assert(is_measured[rank][call] && how[rank][call] == expected,
                      "call %d on rank %d: %d, measured %d", call, rank, how[rank][call],
                      is_measured[rank][call]);
        }
    for (int rank = 0; rank < RANKS; rank++)
        for (int call = ROUND; call < CALLS; call++)
            cr_assert(is_measured[rank][call] == is_measured[0][call] &&
                          (!is_measured[rank][call] || how[rank][call] == how[0][call]),
                      "call %d on rank %d is out of step", call, rank);
}
