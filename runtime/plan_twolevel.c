// SPDX-License-Identifier: Apache-2.0
// Allreduce in levels, for ranks on several hosts: between hosts only what is necessary is sent, by
// all ranks of a host at once, and the rest stays inside. Hosts with several NUMA domains have a
// level for these in between.
//
// Groups are hosts, or domains. Let L be the size of the smallest group.
//   - Inside each group its first L ranks halve the vector, so that place l has the group's sum of
//     share l.
//   - The ranks at place l of a host's domains halve share l in the same way.
//   - The ranks at the same place of the same domain of all hosts allreduce what is left, by
//     halving and doubling.
//   - Doubling distributes the shares, between domains and inside groups.
// A host sends 2 (H - 1) / H vectors, where a flat ring sends nearly 2; between its D domains go 2
// (D - 1) vectors. Ranks beyond the first L are guests. The guests of a sharer give it their sum
// along a binomial tree beforehand, and get the result along the same tree.
//
// A long vector is allreduced in pieces, so that one piece is on the wire while those before and
// after it are distributed and halved inside the hosts. The rounds of all phases are stages, with
// the same numbers on all ranks; in slot t of the plan, stage k works on piece t - k. Two ranks
// that meet in several stages see the same order of messages, because all go by slot, then by
// stage.
//
// Halving and doubling are those of plan_halving.c, applied to a part of the ranks and of the
// vector.
#include "runtime/plan.h"

enum { PIECE_FRACTION = 2 /* a message over the wire is a segment divided by this */ };

/** Inside a group, between the domains of a host, and across hosts. The levels before a level
 * determine the part of the vector on which it works, and which ranks share that part. */
enum { INSIDE, BETWEEN, ACROSS, LEVELS };

/** The groups; those of a host are consecutive. */
struct groups {
    int a_host, most; /* groups on each host; ranks of the largest group */
    int sharers;      /* L */
    const int *of, *local, *first;
};

/** This rank's place in its group, and the stages that all ranks have. */
struct seat {
    struct groups groups;
    int at[LEVELS], size[LEVELS]; /* at each level: its number, and the number of ranks */
    int member, members; /* among the ranks local % L, local % L + L, ...; member 0 shares */
    int tree;            /* stages of the guests' tree; ... */
    int rounds[LEVELS];  /* ... of each level, one way; ... */
    int across;          /* ... of the last level, both ways */
};

static int rounds_of(int size)
{
    int rounds = 0;
    while ((1L << rounds) < size)
        rounds++;
    return rounds;
}

static struct groups groups_of_hosts(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    return (struct groups){1, hosts->most, hosts->least, hosts->of, hosts->local, hosts->first};
}

static struct groups groups_of_domains(const struct kolo_plan_args *args)
{
    const struct kolo_domains *domains = &args->hosts->domains;
    return (struct groups){domains->a_host, domains->most,  domains->least,
                           domains->of,     domains->local, domains->first};
}

static struct seat seat_of(const struct kolo_plan_args *args, struct groups groups)
{
    int group = groups.of[args->rank], local = groups.local[args->rank];
    int ranks = groups.first[group + 1] - groups.first[group];
    struct seat seat = {.groups = groups,
                        .at = {local, group % groups.a_host, group / groups.a_host},
                        .size = {groups.sharers, groups.a_host, args->hosts->count}};
    seat.member = local / groups.sharers;
    seat.members = (ranks - 1 - local % groups.sharers) / groups.sharers + 1;
    seat.tree = rounds_of((groups.most - 1) / groups.sharers + 1);
    for (int level = 0; level < LEVELS; level++)
        seat.rounds[level] = rounds_of(seat.size[level]);
    /* a stage is needed to finish */
    seat.across = seat.size[ACROSS] > 1 ? 2 * seat.rounds[ACROSS] : 1;
    return seat;
}

const char *kolo_twolevel_fits(const struct kolo_plan_args *args)
{
    if (!args->hosts || args->hosts->count < 2)
        return "all ranks are on one host";
    return args->hosts->count == args->size ? "every rank is on a host of its own" : NULL;
}

static const char *numa_allreduce_fits(const struct kolo_plan_args *args)
{
    const char *why = kolo_numa_fits(args);
    if (!why && args->hosts->domains.a_host == 0)
        return "some hosts have ranks on more NUMA nodes than others";
    return why;
}

/** The rank that differs from this one only at @p level, where its number is @p number. */
static int peer(const struct kolo_plan_args *args, const struct seat *seat, int level, int number)
{
    int at[LEVELS] = {seat->at[INSIDE], seat->at[BETWEEN], seat->at[ACROSS]};
    at[level] = number;
    int group = at[ACROSS] * seat->groups.a_host + at[BETWEEN];
    return kolo_plan_rank_at(args, seat->groups.first[group] + at[INSIDE]);
}

/* ---- pieces ---- */

/** The number of pieces, so that messages over the wire have about the best length. */
static size_t pieces_of(const struct kolo_plan_args *args, const struct seat *seat)
{
    size_t shares = 1;
    for (int level = 0; level < LEVELS; level++)
        shares *= (size_t)seat->size[level];
    size_t length = args->segment > SIZE_MAX / shares ? SIZE_MAX : args->segment * shares;
    return kolo_pieces(args->count, length / PIECE_FRACTION);
}

static struct kolo_slice piece_at(const struct kolo_plan_args *args, size_t pieces, size_t index)
{
    size_t length = args->count / pieces + (args->count % pieces != 0);
    return kolo_slice_piece((struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count}, index, length);
}

/** The arguments of halving and doubling at @p level, for a piece of @p count elements.
 * *offset_out: where in the piece the part begins that the earlier levels have left to this
 * rank. */
static struct kolo_plan_args part_at(const struct seat *seat, int level, size_t count,
                                     size_t *offset_out)
{
    struct kolo_plan_args part = {.count = count, .segment = 1};
    *offset_out = 0;
    for (int before = 0;; before++) {
        part.rank = seat->at[before];
        part.size = seat->size[before];
        if (before == level)
            return part;
        struct kolo_slice share = kolo_plan_chunk(&part, part.rank, KOLO_BUFFER_RECV);
        *offset_out += share.offset;
        part.count = share.count;
    }
}

/* ---- what a rank does with one piece ---- */

/** The phases of a piece, in order. */
enum { UP, HALVING, HALVING_BETWEEN, ALL_ACROSS, DOUBLING_BETWEEN, DOUBLING, DOWN, PHASES };

static int level_of(int phase)
{
    return phase <= ALL_ACROSS ? phase - HALVING : DOUBLING - phase;
}

/** The number of steps of each phase on this rank. */
struct phases {
    size_t steps[PHASES];
};

static struct phases phases_of(const struct seat *seat)
{
    size_t offset,
        edges = (size_t)kolo_plan_children(seat->member, seat->members) + (seat->member > 0);
    struct phases phases = {.steps = {[UP] = edges, [DOWN] = edges}};
    if (seat->member > 0)
        return phases;
    struct kolo_plan_args last = part_at(seat, ACROSS, 0, &offset);
    phases.steps[ALL_ACROSS] = kolo_plan_halving_allreduce.nsteps(&last);
    for (int level = INSIDE; level < ACROSS; level++) {
        if (seat->size[level] == 1)
            continue;
        struct kolo_plan_args part = part_at(seat, level, 0, &offset);
        size_t half = kolo_halving_half(&part);
        phases.steps[HALVING + level] = half;
        phases.steps[DOUBLING - level] = kolo_plan_halving_allreduce.nsteps(&part) - half;
    }
    return phases;
}

static size_t steps_of(const struct phases *phases)
{
    size_t steps = 0;
    for (int phase = 0; phase < PHASES; phase++)
        steps += phases->steps[phase];
    return steps;
}

/** Moves a slice from its place in a part of the vector to that in the whole. @p is_held: the
 * rank's operand is in RECV. */
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
    if (is_held) /* the operand is there already */
        step->copy_from.count = step->copy_to.count = 0;
}

/** A step, its stage, and how many steps right before it may be in flight beside it. */
struct turn {
    struct kolo_step *step;
    int stage;
    size_t beside;
};

/** The rank of member @p member among those for which this rank's sharer stands. */
static int fellow(const struct kolo_plan_args *args, const struct seat *seat, int member)
{
    int sharers = seat->groups.sharers;
    return peer(args, seat, INSIDE, seat->at[INSIDE] % sharers + member * sharers);
}

/** Edge @p index of the guests' tree; the edges to children come first. */
static int edge(const struct seat *seat, int index)
{
    int children = kolo_plan_children(seat->member, seat->members), bit = index;
    if (index == children) /* to the parent, by the lowest set bit */
        for (bit = 0; (seat->member >> bit & 1) == 0;)
            bit++;
    return bit;
}

static void tree_up(const struct kolo_plan_args *args, const struct seat *seat, int index,
                    struct turn *turn)
{
    int bit = edge(seat, index), children = kolo_plan_children(seat->member, seat->members);
    struct kolo_slice held =
        kolo_slice_whole(args, index == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    turn->stage = bit;
    if (index == children) {
        turn->step->to = fellow(args, seat, seat->member - (1 << bit));
        turn->step->out = held;
        return;
    }
    turn->step->from = fellow(args, seat, seat->member + (1 << bit));
    turn->step->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    turn->step->local = held;
    turn->step->reduces = true;
}

static int stages_of(const struct seat *seat)
{
    return 2 * (seat->tree + seat->rounds[INSIDE] + seat->rounds[BETWEEN]) + seat->across;
}

/** The reverse of tree_up: from the parent, then to the children, the largest subtree first. */
static void tree_down(const struct kolo_plan_args *args, const struct seat *seat, int index,
                      struct turn *turn)
{
    int children = kolo_plan_children(seat->member, seat->members), has_parent = seat->member > 0;
    int bit = edge(seat, children + has_parent - 1 - index);
    turn->stage = stages_of(seat) - 1 - bit;
    if (index < has_parent) {
        turn->step->from = fellow(args, seat, seat->member - (1 << bit));
        turn->step->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
        return;
    }
    turn->step->to = fellow(args, seat, seat->member + (1 << bit));
    turn->step->out = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    turn->beside = (size_t)(index - has_parent); /* the data sent to the others is only read */
}

/** Step @p index of halving and doubling at @p level. */
static void step_at(const struct kolo_plan_args *args, const struct seat *seat, int level,
                    size_t index, struct turn *turn)
{
    size_t offset;
    struct kolo_plan_args part = part_at(seat, level, args->count, &offset);
    struct kolo_step *step = turn->step;
    int round = part.size > 1 ? kolo_halving_round(&part, index) : 0;
    bool is_held = seat->members > 1, doubles = round >= seat->rounds[level] && level < ACROSS;
    turn->stage = seat->tree + round;
    for (int before = 0; before < level; before++) {
        turn->stage += seat->rounds[before];
        is_held = is_held || seat->size[before] > 1;
    }
    if (doubles) /* all levels after this one are between its two halves */
        turn->stage += seat->across + (level == INSIDE ? 2 * seat->rounds[BETWEEN] : 0);
    kolo_plan_halving_allreduce.step(&part, index, step);
    place_step(step, offset, is_held);
    if (level < ACROSS)
        step->finish.count = 0; /* is done across hosts */
    step->to = step->to < 0 ? -1 : peer(args, seat, level, step->to);
    step->from = step->from < 0 ? -1 : peer(args, seat, level, step->from);
    turn->beside = step->after - 1;
}

/** Step @p index of those for one piece, of @p args->count elements. */
static struct turn turn_of(const struct kolo_plan_args *args, const struct seat *seat,
                           const struct phases *phases, size_t index, struct kolo_step *step)
{
    struct turn turn = {.step = step};
    int phase = UP;
    kolo_step_clear(step);
    for (; phase < DOWN && index >= phases->steps[phase]; phase++)
        index -= phases->steps[phase];
    if (phase == UP)
        tree_up(args, seat, (int)index, &turn);
    else if (phase == DOWN)
        tree_down(args, seat, (int)index, &turn);
    else if (phase <= ALL_ACROSS)
        step_at(args, seat, level_of(phase), index, &turn);
    else /* after the steps of the first half */
        step_at(args, seat, level_of(phase), phases->steps[HALVING + level_of(phase)] + index,
                &turn);
    return turn;
}

/* ---- all pieces ---- */

/** Slots until this rank is done: in the last slot its last stage works on the last piece. A single
 * piece needs no slots: its steps follow each other. */
static size_t slots_of(const struct kolo_plan_args *args, const struct seat *seat,
                       const struct phases *phases)
{
    struct kolo_step step;
    size_t pieces = pieces_of(args, seat);
    if (pieces == 1)
        return 1;
    return pieces + (size_t)turn_of(args, seat, phases, steps_of(phases) - 1, &step).stage;
}

static size_t nsteps(const struct kolo_plan_args *args, struct groups groups)
{
    struct seat seat = seat_of(args, groups);
    struct phases phases = phases_of(&seat);
    return slots_of(args, &seat, &phases) * steps_of(&phases);
}

static size_t window(const struct kolo_plan_args *args, struct groups groups)
{
    struct seat seat = seat_of(args, groups);
    struct phases phases = phases_of(&seat);
    size_t beside = phases.steps[DOWN] > 2 ? phases.steps[DOWN] - 1 : 1;
    return kolo_in_window((pieces_of(args, &seat) > 1 ? steps_of(&phases) : 0) + 1 + beside);
}

static void step(const struct kolo_plan_args *args, struct groups groups, size_t index,
                 struct kolo_step *step_out)
{
    struct seat seat = seat_of(args, groups);
    struct phases phases = phases_of(&seat);
    size_t steps = steps_of(&phases), pieces = pieces_of(args, &seat), slot = index / steps;
    struct kolo_plan_args own = *args;
    struct turn turn;
    if (pieces == 1) {
        turn = turn_of(args, &seat, &phases, index, step_out);
        step_out->after = kolo_in_window(1 + turn.beside);
        return;
    }
    own.count = 0;
    turn = turn_of(&own, &seat, &phases, index % steps, step_out);
    size_t stage = (size_t)turn.stage;
    if (slot < stage || slot - stage >= pieces) {
        kolo_step_clear(step_out);
    } else {
        struct kolo_slice piece = piece_at(args, pieces, slot - stage);
        own.count = piece.count;
        turn = turn_of(&own, &seat, &phases, index % steps, step_out);
        place_step(step_out, piece.offset, false);
    }
    /* the previous stage of this piece was in the previous slot or earlier */
    step_out->after = kolo_in_window(steps + 1 + turn.beside);
}

#define RUN_BY(name, groups)                                                                       \
    static size_t name##_allreduce_nsteps(const struct kolo_plan_args *args)                       \
    {                                                                                              \
        return nsteps(args, groups(args));                                                         \
    }                                                                                              \
    static size_t name##_allreduce_window(const struct kolo_plan_args *args)                       \
    {                                                                                              \
        return window(args, groups(args));                                                         \
    }                                                                                              \
    static void name##_allreduce_step(const struct kolo_plan_args *args, size_t index,             \
                                      struct kolo_step *step_out)                                  \
    {                                                                                              \
        step(args, groups(args), index, step_out);                                                 \
    }
RUN_BY(twolevel, groups_of_hosts)
RUN_BY(numa, groups_of_domains)

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_twolevel_allreduce = {
    .name = "twolevel",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_TWOLEVEL_ALLREDUCE,
    .summary = "in pieces: halving inside hosts, halving and doubling across them with one share "
               "per local rank, doubling inside",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = kolo_twolevel_fits,
    .scratch = kolo_no_scratch,
    .nsteps = twolevel_allreduce_nsteps,
    .window = twolevel_allreduce_window,
    .step = twolevel_allreduce_step,
};

const struct kolo_plan kolo_plan_numa_allreduce = {
    .name = "numa",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_NUMA_ALLREDUCE,
    .summary = "as twolevel; inside hosts, halving and doubling in NUMA nodes, then between them",
    .closes = true,
    .is_segmented = true,
    .is_by_hosts = true,
    .fits = numa_allreduce_fits,
    .scratch = kolo_no_scratch,
    .nsteps = numa_allreduce_nsteps,
    .window = numa_allreduce_window,
    .step = numa_allreduce_step,
};
