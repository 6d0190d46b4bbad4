// SPDX-License-Identifier: Apache-2.0
// The memory of the simulated ranks: the lengths of buffers, where slices are if a call is in
// place, the cells that hold symbols, and whether a step may touch what it touches.
//
// Which steps may be in flight when a step begins follows only from the plan's declaration
// (`after`), not from how the simulation happens to run: every step that need not be over counts as
// in flight.
#include "tests/support/simulate_world.h"

/* ---- buffers ---- */

bool kolo_sim_has_send(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    bool is_rooted =
        collective == KOLO_COLLECTIVE_BROADCAST || collective == KOLO_COLLECTIVE_SCATTER;
    return !is_rooted || args->rank == args->root;
}

bool kolo_sim_has_recv(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    bool is_rooted = collective == KOLO_COLLECTIVE_REDUCE || collective == KOLO_COLLECTIVE_GATHER;
    return !is_rooted || args->rank == args->root;
}

/** The end of the last block. */
static size_t extent(const size_t *counts, const size_t *displs, const struct kolo_plan_args *args)
{
    size_t most = 0;
    if (!counts)
        return args->count * (size_t)args->size;
    for (int rank = 0; rank < args->size; rank++)
        if (displs[rank] + counts[rank] > most)
            most = displs[rank] + counts[rank];
    return most;
}

void kolo_sim_measure(const struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    const struct kolo_plan_args *args = &actor->args;
    enum kolo_collective collective = world->what->plan->collective;
    size_t block = kolo_plan_block(args, args->rank),
           all = extent(args->counts, args->displs, args);
    switch (collective) {
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        actor->send_count = block;
        actor->recv_count = all;
        break;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        actor->send_count = all;
        actor->recv_count = block;
        break;
    case KOLO_COLLECTIVE_ALLTOALL:
        actor->send_count = extent(args->send_counts, args->send_displs, args);
        actor->recv_count = all;
        break;
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
    case KOLO_COLLECTIVE_BROADCAST:
        actor->send_count = actor->recv_count = args->count;
        break;
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    if (!kolo_sim_has_send(collective, args))
        actor->send_count = 0;
    if (!kolo_sim_has_recv(collective, args))
        actor->recv_count = 0;
}

/** Collectives of which, in place, SEND is a part of RECV. In the others RECV is a part of SEND. */
static bool send_lies_in_recv(enum kolo_collective collective)
{
    return collective != KOLO_COLLECTIVE_REDUCE_SCATTER && collective != KOLO_COLLECTIVE_SCATTER;
}

/** The offset of the smaller buffer in the larger one, in place. */
static size_t overlay(const struct kolo_sim_actor *actor, enum kolo_collective collective)
{
    bool is_blocks =
        collective == KOLO_COLLECTIVE_ALLGATHER || collective == KOLO_COLLECTIVE_GATHER ||
        collective == KOLO_COLLECTIVE_REDUCE_SCATTER || collective == KOLO_COLLECTIVE_SCATTER;
    return is_blocks ? kolo_plan_block_offset(&actor->args, actor->args.rank) : 0;
}

void kolo_sim_lay_in_place(const struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    enum kolo_collective collective = world->what->plan->collective;
    size_t first = overlay(actor, collective);
    if (!actor->args.in_place)
        return;
    for (size_t i = 0; i < actor->recv_count; i++) {
        size_t in_send = send_lies_in_recv(collective) ? i - first : i + first;
        if ((send_lies_in_recv(collective) && i < first) || in_send >= actor->send_count ||
            world->sample_of[i] == UINT32_MAX)
            continue;
        actor->recv[world->sample_of[i]] = kolo_sim_contribution(actor->args.rank, in_send);
    }
}

struct kolo_sim_extent kolo_sim_locate(const struct kolo_sim_world *world,
                                       const struct kolo_sim_actor *actor,
                                       const struct kolo_slice *slice)
{
    struct kolo_sim_extent extent = {(enum kolo_sim_buffer)slice->buffer, slice->offset,
                                     slice->count};
    enum kolo_collective collective = world->what->plan->collective;
    if (slice->count == 0 || !actor->args.in_place || slice->buffer == KOLO_BUFFER_SCRATCH)
        return extent;
    bool in_recv = send_lies_in_recv(collective);
    if (in_recv && slice->buffer == KOLO_BUFFER_SEND)
        extent = (struct kolo_sim_extent){KOLO_SIM_RECV, slice->offset + overlay(actor, collective),
                                          slice->count};
    if (!in_recv && slice->buffer == KOLO_BUFFER_RECV)
        extent = (struct kolo_sim_extent){KOLO_SIM_SEND, slice->offset + overlay(actor, collective),
                                          slice->count};
    return extent;
}

struct kolo_sim_symbol *kolo_sim_cell_of_send(const struct kolo_sim_world *world,
                                              const struct kolo_sim_actor *actor, size_t offset)
{
    size_t first = overlay(actor, world->what->plan->collective);
    bool is_recv = actor->args.in_place && !send_lies_in_recv(world->what->plan->collective);
    if (!is_recv || offset < first || offset - first >= actor->recv_count)
        return NULL;
    return kolo_sim_cell(world, actor, KOLO_SIM_RECV, offset - first);
}

/* ---- what a step may touch ---- */

static size_t buffer_count(const struct kolo_sim_actor *actor, enum kolo_buffer buffer)
{
    switch (buffer) {
    case KOLO_BUFFER_SEND:
        return actor->send_count;
    case KOLO_BUFFER_RECV:
        return actor->recv_count;
    case KOLO_BUFFER_SCRATCH:
        return actor->scratch_count;
    case KOLO_BUFFERS:
        break;
    }
    return 0;
}

static bool overlap(struct kolo_sim_extent a, struct kolo_sim_extent b)
{
    return a.memory == b.memory && a.count > 0 && b.count > 0 && a.offset < b.offset + b.count &&
           b.offset < a.offset + a.count;
}

/** Memory that is being received may not be read or written; memory that is being sent, or is an
 * operand of a receive, may not be written. */
static kolo_status check_flights(const struct kolo_sim_actor *actor, struct kolo_sim_extent extent,
                                 bool is_written, const char *what)
{
    size_t slot = actor->certain % actor->window;
    for (size_t i = actor->certain; i < actor->next; i++) {
        const struct kolo_sim_flight *flight = &actor->flights[slot];
        if (overlap(extent, flight->in))
            return KOLO_SIM_OBJECT(actor, "%s [%zu, +%zu), which step %zu is still receiving", what,
                                   extent.offset, extent.count, i);
        if (is_written && (overlap(extent, flight->out) || overlap(extent, flight->local)))
            return KOLO_SIM_OBJECT(actor, "%s [%zu, +%zu), which step %zu is still reading", what,
                                   extent.offset, extent.count, i);
        slot = slot + 1 < actor->window ? slot + 1 : 0;
    }
    return KOLO_OK;
}

static kolo_status check_slice(const struct kolo_sim_world *world,
                               const struct kolo_sim_actor *actor, const struct kolo_slice *slice,
                               bool is_written, const char *what)
{
    size_t size = buffer_count(actor, slice->buffer);
    if (slice->count == 0)
        return KOLO_OK;
    if (slice->offset > size || slice->count > size - slice->offset)
        return KOLO_SIM_OBJECT(actor, "%s [%zu, +%zu) leaves buffer %d of %zu", what, slice->offset,
                               slice->count, (int)slice->buffer, size);
    if (is_written && slice->buffer == KOLO_BUFFER_SEND)
        return KOLO_SIM_OBJECT(actor, "%s writes the user's SEND", what);
    return check_flights(actor, kolo_sim_locate(world, actor, slice), is_written, what);
}

static kolo_status check_read(const struct kolo_sim_world *world,
                              const struct kolo_sim_actor *actor, const struct kolo_slice *slice,
                              const char *what)
{
    return check_slice(world, actor, slice, false, what);
}

static kolo_status check_written(const struct kolo_sim_world *world,
                                 const struct kolo_sim_actor *actor, const struct kolo_slice *slice,
                                 const char *what)
{
    return check_slice(world, actor, slice, true, what);
}

static kolo_status check_peers(const struct kolo_sim_actor *actor, const struct kolo_step *step)
{
    if (step->to < -1 || step->to >= actor->args.size || step->to == actor->args.rank)
        return KOLO_SIM_OBJECT(actor, "sends to rank %d", step->to);
    if (step->from < -1 || step->from >= actor->args.size || step->from == actor->args.rank)
        return KOLO_SIM_OBJECT(actor, "receives from rank %d", step->from);
    if (step->after < 1 || step->after > actor->window || actor->window > KOLO_WINDOW_MAX)
        return KOLO_SIM_OBJECT(actor, "follows %zu steps in a window of %zu", step->after,
                               actor->window);
    return KOLO_OK;
}

static kolo_status check_fold(const struct kolo_sim_world *world,
                              const struct kolo_sim_actor *actor, const struct kolo_folding *fold)
{
    kolo_status status = KOLO_OK;
    if (fold->ways == 0)
        return KOLO_OK;
    KOLO_TRY(check_written(world, actor, &fold->out, "fold"));
    KOLO_TRY(check_read(world, actor, &fold->mine, "fold"));
    struct kolo_sim_extent out = kolo_sim_locate(world, actor, &fold->out);
    struct kolo_sim_extent mine = kolo_sim_locate(world, actor, &fold->mine);
    if (fold->own < 0 || fold->own >= fold->ways || mine.count != out.count ||
        (overlap(mine, out) && mine.offset != out.offset))
        return KOLO_SIM_OBJECT(actor, "folds %zu elements of operand %d onto %zu", mine.count,
                               fold->own, out.count);
    for (int way = 0; way + 1 < fold->ways; way++) {
        struct kolo_slice slice = fold->others;
        slice.offset += (size_t)way * fold->stride;
        KOLO_TRY(check_read(world, actor, &slice, "fold"));
        if (slice.count != out.count || overlap(kolo_sim_locate(world, actor, &slice), out))
            return KOLO_SIM_OBJECT(actor, "folds %zu elements onto %zu", slice.count, out.count);
    }
out:
    return status;
}

kolo_status kolo_sim_check_step(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor, const struct kolo_step *step)
{
    kolo_status status;
    KOLO_TRY(check_peers(actor, step));
    KOLO_TRY(check_read(world, actor, &step->copy_from, "copy"));
    KOLO_TRY(check_written(world, actor, &step->copy_to, "copy"));
    KOLO_TRY(check_fold(world, actor, &step->fold));
    KOLO_TRY(check_written(world, actor, &step->finish, "finish"));
    KOLO_TRY(check_read(world, actor, &step->out, "send"));
    KOLO_TRY(check_written(world, actor, &step->in, "receive"));
    KOLO_TRY(check_read(world, actor, &step->local, "operand"));
    struct kolo_sim_extent in = kolo_sim_locate(world, actor, &step->in);
    struct kolo_sim_extent out = kolo_sim_locate(world, actor, &step->out);
    struct kolo_sim_extent local = kolo_sim_locate(world, actor, &step->local);
    struct kolo_sim_extent from = kolo_sim_locate(world, actor, &step->copy_from);
    struct kolo_sim_extent to = kolo_sim_locate(world, actor, &step->copy_to);
    if (step->to >= 0 && step->from >= 0 && overlap(in, out))
        return KOLO_SIM_OBJECT(actor, "writes [%zu, +%zu) while it is being sent", in.offset,
                               in.count);
    if (from.count != to.count || (overlap(from, to) && from.offset != to.offset))
        return KOLO_SIM_OBJECT(actor, "copies %zu elements onto %zu that overlap", from.count,
                               to.count);
    if (step->reduces &&
        (local.count != in.count || (overlap(local, in) && local.offset != in.offset)))
        return KOLO_SIM_OBJECT(actor, "operand of %zu elements for %zu", local.count, in.count);
out:
    return status;
}
