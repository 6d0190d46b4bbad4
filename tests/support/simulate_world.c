// SPDX-License-Identifier: Apache-2.0
// Makes and frees the world of a simulation: the arguments of each rank's call, which elements are
// followed, and the ranks' memory. Runs no step.
#include "tests/support/simulate_world.h"

#include <string.h>

#include "base/alloc.h"

void kolo_sim_begin_plan(struct kolo_sim_actor *actor, const struct kolo_plan *plan,
                         bool is_closing)
{
    actor->plan = plan;
    actor->is_closing = is_closing;
    actor->first = actor->next = actor->certain = 0;
    actor->nsteps = plan->nsteps(&actor->args);
}

void kolo_sim_begin_knowing(const struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    int size = world->what->size, rank = actor->args.rank;
    memset(actor->known, 0, world->set_words * sizeof *actor->known);
    for (size_t i = (size_t)size; i < 64 * world->set_words; i++)
        actor->known[i / 64] |= 1ull << (i % 64); /* ranks that do not exist count as begun */
    actor->known[rank / 64] |= 1ull << (rank % 64);
    actor->words_full = size == 1 ? 1 : 0;
}

enum kolo_closing kolo_sim_closing(const struct kolo_simulation *what, int call)
{
    bool is_closed = what->closed_every > 0 && (call + 1) % what->closed_every == 0;
    return is_closed ? KOLO_CLOSING_NOW : what->closing;
}

static kolo_status list_followed(struct kolo_sim_world *world)
{
    uint32_t next = (uint32_t)world->recv_count;
    world->next_followed = kolo_calloc(world->recv_count, sizeof *world->next_followed);
    if (!world->next_followed)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = world->recv_count; i-- > 0;)
        world->next_followed[i] = next = world->sample_of[i] != UINT32_MAX ? (uint32_t)i : next;
    return KOLO_OK;
}

static kolo_status choose_samples(struct kolo_sim_world *world)
{
    size_t stride = 1, samples = world->what->samples;
    if (samples > 0 && world->recv_count > samples)
        stride = world->recv_count / samples;
    world->sample_of = kolo_calloc(world->recv_count + 1, sizeof *world->sample_of);
    if (!world->sample_of)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < world->recv_count; i++) {
        bool is_edge = i < 2 || i + 2 >= world->recv_count;
        bool is_followed = stride == 1 || is_edge || kolo_sim_mix(i) % stride == 0;
        world->sample_of[i] = is_followed ? (uint32_t)world->nsamples++ : UINT32_MAX;
    }
    return world->nsamples < world->recv_count ? list_followed(world) : KOLO_OK;
}

static void set_args(struct kolo_sim_world *world, int rank)
{
    const struct kolo_simulation *what = world->what;
    struct kolo_sim_actor *actor = &world->actors[rank];
    enum kolo_collective collective = what->plan->collective;
    actor->args = (struct kolo_plan_args){.rank = rank,
                                          .size = what->size,
                                          .root = what->root,
                                          .hosts = what->hosts,
                                          .count = what->count,
                                          .counts = what->counts,
                                          .displs = what->displs,
                                          .segment = what->segment,
                                          .in_place = what->in_place};
    if (what->send_counts) {
        size_t row = (size_t)rank * (size_t)what->size;
        actor->args.counts = what->counts + row;
        actor->args.displs = what->displs + row;
        actor->args.send_counts = what->send_counts + row;
        actor->args.send_displs = what->send_displs + row;
    }
    if (collective == KOLO_COLLECTIVE_BROADCAST) {
        actor->args.in_place = rank == what->root;
        actor->args.closing = kolo_sim_closing(what, 0);
    }
    if (collective == KOLO_COLLECTIVE_ALLTOALL || !kolo_sim_has_recv(collective, &actor->args) ||
        !kolo_sim_has_send(collective, &actor->args))
        actor->args.in_place = false;
    kolo_sim_measure(world, actor);
    if (actor->recv_count > world->recv_count)
        world->recv_count = actor->recv_count;
}

static kolo_status set_up_flights(struct kolo_sim_world *world, struct kolo_sim_actor *actor)
{
    size_t window = kolo_plan_window(actor->plan, &actor->args), closing = 1;
    const struct kolo_plan *beside =
        actor->plan->closes ? NULL : kolo_plan_closing(actor->plan, &actor->args);
    if (beside)
        closing = kolo_plan_window(beside, &actor->args);
    if (world->what->calls > 1) /* it is the root of another of the calls */
        closing = KOLO_WINDOW_MAX;
    window = window < closing ? closing : window;
    actor->window = window < 1 || window > KOLO_WINDOW_MAX ? 1 : window;
    actor->flights = kolo_calloc(actor->window, sizeof *actor->flights);
    actor->sets = kolo_calloc((2 * actor->window + 1) * world->set_words, sizeof *actor->sets);
    if (!actor->flights || !actor->sets)
        return KOLO_ERR_NO_MEMORY;
    actor->known = actor->sets;
    for (size_t i = 0; i < actor->window; i++) {
        actor->flights[i].carries = actor->sets + (2 * i + 1) * world->set_words;
        actor->flights[i].heard = actor->sets + (2 * i + 2) * world->set_words;
    }
    return KOLO_OK;
}

static kolo_status set_up_actor(struct kolo_sim_world *world, int rank)
{
    const struct kolo_simulation *what = world->what;
    struct kolo_sim_actor *actor = &world->actors[rank];
    kolo_status status;
    kolo_sim_begin_plan(actor, what->plan, false);
    actor->scratch_count = what->plan->scratch(&actor->args);
    actor->recv = kolo_calloc(world->nsamples, sizeof *actor->recv);
    actor->scratch = kolo_calloc(actor->scratch_count, sizeof *actor->scratch);
    KOLO_TRY(set_up_flights(world, actor));
    if (!actor->recv || !actor->scratch)
        return KOLO_ERR_NO_MEMORY;
    kolo_sim_begin_knowing(world, actor);
    kolo_sim_lay_in_place(world, actor);
out:
    return status;
}

void kolo_sim_close(struct kolo_sim_world *world)
{
    for (int rank = 0; world->actors && rank < world->what->size; rank++) {
        kolo_free_memory(world->actors[rank].recv);
        kolo_free_memory(world->actors[rank].scratch);
        kolo_free_memory(world->actors[rank].flights);
        kolo_free_memory(world->actors[rank].sets);
    }
    kolo_free_memory(world->actors);
    kolo_free_memory(world->list);
    kolo_free_memory(world->sample_of);
    kolo_free_memory(world->next_followed);
}

kolo_status kolo_sim_open(const struct kolo_simulation *simulation, struct kolo_sim_world *world)
{
    kolo_status status = KOLO_OK;
    *world = (struct kolo_sim_world){.what = simulation,
                                     .set_words = ((size_t)simulation->size + 63) / 64};
    world->actors = kolo_calloc((size_t)simulation->size, sizeof *world->actors);
    world->list = kolo_calloc((size_t)simulation->size, sizeof *world->list);
    if (!world->actors || !world->list)
        return KOLO_ERR_NO_MEMORY;
    for (int rank = 0; rank < simulation->size; rank++)
        set_args(world, rank);
    KOLO_TRY(choose_samples(world));
    for (int rank = 0; rank < simulation->size; rank++)
        KOLO_TRY(set_up_actor(world, rank));
out:
    return status;
}
