// SPDX-License-Identifier: Apache-2.0
// Ring plans. Rank r sends to r+1 and receives from r-1. Here r is the position in host order
// (kolo_plan_position), so that round-robin numbering over hosts does not send everything over the
// network. A vector is cut into n chunks (the first count % n of them one element longer), and
// chunk c belongs to rank c.
//
//   reduce-scatter  round s: chunk r-1-s is sent; chunk r-2-s is received and combined with this
//                   rank's own. After n-1 rounds chunk r is complete here: it started at rank r+1
//                   and was combined once, as ((x[r+1] op x[r+2]) op ...) op x[r], so that every
//                   rank has the same bits.
//   allgather       round s: chunk r-s is sent, chunk r-1-s is received.
//
// A round has a step for each piece of the longest chunk. What is sent in a round was received in
// the round before, so a step waits for the one a round earlier, not for the one right before it.
//
// First contributions are read directly from SEND, so nothing is copied beforehand. With one rank a
// plan is only the local copy.
//
// Chains (broadcast, reduce) pass pieces of at most a segment along the ring, one behind the other;
// between two ranks the vector is one piece. Position 0 is the root. In step s a rank in the middle
// receives piece s, and passes piece s - LAG on.
#include "runtime/plan.h"

enum {
    AHEAD = 8,          /* pieces of a ring in flight at most */
    PIECE_SEGMENTS = 2, /* with 1 the steps double, which costs more than the overlap gains */
    LAG = 3,            /* in pieces of a chain */
    PIECES_MOST = 1 << 10
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** The rank at distance @p distance on the ring, -size <= distance <= size. */
static int away(const struct kolo_plan_args *args, int distance)
{
    int position = kolo_plan_position(args, args->rank) + distance;
    return kolo_plan_rank_at(args, kolo_plan_wrap(position, args->size));
}

static void neighbours(const struct kolo_plan_args *args, struct kolo_step *step)
{
    step->to = away(args, 1);
    step->from = away(args, -1);
}

/** Elements of a ring's piece. */
static size_t piece_length(const struct kolo_plan_args *args)
{
    return args->segment <= SIZE_MAX / PIECE_SEGMENTS ? args->segment * PIECE_SEGMENTS
                                                      : args->segment;
}

static size_t pieces_of(const struct kolo_plan_args *args, size_t longest)
{
    return kolo_pieces(longest, piece_length(args));
}

/** The place of a step: piece `piece` of round `round`. */
struct turn {
    size_t pieces, piece;
    long round;
};

static struct turn turn_of(const struct kolo_plan_args *args, size_t longest, size_t index,
                           struct kolo_step *step)
{
    struct turn turn = {.pieces = pieces_of(args, longest)};
    turn.piece = index % turn.pieces;
    turn.round = (long)(index / turn.pieces);
    step->after = least(turn.pieces, AHEAD);
    return turn;
}

static struct kolo_slice piece_of(const struct kolo_plan_args *args, const struct turn *turn,
                                  struct kolo_slice slice)
{
    return kolo_slice_piece(slice, turn->piece, piece_length(args));
}

/* ---- allreduce ---- */

static size_t longest_chunk(const struct kolo_plan_args *args)
{
    return kolo_plan_chunk(args, 0, KOLO_BUFFER_SEND).count;
}

static size_t ring_allreduce_nsteps(const struct kolo_plan_args *args)
{
    size_t rounds = 2 * ((size_t)args->size - 1);
    return args->size == 1 ? 1 : rounds * pieces_of(args, longest_chunk(args));
}

static size_t ring_allreduce_window(const struct kolo_plan_args *args)
{
    return least(pieces_of(args, longest_chunk(args)), AHEAD);
}

static void ring_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    long r = kolo_plan_position(args, args->rank), turns = args->size - 1;
    kolo_step_clear(step_out);
    if (args->size == 1) {
        step_out->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, args->count};
        step_out->copy_to = (struct kolo_slice){KOLO_BUFFER_RECV, 0, args->count};
        step_out->finish = step_out->copy_to;
        return;
    }
    struct turn turn = turn_of(args, longest_chunk(args), index, step_out);
    long s = turn.round;
    enum kolo_buffer out = s == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV;
    neighbours(args, step_out);
    if (s < turns) {
        step_out->out = piece_of(args, &turn, kolo_plan_chunk(args, r - 1 - s, out));
        step_out->in = piece_of(args, &turn, kolo_plan_chunk(args, r - 2 - s, KOLO_BUFFER_RECV));
        step_out->reduces = true;
        step_out->local = step_out->in;
        step_out->local.buffer = KOLO_BUFFER_SEND;
        step_out->incoming_first = true;
        return;
    }
    s -= turns;
    if (s == 0)
        step_out->finish = piece_of(args, &turn, kolo_plan_chunk(args, r, KOLO_BUFFER_RECV));
    step_out->out = piece_of(args, &turn, kolo_plan_chunk(args, r - s, KOLO_BUFFER_RECV));
    step_out->in = piece_of(args, &turn, kolo_plan_chunk(args, r - 1 - s, KOLO_BUFFER_RECV));
}

/* ---- reduce_scatter: partial results alternate between the two halves of SCRATCH ---- */

static size_t ring_reduce_scatter_scratch(const struct kolo_plan_args *args)
{
    size_t longest = kolo_plan_longest_block(args);
    return args->size <= 2 ? 0 : args->size == 3 ? longest : 2 * longest;
}

static size_t ring_reduce_scatter_nsteps(const struct kolo_plan_args *args)
{
    /* the last step only finishes */
    return ((size_t)args->size - 1) * pieces_of(args, kolo_plan_longest_block(args)) + 1;
}

static size_t ring_rounds_window(const struct kolo_plan_args *args)
{
    return least(pieces_of(args, kolo_plan_longest_block(args)), AHEAD);
}

static void ring_reduce_scatter_step(const struct kolo_plan_args *args, size_t index,
                                     struct kolo_step *step_out)
{
    size_t longest = kolo_plan_longest_block(args);
    long turns = args->size - 1;
    int n = args->size;
    struct kolo_slice mine = {KOLO_BUFFER_RECV, 0, kolo_plan_block(args, args->rank)};
    kolo_step_clear(step_out);
    struct turn turn = turn_of(args, longest, index, step_out);
    if (turn.round == turns) {
        step_out->after = 1;
        step_out->finish = mine;
        if (n == 1) {
            step_out->copy_from = kolo_plan_block_in(args, 0, KOLO_BUFFER_SEND);
            step_out->copy_to = mine;
        }
        return;
    }
    neighbours(args, step_out);
    size_t half = (size_t)turn.round % 2 * longest, other_half = longest - half;
    int s = (int)turn.round;
    struct kolo_slice out = kolo_plan_block_in(args, away(args, -1 - s), KOLO_BUFFER_SEND);
    struct kolo_slice local = kolo_plan_block_in(args, away(args, -2 - s), KOLO_BUFFER_SEND);
    struct kolo_slice in = {KOLO_BUFFER_SCRATCH, half, local.count};
    if (s > 0)
        out = (struct kolo_slice){KOLO_BUFFER_SCRATCH, other_half, out.count};
    if (s + 1 == turns)
        in = mine;
    step_out->out = piece_of(args, &turn, out);
    step_out->in = piece_of(args, &turn, in);
    step_out->local = piece_of(args, &turn, local);
    step_out->reduces = step_out->incoming_first = true;
}

/* ---- allgather ---- */

static size_t ring_allgather_nsteps(const struct kolo_plan_args *args)
{
    size_t rounds = (size_t)args->size - 1;
    return args->size == 1 ? 1 : rounds * pieces_of(args, kolo_plan_longest_block(args));
}

static void ring_allgather_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    int n = args->size;
    kolo_step_clear(step_out);
    struct turn turn = turn_of(args, kolo_plan_longest_block(args), index, step_out);
    struct kolo_slice mine = {KOLO_BUFFER_SEND, 0, kolo_plan_block(args, args->rank)};
    if (index == 0) {
        step_out->copy_from = mine;
        step_out->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (n == 1)
        return;
    int s = (int)turn.round;
    struct kolo_slice out = mine;
    if (s > 0)
        out = kolo_plan_block_in(args, away(args, -s), KOLO_BUFFER_RECV);
    neighbours(args, step_out);
    step_out->out = piece_of(args, &turn, out);
    step_out->in =
        piece_of(args, &turn, kolo_plan_block_in(args, away(args, -1 - s), KOLO_BUFFER_RECV));
}

/* ---- chains ---- */

static int position(const struct kolo_plan_args *args)
{
    return kolo_plan_wrap(
        kolo_plan_position(args, args->rank) - kolo_plan_position(args, args->root), args->size);
}

/** Elements of a piece. With p pieces a chain of n ranks takes p + n - 2 turns, each of which costs
 * a message plus 1 / p of the vector. So the best p is proportional to the square root of (n - 2)
 * times the ratio of the vector to the cost of a message, which is taken to be that of an eighth of
 * a segment. p is a power of two, so that a slightly longer vector is not cut differently. If no
 * rank passes anything on, one piece is best: the link cuts it into frames, and gives several at
 * once to the kernel. */
static size_t chain_length(const struct kolo_plan_args *args)
{
    if (args->size <= 2)
        return args->count > 0 ? args->count : args->segment;
    size_t hops = (size_t)args->size - 2, pieces = 1;
    size_t eighths =
        args->count / args->segment * 8 + args->count % args->segment * 8 / args->segment;
    while (4 * pieces * pieces <= hops * eighths && pieces < PIECES_MOST)
        pieces *= 2;
    size_t length = args->count / pieces + (args->count % pieces != 0);
    return length > args->segment || length == 0 ? args->segment : length;
}

static size_t segments(const struct kolo_plan_args *args)
{
    return kolo_pieces(args->count, chain_length(args));
}

/** A rank passes a piece on this many pieces after receiving it. */
static size_t lag(const struct kolo_plan_args *args)
{
    return least(LAG, segments(args));
}

static size_t chain_window(const struct kolo_plan_args *args)
{
    return lag(args);
}

static struct kolo_slice segment(const struct kolo_plan_args *args, size_t index,
                                 enum kolo_buffer buffer)
{
    return kolo_slice_piece((struct kolo_slice){buffer, 0, args->count}, index, chain_length(args));
}

static size_t chain_broadcast_nsteps(const struct kolo_plan_args *args)
{
    int p = position(args);
    if (args->size == 1)
        return 0;
    return segments(args) + (p > 0 && p < args->size - 1 ? lag(args) : 0);
}

static void chain_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                 struct kolo_step *step_out)
{
    int p = position(args);
    bool is_root = p == 0, is_last = p == args->size - 1;
    kolo_step_clear(step_out);
    step_out->after = lag(args);
    if (!is_root && index < segments(args)) {
        step_out->from = away(args, -1);
        step_out->in = segment(args, index, KOLO_BUFFER_RECV);
    }
    if (!is_last && (is_root || index >= lag(args))) {
        step_out->to = away(args, 1);
        step_out->out = segment(args, is_root ? index : index - lag(args),
                                is_root ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    }
}

/** Pieces in SCRATCH: those being received and those being sent. */
static size_t slots(const struct kolo_plan_args *args)
{
    return least(segments(args), 2 * lag(args));
}

static size_t chain_reduce_scratch(const struct kolo_plan_args *args)
{
    int p = position(args);
    if (p == 0 || p == args->size - 1)
        return 0;
    return segments(args) > 1 ? slots(args) * chain_length(args) : args->count;
}

static size_t chain_reduce_nsteps(const struct kolo_plan_args *args)
{
    int p = position(args);
    return segments(args) + (p == 0 || p < args->size - 1 ? lag(args) : 0);
}

/** The root: combines piece `index` and finishes the one LAG earlier. */
static void chain_reduce_root(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step)
{
    if (args->size == 1 && index < segments(args)) {
        step->copy_from = segment(args, index, KOLO_BUFFER_SEND);
        step->copy_to = segment(args, index, KOLO_BUFFER_RECV);
    } else if (index < segments(args)) {
        step->from = away(args, 1);
        step->in = segment(args, index, KOLO_BUFFER_RECV);
        step->local = segment(args, index, KOLO_BUFFER_SEND);
        step->reduces = step->incoming_first = true;
    }
    if (index >= lag(args))
        step->finish = segment(args, index - lag(args), KOLO_BUFFER_RECV);
}

/** The place of piece @p index between receive and send. */
static struct kolo_slice on_its_way(const struct kolo_plan_args *args, size_t index)
{
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH, index % slots(args) * chain_length(args),
                               segment(args, index, KOLO_BUFFER_SEND).count};
}

static void chain_reduce_step(const struct kolo_plan_args *args, size_t index,
                              struct kolo_step *step_out)
{
    int p = position(args);
    kolo_step_clear(step_out);
    step_out->after = lag(args);
    if (p == 0) {
        chain_reduce_root(args, index, step_out);
        return;
    }
    if (p == args->size - 1) {
        step_out->to = away(args, -1);
        step_out->out = segment(args, index, KOLO_BUFFER_SEND);
        return;
    }
    if (index < segments(args)) {
        step_out->from = away(args, 1);
        step_out->local = segment(args, index, KOLO_BUFFER_SEND);
        step_out->in = on_its_way(args, index);
        step_out->reduces = step_out->incoming_first = true;
    }
    if (index >= lag(args)) {
        step_out->to = away(args, -1);
        step_out->out = on_its_way(args, index - lag(args));
    }
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_ring_allreduce = {
    .name = "ring",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_RING_ALLREDUCE,
    .summary = "ring reduce-scatter, then ring allgather",
    .closes = true,
    .is_segmented = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = ring_allreduce_nsteps,
    .window = ring_allreduce_window,
    .step = ring_allreduce_step,
};

const struct kolo_plan kolo_plan_ring_reduce = {
    .name = "ring",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_RING_REDUCE,
    .summary = "pipelined chain that ends at the root",
    .is_segmented = true,
    .depth = KOLO_DEPTH_CHAIN,
    .fits = kolo_always_fits,
    .scratch = chain_reduce_scratch,
    .nsteps = chain_reduce_nsteps,
    .window = chain_window,
    .step = chain_reduce_step,
};

const struct kolo_plan kolo_plan_ring_broadcast = {
    .name = "ring",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLAN_RING_BROADCAST,
    .summary = "pipelined chain that begins at the root",
    .is_segmented = true,
    .depth = KOLO_DEPTH_CHAIN,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = chain_broadcast_nsteps,
    .window = chain_window,
    .step = chain_broadcast_step,
};

const struct kolo_plan kolo_plan_ring_allgather = {
    .name = "ring",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_RING_ALLGATHER,
    .summary = "each block once round the ring",
    .closes = true,
    .is_segmented = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = ring_allgather_nsteps,
    .window = ring_rounds_window,
    .step = ring_allgather_step,
};

const struct kolo_plan kolo_plan_ring_reduce_scatter = {
    .name = "ring",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_RING_REDUCE_SCATTER,
    .summary = "each block once round the ring, reduced on its way",
    .closes = true,
    .is_segmented = true,
    .fits = kolo_always_fits,
    .scratch = ring_reduce_scatter_scratch,
    .nsteps = ring_reduce_scatter_nsteps,
    .window = ring_rounds_window,
    .step = ring_reduce_scatter_step,
};
