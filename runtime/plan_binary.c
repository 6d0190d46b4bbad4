// SPDX-License-Identifier: Apache-2.0
// Pipelined binary trees, for broadcasts and reductions between the short ones, where the number of
// messages costs, and the long ones, for which a chain is best: a piece passes log2(n) ranks
// instead of n, and a rank sends or receives each piece twice. Position v = rank - root (modulo n)
// in host order has the children 2v + 1 and 2v + 2 and the parent (v - 1) / 2.
//
// A turn is a step for each child (a leaf: one step). In broadcast turn j receives piece j and
// passes piece j - LAG on. In reduce it receives piece j from the first child, piece j - LAG from
// the second, which is combined with what came from the first, and sends up what is LAG further.
//
// Pieces of a long broadcast are longer than a segment where that leaves enough of them for the
// height of the tree: where ranks share cores each piece wakes somebody, and that is what counts.
// Those of a reduction are not: a rank keeps several in scratch, and combines what is in cache.
#include "runtime/plan.h"

enum {
    LAG = 2,           /* turns */
    PIECES = 16,       /* that a vector is cut into, if they are not too short then */
    FINEST = 32,       /* a piece is at least this part of a segment */
    LONG_SEGMENTS = 4, /* in a piece of a broadcast, at most */
    LEVEL_PIECES = 8   /* for each level of the tree, before pieces are longer than a segment */
};

struct node {
    int position, children;
    size_t length, pieces; /* of the vector, elements and number */
    size_t width, lag;     /* steps of a turn; turns */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** The longest piece of a broadcast. */
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

/** @p longest: the longest piece, elements. */
static struct node node_of(const struct kolo_plan_args *args, size_t longest)
{
    int v = kolo_plan_wrap(
        kolo_plan_position(args, args->rank) - kolo_plan_position(args, args->root), args->size);
    size_t finest = args->segment / FINEST + 1, part = args->count / PIECES + 1;
    struct node node = {.position = v, .length = part > finest ? part : finest};
    node.length = least(node.length, longest);
    if (args->size <= 2 && args->count > 0)
        node.length = args->count; /* nobody passes anything on: see chains (plan_ring.c) */
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

size_t kolo_binary_broadcast_window(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, longest_broadcast(args));
    return node.width * node.lag;
}

size_t kolo_binary_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, longest_broadcast(args));
    bool passes_on = node.position != 0 && node.children > 0;
    if (args->size == 1)
        return 0;
    return (node.pieces + (passes_on ? node.lag : 0)) * node.width;
}

void kolo_binary_broadcast_step(const struct kolo_plan_args *args, size_t index,
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

size_t kolo_binary_reduce_window(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return node.width * node.lag;
}

/** Turns after which a piece that came from the first child has come from the last, and is over. */
static size_t delay(const struct node *node)
{
    return (size_t)node->children * node->lag;
}

/** Pieces in scratch at once: from when the first child's comes until it has been sent on. */
static size_t slots(const struct node *node)
{
    return least(node->pieces, delay(node) + node->lag + 1);
}

size_t kolo_binary_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return node.position != 0 && node.children > 0 ? slots(&node) * node.length : 0;
}

size_t kolo_binary_reduce_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args, args->segment);
    return (node.pieces + delay(&node)) * node.width;
}

/** The sum of piece @p index as far as it goes: in RECV at the root, else in scratch. */
static struct kolo_slice sum_of(const struct kolo_plan_args *args, const struct node *node,
                                size_t index)
{
    struct kolo_slice slice = piece(args, node, index, KOLO_BUFFER_RECV);
    if (node->position != 0)
        slice = (struct kolo_slice){KOLO_BUFFER_SCRATCH, index % slots(node) * node->length,
                                    slice.count};
    return slice;
}

/** What the root or a leaf does with a piece whose sum is complete. */
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

void kolo_binary_reduce_step(const struct kolo_plan_args *args, size_t index,
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
