// SPDX-License-Identifier: Apache-2.0
// Gather and scatter by leaders, for short blocks among ranks on several hosts: one message goes
// between the root and each other host, whichever rank is the root. A binomial tree by ranks may
// cross between the same two hosts several times.
//
//   gather    the ranks of a host give their blocks to its head, which sends them on together
//   scatter   the same, backwards
//
// The head of the root's host is the root, that of another its first rank. Blocks of a host lie
// behind each other: in the root's vector because its ranks do, at the head in SCRATCH.
#include "runtime/plan.h"

/** A rank as gather and scatter see it. */
struct place {
    int host, head;
    size_t here, hosts; /* other ranks of this host, other hosts */
    bool is_root, is_head;
};

static struct place place_of(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    struct place place = {.host = hosts->of[args->rank], .is_root = args->rank == args->root};
    place.head =
        place.host == hosts->of[args->root] ? args->root : kolo_plan_rank_on(args, place.host, 0);
    place.is_head = args->rank == place.head;
    place.here = (size_t)(hosts->first[place.host + 1] - hosts->first[place.host]) - 1;
    place.hosts = (size_t)hosts->count - 1;
    return place;
}

/** Other rank @p index of this host: its ranks follow each other. */
static int other_here(const struct kolo_plan_args *args, const struct place *place, size_t index)
{
    int rank = args->hosts->first[place->host] + (int)index;
    return rank < args->rank ? rank : rank + 1;
}

/** The head of other host @p index, seen from the root. */
static int other_head(const struct kolo_plan_args *args, const struct place *place, size_t index)
{
    int host = (int)index < place->host ? (int)index : (int)index + 1;
    return kolo_plan_rank_on(args, host, 0);
}

/** Those of this head's host, as it holds them; alone it has just its own, in @p own. */
static struct kolo_slice held(const struct kolo_plan_args *args, const struct place *place,
                              enum kolo_buffer own)
{
    return place->here == 0
               ? kolo_slice_whole(args, own)
               : (struct kolo_slice){KOLO_BUFFER_SCRATCH, 0, (place->here + 1) * args->count};
}

/** The block of @p rank of this head's host in SCRATCH. */
static struct kolo_slice held_block(const struct kolo_plan_args *args, const struct place *place,
                                    int rank)
{
    size_t index = (size_t)(rank - args->hosts->first[place->host]);
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH, index * args->count, args->count};
}

static size_t leaders_rooted_held(const struct kolo_plan_args *args)
{
    return (size_t)args->hosts->most;
}

static size_t leaders_rooted_scratch(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    bool holds = place.is_head && !place.is_root && place.here > 0;
    return holds ? (place.here + 1) * args->count : 0;
}

static size_t leaders_rooted_nsteps(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    if (!place.is_head)
        return 1;
    return place.here + (place.is_root ? place.hosts : 1);
}

static size_t leaders_rooted_window(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    size_t steps = place.is_root ? place.here + place.hosts : place.here;
    return place.is_head && steps > 1 ? kolo_in_window(steps) : 1;
}

/* ---- gather ---- */

static void gather_at_root(const struct kolo_plan_args *args, const struct place *place,
                           size_t index, struct kolo_step *step)
{
    step->after = kolo_in_window(index + 1);
    if (index == 0) {
        step->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (index < place->here) {
        step->from = other_here(args, place, index);
        step->in = kolo_plan_block_in(args, step->from, KOLO_BUFFER_RECV);
    } else {
        step->from = other_head(args, place, index - place->here);
        step->in = kolo_plan_blocks_on(args, args->hosts->of[step->from], KOLO_BUFFER_RECV);
    }
}

static void gather_at_head(const struct kolo_plan_args *args, const struct place *place,
                           size_t index, struct kolo_step *step)
{
    if (index == 0 && place->here > 0) {
        step->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step->copy_to = held_block(args, place, args->rank);
    }
    if (index < place->here) {
        step->after = kolo_in_window(index + 1);
        step->from = other_here(args, place, index);
        step->in = held_block(args, place, step->from);
    } else {
        step->to = args->root;
        step->out = held(args, place, KOLO_BUFFER_SEND);
    }
}

static void leaders_gather_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    struct place place = place_of(args);
    kolo_step_clear(step_out);
    if (place.is_root) {
        gather_at_root(args, &place, index, step_out);
    } else if (place.is_head) {
        gather_at_head(args, &place, index, step_out);
    } else {
        step_out->to = place.head;
        step_out->out = kolo_slice_whole(args, KOLO_BUFFER_SEND);
    }
}

/* ---- scatter ---- */

/** To the other hosts first: theirs has further to go. */
static void scatter_at_root(const struct kolo_plan_args *args, const struct place *place,
                            size_t index, struct kolo_step *step)
{
    step->after = kolo_in_window(index + 1);
    if (index == 0) {
        step->copy_from = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_SEND);
        step->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
    if (index < place->hosts) {
        step->to = other_head(args, place, index);
        step->out = kolo_plan_blocks_on(args, args->hosts->of[step->to], KOLO_BUFFER_SEND);
    } else {
        step->to = other_here(args, place, index - place->hosts);
        step->out = kolo_plan_block_in(args, step->to, KOLO_BUFFER_SEND);
    }
}

static void scatter_at_head(const struct kolo_plan_args *args, const struct place *place,
                            size_t index, struct kolo_step *step)
{
    if (index == 0) {
        step->from = args->root;
        step->in = held(args, place, KOLO_BUFFER_RECV);
        return;
    }
    if (index == 1) {
        step->copy_from = held_block(args, place, args->rank);
        step->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
    step->after = kolo_in_window(index);
    step->to = other_here(args, place, index - 1);
    step->out = held_block(args, place, step->to);
}

static void leaders_scatter_step(const struct kolo_plan_args *args, size_t index,
                                 struct kolo_step *step_out)
{
    struct place place = place_of(args);
    kolo_step_clear(step_out);
    if (place.is_root) {
        scatter_at_root(args, &place, index, step_out);
    } else if (place.is_head) {
        scatter_at_head(args, &place, index, step_out);
    } else {
        step_out->from = place.head;
        step_out->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_leaders_gather = {
    .name = "leaders",
    .collective = KOLO_COLLECTIVE_GATHER,
    .number = KOLO_PLAN_LEADERS_GATHER,
    .summary = "all blocks of a host to one rank of it, then to the root",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_leaders_blocks_fits,
    .scratch = leaders_rooted_scratch,
    .held = leaders_rooted_held,
    .nsteps = leaders_rooted_nsteps,
    .window = leaders_rooted_window,
    .step = leaders_gather_step,
};

const struct kolo_plan kolo_plan_leaders_scatter = {
    .name = "leaders",
    .collective = KOLO_COLLECTIVE_SCATTER,
    .number = KOLO_PLAN_LEADERS_SCATTER,
    .summary = "all blocks of a host to one rank of it, which hands them out",
    .is_by_hosts = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_leaders_blocks_fits,
    .scratch = leaders_rooted_scratch,
    .held = leaders_rooted_held,
    .nsteps = leaders_rooted_nsteps,
    .window = leaders_rooted_window,
    .step = leaders_scatter_step,
};
