// SPDX-License-Identifier: Apache-2.0
// Predicted times of one rank's steps against values counted by hand.
#include <criterion/criterion.h>

#include <math.h>

#include "runtime/cost_walk.h"
#include "tests/support/cost_of.h"
Test(cost_walk, of_what_can_be_counted_by_hand)
{
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.latency = 1000, .message = 10};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "doubling", 2, 8, &two, &figures);
    cr_assert(fabs(ns - 1020) < 1e-6, "one round, a message each way: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "direct", 2, 8, &two, &figures);
    cr_assert(fabs(ns - 2040) < 1e-6, "two rounds: %g", ns);
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.byte = 1};
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8000, &two, &figures);
    cr_assert(fabs(ns - 16000) < 1e-6, "half out, half in, twice: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "flat", 2, 8000, &two, &figures);
    cr_assert(fabs(ns - 16000) < 1e-6, "all out, all in: %g", ns);
    figures = (struct kolo_figures){.combine_byte = 1};
    ns = cost_of(KOLO_COLLECTIVE_REDUCE_SCATTER, "direct", 2, 8000, &two, &figures);
    cr_assert(fabs(ns - 8000) < 1e-6, "one block onto another: %g", ns);
}

Test(cost_walk, of_rdma_which_brings_what_is_summed_to_where_it_is_read)
{
    struct kolo_figures figures = {0};
    int hosts[] = {0, 1};
    struct kolo_layout one = two, apart = two;
    one.local = KOLO_PATH_RDMA;
    apart.hosts = hosts, apart.nhosts = 2, apart.by_rdma = true;
    figures.path[KOLO_PATH_RDMA] = (struct kolo_path_figures){.byte = 1};
    const struct kolo_layout *layouts[] = {&one, &apart};
    for (int i = 0; i < 2; i++) {
        double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8000, layouts[i], &figures);
        cr_assert(fabs(ns - 12000) < 1e-6, "half out twice, half copied in once: %g", ns);
        ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "flat", 2, 8000, layouts[i], &figures);
        cr_assert(fabs(ns - 16000) < 1e-6, "all out, all in and then folded: %g", ns);
    }
    figures = (struct kolo_figures){.wire_byte = 5, .rdma_wire_byte = 2};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8000, &apart, &figures);
    cr_assert(fabs(ns - 16000) < 1e-6, "half on its own line, twice: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8000, &one, &figures);
    cr_assert(fabs(ns) < 1e-6, "on none: %g", ns);
    figures = (struct kolo_figures){0};
    figures.path[KOLO_PATH_RDMA].call = 3, figures.path[KOLO_PATH_NETWORK].call = 7;
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8, &apart, &figures);
    cr_assert(fabs(ns - 3) < 1e-6, "a call: %g", ns);
}

Test(cost_walk, of_vectors_that_no_cache_holds)
{
    enum { BYTES = 16 << 20 };
    struct kolo_layout near = {.size = 2, .cores = 2, .local = KOLO_PATH_SHM};
    struct kolo_figures figures = {.copy_byte = 3};
    figures.path[KOLO_PATH_SHM].byte = figures.path[KOLO_PATH_LOOPBACK].byte = 1;
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 2, BYTES, &near, &figures);
    cr_assert(fabs(ns / BYTES - 3) < 0.01, "its receiver reads it where it lies: %g", ns / BYTES);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 2, BYTES, &two, &figures);
    cr_assert(fabs(ns / BYTES - 1) < 0.01, "it lies in no socket: %g", ns / BYTES);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 2, BYTES / 4, &near, &figures);
    cr_assert(fabs(ns / BYTES - 0.25) < 0.01, "caches hold two of 4 MiB: %g", ns / BYTES);
    figures.path[KOLO_PATH_SHM].byte = 4;
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 2, BYTES, &near, &figures);
    cr_assert(fabs(ns / BYTES - 4) < 0.01, "which is slower by itself: %g", ns / BYTES);
}

/* Besides copying its own block, a rank reads the blocks of the others from memory if the vectors
 * of all ranks, one block for each, are more than the caches hold. */
Test(cost_walk, of_blocks_that_are_vectors_together)
{
    enum { KIB = 1 << 10 };
    static const struct {
        enum kolo_collective collective;
        int ranks;
        size_t block;
        double blocks; /* copied, and read from memory, by the busiest rank */
    } cases[] = {
        {KOLO_COLLECTIVE_ALLTOALL, 9, 256 * KIB, 1},   /* 81 blocks, 20 MiB */
        {KOLO_COLLECTIVE_ALLTOALL, 10, 256 * KIB, 10}, /* 100 blocks, 25 MiB */
        {KOLO_COLLECTIVE_ALLGATHER, 9, 256 * KIB, 1},
        {KOLO_COLLECTIVE_ALLGATHER, 10, 256 * KIB, 10},
        /* 10 blocks on the root, and one on each of 9 others */
        {KOLO_COLLECTIVE_GATHER, 10, 1024 * KIB, 1},
        {KOLO_COLLECTIVE_GATHER, 10, 2048 * KIB, 10},
    };
    struct kolo_figures figures = {.copy_byte = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kolo_layout near = {
            .size = cases[i].ranks, .cores = cases[i].ranks, .local = KOLO_PATH_SHM};
        double ns =
            cost_of(cases[i].collective, "direct", cases[i].ranks, cases[i].block, &near, &figures);
        double blocks = ns / (double)cases[i].block;
        cr_assert(fabs(blocks - cases[i].blocks) < 1e-6, "case %zu: %g blocks, not %g", i, blocks,
                  cases[i].blocks);
    }
}

/** For ranks that take turns on a core, a short block is best forwarded in the fewest messages, and
 * a longer one in pieces that stay in the caches until they are forwarded. Pieces of a long vector
 * do not stay there; then the plan with the fewest messages is the cheapest again, at the same
 * cost per byte. */
Test(cost_walk, of_blocks_that_are_passed_on)
{
    enum { RANKS = 8 };
    struct kolo_figures figures;
    struct kolo_layout crowded = {.size = RANKS, .cores = 2, .local = KOLO_PATH_LOOPBACK};
    const struct kolo_layout roomy = {.size = RANKS, .cores = RANKS, .local = KOLO_PATH_LOOPBACK};
    kolo_figures_init(&figures);
    for (size_t mib = 1; mib <= 64; mib *= 2) {
        const size_t block = (mib << 20) / RANKS;
        const double ring =
            cost_of(KOLO_COLLECTIVE_ALLGATHER, "ring", RANKS, block, &crowded, &figures);
        const double doubling =
            cost_of(KOLO_COLLECTIVE_ALLGATHER, "doubling", RANKS, block, &crowded, &figures);
        const double direct =
            cost_of(KOLO_COLLECTIVE_ALLGATHER, "direct", RANKS, block, &crowded, &figures);
        cr_assert((mib == 4 || mib == 8) == (ring < doubling), "%zu MiB: ring %g, doubling %g", mib,
                  ring, doubling);
        cr_assert(doubling < direct, "%zu MiB: doubling %g, direct %g", mib, doubling, direct);
        cr_assert(mib < 4 || cost_of(KOLO_COLLECTIVE_ALLGATHER, "ring", RANKS, block, &roomy,
                                     &figures) < cost_of(KOLO_COLLECTIVE_ALLGATHER, "doubling",
                                                         RANKS, block, &roomy, &figures),
                  "%zu MiB, a core each", mib);
    }
}

Test(cost_walk, of_all_ranks_of_a_tree_whose_pieces_are_long)
{
    enum { BYTES = 16 << 20, RANKS = 8 };
    /* the cost of a message that has left the cache */
    struct kolo_figures figures = {.copy_byte = 1};
    struct kolo_layout crowded = {.size = RANKS, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", RANKS, BYTES, &crowded, &figures);
    double expected = 2.0 * (RANKS - 1) * BYTES;
    cr_assert(fabs(ns / expected - 1) < 0.01, "in and out on a core, once a rank: %g of %g", ns,
              expected);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", RANKS, BYTES, &crowded, &figures);
    cr_assert(ns > 2 * expected, "whole vectors leave the cache: %g of %g", ns, expected);
}

Test(cost_walk, of_a_tree_whose_leaves_send_at_once)
{
    enum { BYTES = 1 << 20, RANKS = 8 };
    /* the cost of a message that has left the cache */
    struct kolo_figures figures = {.copy_byte = 1};
    struct kolo_layout crowded = {.size = RANKS, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    double ns = cost_of(KOLO_COLLECTIVE_REDUCE, "tree", RANKS, BYTES, &crowded, &figures);
    double out = 0.5, in = 0.75; /* the parts of a vector that leave the cache */
    double cold = 0.5 * (RANKS - 1) * (out + in) * BYTES;
    double passed = 0.5 * (RANKS - 1) * BYTES; /* through the buffers of the connections */
    cr_assert(fabs(ns / (cold + passed) - 1) < 0.01, "%g of %g", ns, cold + passed);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", RANKS, BYTES, &crowded, &figures);
    cr_assert(ns < 1, "the ranks of a broadcast work one after the other: %g", ns);
}

/* A ring's pieces of half a MiB are as cold as whole blocks, because a whole round is in
 * flight. A single piece stays in the cache, unless it is summed with another of the same size
 * into a third. */
Test(cost_walk, of_what_is_in_flight_where_ranks_share_cores)
{
    enum { BYTES = 16 << 20, RANKS = 4 };
    /* what has left the cache, and the rank's own block */
    struct kolo_figures figures = {.copy_byte = 1};
    struct kolo_layout crowded = {.size = RANKS, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    struct kolo_layout roomy = {.size = RANKS, .cores = RANKS, .local = KOLO_PATH_LOOPBACK};
    const char *const names[] = {"ring", "doubling"};
    double moved = 2.0 * (RANKS - 1) * BYTES;
    for (int i = 0; i < 2; i++) {
        double ns = cost_of(KOLO_COLLECTIVE_ALLGATHER, names[i], RANKS, BYTES, &crowded, &figures);
        double expected = RANKS * (0.5 * 0.75 * moved + BYTES);
        cr_assert(fabs(ns / expected - 1) < 1e-6, "%s: %g of %g", names[i], ns, expected);
    }
    double ns = cost_of(KOLO_COLLECTIVE_ALLGATHER, "ring", RANKS, BYTES, &roomy, &figures);
    cr_assert(fabs(ns / BYTES - 1) < 1e-6, "a core each: %g of %d", ns, BYTES);
    ns = cost_of(KOLO_COLLECTIVE_REDUCE_SCATTER, "ring", RANKS, BYTES, &roomy, &figures);
    double through = 0.5 * (RANKS - 1) * BYTES; /* the buffers of the connections */
    /* half of what does not stay in the cache */
    double expected = 0.5 * (1 - 1.0 / 3) * moved + through;
    cr_assert(fabs(ns / expected - 1) < 1e-6, "summed, a core each: %g of %g", ns, expected);
}

/* Pieces go to two children in turn: each piece but the first to a child follows one that is in
 * flight. */
Test(cost_walk, of_pieces_that_follow_each_other)
{
    struct kolo_layout crowded = {.size = 3, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.crowded_message = 1000};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 3, 8 << 20, &crowded, &figures);
    struct kolo_plan_args args = {.size = 3, .count = 8 << 20, .segment = 1 << 18};
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_BROADCAST, "binary");
    /* messages of the root, and their acknowledgements */
    double messages = 2.0 * (double)plan->nsteps(&args);
    cr_assert(ns < 0.5 * messages * 1000, "%g messages wake less often than that: %g", messages,
              ns);
    cr_assert(ns > 0.25 * messages * 1000, "each message costs something: %g", ns);
}

Test(cost_walk, of_what_is_combined_as_it_comes)
{
    struct kolo_figures figures = {.copy_byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "doubling", 2, 8000, &two, &figures);
    cr_assert(fabs(ns - 4000) < 1e-6, "half a copy, through the connection's buffer: %g", ns);
}

/* The two directions of a line are independent, and each rank's walk has its own part. */
Test(cost_walk, of_the_root_and_of_the_rank_that_it_sends_to)
{
    static const int hosts[] = {0, 1};
    const struct kolo_figures figures = {.wire_byte = 2};
    const struct kolo_layout apart = {.size = 2, .cores = 1, .hosts = hosts, .nhosts = 2};
    const struct kolo_plan_args args = {.size = 2, .root = 1, .count = 1000, .segment = 1 << 18};
    const struct kolo_cost_query query = {kolo_plan_find(KOLO_COLLECTIVE_BROADCAST, "ring"), &args,
                                          4, &apart, &figures};
    struct kolo_walk root = kolo_walk_rank(&query, 1), leaf = kolo_walk_rank(&query, 0);
    cr_assert(fabs(root.wire[KOLO_LINE_OUT] - 8000) < 1e-6, "%g", root.wire[KOLO_LINE_OUT]);
    cr_assert(fabs(leaf.wire[KOLO_LINE_IN] - 8000) < 1e-6, "%g", leaf.wire[KOLO_LINE_IN]);
    cr_assert(fabs(root.wire[KOLO_LINE_IN] + leaf.wire[KOLO_LINE_OUT]) < 1e-6, "nothing back");
    cr_assert(root.hop[KOLO_HOP_CROSSES] >= 8000 && root.hop[KOLO_HOP_STAYS] < 1e-6, "it crosses");
}
