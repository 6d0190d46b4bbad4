// SPDX-License-Identifier: Apache-2.0
// Loans of devices' memory between the ranks of a host: what others have lent and want back, and what of
// this rank's they still have. Owns the list of what is wanted back. Must never unmap under the
// engine's lock: a driver may wait for all streams of its context before it does, and one of them may
// wait for a call of this engine's (runtime/stream.c).
//
// How it works: an owner that is to free memory recalls it on the links to all to whom it lent it. Who
// hears that and has nothing of it mapped answers at once; else it is forgotten, and goes when the
// program next calls with data, allocates or frees, or at the end, since only then nobody holds the
// lock. What is mapped again in between is of another number: an allocation that was recalled is not
// lent again. A rank whose link is gone is dead, or has unmapped all before it said goodbye.
#include "base/alloc.h"
#include "memory/lane.h"
#include "runtime/comm.h"

struct kolo_recall {
    struct kolo_recall *next;
    int world;
    uint64_t id;
};

/** In no lane any more? */
static bool is_unmapped(const struct kolo_engine *engine, int world, uint64_t id)
{
    bool is_gone = true;
    for (struct kolo_lane *lane = engine->lanes; lane != NULL; lane = lane->next)
        is_gone &= kolo_lane_forget(lane, world, id);
    return is_gone;
}

static void is_untidy(struct kolo_engine *engine)
{
    atomic_store_explicit(&engine->is_untidy, true, memory_order_relaxed);
}

void kolo_loans_recalled(struct kolo_engine *engine, int world, uint64_t id)
{
    if (!engine->is_tidying && is_unmapped(engine, world, id)) {
        kolo_endpoint_return(engine->endpoint, world, id);
        return;
    }
    struct kolo_recall *recall = kolo_calloc(1, sizeof(*recall));
    if (recall == NULL)
        return; /* its owner frees it at the end of its process */
    *recall = (struct kolo_recall){.next = engine->recalls, .world = world, .id = id};
    engine->recalls = recall;
    is_untidy(engine);
}

void kolo_loans_gone(struct kolo_engine *engine, int world)
{
    if (!is_unmapped(engine, world, 0))
        is_untidy(engine);
    kolo_device_memory_returned(engine, world, 0);
    if (!kolo_device_memory_is_lent(engine))
        engine->are_loans_out = KOLO_OK;
}

/** Answers those recalls of which nothing is mapped any more. Held: lock. */
static void answer(struct kolo_engine *engine)
{
    struct kolo_recall **at = &engine->recalls;
    while (*at != NULL) {
        struct kolo_recall *recall = *at;
        if (!is_unmapped(engine, recall->world, recall->id)) {
            at = &recall->next;
            continue;
        }
        kolo_endpoint_return(engine->endpoint, recall->world, recall->id);
        *at = recall->next;
        kolo_free_memory(recall);
    }
}

/** Held: lock, which is given up meanwhile. Lanes go only at the end. */
static void unmap(struct kolo_engine *engine)
{
    for (struct kolo_lane *lane = engine->lanes; lane != NULL; lane = lane->next) {
        struct kolo_mapping *mappings = kolo_lane_detach(lane);
        if (mappings == NULL)
            continue;
        kolo_engine_leave(engine);
        kolo_lane_unmap(lane, mappings);
        kolo_engine_enter(engine);
    }
}

void kolo_loans_tidy(struct kolo_engine *engine)
{
    if (!atomic_load_explicit(&engine->is_untidy, memory_order_relaxed))
        return;
    kolo_engine_enter(engine);
    const bool is_mine = !engine->is_tidying; /* else another thread is at it */
    engine->is_tidying = true;
    if (is_mine) {
        unmap(engine);
        answer(engine);
        engine->is_tidying = false;
    }
    kolo_engine_leave(engine);
    kolo_device_memory_reap(engine);
    kolo_engine_enter(engine);
    if (engine->recalls == NULL && !kolo_device_memory_has_freed(engine))
        atomic_store_explicit(&engine->is_untidy, false, memory_order_relaxed);
    kolo_engine_leave(engine);
}

void kolo_loans_end(struct kolo_engine *engine, kolo_deadline deadline)
{
    kolo_engine_enter(engine);
    for (int rank = 0; rank < engine->size && engine->lanes != NULL; rank++)
        if (!is_unmapped(engine, rank, 0))
            is_untidy(engine);
    kolo_engine_leave(engine);
    kolo_loans_tidy(engine);
    kolo_engine_enter(engine);
    if (kolo_device_memory_recall(engine)) {
        engine->are_loans_out = KOLO_AGAIN;
        (void)kolo_engine_await(engine, NULL, &engine->are_loans_out, deadline);
    }
    while (engine->recalls != NULL) {
        struct kolo_recall *recall = engine->recalls;
        engine->recalls = recall->next;
        kolo_free_memory(recall);
    }
    kolo_engine_leave(engine);
}
