// SPDX-License-Identifier: Apache-2.0
// The expected time of the ways over a board (board_hub.h), from how many bytes each rank reads and
// writes, and how often all wait for all. Pure arithmetic on the moves of a collective, which are
// the same on every rank.
//
//   oneshot   this rank's part in; flag; every part that it needs out
//   direct    names in; flag; a share of all moves; flag
//   staged    as direct, and all that is moved goes into the stages and out of them once more
//   pulled    names in; flag; what goes to this rank, copied by the kernel, except its own part;
//             flag
//
// If the ranks are on several NUMA domains, part of what they read and write goes between domains,
// over a line that the cores of a domain share. What one of these cores has fetched, the others
// find in a cache.
//
// A flag is a word from core to core. If ranks share cores, it also costs a turn of every rank of a
// core, and each core does the work of all its ranks. For a broadcast that runs as a oneshot, half
// a turn counts: only a root sometimes waits for the others, and each rank continues with the next
// call when it has the data.
#include <math.h>

#include "runtime/board_hub.h"
#include "runtime/cost.h"

enum {
    CACHE_BYTES = 24 << 20, /* of all buffers together: from here on caches do not help */
    FLAGS_DIRECT = 2,
    FLAGS_STAGED = 4,  /* two more: after copying in, and after copying out */
    ENTERS_DIRECT = 2, /* names are published and looked up */
    ENTERS_STAGED = 8  /* the stage is divided, and each round is counted */
};

/** Bytes read and written by all ranks, by the busiest rank, and passed from core to core. */
struct touched {
    double all, most, remote;
};

/* How often each buffer passes the stages: written, read, and half of it once more on the way
 * out. */
static const double passes_staged = 2.5;

static double crowd_of(const struct kolo_layout *layout)
{
    return fmax(1, (double)layout->size / (layout->cores > 0 ? layout->cores : 1));
}

static double flags_oneshot(enum kolo_collective collective, const struct kolo_layout *layout)
{
    return collective == KOLO_COLLECTIVE_BROADCAST && crowd_of(layout) > 1 ? 0.5 : 1;
}

static double flags(double count, const struct kolo_layout *layout,
                    const struct kolo_figures *figures)
{
    double crowd = crowd_of(layout);
    double far = layout->domains > 1 ? figures->far_flag : 0;
    return count * (far + (crowd > 1 ? crowd * figures->turn : figures->flag));
}

/** The part of all ranks' memory that is in other domains than a given rank's. */
static double apart(const struct kolo_layout *layout)
{
    return layout->domains > 1 ? 1 - 1.0 / layout->domains : 0;
}

static double inputs(const struct kolo_move *move, int size)
{
    return move->from == KOLO_EVERY ? size : 1;
}

/** The number of outputs; the root of a broadcast already has its own. */
static double outputs(const struct kolo_move *move, int size)
{
    return move->to != KOLO_EVERY ? 1 : move->from == KOLO_EVERY ? size : size - 1;
}

/** Bytes that the moves read and write, for all ranks together. */
static double moved(enum kolo_collective collective, const struct kolo_plan_args *args,
                    double element_bytes)
{
    size_t count = kolo_moves_count(collective, args);
    double bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        bytes += (inputs(&move, args->size) + outputs(&move, args->size)) * (double)move.count;
    }
    return bytes * element_bytes;
}

/** Bytes of all ranks' buffers. */
static double buffers(enum kolo_collective collective, const struct kolo_plan_args *args,
                      double element_bytes)
{
    double bytes = 0;
    for (int rank = 0; rank < args->size; rank++) {
        size_t send, recv;
        kolo_moves_extent(collective, args, rank, &send, &recv);
        bytes += (double)send + (double)recv;
    }
    return bytes * element_bytes;
}

/** Elements that @p rank reads and writes in a oneshot: its own part in, and what goes to it
 * out. */
static double shown(enum kolo_collective collective, const struct kolo_plan_args *args, int rank,
                    double *remote_out)
{
    size_t count = kolo_moves_count(collective, args), send, recv;
    double elements, remote = 0;
    kolo_moves_extent(collective, args, rank, &send, &recv);
    elements = 2 * (double)send;
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        if (move.to != KOLO_EVERY && move.to != rank)
            continue;
        elements += (inputs(&move, args->size) + 1) * (double)move.count;
        if (move.from != rank)
            remote += (move.from == KOLO_EVERY ? args->size - 1 : 1) * (double)move.count;
    }
    *remote_out = remote;
    return elements;
}

static struct touched shown_by_all(enum kolo_collective collective,
                                   const struct kolo_plan_args *args, double element_bytes)
{
    struct touched touched = {0};
    int ranks[] = {0, args->root, args->size - 1};
    enum { RANKS = sizeof ranks / sizeof ranks[0] };
    for (int i = 0; i < RANKS; i++) {
        double remote;
        double bytes = shown(collective, args, ranks[i], &remote) * element_bytes;
        touched.most = fmax(touched.most, bytes);
        touched.remote = fmax(touched.remote, remote * element_bytes);
    }
    /* the rank after the root stands for all others */
    double root, remote;
    root = shown(collective, args, args->root, &remote);
    double other = shown(collective, args, (args->root + 1) % args->size, &remote);
    touched.all = (root + (args->size - 1) * other) * element_bytes;
    return touched;
}

static double oneshot(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                      double element_bytes, const struct kolo_layout *layout,
                      const struct kolo_figures *figures)
{
    double cores = fmin(layout->size, fmax(1, layout->cores)), crowd = crowd_of(layout);
    struct touched touched = shown_by_all(plan->collective, args, element_bytes);
    return crowd * figures->enter +
           flags(flags_oneshot(plan->collective, layout), layout, figures) +
           fmax(touched.most, touched.all / cores) * figures->share_byte +
           touched.remote * (figures->remote_byte + apart(layout) * figures->far_byte);
}

/** Whether all that the ranks read and write remains in caches between two calls. */
static bool is_cached(enum kolo_collective collective, const struct kolo_plan_args *args,
                      double element_bytes)
{
    return buffers(collective, args, element_bytes) < (double)CACHE_BYTES;
}

/** Nanoseconds for reading or writing a byte of the ranks' own memory. */
static double touched_byte(enum kolo_collective collective, const struct kolo_plan_args *args,
                           double element_bytes, const struct kolo_figures *figures)
{
    return is_cached(collective, args, element_bytes)
               ? figures->share_byte
               : fmax(figures->share_byte, figures->copy_byte / 2);
}

static double direct(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                     double element_bytes, const struct kolo_layout *layout,
                     const struct kolo_figures *figures)
{
    double cores = fmin(layout->size, fmax(1, layout->cores)), crowd = crowd_of(layout);
    double byte = touched_byte(plan->collective, args, element_bytes, figures);
    double bytes = moved(plan->collective, args, element_bytes);
    double far = apart(layout) / fmax(1, layout->domains) * figures->far_byte;
    return (double)ENTERS_DIRECT * crowd * figures->enter + flags(FLAGS_DIRECT, layout, figures) +
           bytes * fmax(byte / cores, far);
}

/** Bytes that the busiest rank reads out of other ranks' stages: its share of the inputs of all
 * moves, and the results for it that others have computed. Where ranks share cores, measurements
 * show nothing of it. */
static double staged_remote(enum kolo_collective collective, const struct kolo_plan_args *args,
                            double element_bytes, const struct kolo_layout *layout)
{
    const int ranks[] = {0, args->root, (args->root + 1) % args->size};
    const size_t count = kolo_moves_count(collective, args);
    double in = 0, out = 0;
    if (crowd_of(layout) > 1)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        in += inputs(&move, args->size) * (double)move.count;
    }
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        size_t send, recv;
        kolo_moves_extent(collective, args, ranks[i], &send, &recv);
        out = fmax(out, (double)recv);
    }
    return (1 - 1.0 / args->size) * (in / args->size + out) * element_bytes;
}

/** The direct way, plus the way through the stages, which stay in the cache. */
static double staged(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                     double element_bytes, const struct kolo_layout *layout,
                     const struct kolo_figures *figures)
{
    double cores = fmin(layout->size, fmax(1, layout->cores)), crowd = crowd_of(layout);
    return direct(plan, args, element_bytes, layout, figures) +
           (ENTERS_STAGED - ENTERS_DIRECT) * crowd * figures->enter +
           flags(FLAGS_STAGED - FLAGS_DIRECT, layout, figures) +
           passes_staged * buffers(plan->collective, args, element_bytes) / cores *
               figures->share_byte +
           staged_remote(plan->collective, args, element_bytes, layout) * figures->remote_byte;
}

/** Nanoseconds for what @p rank copies: the others' data for it, and its own data for itself. The
 * kernel is not faster than memory either. */
static double taken(enum kolo_collective collective, const struct kolo_plan_args *args, int rank,
                    double element_bytes, const struct kolo_figures *figures)
{
    size_t first, count = kolo_moves_to(collective, args, rank, &first);
    double others = 0, own = 0;
    for (size_t i = first; i < first + count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        *(move.from == rank ? &own : &others) += (double)move.count;
    }
    const double own_byte = 2 * touched_byte(collective, args, element_bytes, figures);
    const double pull_byte = is_cached(collective, args, element_bytes)
                                 ? figures->pull_byte
                                 : fmax(figures->pull_byte, figures->copy_byte);
    return element_bytes * (others * pull_byte + own * own_byte);
}

static double pulled(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                     double element_bytes, const struct kolo_layout *layout,
                     const struct kolo_figures *figures)
{
    double cores = fmin(layout->size, fmax(1, layout->cores)), crowd = crowd_of(layout);
    int next = (args->root + 1) % args->size; /* stands for all but the root */
    double root = taken(plan->collective, args, args->root, element_bytes, figures);
    double other = taken(plan->collective, args, next, element_bytes, figures);
    return (double)ENTERS_DIRECT * crowd * figures->enter + flags(FLAGS_DIRECT, layout, figures) +
           fmax(fmax(root, other), (root + (args->size - 1) * other) / cores);
}

bool kolo_board_is_pulled(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                          size_t element_bytes, const struct kolo_layout *layout,
                          const struct kolo_figures *figures)
{
    const double bytes = (double)element_bytes;
    if (!layout->pull_is_tried)
        return kolo_pull_pays(plan->collective, args, element_bytes,
                              buffers(plan->collective, args, bytes), layout->pull_from);
    return kolo_pull_can(plan->collective, args, element_bytes, layout->pull_from) &&
           pulled(plan, args, bytes, layout, figures) < staged(plan, args, bytes, layout, figures);
}

enum kolo_unseen kolo_board_unseen(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                                   size_t element_bytes, const struct kolo_layout *layout,
                                   const struct kolo_figures *figures)
{
    const double bytes = (double)element_bytes;
    const bool is_pulled = kolo_board_is_pulled(plan, args, element_bytes, layout, figures);
    const bool may_be_shown = kolo_oneshot_bytes(plan->collective, args, element_bytes) <=
                              kolo_board_shown(plan->collective, layout, figures);
    const bool is_faster =
        !kolo_ways_only_shows(plan->collective, args, element_bytes) &&
        pulled(plan, args, bytes, layout, figures) < oneshot(plan, args, bytes, layout, figures);
    if (may_be_shown && !(is_pulled && (is_faster || !layout->pull_is_tried)))
        return KOLO_UNSEEN_SHOWN;
    return is_pulled ? KOLO_UNSEEN_PULLED : KOLO_UNSEEN_STAGED;
}

double kolo_board_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                       size_t element_bytes, const struct kolo_layout *layout,
                       const struct kolo_figures *figures)
{
    if (plan->is_oneshot)
        return oneshot(plan, args, (double)element_bytes, layout, figures);
    if (!layout->is_unseen)
        return direct(plan, args, (double)element_bytes, layout, figures);
    double through = kolo_board_is_pulled(plan, args, element_bytes, layout, figures)
                         ? pulled(plan, args, (double)element_bytes, layout, figures)
                         : staged(plan, args, (double)element_bytes, layout, figures);
    if (kolo_oneshot_bytes(plan->collective, args, element_bytes) > KOLO_BOARD_ONESHOT_BYTES)
        return through;
    return fmin(through, oneshot(plan, args, (double)element_bytes, layout, figures));
}

size_t kolo_board_shown(enum kolo_collective collective, const struct kolo_layout *layout,
                        const struct kolo_figures *figures)
{
    const struct kolo_plan *shows = kolo_plan_on_board(collective, true);
    const struct kolo_plan *stages = kolo_plan_on_board(collective, false);
    size_t bytes = 0;
    for (size_t count = 1; stages; count *= 2) {
        struct kolo_plan_args args = {.size = layout->size, .count = count, .segment = 1};
        size_t longest = kolo_oneshot_bytes(collective, &args, 1);
        if (longest > KOLO_BOARD_ONESHOT_BYTES ||
            oneshot(shows, &args, 1, layout, figures) > staged(stages, &args, 1, layout, figures))
            break;
        bytes = longest;
    }
    return bytes;
}
