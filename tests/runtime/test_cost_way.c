// SPDX-License-Identifier: Apache-2.0
// Predicted times against values counted by hand: data that is forwarded on its way to the last
// rank.
#include <criterion/criterion.h>

#include <math.h>

#include "runtime/cost_walk.h"
#include "tests/support/cost_of.h"
Test(cost_way, of_a_broadcast_while_its_root_goes_on)
{
    /* the last of 5 ranks gets it after 4 messages: 3 before its own, half of which count */
    struct kolo_layout five = {.size = 5, .cores = 5, .local = KOLO_PATH_LOOPBACK};
    struct kolo_figures figures = {0};
    figures.path[KOLO_PATH_LOOPBACK] = (struct kolo_path_figures){.byte = 1};
    double ns = cost_of(KOLO_COLLECTIVE_BROADCAST, "ring", 5, 1000, &five, &figures);
    cr_assert(fabs(ns - (2000 + 0.5 * 3 * 2000)) < 1e-6, "in and out, and half of three: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_REDUCE, "ring", 5, 1000, &five, &figures);
    cr_assert(fabs(ns - (2000 + 3 * 2000)) < 1e-6, "a reduce is not over before: %g", ns);
}

/** One of the three levels of a tree crosses hosts. Only the cost per byte is tested, because what
 * closes these plans moves no bytes. */
Test(cost_way, of_the_way_through_a_tree_over_hosts)
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

/** Between hosts, rounds are a tree, in which each takes as long as its message; on one host all
 * ranks work in each of them. */
Test(cost_way, of_rounds)
{
    struct kolo_figures figures = {0};
    struct kolo_layout one = eight;
    one.hosts = NULL, one.nhosts = 1, one.local = KOLO_PATH_LOOPBACK;
    figures.path[KOLO_PATH_SHM].byte = figures.path[KOLO_PATH_NETWORK].byte = 1;
    figures.path[KOLO_PATH_LOOPBACK].byte = 1;
    double there = cost_of(KOLO_COLLECTIVE_BROADCAST, "spread", EIGHT, 1000, &eight, &figures);
    double here = cost_of(KOLO_COLLECTIVE_BROADCAST, "spread", EIGHT, 1000, &one, &figures);
    cr_assert(fabs(there - here - 2000) < 1e-6, "half of two messages, out and in: %g, %g", there,
              here);
}

/** Along a chain, as many messages cross hosts as there are changes of host in it. */
Test(cost_way, of_the_way_along_a_chain_over_hosts)
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

/* With hops of 10 ns: the last of n ranks waits for all hops but its own in a chain, for all
 * levels but one in a tree, and for none if ranks do not forward. */
Test(cost_way, of_one_host_by_the_depth_of_the_plan)
{
    static const struct {
        enum kolo_collective collective;
        const char *plan;
        double hops;
    } cases[] = {{KOLO_COLLECTIVE_REDUCE, "ring", 60},
                 {KOLO_COLLECTIVE_REDUCE, "tree", 20},
                 {KOLO_COLLECTIVE_REDUCE, "flat", 0},
                 {KOLO_COLLECTIVE_SCATTER, "tree", 10}};
    const struct kolo_layout near = {.size = EIGHT, .cores = EIGHT, .local = KOLO_PATH_SHM};
    const struct kolo_plan_args args = {.size = EIGHT, .count = 1, .segment = 1};
    const struct kolo_figures figures = {0};
    const struct kolo_walks walks = {.most = {.latency = 7, .hop = {10, 1000}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kolo_plan *plan = kolo_plan_find(cases[i].collective, cases[i].plan);
        const struct kolo_cost_query query = {plan, &args, 1, &near, &figures};
        struct kolo_cost_way way = kolo_cost_way_to_last(&query, &walks);
        cr_assert(fabs(way.hops - cases[i].hops) < 1e-6, "case %zu: %g", i, way.hops);
        cr_assert(fabs(way.latency - 7) < 1e-6, "case %zu: %g", i, way.latency);
    }
}
