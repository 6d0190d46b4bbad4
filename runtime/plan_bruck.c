// SPDX-License-Identifier: Apache-2.0
// Plans with the rounds of the dissemination barrier, which close by themselves: in round k every
// rank communicates with those at distance 2^k on either side. They are for short vectors, where
// rounds and messages cost most.
//
//   spread  broadcast, with the rounds in reverse order. With v = rank - root (modulo n, in host
//           order), the multiples of 2^(k+1) have the vector before round k, and send it to v +
//           2^k. So distant ranks, on other hosts, get it first, and once. All other messages are
//           empty: they say who has begun.
//   bruck   allgather: before round k a rank has the blocks of rank, rank + 1, ... rank + 2^k - 1
//           (modulo n) in scratch. It sends them to rank - 2^k, and appends what comes from rank +
//           2^k. At the end two copies rotate the blocks to their places.
//           alltoall: block i of a rank is the one for rank + i. It travels by the bits of i: in
//           round k all blocks with bit k set move on by 2^k. They are packed one by one, from SEND
//           or from what came in the round of their next lower bit. Each round's arrivals have a
//           place of their own.
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

static size_t spread_broadcast_nsteps(const struct kolo_plan_args *args)
{
    return rounds(args);
}

static void spread_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    int distance = 1 << (rounds(args) - 1 - index), n = args->size;
    int position = kolo_plan_position(args, args->rank);
    int v = kolo_plan_wrap(position - kolo_plan_position(args, args->root), n);
    kolo_step_clear(step_out);
    step_out->to = kolo_plan_rank_at(args, kolo_plan_wrap(position + distance, n));
    step_out->from = kolo_plan_rank_at(args, kolo_plan_wrap(position - distance, n));
    if (v % (2 * distance) == 0 && v + distance < n)
        step_out->out =
            (struct kolo_slice){v == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV, 0, args->count};
    if (v % (2 * distance) == distance)
        step_out->in = (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
}

/* ---- bruck ---- */

const char *kolo_bruck_fits(const struct kolo_plan_args *args)
{
    return args->counts ? "blocks of different lengths" : NULL;
}

static size_t bruck_allgather_scratch(const struct kolo_plan_args *args)
{
    return args->size > 1 ? args->count * (size_t)args->size : 0;
}

static size_t bruck_allgather_nsteps(const struct kolo_plan_args *args)
{
    return args->size > 1 ? rounds(args) + 2 : 1;
}

static struct kolo_slice blocks(const struct kolo_plan_args *args, enum kolo_buffer buffer,
                                size_t first, size_t count)
{
    return (struct kolo_slice){buffer, first * args->count, count * args->count};
}

static void bruck_allgather_step(const struct kolo_plan_args *args, size_t index,
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

/* ---- bruck's alltoall ---- */

/** The number of blocks with bit @p round set. */
static size_t moved_in(size_t n, size_t round)
{
    size_t bit = (size_t)1 << round, rest = n & (2 * bit - 1);
    return (n >> (round + 1)) * bit + (rest > bit ? rest - bit : 0);
}

/** The number of the block at place @p place of those that move in @p round, and the inverse. */
static size_t block_at(size_t place, size_t round)
{
    size_t bit = (size_t)1 << round;
    return (place >> round << (round + 1)) | bit | (place & (bit - 1));
}

static size_t place_of(size_t block, size_t round)
{
    size_t bit = (size_t)1 << round;
    return (block >> (round + 1) << round) | (block & (bit - 1));
}

/** The place in scratch, in blocks, of the arrivals of @p round: after what is packed. */
static size_t arrivals(size_t n, size_t round)
{
    size_t at = n / 2;
    for (size_t k = 0; k < round; k++)
        at += moved_in(n, k);
    return at;
}

static size_t bruck_alltoall_held(const struct kolo_plan_args *args)
{
    return args->size > 1 ? arrivals((size_t)args->size, rounds(args)) : 0;
}

static size_t bruck_alltoall_scratch(const struct kolo_plan_args *args)
{
    return bruck_alltoall_held(args) * args->count;
}

static size_t bruck_alltoall_nsteps(const struct kolo_plan_args *args)
{
    size_t n = (size_t)args->size;
    return arrivals(n, rounds(args)) - n / 2 + n;
}

/** The place of block @p block before round @p round. */
static struct kolo_slice lies_at(const struct kolo_plan_args *args, size_t block, size_t round)
{
    size_t n = (size_t)args->size, below = block & (((size_t)1 << round) - 1);
    if (below == 0)
        return blocks(args, KOLO_BUFFER_SEND, ((size_t)args->rank + block) % n, 1);
    size_t last = 63 - (size_t)__builtin_clzll((unsigned long long)below);
    return blocks(args, KOLO_BUFFER_SCRATCH, arrivals(n, last) + place_of(block, last), 1);
}

static void bruck_alltoall_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    size_t n = (size_t)args->size, round = 0, moved = moved_in(n, 0), last = rounds(args);
    kolo_step_clear(step_out);
    while (round < last && index >= moved) {
        index -= moved;
        moved = moved_in(n, ++round);
    }
    if (round == last) { /* copies what has come to its place */
        step_out->copy_from = lies_at(args, index, last);
        step_out->copy_to = blocks(args, KOLO_BUFFER_RECV, ((size_t)args->rank + n - index) % n, 1);
        return;
    }
    step_out->copy_from = lies_at(args, block_at(index, round), round);
    step_out->copy_to = blocks(args, KOLO_BUFFER_SCRATCH, index, 1);
    if (index + 1 == moved) {
        step_out->to = away(args, 1L << round);
        step_out->from = away(args, -(1L << round));
        step_out->out = blocks(args, KOLO_BUFFER_SCRATCH, 0, moved);
        step_out->in = blocks(args, KOLO_BUFFER_SCRATCH, arrivals(n, round), moved);
    }
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_spread_broadcast = {
    .name = "spread",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_SPREAD_BROADCAST,
    .summary = "whole vectors in the rounds of the barrier",
    .closes = true,
    .depth = KOLO_DEPTH_ROUNDS,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = spread_broadcast_nsteps,
    .step = spread_broadcast_step,
};

const struct kolo_plan kolo_plan_bruck_allgather = {
    .name = "bruck",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_BRUCK_ALLGATHER,
    .summary = "twice as many blocks each round, log2(n) rounds",
    .closes = true,
    .fits = kolo_bruck_fits,
    .scratch = bruck_allgather_scratch,
    .nsteps = bruck_allgather_nsteps,
    .step = bruck_allgather_step,
};

const struct kolo_plan kolo_plan_bruck_alltoall = {
    .name = "bruck",
    .collective = KOLO_COLLECTIVE_ALLTOALL,
    .number = KOLO_PLAN_BRUCK_ALLTOALL,
    .summary = "half of all blocks each round, packed, log2(n) rounds",
    .closes = true,
    .fits = kolo_bruck_fits,
    .scratch = bruck_alltoall_scratch,
    .held = bruck_alltoall_held,
    .nsteps = bruck_alltoall_nsteps,
    .step = bruck_alltoall_step,
};
