// SPDX-License-Identifier: Apache-2.0
// Plans by NUMA domain: as little as possible goes between domains, as in the two-level plans
// between hosts. They are the same functions with domains in place of hosts, and are meant for a
// single host. On several hosts more goes over the wire than with twolevel, which the cost model
// knows. Allreduce has a separate level for each (plan_twolevel.c).
#include "runtime/plan.h"

const char *kolo_numa_fits(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    if (hosts == NULL || hosts->domains.count == hosts->count)
        return "the ranks of a host are on one NUMA node, or it is not known";
    return hosts->domains.count == args->size ? "every rank is on a NUMA node of its own" : NULL;
}

const char *kolo_numa_allreduce_fits(const struct kolo_plan_args *args)
{
    const char *why = kolo_numa_fits(args);
    if (why == NULL && args->hosts->domains.a_host == 0)
        return "some hosts have ranks on more NUMA nodes than others";
    return why;
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
    result kolo_numa_##name##_##which(const struct kolo_plan_args *args)                           \
    {                                                                                              \
        struct kolo_topology hosts;                                                                \
        struct kolo_plan_args own = by_domain(args, &hosts);                                       \
        return kolo_twolevel_##name##_##which(&own);                                               \
    }
#define STEPS_BY_DOMAIN(name)                                                                      \
    BY_DOMAIN(size_t, name, nsteps)                                                                \
    void kolo_numa_##name##_step(const struct kolo_plan_args *args, size_t index,                  \
                                 struct kolo_step *step_out)                                       \
    {                                                                                              \
        struct kolo_topology hosts;                                                                \
        struct kolo_plan_args own = by_domain(args, &hosts);                                       \
        kolo_twolevel_##name##_step(&own, index, step_out);                                        \
    }
STEPS_BY_DOMAIN(broadcast)
STEPS_BY_DOMAIN(reduce)
BY_DOMAIN(size_t, reduce, scratch)
STEPS_BY_DOMAIN(allgather)
STEPS_BY_DOMAIN(reduce_scatter)
BY_DOMAIN(size_t, reduce_scatter, scratch)
