// SPDX-License-Identifier: Apache-2.0
// The simulator. A value is a symbol: the sum (modulo 2^64) of a random number per contribution, so
// that a lost or doubled one shows, and a hash of the tree of operands, so that another order
// shows. Ranks run step by step; a message passes when the sender's present step sends to the
// receiver and the receiver's present step receives from it. As what is sent is never written in
// the same step (which is checked), the moment at which it passes does not matter.
//
// "Begun" travels along: each rank keeps the set of ranks whose beginning its present step depends
// on, as it was when the step began, and hands it to whoever it sends to.
#include "runtime/simulate.h"

#include <string.h>

#include "base/alloc.h"

struct symbol {
    uint64_t sum;   /* 0: never written */
    uint64_t order; /* hash of the operand tree */
};
static const struct symbol unknown = {UINT64_MAX, UINT64_MAX}; /* an element that is not followed */

enum memory { MEMORY_SEND, MEMORY_RECV, MEMORY_SCRATCH };

/** Where a slice really lies, once in-place buffers are laid over each other. */
struct place {
    enum memory memory;
    size_t offset, count;
};

struct actor {
    struct kolo_plan_args args;
    const struct kolo_plan *plan; /* the plan, then the barrier */
    size_t index, nsteps;
    size_t steps_done; /* for messages */
    struct kolo_step step;
    bool is_sent, is_received, is_done, is_listed;
    struct symbol *recv; /* by sample */
    struct symbol *scratch;
    size_t scratch_count;
    uint64_t *known, *coming; /* who has begun: when the step began; heard since */
    size_t words_full;        /* words of `known` before the first that lacks a rank */
    struct kolo_simulated cost;
};

struct world {
    const struct kolo_simulation *what;
    struct actor *actors;
    size_t words;        /* of a set of ranks */
    size_t send_count;   /* elements of SEND (per rank, where it has one) */
    size_t recv_count;   /* elements of RECV */
    uint32_t *sample_of; /* element of RECV -> index into actor.recv, or UINT32_MAX */
    size_t nsamples;
    int *list; /* ranks that may move */
    int listed;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/** What rank @p rank brings as element @p offset of its SEND. */
static struct symbol contribution(int rank, size_t offset)
{
    uint64_t random = mix(mix((uint64_t)rank + 0x9e3779b97f4a7c15u) + offset) | 1;
    return (struct symbol){random, mix(random)};
}

static struct symbol combine(struct symbol a, struct symbol b)
{
    if (a.sum == unknown.sum || b.sum == unknown.sum)
        return unknown;
    return (struct symbol){a.sum + b.sum, mix(a.order * 3 + mix(b.order * 5 + 1))};
}

/** Divided once; dividing twice, or combining afterwards, never gives the expected value. */
static struct symbol finished(struct symbol a)
{
    if (a.sum == unknown.sum)
        return unknown;
    return (struct symbol){mix(a.sum ^ 0x5851f42d4c957f2du), mix(a.order + 7)};
}

#define OBJECT(actor, format, ...)                                                                 \
    kolo_fail(KOLO_ERR_INTERNAL, "plan %s for %s, rank %d of %d, step %zu: " format,               \
              (actor)->plan->name, kolo_collective_text((actor)->plan->collective),                \
              (actor)->args.rank, (actor)->args.size, (actor)->index, __VA_ARGS__)

/* ---- memory ---- */

/** The collectives whose SEND, in place, is a part of RECV; for the others RECV is a part of SEND.
 */
static bool send_lies_in_recv(enum kolo_collective collective)
{
    return collective != KOLO_COLLECTIVE_REDUCE_SCATTER && collective != KOLO_COLLECTIVE_SCATTER;
}

/** How far into the larger buffer the smaller one begins, in place. */
static size_t overlay(const struct actor *actor, enum kolo_collective collective)
{
    switch (collective) {
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        return kolo_plan_block_offset(&actor->args, actor->args.rank);
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        return actor->args.count * (size_t)actor->args.rank;
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
    case KOLO_COLLECTIVE_BROADCAST:
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    return 0;
}

static struct place place_of(const struct world *world, const struct actor *actor,
                             const struct kolo_slice *slice)
{
    struct place place = {(enum memory)slice->buffer, slice->offset, slice->count};
    enum kolo_collective collective = world->what->plan->collective;
    if (!actor->args.in_place || slice->buffer == KOLO_BUFFER_SCRATCH)
        return place;
    bool in_recv = send_lies_in_recv(collective);
    if (in_recv && slice->buffer == KOLO_BUFFER_SEND)
        place =
            (struct place){MEMORY_RECV, slice->offset + overlay(actor, collective), slice->count};
    if (!in_recv && slice->buffer == KOLO_BUFFER_RECV)
        place =
            (struct place){MEMORY_SEND, slice->offset + overlay(actor, collective), slice->count};
    return place;
}

static bool overlap(struct place a, struct place b)
{
    return a.memory == b.memory && a.count > 0 && b.count > 0 && a.offset < b.offset + b.count &&
           b.offset < a.offset + a.count;
}

static bool has_send(const struct world *world, const struct actor *actor)
{
    enum kolo_collective collective = world->what->plan->collective;
    bool is_rooted =
        collective == KOLO_COLLECTIVE_BROADCAST || collective == KOLO_COLLECTIVE_SCATTER;
    return !is_rooted || actor->args.rank == actor->args.root;
}

static bool has_recv(const struct world *world, const struct actor *actor)
{
    enum kolo_collective collective = world->what->plan->collective;
    bool is_rooted = collective == KOLO_COLLECTIVE_REDUCE || collective == KOLO_COLLECTIVE_GATHER;
    return !is_rooted || actor->args.rank == actor->args.root;
}

static size_t buffer_count(const struct world *world, const struct actor *actor,
                           enum kolo_buffer buffer)
{
    switch (buffer) {
    case KOLO_BUFFER_SEND:
        if (world->what->counts != NULL)
            return kolo_plan_block(&actor->args, actor->args.rank);
        return has_send(world, actor) ? world->send_count : 0;
    case KOLO_BUFFER_RECV:
        return has_recv(world, actor) ? world->recv_count : 0;
    case KOLO_BUFFER_SCRATCH:
        return actor->scratch_count;
    case KOLO_BUFFERS:
        break;
    }
    return 0;
}

/** The cell that holds element @p offset of a place; NULL: SEND, or an element not followed. */
static struct symbol *cell(const struct world *world, const struct actor *actor, enum memory memory,
                           size_t offset)
{
    if (memory == MEMORY_SCRATCH)
        return &actor->scratch[offset];
    if (memory == MEMORY_SEND) {
        size_t first = overlay(actor, world->what->plan->collective);
        bool is_recv = actor->args.in_place && !send_lies_in_recv(world->what->plan->collective);
        if (!is_recv || offset < first || offset - first >= world->recv_count)
            return NULL;
        offset -= first;
    }
    uint32_t sample = world->sample_of[offset];
    return sample == UINT32_MAX ? NULL : &actor->recv[sample];
}

static struct symbol load(const struct world *world, const struct actor *actor, enum memory memory,
                          size_t offset)
{
    struct symbol *at = cell(world, actor, memory, offset);
    if (at != NULL)
        return *at;
    return memory == MEMORY_SEND ? contribution(actor->args.rank, offset) : unknown;
}

/* ---- checks of one step, before it runs ---- */

static kolo_status check_slice(const struct world *world, const struct actor *actor,
                               const struct kolo_slice *slice, const char *what)
{
    size_t size = buffer_count(world, actor, slice->buffer);
    if (slice->count > 0 && (slice->offset > size || slice->count > size - slice->offset))
        return OBJECT(actor, "%s [%zu, +%zu) leaves buffer %d of %zu", what, slice->offset,
                      slice->count, (int)slice->buffer, size);
    return KOLO_OK;
}

static kolo_status check_written(const struct world *world, const struct actor *actor,
                                 const struct kolo_slice *slice, const char *what)
{
    struct place place = place_of(world, actor, slice);
    kolo_status status = check_slice(world, actor, slice, what);
    if (status != KOLO_OK || place.count == 0)
        return status;
    if (slice->buffer == KOLO_BUFFER_SEND)
        return OBJECT(actor, "%s writes the user's SEND", what);
    return KOLO_OK;
}

static kolo_status check_peers(const struct actor *actor)
{
    const struct kolo_step *step = &actor->step;
    if (step->to < -1 || step->to >= actor->args.size || step->to == actor->args.rank)
        return OBJECT(actor, "sends to rank %d", step->to);
    if (step->from < -1 || step->from >= actor->args.size || step->from == actor->args.rank)
        return OBJECT(actor, "receives from rank %d", step->from);
    return KOLO_OK;
}

static kolo_status check_step(const struct world *world, const struct actor *actor)
{
    const struct kolo_step *step = &actor->step;
    kolo_status status;
    KOLO_TRY(check_peers(actor));
    KOLO_TRY(check_slice(world, actor, &step->copy_from, "copy"));
    KOLO_TRY(check_written(world, actor, &step->copy_to, "copy"));
    KOLO_TRY(check_written(world, actor, &step->finish, "finish"));
    KOLO_TRY(check_slice(world, actor, &step->out, "send"));
    KOLO_TRY(check_written(world, actor, &step->in, "receive"));
    KOLO_TRY(check_slice(world, actor, &step->local, "operand"));
    struct place in = place_of(world, actor, &step->in);
    struct place out = place_of(world, actor, &step->out);
    struct place local = place_of(world, actor, &step->local);
    struct place from = place_of(world, actor, &step->copy_from);
    struct place to = place_of(world, actor, &step->copy_to);
    if (step->to >= 0 && step->from >= 0 && overlap(in, out))
        return OBJECT(actor, "writes [%zu, +%zu) while it is being sent", in.offset, in.count);
    if (from.count != to.count || (overlap(from, to) && from.offset != to.offset))
        return OBJECT(actor, "copies %zu elements onto %zu that overlap", from.count, to.count);
    if (step->reduces &&
        (local.count != in.count || (overlap(local, in) && local.offset != in.offset)))
        return OBJECT(actor, "operand of %zu elements for %zu", local.count, in.count);
out:
    return status;
}

/* ---- running ---- */

static void list_rank(struct world *world, int rank)
{
    struct actor *actor = &world->actors[rank];
    if (actor->is_listed)
        return;
    actor->is_listed = true;
    world->list[world->listed++] = rank;
}

static kolo_status unwritten(const struct actor *actor, const struct kolo_slice *slice, size_t i)
{
    return OBJECT(actor, "reads element %zu of buffer %d before it is written", slice->offset + i,
                  (int)slice->buffer);
}

static kolo_status run_local(const struct world *world, struct actor *actor)
{
    const struct kolo_step *step = &actor->step;
    struct place from = place_of(world, actor, &step->copy_from);
    struct place to = place_of(world, actor, &step->copy_to);
    for (size_t i = 0; i < to.count; i++) {
        struct symbol *at = cell(world, actor, to.memory, to.offset + i);
        struct symbol value = load(world, actor, from.memory, from.offset + i);
        if (value.sum == 0)
            return unwritten(actor, &step->copy_from, i);
        if (at != NULL)
            *at = value;
    }
    struct place finish = place_of(world, actor, &step->finish);
    for (size_t i = 0; i < finish.count; i++) {
        struct symbol *at = cell(world, actor, finish.memory, finish.offset + i);
        if (at != NULL && at->sum == 0)
            return unwritten(actor, &step->finish, i);
        if (at != NULL)
            *at = finished(*at);
    }
    return KOLO_OK;
}

/** Goes to the step at actor->index, over local ones and into the barrier; sets is_done at the end.
 */
static kolo_status enter_step(struct world *world, struct actor *actor)
{
    for (;;) {
        while (actor->index == actor->nsteps) {
            if (actor->plan->closes) {
                actor->is_done = true;
                return KOLO_OK;
            }
            actor->plan = kolo_plan_find(KOLO_COLLECTIVE_BARRIER, "dissemination");
            actor->index = 0;
            actor->nsteps = actor->plan->nsteps(&actor->args);
        }
        actor->plan->step(&actor->args, actor->index, &actor->step);
        actor->cost.steps++;
        kolo_status status = check_step(world, actor);
        if (status == KOLO_OK)
            status = run_local(world, actor);
        if (status != KOLO_OK)
            return status;
        actor->is_sent = actor->step.to < 0;
        actor->is_received = actor->step.from < 0;
        if (!actor->is_sent || !actor->is_received)
            return KOLO_OK;
        actor->index++;
    }
}

static void learn(struct world *world, struct actor *actor, const struct actor *from)
{
    for (size_t i = actor->words_full; i < world->words; i++)
        actor->coming[i] |= from->known[i];
}

static void end_step(struct world *world, struct actor *actor)
{
    actor->index++;
    for (size_t i = actor->words_full; i < world->words; i++)
        actor->known[i] |= actor->coming[i];
    while (actor->words_full < world->words && actor->known[actor->words_full] == UINT64_MAX)
        actor->words_full++;
}

static kolo_status deliver(struct world *world, struct actor *from, struct actor *to)
{
    const struct kolo_step *step = &to->step;
    struct place out = place_of(world, from, &from->step.out);
    struct place in = place_of(world, to, &step->in);
    struct place local = place_of(world, to, &step->local);
    if (out.count != in.count)
        return OBJECT(to, "expects %zu elements from rank %d, which sends %zu", in.count,
                      from->args.rank, out.count);
    for (size_t i = 0; i < in.count; i++) {
        struct symbol value = load(world, from, out.memory, out.offset + i);
        struct symbol *at = cell(world, to, in.memory, in.offset + i);
        if (value.sum == 0)
            return unwritten(from, &from->step.out, i);
        if (step->reduces) {
            struct symbol mine = load(world, to, local.memory, local.offset + i);
            if (mine.sum == 0)
                return unwritten(to, &step->local, i);
            value = step->incoming_first ? combine(value, mine) : combine(mine, value);
        }
        if (at != NULL)
            *at = value;
    }
    from->cost.messages++;
    from->cost.elements_sent += out.count;
    to->cost.elements_reduced += step->reduces ? in.count : 0;
    learn(world, to, from);
    from->is_sent = true;
    to->is_received = true;
    return KOLO_OK;
}

static bool meets(const struct actor *from, const struct actor *to)
{
    return !from->is_done && !to->is_done && !from->is_sent && !to->is_received &&
           from->step.to == to->args.rank && to->step.from == from->args.rank;
}

/** Lets @p actor go on as far as it can; lists the ranks that may go on because of it. */
static kolo_status move(struct world *world, struct actor *actor)
{
    kolo_status status = KOLO_OK;
    while (!actor->is_done) {
        struct actor *to = actor->step.to >= 0 ? &world->actors[actor->step.to] : NULL;
        struct actor *from = actor->step.from >= 0 ? &world->actors[actor->step.from] : NULL;
        if (to != NULL && meets(actor, to)) {
            KOLO_TRY(deliver(world, actor, to));
            if (to->is_sent && to->is_received)
                list_rank(world, to->args.rank);
        }
        if (from != NULL && meets(from, actor)) {
            KOLO_TRY(deliver(world, from, actor));
            if (from->is_sent && from->is_received)
                list_rank(world, from->args.rank);
        }
        if (!actor->is_sent || !actor->is_received)
            break;
        end_step(world, actor);
        KOLO_TRY(enter_step(world, actor));
    }
out:
    return status;
}

/* ---- the end ---- */

static struct symbol whole_sum(const struct world *world, size_t offset)
{
    struct symbol sum = {0, 0};
    for (int rank = 0; rank < world->what->size; rank++)
        sum.sum += contribution(rank, offset).sum;
    return finished(sum);
}

/** What element @p offset of RECV must be on @p actor; a sum of 0: nothing may have been written.
 */
static struct symbol expected(const struct world *world, const struct actor *actor, size_t offset)
{
    const struct kolo_simulation *what = world->what;
    switch (what->plan->collective) {
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
        return whole_sum(world, offset);
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
        return whole_sum(world, offset + what->count * (size_t)actor->args.rank);
    case KOLO_COLLECTIVE_BROADCAST:
        return contribution(what->root, offset);
    case KOLO_COLLECTIVE_SCATTER:
        return contribution(what->root, offset + what->count * (size_t)actor->args.rank);
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        for (int rank = 0; rank < what->size; rank++) {
            size_t first = kolo_plan_block_offset(&actor->args, rank);
            if (offset >= first && offset - first < kolo_plan_block(&actor->args, rank))
                return contribution(rank, offset - first);
        }
        break;
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    return (struct symbol){0, 0};
}

static bool same_everywhere(enum kolo_collective collective)
{
    return collective == KOLO_COLLECTIVE_ALLREDUCE;
}

static kolo_status check_results(const struct world *world)
{
    enum kolo_collective collective = world->what->plan->collective;
    for (size_t offset = 0; offset < world->recv_count; offset++) {
        uint32_t sample = world->sample_of[offset];
        if (sample == UINT32_MAX)
            continue;
        struct symbol common = expected(world, &world->actors[0], offset);
        bool is_common =
            collective != KOLO_COLLECTIVE_REDUCE_SCATTER && collective != KOLO_COLLECTIVE_SCATTER;
        for (int rank = 0; rank < world->what->size; rank++) {
            const struct actor *actor = &world->actors[rank];
            if (!has_recv(world, actor))
                continue;
            uint64_t right = is_common ? common.sum : expected(world, actor, offset).sum;
            if (actor->recv[sample].sum != right)
                return OBJECT(actor, "element %zu of the result is wrong", offset);
            if (same_everywhere(collective) &&
                actor->recv[sample].order != world->actors[0].recv[sample].order)
                return OBJECT(actor, "element %zu of the result differs from rank 0 in its order",
                              offset);
        }
    }
    return KOLO_OK;
}

static kolo_status check_ends(const struct world *world)
{
    for (int rank = 0; rank < world->what->size; rank++) {
        const struct actor *actor = &world->actors[rank];
        if (!actor->is_done)
            return OBJECT(actor, "waits for ever (sends to %d, receives from %d)", actor->step.to,
                          actor->step.from);
        if (actor->words_full < world->words)
            return OBJECT(actor, "ends before all ranks have %s", "begun");
    }
    return KOLO_OK;
}

/* ---- set-up ---- */

static void measure(struct world *world)
{
    const struct kolo_simulation *what = world->what;
    size_t all = what->count * (size_t)what->size;
    if (what->counts != NULL)
        for (int rank = 0; rank < what->size; rank++)
            if (what->displs[rank] + what->counts[rank] > world->recv_count)
                world->recv_count = what->displs[rank] + what->counts[rank];
    switch (what->plan->collective) {
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        world->send_count = what->count;
        world->recv_count = what->counts != NULL ? world->recv_count : all;
        break;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        world->send_count = all;
        world->recv_count = what->count;
        break;
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
    case KOLO_COLLECTIVE_BROADCAST:
        world->send_count = world->recv_count = what->count;
        break;
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
}

static kolo_status choose_samples(struct world *world)
{
    size_t stride = 1, samples = world->what->samples;
    if (samples > 0 && world->recv_count > samples)
        stride = world->recv_count / samples;
    world->sample_of = kolo_calloc(world->recv_count + 1, sizeof(*world->sample_of));
    if (world->sample_of == NULL)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < world->recv_count; i++) {
        bool is_edge = i < 2 || i + 2 >= world->recv_count;
        bool is_followed = stride == 1 || is_edge || mix(i) % stride == 0;
        world->sample_of[i] = is_followed ? (uint32_t)world->nsamples++ : UINT32_MAX;
    }
    return KOLO_OK;
}

/** In place, RECV begins with what SEND holds. */
static void lay_in_place(const struct world *world, struct actor *actor)
{
    enum kolo_collective collective = world->what->plan->collective;
    size_t first = overlay(actor, collective);
    if (!actor->args.in_place)
        return;
    size_t mine = buffer_count(world, actor, KOLO_BUFFER_SEND);
    for (size_t i = 0; i < world->recv_count; i++) {
        size_t in_send = send_lies_in_recv(collective) ? i - first : i + first;
        if ((send_lies_in_recv(collective) && i < first) || in_send >= mine ||
            world->sample_of[i] == UINT32_MAX)
            continue;
        actor->recv[world->sample_of[i]] = contribution(actor->args.rank, in_send);
    }
}

static kolo_status set_up_actor(struct world *world, int rank)
{
    const struct kolo_simulation *what = world->what;
    struct actor *actor = &world->actors[rank];
    actor->args = (struct kolo_plan_args){.rank = rank,
                                          .size = what->size,
                                          .root = what->root,
                                          .count = what->count,
                                          .counts = what->counts,
                                          .displs = what->displs,
                                          .segment = what->segment,
                                          .in_place = what->in_place};
    if (what->plan->collective == KOLO_COLLECTIVE_BROADCAST)
        actor->args.in_place = rank == what->root;
    if (!has_recv(world, actor) || !has_send(world, actor))
        actor->args.in_place = false;
    actor->plan = what->plan;
    actor->nsteps = what->plan->nsteps(&actor->args);
    actor->scratch_count = what->plan->scratch(&actor->args);
    actor->recv = kolo_calloc(world->nsamples, sizeof(*actor->recv));
    actor->scratch = kolo_calloc(actor->scratch_count, sizeof(*actor->scratch));
    actor->known = kolo_calloc(2 * world->words, sizeof(*actor->known));
    if (actor->recv == NULL || actor->scratch == NULL || actor->known == NULL)
        return KOLO_ERR_NO_MEMORY;
    actor->coming = actor->known + world->words;
    for (size_t i = (size_t)what->size; i < 64 * world->words; i++)
        actor->known[i / 64] |= 1ull << (i % 64); /* ranks that there are not have begun */
    actor->known[rank / 64] |= 1ull << (rank % 64);
    actor->words_full = what->size == 1 ? 1 : 0;
    lay_in_place(world, actor);
    return KOLO_OK;
}

static void tear_down(struct world *world)
{
    for (int rank = 0; world->actors != NULL && rank < world->what->size; rank++) {
        kolo_free_memory(world->actors[rank].recv);
        kolo_free_memory(world->actors[rank].scratch);
        kolo_free_memory(world->actors[rank].known);
    }
    kolo_free_memory(world->actors);
    kolo_free_memory(world->list);
    kolo_free_memory(world->sample_of);
}

static void most(size_t *most, size_t value)
{
    if (value > *most)
        *most = value;
}

static void add_up(const struct world *world, struct kolo_simulated *simulated)
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

kolo_status kolo_simulate(const struct kolo_simulation *simulation,
                          struct kolo_simulated *simulated_out)
{
    struct world world = {.what = simulation, .words = ((size_t)simulation->size + 63) / 64};
    kolo_status status = KOLO_ERR_NO_MEMORY;
    world.actors = kolo_calloc((size_t)simulation->size, sizeof(*world.actors));
    world.list = kolo_calloc((size_t)simulation->size, sizeof(*world.list));
    if (world.actors == NULL || world.list == NULL)
        goto out;
    measure(&world);
    KOLO_TRY(choose_samples(&world));
    for (int rank = 0; rank < simulation->size; rank++)
        KOLO_TRY(set_up_actor(&world, rank));
    for (int rank = 0; rank < simulation->size; rank++) {
        KOLO_TRY(enter_step(&world, &world.actors[rank]));
        list_rank(&world, rank);
    }
    while (world.listed > 0) {
        struct actor *actor = &world.actors[world.list[--world.listed]];
        actor->is_listed = false;
        KOLO_TRY(move(&world, actor));
    }
    KOLO_TRY(check_ends(&world));
    KOLO_TRY(check_results(&world));
    if (simulated_out != NULL)
        add_up(&world, simulated_out);
out:
    tear_down(&world);
    return status;
}
