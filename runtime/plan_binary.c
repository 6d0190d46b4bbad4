// SPDX-License-Identifier: Apache-2.0
// Pipelined binary trees for broadcast and reduce. They are for vectors of middle length: short
// vectors depend on the number of messages, and for long ones a chain is best. A piece passes
// log2(n) ranks instead of n, and a rank sends or receives each piece twice. Position v = rank -
// root (modulo n), in host order, has the children 2v + 1 and 2v + 2 and the parent (v - 1) / 2.
//
// A turn is a step for each child (one step for a leaf). Turn j of a broadcast receives piece j and
// passes piece j - LAG on. Turn j of a reduce receives piece j from the first child, and from the
// second child piece j - LAG, which is combined with that of the first; the piece that is LAG older
// goes to the parent.
//
// Pieces of a long broadcast are longer than a segment, if enough of them remain for the height of
// the tree: if ranks share cores, each piece wakes a rank, which is what costs most. Pieces of a
// reduction are not longer: a rank has several of them in scratch, and combines what is in the
// cache.
#include "runtime/plan.h"

enum {
    LAG = 2,           /* turns */
    PIECES = 16,       /* of a vector, unless they would be too short */
    FINEST = 32,       /* the shortest piece is this part of a segment */
    LONG_SEGMENTS = 4, /* segments in the longest piece of a broadcast */
    LEVEL_PIECES = 8   /* per level of the tree, before pieces grow beyond a segment */
};

struct node {
    int position, children;
    size_t length, pieces; /* of a piece, in elements; number of pieces */
    size_t width, lag;     /* steps of a turn; a number of turns */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** The longest piece of a broadcast, in elements. */
static size_t longest_broadcast(const struct kolo_plan_args *args)
{
    size_t levels = 0, most = args->segment;
    for (int size = args->size; size > 1; size /= 2)
        levels++;
    if (most <= SIZE_MAX / LONG_SEGMENTS)
        most *= LONG_SEGMENTS;
    size_t length = levels > 0 ? args->count / (LEVEL_PIECES * levels) : 0;
    return least(length > args->segment ? length : args->segment, most);
}

/** @p longest: the longest piece, in elements. */
static struct node node_of(const struct kolo_plan_args *args, size_t longest)
{
    int v = kolo_plan_wrap(
        kolo_plan_position(args, args->rank) - kolo_plan_position(args, args->root), args->size);
    size_t finest = args->segment / FINEST + 1, part = args->count / PIECES + 1;
    struct node node = {.position = v, .length = part > finest ? part : finest};
    node.length = least(node.length, longest);
    if (args->size <= 2 && args->count > 0)
        node.length = args->count; /* no rank passes anything on: see chains in plan_ring.c */
    node.pieces = kolo_pieces(args->count, node.length);
    node.children = 2 * v + 2 < args->size ? 2 : 2 * v + 1 < args->size ? 1 : 0;
    node.width = node.children == 2 ? 2 : 1;
    node.lag = least(LAG, node.pieces);
    return node;
}

static int rank_at(const struct kolo_plan_args *args, int position)
{
    int at = position + kolo_plan_position(args, args->root);
    return kolo_plan_rank_at(args, kolo_plan_wrap(at, args->size));
}

static int parent_of(const struct kolo_plan_args *args, const struct node *node)
{
    return rank_at(args, (node->position - 1) / 2);
}

static int child_of(const struct kolo_plan_args *args, const struct node *node, size_t child)
{
    return rank_at(args, 2 * node->position + 1 + (int)child);
}

static struct kolo_slice piece(const struct kolo_plan_args *args, const struct node *node,
                               size_t index, enum kolo_buffer buffer)
{
    return kolo_slice_piece((struct kolo_slice){buffer, 0, args->count}, index, node->length);
}

/* ---- broadcast ---- */

static size_t binary_broadcast_window(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, longest_broadcast(args));
    return node.width * node.lag;
}

static size_t binary_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, longest_broadcast(args));
    bool passes_on = node.position != 0 && node.children > 0;
    if (args->size == 1)
        return 0;
    return (node.pieces + (passes_on ? node.lag : 0)) * node.width;
}

static void binary_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct node node = node_of(args, longest_broadcast(args));
    bool is_root = node.position == 0;
    size_t turn = index / node.width, child = index % node.width, lag = is_root ? 0 : node.lag;
    kolo_step_clear(step_out);
    step_out->after = node.width * node.lag;
    if (!is_root && child == 0 && turn < node.pieces) {
        step_out->from = parent_of(args, &node);
        step_out->in = piece(args, &node, turn, KOLO_BUFFER_RECV);
    }
    if (node.children > 0 && turn >= lag) {
        step_out->to = child_of(args, &node, child);
        step_out->out =
            piece(args, &node, turn - lag, is_root ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    }
}

/* ---- reduce ---- */

static size_t binary_reduce_window(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return node.width * node.lag;
}

/** The number of turns after which a piece has come from the last child, counted from the first
 * child. */
static size_t delay(const struct node *node)
{
    return (size_t)node->children * node->lag;
}

/** Pieces in scratch at the same time: from the arrival of the first child's until the sum has been
 * sent. */
static size_t slots(const struct node *node)
{
    return least(node->pieces, delay(node) + node->lag + 1);
}

static size_t binary_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return node.position != 0 && node.children > 0 ? slots(&node) * node.length : 0;
}

static size_t binary_reduce_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return (node.pieces + delay(&node)) * node.width;
}

/** The partial sum of piece @p index: in RECV at the root, else in scratch. */
static struct kolo_slice sum_of(const struct kolo_plan_args *args, const struct node *node,
                                size_t index)
{
    struct kolo_slice slice = piece(args, node, index, KOLO_BUFFER_RECV);
    if (node->position != 0)
        slice = (struct kolo_slice){KOLO_BUFFER_SCRATCH, index % slots(node) * node->length,
                                    slice.count};
    return slice;
}

/** What the root or another rank does with a piece whose sum is complete. */
static void pass_up(const struct kolo_plan_args *args, const struct node *node, size_t index,
                    struct kolo_step *step)
{
    if (node->position == 0) {
        step->finish = piece(args, node, index, KOLO_BUFFER_RECV);
        return;
    }
    step->to = parent_of(args, node);
    step->out =
        node->children > 0 ? sum_of(args, node, index) : piece(args, node, index, KOLO_BUFFER_SEND);
}

static void binary_reduce_step(const struct kolo_plan_args *args, size_t index,
                               struct kolo_step *step_out)
{
    struct node node = node_of(args, args->segment);
    size_t turn = index / node.width, child = index % node.width, late = child * node.lag;
    kolo_step_clear(step_out);
    step_out->after = node.width * node.lag;
    if (args->size == 1) {
        step_out->copy_from = piece(args, &node, turn, KOLO_BUFFER_SEND);
        step_out->copy_to = piece(args, &node, turn, KOLO_BUFFER_RECV);
    }
    if (node.children > 0 && turn >= late && turn - late < node.pieces) {
        step_out->from = child_of(args, &node, child);
        step_out->in = sum_of(args, &node, turn - late);
        step_out->local = child == 0 ? piece(args, &node, turn - late, KOLO_BUFFER_SEND)
                                     : sum_of(args, &node, turn - late);
        step_out->reduces = true;
    }
    if (child + 1 == node.width && turn >= delay(&node))
        pass_up(args, &node, turn - delay(&node), step_out);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_binary_broadcast = {
    .name = "binary",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_BINARY_BROADCAST,
    .summary = "pipelined binary tree",
    .is_segmented = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = binary_broadcast_nsteps,
    .window = binary_broadcast_window,
    .step = binary_broadcast_step,
};

const struct kolo_plan kolo_plan_binary_reduce = {
    .name = "binary",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_BINARY_REDUCE,
    .summary = "pipelined binary tree",
    .is_segmented = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_always_fits,
    .scratch = binary_reduce_scratch,
    .nsteps = binary_reduce_nsteps,
    .window = binary_reduce_window,
    .step = binary_reduce_step,
};
