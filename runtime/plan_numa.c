// SPDX-License-Identifier: Apache-2.0
// Plans by NUMA domain: as little as possible goes between domains, as in the two-level plans
// between hosts. They are the same functions with domains in place of hosts, and are meant for a
// single host. On several hosts more goes over the wire than with twolevel, which the cost model
// knows. Allreduce has a separate level for each (plan_twolevel.c).
#include "runtime/plan.h"

const char *kolo_numa_fits(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    if (!hosts || hosts->domains.count == hosts->count)
        return "the ranks of a host are on one NUMA node, or it is not known";
    return hosts->domains.count == args->size ? "every rank is on a NUMA node of its own" : NULL;
}

/** The arguments of the two-level plan, with domains in place of hosts. */
static struct kolo_plan_args by_domain(const struct kolo_plan_args *args,
                                       struct kolo_topology *hosts)
{
    struct kolo_plan_args own = *args;
    *hosts = kolo_topology_of_domains(args->hosts);
    own.hosts = hosts;
    return own;
}

#define BY_DOMAIN(result, name, which)                                                             \
    static result numa_##name##_##which(const struct kolo_plan_args *args)                         \
    {                                                                                              \
        struct kolo_topology hosts;                                                                \
        struct kolo_plan_args own = by_domain(args, &hosts);                                       \
        return kolo_plan_twolevel_##name.which(&own);                                              \
    }
#define STEPS_BY_DOMAIN(name)                                                                      \
    BY_DOMAIN(size_t, name, nsteps)                                                                \
    static void numa_##name##_step(const struct kolo_plan_args *args, size_t index,                \
                                   struct kolo_step *step_out)                                     \
    {                                                                                              \
        struct kolo_topology hosts;                                                                \
        struct kolo_plan_args own = by_domain(args, &hosts);                                       \
        kolo_plan_twolevel_##name.step(&own, index, step_out);                                     \
    }
STEPS_BY_DOMAIN(broadcast)
STEPS_BY_DOMAIN(reduce)
BY_DOMAIN(size_t, reduce, scratch)
STEPS_BY_DOMAIN(allgather)
STEPS_BY_DOMAIN(reduce_scatter)
BY_DOMAIN(size_t, reduce_scatter, scratch)

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_numa_broadcast = {
    .name = "numa",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_NUMA_BROADCAST,
    .summary = "binomial tree over NUMA nodes, then inside each",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_numa_fits,
    .scratch = kolo_no_scratch,
    .nsteps = numa_broadcast_nsteps,
    .step = numa_broadcast_step,
};

const struct kolo_plan kolo_plan_numa_reduce = {
    .name = "numa",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_NUMA_REDUCE,
    .summary = "binomial tree inside each NUMA node, then over them",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_numa_fits,
    .scratch = numa_reduce_scratch,
    .nsteps = numa_reduce_nsteps,
    .step = numa_reduce_step,
};

const struct kolo_plan kolo_plan_numa_allgather = {
    .name = "numa",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_NUMA_ALLGATHER,
    .summary = "each block to one rank of each other NUMA node, which spreads it there",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = kolo_numa_fits,
    .scratch = kolo_no_scratch,
    .nsteps = numa_allgather_nsteps,
    .window = kolo_twolevel_blocks_window,
    .step = numa_allgather_step,
};

const struct kolo_plan kolo_plan_numa_reduce_scatter = {
    .name = "numa",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_NUMA_REDUCE_SCATTER,
    .summary = "each block summed by one rank of each other NUMA node, which sends it to its owner",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = kolo_numa_fits,
    .scratch = numa_reduce_scatter_scratch,
    .nsteps = numa_reduce_scatter_nsteps,
    .window = kolo_twolevel_blocks_window,
    .step = numa_reduce_scatter_step,
};
