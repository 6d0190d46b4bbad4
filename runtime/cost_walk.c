// SPDX-License-Identifier: Apache-2.0
// Walks the steps of one rank as the engine would run them, and adds up their costs (cost.h). Must
// never consider what other ranks do meanwhile, except how many share its cores: cost.c and
// cost_way.c combine the ranks.
#include "runtime/cost_walk.h"

#include <math.h>

#include "runtime/board_moves.h"

enum {
    WARM_BYTES = 512 << 10, /* in flight, and still in the cache when needed again */
    /* the same for the caches of all cores, if few ranks use them at a time */
    WARM_PASSED_BYTES = 2 << 20,
    STREAMED_BYTES = 16 << 10,
    CACHES_BYTES = 24 << 20 /* of all ranks' vectors: from here on caches do not help */
};

/* The largest part of the data in flight that counts as out of the caches, reached at four times
 * the bytes that they keep. */
static const double COLD_MOST = 0.75;

struct walker {
    const struct kolo_plan_args *args;
    const struct kolo_layout *layout;
    const struct kolo_figures *figures;
    double element_bytes;
    bool is_crowded, is_streamed; /* a message with the same peer is already in flight */
    bool is_passed_on;            /* ranks work one after the other */
    bool is_piped;    /* messages are pieces that are passed on, cut to the best length */
    bool is_whole;    /* whole vectors are passed on along a tree */
    bool is_vast;     /* the vectors of all ranks do not fit in the caches */
    bool is_combined; /* a step combines what it receives with what the rank has */
    double beside;    /* steps in flight at the same time, including this one */
    double over[KOLO_WINDOW_MAX]; /* when the steps in flight are over; latencies only */
    int to[KOLO_WINDOW_MAX], from[KOLO_WINDOW_MAX]; /* the peers of those steps */
    double certain;                                 /* when all steps before them are over */
    size_t floor;                                   /* the first of the steps in flight */
    struct kolo_walk walk;
};

/** Whether @p peer is on another host. */
static bool crosses(const struct walker *walker, int peer)
{
    return kolo_layout_are_apart(walker->layout, walker->args->rank, peer);
}

static double wire_byte(const struct walker *walker)
{
    if (walker->layout->line_byte > 0)
        return walker->layout->line_byte;
    return walker->layout->by_rdma ? walker->figures->rdma_wire_byte : walker->figures->wire_byte;
}

static enum kolo_path path_to(const struct walker *walker, int peer)
{
    return kolo_layout_path(walker->layout, crosses(walker, peer));
}

/** Whether @p peer is on this rank's host, in another NUMA domain. */
static bool is_far(const struct walker *walker, int peer)
{
    const struct kolo_topology *hosts = walker->args->hosts;
    int rank = walker->args->rank;
    return hosts && hosts->of[rank] == hosts->of[peer] &&
           hosts->domains.of[rank] != hosts->domains.of[peer];
}

/** Bytes that pass through a core's cache between the arrival of a message and its next use: the
 * message itself; if it is combined, the other operand and the result too. If ranks share cores,
 * also everything in flight beside it, since messages wait there for the other ranks' turns. */
static double in_between(const struct walker *walker, double bytes)
{
    double combined = walker->is_combined ? 3 : 1;
    return combined * bytes * (walker->is_crowded && !walker->is_passed_on ? walker->beside : 1);
}

/** The extra time of @p bytes that are not in a cache. Either they were pushed out by what passes
 * in between; or the vector is too large for any cache, which costs a receiver that reads it in
 * place. */
static double cold(const struct walker *walker, enum kolo_path path, double bytes, bool goes_out)
{
    double warm = walker->is_passed_on ? WARM_PASSED_BYTES : WARM_BYTES, long_ones = 0;
    double copy_byte = walker->figures->copy_byte, byte = walker->figures->path[path].byte;
    double between = in_between(walker, bytes);
    if (between > warm && !walker->is_piped) {
        double part = fmin(1 - warm / between, COLD_MOST);
        /* from one rank's turn to another's */
        bool is_handed_on = walker->is_crowded && walker->is_passed_on;
        long_ones = bytes * part * (is_handed_on ? 4 : 0.5) * copy_byte;
    }
    bool is_far_off = walker->is_vast && !goes_out && kolo_path_lends(path);
    return fmax(long_ones, is_far_off ? bytes * fmax(0, copy_byte - byte) : 0);
}

/** Counts a message of @p elements with @p peer, of which a processor moves @p moved. Returns when
 * the message is over if it begins at @p begin. */
static double message(struct walker *walker, int peer, size_t elements, size_t moved, bool goes_out,
                      double begin)
{
    enum kolo_path path = path_to(walker, peer);
    const struct kolo_path_figures *figures = &walker->figures->path[path];
    double bytes = (double)elements * walker->element_bytes;
    double work = figures->message + (double)moved * walker->element_bytes * figures->byte +
                  cold(walker, path, bytes, goes_out);
    /* long pieces of a stream arrive while the previous one is in work, so few of them wake a
     * rank */
    double wakes = walker->is_streamed && bytes >= (double)STREAMED_BYTES ? 0.25 : 1;
    double crowded = wakes * figures->crowded_message + bytes * figures->crowded_byte;
    double wire = crosses(walker, peer) ? bytes * wire_byte(walker) : 0;
    double far = is_far(walker, peer) ? bytes * walker->figures->far_byte : 0;
    double latency = figures->latency + (is_far(walker, peer) ? walker->figures->far_flag : 0);
    walker->walk.processor += work + (walker->is_crowded ? crowded : 0);
    walker->walk.wire[goes_out ? KOLO_LINE_OUT : KOLO_LINE_IN] += wire;
    if (goes_out)
        walker->walk.far += far;
    double waking = walker->is_crowded ? 2 * wakes * figures->crowded_message : 0;
    double *hop = &walker->walk.hop[crosses(walker, peer) ? KOLO_HOP_CROSSES : KOLO_HOP_STAYS];
    /* whole vectors go down a tree while its root is still sending: the root's line counts
     * instead */
    double on_wire = walker->is_whole ? 0 : wire;
    *hop = fmax(*hop, latency + 2 * work + on_wire + far + waking);
    return begin + latency;
}

static void count_local(struct walker *walker, const struct kolo_step *step)
{
    const struct kolo_figures *figures = walker->figures;
    bool copies = step->copy_to.count > 0 && !walker->args->in_place;
    double elements_copied = copies ? (double)step->copy_to.count : 0;
    double elements_combined = (double)step->finish.count * 0.5;
    if (step->fold.ways > 0)
        elements_combined += (double)step->fold.out.count * (step->fold.ways - 1);
    if (step->fold.ways > 0) /* the received data is in scratch and is read back */
        elements_copied += (double)step->fold.out.count * (step->fold.ways - 1) * 0.5;
    /* received data goes through a connection's buffer, which is in the cache */
    if (step->reduces) {
        elements_combined += (double)step->in.count;
        elements_copied += (double)step->in.count * 0.5;
    }
    walker->walk.processor += walker->element_bytes * (elements_copied * figures->copy_byte +
                                                       elements_combined * figures->combine_byte);
}

/** Whether a message with one of the peers of @p step is in flight. */
static bool is_streamed(const struct walker *walker, const struct kolo_step *step, size_t index)
{
    for (size_t i = walker->floor; i < index; i++)
        if ((step->to >= 0 && walker->to[i % KOLO_WINDOW_MAX] == step->to) ||
            (step->from >= 0 && walker->from[i % KOLO_WINDOW_MAX] == step->from))
            return true;
    return false;
}

/** The elements that @p step receives and that are moved before they are used. */
static size_t moved_in(const struct walker *walker, const struct kolo_step *step)
{
    bool is_summed_there = step->reduces && path_to(walker, step->from) == KOLO_PATH_RDMA;
    return is_summed_there ? 0 : step->in.count;
}

static void count_step(struct walker *walker, const struct kolo_step *step, size_t index,
                       size_t nsteps)
{
    while (walker->floor + step->after <= index) {
        walker->certain = fmax(walker->certain, walker->over[walker->floor % KOLO_WINDOW_MAX]);
        walker->floor++;
    }
    double begin = walker->certain, over = begin;
    walker->is_streamed = is_streamed(walker, step, index);
    walker->is_combined = step->reduces;
    walker->beside = (double)(step->after < nsteps ? step->after : nsteps);
    count_local(walker, step);
    if (step->to >= 0)
        over = fmax(over, message(walker, step->to, step->out.count, step->out.count, true, begin));
    if (step->from >= 0)
        over = fmax(over, message(walker, step->from, step->in.count, moved_in(walker, step), false,
                                  begin));
    walker->over[index % KOLO_WINDOW_MAX] = over;
    walker->to[index % KOLO_WINDOW_MAX] = step->to;
    walker->from[index % KOLO_WINDOW_MAX] = step->from;
    walker->walk.latency = fmax(walker->walk.latency, over);
}

/** Whether few ranks work at the same time, so their messages do not push each other out of the
 * caches. That is so along a tree or a chain, and between a root and the other ranks in turn. The
 * exception is reduce along a tree: its leaves, half of all ranks, begin at once with their whole
 * vectors. For broadcast all plans count as passed on, so that they are judged alike. */
static bool is_passed_on(const struct kolo_plan *plan)
{
    if (plan->collective == KOLO_COLLECTIVE_REDUCE && plan->depth == KOLO_DEPTH_TREE)
        return false;
    return plan->depth != KOLO_DEPTH_NONE || plan->collective == KOLO_COLLECTIVE_GATHER ||
           plan->collective == KOLO_COLLECTIVE_SCATTER ||
           plan->collective == KOLO_COLLECTIVE_BROADCAST;
}

/** Elements of the longer of a rank's two buffers, which is the vector that a call moves. */
static double longer_buffer(enum kolo_collective collective, const struct kolo_plan_args *args,
                            int rank)
{
    struct kolo_plan_args even = *args; /* the count of an uneven call is the mean of its counts */
    size_t send, recv;
    even.counts = even.displs = even.send_counts = even.send_displs = NULL;
    kolo_moves_extent(collective, &even, rank, &send, &recv);
    return (double)(send > recv ? send : recv);
}

/** Whether the vectors of all ranks exceed the caches. Alltoall, allgather and reduce_scatter have
 * n blocks on each rank, gather and scatter on the root. */
static bool is_vast(const struct kolo_cost_query *query)
{
    const struct kolo_plan_args *args = query->args;
    enum kolo_collective collective = query->plan->collective;
    double elements = longer_buffer(collective, args, args->root);
    if (args->size > 1)
        elements +=
            (args->size - 1) * longer_buffer(collective, args, (args->root + 1) % args->size);
    return elements * (double)query->element_bytes >= (double)CACHES_BYTES;
}

struct kolo_walk kolo_walk_rank(const struct kolo_cost_query *query, int rank)
{
    const struct kolo_plan *plan = query->plan;
    struct kolo_plan_args own = *query->args;
    own.rank = rank;
    struct walker walker = {.args = &own,
                            .layout = query->layout,
                            .figures = query->figures,
                            .element_bytes = (double)query->element_bytes,
                            .is_crowded = kolo_layout_ranks_a_core(query->layout) > 1,
                            .is_passed_on = is_passed_on(plan),
                            .is_piped = plan->is_segmented && plan->depth == KOLO_DEPTH_TREE,
                            .is_whole = !plan->is_segmented && (plan->depth == KOLO_DEPTH_TREE ||
                                                                plan->depth == KOLO_DEPTH_ROUNDS),
                            .is_vast = is_vast(query)};
    size_t nsteps = plan->nsteps(&own);
    for (size_t i = 0; i < nsteps; i++) {
        struct kolo_step step;
        plan->step(&own, i, &step);
        count_step(&walker, &step, i, nsteps);
    }
    return walker.walk;
}
