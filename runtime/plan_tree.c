// SPDX-License-Identifier: Apache-2.0
// Binomial trees, for vectors so short that the number of steps costs most. With v = rank - root
// (modulo n), the parent of v is v without its lowest set bit, and its children are v + 1, v + 2, v
// + 4, ... below that bit. The subtree of v covers v, v+1, ..., so a reduction keeps its operands
// in the order of v.
//
// gather and scatter move the blocks of a subtree together: in scratch they are ordered by
// position, in the root's vector by rank. There at most one subtree continues beyond the last rank;
// it is sent as two messages.
#include "runtime/plan.h"

struct node {
    int position; /* v */
    int children;
};

static struct node node_of(const struct kolo_plan_args *args)
{
    int v = args->rank - args->root;
    struct node node = {.position = v < 0 ? v + args->size : v};
    for (int bit = 1; node.position + bit < args->size && (node.position & bit) == 0; bit <<= 1)
        node.children++;
    return node;
}

static int rank_at(const struct kolo_plan_args *args, int position)
{
    int rank = position + args->root;
    return rank >= args->size ? rank - args->size : rank;
}

static int parent_of(const struct kolo_plan_args *args, const struct node *node)
{
    return rank_at(args, node->position & (node->position - 1));
}

static size_t tree_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)node.children + (node.position != 0);
}

static void tree_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    struct node node = node_of(args);
    bool is_root = node.position == 0;
    kolo_step_clear(step_out);
    if (!is_root && index == 0) {
        step_out->from = parent_of(args, &node);
        step_out->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        return;
    }
    int child = node.children - 1 - ((int)index - !is_root); /* the largest subtree first */
    step_out->to = rank_at(args, node.position + (1 << child));
    step_out->out = kolo_slice_whole(args, is_root ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
}

static size_t tree_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return node.position != 0 && node.children > 0 ? args->count : 0;
}

static size_t tree_reduce_nsteps(const struct kolo_plan_args *args)
{
    return (size_t)node_of(args).children + 1; /* the last step sends to the parent, or finishes */
}

static void tree_reduce_step(const struct kolo_plan_args *args, size_t index,
                             struct kolo_step *step_out)
{
    struct node node = node_of(args);
    bool is_root = node.position == 0;
    enum kolo_buffer sum = is_root ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH;
    kolo_step_clear(step_out);
    if ((int)index < node.children) {
        step_out->from = rank_at(args, node.position + (1 << index));
        step_out->in = kolo_slice_whole(args, sum);
        step_out->local = kolo_slice_whole(args, index == 0 ? KOLO_BUFFER_SEND : sum);
        step_out->reduces = true;
    } else if (is_root) {
        step_out->finish = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        if (args->size == 1) {
            step_out->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
            step_out->copy_to = step_out->finish;
        }
    } else {
        step_out->to = parent_of(args, &node);
        step_out->out = kolo_slice_whole(args, node.children == 0 ? KOLO_BUFFER_SEND : sum);
    }
}

/* ---- gather and scatter ---- */

/** The number of positions in the subtree at @p position. */
static int span_of(const struct kolo_plan_args *args, int position)
{
    int lowest = position & -position, left = args->size - position;
    return position == 0 || lowest > left ? left : lowest;
}

/** Of the subtree at @p position, the blocks up to the last rank's (part 0), or the rest, which
 * begin at rank 0. */
static struct kolo_slice in_vector(const struct kolo_plan_args *args, int position, int part,
                                   enum kolo_buffer buffer)
{
    int first = rank_at(args, position), span = span_of(args, position);
    int before = span < args->size - first ? span : args->size - first;
    size_t from = part == 0 ? (size_t)first : 0,
           count = (size_t)(part == 0 ? before : span - before);
    return (struct kolo_slice){buffer, from * args->count, count * args->count};
}

/** The number of messages between it and its parent. */
static int parts_of(const struct kolo_plan_args *args, int position)
{
    bool is_below_root = (position & (position - 1)) == 0;
    return is_below_root && rank_at(args, position) + span_of(args, position) > args->size ? 2 : 1;
}

/** A message of the root: part `part` of the child at `position`. */
struct serving {
    int position, part;
};

/** The message in step @p index. If there are fewer, their number is in *count. */
static struct serving serving_of(const struct kolo_plan_args *args, const struct node *node,
                                 size_t index, bool largest_first, size_t *count)
{
    struct serving serving = {0, 0};
    *count = 0;
    for (int i = 0; i < node->children && *count <= index; i++) {
        serving.position = 1 << (largest_first ? node->children - 1 - i : i);
        serving.part = index > *count;
        *count += (size_t)parts_of(args, serving.position);
    }
    return serving;
}

static size_t root_steps(const struct kolo_plan_args *args, const struct node *node)
{
    size_t count;
    (void)serving_of(args, node, SIZE_MAX, false, &count);
    return count > 0 ? count : 1;
}

static size_t tree_rooted_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    bool passes_on = node.position != 0 && node.children > 0;
    return passes_on ? (size_t)span_of(args, node.position) * args->count : 0;
}

static size_t tree_rooted_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    if (node.position == 0)
        return root_steps(args, &node);
    return (size_t)(node.children + parts_of(args, node.position));
}

static size_t tree_rooted_window(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    if (node.position == 0)
        return root_steps(args, &node);
    return (size_t)(node.children > 2 ? node.children : 2);
}

/** The place, on this rank, of part @p part of what passes between it and its parent. */
static struct kolo_slice passed(const struct kolo_plan_args *args, const struct node *node,
                                int part, enum kolo_buffer own)
{
    size_t first = in_vector(args, node->position, 0, own).count;
    if (node->children == 0)
        return (struct kolo_slice){own, 0, args->count};
    if (parts_of(args, node->position) == 1)
        return (struct kolo_slice){KOLO_BUFFER_SCRATCH, 0,
                                   (size_t)span_of(args, node->position) * args->count};
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH, part == 0 ? 0 : first,
                               in_vector(args, node->position, part, own).count};
}

/** The subtree of child @p child, in scratch. */
static struct kolo_slice subtree(const struct kolo_plan_args *args, const struct node *node,
                                 int child)
{
    int span = span_of(args, node->position + (1 << child));
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH, ((size_t)1 << child) * args->count,
                               (size_t)span * args->count};
}

static void tree_gather_step(const struct kolo_plan_args *args, size_t index,
                             struct kolo_step *step_out)
{
    struct node node = node_of(args);
    bool is_root = node.position == 0;
    int child = (int)index;
    size_t count;
    kolo_step_clear(step_out);
    step_out->after = index + 1;
    if (index == 0 && (is_root || node.children > 0)) {
        step_out->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step_out->copy_to = is_root ? kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV)
                                    : kolo_slice_whole(args, KOLO_BUFFER_SCRATCH);
    }
    if (is_root && args->size > 1) {
        struct serving serving = serving_of(args, &node, index, false, &count);
        step_out->from = rank_at(args, serving.position);
        step_out->in = in_vector(args, serving.position, serving.part, KOLO_BUFFER_RECV);
    } else if (!is_root && child < node.children) {
        step_out->from = rank_at(args, node.position + (1 << child));
        step_out->in = subtree(args, &node, child);
    } else if (!is_root) {
        step_out->after = index - (size_t)node.children + 1;
        step_out->to = parent_of(args, &node);
        step_out->out = passed(args, &node, child - node.children, KOLO_BUFFER_SEND);
    }
}

static void scatter_root(const struct kolo_plan_args *args, const struct node *node, size_t index,
                         struct kolo_step *step)
{
    size_t count;
    struct serving serving = serving_of(args, node, index, true, &count);
    step->after = index + 1;
    if (index == 0) {
        step->copy_from = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_SEND);
        step->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
    if (args->size == 1)
        return;
    step->to = rank_at(args, serving.position);
    step->out = in_vector(args, serving.position, serving.part, KOLO_BUFFER_SEND);
}

static void tree_scatter_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    struct node node = node_of(args);
    int parts = parts_of(args, node.position), turn = (int)index - parts;
    kolo_step_clear(step_out);
    if (node.position == 0) {
        scatter_root(args, &node, index, step_out);
    } else if (turn < 0) {
        step_out->after = index + 1;
        step_out->from = parent_of(args, &node);
        step_out->in = passed(args, &node, (int)index, KOLO_BUFFER_RECV);
    } else {
        int child = node.children - 1 - turn; /* the largest subtree first */
        step_out->after = (size_t)turn + 1;
        step_out->to = rank_at(args, node.position + (1 << child));
        step_out->out = subtree(args, &node, child);
        if (turn == 0) {
            step_out->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SCRATCH);
            step_out->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        }
    }
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_tree_reduce = {
    .name = "tree",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_TREE_REDUCE,
    .summary = "binomial tree, whole vectors",
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_always_fits,
    .scratch = tree_reduce_scratch,
    .nsteps = tree_reduce_nsteps,
    .step = tree_reduce_step,
};

const struct kolo_plan kolo_plan_tree_broadcast = {
    .name = "tree",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_TREE_BROADCAST,
    .summary = "binomial tree, whole vectors",
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = tree_broadcast_nsteps,
    .step = tree_broadcast_step,
};

const struct kolo_plan kolo_plan_tree_gather = {
    .name = "tree",
    .collective = KOLO_COLLECTIVE_GATHER,
    .number = KOLO_PLAN_TREE_GATHER,
    .summary = "binomial tree, the blocks of a subtree together",
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_bruck_fits,
    .scratch = tree_rooted_scratch,
    .nsteps = tree_rooted_nsteps,
    .window = tree_rooted_window,
    .step = tree_gather_step,
};

const struct kolo_plan kolo_plan_tree_scatter = {
    .name = "tree",
    .collective = KOLO_COLLECTIVE_SCATTER,
    .number = KOLO_PLAN_TREE_SCATTER,
    .summary = "binomial tree, the blocks of a subtree together",
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_bruck_fits,
    .scratch = tree_rooted_scratch,
    .nsteps = tree_rooted_nsteps,
    .window = tree_rooted_window,
    .step = tree_scatter_step,
};
