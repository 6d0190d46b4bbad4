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
// its latest measured collective to its notes before it enters the next one; all have entered that
// before any reads the notes, and none writes new figures before all have read them.
#include <stddef.h>

#include "base/alloc.h"
#include "runtime/board_hub.h"

enum {
    STREAMS_IN = 1,  /* bits of a way: stores into cells of stages bypass the caches */
    STREAMS_OUT = 2, /* stores into results bypass the caches */
    PULLS = 4,       /* a way by itself */
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
_Static_assert((int)PULLS < (int)KOLO_TRIALS_WAYS, "each way has a place");

struct kolo_hub_ways {
    struct kolo_trials trials[2][KOLO_COLLECTIVES][CLASSES]; /* by whether all see the memory */
    /* trials that receive the duration of the latest collective; NULL: none */
    struct kolo_trials *measured;
    int way;
    uint64_t number; /* number of that collective */
    double bytes;    /* size of all its buffers */
    int64_t began;
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

/** Passes the duration of the latest measured collective to its trials. All members have entered a
 * later one. */
static void settle(struct kolo_hub *hub)
{
    struct kolo_hub_ways *ways = hub->ways;
    struct kolo_trials *trials = ways->measured;
    int64_t began = INT64_MAX, ended = 0;
    ways->measured = NULL;
    for (int i = 0; i < hub->count && trials; i++) {
        const struct kolo_board_took *took = &hub->members[i].notes->took;
        if (atomic_load_explicit(&took->number, memory_order_acquire) != ways->number)
            return; /* a member has no figures; this was never seen */
        const int64_t first = atomic_load_explicit(&took->began, memory_order_relaxed);
        const int64_t last = atomic_load_explicit(&took->ended, memory_order_relaxed);
        began = first < began ? first : began;
        ended = last > ended ? last : ended;
    }
    if (trials)
        kolo_trials_note(trials, ways->way, ((double)ended - (double)began) / ways->bytes);
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

void kolo_ways_choose(struct kolo_hub *hub, bool all_see)
{
    struct kolo_hub_ways *ways = hub->ways;
    const struct lengths bytes = lengths_of(hub);
    bool is_measured;
    settle(hub);
    hub->run.how = hub->run.cell_how = KOLO_STORE_CACHED;
    hub->run.is_pulled = !all_see && kolo_pull_must(hub);
    if (hub->run.is_pulled)
        return;
    struct kolo_trials *trials = find_trials(ways, all_see, hub->run.collective, bytes.all);
    const int way = kolo_trials_take(trials, open_ways(hub, all_see, bytes), &is_measured);
    hub->run.is_pulled = way == PULLS;
    hub->run.how = (way & STREAMS_OUT) != 0 ? KOLO_STORE_STREAM : KOLO_STORE_CACHED;
    hub->run.cell_how = (way & STREAMS_IN) != 0 ? KOLO_STORE_STREAM : KOLO_STORE_CACHED;
    if (!is_measured)
        return;
    ways->measured = trials;
    ways->way = way;
    ways->number = hub->number;
    ways->bytes = bytes.all > 0 ? bytes.all : 1;
    ways->began = kolo_now_ns();
}

void kolo_ways_over(struct kolo_hub *hub)
{
    const struct kolo_hub_ways *ways = hub->ways;
    if (!ways->measured || ways->number != hub->number)
        return;
    struct kolo_board_took *took = &hub->members[hub->self].notes->took;
    atomic_store_explicit(&took->began, ways->began, memory_order_relaxed);
    atomic_store_explicit(&took->ended, kolo_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&took->number, hub->number, memory_order_release);
}
