// SPDX-License-Identifier: Apache-2.0
// Allreduce in two levels, for ranks on several hosts: between hosts goes what must, at once from all
// ranks of a host, and the rest stays inside.
//
// With L = the fewest ranks that any host has: inside each host its first L ranks
//              halve the vector, so that local rank l has the host's sum of share l; the ranks l of
//              all hosts allreduce share l by halving and doubling; inside the hosts doubling
//              spreads the shares. A host sends 2 (H - 1) / H vectors, a flat ring nearly 2. Ranks
//              beyond the first L are guests: those of one sharer give it their sum along a
//              binomial tree beforehand, and get the result along the same.
// A long vector is allreduced in pieces, so that one crosses the wire while those before and after
// it are spread and halved inside the hosts. The rounds of all phases are stages, numbered alike on
// all ranks; in slot t of the plan stage k works on piece t - k. Two ranks that meet in several
// stages see the same order of messages, because all go by slot, then stage.
//
// Halving and doubling are those of plan_halving.c, run on a part of the ranks and of the vector.
#include "runtime/plan.h"

enum { PIECE_FRACTION = 2 /* a message over the wire is a segment divided by this */ };

/** This rank among those of its host, and the stages that all ranks have. */
struct seat {
    int host, local;
    int sharers;              /* L */
    int member, members;      /* of the ranks local % L, local % L + L, ...; member 0 shares */
    int tree, inside, across; /* stages of guests, of halving inside and across hosts */
};

static int rounds_of(int size)
{
    int rounds = 0;
    while ((1L << rounds) < size)
        rounds++;
    return rounds;
}

static struct seat seat_of(const struct kolo_plan_args *args)
{
    const struct kolo_hosts *hosts = args->hosts;
    struct seat seat = {
        .host = hosts->of[args->rank], .local = hosts->local[args->rank], .sharers = hosts->least};
    int ranks = hosts->first[seat.host + 1] - hosts->first[seat.host];
    seat.member = seat.local / seat.sharers;
    seat.members = (ranks - 1 - seat.local % seat.sharers) / seat.sharers + 1;
    seat.tree = rounds_of((hosts->most - 1) / seat.sharers + 1);
    seat.inside = rounds_of(seat.sharers);
    seat.across = rounds_of(hosts->count);
    return seat;
}

const char *kolo_twolevel_fits(const struct kolo_plan_args *args)
{
    if (args->hosts == NULL || args->hosts->count < 2)
        return "all ranks are on one host";
    return args->hosts->count == args->size ? "every rank is on a host of its own" : NULL;
}

/* ---- allreduce: pieces ---- */

/** How many there are: each so long that its messages over the wire are about as long as pays. */
static size_t pieces_of(const struct kolo_plan_args *args)
{
    size_t shares = (size_t)args->hosts->least * (size_t)args->hosts->count;
    size_t length = args->segment > SIZE_MAX / shares ? SIZE_MAX : args->segment * shares;
    return kolo_pieces(args->count, length / PIECE_FRACTION);
}

static struct kolo_slice piece_at(const struct kolo_plan_args *args, size_t index)
{
    size_t pieces = pieces_of(args), length = args->count / pieces + (args->count % pieces != 0);
    return kolo_slice_piece((struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count}, index, length);
}

/** The arguments of halving and doubling inside the host, for a piece of @p count, ... */
static struct kolo_plan_args inside(const struct seat *seat, size_t count)
{
    return (struct kolo_plan_args){
        .rank = seat->local, .size = seat->sharers, .count = count, .segment = 1};
}

/** ... and across hosts; *offset_out: where in the piece the share begins. */
static struct kolo_plan_args across(const struct kolo_plan_args *args, const struct seat *seat,
                                    size_t count, size_t *offset_out)
{
    struct kolo_plan_args sharing = inside(seat, count);
    struct kolo_slice share = kolo_plan_chunk(&sharing, seat->local, KOLO_BUFFER_RECV);
    *offset_out = share.offset;
    return (struct kolo_plan_args){
        .rank = seat->host, .size = args->hosts->count, .count = share.count, .segment = 1};
}

/* ---- allreduce: what a rank does with one piece ---- */

/** How many steps each phase takes on this rank, in their order. */
struct phases {
    size_t up, halving, across, doubling, down;
};

static struct phases phases_of(const struct kolo_plan_args *args, const struct seat *seat)
{
    size_t offset,
        edges = (size_t)kolo_plan_children(seat->member, seat->members) + (seat->member > 0);
    struct phases phases = {.up = edges, .down = edges};
    if (seat->member > 0)
        return phases;
    struct kolo_plan_args in = inside(seat, 0), out = across(args, seat, 0, &offset);
    phases.across = kolo_halving_allreduce_nsteps(&out);
    if (seat->sharers > 1) {
        phases.halving = kolo_halving_half(&in);
        phases.doubling = kolo_halving_allreduce_nsteps(&in) - phases.halving;
    }
    return phases;
}

static size_t steps_of(const struct phases *phases)
{
    return phases->up + phases->halving + phases->across + phases->doubling + phases->down;
}

static struct kolo_slice whole(const struct kolo_plan_args *args, enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, 0, args->count};
}

/** Moves a slice of a part of the vector to where it lies in the whole; @p is_held: what the rank
 * brings into the part lies in RECV. */
static void place(struct kolo_slice *slice, size_t offset, bool is_held)
{
    slice->offset += slice->count > 0 ? offset : 0;
    if (is_held && slice->buffer == KOLO_BUFFER_SEND)
        slice->buffer = KOLO_BUFFER_RECV;
}

static void place_step(struct kolo_step *step, size_t offset, bool is_held)
{
    place(&step->copy_from, offset, is_held);
    place(&step->copy_to, offset, is_held);
    place(&step->finish, offset, is_held);
    place(&step->out, offset, is_held);
    place(&step->in, offset, is_held);
    place(&step->local, offset, is_held);
    if (is_held) /* it is there */
        step->copy_from.count = step->copy_to.count = 0;
}

/** A step, the stage it belongs to, and how many right before it may go on beside it. */
struct turn {
    struct kolo_step *step;
    int stage;
    size_t beside;
};

/** The member of this rank's group at @p member, as a rank. */
static int fellow(const struct kolo_plan_args *args, const struct seat *seat, int member)
{
    return kolo_plan_rank_on(args, seat->host,
                             seat->local % seat->sharers + member * seat->sharers);
}

/** Edge @p index of the tree over guests, those to children first. */
static int edge(const struct seat *seat, int index)
{
    int children = kolo_plan_children(seat->member, seat->members), bit = index;
    if (index == children) /* to the parent, by the lowest bit that is set */
        for (bit = 0; (seat->member >> bit & 1) == 0;)
            bit++;
    return bit;
}

static void tree_up(const struct kolo_plan_args *args, const struct seat *seat, int index,
                    struct turn *turn)
{
    int bit = edge(seat, index), children = kolo_plan_children(seat->member, seat->members);
    struct kolo_slice held = whole(args, index == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    turn->stage = bit;
    if (index == children) {
        turn->step->to = fellow(args, seat, seat->member - (1 << bit));
        turn->step->out = held;
        return;
    }
    turn->step->from = fellow(args, seat, seat->member + (1 << bit));
    turn->step->in = whole(args, KOLO_BUFFER_RECV);
    turn->step->local = held;
    turn->step->reduces = true;
}

/** The same backwards: from the parent, then to the child of the largest subtree first. */
static void tree_down(const struct kolo_plan_args *args, const struct seat *seat, int index,
                      struct turn *turn)
{
    int children = kolo_plan_children(seat->member, seat->members), has_parent = seat->member > 0;
    int bit = edge(seat, children + has_parent - 1 - index);
    turn->stage = 2 * (seat->tree + seat->inside + seat->across) - 1 - bit;
    if (index < has_parent) {
        turn->step->from = fellow(args, seat, seat->member - (1 << bit));
        turn->step->in = whole(args, KOLO_BUFFER_RECV);
        return;
    }
    turn->step->to = fellow(args, seat, seat->member + (1 << bit));
    turn->step->out = whole(args, KOLO_BUFFER_RECV);
    turn->beside = (size_t)(index - has_parent); /* what goes to the others is only read */
}

static void step_inside(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                        struct turn *turn)
{
    struct kolo_plan_args in = inside(seat, args->count);
    struct kolo_step *step = turn->step;
    int round = kolo_halving_round(&in, index);
    kolo_halving_allreduce_step(&in, index, step);
    place_step(step, 0, seat->members > 1);
    step->finish.count = 0; /* is done across hosts */
    step->to = step->to < 0 ? -1 : kolo_plan_rank_on(args, seat->host, step->to);
    step->from = step->from < 0 ? -1 : kolo_plan_rank_on(args, seat->host, step->from);
    turn->stage = seat->tree + round + (round < seat->inside ? 0 : 2 * seat->across);
    turn->beside = step->after - 1;
}

static void step_across(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                        struct turn *turn)
{
    size_t offset;
    struct kolo_plan_args out = across(args, seat, args->count, &offset);
    struct kolo_step *step = turn->step;
    kolo_halving_allreduce_step(&out, index, step);
    place_step(step, offset, seat->members > 1 || seat->sharers > 1);
    step->to = step->to < 0 ? -1 : kolo_plan_rank_on(args, step->to, seat->local);
    step->from = step->from < 0 ? -1 : kolo_plan_rank_on(args, step->from, seat->local);
    turn->stage = seat->tree + seat->inside + kolo_halving_round(&out, index);
    turn->beside = step->after - 1;
}

/** Step @p index of those for one piece, of @p args->count elements. */
static struct turn turn_of(const struct kolo_plan_args *args, const struct seat *seat,
                           const struct phases *phases, size_t index, struct kolo_step *step)
{
    struct turn turn = {.step = step};
    kolo_step_clear(step);
    if (index < phases->up) {
        tree_up(args, seat, (int)index, &turn);
        return turn;
    }
    index -= phases->up;
    if (index < phases->halving) {
        step_inside(args, seat, index, &turn);
        return turn;
    }
    index -= phases->halving;
    if (index < phases->across) {
        step_across(args, seat, index, &turn);
        return turn;
    }
    index -= phases->across;
    if (index < phases->doubling)
        step_inside(args, seat, phases->halving + index, &turn);
    else
        tree_down(args, seat, (int)(index - phases->doubling), &turn);
    return turn;
}

/* ---- allreduce: all pieces ---- */

/** Slots until this rank is through: its last stage works on the last piece in the last one. A
 * single piece needs none: its steps follow each other. */
static size_t slots_of(const struct kolo_plan_args *args, const struct seat *seat,
                       const struct phases *phases)
{
    struct kolo_step step;
    size_t pieces = pieces_of(args);
    if (pieces == 1)
        return 1;
    return pieces + (size_t)turn_of(args, seat, phases, steps_of(phases) - 1, &step).stage;
}

size_t kolo_twolevel_allreduce_nsteps(const struct kolo_plan_args *args)
{
    struct seat seat = seat_of(args);
    struct phases phases = phases_of(args, &seat);
    return slots_of(args, &seat, &phases) * steps_of(&phases);
}

static size_t at_most(size_t steps)
{
    return steps < KOLO_WINDOW_MAX ? steps : KOLO_WINDOW_MAX;
}

size_t kolo_twolevel_allreduce_window(const struct kolo_plan_args *args)
{
    struct seat seat = seat_of(args);
    struct phases phases = phases_of(args, &seat);
    size_t beside = phases.down > 2 ? phases.down - 1 : 1;
    return at_most((pieces_of(args) > 1 ? steps_of(&phases) : 0) + 1 + beside);
}

void kolo_twolevel_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct seat seat = seat_of(args);
    struct phases phases = phases_of(args, &seat);
    size_t steps = steps_of(&phases), pieces = pieces_of(args), slot = index / steps;
    struct kolo_plan_args own = *args;
    struct turn turn;
    if (pieces == 1) {
        turn = turn_of(args, &seat, &phases, index, step_out);
        step_out->after = at_most(1 + turn.beside);
        return;
    }
    own.count = 0;
    turn = turn_of(&own, &seat, &phases, index % steps, step_out);
    size_t stage = (size_t)turn.stage;
    if (slot < stage || slot - stage >= pieces) {
        kolo_step_clear(step_out);
    } else {
        struct kolo_slice piece = piece_at(args, slot - stage);
        own.count = piece.count;
        turn = turn_of(&own, &seat, &phases, index % steps, step_out);
        place_step(step_out, piece.offset, false);
    }
    /* what the stage before did with this piece was in the slot before, or earlier */
    step_out->after = at_most(steps + 1 + turn.beside);
}
