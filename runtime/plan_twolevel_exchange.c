// SPDX-License-Identifier: Apache-2.0
// Alltoall in two levels, for short blocks among hosts with equally many ranks: what a rank has for
// all ranks of another host goes there in one message, to the rank at its own place, which
// distributes it inside. With n = H * m ranks, each communicates with H - 1 + m - 1 others instead
// of n - 1, and uses the wire once for each other host, however many ranks that has.
//
//   across   for d = 1, 2, ...: the blocks for the host at distance d, packed, go to the rank at
//            the same place there
//   inside   each other rank of the host gets what came for it from each host, and the block of
//            this rank
//   home     all that was received is copied to its place
//
// A step packs one block; the last step of a bundle sends it. SCRATCH has what is packed (first the
// bundles of one phase, then those of the other), what came over the wire, and what came from
// inside.
#include "runtime/plan.h"

struct place {
    int host, local;
    size_t hosts, ranks;
};

static struct place place_of(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    return (struct place){.host = hosts->of[args->rank],
                          .local = hosts->local[args->rank],
                          .hosts = (size_t)hosts->count,
                          .ranks = (size_t)hosts->most};
}

/** The number of blocks that leave the host, and of those that go to others inside it; as many
 * arrive. */
static size_t across_of(const struct place *place)
{
    return (place->hosts - 1) * place->ranks;
}

static size_t inside_of(const struct place *place)
{
    return place->hosts * (place->ranks - 1);
}

/** The part of SCRATCH for packed blocks, in blocks. */
static size_t packed_of(const struct place *place)
{
    return across_of(place) > inside_of(place) ? across_of(place) : inside_of(place);
}

static size_t twolevel_alltoall_held(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    return packed_of(&place) + across_of(&place) + inside_of(&place);
}

static size_t twolevel_alltoall_scratch(const struct kolo_plan_args *args)
{
    return twolevel_alltoall_held(args) * args->count;
}

static const char *twolevel_alltoall_fits(const struct kolo_plan_args *args)
{
    const char *why = kolo_twolevel_fits(args);
    if (why)
        return why;
    if (args->hosts->least != args->hosts->most)
        return "some hosts have more ranks than others";
    return args->counts ? "blocks of different lengths" : NULL;
}

static size_t twolevel_alltoall_nsteps(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    return across_of(&place) + inside_of(&place) + (size_t)args->size;
}

static size_t twolevel_alltoall_window(const struct kolo_plan_args *args)
{
    (void)args;
    return KOLO_WINDOW_MAX;
}

static struct kolo_slice blocks(const struct kolo_plan_args *args, enum kolo_buffer buffer,
                                size_t first, size_t count)
{
    return (struct kolo_slice){buffer, first * args->count, count * args->count};
}

/** The rank at distance @p hosts in hosts and @p places in places. */
static int away(const struct kolo_plan_args *args, const struct place *place, long hosts,
                long places)
{
    int host = kolo_plan_wrap(place->host + (int)hosts, (int)place->hosts);
    return kolo_plan_rank_on(args, host,
                             kolo_plan_wrap(place->local + (int)places, (int)place->ranks));
}

/** The block for local rank @p local that came over the wire from the host at distance -@p
 * distance. */
static struct kolo_slice arrived(const struct kolo_plan_args *args, const struct place *place,
                                 size_t distance, size_t local)
{
    size_t at = packed_of(place) + (distance - 1) * place->ranks + local;
    return blocks(args, KOLO_BUFFER_SCRATCH, at, 1);
}

static void step_across(const struct kolo_plan_args *args, const struct place *place, size_t index,
                        struct kolo_step *step)
{
    size_t distance = index / place->ranks + 1, local = index % place->ranks, m = place->ranks;
    int host = kolo_plan_wrap(place->host + (int)distance, (int)place->hosts);
    int rank = kolo_plan_rank_on(args, host, (int)local);
    step->after = kolo_in_window(index + 1);
    step->copy_from = blocks(args, KOLO_BUFFER_SEND, (size_t)rank, 1);
    step->copy_to = blocks(args, KOLO_BUFFER_SCRATCH, index, 1);
    if (local + 1 < m)
        return;
    step->to = away(args, place, (long)distance, 0);
    step->from = away(args, place, -(long)distance, 0);
    step->out = blocks(args, KOLO_BUFFER_SCRATCH, index + 1 - m, m);
    step->in = blocks(args, KOLO_BUFFER_SCRATCH, packed_of(place) + index + 1 - m, m);
}

static void step_inside(const struct kolo_plan_args *args, const struct place *place, size_t index,
                        struct kolo_step *step)
{
    size_t shift = index / place->hosts + 1, distance = index % place->hosts, n = place->hosts;
    int rank = away(args, place, 0, (long)shift);
    step->after = kolo_in_window(index + 1);
    step->copy_from = distance == 0
                          ? blocks(args, KOLO_BUFFER_SEND, (size_t)rank, 1)
                          : arrived(args, place, distance, (size_t)args->hosts->local[rank]);
    step->copy_to = blocks(args, KOLO_BUFFER_SCRATCH, index, 1);
    if (distance + 1 < n)
        return;
    size_t in = packed_of(place) + across_of(place) + index + 1 - n;
    step->to = rank;
    step->from = away(args, place, 0, -(long)shift);
    step->out = blocks(args, KOLO_BUFFER_SCRATCH, index + 1 - n, n);
    step->in = blocks(args, KOLO_BUFFER_SCRATCH, in, n);
}

/** Block @p index, by the distance of its sender: first those of the ranks at this rank's place on
 * each host. */
static void step_home(const struct kolo_plan_args *args, const struct place *place, size_t index,
                      struct kolo_step *step)
{
    size_t shift = index / place->hosts, distance = index % place->hosts;
    int rank = away(args, place, -(long)distance, -(long)shift);
    size_t at = packed_of(place) + across_of(place) + index - place->hosts;
    step->after = kolo_in_window(index + 1);
    step->copy_to = blocks(args, KOLO_BUFFER_RECV, (size_t)rank, 1);
    if (shift > 0)
        step->copy_from = blocks(args, KOLO_BUFFER_SCRATCH, at, 1);
    else if (distance > 0)
        step->copy_from = arrived(args, place, distance, (size_t)place->local);
    else
        step->copy_from = blocks(args, KOLO_BUFFER_SEND, (size_t)rank, 1);
}

static void twolevel_alltoall_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    struct place place = place_of(args);
    size_t across = across_of(&place), inside = inside_of(&place);
    kolo_step_clear(step_out);
    if (index < across)
        step_across(args, &place, index, step_out);
    else if (index < across + inside)
        step_inside(args, &place, index - across, step_out);
    else
        step_home(args, &place, index - across - inside, step_out);
}

const struct kolo_plan kolo_plan_twolevel_alltoall = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_ALLTOALL,
    .number = KOLO_PLAN_TWOLEVEL_ALLTOALL,
    .summary = "all blocks of a rank for another host in one message, distributed there",
    .closes = true,
    .is_by_hosts = true,
    .fits = twolevel_alltoall_fits,
    .scratch = twolevel_alltoall_scratch,
    .held = twolevel_alltoall_held,
    .nsteps = twolevel_alltoall_nsteps,
    .window = twolevel_alltoall_window,
    .step = twolevel_alltoall_step,
};
