// SPDX-License-Identifier: Apache-2.0
// Binomial trees, for vectors so short that the number of steps is what costs. With v = rank - root
// (modulo n), the parent of v is v without its lowest set bit, and its children are v + 1, v + 2,
// v + 4, ... below that bit. The subtree of v covers v, v+1, ..., so a reduction keeps operands in
// the order of v.
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

static struct kolo_slice whole(const struct kolo_plan_args *args, enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, 0, args->count};
}

size_t kolo_tree_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)node.children + (node.position != 0);
}

void kolo_tree_broadcast_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    struct node node = node_of(args);
    bool is_root = node.position == 0;
    kolo_step_clear(step_out);
    if (!is_root && index == 0) {
        step_out->from = parent_of(args, &node);
        step_out->in = whole(args, KOLO_BUFFER_RECV);
        return;
    }
    int child = node.children - 1 - ((int)index - !is_root); /* the largest subtree first */
    step_out->to = rank_at(args, node.position + (1 << child));
    step_out->out = whole(args, is_root ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
}

size_t kolo_tree_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return node.position != 0 && node.children > 0 ? args->count : 0;
}

size_t kolo_tree_reduce_nsteps(const struct kolo_plan_args *args)
{
    return (size_t)node_of(args).children + 1; /* the last one sends up, or finishes */
}

void kolo_tree_reduce_step(const struct kolo_plan_args *args, size_t index,
                           struct kolo_step *step_out)
{
    struct node node = node_of(args);
    bool is_root = node.position == 0;
    enum kolo_buffer sum = is_root ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH;
    kolo_step_clear(step_out);
    if ((int)index < node.children) {
        step_out->from = rank_at(args, node.position + (1 << index));
        step_out->in = whole(args, sum);
        step_out->local = whole(args, index == 0 ? KOLO_BUFFER_SEND : sum);
        step_out->reduces = true;
    } else if (is_root) {
        step_out->finish = whole(args, KOLO_BUFFER_RECV);
        if (args->size == 1) {
            step_out->copy_from = whole(args, KOLO_BUFFER_SEND);
            step_out->copy_to = step_out->finish;
        }
    } else {
        step_out->to = parent_of(args, &node);
        step_out->out = whole(args, node.children == 0 ? KOLO_BUFFER_SEND : sum);
    }
}
