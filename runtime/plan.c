// SPDX-License-Identifier: Apache-2.0
// The table of plans and the choice between them. Order matters twice: a plan's index travels in
// every header, and the first plan of a collective is the one for large vectors.
#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

static const char *const collective_texts[KOLO_COLLECTIVES] = {
#define KOLO_COLLECTIVE_TEXT(name, text) [KOLO_COLLECTIVE_##name] = (text),
    KOLO_COLLECTIVE_MAP(KOLO_COLLECTIVE_TEXT)
#undef KOLO_COLLECTIVE_TEXT
};

const char *kolo_collective_text(enum kolo_collective collective)
{
    return collective < KOLO_COLLECTIVES ? collective_texts[collective] : "?";
}

// clang-format off
#define PLAN(function) .fits = kolo_plan_always, .scratch = kolo_##function##_scratch, \
                       .nsteps = kolo_##function##_nsteps, .step = kolo_##function##_step
const struct kolo_plan kolo_plans[] = {
    {"ring", KOLO_COLLECTIVE_ALLREDUCE, "ring reduce-scatter, then ring allgather",
     .closes = true, PLAN(ring_allreduce)},
    {"doubling", KOLO_COLLECTIVE_ALLREDUCE, "recursive doubling: whole vectors between pairs, log2(n) steps",
     .closes = true, PLAN(doubling_allreduce)},
    {"ring", KOLO_COLLECTIVE_REDUCE, "pipelined chain that ends at the root",
     .is_segmented = true, PLAN(chain_reduce)},
    {"tree", KOLO_COLLECTIVE_REDUCE, "binomial tree, whole vectors", PLAN(tree_reduce)},
    {"ring", KOLO_COLLECTIVE_BROADCAST, "pipelined chain that begins at the root",
     .is_segmented = true, PLAN(chain_broadcast)},
    {"tree", KOLO_COLLECTIVE_BROADCAST, "binomial tree, whole vectors", PLAN(tree_broadcast)},
    {"ring", KOLO_COLLECTIVE_ALLGATHER, "each block once round the ring",
     .closes = true, PLAN(ring_allgather)},
    {"ring", KOLO_COLLECTIVE_REDUCE_SCATTER, "each block once round the ring, reduced on its way",
     .closes = true, PLAN(ring_reduce_scatter)},
    {"direct", KOLO_COLLECTIVE_GATHER, "every rank sends to the root", PLAN(direct_gather)},
    {"direct", KOLO_COLLECTIVE_SCATTER, "the root sends to every rank", PLAN(direct_scatter)},
    {"dissemination", KOLO_COLLECTIVE_BARRIER, "distances 1, 2, 4, ... round the ring",
     .closes = true, PLAN(dissemination_barrier)},
    {.name = NULL},
};
// clang-format on

const struct kolo_plan *kolo_plan_find(enum kolo_collective collective, const char *name)
{
    for (const struct kolo_plan *plan = kolo_plans; plan->name != NULL; plan++)
        if (plan->collective == collective && strcmp(plan->name, name) == 0)
            return plan;
    return NULL;
}

bool kolo_plan_is_known(const char *name, char *known, size_t capacity)
{
    bool is_known = strcmp(name, "auto") == 0;
    snprintf(known, capacity, "auto");
    for (const struct kolo_plan *plan = kolo_plans; plan->name != NULL; plan++) {
        is_known |= strcmp(plan->name, name) == 0;
        size_t used = strlen(known);
        if (strstr(known, plan->name) == NULL)
            snprintf(known + used, capacity - used, ", %s", plan->name);
    }
    return is_known;
}

static const struct kolo_plan *first_plan(enum kolo_collective collective)
{
    const struct kolo_plan *plan = kolo_plans;
    while (plan->collective != collective)
        plan++;
    return plan;
}

const struct kolo_plan *kolo_plan_choose(enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t bytes,
                                         size_t small_bytes, const char *forced)
{
    static const char *const small_plans[KOLO_COLLECTIVES] = {
        [KOLO_COLLECTIVE_ALLREDUCE] = "doubling",
        [KOLO_COLLECTIVE_REDUCE] = "tree",
        [KOLO_COLLECTIVE_BROADCAST] = "tree",
    };
    const struct kolo_plan *plan = kolo_plan_find(collective, forced);
    if (plan != NULL && plan->fits(args) == NULL)
        return plan;
    if (small_plans[collective] != NULL && bytes <= small_bytes) {
        plan = kolo_plan_find(collective, small_plans[collective]);
        if (plan != NULL && plan->fits(args) == NULL)
            return plan;
    }
    return first_plan(collective);
}

void kolo_step_clear(struct kolo_step *step)
{
    *step = (struct kolo_step){.to = -1, .from = -1};
}

size_t kolo_plan_block(const struct kolo_plan_args *args, int rank)
{
    return args->counts != NULL ? args->counts[rank] : args->count;
}

size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank)
{
    return args->counts != NULL ? args->displs[rank] : args->count * (size_t)rank;
}

const char *kolo_plan_always(const struct kolo_plan_args *args)
{
    (void)args;
    return NULL;
}

size_t kolo_plan_no_scratch(const struct kolo_plan_args *args)
{
    (void)args;
    return 0;
}
