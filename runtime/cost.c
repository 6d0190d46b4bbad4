// SPDX-License-Identifier: Apache-2.0
// Adds up the costs of a plan's ranks (see cost.h): the ranks whose steps are walked (cost_walk.c),
// what the others count, the lines that they share, and the closing plan. Must never depend on the
// rank that asks, nor on the clock: all ranks of a job must get the same number. Boards are in
// cost_board.c.
//
// Plain factors in these files (halves, quarters, 4) are fitted: with them, the plan that is
// expected to finish first is most often the one that bench/choice found to be fastest. They are
// not figures of a machine.
#include "runtime/cost.h"

#include <math.h>

#include "runtime/cost_walk.h"

enum {
    BYTES_WALKED = 64 << 20, /* beyond it time is proportional to size */
    LENT_BYTES = 2 << 10     /* from here on memory is lent inside a host, and its sender waits */
};

/** The ranks whose steps are counted, the root first; returns how many. In a tree each rank may
 * have different work, so in a small world all ranks are counted. */
static int ranks_walked(const struct kolo_plan_args *args, int ranks[KOLO_RANKS_WALKED])
{
    int n = args->size, count = 0;
    const int some[] = {0, (args->root + 1) % n, (args->root + n / 2) % n, n - 1, n / 3};
    int wanted = n <= KOLO_RANKS_WALKED ? n : (int)(sizeof some / sizeof *some);
    ranks[count++] = args->root;
    for (int i = 0; i < wanted; i++) {
        int rank = n <= KOLO_RANKS_WALKED ? i : some[i];
        if (rank != args->root)
            ranks[count++] = rank;
    }
    return count;
}

static void add_walk(struct kolo_walk *sum, const struct kolo_walk *walk, double times)
{
    sum->processor += times * walk->processor;
    for (int way = 0; way < KOLO_LINE_WAYS; way++)
        sum->wire[way] += times * walk->wire[way];
    sum->far += times * walk->far;
}

static void raise_walk(struct kolo_walk *most, const struct kolo_walk *walk)
{
    most->latency = fmax(most->latency, walk->latency);
    most->processor = fmax(most->processor, walk->processor);
    for (int way = 0; way < KOLO_LINE_WAYS; way++)
        most->wire[way] = fmax(most->wire[way], walk->wire[way]);
    most->far = fmax(most->far, walk->far);
    for (int kind = 0; kind < KOLO_HOPS; kind++)
        most->hop[kind] = fmax(most->hop[kind], walk->hop[kind]);
}

static struct kolo_walks walk_ranks(const struct kolo_cost_query *query)
{
    int n = query->args->size;
    struct kolo_walks walks = {0};
    walks.count = ranks_walked(query->args, walks.ranks);
    double of_others = walks.count > 1 ? (double)(n - 1) / (walks.count - 1) : 0;
    for (int i = 0; i < walks.count; i++) {
        walks.of[i] = kolo_walk_rank(query, walks.ranks[i]);
        raise_walk(&walks.most, &walks.of[i]);
        add_walk(&walks.mean, &walks.of[i], (i == 0 ? 1 : of_others) / n);
    }
    return walks;
}

/** The load of the line of @p rank's host, in the busier direction. */
static double line_of_host(const struct kolo_layout *layout, const struct kolo_walks *walks,
                           int rank)
{
    double sum[KOLO_LINE_WAYS] = {0};
    for (int j = 0; j < walks->count; j++)
        for (int way = 0; way < KOLO_LINE_WAYS; way++)
            if (!kolo_layout_are_apart(layout, rank, walks->ranks[j]))
                sum[way] += walks->of[j].wire[way];
    return fmax(sum[KOLO_LINE_OUT], sum[KOLO_LINE_IN]);
}

/** The load of the busiest host's line. In a large world, where not all ranks are walked, all hosts
 * are assumed to have the mean load, unless a single rank has more. */
static double busiest_line(const struct kolo_layout *layout, const struct kolo_walks *walks)
{
    double line = 0, ranks = kolo_layout_ranks_a_host(layout);
    if (kolo_layout_has_several_hosts(layout) && walks->count >= layout->size) {
        for (int i = 0; i < walks->count; i++)
            line = fmax(line, line_of_host(layout, walks, walks->ranks[i]));
        return line;
    }
    for (int way = 0; way < KOLO_LINE_WAYS; way++)
        line = fmax(line, fmax(walks->most.wire[way], walks->mean.wire[way] * ranks));
    return line;
}

static double ranks_a_domain(const struct kolo_plan_args *args)
{
    return !args->hosts ? args->size : ceil((double)args->size / args->hosts->domains.count);
}

/** kolo_plan_cost for a vector all of whose steps are counted. */
static double cost_of_all(const struct kolo_cost_query *query)
{
    const struct kolo_plan *plan = query->plan;
    const struct kolo_walks walks = walk_ranks(query);
    double wire = busiest_line(query->layout, &walks);
    double far = fmax(walks.most.far, walks.mean.far * ranks_a_domain(query->args));
    struct kolo_cost_way way = kolo_cost_way_to_last(query, &walks);
    double chain = way.hops + fmax(walks.most.processor, fmax(wire, far));
    /* each level of a pipelined tree also waits for a sibling's piece, whatever the cores do */
    double siblings = plan->is_segmented && plan->depth == KOLO_DEPTH_TREE ? 0.5 * way.hops : 0;
    double of_cores = walks.mean.processor * kolo_layout_ranks_a_core(query->layout);
    return way.latency + siblings + fmax(chain, of_cores);
}

/** The path on which a call spends most of its time. */
static enum kolo_path longest_path(const struct kolo_layout *layout)
{
    return kolo_layout_path(layout, kolo_layout_has_several_hosts(layout));
}

/** If the data of an open broadcast is lent, the root is done only when the receivers have read it.
 * That has the effect of notes to the root: it does not run ahead. On several hosts it waits only
 * for the ranks of its own host, which is short compared with the way to the others. */
static enum kolo_closing closing_of(const struct kolo_cost_query *query)
{
    const struct kolo_plan_args *args = query->args;
    bool is_lent = kolo_path_lends(longest_path(query->layout)) &&
                   args->count >= LENT_BYTES / query->element_bytes;
    return args->closing == KOLO_CLOSING_LATER && is_lent ? KOLO_CLOSING_NOTES : args->closing;
}

/** The cost of the closing plan; 0: there is none. */
static double cost_of_closing(const struct kolo_cost_query *query)
{
    struct kolo_plan_args args = *query->args;
    args.closing = closing_of(query);
    const struct kolo_plan *beside =
        query->plan->closes ? NULL : kolo_plan_closing(query->plan, &args);
    if (!beside || args.size <= 1)
        return 0;
    const struct kolo_plan_args none = {.size = args.size, .hosts = args.hosts, .segment = 1};
    struct kolo_cost_query closing = *query;
    closing.plan = beside, closing.args = &none, closing.element_bytes = 1;
    return cost_of_all(&closing);
}

double kolo_plan_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                      size_t element_bytes, const struct kolo_layout *layout,
                      const struct kolo_figures *figures)
{
    struct kolo_plan_args less = *args;
    struct kolo_cost_query query = {plan, &less, element_bytes, layout, figures};
    double times = 1;
    if (plan->on_board)
        return kolo_board_cost(plan, args, element_bytes, layout, figures);
    if (!args->counts && args->count > BYTES_WALKED / element_bytes) {
        less.count = BYTES_WALKED / element_bytes;
        times = (double)args->count / (double)less.count;
    }
    double cost = times * cost_of_all(&query), closing = cost_of_closing(&query);
    cost = fmax(cost, closing) + 0.5 * fmin(cost, closing); /* the closing plan runs beside it */
    return figures->path[longest_path(layout)].call + cost;
}
