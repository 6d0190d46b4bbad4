// SPDX-License-Identifier: Apache-2.0
// Ring plans. Rank r sends to r+1 and receives from r-1; a vector is cut into n chunks (the first
// count % n of them one element longer), and chunk c belongs to rank c.
//
//   reduce-scatter  step s: chunk r-1-s goes out, chunk r-2-s comes in and is combined with this
//                   rank's own. After n-1 steps chunk r is complete here: it started at rank r+1
//                   and was combined as ((x[r+1] op x[r+2]) op ...) op x[r], once, so that every
//                   rank has the same bits.
//   allgather       step s: chunk r-s goes out, chunk r-1-s comes in.
//
// First contributions are read straight from SEND, so nothing is copied beforehand. With one rank
// a plan is the local copy.
//
// Chains (broadcast, reduce) pass segments along the ring, one behind the other; position 0 is the
// root. Step s of a rank in the middle receives segment s while it passes segment s-1 on.
#include "runtime/plan.h"

static int wrap(int rank, int size)
{
    return rank < 0 ? rank + size : rank >= size ? rank - size : rank;
}

/** Chunk @p index (-n < index < n, taken modulo n) of the whole vector, in @p buffer. */
static struct kolo_slice chunk(const struct kolo_plan_args *args, long index,
                               enum kolo_buffer buffer)
{
    size_t n = (size_t)args->size;
    long wrapped = index % args->size;
    size_t c = (size_t)(wrapped < 0 ? wrapped + args->size : wrapped);
    size_t base = args->count / n, extra = args->count % n;
    return (struct kolo_slice){buffer, c * base + (c < extra ? c : extra), base + (c < extra)};
}

static void neighbours(const struct kolo_plan_args *args, struct kolo_step *step)
{
    step->to = wrap(args->rank + 1, args->size);
    step->from = wrap(args->rank - 1, args->size);
}

/* ---- allreduce ---- */

size_t kolo_ring_allreduce_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_ring_allreduce_nsteps(const struct kolo_plan_args *args)
{
    return args->size == 1 ? 1 : 2 * ((size_t)args->size - 1);
}

void kolo_ring_allreduce_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    long r = args->rank, s = (long)index, turn = args->size - 1;
    kolo_step_clear(step_out);
    if (args->size == 1) {
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, args->count};
        step_out->copy_to = (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
        step_out->finish = step_out->copy_to;
        return;
    }
    neighbours(args, step_out);
    if (s < turn) {
        step_out->out = chunk(args, r - 1 - s, s == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
        step_out->in = chunk(args, r - 2 - s, KOLO_BUFFER_RECV);
        step_out->reduces = true;
        step_out->local = chunk(args, r - 2 - s, KOLO_BUFFER_SEND);
        step_out->incoming_first = true;
        return;
    }
    s -= turn;
    if (s == 0)
        step_out->finish = chunk(args, r, KOLO_BUFFER_RECV);
    step_out->out = chunk(args, r - s, KOLO_BUFFER_RECV);
    step_out->in = chunk(args, r - 1 - s, KOLO_BUFFER_RECV);
}

/* ---- reduce_scatter: partial results alternate between the two halves of SCRATCH ---- */

size_t kolo_ring_reduce_scatter_scratch(const struct kolo_plan_args *args)
{
    return args->size <= 2 ? 0 : args->size == 3 ? args->count : 2 * args->count;
}

size_t kolo_ring_reduce_scatter_nsteps(const struct kolo_plan_args *args)
{
    return (size_t)args->size; /* the last one only finishes */
}

void kolo_ring_reduce_scatter_step(const struct kolo_plan_args *args, size_t index,
                                   struct kolo_step *step_out)
{
    size_t count = args->count, turn = (size_t)args->size - 1;
    long r = args->rank, n = args->size, s = (long)index;
    kolo_step_clear(step_out);
    if (index == turn) {
        step_out->finish = (struct kolo_slice){KOLO_BUFFER_RECV, 0, count};
        if (n == 1) {
            step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, count};
            step_out->copy_to = step_out->finish;
        }
        return;
    }
    neighbours(args, step_out);
    size_t leaving = (size_t)((r - 1 - s + 2 * n) % n), coming = (size_t)((r - 2 - s + 2 * n) % n);
    step_out->out = (struct kolo_slice){KOLO_BUFFER_SCRATCH, (index + 1) % 2 * count, count};
    if (index == 0)
        step_out->out = (struct kolo_slice){KOLO_BUFFER_SEND, leaving * count, count};
    step_out->in = (struct kolo_slice){KOLO_BUFFER_SCRATCH, index % 2 * count, count};
    if (index + 1 == turn)
        step_out->in = (struct kolo_slice){KOLO_BUFFER_RECV, 0, count};
    step_out->reduces = true;
    step_out->local = (struct kolo_slice){KOLO_BUFFER_SEND, coming * count, count};
    step_out->incoming_first = true;
}

/* ---- allgather ---- */

size_t kolo_ring_allgather_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_ring_allgather_nsteps(const struct kolo_plan_args *args)
{
    return args->size == 1 ? 1 : (size_t)args->size - 1;
}

static struct kolo_slice block(const struct kolo_plan_args *args, int rank)
{
    return (struct kolo_slice){KOLO_BUFFER_RECV, kolo_plan_block_offset(args, rank),
                               kolo_plan_block(args, rank)};
}

void kolo_ring_allgather_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    int s = (int)index, n = args->size;
    kolo_step_clear(step_out);
    if (index == 0) {
        step_out->copy_to = block(args, args->rank);
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, step_out->copy_to.count};
    }
    if (n == 1)
        return;
    neighbours(args, step_out);
    step_out->out = block(args, wrap(args->rank - s, n));
    step_out->in = block(args, wrap(args->rank - 1 - s, n));
}

/* ---- chains ---- */

static int position(const struct kolo_plan_args *args)
{
    return wrap(args->rank - args->root, args->size);
}

/** How many segments; a vector of no elements has one, so that its header travels. */
static size_t segments(const struct kolo_plan_args *args)
{
    size_t whole = args->count / args->segment + (args->count % args->segment != 0);
    return whole == 0 ? 1 : whole;
}

static size_t segment_count(const struct kolo_plan_args *args, size_t index)
{
    size_t offset = index * args->segment;
    return args->count - offset < args->segment ? args->count - offset : args->segment;
}

static struct kolo_slice segment(const struct kolo_plan_args *args, size_t index,
                                 enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, index * args->segment, segment_count(args, index)};
}

size_t kolo_chain_broadcast_scratch(const struct kolo_plan_args *args)
{
    return kolo_plan_no_scratch(args);
}

size_t kolo_chain_broadcast_nsteps(const struct kolo_plan_args *args)
{
    int p = position(args);
    if (args->size == 1)
        return 0;
    return segments(args) + (p > 0 && p < args->size - 1);
}

void kolo_chain_broadcast_step(const struct kolo_plan_args *args, size_t index,
                               struct kolo_step *step_out)
{
    int p = position(args);
    bool is_root = p == 0, is_last = p == args->size - 1;
    kolo_step_clear(step_out);
    if (!is_root && index < segments(args)) {
        step_out->from = wrap(args->rank - 1, args->size);
        step_out->in = segment(args, index, KOLO_BUFFER_RECV);
    }
    if (!is_last && (is_root || index > 0)) {
        step_out->to = wrap(args->rank + 1, args->size);
        step_out->out = segment(args, is_root ? index : index - 1,
                                is_root ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    }
}

size_t kolo_chain_reduce_scratch(const struct kolo_plan_args *args)
{
    int p = position(args);
    size_t longest = segment_count(args, 0);
    if (p == 0 || p == args->size - 1)
        return 0;
    return segments(args) > 1 ? 2 * args->segment : longest;
}

size_t kolo_chain_reduce_nsteps(const struct kolo_plan_args *args)
{
    int p = position(args);
    return segments(args) + (p == 0 || p < args->size - 1);
}

/** The root: combines segment `index` and finishes the one before. */
static void chain_reduce_root(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step)
{
    if (args->size == 1 && index < segments(args)) {
        step->copy_from = segment(args, index, KOLO_BUFFER_SEND);
        step->copy_to = segment(args, index, KOLO_BUFFER_RECV);
    } else if (index < segments(args)) {
        step->from = wrap(args->rank + 1, args->size);
        step->in = segment(args, index, KOLO_BUFFER_RECV);
        step->local = segment(args, index, KOLO_BUFFER_SEND);
        step->reduces = step->incoming_first = true;
    }
    if (index > 0)
        step->finish = segment(args, index - 1, KOLO_BUFFER_RECV);
}

void kolo_chain_reduce_step(const struct kolo_plan_args *args, size_t index,
                            struct kolo_step *step_out)
{
    int p = position(args);
    kolo_step_clear(step_out);
    if (p == 0) {
        chain_reduce_root(args, index, step_out);
        return;
    }
    if (p == args->size - 1) {
        step_out->to = wrap(args->rank - 1, args->size);
        step_out->out = segment(args, index, KOLO_BUFFER_SEND);
        return;
    }
    if (index < segments(args)) {
        step_out->from = wrap(args->rank + 1, args->size);
        step_out->local = segment(args, index, KOLO_BUFFER_SEND);
        step_out->in = (struct kolo_slice){KOLO_BUFFER_SCRATCH, index % 2 * args->segment,
                                           step_out->local.count};
        step_out->reduces = step_out->incoming_first = true;
    }
    if (index > 0) {
        step_out->to = wrap(args->rank - 1, args->size);
        step_out->out = (struct kolo_slice){KOLO_BUFFER_SCRATCH, (index - 1) % 2 * args->segment,
                                            segment_count(args, index - 1)};
    }
}
