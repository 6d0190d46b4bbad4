// SPDX-License-Identifier: Apache-2.0
// Direct gather and scatter (the root's links are the limit whatever the path), and the
// dissemination barrier: in round k every rank tells the one 2^k further and hears from the one 2^k
// before it, so after ceil(log2 n) rounds it has heard, through others, from all.
#include "runtime/plan.h"

/** The rank that the root serves in step @p index: root+1, root+2, ... */
static int served(const struct kolo_plan_args *args, size_t index)
{
    return (int)(((size_t)args->root + 1 + index) % (size_t)args->size);
}

static size_t rooted_nsteps(const struct kolo_plan_args *args)
{
    return args->rank == args->root && args->size > 1 ? (size_t)args->size - 1 : 1;
}

size_t kolo_direct_gather_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_direct_gather_nsteps(const struct kolo_plan_args *args)
{
    return rooted_nsteps(args);
}

static struct kolo_slice block(const struct kolo_plan_args *args, int rank)
{
    return (struct kolo_slice){KOLO_BUFFER_RECV, kolo_plan_block_offset(args, rank),
                               kolo_plan_block(args, rank)};
}

void kolo_direct_gather_step(const struct kolo_plan_args *args, size_t index,
                             struct kolo_step *step_out)
{
    struct kolo_slice mine = {KOLO_BUFFER_SEND, 0, kolo_plan_block(args, args->rank)};
    kolo_step_clear(step_out);
    if (args->rank != args->root) {
        step_out->to = args->root;
        step_out->out = mine;
        return;
    }
    if (index == 0) {
        step_out->copy_from = mine;
        step_out->copy_to = block(args, args->rank);
    }
    if (args->size > 1) {
        step_out->from = served(args, index);
        step_out->in = block(args, step_out->from);
    }
}

size_t kolo_direct_scatter_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_direct_scatter_nsteps(const struct kolo_plan_args *args)
{
    return rooted_nsteps(args);
}

void kolo_direct_scatter_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    struct kolo_slice mine = {KOLO_BUFFER_RECV, 0, args->count};
    kolo_step_clear(step_out);
    if (args->rank != args->root) {
        step_out->from = args->root;
        step_out->in = mine;
        return;
    }
    if (index == 0) {
        step_out->copy_from =
            (struct kolo_slice){KOLO_BUFFER_SEND, args->count * (size_t)args->rank, args->count};
        step_out->copy_to = mine;
    }
    if (args->size > 1) {
        step_out->to = served(args, index);
        step_out->out =
            (struct kolo_slice){KOLO_BUFFER_SEND, args->count * (size_t)step_out->to, args->count};
    }
}

size_t kolo_dissemination_barrier_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_dissemination_barrier_nsteps(const struct kolo_plan_args *args)
{
    size_t rounds = 0;
    while ((1L << rounds) < args->size)
        rounds++;
    return rounds;
}

void kolo_dissemination_barrier_step(const struct kolo_plan_args *args, size_t index,
                                     struct kolo_step *step_out)
{
    long distance = 1L << index;
    kolo_step_clear(step_out);
    step_out->to = (int)((args->rank + distance) % args->size);
    step_out->from = (int)((args->rank - distance + args->size) % args->size);
}
