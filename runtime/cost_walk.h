// SPDX-License-Identifier: Apache-2.0
// The parts that cost.c adds up: the steps of single ranks (cost_walk.c), and the path between the
// root and the last rank (cost_way.c). Only for these files.
#ifndef KOLO_RUNTIME_COST_WALK_H
#define KOLO_RUNTIME_COST_WALK_H

#include <math.h>

#include "runtime/cost.h"

/** The arguments of kolo_plan_cost(). */
struct kolo_cost_query {
    const struct kolo_plan *plan;
    const struct kolo_plan_args *args;
    size_t element_bytes;
    const struct kolo_layout *layout;
    const struct kolo_figures *figures;
};

/** Whether a message stays on a host or goes to another. */
enum { KOLO_HOP_STAYS, KOLO_HOP_CROSSES, KOLO_HOPS };

/** A line carries both directions at the same time. */
enum { KOLO_LINE_OUT, KOLO_LINE_IN, KOLO_LINE_WAYS };

/** The costs of one rank, in nanoseconds. */
struct kolo_walk {
    double latency, processor;
    double wire[KOLO_LINE_WAYS]; /* on its host's line to other hosts */
    double far;                  /* on the line from its NUMA domain to others */
    double hop[KOLO_HOPS];       /* the longest single message; 0: there is none of the kind */
};

/** In a larger world only the ranks that cost.c selects are walked. */
enum { KOLO_RANKS_WALKED = 8 };

struct kolo_walks {
    int count, ranks[KOLO_RANKS_WALKED]; /* the root first */
    struct kolo_walk of[KOLO_RANKS_WALKED];
    struct kolo_walk most, mean; /* of the ranks walked; of all ranks, estimated from those */
};

struct kolo_walk kolo_walk_rank(const struct kolo_cost_query *query, int rank);

/* ---- cost_way.c ---- */

/** When the messages of the last rank begin, and how long they take then; latencies only. */
struct kolo_cost_way {
    double hops, latency;
};
struct kolo_cost_way kolo_cost_way_to_last(const struct kolo_cost_query *query,
                                           const struct kolo_walks *walks);

/* ---- where ranks are ---- */

static inline bool kolo_layout_has_several_hosts(const struct kolo_layout *layout)
{
    return layout->hosts && layout->nhosts > 1;
}

/** Whether two ranks are on different hosts. */
static inline bool kolo_layout_are_apart(const struct kolo_layout *layout, int rank, int peer)
{
    return layout->hosts && layout->hosts[rank] != layout->hosts[peer];
}

static inline enum kolo_path kolo_layout_path(const struct kolo_layout *layout, bool is_apart)
{
    if (!is_apart)
        return layout->local;
    return layout->by_rdma ? KOLO_PATH_RDMA : KOLO_PATH_NETWORK;
}

static inline double kolo_layout_ranks_a_host(const struct kolo_layout *layout)
{
    int nhosts = layout->hosts && layout->nhosts > 0 ? layout->nhosts : 1;
    return ceil((double)layout->size / nhosts);
}

static inline double kolo_layout_ranks_a_core(const struct kolo_layout *layout)
{
    return fmax(1, kolo_layout_ranks_a_host(layout) / (layout->cores > 0 ? layout->cores : 1));
}

/** Whether a receiver on the same host reads data where the sender has it. */
static inline bool kolo_path_lends(enum kolo_path path)
{
    return path == KOLO_PATH_INPROC || path == KOLO_PATH_SHM;
}

#endif
