// SPDX-License-Identifier: Apache-2.0
// Allgather and reduce_scatter in two levels, for ranks on several hosts: a block goes to each
// other host once, and is distributed or summed inside the hosts. (On a ring the blocks of a host
// would leave it at one rank and, except for one, enter it again.) Every rank of a host uses the
// wire.
//
// Block i of host g (that of its local rank i) has a ward on each other host: on a host of m ranks,
// local rank i % m. If a host has fewer ranks than others, its wards have several blocks, in rows:
// row j of a ward is block j * m + ward.
//
//   allgather       each rank sends its block to its ward on the host at distance d, for d = 1, 2,
//                   ..., and the wards distribute what they received inside their host.
//   reduce_scatter  in reverse: the ranks of a host give their parts of a block to its ward, which
//                   sums them and sends the sum to the block's owner.
//
// Blocks are cut into pieces. A unit is a piece and a distance d. Slot t of a plan does the first
// thing to unit t, the second to unit t - 1, and so on, so that the wire and the hosts work at the
// same time. The blocks of a rank's own host are handled beside the units of distance 1. For a unit
// that does not exist (before the first, after the last) a step is empty.
#include "runtime/plan.h"

enum {
    AHEAD = 2,          /* units of an allgather on the wire while one is distributed */
    GROUP = 4,          /* pieces that take turns, since all sums of a piece meet in one place */
    PIECE_FRACTION = 2, /* a piece is a segment divided by this */
};

struct place {
    int host, local, hosts;
    int ranks, rows; /* of this host; the most blocks of another host that a ward has */
    size_t pieces, length, group;
};

struct unit {
    bool exists;
    int distance;
    size_t piece;
};

static int ranks_on(const struct kolo_plan_args *args, int host)
{
    return args->hosts->first[host + 1] - args->hosts->first[host];
}

static struct place place_of(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    struct place place = {
        .host = hosts->of[args->rank], .local = hosts->local[args->rank], .hosts = hosts->count};
    place.ranks = ranks_on(args, place.host);
    place.rows = (hosts->most - 1) / place.ranks + 1;
    place.length = args->segment >= PIECE_FRACTION ? args->segment / PIECE_FRACTION : 1;
    place.pieces = kolo_pieces(kolo_plan_longest_block(args), place.length);
    place.group = place.pieces < GROUP ? place.pieces : GROUP;
    return place;
}

static size_t units_of(const struct place *place)
{
    size_t groups = (place->pieces + place->group - 1) / place->group;
    return groups * place->group * (size_t)(place->hosts - 1);
}

/** Unit @p index; negative units and those beyond the last do not exist. */
static struct unit unit_at(const struct place *place, long index)
{
    struct unit unit = {.exists = false};
    if (index < 0 || (size_t)index >= units_of(place))
        return unit;
    size_t turn = place->group * (size_t)(place->hosts - 1), rest = (size_t)index % turn;
    unit.piece = (size_t)index / turn * place->group + rest % place->group;
    unit.distance = 1 + (int)(rest / place->group);
    unit.exists = unit.piece < place->pieces;
    return unit;
}

static int host_at(const struct place *place, int distance)
{
    return kolo_plan_wrap(place->host + distance, place->hosts);
}

static int neighbour(const struct place *place, int distance)
{
    return kolo_plan_wrap(place->local + distance, place->ranks);
}

static struct kolo_slice piece_of(const struct place *place, const struct unit *unit,
                                  struct kolo_slice slice)
{
    return kolo_slice_piece(slice, unit->piece, place->length);
}

/** This unit's piece of the block of @p rank in @p buffer. */
static struct kolo_slice block(const struct kolo_plan_args *args, const struct place *place,
                               const struct unit *unit, int rank, enum kolo_buffer buffer)
{
    return piece_of(place, unit, kolo_plan_block_in(args, rank, buffer));
}

/** This unit's piece of the rank's own block, which is alone in @p buffer. */
static struct kolo_slice own(const struct kolo_plan_args *args, const struct place *place,
                             const struct unit *unit, enum kolo_buffer buffer)
{
    return piece_of(place, unit, (struct kolo_slice){buffer, 0, kolo_plan_block(args, args->rank)});
}

/** The owner of the block that local rank @p ward has in @p row of the blocks of @p host; -1:
 * none. */
static int owner(const struct kolo_plan_args *args, const struct place *place, int host, int row,
                 int ward)
{
    int index = row * place->ranks + ward;
    return index < ranks_on(args, host) ? kolo_plan_rank_on(args, host, index) : -1;
}

size_t kolo_twolevel_blocks_window(const struct kolo_plan_args *args)
{
    (void)args;
    return KOLO_WINDOW_MAX;
}

/* ---- allgather: over the wire; the own host's blocks; then what was received ---- */

static size_t gather_slot(const struct place *place)
{
    return (size_t)place->rows + ((size_t)place->rows + 1) * (size_t)(place->ranks - 1);
}

static void gather_across(const struct kolo_plan_args *args, const struct place *place,
                          const struct unit *unit, int row, struct kolo_step *step)
{
    int to = host_at(place, unit->distance), from = host_at(place, -unit->distance);
    step->from = owner(args, place, from, row, place->local);
    if (step->from >= 0)
        step->in = block(args, place, unit, step->from, KOLO_BUFFER_RECV);
    if (row == 0) {
        step->to = kolo_plan_rank_on(args, to, place->local % ranks_on(args, to));
        step->out = own(args, place, unit, KOLO_BUFFER_SEND);
    }
}

static void gather_own(const struct kolo_plan_args *args, const struct place *place,
                       const struct unit *unit, int shift, struct kolo_step *step)
{
    step->to = kolo_plan_rank_on(args, place->host, neighbour(place, shift));
    step->out = own(args, place, unit, KOLO_BUFFER_SEND);
    step->from = kolo_plan_rank_on(args, place->host, neighbour(place, -shift));
    step->in = block(args, place, unit, step->from, KOLO_BUFFER_RECV);
}

static void gather_inside(const struct kolo_plan_args *args, const struct place *place,
                          const struct unit *unit, int row, int shift, struct kolo_step *step)
{
    int host = host_at(place, -unit->distance), ward = neighbour(place, -shift);
    int mine = owner(args, place, host, row, place->local);
    int theirs = owner(args, place, host, row, ward);
    if (mine >= 0) {
        step->to = kolo_plan_rank_on(args, place->host, neighbour(place, shift));
        step->out = block(args, place, unit, mine, KOLO_BUFFER_RECV);
    }
    if (theirs >= 0) {
        step->from = kolo_plan_rank_on(args, place->host, ward);
        step->in = block(args, place, unit, theirs, KOLO_BUFFER_RECV);
    }
}

static void twolevel_allgather_step(const struct kolo_plan_args *args, size_t index,
                                    struct kolo_step *step_out)
{
    struct place place = place_of(args);
    size_t steps = gather_slot(&place), others = (size_t)place.ranks - 1, k = index % steps;
    size_t rows = (size_t)place.rows;
    long slot = (long)(index / steps);
    struct unit unit = unit_at(&place, k < rows + others ? slot : slot - AHEAD);
    kolo_step_clear(step_out);
    step_out->after = KOLO_WINDOW_MAX;
    if (index == 0) {
        step_out->copy_from =
            (struct kolo_slice){KOLO_BUFFER_SEND, 0, kolo_plan_block(args, args->rank)};
        step_out->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (k >= rows + others) /* what is passed on was received AHEAD slots earlier */
        step_out->after = kolo_in_window(AHEAD * steps + k - rows + 1);
    if (!unit.exists)
        return;
    if (k < rows) {
        gather_across(args, &place, &unit, (int)k, step_out);
    } else if (k < rows + others) {
        if (unit.distance == 1)
            gather_own(args, &place, &unit, (int)(k - rows) + 1, step_out);
    } else {
        k -= rows + others;
        gather_inside(args, &place, &unit, (int)(k / others), (int)(k % others) + 1, step_out);
    }
}

static size_t twolevel_allgather_nsteps(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    size_t slots = units_of(&place) + (place.ranks > 1 ? AHEAD : 0);
    size_t nsteps = slots * gather_slot(&place);
    struct kolo_step step;
    do
        twolevel_allgather_step(args, --nsteps, &step);
    while (step.to < 0 && step.from < 0);
    return nsteps + 1;
}

/* ---- reduce_scatter: from each other rank of the host in turn; then over the wire ---- */

static size_t scatter_slot(const struct place *place)
{
    return (size_t)(place->ranks - 1) * ((size_t)place->rows + 1) + (size_t)place->rows;
}

/** Units whose sums are in scratch at the same time: from the slot of the first part's arrival to
 * the slot in which the sum has been sent. */
static size_t held_units(const struct place *place)
{
    size_t units = units_of(place), held = (size_t)place->ranks + 1;
    return held < units ? held : units;
}

static size_t twolevel_reduce_scatter_scratch(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    size_t longest = kolo_plan_longest_block(args),
           length = longest < place.length ? longest : place.length;
    return place.ranks > 1 ? held_units(&place) * (size_t)place.rows * length : 0;
}

/** The sum of this unit's piece of a block in @p row, of @p count elements. */
static struct kolo_slice sum_of(const struct kolo_plan_args *args, const struct place *place,
                                size_t unit, int row, size_t count)
{
    size_t longest = kolo_plan_longest_block(args);
    size_t length = longest < place->length ? longest : place->length;
    size_t at = unit % held_units(place) * (size_t)place->rows + (size_t)row;
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH, at * length, count};
}

static void scatter_inside(const struct kolo_plan_args *args, const struct place *place,
                           size_t index, const struct unit *unit, int row, int shift,
                           struct kolo_step *step)
{
    int host = host_at(place, unit->distance), ward = neighbour(place, shift);
    int mine = owner(args, place, host, row, place->local);
    int theirs = owner(args, place, host, row, ward);
    if (theirs >= 0) {
        step->to = kolo_plan_rank_on(args, place->host, ward);
        step->out = block(args, place, unit, theirs, KOLO_BUFFER_SEND);
    }
    if (mine >= 0) {
        struct kolo_slice given = block(args, place, unit, mine, KOLO_BUFFER_SEND);
        step->from = kolo_plan_rank_on(args, place->host, neighbour(place, -shift));
        step->in = sum_of(args, place, index, row, given.count);
        step->local = shift == 1 ? given : step->in;
        step->reduces = true;
    }
}

static void scatter_own(const struct kolo_plan_args *args, const struct place *place,
                        const struct unit *unit, int shift, struct kolo_step *step)
{
    step->to = kolo_plan_rank_on(args, place->host, neighbour(place, shift));
    step->out = block(args, place, unit, step->to, KOLO_BUFFER_SEND);
    step->from = kolo_plan_rank_on(args, place->host, neighbour(place, -shift));
    step->in = own(args, place, unit, KOLO_BUFFER_RECV);
    step->local = shift == 1 ? block(args, place, unit, args->rank, KOLO_BUFFER_SEND) : step->in;
    step->reduces = true;
}

static void scatter_across(const struct kolo_plan_args *args, const struct place *place,
                           size_t index, const struct unit *unit, int row, struct kolo_step *step)
{
    int to = host_at(place, unit->distance), from = host_at(place, -unit->distance);
    step->to = owner(args, place, to, row, place->local);
    if (step->to >= 0) {
        step->out = block(args, place, unit, step->to, KOLO_BUFFER_SEND);
        if (place->ranks > 1)
            step->out = sum_of(args, place, index, row, step->out.count);
    }
    if (row == 0) {
        bool is_first = place->ranks == 1 && unit->distance == 1;
        step->from = kolo_plan_rank_on(args, from, place->local % ranks_on(args, from));
        step->in = own(args, place, unit, KOLO_BUFFER_RECV);
        step->local = is_first ? block(args, place, unit, args->rank, KOLO_BUFFER_SEND) : step->in;
        step->reduces = true;
    }
}

static size_t twolevel_reduce_scatter_nsteps(const struct kolo_plan_args *args)
{
    struct place place = place_of(args);
    /* the last step only finishes */
    return (units_of(&place) + (size_t)place.ranks - 1) * scatter_slot(&place) + 1;
}

static void twolevel_reduce_scatter_step(const struct kolo_plan_args *args, size_t index,
                                         struct kolo_step *step_out)
{
    struct place place = place_of(args);
    size_t steps = scatter_slot(&place), each = (size_t)place.rows + 1, k = index % steps;
    size_t stage = k / each < (size_t)place.ranks - 1 ? k / each : (size_t)place.ranks - 1;
    long at = (long)(index / steps) - (long)stage;
    struct unit unit = unit_at(&place, at);
    kolo_step_clear(step_out);
    if (index + 1 == twolevel_reduce_scatter_nsteps(args)) {
        step_out->finish =
            (struct kolo_slice){KOLO_BUFFER_RECV, 0, kolo_plan_block(args, args->rank)};
        return;
    }
    k -= stage * each;
    /* the previous stage was in the previous slot; sums of a piece meet a group of units apart */
    step_out->after = kolo_in_window(place.group > 1 || place.hosts == 2 ? steps + 1 : steps);
    if (!unit.exists)
        return;
    if (stage == (size_t)place.ranks - 1)
        scatter_across(args, &place, (size_t)at, &unit, (int)k, step_out);
    else if (k + 1 < each)
        scatter_inside(args, &place, (size_t)at, &unit, (int)k, (int)stage + 1, step_out);
    else if (unit.distance == 1)
        scatter_own(args, &place, &unit, (int)stage + 1, step_out);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_twolevel_allgather = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_TWOLEVEL_ALLGATHER,
    .summary = "each block to one rank of each other host, which spreads it there",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = kolo_twolevel_fits,
    .scratch = kolo_no_scratch,
    .nsteps = twolevel_allgather_nsteps,
    .window = kolo_twolevel_blocks_window,
    .step = twolevel_allgather_step,
};

const struct kolo_plan kolo_plan_twolevel_reduce_scatter = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_TWOLEVEL_REDUCE_SCATTER,
    .summary = "each block summed by one rank of each other host, which sends it to its owner",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = kolo_twolevel_fits,
    .scratch = twolevel_reduce_scatter_scratch,
    .nsteps = twolevel_reduce_scatter_nsteps,
    .window = kolo_twolevel_blocks_window,
    .step = twolevel_reduce_scatter_step,
};
