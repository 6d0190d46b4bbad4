// SPDX-License-Identifier: Apache-2.0
// Checks results: from the definition of each collective alone, never from the plan, it computes
// which symbol belongs in each element of RECV, and reports a rank that has another.
#include "tests/support/simulate_world.h"

static struct kolo_sim_symbol whole_sum(const struct kolo_sim_world *world, size_t offset)
{
    struct kolo_sim_symbol sum = kolo_sim_contribution(0, offset);
    for (int rank = 1; rank < world->what->size; rank++)
        sum = kolo_sim_combine(sum, kolo_sim_contribution(rank, offset));
    return kolo_sim_finished(sum);
}

/** The symbol at @p offset of a vector that is gathered from the blocks of all ranks; @p is_mine:
 * from each rank's block for this one. */
static struct kolo_sim_symbol gathered(const struct kolo_sim_world *world,
                                       const struct kolo_sim_actor *actor, size_t offset,
                                       bool is_mine)
{
    /* Blocks of one length: the owner follows from the offset. */
    const bool is_even = !actor->args.counts && actor->args.count > 0;
    for (int rank = is_even ? (int)(offset / actor->args.count) : 0; rank < world->what->size;
         rank++) {
        const struct kolo_plan_args *theirs = &world->actors[rank].args;
        size_t first = kolo_plan_block_offset(&actor->args, rank), base = 0;
        if (offset < first || offset - first >= kolo_plan_block(&actor->args, rank))
            continue;
        if (is_mine)
            base = theirs->send_displs ? theirs->send_displs[actor->args.rank]
                                       : theirs->count * (size_t)actor->args.rank;
        return kolo_sim_contribution(rank, base + offset - first);
    }
    return (struct kolo_sim_symbol){0, 0};
}

/** The symbol that element @p offset of RECV must have on @p actor. A sum of 0: nothing may have
 * been written. */
static struct kolo_sim_symbol expected(const struct kolo_sim_world *world,
                                       const struct kolo_sim_actor *actor, size_t offset)
{
    size_t first = kolo_plan_block_offset(&actor->args, actor->args.rank);
    switch (world->what->plan->collective) {
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
        return whole_sum(world, offset);
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
        return whole_sum(world, offset + first);
    case KOLO_COLLECTIVE_BROADCAST:
        return kolo_sim_contribution(actor->args.root, offset);
    case KOLO_COLLECTIVE_SCATTER:
        return kolo_sim_contribution(world->what->root, offset + first);
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        return gathered(world, actor, offset, false);
    case KOLO_COLLECTIVE_ALLTOALL:
        return gathered(world, actor, offset, true);
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    return (struct kolo_sim_symbol){0, 0};
}

/** Whether the result is the same on all ranks that have a RECV. */
static bool is_common(enum kolo_collective collective)
{
    return collective == KOLO_COLLECTIVE_ALLREDUCE || collective == KOLO_COLLECTIVE_REDUCE ||
           collective == KOLO_COLLECTIVE_BROADCAST || collective == KOLO_COLLECTIVE_ALLGATHER ||
           collective == KOLO_COLLECTIVE_GATHER;
}

static kolo_status check_element(const struct kolo_sim_world *world,
                                 const struct kolo_sim_actor *actor, size_t offset,
                                 struct kolo_sim_symbol right)
{
    enum kolo_collective collective = world->what->plan->collective;
    uint32_t sample = world->sample_of[offset];
    const struct kolo_sim_symbol *found = &actor->recv[sample];
    bool combines = collective == KOLO_COLLECTIVE_ALLREDUCE ||
                    collective == KOLO_COLLECTIVE_REDUCE ||
                    collective == KOLO_COLLECTIVE_REDUCE_SCATTER;
    if (found->sum != right.sum)
        return KOLO_SIM_OBJECT(actor, "element %zu of the result is wrong", offset);
    if (world->what->plan->is_ordered && combines && found->order != right.order)
        return KOLO_SIM_OBJECT(
            actor, "element %zu of the result was not folded in the order of ranks", offset);
    if (collective == KOLO_COLLECTIVE_ALLREDUCE &&
        found->order != world->actors[0].recv[sample].order)
        return KOLO_SIM_OBJECT(actor, "element %zu of the result differs from rank 0 in its order",
                               offset);
    return KOLO_OK;
}

kolo_status kolo_sim_check_call(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor)
{
    kolo_status status = KOLO_OK;
    for (size_t offset = 0; offset < actor->recv_count; offset++)
        if (world->sample_of[offset] != UINT32_MAX)
            KOLO_TRY(check_element(world, actor, offset, expected(world, actor, offset)));
out:
    return status;
}

kolo_status kolo_sim_check_results(const struct kolo_sim_world *world)
{
    kolo_status status = KOLO_OK;
    bool common = is_common(world->what->plan->collective);
    for (size_t offset = 0; offset < world->recv_count; offset++) {
        struct kolo_sim_symbol right = {0, 0};
        if (world->sample_of[offset] == UINT32_MAX)
            continue;
        if (common)
            right = expected(world, &world->actors[0], offset);
        for (int rank = 0; rank < world->what->size; rank++) {
            const struct kolo_sim_actor *actor = &world->actors[rank];
            if (offset >= actor->recv_count)
                continue;
            if (!common)
                right = expected(world, actor, offset);
            KOLO_TRY(check_element(world, actor, offset, right));
        }
    }
out:
    return status;
}
