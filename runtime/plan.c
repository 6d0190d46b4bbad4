// SPDX-License-Identifier: Apache-2.0
// Owns the table of plans, the choice of a plan without the cost model (kolo_plan_choose), and
// helpers for the files of plans. The order of the table matters twice: a plan's index travels in
// every header, and the first plan of a collective is the one for long vectors.
#include "runtime/plan.h"

#include <stdatomic.h>
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

static const char *always(const struct kolo_plan_args *args)
{
    (void)args;
    return NULL;
}

static const char *only_by_setting(const struct kolo_plan_args *args)
{
    (void)args;
    return "KOLO_NESTED_BYTES chooses it, by size";
}

static size_t no_steps(const struct kolo_plan_args *args)
{
    (void)args;
    return 0;
}

static size_t no_scratch(const struct kolo_plan_args *args)
{
    (void)args;
    return 0;
}

// clang-format off
#define ALWAYS .fits = always
#define RUNS(function) .nsteps = kolo_##function##_nsteps, .step = kolo_##function##_step
#define NO_SCRATCH .scratch = no_scratch
#define SCRATCH(function) .scratch = kolo_##function##_scratch
#define WINDOW(function) .window = kolo_##function##_window
#define ON_BOARD .closes = true, .on_board = true, .is_ordered = true, .fits = always, \
                 .scratch = no_scratch, .nsteps = no_steps
#define ONESHOT(name) \
    {"oneshot", KOLO_COLLECTIVE_##name, "each rank publishes its whole contribution in shared memory, and takes what it needs", \
     .is_oneshot = true, ON_BOARD}
#define TWOSHOT(name) \
    {"twoshot", KOLO_COLLECTIVE_##name, "each rank moves its share from all ranks' memory into all ranks' memory", \
     ON_BOARD}
const struct kolo_plan kolo_plans[] = {
    {"ring", KOLO_COLLECTIVE_ALLREDUCE, "ring reduce-scatter, then ring allgather",
     .closes = true, .is_segmented = true,
     ALWAYS, NO_SCRATCH, RUNS(ring_allreduce), WINDOW(ring_allreduce)},
    {"doubling", KOLO_COLLECTIVE_ALLREDUCE, "recursive doubling: whole vectors between pairs, log2(n) steps",
     .closes = true, ALWAYS, SCRATCH(doubling_allreduce), RUNS(doubling_allreduce)},
    {"ring", KOLO_COLLECTIVE_REDUCE, "pipelined chain that ends at the root",
     .is_segmented = true, .depth = KOLO_DEPTH_CHAIN,
     ALWAYS, SCRATCH(chain_reduce), RUNS(chain_reduce), WINDOW(chain)},
    {"tree", KOLO_COLLECTIVE_REDUCE, "binomial tree, whole vectors",
     .depth = KOLO_DEPTH_TREE, ALWAYS, SCRATCH(tree_reduce), RUNS(tree_reduce)},
    {"ring", KOLO_COLLECTIVE_BROADCAST, "pipelined chain that begins at the root",
     .is_segmented = true, .depth = KOLO_DEPTH_CHAIN,
     ALWAYS, NO_SCRATCH, RUNS(chain_broadcast), WINDOW(chain)},
    {"tree", KOLO_COLLECTIVE_BROADCAST, "binomial tree, whole vectors",
     .depth = KOLO_DEPTH_TREE, ALWAYS, NO_SCRATCH, RUNS(tree_broadcast)},
    {"ring", KOLO_COLLECTIVE_ALLGATHER, "each block once round the ring",
     .closes = true, .is_segmented = true, ALWAYS, NO_SCRATCH, RUNS(ring_allgather), WINDOW(ring_rounds)},
    {"ring", KOLO_COLLECTIVE_REDUCE_SCATTER, "each block once round the ring, reduced on its way",
     .closes = true, .is_segmented = true,
     ALWAYS, SCRATCH(ring_reduce_scatter), RUNS(ring_reduce_scatter), WINDOW(ring_rounds)},
    {"direct", KOLO_COLLECTIVE_GATHER, "every rank sends to the root",
     ALWAYS, NO_SCRATCH, .nsteps = kolo_direct_rooted_nsteps, .step = kolo_direct_gather_step, WINDOW(direct_rooted)},
    {"direct", KOLO_COLLECTIVE_SCATTER, "the root sends to every rank",
     ALWAYS, NO_SCRATCH, .nsteps = kolo_direct_rooted_nsteps, .step = kolo_direct_scatter_step, WINDOW(direct_rooted)},
    {"dissemination", KOLO_COLLECTIVE_BARRIER, "distances 1, 2, 4, ... round the ring",
     .closes = true, ALWAYS, NO_SCRATCH, RUNS(dissemination_barrier)},
    {"direct", KOLO_COLLECTIVE_ALLREDUCE, "each rank reduces a chunk in the order of ranks and sends it to all",
     .closes = true, .is_segmented = true, .is_ordered = true,
     .fits = kolo_fold_fits, SCRATCH(direct_allreduce), RUNS(direct_allreduce), WINDOW(direct_allreduce)},
    {"flat", KOLO_COLLECTIVE_ALLREDUCE, "whole vectors from each rank to each other, reduced in the order of ranks",
     .closes = true, .is_ordered = true,
     .fits = kolo_flat_fits, SCRATCH(flat_allreduce), .held = kolo_flat_held, RUNS(flat_allreduce), WINDOW(flat_allreduce)},
    {"direct", KOLO_COLLECTIVE_REDUCE, "each rank reduces a chunk in the order of ranks and sends it to the root",
     .closes = true, .is_segmented = true, .is_ordered = true,
     .fits = kolo_fold_fits, SCRATCH(direct_reduce), RUNS(direct_reduce), WINDOW(direct_reduce)},
    {"flat", KOLO_COLLECTIVE_REDUCE, "whole vectors to the root, reduced in the order of ranks",
     .is_ordered = true, .fits = kolo_flat_fits, SCRATCH(flat_reduce), .held = kolo_flat_held, RUNS(flat_reduce), WINDOW(flat_reduce)},
    {"direct", KOLO_COLLECTIVE_REDUCE_SCATTER, "each rank receives its block from all and reduces it in the order of ranks",
     .closes = true, .is_segmented = true, .is_ordered = true,
     .fits = kolo_fold_fits, SCRATCH(direct_reduce_scatter), RUNS(direct_reduce_scatter), WINDOW(direct_reduce_scatter)},
    {"direct", KOLO_COLLECTIVE_ALLGATHER, "every rank sends its block to every other",
     .closes = true, ALWAYS, NO_SCRATCH, .nsteps = kolo_direct_nsteps, .step = kolo_direct_allgather_step, WINDOW(direct)},
    {"direct", KOLO_COLLECTIVE_ALLTOALL, "every block directly to its destination",
     .closes = true, ALWAYS, NO_SCRATCH, .nsteps = kolo_direct_nsteps, .step = kolo_direct_alltoall_step, WINDOW(direct)},
    ONESHOT(ALLREDUCE), TWOSHOT(ALLREDUCE), ONESHOT(REDUCE), TWOSHOT(REDUCE),
    ONESHOT(BROADCAST), TWOSHOT(BROADCAST), ONESHOT(ALLGATHER), TWOSHOT(ALLGATHER),
    ONESHOT(REDUCE_SCATTER), TWOSHOT(REDUCE_SCATTER), ONESHOT(GATHER), TWOSHOT(GATHER),
    ONESHOT(SCATTER), TWOSHOT(SCATTER), ONESHOT(BARRIER), ONESHOT(ALLTOALL), TWOSHOT(ALLTOALL),
    {"spread", KOLO_COLLECTIVE_BROADCAST, "whole vectors in the rounds of the barrier",
     .closes = true, .depth = KOLO_DEPTH_ROUNDS, ALWAYS, NO_SCRATCH, RUNS(spread_broadcast)},
    {"bruck", KOLO_COLLECTIVE_ALLGATHER, "twice as many blocks each round, log2(n) rounds",
     .closes = true, .fits = kolo_bruck_fits, SCRATCH(bruck_allgather), RUNS(bruck_allgather)},
    {"halving", KOLO_COLLECTIVE_ALLREDUCE, "recursive halving, then recursive doubling of chunks: 2 log2(n) rounds, a ring's bytes",
     .closes = true, ALWAYS, NO_SCRATCH, RUNS(halving_allreduce), WINDOW(halving)},
    {"halving", KOLO_COLLECTIVE_REDUCE_SCATTER, "half as many blocks each round, log2(n) rounds",
     .closes = true, .fits = kolo_bruck_fits, SCRATCH(halving_reduce_scatter), RUNS(halving_reduce_scatter), WINDOW(halving)},
    {"doubling", KOLO_COLLECTIVE_ALLGATHER, "twice as many blocks each round, from where they are to where they belong",
     .closes = true, .fits = kolo_bruck_fits, NO_SCRATCH, RUNS(halving_allgather), WINDOW(halving)},
    {"bruck", KOLO_COLLECTIVE_ALLTOALL, "half of all blocks each round, packed, log2(n) rounds",
     .closes = true, .fits = kolo_bruck_fits, SCRATCH(bruck_alltoall), .held = kolo_bruck_alltoall_held, RUNS(bruck_alltoall)},
    {"tree", KOLO_COLLECTIVE_GATHER, "binomial tree, the blocks of a subtree together",
     .depth = KOLO_DEPTH_TREE, .fits = kolo_bruck_fits, SCRATCH(tree_rooted),
     .nsteps = kolo_tree_rooted_nsteps, .step = kolo_tree_gather_step, WINDOW(tree_rooted)},
    {"tree", KOLO_COLLECTIVE_SCATTER, "binomial tree, the blocks of a subtree together",
     .depth = KOLO_DEPTH_TREE, .fits = kolo_bruck_fits, SCRATCH(tree_rooted),
     .nsteps = kolo_tree_rooted_nsteps, .step = kolo_tree_scatter_step, WINDOW(tree_rooted)},
    {"twolevel", KOLO_COLLECTIVE_ALLREDUCE, "in pieces: halving inside hosts, halving and doubling across them with one share per local rank, doubling inside",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_twolevel_fits, NO_SCRATCH, RUNS(twolevel_allreduce), WINDOW(twolevel_allreduce)},
    {"twolevel", KOLO_COLLECTIVE_BROADCAST, "binomial tree over hosts, then inside each",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_twolevel_fits, NO_SCRATCH, RUNS(twolevel_broadcast)},
    {"twolevel", KOLO_COLLECTIVE_REDUCE, "binomial tree inside each host, then over hosts",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_twolevel_fits, SCRATCH(twolevel_reduce), RUNS(twolevel_reduce)},
    {"twolevel", KOLO_COLLECTIVE_BARRIER, "to one rank of each host, between those, and back",
     .is_by_hosts = true, .closes = true, .fits = kolo_twolevel_fits, NO_SCRATCH, RUNS(twolevel_barrier)},
    {"scattered", KOLO_COLLECTIVE_BROADCAST, "chunks along a binomial tree, then recursive doubling of chunks",
     .closes = true, .depth = KOLO_DEPTH_TREE,
     ALWAYS, NO_SCRATCH, RUNS(scattered_broadcast), WINDOW(scattered_broadcast)},
    {"binary", KOLO_COLLECTIVE_BROADCAST, "pipelined binary tree",
     .is_segmented = true, .depth = KOLO_DEPTH_TREE, ALWAYS, NO_SCRATCH, RUNS(binary_broadcast), WINDOW(binary_broadcast)},
    {"binary", KOLO_COLLECTIVE_REDUCE, "pipelined binary tree",
     .is_segmented = true, .depth = KOLO_DEPTH_TREE, ALWAYS, SCRATCH(binary_reduce), RUNS(binary_reduce), WINDOW(binary_reduce)},
    {"twolevel", KOLO_COLLECTIVE_ALLGATHER, "each block to one rank of each other host, which spreads it there",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_twolevel_fits, NO_SCRATCH, RUNS(twolevel_allgather), WINDOW(twolevel_blocks)},
    {"twolevel", KOLO_COLLECTIVE_REDUCE_SCATTER, "each block summed by one rank of each other host, which sends it to its owner",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_twolevel_fits, SCRATCH(twolevel_reduce_scatter),
     RUNS(twolevel_reduce_scatter), WINDOW(twolevel_blocks)},
    {"twolevel", KOLO_COLLECTIVE_ALLTOALL, "all blocks of a rank for another host in one message, distributed there",
     .is_by_hosts = true, .closes = true, .fits = kolo_twolevel_alltoall_fits, SCRATCH(twolevel_alltoall), .held = kolo_twolevel_alltoall_held, RUNS(twolevel_alltoall), WINDOW(twolevel_alltoall)},
    {"numa", KOLO_COLLECTIVE_ALLREDUCE, "as twolevel; inside hosts, halving and doubling in NUMA nodes, then between them",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_numa_allreduce_fits, NO_SCRATCH, RUNS(numa_allreduce), WINDOW(numa_allreduce)},
    {"numa", KOLO_COLLECTIVE_BROADCAST, "binomial tree over NUMA nodes, then inside each",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_numa_fits, NO_SCRATCH, RUNS(numa_broadcast)},
    {"numa", KOLO_COLLECTIVE_REDUCE, "binomial tree inside each NUMA node, then over them",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_numa_fits, SCRATCH(numa_reduce), RUNS(numa_reduce)},
    {"numa", KOLO_COLLECTIVE_ALLGATHER, "each block to one rank of each other NUMA node, which spreads it there",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_numa_fits, NO_SCRATCH, RUNS(numa_allgather), WINDOW(twolevel_blocks)},
    {"numa", KOLO_COLLECTIVE_REDUCE_SCATTER, "each block summed by one rank of each other NUMA node, which sends it to its owner",
     .is_by_hosts = true, .closes = true, .is_segmented = true, .fits = kolo_numa_fits, SCRATCH(numa_reduce_scatter),
     RUNS(numa_reduce_scatter), WINDOW(twolevel_blocks)},
    {"leaders", KOLO_COLLECTIVE_ALLREDUCE, "whole vectors to one rank of each host, recursive doubling between those, and back",
     .is_by_hosts = true, .closes = true, .fits = kolo_twolevel_fits, SCRATCH(leaders_allreduce), RUNS(leaders_allreduce), WINDOW(leaders_allreduce)},
    {"leaders", KOLO_COLLECTIVE_ALLGATHER, "all blocks of a host to one of its ranks, between those, and all blocks to all ranks inside",
     .is_by_hosts = true, .closes = true, .fits = kolo_leaders_blocks_fits, NO_SCRATCH, RUNS(leaders_allgather), WINDOW(leaders_allgather)},
    {"leaders", KOLO_COLLECTIVE_REDUCE_SCATTER, "whole vectors to one rank of each host, which reduces its host's blocks and distributes them",
     .is_by_hosts = true, .closes = true, .fits = kolo_leaders_blocks_fits, SCRATCH(leaders_reduce_scatter), .held = kolo_leaders_reduce_scatter_held,
     RUNS(leaders_reduce_scatter), WINDOW(leaders_reduce_scatter)},
    {"leaders", KOLO_COLLECTIVE_GATHER, "all blocks of a host to one rank of it, then to the root",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_leaders_blocks_fits, SCRATCH(leaders_rooted), .held = kolo_leaders_rooted_held,
     .nsteps = kolo_leaders_rooted_nsteps, .step = kolo_leaders_gather_step, WINDOW(leaders_rooted)},
    {"leaders", KOLO_COLLECTIVE_SCATTER, "all blocks of a host to one rank of it, which hands them out",
     .is_by_hosts = true, .depth = KOLO_DEPTH_TREE, .fits = kolo_leaders_blocks_fits, SCRATCH(leaders_rooted), .held = kolo_leaders_rooted_held,
     .nsteps = kolo_leaders_rooted_nsteps, .step = kolo_leaders_scatter_step, WINDOW(leaders_rooted)},
    {"nested", KOLO_COLLECTIVE_ALLREDUCE, "in pieces: reduce_scatter inside hosts, allreduce across them, allgather inside",
     .closes = true, .is_by_hosts = true, .is_nested = true, .fits = only_by_setting, .scratch = no_scratch, .nsteps = no_steps},
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

const struct kolo_plan kolo_plan_notes = {"notes",
                                          KOLO_COLLECTIVE_BROADCAST,
                                          "every rank tells the root that it has entered",
                                          .fits = always,
                                          .scratch = no_scratch,
                                          .nsteps = kolo_notes_nsteps,
                                          .step = kolo_notes_step,
                                          .window = kolo_notes_window};

/** Notes cost one message per rank, and a link from each rank to the root. If a root would wait for
 * more of them than can be in flight, the rounds of a barrier are cheaper. */
static enum kolo_closing closing_of(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    bool is_too_large = args->closing == KOLO_CLOSING_NOTES && args->size - 1 > KOLO_WINDOW_MAX;
    if (plan->collective != KOLO_COLLECTIVE_BROADCAST || plan->closes || is_too_large)
        return KOLO_CLOSING_NOW;
    return args->closing;
}

bool kolo_plan_is_open(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    if (plan->collective != KOLO_COLLECTIVE_BROADCAST || args->size == 1)
        return false;
    return plan->on_board ? plan->is_oneshot : closing_of(plan, args) != KOLO_CLOSING_NOW;
}

const struct kolo_plan *kolo_plan_closing(const struct kolo_plan *plan,
                                          const struct kolo_plan_args *args)
{
    bool is_far = args->hosts != NULL && kolo_twolevel_fits(args) == NULL;
    enum kolo_closing closing = closing_of(plan, args);
    if (closing != KOLO_CLOSING_NOW)
        return closing == KOLO_CLOSING_NOTES ? &kolo_plan_notes : NULL;
    return kolo_plan_find(KOLO_COLLECTIVE_BARRIER, is_far ? "twolevel" : "dissemination");
}

const struct kolo_plan *kolo_plan_on_board(enum kolo_collective collective, bool is_oneshot)
{
    /* every thread writes the same value */
    static _Atomic(const struct kolo_plan *) found[KOLO_COLLECTIVES][2];
    const struct kolo_plan *plan =
        atomic_load_explicit(&found[collective][is_oneshot], memory_order_relaxed);
    if (plan != NULL)
        return plan;
    for (plan = kolo_plans; plan->name != NULL; plan++)
        if (plan->collective == collective && plan->on_board && plan->is_oneshot == is_oneshot)
            break;
    if (plan->name == NULL)
        return NULL;
    atomic_store_explicit(&found[collective][is_oneshot], plan, memory_order_relaxed);
    return plan;
}

kolo_status kolo_plan_check(const char *name)
{
    char known[256];
    bool is_known = strcmp(name, "auto") == 0;
    snprintf(known, sizeof known, "auto");
    for (const struct kolo_plan *plan = kolo_plans; plan->name != NULL; plan++) {
        is_known |= strcmp(plan->name, name) == 0;
        size_t used = strlen(known);
        if (strstr(known, plan->name) == NULL)
            snprintf(known + used, sizeof known - used, ", %s", plan->name);
    }
    return is_known ? KOLO_OK
                    : kolo_fail(KOLO_ERR_CONFIG,
                                "KOLO_PLAN=%s: there is no such plan; use one of %s", name, known);
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
    if (plan != NULL && !plan->on_board && plan->fits(args) == NULL)
        return plan;
    if (small_plans[collective] != NULL && bytes <= small_bytes) {
        plan = kolo_plan_find(collective, small_plans[collective]);
        if (plan != NULL && plan->fits(args) == NULL)
            return plan;
    }
    return first_plan(collective);
}

const char *kolo_plan_fits(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                           size_t element_bytes)
{
    const char *why = plan->fits(args);
    if (why != NULL || plan->held == NULL)
        return why;
    size_t held = plan->held(args);
    return held > 0 && args->count > KOLO_SCRATCH_BYTES / element_bytes / held
               ? "received data would need more than 16 MiB of scratch on a rank"
               : NULL;
}

size_t kolo_plan_window(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    return plan->window != NULL ? plan->window(args) : 1;
}

/* ---- helpers of the plan files ---- */

void kolo_step_clear(struct kolo_step *step)
{
    *step = (struct kolo_step){.to = -1, .from = -1, .after = 1};
}

size_t kolo_plan_block(const struct kolo_plan_args *args, int rank)
{
    return args->counts != NULL ? args->counts[rank] : args->count;
}

size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank)
{
    return args->counts != NULL ? args->displs[rank] : args->count * (size_t)rank;
}

size_t kolo_plan_mean_block(const struct kolo_plan_args *args)
{
    size_t total = 0;
    if (args->send_counts != NULL)
        return 0;
    if (args->counts == NULL)
        return args->count;
    for (int rank = 0; rank < args->size; rank++)
        total += args->counts[rank];
    return total / (size_t)args->size;
}

struct kolo_slice kolo_plan_block_in(const struct kolo_plan_args *args, int rank,
                                     enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, kolo_plan_block_offset(args, rank),
                               kolo_plan_block(args, rank)};
}

struct kolo_slice kolo_plan_chunk(const struct kolo_plan_args *args, long index,
                                  enum kolo_buffer buffer)
{
    size_t n = (size_t)args->size;
    long wrapped = index % args->size;
    size_t c = (size_t)(wrapped < 0 ? wrapped + args->size : wrapped);
    size_t base = args->count / n, extra = args->count % n;
    return (struct kolo_slice){buffer, c * base + (c < extra ? c : extra), base + (c < extra)};
}

size_t kolo_pieces(size_t count, size_t length)
{
    size_t pieces = count / length + (count % length != 0);
    return pieces > 0 ? pieces : 1;
}

struct kolo_slice kolo_slice_piece(struct kolo_slice slice, size_t index, size_t length)
{
    size_t first = index * length < slice.count ? index * length : slice.count;
    size_t left = slice.count - first;
    return (struct kolo_slice){slice.buffer, slice.offset + first, left < length ? left : length};
}

int kolo_plan_position(const struct kolo_plan_args *args, int rank)
{
    const struct kolo_topology *hosts = args->hosts;
    return hosts == NULL ? rank : hosts->first[hosts->of[rank]] + hosts->local[rank];
}

int kolo_plan_rank_at(const struct kolo_plan_args *args, int position)
{
    return args->hosts == NULL ? position : args->hosts->ranks[position];
}

int kolo_plan_rank_on(const struct kolo_plan_args *args, int host, int local)
{
    return args->hosts->ranks[args->hosts->first[host] + local];
}

struct kolo_slice kolo_plan_blocks_on(const struct kolo_plan_args *args, int host,
                                      enum kolo_buffer buffer)
{
    const int *first = &args->hosts->first[host];
    return (struct kolo_slice){buffer, (size_t)first[0] * args->count,
                               (size_t)(first[1] - first[0]) * args->count};
}

int kolo_plan_children(int position, int size)
{
    int count = 0;
    for (int bit = 1; position + bit < size && (position & bit) == 0; bit <<= 1)
        count++;
    return count;
}

int kolo_plan_wrap(int rank, int size)
{
    return rank < 0 ? rank + size : rank >= size ? rank - size : rank;
}
