// SPDX-License-Identifier: Apache-2.0
// Ordered plans: each element is folded once, on one rank, from all contributions in the order of
// ranks. So all these plans give the same bits, and 16-bit floats can be accumulated in float32 and
// rounded once.
//
//   direct  rank j folds chunk j. Chunks are cut into pieces. For piece k there are two phases.
//           A(k): each rank sends its part of the piece to the owner, which receives n-1 of them
//           into scratch. B(k): the owner folds them, and sends the result to all that want it. The
//           order is A0 A1 B0 A2 B1 A3 B2 ..., so that the next piece travels while one is folded.
//           Two pieces are in scratch at a time, short enough to be folded from the cache.
//   flat    all ranks send their whole vectors to those that want the result, and these fold: one
//           round, for vectors so short that the number of rounds costs most.
#include "runtime/plan.h"

enum {
    FINEST = 16, /* a piece is about this part of two segments, however many ranks send one */
    SCRATCH_SEGMENTS = 4, /* of one piece from all others, or of two */
    FLAT_RANKS = 256
};

/** How a direct plan runs on this rank: phase A of a piece takes `turns` steps, phase B
 * `spread`. */
struct shape {
    size_t turns, spread;
    size_t length, pieces; /* elements of a piece; pieces of the longest chunk */
    size_t halves;         /* of scratch: pieces that it holds */
    enum kolo_collective collective;
};

/** One step of the plan: turn `turn` of phase A or B of `piece`. */
struct place {
    size_t piece, turn;
    bool spreads;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** The slice that rank @p owner folds, in SEND, or for allreduce and reduce in RECV. */
static struct kolo_slice owned(const struct kolo_plan_args *args, const struct shape *shape,
                               int owner, enum kolo_buffer buffer)
{
    if (shape->collective == KOLO_COLLECTIVE_REDUCE_SCATTER)
        return kolo_plan_block_in(args, owner, buffer);
    return kolo_plan_chunk(args, owner, buffer);
}

static size_t longest(const struct kolo_plan_args *args, const struct shape *shape)
{
    size_t most = owned(args, shape, 0, KOLO_BUFFER_SEND).count;
    for (int rank = 1; args->counts && rank < args->size; rank++)
        if (args->counts[rank] > most)
            most = args->counts[rank];
    return most;
}

/** Elements of a piece. A chunk that fits into scratch as a single piece is not cut; otherwise
 * scratch holds two pieces. All pieces have about the same length, since a piece of a few elements
 * costs as many messages as any other. */
static size_t piece_length(const struct kolo_plan_args *args, size_t turns, size_t most)
{
    size_t share = args->segment / (turns < FINEST ? turns + !turns : FINEST);
    size_t whole = share <= SIZE_MAX / SCRATCH_SEGMENTS ? share * SCRATCH_SEGMENTS : share;
    size_t half = whole / 2 + !whole, pieces = most / half + (most % half > half / 2);
    return most <= whole ? most + !most : kolo_pieces(most, pieces);
}

static struct shape shape_of(const struct kolo_plan_args *args, enum kolo_collective collective)
{
    struct shape shape = {.turns = (size_t)args->size - 1, .spread = 1, .collective = collective};
    size_t most = longest(args, &shape);
    if (collective == KOLO_COLLECTIVE_ALLREDUCE ||
        (collective == KOLO_COLLECTIVE_REDUCE && args->rank == args->root))
        shape.spread = shape.turns;
    shape.length = piece_length(args, shape.turns, most);
    shape.pieces = kolo_pieces(most, shape.length);
    shape.halves = least(shape.pieces, 2);
    return shape;
}

static size_t most_in_flight(const struct kolo_plan_args *args)
{
    return args->size <= 1024 ? KOLO_WINDOW_MAX : KOLO_WINDOW_MAX / 4;
}

static size_t window(const struct kolo_plan_args *args, enum kolo_collective collective)
{
    struct shape shape = shape_of(args, collective);
    size_t most = shape.turns * 2 + shape.spread * 2 + 1;
    if (shape.pieces == 1)
        most = shape.turns + shape.spread + 1;
    return least(most, most_in_flight(args));
}

static size_t scratch(const struct kolo_plan_args *args, enum kolo_collective collective)
{
    struct shape shape = shape_of(args, collective);
    bool keeps = collective == KOLO_COLLECTIVE_REDUCE && args->rank != args->root;
    if (args->size == 1)
        return 0;
    return shape.halves * (shape.turns + keeps) * shape.length;
}

static size_t nsteps(const struct kolo_plan_args *args, enum kolo_collective collective)
{
    struct shape shape = shape_of(args, collective);
    return args->size == 1 ? 1 : shape.pieces * (shape.turns + shape.spread);
}

static struct place place_of(const struct shape *shape, size_t index)
{
    size_t pair = shape->turns + shape->spread;
    if (index < shape->turns)
        return (struct place){.turn = index};
    index -= shape->turns;
    size_t piece = least(index / pair, shape->pieces - 1);
    index -= piece * pair;
    if (piece + 1 < shape->pieces && index < shape->turns)
        return (struct place){.piece = piece + 1, .turn = index};
    if (piece + 1 < shape->pieces)
        index -= shape->turns;
    return (struct place){.piece = piece, .turn = index, .spreads = true};
}

/** A(k) may begin while A(k-1) and B(k-2) are in flight; B(k) needs A(k), while the next A
 * continues. */
static size_t after(const struct kolo_plan_args *args, const struct shape *shape,
                    const struct place *place)
{
    size_t others = 0;
    if (!place->spreads && place->piece > 0)
        others = shape->turns + (place->piece > 1 ? shape->spread : 0);
    if (place->spreads && place->piece + 1 < shape->pieces)
        others = shape->turns;
    else if (place->spreads && shape->pieces > 1)
        others = shape->spread;
    return least(others + place->turn + 1, most_in_flight(args));
}

/** The place of the part of @p piece that rank @p from sends: the parts are in rank order. */
static struct kolo_slice part(const struct kolo_plan_args *args, const struct shape *shape,
                              size_t piece, int from, size_t count)
{
    size_t row = (size_t)(from < args->rank ? from : from - 1);
    return (struct kolo_slice){KOLO_BUFFER_SCRATCH,
                               (piece % shape->halves * shape->turns + row) * shape->length, count};
}

static void collect(const struct kolo_plan_args *args, const struct shape *shape,
                    const struct place *place, struct kolo_step *step)
{
    int distance = 1 + (int)place->turn;
    struct kolo_slice mine = kolo_slice_piece(owned(args, shape, args->rank, KOLO_BUFFER_SEND),
                                              place->piece, shape->length);
    step->to = kolo_plan_wrap(args->rank + distance, args->size);
    step->from = kolo_plan_wrap(args->rank - distance, args->size);
    step->out = kolo_slice_piece(owned(args, shape, step->to, KOLO_BUFFER_SEND), place->piece,
                                 shape->length);
    step->in = part(args, shape, place->piece, step->from, mine.count);
}

/** The place of this rank's result: its part of RECV, or scratch if it has no RECV. */
static struct kolo_slice result(const struct kolo_plan_args *args, const struct shape *shape,
                                size_t piece)
{
    struct kolo_slice whole = owned(args, shape, args->rank, KOLO_BUFFER_RECV);
    if (shape->collective == KOLO_COLLECTIVE_REDUCE_SCATTER)
        whole.offset = 0;
    struct kolo_slice slice = kolo_slice_piece(whole, piece, shape->length);
    if (shape->collective == KOLO_COLLECTIVE_REDUCE && args->rank != args->root)
        slice.offset = (shape->halves * shape->turns + piece % shape->halves) * shape->length;
    if (shape->collective == KOLO_COLLECTIVE_REDUCE && args->rank != args->root)
        slice.buffer = KOLO_BUFFER_SCRATCH;
    return slice;
}

static void fold(const struct kolo_plan_args *args, const struct shape *shape, size_t piece,
                 struct kolo_step *step)
{
    struct kolo_slice mine =
        kolo_slice_piece(owned(args, shape, args->rank, KOLO_BUFFER_SEND), piece, shape->length);
    int first = args->rank == 0; /* the lowest of the others */
    if (mine.count > 0)
        step->fold = (struct kolo_folding){.ways = args->size,
                                           .own = args->rank,
                                           .out = result(args, shape, piece),
                                           .mine = mine,
                                           .others = part(args, shape, piece, first, mine.count),
                                           .stride = shape->length};
}

static void spread(const struct kolo_plan_args *args, const struct shape *shape,
                   const struct place *place, struct kolo_step *step)
{
    int distance = 1 + (int)place->turn;
    bool is_rooted = shape->collective == KOLO_COLLECTIVE_REDUCE;
    bool is_root = args->rank == args->root;
    if (place->turn == 0)
        fold(args, shape, place->piece, step);
    if (shape->collective == KOLO_COLLECTIVE_REDUCE_SCATTER)
        return;
    if (!is_rooted || !is_root) {
        step->to = is_rooted ? args->root : kolo_plan_wrap(args->rank + distance, args->size);
        step->out = result(args, shape, place->piece);
    }
    if (!is_rooted || is_root) {
        step->from = kolo_plan_wrap(args->rank - distance, args->size);
        step->in = kolo_slice_piece(owned(args, shape, step->from, KOLO_BUFFER_RECV), place->piece,
                                    shape->length);
    }
}

/** The step in a world of one rank. */
static void alone(size_t count, struct kolo_step *step)
{
    step->copy_from = (struct kolo_slice){KOLO_BUFFER_SEND, 0, count};
    step->copy_to = step->finish = (struct kolo_slice){KOLO_BUFFER_RECV, 0, count};
}

static void step(const struct kolo_plan_args *args, size_t index, enum kolo_collective collective,
                 struct kolo_step *step_out)
{
    kolo_step_clear(step_out);
    if (args->size == 1) {
        alone(collective == KOLO_COLLECTIVE_REDUCE_SCATTER ? kolo_plan_block(args, 0) : args->count,
              step_out);
        return;
    }
    struct shape shape = shape_of(args, collective);
    struct place place = place_of(&shape, index);
    step_out->after = after(args, &shape, &place);
    if (place.spreads)
        spread(args, &shape, &place, step_out);
    else
        collect(args, &shape, &place, step_out);
}

// clang-format off
#define DIRECT(name, collective) \
    static size_t direct_##name##_scratch(const struct kolo_plan_args *args) { return scratch(args, collective); } \
    static size_t direct_##name##_nsteps(const struct kolo_plan_args *args) { return nsteps(args, collective); } \
    static size_t direct_##name##_window(const struct kolo_plan_args *args) { return window(args, collective); } \
    static void direct_##name##_step(const struct kolo_plan_args *args, size_t index, struct kolo_step *step_out) \
    { step(args, index, collective, step_out); }
DIRECT(allreduce, KOLO_COLLECTIVE_ALLREDUCE)
DIRECT(reduce, KOLO_COLLECTIVE_REDUCE)
DIRECT(reduce_scatter, KOLO_COLLECTIVE_REDUCE_SCATTER)
// clang-format on

/* ---- flat ---- */

static size_t flat_window(const struct kolo_plan_args *args)
{
    return args->size == 1 ? 1 : least((size_t)args->size - 1, most_in_flight(args));
}

/** Receives or sends in turn @p index; the last step folds. */
static void flat_step(const struct kolo_plan_args *args, size_t index, bool sends,
                      struct kolo_step *step)
{
    size_t turns = (size_t)args->size - 1;
    int distance = 1 + (int)index;
    kolo_step_clear(step);
    if (turns == 0) {
        alone(args->count, step);
    } else if (index == turns && args->count > 0) {
        step->fold = (struct kolo_folding){.ways = args->size,
                                           .own = args->rank,
                                           .out = kolo_slice_whole(args, KOLO_BUFFER_RECV),
                                           .mine = kolo_slice_whole(args, KOLO_BUFFER_SEND),
                                           .others = kolo_slice_whole(args, KOLO_BUFFER_SCRATCH),
                                           .stride = args->count};
    } else if (index < turns) {
        step->after = least(index + 1, flat_window(args));
        step->from = kolo_plan_wrap(args->rank - distance, args->size);
        step->in = kolo_slice_whole(args, KOLO_BUFFER_SCRATCH);
        step->in.offset =
            args->count * (size_t)(step->from < args->rank ? step->from : step->from - 1);
        step->to = sends ? kolo_plan_wrap(args->rank + distance, args->size) : -1;
        if (sends)
            step->out = kolo_slice_whole(args, KOLO_BUFFER_SEND);
    }
}

static const char *fold_fits(const struct kolo_plan_args *args)
{
    return args->size > KOLO_FOLD_MAX ? "one rank cannot fold more than 4096 vectors at once"
                                      : NULL;
}

static const char *flat_fits(const struct kolo_plan_args *args)
{
    return args->size > FLAT_RANKS
               ? "each rank would receive whole vectors from more than 256 others"
               : NULL;
}

static size_t flat_held(const struct kolo_plan_args *args)
{
    return (size_t)args->size - 1;
}

static size_t flat_allreduce_scratch(const struct kolo_plan_args *args)
{
    return args->count * flat_held(args);
}

static size_t flat_allreduce_nsteps(const struct kolo_plan_args *args)
{
    return (size_t)args->size;
}

static size_t flat_allreduce_window(const struct kolo_plan_args *args)
{
    return flat_window(args);
}

static void flat_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    flat_step(args, index, true, step_out);
}

static size_t flat_reduce_scratch(const struct kolo_plan_args *args)
{
    return args->rank == args->root ? flat_allreduce_scratch(args) : 0;
}

static size_t flat_reduce_nsteps(const struct kolo_plan_args *args)
{
    return args->rank == args->root ? (size_t)args->size : 1;
}

static size_t flat_reduce_window(const struct kolo_plan_args *args)
{
    return args->rank == args->root ? flat_window(args) : 1;
}

static void flat_reduce_step(const struct kolo_plan_args *args, size_t index,
                             struct kolo_step *step_out)
{
    if (args->rank == args->root) {
        flat_step(args, index, false, step_out);
        return;
    }
    kolo_step_clear(step_out);
    step_out->to = args->root;
    step_out->out = kolo_slice_whole(args, KOLO_BUFFER_SEND);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_direct_allreduce = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_DIRECT_ALLREDUCE,
    .summary = "each rank reduces a chunk in the order of ranks and sends it to all",
    .closes = true,
    .is_segmented = true,
    .is_ordered = true,
    .fits = fold_fits,
    .scratch = direct_allreduce_scratch,
    .nsteps = direct_allreduce_nsteps,
    .window = direct_allreduce_window,
    .step = direct_allreduce_step,
};

const struct kolo_plan kolo_plan_flat_allreduce = {
    .name = "flat",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_FLAT_ALLREDUCE,
    .summary = "whole vectors from each rank to each other, reduced in the order of ranks",
    .closes = true,
    .is_ordered = true,
    .fits = flat_fits,
    .scratch = flat_allreduce_scratch,
    .held = flat_held,
    .nsteps = flat_allreduce_nsteps,
    .window = flat_allreduce_window,
    .step = flat_allreduce_step,
};

const struct kolo_plan kolo_plan_direct_reduce = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_DIRECT_REDUCE,
    .summary = "each rank reduces a chunk in the order of ranks and sends it to the root",
    .closes = true,
    .is_segmented = true,
    .is_ordered = true,
    .fits = fold_fits,
    .scratch = direct_reduce_scratch,
    .nsteps = direct_reduce_nsteps,
    .window = direct_reduce_window,
    .step = direct_reduce_step,
};

const struct kolo_plan kolo_plan_flat_reduce = {
    .name = "flat",
    .collective = KOLO_COLLECTIVE_REDUCE,
    .number = KOLO_PLAN_FLAT_REDUCE,
    .summary = "whole vectors to the root, reduced in the order of ranks",
    .is_ordered = true,
    .fits = flat_fits,
    .scratch = flat_reduce_scratch,
    .held = flat_held,
    .nsteps = flat_reduce_nsteps,
    .window = flat_reduce_window,
    .step = flat_reduce_step,
};

const struct kolo_plan kolo_plan_direct_reduce_scatter = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_REDUCE_SCATTER,
    .number = KOLO_PLAN_DIRECT_REDUCE_SCATTER,
    .summary = "each rank receives its block from all and reduces it in the order of ranks",
    .closes = true,
    .is_segmented = true,
    .is_ordered = true,
    .fits = fold_fits,
    .scratch = direct_reduce_scatter_scratch,
    .nsteps = direct_reduce_scatter_nsteps,
    .window = direct_reduce_scatter_window,
    .step = direct_reduce_scatter_step,
};
