// SPDX-License-Identifier: Apache-2.0
// Computes when the last rank's messages begin: after all that a tree or a chain passes on before
// them, counted message by message if some go from host to host. Must never count a message that
// the walk of a rank already contains (cost_walk.c).
#include <math.h>

#include "runtime/cost_walk.h"

static bool goes_to_root(const struct kolo_plan *plan)
{
    return plan->collective == KOLO_COLLECTIVE_REDUCE || plan->collective == KOLO_COLLECTIVE_GATHER;
}

/** The next rank on the way from @p rank to the root, by the first message with data; -1: it is the
 * root. */
static int towards_root(const struct kolo_plan *plan, const struct kolo_plan_args *args, int rank)
{
    struct kolo_plan_args own = *args;
    own.rank = rank;
    size_t nsteps = rank == args->root ? 0 : plan->nsteps(&own);
    for (size_t i = 0; i < nsteps; i++) {
        struct kolo_step step;
        plan->step(&own, i, &step);
        int peer = goes_to_root(plan) ? step.to : step.from;
        size_t elements = goes_to_root(plan) ? step.out.count : step.in.count;
        if (peer >= 0 && elements > 0)
            return peer;
    }
    return -1;
}

/** Messages between a rank and the root, by kind. */
struct hops {
    int of[KOLO_HOPS];
};

/** Counts them, except the one in the rank's own steps, or, where data goes to the root, the one in
 * the root's steps. */
static struct hops hops_between(const struct kolo_cost_query *query, int rank)
{
    const struct kolo_plan *plan = query->plan;
    struct hops hops = {0};
    int first = -1, last = -1;
    for (int at = rank, next; (next = towards_root(plan, query->args, at)) >= 0; at = next) {
        bool is_apart = kolo_layout_are_apart(query->layout, at, next);
        last = is_apart ? KOLO_HOP_CROSSES : KOLO_HOP_STAYS;
        first = first < 0 ? last : first;
        hops.of[last]++;
        if (hops.of[KOLO_HOP_STAYS] + hops.of[KOLO_HOP_CROSSES] == query->args->size)
            break; /* a plan has no cycles */
    }
    if (first >= 0)
        hops.of[goes_to_root(plan) ? last : first]--;
    return hops;
}

/** Messages before the first one of the last rank, which are not in its own steps. */
static double hops_before(const struct kolo_plan *plan, int size)
{
    if (plan->depth == KOLO_DEPTH_CHAIN)
        return size - 2;
    if (plan->depth == KOLO_DEPTH_TREE)
        return ceil(log2(size)) - 1;
    return 0;
}

/** The part of the hops that counts. In a broadcast and a scatter it is half: nobody waits for the
 * last rank, and while the last ranks wait, the first ones are in the next call or in the
 * program. */
static double part_counted(const struct kolo_plan *plan)
{
    return plan->collective == KOLO_COLLECTIVE_BROADCAST ||
                   plan->collective == KOLO_COLLECTIVE_SCATTER
               ? 0.5
               : 1;
}

/** On one host all messages are alike. */
static struct kolo_cost_way way_on_one_host(const struct kolo_cost_query *query,
                                            const struct kolo_walks *walks)
{
    double hops = part_counted(query->plan) * hops_before(query->plan, query->args->size);
    return (struct kolo_cost_way){.hops = hops * walks->most.hop[KOLO_HOP_STAYS],
                                  .latency = walks->most.latency};
}

/** On several hosts few messages go from one host to another, so each kind is counted. */
static struct kolo_cost_way way_over_hosts(const struct kolo_cost_query *query,
                                           const struct kolo_walks *walks)
{
    const double *hop = walks->most.hop;
    struct kolo_cost_way way = {.latency = walks->most.latency};
    if (query->plan->depth == KOLO_DEPTH_NONE)
        return way;
    way.latency = walks->of[0].latency;
    for (int i = 1; i < walks->count; i++) {
        struct hops between = hops_between(query, walks->ranks[i]);
        double hops =
            part_counted(query->plan) * (between.of[KOLO_HOP_STAYS] * hop[KOLO_HOP_STAYS] +
                                         between.of[KOLO_HOP_CROSSES] * hop[KOLO_HOP_CROSSES]);
        double latency = walks->of[goes_to_root(query->plan) ? 0 : i].latency;
        if (hops + latency > way.hops + way.latency)
            way = (struct kolo_cost_way){.hops = hops, .latency = latency};
    }
    return way;
}

struct kolo_cost_way kolo_cost_way_to_last(const struct kolo_cost_query *query,
                                           const struct kolo_walks *walks)
{
    return kolo_layout_has_several_hosts(query->layout) ? way_over_hosts(query, walks)
                                                        : way_on_one_host(query, walks);
}
