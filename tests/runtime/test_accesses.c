// SPDX-License-Identifier: Apache-2.0
// runtime/accesses.c: random calls of every kind, whose blocks may have gaps, against a map of who
// reads and who writes each byte. Also tested: accesses within gaps, and which two calls are named.
#include <criterion/criterion.h>

#include <kolo/kolo.h>

#include <stdlib.h>

#include "runtime/accesses.h"

enum { PLACES = 96, CALLS = 6, RANKS = 3 };

static uint8_t memory[PLACES];

static uint32_t below(unsigned *seed, uint32_t limit)
{
    return (uint32_t)rand_r(seed) % limit;
}

/** For each byte, the calls that read it and those that write it, one bit per call. */
struct map {
    uint32_t reads[PLACES], writes[PLACES];
};

static void mark(uint32_t *map, const void *from, size_t bytes, uint32_t call)
{
    for (size_t i = 0; i < bytes; i++)
        map[(const uint8_t *)from - memory + i] |= 1U << call;
}

/** Whether any two calls conflict according to the map, and whether these two do. */
static bool meet(const struct map *map, uint32_t first, uint32_t second)
{
    for (size_t i = 0; i < PLACES; i++) {
        const uint32_t any = map->reads[i] | map->writes[i];
        if (any >> first & any >> second & (map->writes[i] >> first | map->writes[i] >> second) & 1)
            return true;
    }
    return false;
}

static bool any_meet(const struct map *map, uint32_t calls)
{
    for (uint32_t i = 1; i <= calls; i++)
        for (uint32_t j = 1; j < i; j++)
            if (meet(map, j, i))
                return true;
    return false;
}

/** Draws blocks in ascending order with gaps of up to 2 bytes. Returns their extent. */
static size_t random_blocks(unsigned *seed, size_t *counts, size_t *displs)
{
    size_t at = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        counts[rank] = below(seed, 4);
        displs[rank] = at + below(seed, 3);
        at = displs[rank] + counts[rank];
    }
    return at;
}

static void *place(unsigned *seed, size_t bytes)
{
    return memory + below(seed, (uint32_t)(PLACES - bytes));
}

/** A call that reads and writes blocks, as kolo_alltoallv does. */
static void add_exchange(unsigned *seed, struct kolo_accesses *accesses, struct map *map)
{
    size_t counts[RANKS], displs[RANKS], send_counts[RANKS], send_displs[RANKS];
    struct kolo_task task = {.kind = KOLO_CALL_ALLTOALLV,
                             .function = "kolo_alltoallv",
                             .dtype = KOLO_UINT8,
                             .counts = counts,
                             .displs = displs,
                             .send_counts = send_counts,
                             .send_displs = send_displs};
    task.recv_bytes = random_blocks(seed, counts, displs);
    task.send_bytes = random_blocks(seed, send_counts, send_displs);
    uint8_t *recv = task.recv = place(seed, task.recv_bytes);
    const uint8_t *send = task.send = place(seed, task.send_bytes);
    cr_assert_eq(kolo_accesses_add(accesses, &task, RANKS), KOLO_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        mark(map->writes, recv + displs[rank], counts[rank], accesses->calls);
        mark(map->reads, send + send_displs[rank], send_counts[rank], accesses->calls);
    }
}

/** The root of a scatterv reads blocks, and all ranks of an allgatherv write blocks; the other
 * buffer of such a call has no gaps. */
static void add_one_sided(unsigned *seed, struct kolo_accesses *accesses, struct map *map,
                          bool scatters)
{
    size_t counts[RANKS], displs[RANKS];
    struct kolo_task task = {.kind = scatters ? KOLO_CALL_SCATTERV : KOLO_CALL_ALLGATHERV,
                             .function = scatters ? "kolo_scatterv" : "kolo_allgatherv",
                             .dtype = KOLO_UINT8,
                             .counts = counts,
                             .displs = displs};
    const size_t extent = random_blocks(seed, counts, displs);
    uint8_t *blocks = place(seed, extent), *block = place(seed, counts[0]);
    task.send = scatters ? blocks : block;
    task.recv = scatters ? block : blocks;
    task.send_bytes = scatters ? extent : counts[0];
    task.recv_bytes = scatters ? counts[0] : extent;
    cr_assert_eq(kolo_accesses_add(accesses, &task, RANKS), KOLO_OK);
    for (int rank = 0; rank < RANKS; rank++)
        mark(scatters ? map->reads : map->writes, blocks + displs[rank], counts[rank],
             accesses->calls);
    mark(scatters ? map->writes : map->reads, block, counts[0], accesses->calls);
}

static void add_whole(unsigned *seed, struct kolo_accesses *accesses, struct map *map)
{
    const size_t bytes = below(seed, 12);
    struct kolo_task task = {.kind = KOLO_CALL_ALLREDUCE,
                             .function = "kolo_allreduce",
                             .dtype = KOLO_UINT8,
                             .send = place(seed, bytes),
                             .send_bytes = bytes,
                             .recv_bytes = bytes};
    task.recv = below(seed, 2) == 0 ? (void *)(uintptr_t)task.send : place(seed, bytes);
    cr_assert_eq(kolo_accesses_add(accesses, &task, RANKS), KOLO_OK);
    mark(map->reads, task.send, bytes, accesses->calls);
    mark(map->writes, task.recv, bytes, accesses->calls);
}

/** Of a reduce_scatter in place, the rest of the input is unspecified afterwards. */
static void add_shares(unsigned *seed, struct kolo_accesses *accesses, struct map *map)
{
    const size_t block = below(seed, 5), rank = below(seed, RANKS);
    uint8_t *whole = place(seed, RANKS * block);
    const bool in_place = below(seed, 2) == 0;
    struct kolo_task task = {.kind = KOLO_CALL_REDUCE_SCATTER,
                             .function = "kolo_reduce_scatter",
                             .dtype = KOLO_UINT8,
                             .send = whole,
                             .recv = in_place ? whole + rank * block : place(seed, block),
                             .send_bytes = RANKS * block,
                             .recv_bytes = block,
                             .in_place = in_place};
    cr_assert_eq(kolo_accesses_add(accesses, &task, RANKS), KOLO_OK);
    mark(in_place ? map->writes : map->reads, whole, RANKS * block, accesses->calls);
    mark(map->writes, task.recv, block, accesses->calls);
}

static void add_any(unsigned *seed, struct kolo_accesses *accesses, struct map *map)
{
    switch (below(seed, 5)) {
    case 0:
        add_exchange(seed, accesses, map);
        break;
    case 1:
        add_one_sided(seed, accesses, map, true);
        break;
    case 2:
        add_one_sided(seed, accesses, map, false);
        break;
    case 3:
        add_shares(seed, accesses, map);
        break;
    default:
        add_whole(seed, accesses, map);
    }
}

Test(accesses, as_the_map_of_every_byte_has_it)
{
    enum { ROUNDS = 40000 };
    unsigned seed = 7;
    int clashes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct kolo_accesses accesses = {0};
        struct kolo_access first = {0}, second = {0};
        struct map map = {{0}, {0}};
        const uint32_t calls = 1 + below(&seed, CALLS);
        for (uint32_t i = 0; i < calls; i++)
            add_any(&seed, &accesses, &map);
        const bool found = kolo_accesses_clash(&accesses, &first, &second);
        cr_assert_eq(found, any_meet(&map, calls), "round %d", round);
        if (found)
            cr_assert(first.call < second.call && meet(&map, first.call, second.call),
                      "round %d: calls %u and %u", round, first.call, second.call);
        clashes += found;
        kolo_accesses_free(&accesses);
    }
    cr_assert(clashes > ROUNDS / 10 && clashes < ROUNDS * 9 / 10, "%d clashes", clashes);
}
