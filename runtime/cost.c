// SPDX-License-Identifier: Apache-2.0
// Walks the steps of some ranks as the engine would take them, and adds up what each costs, see
// cost.h. Must never depend on the rank that asks, nor on the clock: all ranks of a job have to
// come to the same number. What boards take is in cost_board.c.
//
// Factors that stand alone below (halves, quarters, 4) are fitted: with them the plan that is
// expected to be over first is most often the one that bench/choice measured to be. They are no
// figures of a machine.
#include "runtime/cost.h"

#include <math.h>

#include "runtime/board_moves.h"

enum {
    RANKS_WALKED = 8,        /* of a world at most: of a larger one those that ranks_walked says */
    BYTES_WALKED = 64 << 20, /* beyond it time grows with size */
    WARM_BYTES = 512 << 10,  /* in flight, that are in the cache when they are needed again */
    WARM_PASSED_BYTES = 2 << 20, /* that of all cores, which few ranks use at a time */
    STREAMED_BYTES = 16 << 10,
    CACHES_BYTES = 24 << 20, /* of all ranks' vectors, from which on caches do not help */
    LENT_BYTES = 2 << 10     /* from here on memory is lent on a host, and its sender waits */
};

static const double GUESSED_WIRE_BYTE = 0.8; /* 10 Gbit/s */

/* Of what is in flight so much has left the caches at most: from four times what they keep on. */
static const double COLD_MOST = 0.75;

static const char *const path_texts[KOLO_PATHS] = {
#define KOLO_PATH_TEXT(name, text) [KOLO_PATH_##name] = (text),
    KOLO_PATH_MAP(KOLO_PATH_TEXT)
#undef KOLO_PATH_TEXT
};

const char *kolo_path_text(enum kolo_path path)
{
    return (unsigned)path < KOLO_PATHS ? path_texts[path] : "?";
}

/* ---- figures ---- */

void kolo_figures_init(struct kolo_figures *figures)
{
    *figures = (struct kolo_figures){.path = {[KOLO_PATH_INPROC] = {.call = 400,
                                                                    .latency = 300,
                                                                    .message = 150,
                                                                    .byte = 0.03,
                                                                    .crowded_message = 1500},
                                              [KOLO_PATH_SHM] = {.call = 200,
                                                                 .latency = 300,
                                                                 .message = 250,
                                                                 .byte = 0.08,
                                                                 .crowded_message = 1500},
                                              [KOLO_PATH_LOOPBACK] = {.call = 2000,
                                                                      .latency = 3000,
                                                                      .message = 4000,
                                                                      .byte = 0.19,
                                                                      .crowded_message = 8000,
                                                                      .crowded_byte = 0.12},
                                              [KOLO_PATH_RDMA] = {.call = 800,
                                                                  .latency = 1500,
                                                                  .message = 400,
                                                                  .byte = 0.05,
                                                                  .crowded_message = 8000,
                                                                  .crowded_byte = 0.12},
                                              [KOLO_PATH_NETWORK] = {.call = 2000,
                                                                     .latency = 20000,
                                                                     .message = 4000,
                                                                     .byte = 0.15,
                                                                     .crowded_message = 8000,
                                                                     .crowded_byte = 0.12}},
                                     .wire_byte = GUESSED_WIRE_BYTE,
                                     .rdma_wire_byte = 0.08, /* 100 Gbit/s */
                                     .combine_byte = 0.04,
                                     .copy_byte = 0.08,
                                     .turn = 4000,
                                     .enter = 200,
                                     .flag = 200,
                                     .share_byte = 0.023,
                                     .remote_byte = 0.13,
                                     .far_flag = 100,
                                     .far_byte = 0.01, /* 100 GB/s */
                                     .pull_byte = 0.09};
}

bool kolo_figures_guess_line(const struct kolo_figures *figures)
{
    return figures->wire_byte >= GUESSED_WIRE_BYTE && figures->wire_byte <= GUESSED_WIRE_BYTE;
}

/* ---- one rank's steps ---- */

/** A message stays on a host, or goes to another. */
enum { STAYS, CROSSES, HOPS };

/** A line carries both ways at once. */
enum { OUT, IN, WAYS };

/** What one rank does, in nanoseconds. */
struct walk {
    double latency, processor;
    double wire[WAYS]; /* on the line of its host to others */
    double far;        /* on the line from its NUMA domain to others */
    double hop[HOPS];  /* the longest of a message, alone; 0: there is none such */
};

struct walker {
    const struct kolo_plan_args *args;
    const struct kolo_layout *layout;
    const struct kolo_figures *figures;
    double element_bytes;
    bool is_crowded, is_streamed; /* a message with the same peer is in flight before this one */
    bool is_passed_on;            /* ranks work one after the other */
    bool is_piped;    /* its messages are pieces that are passed on, as long as is best */
    bool is_whole;    /* they are passed on along a tree as they came */
    bool is_vast;     /* the vectors of all ranks are not in a cache */
    bool is_combined; /* what a step brings, with what its rank has */
    double beside;    /* steps in flight with this one, which is one of them */
    double over[KOLO_WINDOW_MAX]; /* when steps in flight are over, latencies alone */
    int to[KOLO_WINDOW_MAX], from[KOLO_WINDOW_MAX]; /* their peers */
    double certain;                                 /* when all before them are */
    size_t floor;                                   /* the first of those in flight */
    struct walk walk;
};

static enum kolo_path path_between(const struct kolo_layout *layout)
{
    return layout->by_rdma ? KOLO_PATH_RDMA : KOLO_PATH_NETWORK;
}

static bool has_several_hosts(const struct kolo_layout *layout)
{
    return layout->hosts != NULL && layout->nhosts > 1;
}

static bool are_apart(const struct kolo_layout *layout, int rank, int peer)
{
    return layout->hosts != NULL && layout->hosts[rank] != layout->hosts[peer];
}

/** Whether @p peer is on another host. */
static bool crosses(const struct walker *walker, int peer)
{
    return are_apart(walker->layout, walker->args->rank, peer);
}

static double wire_byte(const struct walker *walker)
{
    if (walker->layout->line_byte > 0)
        return walker->layout->line_byte;
    return walker->layout->by_rdma ? walker->figures->rdma_wire_byte : walker->figures->wire_byte;
}

static enum kolo_path path_to(const struct walker *walker, int peer)
{
    return crosses(walker, peer) ? path_between(walker->layout) : walker->layout->local;
}

/** Whether @p peer is on this rank's host, in another NUMA domain. */
static bool is_far(const struct walker *walker, int peer)
{
    const struct kolo_topology *hosts = walker->args->hosts;
    int rank = walker->args->rank;
    return hosts != NULL && hosts->of[rank] == hosts->of[peer] &&
           hosts->domains.of[rank] != hosts->domains.of[peer];
}

/** Whether a receiver on the same host reads what is sent where it lies. */
static bool lends(enum kolo_path path)
{
    return path == KOLO_PATH_INPROC || path == KOLO_PATH_SHM;
}

/** Bytes that come and go on a core between one's arrival and its next use: the message itself, and
 * if it is combined what it is combined with and what comes of it; where ranks share cores also
 * what is in flight beside it, which waits there for the turns of the others instead of being taken
 * as it comes. */
static double in_between(const struct walker *walker, double bytes)
{
    double combined = walker->is_combined ? 3 : 1;
    return combined * bytes * (walker->is_crowded && !walker->is_passed_on ? walker->beside : 1);
}

/** What @p bytes take more that are in no cache: those that have been pushed out by what is in
 * between; of a vector that no cache holds no piece ever was, which its receiver feels if it reads
 * it there. */
static double cold(const struct walker *walker, enum kolo_path path, double bytes, bool goes_out)
{
    double warm = walker->is_passed_on ? WARM_PASSED_BYTES : WARM_BYTES, long_ones = 0;
    double copy_byte = walker->figures->copy_byte, byte = walker->figures->path[path].byte;
    double between = in_between(walker, bytes);
    if (between > warm && !walker->is_piped) {
        double part = fmin(1 - warm / between, COLD_MOST);
        bool is_handed_on = walker->is_crowded && walker->is_passed_on; /* from turn to turn */
        long_ones = bytes * part * (is_handed_on ? 4 : 0.5) * copy_byte;
    }
    bool is_far_off = walker->is_vast && !goes_out && lends(path);
    return fmax(long_ones, is_far_off ? bytes * fmax(0, copy_byte - byte) : 0);
}

/** Counts a message of @p elements with @p peer, of which @p moved are moved by a processor; when
 * it is over if it begins at @p begin. */
static double message(struct walker *walker, int peer, size_t elements, size_t moved, bool goes_out,
                      double begin)
{
    enum kolo_path path = path_to(walker, peer);
    const struct kolo_path_figures *figures = &walker->figures->path[path];
    double bytes = (double)elements * walker->element_bytes;
    double work = figures->message + (double)moved * walker->element_bytes * figures->byte +
                  cold(walker, path, bytes, goes_out);
    /* long pieces of one stream come while the one before is worked on: few of them wake anybody */
    double wakes = walker->is_streamed && bytes >= STREAMED_BYTES ? 0.25 : 1;
    double crowded = wakes * figures->crowded_message + bytes * figures->crowded_byte;
    double wire = crosses(walker, peer) ? bytes * wire_byte(walker) : 0;
    double far = is_far(walker, peer) ? bytes * walker->figures->far_byte : 0;
    double latency = figures->latency + (is_far(walker, peer) ? walker->figures->far_flag : 0);
    walker->walk.processor += work + (walker->is_crowded ? crowded : 0);
    walker->walk.wire[goes_out ? OUT : IN] += wire;
    if (goes_out)
        walker->walk.far += far;
    double waking = walker->is_crowded ? 2 * wakes * figures->crowded_message : 0;
    double *hop = &walker->walk.hop[crosses(walker, peer) ? CROSSES : STAYS];
    /* whole vectors go down a tree while its root sends more of them: that line is counted */
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
    if (step->fold.ways > 0) /* what has come lies in scratch, and is read back */
        elements_copied += (double)step->fold.out.count * (step->fold.ways - 1) * 0.5;
    if (step->reduces) { /* what has come goes through the buffer of a connection, in the cache */
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

/** Elements of what @p step receives that are moved before they are used. */
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

static double ranks_a_host(const struct kolo_layout *layout)
{
    int nhosts = layout->hosts != NULL && layout->nhosts > 0 ? layout->nhosts : 1;
    return ceil((double)layout->size / nhosts);
}

static double ranks_a_domain(const struct kolo_plan_args *args)
{
    return args->hosts == NULL ? args->size : ceil((double)args->size / args->hosts->domains.count);
}

static double ranks_a_core(const struct kolo_layout *layout)
{
    return fmax(1, ranks_a_host(layout) / (layout->cores > 0 ? layout->cores : 1));
}

/** Along a tree or a chain, and between a root and the others in turn, few ranks are at work at a
 * time: their messages do not drive each other's out of the caches. But the leaves of a tree that
 * reduces, half of all ranks, begin with their whole vectors at once. Of a broadcast all plans
 * count as such, so that they are judged alike. */
static bool is_passed_on(const struct kolo_plan *plan)
{
    if (plan->collective == KOLO_COLLECTIVE_REDUCE && plan->depth == KOLO_DEPTH_TREE)
        return false;
    return plan->depth != KOLO_DEPTH_NONE || plan->collective == KOLO_COLLECTIVE_GATHER ||
           plan->collective == KOLO_COLLECTIVE_SCATTER ||
           plan->collective == KOLO_COLLECTIVE_BROADCAST;
}

/** Elements of the longer of a rank's two buffers: the vector that a call of it moves. */
static double longer_buffer(enum kolo_collective collective, const struct kolo_plan_args *args,
                            int rank)
{
    struct kolo_plan_args even = *args; /* an uneven call has its mean as its count */
    size_t send, recv;
    even.counts = even.displs = even.send_counts = even.send_displs = NULL;
    kolo_moves_extent(collective, &even, rank, &send, &recv);
    return (double)(send > recv ? send : recv);
}

/** Whether the vectors of all ranks are more than the caches hold: n blocks on each rank of an
 * alltoall, an allgather and a reduce_scatter, on the root of a gather and a scatter. */
static bool is_vast(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                    size_t element_bytes)
{
    double elements = longer_buffer(plan->collective, args, args->root);
    if (args->size > 1)
        elements +=
            (args->size - 1) * longer_buffer(plan->collective, args, (args->root + 1) % args->size);
    return elements * (double)element_bytes >= CACHES_BYTES;
}

static struct walk walk_rank(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                             size_t element_bytes, const struct kolo_layout *layout,
                             const struct kolo_figures *figures)
{
    struct walker walker = {.args = args,
                            .layout = layout,
                            .figures = figures,
                            .element_bytes = (double)element_bytes,
                            .is_crowded = ranks_a_core(layout) > 1,
                            .is_passed_on = is_passed_on(plan),
                            .is_piped = plan->is_segmented && plan->depth == KOLO_DEPTH_TREE,
                            .is_whole = !plan->is_segmented && plan->depth == KOLO_DEPTH_TREE,
                            .is_vast = is_vast(plan, args, element_bytes)};
    size_t nsteps = plan->nsteps(args);
    for (size_t i = 0; i < nsteps; i++) {
        struct kolo_step step;
        plan->step(args, i, &step);
        count_step(&walker, &step, i, nsteps);
    }
    return walker.walk;
}

/* ---- all ranks ---- */

static bool goes_to_root(const struct kolo_plan *plan)
{
    return plan->collective == KOLO_COLLECTIVE_REDUCE || plan->collective == KOLO_COLLECTIVE_GATHER;
}

/** The next rank from @p rank towards the root; -1: it is the root. */
static int towards_root(const struct kolo_plan *plan, const struct kolo_plan_args *args, int rank)
{
    struct kolo_plan_args own = *args;
    own.rank = rank;
    size_t nsteps = rank == args->root ? 0 : plan->nsteps(&own);
    for (size_t i = 0; i < nsteps; i++) {
        struct kolo_step step;
        plan->step(&own, i, &step);
        int peer = goes_to_root(plan) ? step.to : step.from;
        if (peer >= 0)
            return peer;
    }
    return -1;
}

/** Messages between a rank and the root, by kind, but for the one that the rank's own steps show,
 * or the root's where they come together there. */
struct way {
    int hops[HOPS];
};

static struct way way_of(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                         const struct kolo_layout *layout, int rank)
{
    struct way way = {0};
    int first = -1, last = -1;
    for (int at = rank, next; (next = towards_root(plan, args, at)) >= 0; at = next) {
        last = are_apart(layout, at, next) ? CROSSES : STAYS;
        first = first < 0 ? last : first;
        if (++way.hops[last], way.hops[STAYS] + way.hops[CROSSES] == args->size)
            break; /* no plan goes round */
    }
    if (first >= 0)
        way.hops[goes_to_root(plan) ? last : first]--;
    return way;
}

/** Messages before the first one of the last rank, which its own steps do not show. */
static double hops_before(const struct kolo_plan *plan, int size)
{
    if (plan->depth == KOLO_DEPTH_CHAIN)
        return size - 2;
    if (plan->depth == KOLO_DEPTH_TREE)
        return ceil(log2(size)) - 1;
    return 0;
}

/** Of a broadcast and a scatter half of them count: nobody waits for the last rank, so the first
 * ones are at the next call, or at what the program does then, while the last ones wait. */
static double part_counted(const struct kolo_plan *plan)
{
    return plan->collective == KOLO_COLLECTIVE_BROADCAST ||
                   plan->collective == KOLO_COLLECTIVE_SCATTER
               ? 0.5
               : 1;
}

/** The ranks whose steps are counted, the root first; returns how many. In a tree no two need have
 * the same work, so of a small world all are. */
static int ranks_walked(const struct kolo_plan_args *args, int ranks[RANKS_WALKED])
{
    int n = args->size, count = 0;
    const int some[] = {0, (args->root + 1) % n, (args->root + n / 2) % n, n - 1, n / 3};
    int wanted = n <= RANKS_WALKED ? n : (int)(sizeof some / sizeof *some);
    ranks[count++] = args->root;
    for (int i = 0; i < wanted; i++) {
        int rank = n <= RANKS_WALKED ? i : some[i];
        if (rank != args->root)
            ranks[count++] = rank;
    }
    return count;
}

static void add_walk(struct walk *sum, const struct walk *walk, double times)
{
    sum->processor += times * walk->processor;
    for (int way = 0; way < WAYS; way++)
        sum->wire[way] += times * walk->wire[way];
    sum->far += times * walk->far;
}

static void raise_walk(struct walk *most, const struct walk *walk)
{
    most->latency = fmax(most->latency, walk->latency);
    most->processor = fmax(most->processor, walk->processor);
    for (int way = 0; way < WAYS; way++)
        most->wire[way] = fmax(most->wire[way], walk->wire[way]);
    most->far = fmax(most->far, walk->far);
    for (int kind = 0; kind < HOPS; kind++)
        most->hop[kind] = fmax(most->hop[kind], walk->hop[kind]);
}

/** When the last rank's messages begin, and how long they take then, latencies alone. */
struct last {
    double hops, latency;
};

/** Of ranks that are on one host all messages are alike. */
static struct last last_of_one_host(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                                    const struct walk *most)
{
    double hops = part_counted(plan) * hops_before(plan, args->size);
    return (struct last){.hops = hops * most->hop[STAYS], .latency = most->latency};
}

/** On several hosts few of the messages go from one to another: those of each way are counted. */
static struct last last_of_hosts(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                                 const struct kolo_layout *layout, const struct walk *most,
                                 const int *ranks, const struct walk *walks, int count)
{
    struct last last = {.latency = most->latency};
    if (plan->depth == KOLO_DEPTH_NONE)
        return last;
    last.latency = walks[0].latency;
    for (int i = 1; i < count; i++) {
        struct way way = way_of(plan, args, layout, ranks[i]);
        double hops = part_counted(plan) *
                      (way.hops[STAYS] * most->hop[STAYS] + way.hops[CROSSES] * most->hop[CROSSES]);
        double latency = walks[goes_to_root(plan) ? 0 : i].latency;
        if (hops + latency > last.hops + last.latency)
            last = (struct last){.hops = hops, .latency = latency};
    }
    return last;
}

/** The line of the host that has most on it, one way: what its ranks send, or get. Of a large world
 * as if all its hosts had as much, if not one rank has more. */
static double busiest_line(const struct kolo_layout *layout, const struct walk *walks,
                           const int *ranks, int count, const struct walk *most,
                           const struct walk *mean)
{
    double line = 0;
    for (int way = 0; way < WAYS; way++)
        line = fmax(line, fmax(most->wire[way], mean->wire[way] * ranks_a_host(layout)));
    if (!has_several_hosts(layout) || count < layout->size)
        return line;
    line = 0;
    for (int i = 0; i < count; i++) {
        double sum[WAYS] = {0};
        for (int j = 0; j < count; j++)
            for (int way = 0; way < WAYS && !are_apart(layout, ranks[i], ranks[j]); way++)
                sum[way] += walks[j].wire[way];
        line = fmax(line, fmax(sum[OUT], sum[IN]));
    }
    return line;
}

/** As kolo_plan_cost, for a vector of which all steps are counted. */
static double cost_of_all(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                          size_t element_bytes, const struct kolo_layout *layout,
                          const struct kolo_figures *figures)
{
    struct walk walks[RANKS_WALKED];
    int n = args->size, ranks[RANKS_WALKED];
    int count = ranks_walked(args, ranks);
    double of_others = count > 1 ? (double)(n - 1) / (count - 1) : 0;
    struct walk most = {0}; /* of the root, and of those of the others that are walked */
    struct walk mean = {0};
    for (int i = 0; i < count; i++) {
        struct kolo_plan_args own = *args;
        own.rank = ranks[i];
        walks[i] = walk_rank(plan, &own, element_bytes, layout, figures);
        raise_walk(&most, &walks[i]);
        add_walk(&mean, &walks[i], (i == 0 ? 1 : of_others) / n);
    }
    double wire = busiest_line(layout, walks, ranks, count, &most, &mean);
    double far = fmax(most.far, mean.far * ranks_a_domain(args));
    struct last last = !has_several_hosts(layout)
                           ? last_of_one_host(plan, args, &most)
                           : last_of_hosts(plan, args, layout, &most, ranks, walks, count);
    double chain = last.hops + fmax(most.processor, fmax(wire, far));
    /* each level of a pipelined tree waits for a sibling's piece too, whatever the cores do */
    double siblings = plan->is_segmented && plan->depth == KOLO_DEPTH_TREE ? 0.5 * last.hops : 0;
    return last.latency + siblings + fmax(chain, mean.processor * ranks_a_core(layout));
}

/** By which most of a call's time goes. */
static enum kolo_path longest_path(const struct kolo_layout *layout)
{
    return has_several_hosts(layout) ? path_between(layout) : layout->local;
}

/** An open broadcast whose data are lent to those that take them is over on its root when they have
 * come, which is as notes to it are: it runs ahead of nobody. On several hosts it waits for those
 * of its own alone, which is short beside the way to the others. */
static enum kolo_closing closing_of(const struct kolo_plan_args *args, size_t element_bytes,
                                    const struct kolo_layout *layout)
{
    bool is_lent = lends(longest_path(layout)) && args->count >= LENT_BYTES / element_bytes;
    return args->closing == KOLO_CLOSING_LATER && is_lent ? KOLO_CLOSING_NOTES : args->closing;
}

double kolo_plan_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                      size_t element_bytes, const struct kolo_layout *layout,
                      const struct kolo_figures *figures)
{
    struct kolo_plan_args less = *args;
    double times = 1;
    if (plan->on_board)
        return kolo_board_cost(plan, args, element_bytes, layout, figures);
    if (args->counts == NULL && args->count > BYTES_WALKED / element_bytes) {
        less.count = BYTES_WALKED / element_bytes;
        times = (double)args->count / (double)less.count;
    }
    double cost = times * cost_of_all(plan, &less, element_bytes, layout, figures);
    less.closing = closing_of(args, element_bytes, layout);
    const struct kolo_plan *beside = plan->closes ? NULL : kolo_plan_closing(plan, &less);
    if (beside != NULL && args->size > 1) { /* what closes it, beside it */
        struct kolo_plan_args none = {.size = args->size, .hosts = args->hosts, .segment = 1};
        double closing = cost_of_all(beside, &none, 1, layout, figures);
        cost = fmax(cost, closing) + 0.5 * fmin(cost, closing);
    }
    return figures->path[longest_path(layout)].call + cost;
}
