// SPDX-License-Identifier: Apache-2.0
// Trees of two levels, for ranks on several hosts: as little as possible goes from host to host.
//
//   broadcast, reduce  a binomial tree over hosts (between the first rank of each, or the root),
//                      and below it one inside each host.
//   barrier            along a tree to the first rank of the host, dissemination among those, and
//                      back, one message after the other, as a barrier that runs beside another
//                      plan must.
#include "runtime/plan.h"

/* ---- broadcast and reduce ---- */

/** A rank in the tree over hosts and in that inside its host. Positions of hosts count from the
 * root's host; positions in a host count from its head, which is the root or the host's first
 * rank. */
struct node {
    int host, local;  /* positions */
    int far, near;    /* children on other hosts, and on this one */
    int hosts, ranks; /* in the world; on this host */
    int real_host;
};

static struct node node_of(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    struct node node = {.hosts = hosts->count, .real_host = hosts->of[args->rank]};
    int roots = hosts->of[args->root], local = hosts->local[args->rank];
    node.ranks = hosts->first[node.real_host + 1] - hosts->first[node.real_host];
    node.host = kolo_plan_wrap(node.real_host - roots, node.hosts);
    node.local =
        node.host != 0 ? local : kolo_plan_wrap(local - hosts->local[args->root], node.ranks);
    node.near = kolo_plan_children(node.local, node.ranks);
    node.far = node.local == 0 ? kolo_plan_children(node.host, node.hosts) : 0;
    return node;
}

/** The rank at position @p local of this host. */
static int neighbour(const struct kolo_plan_args *args, const struct node *node, int local)
{
    int turn = node->host == 0 ? args->hosts->local[args->root] : 0;
    return kolo_plan_rank_on(args, node->real_host, kolo_plan_wrap(local + turn, node->ranks));
}

/** The head of the host at position @p host. */
static int head(const struct kolo_plan_args *args, const struct node *node, int host)
{
    int real = kolo_plan_wrap(host + args->hosts->of[args->root], node->hosts);
    return host == 0 ? args->root : kolo_plan_rank_on(args, real, 0);
}

/** Child @p index: those inside the host first; in each group the smallest subtree first. */
static int child_at(const struct kolo_plan_args *args, const struct node *node, int index)
{
    if (index < node->near)
        return neighbour(args, node, node->local + (1 << index));
    return head(args, node, node->host + (1 << (index - node->near)));
}

/** The parent; -1: this is the root. */
static int parent_of(const struct kolo_plan_args *args, const struct node *node)
{
    if (node->local != 0)
        return neighbour(args, node, node->local & (node->local - 1));
    return node->host != 0 ? head(args, node, node->host & (node->host - 1)) : -1;
}

static size_t twolevel_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)(node.near + node.far) + (parent_of(args, &node) >= 0);
}

static void twolevel_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                    struct kolo_step *step_out)
{
    struct node node = node_of(args);
    int parent = parent_of(args, &node), turn = (int)index - (parent >= 0);
    kolo_step_clear(step_out);
    if (turn < 0) {
        step_out->from = parent;
        step_out->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        return;
    }
    step_out->to = child_at(args, &node, node.near + node.far - 1 - turn);
    step_out->out = kolo_slice_whole(args, parent < 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
}

static size_t twolevel_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return parent_of(args, &node) >= 0 && node.near + node.far > 0 ? args->count : 0;
}

static size_t twolevel_reduce_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)(node.near + node.far) + 1; /* the last step sends to the parent, or finishes */
}

static void twolevel_reduce_step(const struct kolo_plan_args *args, size_t index,
                                 struct kolo_step *step_out)
{
    struct node node = node_of(args);
    int parent = parent_of(args, &node), children = node.near + node.far;
    enum kolo_buffer sum = parent < 0 ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH;
    kolo_step_clear(step_out);
    if ((int)index < children) {
        step_out->from = child_at(args, &node, (int)index);
        step_out->in = kolo_slice_whole(args, sum);
        step_out->local = kolo_slice_whole(args, index == 0 ? KOLO_BUFFER_SEND : sum);
        step_out->reduces = true;
    } else if (parent < 0) {
        step_out->finish = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    } else {
        step_out->to = parent;
        step_out->out = kolo_slice_whole(args, children == 0 ? KOLO_BUFFER_SEND : sum);
    }
}

/* ---- barrier ---- */

/** Rounds among hosts, between their first ranks. */
static size_t rounds_of(const struct kolo_plan_args *args, const struct kolo_post *post)
{
    size_t rounds = 0;
    while (post->local == 0 && (1L << rounds) < args->hosts->count)
        rounds++;
    return rounds;
}

static size_t twolevel_barrier_nsteps(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    return 2 * kolo_post_edges(&post) + rounds_of(args, &post);
}

/** The rank at the other end of edge @p index of the tree: first children, then the parent, then
 * back. */
static int other_end(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index)
{
    size_t edges = kolo_post_edges(post);
    index = index < edges ? index : 2 * edges - 1 - index;
    return index < post->children ? kolo_post_child(args, post, index)
                                  : kolo_post_parent(args, post);
}

static void twolevel_barrier_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct kolo_post post = kolo_post_of(args);
    size_t edges = kolo_post_edges(&post), rounds = rounds_of(args, &post);
    int hosts = args->hosts->count;
    kolo_step_clear(step_out);
    if (index < post.children) {
        step_out->from = other_end(args, &post, index);
    } else if (index < edges) {
        step_out->to = other_end(args, &post, index);
    } else if (index < edges + rounds) {
        long distance = 1L << (index - edges);
        step_out->to = kolo_plan_rank_on(args, (int)((post.host + distance) % hosts), 0);
        step_out->from = kolo_plan_rank_on(args, (int)((post.host - distance + hosts) % hosts), 0);
    } else if (index - edges - rounds < (size_t)post.has_parent) {
        step_out->from = other_end(args, &post, index - rounds);
    } else {
        step_out->to = other_end(args, &post, index - rounds);
    }
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_twolevel_broadcast = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_TWOLEVEL_BROADCAST,
    .summary = "binomial tree over hosts, then inside each",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_twolevel_fits,
    .scratch = kolo_no_scratch,
    .nsteps = twolevel_broadcast_nsteps,
    .step = twolevel_broadcast_step,
};

const struct kolo_plan kolo_plan_twolevel_reduce = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_TWOLEVEL_REDUCE,
    .summary = "binomial tree inside each host, then over hosts",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_twolevel_fits,
    .scratch = twolevel_reduce_scratch,
    .nsteps = twolevel_reduce_nsteps,
    .step = twolevel_reduce_step,
};

const struct kolo_plan kolo_plan_twolevel_barrier = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_BARRIER,
    .number = KOLO_PLAN_TWOLEVEL_BARRIER,
    .summary = "to one rank of each host, between those, and back",
    .closes = true,
    .is_by_hosts = true,
    .fits = kolo_twolevel_fits,
    .scratch = kolo_no_scratch,
    .nsteps = twolevel_barrier_nsteps,
    .step = twolevel_barrier_step,
};
