// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: pairs at distance 1, 2, 4, ... exchange whole vectors and combine them. For
// any n: with p the largest power of two <= n and e = n - p, the first 2e ranks combine in pairs
// (the even one sends, the odd one combines and stands for both), then p ranks double, and the odd
// ones send the result back.
//
// Ranks are counted in host order (kolo_plan_position). If hosts have equally many ranks, all
// exchanges but the last log2(number of hosts) stay inside hosts. What a rank holds always covers a
// contiguous range of positions, and the lower range is the first operand on both sides of an
// exchange, so every rank computes the same bits.
//
// A vector that is being sent must not be written, so results alternate between RECV and SCRATCH,
// chosen so that the last result is in RECV. In place, with an odd number of exchanges and no pair
// to combine, it ends in SCRATCH and is copied.
#include "runtime/plan.h"

struct shape {
    int position;   /* in host order: short distances stay inside a host */
    int rounds;     /* exchanges of a rank that doubles: log2(p) */
    int extra;      /* e */
    bool sits_out;  /* its odd neighbour stands for it */
    bool folds;     /* it stands for its even neighbour too */
    int virtual;    /* its number among the ranks that double */
    bool ends_away; /* the result ends in SCRATCH */
};

static struct shape shape_of(const struct kolo_plan_args *args)
{
    struct shape shape = {.position = kolo_plan_position(args, args->rank)};
    int p = 1;
    while (p <= args->size / 2) {
        p *= 2;
        shape.rounds++;
    }
    shape.extra = args->size - p;
    bool paired = shape.position < 2 * shape.extra;
    shape.sits_out = paired && shape.position % 2 == 0;
    shape.folds = paired && shape.position % 2 == 1;
    shape.virtual = paired ? shape.position / 2 : shape.position - shape.extra;
    shape.ends_away = args->in_place && !shape.folds && shape.rounds % 2 == 1;
    return shape;
}

static int real_position(const struct shape *shape, int virtual)
{
    return virtual < shape->extra ? 2 * virtual + 1 : virtual + shape->extra;
}

static size_t doubling_allreduce_scratch(const struct kolo_plan_args *args)
{
    struct shape shape = shape_of(args);
    return shape.sits_out || shape.rounds == 0 ? 0 : args->count;
}

static size_t doubling_allreduce_nsteps(const struct kolo_plan_args *args)
{
    struct shape shape = shape_of(args);
    if (args->size == 1)
        return 1;
    if (shape.sits_out)
        return 2;
    return (size_t)shape.rounds + (shape.folds ? 1 : 0) +
           1; /* the last step copies, finishes and sends back */
}

/** The place of the result of exchange @p round; -1: of the operand before the first round. */
static enum kolo_buffer held(const struct shape *shape, int round)
{
    int left = shape->rounds - 1 - round; /* exchanges that follow */
    if (round < 0 && !shape->folds)
        return KOLO_BUFFER_SEND;
    if (shape->ends_away)
        return left % 2 == 0 ? KOLO_BUFFER_SCRATCH : KOLO_BUFFER_RECV;
    return left % 2 == 0 ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH;
}

static void exchange(const struct kolo_plan_args *args, const struct shape *shape, int round,
                     struct kolo_step *step)
{
    int other = shape->virtual ^ (1 << round);
    step->to = step->from = kolo_plan_rank_at(args, real_position(shape, other));
    step->out = step->local = kolo_slice_whole(args, held(shape, round - 1));
    step->in = kolo_slice_whole(args, held(shape, round));
    step->reduces = true;
    step->incoming_first = other < shape->virtual;
}

static void last_step(const struct kolo_plan_args *args, const struct shape *shape,
                      struct kolo_step *step)
{
    if (shape->ends_away) {
        step->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SCRATCH);
        step->copy_to = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
    step->finish = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    if (shape->folds) {
        step->to = kolo_plan_rank_at(args, shape->position - 1);
        step->out = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    }
}

static void doubling_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                    struct kolo_step *step_out)
{
    struct shape shape = shape_of(args);
    int round = (int)index - (shape.folds ? 1 : 0);
    kolo_step_clear(step_out);
    if (args->size == 1) {
        step_out->copy_from = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step_out->copy_to = step_out->finish = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    } else if (shape.sits_out && index == 0) {
        step_out->to = kolo_plan_rank_at(args, shape.position + 1);
        step_out->out = kolo_slice_whole(args, KOLO_BUFFER_SEND);
    } else if (shape.sits_out) {
        step_out->from = kolo_plan_rank_at(args, shape.position + 1);
        step_out->in = kolo_slice_whole(args, KOLO_BUFFER_RECV);
    } else if (round < 0) {
        step_out->from = kolo_plan_rank_at(args, shape.position - 1);
        step_out->in = kolo_slice_whole(args, held(&shape, -1));
        step_out->local = kolo_slice_whole(args, KOLO_BUFFER_SEND);
        step_out->reduces = step_out->incoming_first = true;
    } else if (round < shape.rounds) {
        exchange(args, &shape, round, step_out);
    } else {
        last_step(args, &shape, step_out);
    }
}

const struct kolo_plan kolo_plan_doubling_allreduce = {
    .name = "doubling",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_DOUBLING_ALLREDUCE,
    .summary = "recursive doubling: whole vectors between pairs, log2(n) steps",
    .closes = true,
    .fits = kolo_always_fits,
    .scratch = doubling_allreduce_scratch,
    .nsteps = doubling_allreduce_nsteps,
    .step = doubling_allreduce_step,
};
