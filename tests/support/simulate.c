// SPDX-License-Identifier: Apache-2.0
// Runs the simulation: ranks run their steps, messages are delivered, calls follow each other.
// simulate_world.c makes the ranks and their data, simulate_memory.c checks what steps touch,
// simulate_results.c checks the results.
//
// A value is a symbol of two parts: the sum (modulo 2^64) of one random number for each
// contribution, which shows a lost or doubled contribution; and a hash of the tree of operands,
// which shows another order. Ranks begin steps as early as the plan allows. A message is delivered
// when the sender's first unsent step to the receiver and the receiver's first unfilled step from
// the sender have both begun. Nothing in flight is touched (simulate_memory.c checks this), so the
// moment of delivery does not matter.
//
// Messages also carry which ranks have begun: the set of ranks that have certainly begun when the
// sender's step begins, as known from the steps that are certainly over by then.
//
// If several broadcasts follow each other, each rank begins the next when the last is over for it,
// however far the others are. A rank sends the same list of messages to another rank however the
// ranks are interleaved. So if in one order each message meets the receive of its own call, it does
// in every order, and also over links that accept messages before their receives.
#include "tests/support/simulate_world.h"

#include <string.h>

static struct kolo_sim_flight *flight_of(const struct kolo_sim_actor *actor, size_t index)
{
    return &actor->flights[index % actor->window];
}

/* ---- running ---- */

static void list_rank(struct kolo_sim_world *world, int rank)
{
    struct kolo_sim_actor *actor = &world->actors[rank];
    if (actor->is_listed)
        return;
    actor->is_listed = true;
    world->list[world->listed++] = rank;
}

static kolo_status unwritten(const struct kolo_sim_actor *actor, const struct kolo_slice *slice,
                             size_t i)
{
    return KOLO_SIM_OBJECT(actor, "reads element %zu of buffer %d before it is written",
                           slice->offset + i, (int)slice->buffer);
}

static kolo_status run_copy(const struct kolo_sim_world *world, struct kolo_sim_actor *actor,
                            const struct kolo_step *step)
{
    struct kolo_sim_extent from = kolo_sim_locate(world, actor, &step->copy_from);
    struct kolo_sim_extent to = kolo_sim_locate(world, actor, &step->copy_to);
    for (size_t i = kolo_sim_next(world, to, 0); i < to.count;
         i = kolo_sim_next(world, to, i + 1)) {
        struct kolo_sim_symbol *at = kolo_sim_cell(world, actor, to.memory, to.offset + i);
        struct kolo_sim_symbol value = kolo_sim_load(world, actor, from.memory, from.offset + i);
        if (value.sum == 0)
            return unwritten(actor, &step->copy_from, i);
        if (at)
            *at = value;
    }
    return KOLO_OK;
}

/** Operand @p way of @p fold. */
static struct kolo_slice operand(const struct kolo_folding *fold, int way)
{
    struct kolo_slice slice = fold->others;
    if (way == fold->own)
        return fold->mine;
    slice.offset += (size_t)(way < fold->own ? way : way - 1) * fold->stride;
    return slice;
}

static kolo_status run_fold(const struct kolo_sim_world *world, struct kolo_sim_actor *actor,
                            const struct kolo_folding *fold)
{
    struct kolo_sim_extent to = kolo_sim_locate(world, actor, &fold->out);
    if (fold->ways == 0)
        return KOLO_OK;
    for (size_t i = kolo_sim_next(world, to, 0); i < to.count;
         i = kolo_sim_next(world, to, i + 1)) {
        struct kolo_sim_symbol sum = {0, 0}, *at;
        for (int way = 0; way < fold->ways; way++) {
            struct kolo_slice slice = operand(fold, way);
            struct kolo_sim_extent from = kolo_sim_locate(world, actor, &slice);
            struct kolo_sim_symbol value =
                kolo_sim_load(world, actor, from.memory, from.offset + i);
            if (value.sum == 0)
                return unwritten(actor, &slice, i);
            sum = way == 0 ? value : kolo_sim_combine(sum, value);
        }
        at = kolo_sim_cell(world, actor, to.memory, to.offset + i);
        if (at)
            *at = kolo_sim_finished(sum);
    }
    actor->cost.elements_reduced += to.count * ((size_t)fold->ways - 1);
    return KOLO_OK;
}

static kolo_status run_local(const struct kolo_sim_world *world, struct kolo_sim_actor *actor,
                             const struct kolo_step *step)
{
    kolo_status status;
    KOLO_TRY(run_copy(world, actor, step));
    KOLO_TRY(run_fold(world, actor, &step->fold));
    struct kolo_sim_extent finish = kolo_sim_locate(world, actor, &step->finish);
    for (size_t i = 0; i < finish.count; i++) {
        struct kolo_sim_symbol *at = kolo_sim_cell(world, actor, finish.memory, finish.offset + i);
        if (at && at->sum == 0)
            return unwritten(actor, &step->finish, i);
        if (at)
            *at = kolo_sim_finished(*at);
    }
out:
    return status;
}

static kolo_status deliver(struct kolo_sim_world *world, struct kolo_sim_actor *from,
                           struct kolo_sim_actor *to, struct kolo_sim_flight *sent,
                           struct kolo_sim_flight *got)
{
    const struct kolo_step *step = &got->step;
    const struct kolo_sim_extent in = got->in;
    if (from->call != to->call || from->is_closing != to->is_closing)
        return KOLO_SIM_OBJECT(to, "in call %d meets a message of call %d of rank %d", to->call,
                               from->call, from->args.rank);
    if (sent->step.out.count != step->in.count)
        return KOLO_SIM_OBJECT(to, "expects %zu elements from rank %d, which sends %zu",
                               step->in.count, from->args.rank, sent->step.out.count);
    for (size_t i = kolo_sim_next(world, in, 0); i < in.count;
         i = kolo_sim_next(world, in, i + 1)) {
        struct kolo_sim_symbol value =
            kolo_sim_load(world, from, sent->out.memory, sent->out.offset + i);
        struct kolo_sim_symbol *at = kolo_sim_cell(world, to, in.memory, in.offset + i);
        if (value.sum == 0)
            return unwritten(from, &sent->step.out, i);
        if (step->reduces) {
            struct kolo_sim_symbol mine =
                kolo_sim_load(world, to, got->local.memory, got->local.offset + i);
            if (mine.sum == 0)
                return unwritten(to, &step->local, i);
            value = step->incoming_first ? kolo_sim_combine(value, mine)
                                         : kolo_sim_combine(mine, value);
        }
        if (at)
            *at = value;
    }
    from->cost.messages++;
    from->cost.elements_sent += step->in.count;
    to->cost.elements_reduced += step->reduces ? step->in.count : 0;
    for (size_t i = to->words_full; i < world->set_words; i++)
        got->heard[i] = sent->carries[i];
    sent->is_sent = got->is_received = true;
    return KOLO_OK;
}

/** The first step in flight that has yet to communicate with @p peer, where @p peers has the peer
 * of each step; NULL: there is none. */
static struct kolo_sim_flight *first_with(const struct kolo_sim_actor *actor, const int *peers,
                                          int peer)
{
    size_t slot = actor->first % actor->window;
    for (size_t left = actor->next - actor->first; left > 0; left--) {
        if (peers[slot] == peer)
            return &actor->flights[slot];
        slot = slot + 1 < actor->window ? slot + 1 : 0;
    }
    return NULL;
}

/** Delivers what can be delivered from one rank to another, and lists the ranks that may continue
 * because of it. */
static kolo_status meet(struct kolo_sim_world *world, int from_rank, int to_rank)
{
    struct kolo_sim_actor *from = &world->actors[from_rank], *to = &world->actors[to_rank];
    struct kolo_sim_flight *sent, *got;
    kolo_status status = KOLO_OK;
    while ((got = first_with(to, to->from, from_rank)) != NULL &&
           (sent = first_with(from, from->to, to_rank)) != NULL) {
        KOLO_TRY(deliver(world, from, to, sent, got));
        from->to[sent - from->flights] = to->from[got - to->flights] = -1;
        list_rank(world, from_rank);
        list_rank(world, to_rank);
    }
out:
    return status;
}

/** Steps below @p end are over: their messages' sets become known. */
static void learn(struct kolo_sim_world *world, struct kolo_sim_actor *actor, size_t end)
{
    for (; actor->certain < end; actor->certain++) {
        const struct kolo_sim_flight *flight = flight_of(actor, actor->certain);
        if (flight->step.from < 0)
            continue;
        for (size_t i = actor->words_full; i < world->set_words; i++)
            actor->known[i] |= flight->heard[i];
        while (actor->words_full < world->set_words &&
               actor->known[actor->words_full] == UINT64_MAX)
            actor->words_full++;
    }
}

static kolo_status check_order(const struct kolo_sim_actor *actor, const struct kolo_step *step)
{
    bool folds_some = step->fold.ways > 0 && step->fold.ways != actor->args.size;
    if (actor->plan->is_ordered && (step->reduces || folds_some))
        return KOLO_SIM_OBJECT(actor, "combines %d of all, and the plan is ordered",
                               step->reduces ? 2 : step->fold.ways);
    return KOLO_OK;
}

static kolo_status begin_step(struct kolo_sim_world *world, struct kolo_sim_actor *actor,
                              const struct kolo_step *step)
{
    kolo_status status;
    learn(world, actor, actor->next + 1 > step->after ? actor->next + 1 - step->after : 0);
    KOLO_TRY(kolo_sim_check_step(world, actor, step));
    KOLO_TRY(check_order(actor, step));
    KOLO_TRY(run_local(world, actor, step));
    struct kolo_sim_flight *flight = flight_of(actor, actor->next++);
    struct kolo_sim_extent nowhere = {KOLO_SIM_SEND, 0, 0};
    flight->step = *step;
    flight->out = step->to >= 0 ? kolo_sim_locate(world, actor, &step->out) : nowhere;
    flight->in = step->from >= 0 ? kolo_sim_locate(world, actor, &step->in) : nowhere;
    flight->local =
        step->from >= 0 && step->reduces ? kolo_sim_locate(world, actor, &step->local) : nowhere;
    actor->to[flight - actor->flights] = step->to;
    actor->from[flight - actor->flights] = step->from;
    flight->is_sent = step->to < 0;
    flight->is_received = step->from < 0;
    actor->cost.steps++;
    if (step->to >= 0) {
        memcpy(flight->carries, actor->known, world->set_words * sizeof *actor->known);
        KOLO_TRY(meet(world, actor->args.rank, step->to));
    }
    if (step->from >= 0)
        KOLO_TRY(meet(world, step->from, actor->args.rank));
out:
    return status;
}

/* ---- the end of a plan ---- */

/** The call is over for this rank: checks that it may be, and begins the next call. */
static kolo_status end_call(struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    int root = actor->args.root;
    bool is_closed_here = actor->args.closing == KOLO_CLOSING_NOTES && actor->args.rank == root;
    bool is_open = kolo_plan_is_open(world->what->plan, &actor->args) && !is_closed_here;
    kolo_status status = KOLO_OK;
    if (is_open && !(actor->known[root / 64] >> (root % 64) & 1))
        return KOLO_SIM_OBJECT(actor, "ends before its root has %s", "begun");
    if (!is_open && actor->words_full < world->set_words)
        return KOLO_SIM_OBJECT(actor, "ends before all ranks have %s", "begun");
    if (actor->call + 1 >= world->what->calls) {
        actor->is_done = true;
        return KOLO_OK;
    }
    KOLO_TRY(kolo_sim_check_call(world, actor));
    actor->call++;
    actor->args.closing = kolo_sim_closing(world->what, actor->call);
    actor->args.root = (root + 1) % actor->args.size;
    actor->args.in_place = actor->args.rank == actor->args.root;
    kolo_sim_begin_plan(actor, world->what->plan, false);
    kolo_sim_begin_knowing(world, actor);
    kolo_sim_measure(world, actor);
    memset(actor->recv, 0, world->nsamples * sizeof *actor->recv);
    kolo_sim_lay_in_place(world, actor);
out:
    return status;
}

/** All steps are over: begins the plan that closes this one, or ends the call. */
static kolo_status end_plan(struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    learn(world, actor, actor->next);
    const struct kolo_plan *closing = actor->plan->closes || actor->is_closing
                                          ? NULL
                                          : kolo_plan_closing(actor->plan, &actor->args);
    if (!closing)
        return end_call(world, actor);
    kolo_sim_begin_plan(actor, closing, true);
    return KOLO_OK;
}

/** Lets @p actor run as far as it can. */
static kolo_status move(struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    kolo_status status = KOLO_OK;
    while (!actor->is_done) {
        while (actor->first < actor->next && flight_of(actor, actor->first)->is_sent &&
               flight_of(actor, actor->first)->is_received)
            actor->first++;
        if (actor->next < actor->nsteps) {
            struct kolo_step step;
            actor->plan->step(&actor->args, actor->next, &step);
            if (actor->next - actor->first >= step.after && actor->next > actor->first)
                break;
            KOLO_TRY(begin_step(world, actor, &step));
        } else if (actor->first == actor->next) {
            KOLO_TRY(end_plan(world, actor));
        } else {
            break;
        }
    }
out:
    return status;
}

/* ---- the end ---- */

static kolo_status check_ends(const struct kolo_sim_world *world)
{
    for (int rank = 0; rank < world->what->size; rank++) {
        const struct kolo_sim_actor *actor = &world->actors[rank];
        const struct kolo_step *step = &flight_of(actor, actor->first)->step;
        if (!actor->is_done)
            return KOLO_SIM_OBJECT(actor,
                                   "waits for ever in step %zu (sends to %d, receives from %d)",
                                   actor->first, step->to, step->from);
    }
    return KOLO_OK;
}

static void most(size_t *most, size_t value)
{
    if (value > *most)
        *most = value;
}

static void add_up(const struct kolo_sim_world *world, struct kolo_simulated *simulated)
{
    *simulated = (struct kolo_simulated){0};
    for (int rank = 0; rank < world->what->size; rank++) {
        const struct kolo_simulated *cost = &world->actors[rank].cost;
        most(&simulated->steps, cost->steps);
        most(&simulated->messages, cost->messages);
        most(&simulated->elements_sent, cost->elements_sent);
        most(&simulated->elements_reduced, cost->elements_reduced);
    }
}

/** The next rank to run: the one that was listed last, or with a seed a random one. */
static int next_rank(struct kolo_sim_world *world)
{
    int last = --world->listed, rank = world->list[last];
    if (world->what->seed != 0) {
        world->drawn = kolo_sim_mix(world->drawn + world->what->seed);
        size_t at = (size_t)world->drawn % ((size_t)last + 1);
        rank = world->list[at];
        world->list[at] = world->list[last];
    }
    return rank;
}

static kolo_status run(struct kolo_sim_world *world)
{
    kolo_status status = KOLO_OK;
    for (int rank = 0; rank < world->what->size; rank++)
        list_rank(world, rank);
    while (world->listed > 0) {
        struct kolo_sim_actor *actor = &world->actors[next_rank(world)];
        actor->is_listed = false;
        KOLO_TRY(move(world, actor));
    }
    KOLO_TRY(check_ends(world));
    KOLO_TRY(kolo_sim_check_results(world));
out:
    return status;
}

kolo_status kolo_simulate(const struct kolo_simulation *simulation,
                          struct kolo_simulated *simulated_out)
{
    struct kolo_sim_world world;
    kolo_status status;
    KOLO_TRY(kolo_sim_open(simulation, &world));
    KOLO_TRY(run(&world));
    if (simulated_out)
        add_up(&world, simulated_out);
out:
    kolo_sim_close(&world);
    return status;
}
