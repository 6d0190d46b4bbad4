// SPDX-License-Identifier: Apache-2.0
// Direct plans: each block is sent once, from the rank that has it to the one that wants it, and
// all messages are in flight at once. In turn d a rank sends to the rank at distance d and receives
// from the rank at distance -d, so that no rank is the first peer of all others. If blocks are long
// and all ranks are on one host, fewer are in flight: what all ranks have in sockets at a time
// should not push itself out of the caches.
//
// Notes: the same towards the root, without blocks: each rank only says that it has entered.
//
// The dissemination barrier: in round k every rank sends to the one at distance 2^k and receives
// from the one at distance -2^k. After ceil(log2 n) rounds it has heard, through others, from all
// ranks.
#include "runtime/plan.h"

enum { SEGMENTS_IN_FLIGHT = 8 }; /* that a rank sends on one host; at least one block */

static size_t turns(const struct kolo_plan_args *args)
{
    return args->size > 1 ? (size_t)args->size - 1 : 1;
}

/** In very large worlds fewer steps are in flight, because the works themselves would cost
 * noticeably. */
static size_t in_flight(const struct kolo_plan_args *args)
{
    size_t most = args->size <= 1024 ? KOLO_WINDOW_MAX : KOLO_WINDOW_MAX / 4, n = turns(args);
    return n < most ? n : most;
}

/** The same between all ranks: equal blocks on one host are limited to SEGMENTS_IN_FLIGHT
 * segments. */
static size_t blocks_in_flight(const struct kolo_plan_args *args)
{
    size_t most = in_flight(args);
    size_t part = args->count / SEGMENTS_IN_FLIGHT + (args->count % SEGMENTS_IN_FLIGHT != 0);
    bool is_even = !args->counts && !args->send_counts;
    bool is_one_host = !args->hosts || args->hosts->count == 1;
    if (!is_one_host || !is_even || part == 0 || args->segment / part >= most)
        return most;
    return args->segment > part ? args->segment / part : 1;
}

static void join(size_t most, size_t index, struct kolo_step *step)
{
    step->after = index + 1 < most ? index + 1 : most;
}

/* ---- between the root and all others ---- */

/** The rank that the root serves in step @p index: root + 1, root + 2, ... */
static int served(const struct kolo_plan_args *args, size_t index)
{
    return (int)(((size_t)args->root + 1 + index) % (size_t)args->size);
}

static size_t direct_rooted_nsteps(const struct kolo_plan_args *args)
{
    return args->rank == args->root ? turns(args) : 1;
}

static size_t direct_rooted_window(const struct kolo_plan_args *args)
{
    return args->rank == args->root ? in_flight(args) : 1;
}

static void direct_gather_step(const struct kolo_plan_args *args, size_t index,
                               struct kolo_step *step_out)
{
    struct kolo_slice mine = {KOLO_BUFFER_SEND, 0, kolo_plan_block(args, args->rank)};
    kolo_step_clear(step_out);
    if (args->rank != args->root) {
        step_out->to = args->root;
        step_out->out = mine;
        return;
    }
    join(in_flight(args), index, step_out);
    if (index == 0) {
        step_out->copy_from = mine;
        step_out->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (args->size > 1) {
        step_out->from = served(args, index);
        step_out->in = kolo_plan_block_in(args, step_out->from, KOLO_BUFFER_RECV);
    }
}

static void direct_scatter_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    struct kolo_slice mine = {KOLO_BUFFER_RECV, 0, kolo_plan_block(args, args->rank)};
    kolo_step_clear(step_out);
    if (args->rank != args->root) {
        step_out->from = args->root;
        step_out->in = mine;
        return;
    }
    join(in_flight(args), index, step_out);
    if (index == 0) {
        step_out->copy_from = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_SEND);
        step_out->copy_to = mine;
    }
    if (args->size > 1) {
        step_out->to = served(args, index);
        step_out->out = kolo_plan_block_in(args, step_out->to, KOLO_BUFFER_SEND);
    }
}

/* ---- notes to the root ---- */

static size_t notes_nsteps(const struct kolo_plan_args *args)
{
    return args->size > 1 ? direct_rooted_nsteps(args) : 0;
}

static size_t notes_window(const struct kolo_plan_args *args)
{
    return direct_rooted_window(args);
}

static void notes_step(const struct kolo_plan_args *args, size_t index, struct kolo_step *step_out)
{
    kolo_step_clear(step_out);
    if (args->rank != args->root) {
        step_out->to = args->root;
        return;
    }
    join(in_flight(args), index, step_out);
    step_out->from = served(args, index);
}

/* ---- among all ---- */

static size_t direct_nsteps(const struct kolo_plan_args *args)
{
    return turns(args);
}

static size_t direct_window(const struct kolo_plan_args *args)
{
    return blocks_in_flight(args);
}

static void partners(const struct kolo_plan_args *args, size_t index, struct kolo_step *step)
{
    step->to = kolo_plan_wrap(args->rank + 1 + (int)index, args->size);
    step->from = kolo_plan_wrap(args->rank - 1 - (int)index, args->size);
    join(blocks_in_flight(args), index, step);
}

static void direct_allgather_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct kolo_slice mine = {KOLO_BUFFER_SEND, 0, kolo_plan_block(args, args->rank)};
    kolo_step_clear(step_out);
    if (index == 0) {
        step_out->copy_from = mine;
        step_out->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (args->size == 1)
        return;
    partners(args, index, step_out);
    step_out->out = mine;
    step_out->in = kolo_plan_block_in(args, step_out->from, KOLO_BUFFER_RECV);
}

/** The block for @p rank. */
static struct kolo_slice leaving(const struct kolo_plan_args *args, int rank)
{
    if (!args->send_counts)
        return (struct kolo_slice){KOLO_BUFFER_SEND, args->count * (size_t)rank, args->count};
    return (struct kolo_slice){KOLO_BUFFER_SEND, args->send_displs[rank], args->send_counts[rank]};
}

static void direct_alltoall_step(const struct kolo_plan_args *args, size_t index,
                                 struct kolo_step *step_out)
{
    kolo_step_clear(step_out);
    if (index == 0) {
        step_out->copy_from = leaving(args, args->rank);
        step_out->copy_to = kolo_plan_block_in(args, args->rank, KOLO_BUFFER_RECV);
    }
    if (args->size == 1)
        return;
    partners(args, index, step_out);
    step_out->out = leaving(args, step_out->to);
    step_out->in = kolo_plan_block_in(args, step_out->from, KOLO_BUFFER_RECV);
}

/* ---- barrier ---- */

static size_t dissemination_barrier_nsteps(const struct kolo_plan_args *args)
{
    size_t rounds = 0;
    while ((1L << rounds) < args->size)
        rounds++;
    return rounds;
}

static void dissemination_barrier_step(const struct kolo_plan_args *args, size_t index,
                                       struct kolo_step *step_out)
{
    long distance = 1L << index;
    kolo_step_clear(step_out);
    step_out->to = (int)((args->rank + distance) % args->size);
    step_out->from = (int)((args->rank - distance + args->size) % args->size);
}

/* ---- the plans ---- */

const struct kolo_plan kolo_plan_direct_gather = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_GATHER,
    .number = KOLO_PLAN_DIRECT_GATHER,
    .summary = "every rank sends to the root",
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = direct_rooted_nsteps,
    .window = direct_rooted_window,
    .step = direct_gather_step,
};

const struct kolo_plan kolo_plan_direct_scatter = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_SCATTER,
    .number = KOLO_PLAN_DIRECT_SCATTER,
    .summary = "the root sends to every rank",
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = direct_rooted_nsteps,
    .window = direct_rooted_window,
    .step = direct_scatter_step,
};

const struct kolo_plan kolo_plan_dissemination_barrier = {
    .name = "dissemination",
    .collective = KOLO_COLLECTIVE_BARRIER,
    .number = KOLO_PLAN_DISSEMINATION_BARRIER,
    .summary = "distances 1, 2, 4, ... round the ring",
    .closes = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = dissemination_barrier_nsteps,
    .step = dissemination_barrier_step,
};

const struct kolo_plan kolo_plan_direct_allgather = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_ALLGATHER,
    .number = KOLO_PLAN_DIRECT_ALLGATHER,
    .summary = "every rank sends its block to every other",
    .closes = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = direct_nsteps,
    .window = direct_window,
    .step = direct_allgather_step,
};

const struct kolo_plan kolo_plan_direct_alltoall = {
    .name = "direct",
    .collective = KOLO_COLLECTIVE_ALLTOALL,
    .number = KOLO_PLAN_DIRECT_ALLTOALL,
    .summary = "every block directly to its destination",
    .closes = true,
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = direct_nsteps,
    .window = direct_window,
    .step = direct_alltoall_step,
};

const struct kolo_plan kolo_plan_notes = {
    .name = "notes",
    .collective = KOLO_COLLECTIVE_BROADCAST,
    .number = KOLO_PLANS, /* not in the table */
    .summary = "every rank tells the root that it has entered",
    .fits = kolo_always_fits,
    .scratch = kolo_no_scratch,
    .nsteps = notes_nsteps,
    .window = notes_window,
    .step = notes_step,
};
