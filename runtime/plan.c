// SPDX-License-Identifier: Apache-2.0
// Owns the table of plans, whose rows are in the files of the plans (plan_*.c); here are only those
// of plans that are not over links. Owns the choice of a plan without the cost model
// (kolo_plan_choose), and helpers for the files of plans.
#include "runtime/plan.h"

#include <string.h>

static const char *const collective_texts[KOLO_COLLECTIVES] = {
#define KOLO_COLLECTIVE_TEXT(name, text) [KOLO_COLLECTIVE_##name] = (text),
    KOLO_COLLECTIVE_MAP(KOLO_COLLECTIVE_TEXT)
#undef KOLO_COLLECTIVE_TEXT
};

const char *kolo_collective_text(enum kolo_collective collective)
{
    return collective < KOLO_COLLECTIVES ? collective_texts[collective] : "?";
}

static const char *only_by_setting(const struct kolo_plan_args *args)
{
    (void)args;
    return "KOLO_NESTED_BYTES chooses it, by size";
}

static size_t no_steps(const struct kolo_plan_args *args)
{
    (void)args;
    return 0;
}

#define ON_BOARD(plan, NAME, says)                                                                 \
    .name = (plan), .collective = KOLO_COLLECTIVE_##NAME, .summary = (says), .closes = true,       \
    .on_board = true, .is_ordered = true, .fits = kolo_always_fits, .scratch = kolo_no_scratch,    \
    .nsteps = no_steps
#define ONESHOT(NAME, name_)                                                                       \
    const struct kolo_plan kolo_plan_oneshot_##name_ = {                                           \
        ON_BOARD("oneshot", NAME,                                                                  \
                 "each rank publishes its whole contribution in shared memory, and takes what it " \
                 "needs"),                                                                         \
        .number = KOLO_PLAN_ONESHOT_##NAME, .is_oneshot = true}
#define TWOSHOT(NAME, name_)                                                                       \
    const struct kolo_plan kolo_plan_twoshot_##name_ = {                                           \
        ON_BOARD("twoshot", NAME,                                                                  \
                 "each rank moves its share from all ranks' memory into all ranks' memory"),       \
        .number = KOLO_PLAN_TWOSHOT_##NAME}
ONESHOT(ALLREDUCE, allreduce);
TWOSHOT(ALLREDUCE, allreduce);
ONESHOT(REDUCE, reduce);
TWOSHOT(REDUCE, reduce);
ONESHOT(BROADCAST, broadcast);
TWOSHOT(BROADCAST, broadcast);
ONESHOT(ALLGATHER, allgather);
TWOSHOT(ALLGATHER, allgather);
ONESHOT(REDUCE_SCATTER, reduce_scatter);
TWOSHOT(REDUCE_SCATTER, reduce_scatter);
ONESHOT(GATHER, gather);
TWOSHOT(GATHER, gather);
ONESHOT(SCATTER, scatter);
TWOSHOT(SCATTER, scatter);
ONESHOT(BARRIER, barrier);
ONESHOT(ALLTOALL, alltoall);
TWOSHOT(ALLTOALL, alltoall);

const struct kolo_plan kolo_plan_nested_allreduce = {
    .name = "nested",
    .collective = KOLO_COLLECTIVE_ALLREDUCE,
    .number = KOLO_PLAN_NESTED_ALLREDUCE,
    .summary = "in pieces: reduce_scatter inside hosts, allreduce across them, allgather inside",
    .closes = true,
    .is_by_hosts = true,
    .is_nested = true,
    .fits = only_by_setting,
    .scratch = kolo_no_scratch,
    .nsteps = no_steps,
};

const struct kolo_plan *const kolo_plans[KOLO_PLANS] = {
#define KOLO_PLAN_LISTED(NAME, name) [KOLO_PLAN_##NAME] = &kolo_plan_##name,
    KOLO_PLAN_MAP(KOLO_PLAN_LISTED)
#undef KOLO_PLAN_LISTED
};

const struct kolo_plan *kolo_plan_find(enum kolo_collective collective, const char *name)
{
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        if (plan->collective == collective && strcmp(plan->name, name) == 0)
            return plan;
    return NULL;
}

/** Notes cost one message per rank, and a link from each rank to the root. If a root would wait for
 * more of them than can be in flight, the rounds of a barrier are cheaper. */
static enum kolo_closing closing_of(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    bool is_too_large = args->closing == KOLO_CLOSING_NOTES && args->size - 1 > KOLO_WINDOW_MAX;
    if (plan->collective != KOLO_COLLECTIVE_BROADCAST || plan->closes || is_too_large)
        return KOLO_CLOSING_NOW;
    return args->closing;
}

bool kolo_plan_is_open(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    if (plan->collective != KOLO_COLLECTIVE_BROADCAST || args->size == 1)
        return false;
    return plan->on_board ? plan->is_oneshot : closing_of(plan, args) != KOLO_CLOSING_NOW;
}

const struct kolo_plan *kolo_plan_closing(const struct kolo_plan *plan,
                                          const struct kolo_plan_args *args)
{
    bool is_far = args->hosts && !kolo_twolevel_fits(args);
    enum kolo_closing closing = closing_of(plan, args);
    if (closing != KOLO_CLOSING_NOW)
        return closing == KOLO_CLOSING_NOTES ? &kolo_plan_notes : NULL;
    return is_far ? &kolo_plan_twolevel_barrier : &kolo_plan_dissemination_barrier;
}

const struct kolo_plan *kolo_plan_on_board(enum kolo_collective collective, bool is_oneshot)
{
#define BOTH(NAME, name)                                                                           \
    [KOLO_COLLECTIVE_##NAME] = { &kolo_plan_twoshot_##name, &kolo_plan_oneshot_##name }
    static const struct kolo_plan *const plans[KOLO_COLLECTIVES][2] = {
        BOTH(ALLREDUCE, allreduce),
        BOTH(REDUCE, reduce),
        BOTH(BROADCAST, broadcast),
        BOTH(ALLGATHER, allgather),
        BOTH(REDUCE_SCATTER, reduce_scatter),
        BOTH(GATHER, gather),
        BOTH(SCATTER, scatter),
        BOTH(ALLTOALL, alltoall),
        [KOLO_COLLECTIVE_BARRIER] = {NULL, &kolo_plan_oneshot_barrier}};
#undef BOTH
    return plans[collective][is_oneshot];
}

static const struct kolo_plan *first_plan(enum kolo_collective collective)
{
    size_t number = 0;
    while (kolo_plans[number]->collective != collective)
        number++;
    return kolo_plans[number];
}

const struct kolo_plan *kolo_plan_choose(enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t bytes,
                                         size_t small_bytes, const char *forced)
{
    static const char *const small_plans[KOLO_COLLECTIVES] = {
        [KOLO_COLLECTIVE_ALLREDUCE] = "doubling",
        [KOLO_COLLECTIVE_REDUCE] = "tree",
        [KOLO_COLLECTIVE_BROADCAST] = "tree",
    };
    const struct kolo_plan *plan = kolo_plan_find(collective, forced);
    if (plan && !plan->on_board && !plan->fits(args))
        return plan;
    if (small_plans[collective] && bytes <= small_bytes) {
        plan = kolo_plan_find(collective, small_plans[collective]);
        if (plan && !plan->fits(args))
            return plan;
    }
    return first_plan(collective);
}

const char *kolo_plan_fits(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                           size_t element_bytes)
{
    const char *why = plan->fits(args);
    if (why || !plan->held)
        return why;
    size_t held = plan->held(args);
    return held > 0 && args->count > KOLO_SCRATCH_BYTES / element_bytes / held
               ? "received data would need more than 16 MiB of scratch on a rank"
               : NULL;
}

size_t kolo_plan_window(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    return plan->window ? plan->window(args) : 1;
}

/* ---- helpers of the plan files ---- */

const char *kolo_always_fits(const struct kolo_plan_args *args)
{
    (void)args;
    return NULL;
}

size_t kolo_no_scratch(const struct kolo_plan_args *args)
{
    (void)args;
    return 0;
}

void kolo_step_clear(struct kolo_step *step)
{
    *step = (struct kolo_step){.to = -1, .from = -1, .after = 1};
}

size_t kolo_plan_block(const struct kolo_plan_args *args, int rank)
{
    return args->counts ? args->counts[rank] : args->count;
}

size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank)
{
    return args->counts ? args->displs[rank] : args->count * (size_t)rank;
}

size_t kolo_plan_mean_block(const struct kolo_plan_args *args)
{
    size_t total = 0;
    if (args->send_counts)
        return 0;
    if (!args->counts)
        return args->count;
    for (int rank = 0; rank < args->size; rank++)
        total += args->counts[rank];
    return total / (size_t)args->size;
}

struct kolo_slice kolo_plan_block_in(const struct kolo_plan_args *args, int rank,
                                     enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, kolo_plan_block_offset(args, rank),
                               kolo_plan_block(args, rank)};
}

struct kolo_slice kolo_plan_chunk(const struct kolo_plan_args *args, long index,
                                  enum kolo_buffer buffer)
{
    size_t n = (size_t)args->size;
    long wrapped = index % args->size;
    size_t c = (size_t)(wrapped < 0 ? wrapped + args->size : wrapped);
    size_t base = args->count / n, extra = args->count % n;
    return (struct kolo_slice){buffer, c * base + (c < extra ? c : extra), base + (c < extra)};
}

size_t kolo_pieces(size_t count, size_t length)
{
    size_t pieces = count / length + (count % length != 0);
    return pieces > 0 ? pieces : 1;
}

struct kolo_slice kolo_slice_piece(struct kolo_slice slice, size_t index, size_t length)
{
    size_t first = index * length < slice.count ? index * length : slice.count;
    size_t left = slice.count - first;
    return (struct kolo_slice){slice.buffer, slice.offset + first, left < length ? left : length};
}

int kolo_plan_position(const struct kolo_plan_args *args, int rank)
{
    const struct kolo_topology *hosts = args->hosts;
    return !hosts ? rank : hosts->first[hosts->of[rank]] + hosts->local[rank];
}

int kolo_plan_rank_at(const struct kolo_plan_args *args, int position)
{
    return !args->hosts ? position : args->hosts->ranks[position];
}

int kolo_plan_rank_on(const struct kolo_plan_args *args, int host, int local)
{
    return args->hosts->ranks[args->hosts->first[host] + local];
}

struct kolo_slice kolo_plan_blocks_on(const struct kolo_plan_args *args, int host,
                                      enum kolo_buffer buffer)
{
    const int *first = &args->hosts->first[host];
    return (struct kolo_slice){buffer, (size_t)first[0] * args->count,
                               (size_t)(first[1] - first[0]) * args->count};
}

int kolo_plan_children(int position, int size)
{
    int count = 0;
    for (int bit = 1; position + bit < size && (position & bit) == 0; bit <<= 1)
        count++;
    return count;
}

int kolo_plan_wrap(int rank, int size)
{
    return rank < 0 ? rank + size : rank >= size ? rank - size : rank;
}
