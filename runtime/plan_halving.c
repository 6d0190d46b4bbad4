// SPDX-License-Identifier: Apache-2.0
// Recursive halving and doubling for any number of ranks n, in ceil(log2 n) rounds each, with no
// more bytes than a ring sends. Rabenseifner's allreduce does this for powers of two; these plans
// use the circulant graph of J. L. Traeff ("Optimal, non-pipelined reduce-scatter and allreduce
// algorithms"). No ranks are combined beforehand, and all ranks do the same.
//
// Skips: far(0) = n, near(k) = ceil(far(k) / 2), far(k + 1) = near(k), until near is 1. Blocks are
// counted from the rank's own: block i of rank r is the one that belongs to rank r + i (modulo n).
//
//   halving   round k: blocks near .. far-1 go to rank r + near, where they are blocks 0 ..
//             far-near-1; as many come from r - near and are combined. At the end block 0 is
//             complete. Each block is combined along one tree, the same for all ranks.
//   doubling  the same rounds in reverse: blocks 0 .. far-near-1 go to r - near, blocks near ..
//             far-1 come from r + near.
//
// Blocks that are consecutive modulo n are in up to two parts of a vector, and each part is a
// message. Sender and receiver cut at the same place, between the last rank's block and the
// first's. If n is odd, block n/2 (rounded down) is combined with nothing in round 0, and is sent
// unchanged.
#include "runtime/plan.h"

struct round {
    int near, far;
};

/** Blocks first, first + 1, ..., modulo n. */
struct range {
    int first, count;
};

/** One step: part `part` of the messages of a round. */
struct turn {
    struct round round;
    int number; /* of the round, as halving counts them */
    bool doubles, part;
    int to, from;
    struct range out, in;
};

static int rounds_of(int size)
{
    int count = 0;
    for (int far = size; far > 1; far = (far + 1) / 2)
        count++;
    return count;
}

static struct round round_at(int size, int number)
{
    int far = size;
    for (int k = 0; k < number; k++)
        far = (far + 1) / 2;
    return (struct round){(far + 1) / 2, far};
}

static int modulo(const struct kolo_plan_args *args, int rank)
{
    return kolo_plan_wrap(rank, args->size);
}

static bool is_cut(const struct kolo_plan_args *args, struct range range)
{
    return range.first + range.count > args->size;
}

static struct range part_of(const struct kolo_plan_args *args, struct range range, bool second)
{
    int before = args->size - range.first;
    if (!is_cut(args, range))
        return second ? (struct range){0, 0} : range;
    return second ? (struct range){0, range.count - before} : (struct range){range.first, before};
}

/** The messages of round @p number. */
static struct turn turn_of(const struct kolo_plan_args *args, int number, bool doubles)
{
    struct turn turn = {
        .round = round_at(args->size, number), .number = number, .doubles = doubles};
    int near = turn.round.near, count = turn.round.far - near;
    int above = modulo(args, args->rank + near), below = modulo(args, args->rank - near);
    turn.to = doubles ? below : above;
    turn.from = doubles ? above : below;
    turn.out = (struct range){doubles ? args->rank : above, count};
    turn.in = (struct range){doubles ? above : args->rank, count};
    return turn;
}

/** Whether the messages of a round are cut at all. The partial sums of reduce_scatter are not: they
 * are in scratch, by their distance from the rank. */
static bool may_cut(const struct turn *turn, enum kolo_collective collective)
{
    return collective != KOLO_COLLECTIVE_REDUCE_SCATTER || turn->number == 0;
}

static bool has_second(const struct kolo_plan_args *args, const struct turn *turn,
                       enum kolo_collective collective)
{
    return may_cut(turn, collective) && (is_cut(args, turn->out) || is_cut(args, turn->in));
}

/** Step @p index. If there are fewer steps, returns false and their number in *count. */
static bool find_turn(const struct kolo_plan_args *args, enum kolo_collective collective,
                      size_t index, struct turn *turn_out, size_t *count)
{
    int rounds = rounds_of(args->size);
    bool halves = collective != KOLO_COLLECTIVE_ALLGATHER;
    bool doubles = collective != KOLO_COLLECTIVE_REDUCE_SCATTER;
    *count = 0;
    for (int i = halves ? 0 : rounds; i < (doubles ? 2 : 1) * rounds; i++) {
        bool back = i >= rounds;
        *turn_out = turn_of(args, back ? 2 * rounds - 1 - i : i, back);
        size_t parts = has_second(args, turn_out, collective) ? 2 : 1;
        turn_out->part = index > *count;
        *count += parts;
        if (index < *count)
            return true;
    }
    return false;
}

static size_t steps_of(const struct kolo_plan_args *args, enum kolo_collective collective)
{
    struct turn turn;
    size_t count;
    (void)find_turn(args, collective, SIZE_MAX, &turn, &count);
    return count;
}

/** Sets the peers of a step. Its second part runs beside the first. */
static void join(const struct kolo_plan_args *args, const struct turn *turn, struct kolo_step *step)
{
    step->to = turn->part && !is_cut(args, turn->out) ? -1 : turn->to;
    step->from = turn->part && !is_cut(args, turn->in) ? -1 : turn->from;
    step->after = turn->part ? 2 : 1;
}

static size_t halving_window(const struct kolo_plan_args *args)
{
    return args->size > 2 ? 2 : 1;
}

/** The block that is combined with nothing in round 0; -1: there is none. */
static int odd_block(const struct kolo_plan_args *args)
{
    bool is_odd = args->size > 1 && args->size % 2 == 1;
    return is_odd ? modulo(args, args->rank + args->size / 2) : -1;
}

/* ---- allreduce ---- */

static struct kolo_slice chunks(const struct kolo_plan_args *args, struct range range,
                                enum kolo_buffer buffer)
{
    if (range.count == 0)
        return (struct kolo_slice){buffer, 0, 0};
    struct kolo_slice first = kolo_plan_chunk(args, range.first, buffer);
    struct kolo_slice last = kolo_plan_chunk(args, range.first + range.count - 1, buffer);
    return (struct kolo_slice){buffer, first.offset, last.offset + last.count - first.offset};
}

static size_t halving_allreduce_nsteps(const struct kolo_plan_args *args)
{
    return args->size == 1 ? 1 : steps_of(args, KOLO_COLLECTIVE_ALLREDUCE);
}

size_t kolo_halving_half(const struct kolo_plan_args *args)
{
    size_t count = 0;
    for (int k = 0; k < rounds_of(args->size); k++) {
        struct turn turn = turn_of(args, k, false);
        count += has_second(args, &turn, KOLO_COLLECTIVE_ALLREDUCE) ? 2 : 1;
    }
    return count;
}

int kolo_halving_round(const struct kolo_plan_args *args, size_t index)
{
    struct turn turn;
    size_t count;
    (void)find_turn(args, KOLO_COLLECTIVE_ALLREDUCE, index, &turn, &count);
    return turn.doubles ? 2 * rounds_of(args->size) - 1 - turn.number : turn.number;
}

static void halving_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    struct turn turn;
    size_t count;
    kolo_step_clear(step_out);
    if (args->size == 1) {
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, args->count};
        step_out->copy_to = step_out->finish =
            (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
        return;
    }
    (void)find_turn(args, KOLO_COLLECTIVE_ALLREDUCE, index, &turn, &count);
    join(args, &turn, step_out);
    bool is_first = !turn.doubles && turn.number == 0;
    enum kolo_buffer held = is_first ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV;
    step_out->out = chunks(args, part_of(args, turn.out, turn.part), held);
    step_out->in = chunks(args, part_of(args, turn.in, turn.part), KOLO_BUFFER_RECV);
    if (!turn.doubles) {
        step_out->reduces = true;
        step_out->local = step_out->in;
        step_out->local.buffer = held;
    }
    if (index == 0 && odd_block(args) >= 0) {
        step_out->copy_from = kolo_plan_chunk(args, odd_block(args), KOLO_BUFFER_SEND);
        step_out->copy_to = kolo_plan_chunk(args, odd_block(args), KOLO_BUFFER_RECV);
    }
    if (turn.doubles && turn.round.near == 1 && !turn.part)
        step_out->finish = kolo_plan_chunk(args, args->rank, KOLO_BUFFER_RECV);
}

/* ---- reduce_scatter and allgather ---- */

static struct kolo_slice blocks(const struct kolo_plan_args *args, struct range range,
                                enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, (size_t)range.first * args->count,
                               (size_t)range.count * args->count};
}

static size_t halving_reduce_scatter_scratch(const struct kolo_plan_args *args)
{
    return args->size > 2 ? ((size_t)args->size + 1) / 2 * args->count : 0;
}

static size_t halving_reduce_scatter_nsteps(const struct kolo_plan_args *args)
{
    return steps_of(args, KOLO_COLLECTIVE_REDUCE_SCATTER) + 1; /* the last step finishes */
}

/** The operands of @p turn; the sum of the last round goes to RECV. */
static void scatter_turn(const struct kolo_plan_args *args, const struct turn *turn,
                         struct kolo_step *step)
{
    int near = turn->round.near, moved = turn->round.far - near;
    struct range arrived = {0, moved};
    join(args, turn, step);
    step->reduces = true;
    if (turn->number == 0) {
        struct range in = part_of(args, turn->in, turn->part);
        step->out = blocks(args, part_of(args, turn->out, turn->part), KOLO_BUFFER_SEND);
        step->local = blocks(args, in, KOLO_BUFFER_SEND);
        arrived = (struct range){turn->part ? moved - in.count : 0, in.count};
    } else {
        step->out = blocks(args, (struct range){near, moved}, KOLO_BUFFER_SCRATCH);
        step->local = blocks(args, arrived, KOLO_BUFFER_SCRATCH);
    }
    step->in = blocks(args, arrived, near == 1 ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH);
}

static void halving_reduce_scatter_step(const struct kolo_plan_args *args, size_t index,
                                        struct kolo_step *step_out)
{
    struct turn turn;
    size_t count;
    int odd = odd_block(args);
    kolo_step_clear(step_out);
    if (find_turn(args, KOLO_COLLECTIVE_REDUCE_SCATTER, index, &turn, &count)) {
        scatter_turn(args, &turn, step_out);
    } else {
        step_out->finish = (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
    }
    if (args->size == 1) {
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, args->count};
        step_out->copy_to = step_out->finish;
    } else if (index == 0 && odd >= 0) {
        step_out->copy_from = blocks(args, (struct range){odd, 1}, KOLO_BUFFER_SEND);
        step_out->copy_to = blocks(args, (struct range){args->size / 2, 1}, KOLO_BUFFER_SCRATCH);
    }
}

static size_t halving_allgather_nsteps(const struct kolo_plan_args *args)
{
    return args->size == 1 ? 1 : steps_of(args, KOLO_COLLECTIVE_ALLGATHER);
}

static void halving_allgather_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    struct turn turn;
    size_t count;
    struct range mine = {args->rank, 1};
    kolo_step_clear(step_out);
    if (index == 0) {
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, args->count};
        step_out->copy_to = blocks(args, mine, KOLO_BUFFER_RECV);
    }
    if (args->size == 1)
        return;
    (void)find_turn(args, KOLO_COLLECTIVE_ALLGATHER, index, &turn, &count);
    join(args, &turn, step_out);
    step_out->out = blocks(args, part_of(args, turn.out, turn.part), KOLO_BUFFER_RECV);
    step_out->in = blocks(args, part_of(args, turn.in, turn.part), KOLO_BUFFER_RECV);
}

/* ---- broadcast: a scatter along a binomial tree, then doubling ---- */

/** With positions v counted from the root, rank v has after the scatter the chunks of its subtree,
 * v .. v + span - 1, so these need not be sent again. */
static int span_of(int position, int size)
{
    int lowest = position & -position, left = size - position;
    return position == 0 || lowest > left ? left : lowest;
}

/** The part of @p range that position @p to lacks; the range comes from the position @p distance
 * further. */
static struct range lacking(int to, int size, int distance, struct range range)
{
    int had = span_of(to, size) - distance; /* the first of these */
    had = had < 0 ? 0 : had > range.count ? range.count : had;
    return (struct range){kolo_plan_wrap(range.first + had, size), range.count - had};
}

/** The arguments with positions counted from the root instead of ranks. */
static struct kolo_plan_args moved(const struct kolo_plan_args *args)
{
    struct kolo_plan_args moved = *args;
    moved.hosts = NULL;
    moved.rank = kolo_plan_wrap(args->rank - args->root, args->size);
    return moved;
}

static int children_of(const struct kolo_plan_args *args)
{
    int count = 0;
    for (int bit = 1; args->rank + bit < args->size && (args->rank & bit) == 0; bit <<= 1)
        count++;
    return count;
}

/** Round @p number of the doubling, without the chunks that the receiver has already. */
static struct turn rest_of(const struct kolo_plan_args *args, int number)
{
    struct turn turn = turn_of(args, number, true);
    int near = turn.round.near;
    turn.out = lacking(turn.to, args->size, near, turn.out);
    turn.in = lacking(args->rank, args->size, near, turn.in);
    return turn;
}

/** As find_turn, for these rounds. */
static bool find_rest(const struct kolo_plan_args *args, size_t index, struct turn *turn_out,
                      size_t *count)
{
    *count = 0;
    for (int number = rounds_of(args->size) - 1; number >= 0; number--) {
        *turn_out = rest_of(args, number);
        turn_out->part = index > *count;
        *count += is_cut(args, turn_out->out) || is_cut(args, turn_out->in) ? 2 : 1;
        if (index < *count)
            return true;
    }
    return false;
}

static size_t scattered_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct kolo_plan_args own = moved(args);
    struct turn turn;
    size_t count;
    (void)find_rest(&own, SIZE_MAX, &turn, &count);
    return count + (size_t)children_of(&own) + (own.rank != 0);
}

static size_t scattered_broadcast_window(const struct kolo_plan_args *args)
{
    struct kolo_plan_args own = moved(args);
    return (size_t)children_of(&own) + 2;
}

/** Receives the chunks of a subtree from the parent (@p child -1), or sends those of child @p
 * child. */
static void scatter_step(const struct kolo_plan_args *own, int child, enum kolo_buffer held,
                         struct kolo_step *step)
{
    int v = own->rank, below = v + (1 << (child < 0 ? 0 : child));
    if (child < 0) {
        step->from = v & (v - 1);
        step->in = chunks(own, (struct range){v, span_of(v, own->size)}, KOLO_BUFFER_RECV);
        return;
    }
    step->to = below;
    step->out = chunks(own, (struct range){below, span_of(below, own->size)}, held);
}

static void scattered_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                     struct kolo_step *step_out)
{
    struct kolo_plan_args own = moved(args);
    enum kolo_buffer held = own.rank == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV;
    int children = children_of(&own), turn_index = (int)index - (own.rank != 0);
    struct turn turn;
    size_t count;
    kolo_step_clear(step_out);
    if (turn_index < children) { /* the largest subtree first */
        scatter_step(&own, turn_index < 0 ? -1 : children - 1 - turn_index, held, step_out);
        step_out->after = turn_index < 0 ? 1 : (size_t)turn_index + 1;
    } else {
        (void)find_rest(&own, (size_t)(turn_index - children), &turn, &count);
        join(&own, &turn, step_out);
        step_out->out = chunks(&own, part_of(&own, turn.out, turn.part), held);
        step_out->in = chunks(&own, part_of(&own, turn.in, turn.part), KOLO_BUFFER_RECV);
        if (turn_index == children) /* the data sent to the children is only read */
            step_out->after = (size_t)children + 1;
    }
    step_out->to = step_out->to < 0 ? -1 : modulo(args, step_out->to + args->root);
    step_out->from = step_out->from < 0 ? -1 : modulo(args, step_out->from + args->root);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_halving_allreduce = {
    .name = "halving",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_HALVING_ALLREDUCE,
    .summary =
        "recursive halving, then recursive doubling of chunks: 2 log2(n) rounds, a ring's bytes",
    .closes = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = halving_allreduce_nsteps,
    .window = halving_window,
    .step = halving_allreduce_step,
};

const struct kolo_plan kolo_plan_halving_reduce_scatter = {
    .name = "halving",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_HALVING_REDUCE_SCATTER,
    .summary = "half as many blocks each round, log2(n) rounds",
    .closes = true,
    .fits = kolo_bruck_fits,
    .scratch = halving_reduce_scatter_scratch,
    .nsteps = halving_reduce_scatter_nsteps,
    .window = halving_window,
    .step = halving_reduce_scatter_step,
};

const struct kolo_plan kolo_plan_doubling_allgather = {
    .name = "doubling",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_DOUBLING_ALLGATHER,
    .summary = "twice as many blocks each round, from where they are to where they belong",
    .closes = true,
    .fits = kolo_bruck_fits,
    .scratch = kolo_no_scratch,
    .nsteps = halving_allgather_nsteps,
    .window = halving_window,
    .step = halving_allgather_step,
};

const struct kolo_plan kolo_plan_scattered_broadcast = {
    .name = "scattered",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_SCATTERED_BROADCAST,
    .summary = "chunks along a binomial tree, then recursive doubling of chunks",
    .closes = true,
    .depth = KOLO_DEPTH_TREE,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = scattered_broadcast_nsteps,
    .window = scattered_broadcast_window,
    .step = scattered_broadcast_step,
};
