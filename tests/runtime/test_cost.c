// SPDX-License-Identifier: Apache-2.0
// Predicted times against values counted by hand: what ranks share, what closing a plan costs, the
// sum.
#include <criterion/criterion.h>

#include <math.h>

#include "tests/support/cost_of.h"
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
    kolo_topology_fill(&hosts, RANKS, nodes, nodes, memory); /* each rank on a host of its own */
    ns = kolo_plan_cost(plan, &args, 1, &layout, &figures);
    cr_assert(fabs(ns) < 1e-6, "hosts are not domains: %g", ns);
}

/** Nothing runs at the same time as an open broadcast; a note or a barrier costs half of its own
 * time, if that is shorter. */
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
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct kolo_plan_args args = {
            .size = 2, .count = 8, .segment = 1 << 18, .closing = expected[i].closing};
        double ns = kolo_plan_cost(plan, &args, 1, &two, &figures);
        cr_assert(fabs(ns - expected[i].ns) < 1e-6, "%zu: %g", i, ns);
    }
}

/** Lending memory holds up the root as long as notes from the ranks that take it would. */
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

/** With several hosts, the way to the others is a socket, whatever joins the ranks of one host. */
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

/** What all ranks of one host send to a rank of another passes over the lines of both hosts. */
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

/** What a host's network cards report overrides the built-in figures. */
Test(cost, of_a_line_whose_speed_is_known)
{
    struct kolo_figures figures = {.wire_byte = 1};
    struct kolo_layout fast = eight;
    fast.line_byte = 0.25;
    double ns = cost_of(KOLO_COLLECTIVE_REDUCE, "flat", EIGHT, 1000, &fast, &figures);
    cr_assert(fabs(ns - 1000) < 1e-6, "a quarter of 4000: %g", ns);
}

Test(cost, grows_with_size_and_world)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        for (int size = 2; size <= 64; size *= 2) {
            struct kolo_layout layout = {.size = size, .cores = size, .local = KOLO_PATH_LOOPBACK};
            double last = 0;
            struct kolo_plan_args args = {.size = size, .count = 1, .segment = 1};
            if (plan->on_board || kolo_plan_fits(plan, &args, 1) ||
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
