// SPDX-License-Identifier: Apache-2.0
// Chooses the stores that long collectives of host memory use, and whether memory that the others
// cannot see is pulled or goes through the stages. Which is fastest depends on the machine: stores
// into a stage that bypass the caches take a sixth of the time of ordinary ones on one machine, and
// 1.2 to 1.8 times as long on another. So the ways are tried (trials.h), for each collective and
// each power of two of bytes.
//
// All members must pull, or none, and a member that is fast may make others slow. Therefore all
// decide by the duration of the whole call, from when the first member saw that all had entered
// until the last was done, and all see the same figures: each member writes the begin and end of
// its latest measured collective to its notes before it enters the next one, and all have entered
// that before any reads the notes. A member may be done with that one before another has read them,
// so the figures of the one before stay until the next.
//
// Where memory may be pulled, and contributions are short enough to be shown (board_oneshot.c),
// that is one more way. A member shows its contribution before it enters, so the way of such a call
// is chosen before, from what was known when all had entered the call before it.
#include <stddef.h>

#include "base/alloc.h"
#include "runtime/board_hub.h"

enum {
    STREAMS_IN = 1,  /* bits of a way: stores into cells of stages bypass the caches */
    STREAMS_OUT = 2, /* stores into results bypass the caches */
    PULLS = 4,       /* a way by itself */
    SHOWS = 5,       /* likewise */
    /* Shorter blocks of a scatter are shown: its root goes on meanwhile, so that calls overlap, and
     * the duration of one does not say what it costs. */
    SCATTER_BYTES = 16 << 10,
    CLASSES = 16,
    CLASS_LEAST = 13, /* exponent of the size of the first class */
    ALIKE = 2, /* a new length may begin with the result of a length this many powers of two away */
    /* Sizes of all buffers together, and of one rank's at most, from which on stores into results
     * may be faster past the caches; and those from which on they surely are. */
    ALL_SEE_BYTES = 8 << 20,
    OWN_BYTES = 8 << 20,
    ALL_SEE_SURELY = 128 << 20,
    OWN_SURELY = 32 << 20
};
_Static_assert((int)SHOWS < (int)KOLO_TRIALS_WAYS, "each way has a place");

/** A way that was chosen for a collective. */
struct taken {
    struct kolo_trials *trials; /* that chose it; NULL: none did */
    int way;
    bool is_measured; /* they receive the duration, */
    double bytes;     /* by the size of all buffers */
};

struct kolo_hub_ways {
    struct kolo_trials trials[2][KOLO_COLLECTIVES][CLASSES]; /* by whether all see the memory */
    struct taken measured;   /* of the latest measured collective, until its duration is noted */
    uint64_t number;         /* number of that collective */
    uint64_t measured_count; /* collectives that were measured so far */
    int64_t began;
    /* Of the running collective, if its way was chosen before it was entered: the trials as they
     * were before, and how long it took to show. */
    struct taken early;
    struct kolo_trials before;
    int64_t put_began, put_ns;
};

struct kolo_hub_ways *kolo_ways_create(void)
{
    return kolo_calloc(1, sizeof(struct kolo_hub_ways));
}

/** Bytes of the buffers of the running collective. */
struct lengths {
    double all, most; /* of all members together; of the member that has most */
};

static struct lengths lengths_of(const struct kolo_hub *hub)
{
    struct kolo_plan_args even = hub->run.request->args;
    size_t send, recv;
    double all = 0, most = 0;
    even.count = kolo_plan_mean_block(&even);
    even.counts = even.displs = NULL; /* gaps between blocks are not moved */
    for (int i = 0; i < hub->count; i++) {
        kolo_moves_extent(hub->run.collective, &even, i, &send, &recv);
        const double own = (double)send + (double)recv;
        all += own;
        most = own > most ? own : most;
    }
    const double bytes = (double)hub->run.element_bytes;
    return (struct lengths){all * bytes, most * bytes};
}

double kolo_ways_bytes(const struct kolo_hub *hub)
{
    return lengths_of(hub).all;
}

static int class_of(double bytes)
{
    int class = 0;
    for (double most = 2.0 * (1 << CLASS_LEAST); bytes >= most && class < CLASSES - 1; most *= 2)
        class ++;
    return class;
}

static struct kolo_board_took *took_of(const struct kolo_hub *hub, int member)
{
    return &hub->members[member].notes->took[hub->ways->measured_count % KOLO_BOARD_TOOK];
}

/** The duration of the latest measured collective. Negative: a member has no figures, which was
 * never seen. */
static double duration(const struct kolo_hub *hub)
{
    int64_t began = INT64_MAX, ended = 0;
    for (int i = 0; i < hub->count; i++) {
        const struct kolo_board_took *took = took_of(hub, i);
        if (atomic_load_explicit(&took->number, memory_order_acquire) != hub->ways->number)
            return -1;
        const int64_t first = atomic_load_explicit(&took->began, memory_order_relaxed);
        const int64_t last = atomic_load_explicit(&took->ended, memory_order_relaxed);
        began = first < began ? first : began;
        ended = last > ended ? last : ended;
    }
    return (double)ended - (double)began;
}

/** Passes the duration of the latest measured collective to its trials. All members have entered a
 * later one. */
static void settle(struct kolo_hub *hub)
{
    struct kolo_hub_ways *ways = hub->ways;
    const struct taken measured = ways->measured;
    ways->measured.trials = NULL;
    if (!measured.trials)
        return;
    const double took = duration(hub);
    if (took >= 0)
        kolo_trials_note(measured.trials, measured.way, took / measured.bytes);
}

/** All have entered: the running collective begins in the way that was taken. */
static void begin(struct kolo_hub *hub, const struct taken *taken)
{
    struct kolo_hub_ways *ways = hub->ways;
    if (!taken->is_measured)
        return;
    ways->measured = *taken;
    ways->measured_count++;
    ways->number = hub->number;
    ways->began = kolo_now_ns() - ways->put_ns;
}

/** The ways that may be tried, as a set of bits. The same on all members, as it depends only on
 * what all know. */
static unsigned open_ways(struct kolo_hub *hub, bool all_see, struct lengths bytes)
{
    const bool streams_out =
        all_see ? bytes.all >= (double)ALL_SEE_BYTES : bytes.most >= (double)OWN_BYTES;
    const bool surely_out =
        all_see ? bytes.all >= (double)ALL_SEE_SURELY : bytes.most >= (double)OWN_SURELY;
    unsigned open = 1;
    if (!all_see && kolo_staged_may_stream(hub))
        open |= open << STREAMS_IN;
    if (streams_out)
        open = (surely_out ? 0 : open) | open << STREAMS_OUT;
    return open | (!all_see && kolo_pull_may(hub) ? 1U << PULLS : 0);
}

/** The trials for the running collective. New ones begin with the results of the nearest length at
 * most ALIKE powers of two away. */
static struct kolo_trials *find_trials(struct kolo_hub_ways *ways, bool all_see,
                                       enum kolo_collective collective, double all)
{
    struct kolo_trials *of_all = ways->trials[all_see][collective];
    const int class = class_of(all);
    bool is_new = kolo_trials_is_new(&of_all[class]);
    for (int by = 1; by <= ALIKE && is_new; by++) {
        if (class >= by)
            is_new = !kolo_trials_adopt(&of_all[class], &of_all[class - by]);
        if (is_new && class + by < CLASSES)
            is_new = !kolo_trials_adopt(&of_all[class], &of_all[class + by]);
    }
    return &of_all[class];
}

/** Takes a way for the running collective. If that is not entered yet (@p is_early), showing is one
 * of them, and what is taken can be undone. */
static struct taken take(struct kolo_hub *hub, bool all_see, bool is_early)
{
    const struct lengths bytes = lengths_of(hub);
    const unsigned open = open_ways(hub, all_see, bytes) | (is_early ? 1U << SHOWS : 0);
    struct taken taken = {.bytes = bytes.all > 0 ? bytes.all : 1};
    taken.trials = find_trials(hub->ways, all_see, hub->run.collective, bytes.all);
    if (is_early)
        hub->ways->before = *taken.trials;
    taken.way = (is_early ? kolo_trials_take_early : kolo_trials_take)(taken.trials, open,
                                                                       &taken.is_measured);
    return taken;
}

bool kolo_ways_only_shows(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes)
{
    return collective == KOLO_COLLECTIVE_SCATTER &&
           kolo_plan_mean_block(args) * element_bytes < SCATTER_BYTES;
}

bool kolo_ways_shows(struct kolo_hub *hub)
{
    struct kolo_hub_ways *ways = hub->ways;
    ways->early = (struct taken){.way = SHOWS};
    ways->put_ns = 0;
    if (!kolo_pull_is_known(hub))
        return true;
    if (!kolo_pull_may(hub) ||
        kolo_ways_only_shows(hub->run.collective, &hub->run.request->args, hub->run.element_bytes))
        return !kolo_pull_must(hub);
    ways->early = take(hub, false, true);
    ways->put_began = ways->early.is_measured ? kolo_now_ns() : 0;
    return ways->early.way == SHOWS;
}

void kolo_ways_put(struct kolo_hub *hub)
{
    struct kolo_hub_ways *ways = hub->ways;
    if (ways->early.is_measured)
        ways->put_ns = kolo_now_ns() - ways->put_began;
}

/** What was taken before the running collective was entered, which counts once. */
static struct taken end_early(struct kolo_hub_ways *ways)
{
    const struct taken taken = ways->early;
    ways->early = (struct taken){.trials = NULL};
    return taken;
}

void kolo_ways_unshow(struct kolo_hub *hub)
{
    const struct taken early = end_early(hub->ways);
    if (early.trials)
        *early.trials = hub->ways->before;
    hub->ways->put_ns = 0;
}

void kolo_ways_shown(struct kolo_hub *hub)
{
    const struct taken early = end_early(hub->ways);
    settle(hub);
    (void)kolo_pull_may(hub); /* so that it is known from the next call on */
    begin(hub, &early);
}

void kolo_ways_choose(struct kolo_hub *hub, bool all_see)
{
    struct taken taken = end_early(hub->ways);
    settle(hub);
    hub->run.how = hub->run.cell_how = KOLO_STORE_CACHED;
    hub->run.is_pulled = !all_see && kolo_pull_must(hub);
    if (hub->run.is_pulled)
        return;
    if (!taken.trials) {
        hub->ways->put_ns = 0;
        taken = take(hub, all_see, false);
    }
    hub->run.is_pulled = taken.way == PULLS;
    hub->run.how = (taken.way & STREAMS_OUT) != 0 ? KOLO_STORE_STREAM : KOLO_STORE_CACHED;
    hub->run.cell_how = (taken.way & STREAMS_IN) != 0 ? KOLO_STORE_STREAM : KOLO_STORE_CACHED;
    begin(hub, &taken);
}

void kolo_ways_over(struct kolo_hub *hub)
{
    const struct kolo_hub_ways *ways = hub->ways;
    if (!ways->measured.trials || ways->number != hub->number)
        return;
    struct kolo_board_took *took = took_of(hub, hub->self);
    atomic_store_explicit(&took->began, ways->began, memory_order_relaxed);
    atomic_store_explicit(&took->ended, kolo_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&took->number, hub->number, memory_order_release);
}
