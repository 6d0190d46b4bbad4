// SPDX-License-Identifier: Apache-2.0
// Allreduce, allgather and reduce_scatter by leaders, for short vectors among ranks on several
// hosts: only the first rank of each host, its leader, uses the wire. Such vectors cost by the
// number of messages, and by the turns of ranks that share cores, not by bytes. Doubling among all
// ranks would send a message from each of them to another host in each round.
//
//   allreduce       the host's sum goes up its tree to the leader; the leaders double; the result
//                   goes down the tree.
//   allgather       each rank sends its block to the leader; the leaders exchange the blocks of
//                   their hosts; all blocks go down the tree.
//   reduce_scatter  the host's sum of all blocks goes up the tree; each leader sends each other
//                   leader the sums of that one's blocks, finishes the sums of its own host, and
//                   sends them to their owners.
//
// The tree is that of kolo_post. A rank that passes something on keeps its sum in RECV if that is
// long enough, else in SCRATCH.
#include "runtime/plan.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/** The `after` of step @p index of steps that may all be in flight. */
static size_t beside(size_t index)
{
    return kolo_in_window(index + 1);
}

static int leader_of(const struct kolo_plan_args *args, int host)
{
    return kolo_plan_rank_on(args, host, 0);
}

/** The leader of the host at distance @p distance. */
static int leader_at(const struct kolo_plan_args *args, const struct kolo_post *post, long distance)
{
    return leader_of(args, kolo_plan_wrap(post->host + (int)distance, args->hosts->count));
}

/** Receives the contribution of the next child, and adds it to the sum in @p sum. */
static void take(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index,
                 struct kolo_slice send, struct kolo_slice sum, struct kolo_step *step)
{
    step->from = kolo_post_child(args, post, index);
    step->in = sum;
    step->local = index == 0 ? send : sum;
    step->reduces = true;
}

/* ---- allreduce ---- */

/** The arguments of the leaders' doubling, in which each host is a rank. A leader with children
 * contributes its host's sum, which is in RECV. */
static struct kolo_plan_args among_leaders(const struct kolo_plan_args *args,
                                           const struct kolo_post *post)
{
    return (struct kolo_plan_args){.rank = post->host,
                                   .size = args->hosts->count,
                                   .count = args->count,
                                   .segment = 1,
                                   .in_place = args->in_place || post->children > 0};
}

static size_t steps_among(const struct kolo_plan_args *args, const struct kolo_post *post)
{
    struct kolo_plan_args leaders = among_leaders(args, post);
    return post->has_parent ? 2 : kolo_plan_doubling_allreduce.nsteps(&leaders);
}

static void hold(const struct kolo_post *post, struct kolo_slice *slice)
{
    if (post->children > 0 && slice->buffer == KOLO_BUFFER_SEND)
        slice->buffer = KOLO_BUFFER_RECV;
}

static void step_among(const struct kolo_plan_args *args, const struct kolo_post *post,
                       size_t index, struct kolo_step *step)
{
    struct kolo_plan_args leaders = among_leaders(args, post);
    kolo_plan_doubling_allreduce.step(&leaders, index, step);
    step->to = step->to < 0 ? -1 : leader_of(args, step->to);
    step->from = step->from < 0 ? -1 : leader_of(args, step->from);
    hold(post, &step->out);
    hold(post, &step->local);
}

/** Sends to the parent, then receives the result from it. */
static void step_between(const struct kolo_plan_args *args, const struct kolo_post *post,
                         size_t index, struct kolo_step *step)
{
    if (index == 0) {
        step->to = kolo_post_parent(args, post);
        step->out =
            kolo_slice_whole(args, post->children > 0 ? KOLO_BUFFER_RECV : KOLO_BUFFER_SEND);
    } else {
        step->from = kolo_post_parent(args, post);
        step->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
}

static size_t leaders_allreduce_scratch(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    struct kolo_plan_args leaders = among_leaders(args, &post);
    return post.has_parent ? 0 : kolo_plan_doubling_allreduce.scratch(&leaders);
}

static size_t leaders_allreduce_nsteps(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    return 2 * post.children + steps_among(args, &post);
}

static size_t leaders_allreduce_window(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    return kolo_in_window(larger(post.children, 1));
}

static void leaders_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    struct kolo_post post = kolo_post_of(args);
    size_t among = steps_among(args, &post), below = index - post.children - among;
    kolo_step_clear(step_out);
    if (index < post.children) {
        take(args, &post, index, kolo_slice_whole(args, KOLO_BUFFER_SEND),
             kolo_slice_whole(args, KOLO_BUFFER_RECV), step_out);
    } else if (index < post.children + among && post.has_parent) {
        step_between(args, &post, index - post.children, step_out);
    } else if (index < post.children + among) {
        step_among(args, &post, index - post.children, step_out);
    } else {
        step_out->to = kolo_post_child(args, &post, below);
        step_out->out = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        step_out->after = beside(below);
    }
}

/* ---- blocks ---- */

const char *kolo_leaders_blocks_fits(const struct kolo_plan_args *args)
{
    const char *why = kolo_twolevel_fits(args);
    if (!why)
        why = kolo_bruck_fits(args);
    if (why)
        return why;
    return args->hosts->is_in_order ? NULL : "the ranks of a host do not follow each other";
}

static struct kolo_slice all_blocks(const struct kolo_plan_args *args, enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, 0, (size_t)args->size * args->count};
}

/** For a leader: the number of other ranks on its host, and of other hosts. */
struct others {
    size_t here, hosts;
};

static struct others others_of(const struct kolo_plan_args *args, const struct kolo_post *post)
{
    return (struct others){(size_t)post->ranks - 1, (size_t)args->hosts->count - 1};
}

/* ---- allgather ---- */

static size_t leaders_allgather_nsteps(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    struct others others = others_of(args, &post);
    return (post.has_parent ? 2 : others.here + others.hosts) + post.children;
}

static size_t leaders_allgather_window(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    struct others others = others_of(args, &post);
    return kolo_in_window(
        larger(post.has_parent ? post.children : larger(others.here, others.hosts), 1));
}

/** Sends its block, then receives all. */
static void gather_below(const struct kolo_plan_args *args, const struct kolo_post *post,
                         size_t index, struct kolo_step *step)
{
    if (index == 0) {
        step->to = leader_of(args, post->host);
        step->out = kolo_slice_whole(args, KOLO_BUFFER_SEND);
    } else {
        step->from = kolo_post_parent(args, post);
        step->in = all_blocks(args, KOLO_BUFFER_RECV);
    }
}

static void gather_at_leader(const struct kolo_plan_args *args, const struct kolo_post *post,
                             size_t index, struct kolo_step *step)
{
    size_t here = others_of(args, post).here;
    if (index == 0) {
        step->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (index < here) {
        step->from = kolo_plan_rank_on(args, post->host, (int)index + 1);
        step->in = kolo_plan_block_in(args, step->from, KOLO_BUFFER_RECV);
        step->after = beside(index);
        return;
    }
    long distance = (long)(index - here) + 1;
    step->to = leader_at(args, post, distance);
    step->from = leader_at(args, post, -distance);
    step->out = kolo_plan_blocks_on(args, post->host, KOLO_BUFFER_RECV);
    step->in = kolo_plan_blocks_on(args, args->hosts->of[step->from], KOLO_BUFFER_RECV);
    step->after = beside(index - here);
}

static void leaders_allgather_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    struct kolo_post post = kolo_post_of(args);
    size_t before = leaders_allgather_nsteps(args) - post.children;
    kolo_step_clear(step_out);
    if (index >= before) {
        step_out->to = kolo_post_child(args, &post, index - before);
        step_out->out = all_blocks(args, KOLO_BUFFER_RECV);
        step_out->after = beside(index - before);
    } else if (post.has_parent) {
        gather_below(args, &post, index, step_out);
    } else {
        gather_at_leader(args, &post, index, step_out);
    }
}

/* ---- reduce_scatter ---- */

static size_t leaders_reduce_scatter_held(const struct kolo_plan_args *args)
{
    return (size_t)args->size;
}

static size_t leaders_reduce_scatter_scratch(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    return post.children > 0 ? (size_t)args->size * args->count : 0;
}

static size_t leaders_reduce_scatter_nsteps(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    struct others others = others_of(args, &post);
    return post.children + (post.has_parent ? 2 : others.hosts + 1 + others.here);
}

static size_t leaders_reduce_scatter_window(const struct kolo_plan_args *args)
{
    struct kolo_post post = kolo_post_of(args);
    return kolo_in_window(larger(others_of(args, &post).here, 1));
}

/** Sends its subtree's sum, then receives its block. */
static void scatter_below(const struct kolo_plan_args *args, const struct kolo_post *post,
                          size_t index, struct kolo_step *step)
{
    if (index == 0) {
        step->to = kolo_post_parent(args, post);
        step->out = all_blocks(args, post->children > 0 ? KOLO_BUFFER_SCRATCH : KOLO_BUFFER_SEND);
    } else {
        step->from = leader_of(args, post->host);
        step->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
}

/** The sums of this leader's own host. If it is alone on its host, that is only its own block. */
static struct kolo_slice own_sums(const struct kolo_plan_args *args, const struct kolo_post *post)
{
    return post->ranks > 1 ? kolo_plan_blocks_on(args, post->host, KOLO_BUFFER_SCRATCH)
                           : kolo_slice_whole(args, KOLO_BUFFER_RECV);
}

static void scatter_across(const struct kolo_plan_args *args, const struct kolo_post *post,
                           size_t index, struct kolo_step *step)
{
    bool is_alone = post->ranks == 1;
    long distance = (long)index + 1;
    step->to = leader_at(args, post, distance);
    step->from = leader_at(args, post, -distance);
    step->out = kolo_plan_blocks_on(args, args->hosts->of[step->to],
                                    is_alone ? KOLO_BUFFER_SEND : KOLO_BUFFER_SCRATCH);
    step->in = step->local = own_sums(args, post);
    step->reduces = true;
    if (is_alone && index == 0)
        step->local = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_SEND);
}

/** Sends each rank of the host its block, once the sums are finished. */
static void hand_out(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index,
                     struct kolo_step *step)
{
    if (index == 0) {
        step->copy_from = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_SCRATCH);
        step->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
    step->to = kolo_plan_rank_on(args, post->host, (int)index + 1);
    step->out = kolo_plan_block_in(args, step->to, KOLO_BUFFER_SCRATCH);
    step->after = beside(index);
}

static void leaders_reduce_scatter_step(const struct kolo_plan_args *args, size_t index,
                                        struct kolo_step *step_out)
{
    struct kolo_post post = kolo_post_of(args);
    size_t hosts = others_of(args, &post).hosts;
    kolo_step_clear(step_out);
    if (index < post.children) {
        take(args, &post, index, all_blocks(args, KOLO_BUFFER_SEND),
             all_blocks(args, KOLO_BUFFER_SCRATCH), step_out);
        return;
    }
    index -= post.children;
    if (post.has_parent)
        scatter_below(args, &post, index, step_out);
    else if (index < hosts)
        scatter_across(args, &post, index, step_out);
    else if (index == hosts)
        step_out->finish = own_sums(args, &post);
    else
        hand_out(args, &post, index - hosts - 1, step_out);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_leaders_allreduce = {
    .name = "leaders",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_LEADERS_ALLREDUCE,
    .summary = "whole vectors to one rank of each host, recursive doubling between those, and back",
    .closes = true,
    .is_by_hosts = true,
    .fits = kolo_twolevel_fits,
    .scratch = leaders_allreduce_scratch,
    .nsteps = leaders_allreduce_nsteps,
    .window = leaders_allreduce_window,
    .step = leaders_allreduce_step,
};

const struct kolo_plan kolo_plan_leaders_allgather = {
    .name = "leaders",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_LEADERS_ALLGATHER,
    .summary = "all blocks of a host to one of its ranks, between those, and all blocks to all "
               "ranks inside",
    .closes = true,
    .is_by_hosts = true,
    .fits = kolo_leaders_blocks_fits,
    .scratch = kolo_no_scratch,
    .nsteps = leaders_allgather_nsteps,
    .window = leaders_allgather_window,
    .step = leaders_allgather_step,
};

const struct kolo_plan kolo_plan_leaders_reduce_scatter = {
    .name = "leaders",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_LEADERS_REDUCE_SCATTER,
    .summary = "whole vectors to one rank of each host, which reduces its host's blocks and "
               "distributes them",
    .closes = true,
    .is_by_hosts = true,
    .fits = kolo_leaders_blocks_fits,
    .scratch = leaders_reduce_scatter_scratch,
    .held = leaders_reduce_scatter_held,
    .nsteps = leaders_reduce_scatter_nsteps,
    .window = leaders_reduce_scatter_window,
    .step = leaders_reduce_scatter_step,
};
