// SPDX-License-Identifier: Apache-2.0
// Predictions against what can be counted by hand.
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cost.h"

static const struct kolo_layout two = {.size = 2, .cores = 2, .local = KOLO_PATH_LOOPBACK};

static double cost_of(enum kolo_collective collective, const char *name, int size, size_t count,
                      const struct kolo_layout *layout, const struct kolo_figures *figures)
{
    struct kolo_plan_args args = {.size = size, .count = count, .segment = 1 << 18};
    return kolo_plan_cost(kolo_plan_find(collective, name), &args, 1, layout, figures);
}

Test(cost, of_what_can_be_counted_by_hand)
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

Test(cost, of_a_call_beside_its_messages)
{
    struct kolo_figures figures = {0};
    int hosts[] = {0, 1};
    struct kolo_layout apart = two;
    apart.hosts = hosts, apart.nhosts = 2;
    figures.path[KOLO_PATH_LOOPBACK].call = 5, figures.path[KOLO_PATH_NETWORK].call = 7;
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8, &two, &figures);
    cr_assert(fabs(ns - 5) < 1e-6, "once, of two rounds: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_GATHER, "tree", 2, 8, &two, &figures);
    cr_assert(fabs(ns - 5) < 1e-6, "once, with what closes it: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8, &apart, &figures);
    cr_assert(fabs(ns - 7) < 1e-6, "over a network: %g", ns);
    hosts[1] = 0, apart.nhosts = 1;
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 2, 8, &apart, &figures);
    cr_assert(fabs(ns - 5) < 1e-6, "on one host that has a number: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "oneshot", 2, 8, &two, &figures);
    cr_assert(fabs(ns) < 1e-6, "over a board: %g", ns);
}

Test(cost, of_rdma_which_brings_what_is_summed_to_where_it_is_read)
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

Test(cost, of_vectors_that_no_cache_holds)
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

/* Beside its own block, which it copies, a rank reads those of the others elsewhere when the
 * vectors of all ranks, blocks for each, are more than the caches hold. */
Test(cost, of_blocks_that_are_vectors_together)
{
    enum { KIB = 1 << 10 };
    static const struct {
        enum kolo_collective collective;
        int ranks;
        size_t block;
        double blocks; /* copied, and read elsewhere, by the busiest rank */
    } cases[] = {
        {KOLO_COLLECTIVE_ALLTOALL, 9, 256 * KIB, 1},   /* 81 blocks, 20 MiB */
        {KOLO_COLLECTIVE_ALLTOALL, 10, 256 * KIB, 10}, /* 100 blocks, 25 MiB */
        {KOLO_COLLECTIVE_ALLGATHER, 9, 256 * KIB, 1},
        {KOLO_COLLECTIVE_ALLGATHER, 10, 256 * KIB, 10},
        {KOLO_COLLECTIVE_GATHER, 10, 1024 * KIB, 1}, /* 10 blocks on the root, one on 9 others */
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

/** Between ranks that take turns on a core a short block is best passed on in the fewest messages,
 * a longer one in pieces that stay in the caches until they are passed on, which those of a long
 * vector do not: then the plan of the fewest messages is the cheapest again, byte by byte alike. */
Test(cost, of_blocks_that_are_passed_on)
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

Test(cost, of_lines_and_crowds)
{
    struct kolo_figures figures = {.wire_byte = 1};
    int hosts[] = {0, 0, 1, 1};
    struct kolo_layout far = {
        .size = 4, .cores = 2, .local = KOLO_PATH_SHM, .hosts = hosts, .nhosts = 2};
    double ns = cost_of(KOLO_COLLECTIVE_ALLTOALL, "direct", 4, 100, &far, &figures);
    cr_assert(fabs(ns - 400) < 1e-6, "two ranks send two blocks each to the other host: %g", ns);
    struct kolo_layout crowded = {.size = 4, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    struct kolo_layout roomy = {.size = 4, .cores = 4, .local = KOLO_PATH_LOOPBACK};
    kolo_figures_init(&figures);
    figures.path[KOLO_PATH_LOOPBACK].crowded_byte = 0;
    figures.path[KOLO_PATH_LOOPBACK].crowded_message = 0;
    figures.copy_byte = 0;
    double alone = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 4, 1 << 22, &roomy, &figures);
    double shared = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "ring", 4, 1 << 22, &crowded, &figures);
    cr_assert(shared > 3.5 * alone && shared < 4.01 * alone, "%g on one core, %g on four", shared,
              alone);
}

Test(cost, of_what_goes_from_numa_domain_to_numa_domain)
{
    enum { RANKS = 8, BYTES = 8000 };
    static const int of[RANKS] = {0}, nodes[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
    int memory[KOLO_HOSTS_INTS(RANKS)];
    struct kolo_topology hosts;
    struct kolo_figures figures = {.far_byte = 1};
    struct kolo_layout layout = {.size = RANKS, .cores = RANKS, .local = KOLO_PATH_SHM};
    struct kolo_plan_args args = {
        .size = RANKS, .count = BYTES, .segment = 1 << 18, .hosts = &hosts};
    kolo_topology_fill(&hosts, RANKS, of, nodes, memory);
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_ALLREDUCE, "numa");
    double ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns - BYTES) < 1e-6, "half a vector, twice, out of each domain: %g", ns);
    plan = kolo_plan_find(KOLO_COLLECTIVE_ALLREDUCE, "doubling");
    ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns - 4 * BYTES) < 1e-6, "of each rank a vector: %g", ns);
    figures = (struct kolo_figures){.far_flag = 1};
    ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns - 1) < 1e-6, "one round of three is far: %g", ns);
    kolo_topology_fill(&hosts, RANKS, of, NULL, memory);
    ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns) < 1e-6, "nothing is far in one domain: %g", ns);
    kolo_topology_fill(&hosts, RANKS, nodes, nodes, memory); /* each on a host of its own */
    ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns) < 1e-6, "hosts are not domains: %g", ns);
}

Test(cost, of_all_ranks_of_a_tree_whose_pieces_are_long)
{
    enum { BYTES = 16 << 20, RANKS = 8 };
    struct kolo_figures figures = {.copy_byte = 1}; /* what a message that left the cache costs */
    struct kolo_layout crowded = {.size = RANKS, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", RANKS, BYTES, &crowded, &figures);
    double expected = 2.0 * (RANKS - 1) * BYTES;
    cr_assert(fabs(ns / expected - 1) < 0.01, "in and out on a core, once a rank: %g of %g", ns,
              expected);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", RANKS, BYTES, &crowded, &figures);
    cr_assert(ns > 2 * expected, "whole vectors leave the cache: %g of %g", ns, expected);
}

Test(cost, of_a_tree_whose_leaves_send_at_once)
{
    enum { BYTES = 1 << 20, RANKS = 8 };
    struct kolo_figures figures = {.copy_byte = 1}; /* what a message that left the cache costs */
    struct kolo_layout crowded = {.size = RANKS, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    double ns = cost_of(KOLO_COLLECTIVE_REDUCE, "tree", RANKS, BYTES, &crowded, &figures);
    double out = 0.5, in = 0.75; /* parts of a vector that leave the cache */
    double cold = 0.5 * (RANKS - 1) * (out + in) * BYTES;
    double passed = 0.5 * (RANKS - 1) * BYTES; /* through the connections' buffers */
    cr_assert(fabs(ns / (cold + passed) - 1) < 0.01, "%g of %g", ns, cold + passed);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", RANKS, BYTES, &crowded, &figures);
    cr_assert(ns < 1, "the ranks of a broadcast work one after the other: %g", ns);
}

/* A ring's pieces of half a MiB are as cold as whole blocks, for a round is in flight; alone they
 * stay in the cache, unless they are summed with as much into as much. */
Test(cost, of_what_is_in_flight_where_ranks_share_cores)
{
    enum { BYTES = 16 << 20, RANKS = 4 };
    struct kolo_figures figures = {.copy_byte = 1}; /* what has left the cache, and the own block */
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
    double through = 0.5 * (RANKS - 1) * BYTES;              /* the connections' buffers */
    double expected = 0.5 * (1 - 1.0 / 3) * moved + through; /* half of what does not stay */
    cr_assert(fabs(ns / expected - 1) < 1e-6, "summed, a core each: %g of %g", ns, expected);
}

Test(cost, of_a_broadcast_while_its_root_goes_on)
{
    /* the last of 5 ranks gets it after 4 messages: 3 before its own, of which half count */
    struct kolo_layout five = {.size = 5, .cores = 5, .local = KOLO_PATH_LOOPBACK};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "ring", 5, 1000, &five, &figures);
    cr_assert(fabs(ns - (2000 + 0.5 * 3 * 2000)) < 1e-6, "in and out, and half of three: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_REDUCE, "ring", 5, 1000, &five, &figures);
    cr_assert(fabs(ns - (2000 + 3 * 2000)) < 1e-6, "a reduce is not over before: %g", ns);
}

/** Nothing runs beside an open broadcast; a note or a barrier costs half of itself, if it is
 * shorter. */
Test(cost, of_what_closes_a_broadcast)
{
    static const struct {
        enum kolo_closing closing;
        double ns;
    } expected[] = {{KOLO_CLOSING_LATER, 1010},
                    {KOLO_CLOSING_NOTES, 1010 + 0.5 * 1010},
                    {KOLO_CLOSING_NOW, 1020 + 0.5 * 1010}};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.latency = 1000, .message = 10};
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_BROADCAST, "tree");
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct kolo_plan_args args = {
            .size = 2, .count = 8, .segment = 1 << 18, .closing = expected[i].closing};
        double ns = kolo_plan_cost(plan, &args, 1, &two, &figures);
        cr_assert(fabs(ns - expected[i].ns) < 1e-6, "%zu: %g", i, ns);
    }
}

/** What is lent to those that take it holds its root up as a note from them would. */
Test(cost, of_an_open_broadcast_of_memory_that_is_lent)
{
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_SHM] = figures.path[KOLO_PATH_LOOPBACK] =
        (struct kolo_path_figures){.latency = 1000};
    struct kolo_layout shared = two;
    shared.local = KOLO_PATH_SHM;
    double is_short = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", 2, 2047, &shared, &figures);
    double is_lent = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", 2, 2048, &shared, &figures);
    double is_sent = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", 2, 2048, &two, &figures);
    cr_assert(fabs(is_short - 1000) < 1e-6 && fabs(is_lent - 1500) < 1e-6, "%g, %g", is_short,
              is_lent);
    cr_assert(fabs(is_sent - 1000) < 1e-6, "a socket takes it: %g", is_sent);
}

/** Of several hosts the way to the others is a socket's, whatever joins the ranks of one. */
Test(cost, of_an_open_broadcast_to_another_host)
{
    int hosts[] = {0, 1};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_SHM] = figures.path[KOLO_PATH_NETWORK] =
        (struct kolo_path_figures){.latency = 1000};
    struct kolo_layout apart = two;
    apart.local = KOLO_PATH_SHM, apart.hosts = hosts, apart.nhosts = 2;
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", 2, 1 << 20, &apart, &figures);
    cr_assert(fabs(ns - 1000) < 1e-6, "nobody lends: %g", ns);
}

/* Two hosts, ranks 0 to 3 on the first: rank 4 has its data from the root, or gives them to it. */
enum { EIGHT = 8 };
static const int on_two_hosts[EIGHT] = {0, 0, 0, 0, 1, 1, 1, 1};
static const struct kolo_layout eight = {
    .size = EIGHT, .cores = EIGHT, .local = KOLO_PATH_SHM, .hosts = on_two_hosts, .nhosts = 2};

/** Of a tree's three levels one goes from host to host. What a byte costs alone is looked at: what
 * closes these plans moves none. */
Test(cost, of_the_way_through_a_tree_over_hosts)
{
    struct kolo_figures inside = {0}, between = {0};
    inside.path[KOLO_PATH_SHM].byte = 1, between.path[KOLO_PATH_NETWORK].byte = 1;
    double ns = cost_of(KOLO_COLLECTIVE_REDUCE, "tree", EIGHT, 1000, &eight, &between);
    cr_assert(fabs(ns - 1000) < 1e-6, "4 to the root, which it shows itself: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_REDUCE, "tree", EIGHT, 1000, &eight, &inside);
    cr_assert(fabs(ns - 6000) < 1e-6, "7 to 6 and 6 to 4, out and in; two to the root: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "tree", EIGHT, 1000, &eight, &between);
    cr_assert(fabs(ns - 2000) < 1e-6, "half of the root to 4, out and in; its own: %g", ns);
    double scattered = cost_of(KOLO_COLLECTIVE_SCATTER, "tree", EIGHT, 1000, &eight, &inside);
    double gathered = cost_of(KOLO_COLLECTIVE_GATHER, "tree", EIGHT, 1000, &eight, &inside);
    cr_assert(scattered < gathered, "nobody waits for the last rank: %g, %g", scattered, gathered);
}

/** Down a chain as many go from host to host as ranks change hosts in it. */
Test(cost, of_the_way_along_a_chain_over_hosts)
{
    static const int in_turn[EIGHT] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct kolo_layout turns = eight;
    struct kolo_figures figures = {0};
    turns.hosts = in_turn;
    figures.path[KOLO_PATH_NETWORK].byte = 1;
    double once = cost_of(KOLO_COLLECTIVE_REDUCE, "ring", EIGHT, 1000, &eight, &figures);
    double always = cost_of(KOLO_COLLECTIVE_REDUCE, "ring", EIGHT, 1000, &turns, &figures);
    cr_assert(fabs(once - 3000) < 1e-6, "from 4 to 3, and the busiest rank: %g", once);
    cr_assert(fabs(always - 14000) < 1e-6, "six before the root's, and one between: %g", always);
}

/** What all ranks of a host send to one of another goes over the line of either. */
Test(cost, of_a_line_that_the_ranks_of_a_host_share)
{
    struct kolo_figures figures = {.wire_byte = 1};
    double flat = cost_of(KOLO_COLLECTIVE_REDUCE, "flat", EIGHT, 1000, &eight, &figures);
    cr_assert(fabs(flat - 4000) < 1e-6, "four vectors: %g", flat);
    double spread = cost_of(KOLO_COLLECTIVE_ALLGATHER, "direct", EIGHT, 1000, &eight, &figures);
    cr_assert(fabs(spread - 16000) < 1e-6, "four blocks to each of four: %g", spread);
    double tree = cost_of(KOLO_COLLECTIVE_REDUCE, "tree", EIGHT, 1000, &eight, &figures);
    cr_assert(fabs(tree - 1000) < 1e-6, "one: %g", tree);
}

/** What the cards of the hosts say goes before what is built in. */
Test(cost, of_a_line_whose_speed_is_known)
{
    struct kolo_figures figures = {.wire_byte = 1};
    struct kolo_layout fast = eight;
    fast.line_byte = 0.25;
    double ns = cost_of(KOLO_COLLECTIVE_REDUCE, "flat", EIGHT, 1000, &fast, &figures);
    cr_assert(fabs(ns - 1000) < 1e-6, "a quarter of 4000: %g", ns);
    kolo_figures_init(&figures);
    cr_assert(kolo_figures_guess_line(&figures));
    figures.wire_byte *= 1.01;
    cr_assert_not(kolo_figures_guess_line(&figures), "somebody measured it");
}

/* Pieces to two children in turn: each but the first of a child follows one that is in flight. */
Test(cost, of_pieces_that_follow_each_other)
{
    struct kolo_layout crowded = {.size = 3, .cores = 1, .local = KOLO_PATH_LOOPBACK};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.crowded_message = 1000};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "binary", 3, 8 << 20, &crowded, &figures);
    struct kolo_plan_args args = {.size = 3, .count = 8 << 20, .segment = 1 << 18};
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_BROADCAST, "binary");
    double messages = 2.0 * (double)plan->nsteps(&args); /* of the root, and their receipts */
    cr_assert(ns < 0.5 * messages * 1000, "%g messages wake less often than that: %g", messages,
              ns);
    cr_assert(ns > 0.25 * messages * 1000, "each message costs something: %g", ns);
}

Test(cost, of_what_is_combined_as_it_comes)
{
    struct kolo_figures figures = {.copy_byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, "doubling", 2, 8000, &two, &figures);
    cr_assert(fabs(ns - 4000) < 1e-6, "half a copy, through the connection's buffer: %g", ns);
}

Test(cost, grows_with_size_and_world)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (const struct kolo_plan *plan = kolo_plans; plan->name != NULL; plan++)
        for (int size = 2; size <= 64; size *= 2) {
            struct kolo_layout layout = {.size = size, .cores = size, .local = KOLO_PATH_LOOPBACK};
            double last = 0;
            struct kolo_plan_args args = {.size = size, .count = 1, .segment = 1};
            if (plan->on_board || kolo_plan_fits(plan, &args, 1) != NULL ||
                plan->collective == KOLO_COLLECTIVE_BARRIER)
                continue;
            for (size_t bytes = 1; bytes <= (size_t)1 << 30; bytes *= 8) {
                double ns = cost_of(plan->collective, plan->name, size, bytes, &layout, &figures);
                cr_assert(isfinite(ns) && ns >= last * 0.999, "%s %s on %d, %zu bytes: %g after %g",
                          kolo_collective_text(plan->collective), plan->name, size, bytes, ns,
                          last);
                last = ns;
            }
        }
}
