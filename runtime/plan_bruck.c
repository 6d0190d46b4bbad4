// SPDX-License-Identifier: Apache-2.0
// Plans in the rounds of the dissemination barrier, which close by themselves: in round k every
// rank has to do with those 2^k away, on either side. For short vectors, where rounds and messages
// cost.
//
//   spread  broadcast: with v = rank - root (modulo n), the ranks v < 2^k have the vector before
//           round k, and send it to v + 2^k. All other messages are empty: they say who has begun.
//   bruck   allgather: before round k a rank holds the blocks of rank, rank + 1, ... rank + 2^k - 1
//           (modulo n) in scratch, sends them to rank - 2^k and appends what comes from rank + 2^k.
//           At the end the blocks are turned to where they belong, in two copies.
#include "runtime/plan.h"

static size_t rounds(const struct kolo_plan_args *args)
{
    size_t count = 0;
    while ((1L << count) < args->size)
        count++;
    return count;
}

static int away(const struct kolo_plan_args *args, long distance)
{
    return (int)((args->rank + distance + args->size) % args->size);
}

/* ---- spread ---- */

size_t kolo_spread_broadcast_nsteps(const struct kolo_plan_args *args)
{
    return rounds(args);
}

void kolo_spread_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    long distance = 1L << index, v = args->rank - args->root;
    v += v < 0 ? args->size : 0;
    kolo_step_clear(step_out);
    step_out->to = away(args, distance);
    step_out->from = away(args, -distance);
    if (v < distance && v + distance < args->size)
        step_out->out =
            (struct kolo_slice){v == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV, 0, args->count};
    if (v >= distance && v < 2 * distance)
        step_out->in = (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
}

/* ---- bruck ---- */

const char *kolo_bruck_fits(const struct kolo_plan_args *args)
{
    return args->counts != NULL ? "blocks of different lengths" : NULL;
}

size_t kolo_bruck_allgather_scratch(const struct kolo_plan_args *args)
{
    return args->size > 1 ? args->count * (size_t)args->size : 0;
}

size_t kolo_bruck_allgather_nsteps(const struct kolo_plan_args *args)
{
    return args->size > 1 ? rounds(args) + 2 : 1;
}

static struct kolo_slice blocks(const struct kolo_plan_args *args, enum kolo_buffer buffer,
                                size_t first, size_t count)
{
    return (struct kolo_slice){buffer, first * args->count, count * args->count};
}

void kolo_bruck_allgather_step(const struct kolo_plan_args *args, size_t index,
                               struct kolo_step *step_out)
{
    size_t n = (size_t)args->size, rank = (size_t)args->rank, last = rounds(args);
    kolo_step_clear(step_out);
    if (index == 0) {
        step_out->copy_from = blocks(args, KOLO_BUFFER_SEND, 0, 1);
        step_out->copy_to = blocks(args, n > 1 ? KOLO_BUFFER_SCRATCH : KOLO_BUFFER_RECV, 0, 1);
    }
    if (n > 1 && index < last) {
        size_t held = (size_t)1 << index, moved = n - held < held ? n - held : held;
        step_out->to = away(args, -(long)held);
        step_out->from = away(args, (long)held);
        step_out->out = blocks(args, KOLO_BUFFER_SCRATCH, 0, moved);
        step_out->in = blocks(args, KOLO_BUFFER_SCRATCH, held, moved);
    } else if (n > 1 && index == last) {
        step_out->copy_from = blocks(args, KOLO_BUFFER_SCRATCH, 0, n - rank);
        step_out->copy_to = blocks(args, KOLO_BUFFER_RECV, rank, n - rank);
    } else if (n > 1) {
        step_out->copy_from = blocks(args, KOLO_BUFFER_SCRATCH, n - rank, rank);
        step_out->copy_to = blocks(args, KOLO_BUFFER_RECV, 0, rank);
    }
}
