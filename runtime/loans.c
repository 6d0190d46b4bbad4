// SPDX-License-Identifier: Apache-2.0
// Loans of device memory between the ranks of a host: what others have lent and want back, and
// which of this rank's memory they still have. Owns the list of recalls, and the thread that
// returns memory and frees what kolo_free had to put aside. Must never unmap or free under the
// engine's lock, nor in a thread of the program: a driver may first wait for all streams of its
// context, and one of them may wait for a call that this very thread is about to make
// (runtime/stream.c).
//
// How it works: an owner that wants to free memory recalls it, over the links, from all to whom it
// has lent it. A rank that has nothing of it mapped answers at once. Otherwise the rank forgets the
// memory; its tidying thread unmaps it when no call uses it any more, and answers. When all have
// answered, the owner's tidying thread frees it. A recalled allocation is not lent again; what is
// mapped in between has another number. A rank whose link is gone is dead, or has unmapped
// everything before its goodbye. The exception is memory that its driver would not unmap: the rank
// has reported that to the owner (KEPT), which then never frees it.
#include "runtime/loans.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "memory/lane.h"
#include "runtime/comm.h"
#include "runtime/device_memory.h"
#include "runtime/host_memory.h"

/** A bit in the number of an allocation that is returned. Drivers count these numbers up from 0. */
#define KEPT (UINT64_C(1) << 63)

struct kolo_recall {
    struct kolo_recall *next;
    int world_rank;
    uint64_t id;
};

/** Whether no lane has it mapped any more. */
static bool is_unmapped(const struct kolo_engine *engine, int world_rank, uint64_t id)
{
    bool is_gone = true;
    for (struct kolo_lane *lane = engine->lanes; lane; lane = lane->next)
        is_gone &= kolo_lane_forget(lane, world_rank, id);
    return is_gone;
}

void kolo_loans_look(struct kolo_engine *engine)
{
    atomic_store_explicit(&engine->tidier.has_work, true, memory_order_relaxed);
    if (atomic_load_explicit(&engine->tidier.has_thread, memory_order_relaxed))
        (void)pthread_cond_signal(&engine->tidier.wake);
}

static bool is_listed(const struct kolo_engine *engine, int world_rank, uint64_t id)
{
    const struct kolo_recall *recall = engine->tidier.recalls;
    while (recall && (recall->world_rank != world_rank || recall->id != id))
        recall = recall->next;
    return recall != NULL;
}

void kolo_loans_recalled(struct kolo_engine *engine, int world_rank, uint64_t id)
{
    if (!engine->tidier.is_unmapping && is_unmapped(engine, world_rank, id)) {
        kolo_endpoint_return(engine->endpoint, world_rank, id);
        return;
    }
    if (is_listed(engine, world_rank, id)) /* repeated recalls are ignored */
        return;
    struct kolo_recall *recall = kolo_calloc(1, sizeof *recall);
    if (!recall)
        return; /* its owner frees it at the end of its process */
    *recall =
        (struct kolo_recall){.next = engine->tidier.recalls, .world_rank = world_rank, .id = id};
    engine->tidier.recalls = recall;
    kolo_loans_look(engine);
}

void kolo_loans_returned(struct kolo_engine *engine, int world_rank, uint64_t id)
{
    if ((id & KEPT) != 0)
        kolo_device_memory_kept(engine, id & ~KEPT);
    kolo_device_memory_returned(engine, world_rank, id & ~KEPT);
    if (!kolo_device_memory_is_lent(engine))
        engine->tidier.loans_return = KOLO_OK;
    if (kolo_device_memory_has_freed(engine))
        kolo_loans_look(engine);
}

void kolo_loans_gone(struct kolo_engine *engine, int world_rank)
{
    if (!is_unmapped(engine, world_rank, 0))
        kolo_loans_look(engine);
    kolo_loans_returned(engine, world_rank, 0);
}

/** Answers the recalls of memory that is not mapped any more. Held: lock. */
static void answer(struct kolo_engine *engine)
{
    struct kolo_recall **at = &engine->tidier.recalls;
    while (*at) {
        struct kolo_recall *recall = *at;
        if (!is_unmapped(engine, recall->world_rank, recall->id)) {
            at = &recall->next;
            continue;
        }
        kolo_endpoint_return(engine->endpoint, recall->world_rank, recall->id);
        *at = recall->next;
        kolo_free_memory(recall);
    }
}

static void tell_stuck(struct kolo_engine *engine, struct kolo_lane *lane)
{
    int world_rank;
    uint64_t id;
    while (kolo_lane_stuck(lane, &world_rank, &id))
        kolo_endpoint_return(engine->endpoint, world_rank, id | KEPT);
}

/** Held: lock, released meanwhile. Lanes are removed only at the end. */
static void unmap(struct kolo_engine *engine)
{
    engine->tidier.is_unmapping = true;
    for (struct kolo_lane *lane = engine->lanes; lane; lane = lane->next) {
        struct kolo_mapping *mappings = kolo_lane_detach(lane);
        if (!mappings)
            continue;
        kolo_engine_leave(engine);
        kolo_lane_unmap(lane, mappings);
        kolo_engine_enter(engine);
        tell_stuck(engine, lane);
    }
    engine->tidier.is_unmapping = false;
}

/* ---- the tidying thread ---- */

static bool is_wanted(void *context)
{
    const struct kolo_engine *engine = context;
    return atomic_load_explicit(&engine->tidier.has_work, memory_order_relaxed) ||
           atomic_load_explicit(&engine->tidier.is_stopping, memory_order_relaxed);
}

/** Held: lock, released meanwhile. */
static void tidy(struct kolo_engine *engine)
{
    const struct kolo_unless unless = {.is_over = is_wanted, .context = engine};
    atomic_store_explicit(&engine->tidier.has_work, false, memory_order_relaxed);
    unmap(engine);
    answer(engine);
    kolo_engine_leave(engine);
    kolo_device_memory_reap(engine, &unless);
    kolo_host_memory_reap(engine, KOLO_NEVER, &unless);
    kolo_engine_enter(engine);
    if (!kolo_device_memory_has_freed(engine))
        engine->tidier.memory_freeing = KOLO_OK;
    kolo_engine_notify(engine);
    kolo_engine_news(engine);
}

static void *thread_main(void *argument)
{
    struct kolo_engine *engine = argument;
    kolo_log_set_rank(engine->rank);
    kolo_engine_enter(engine);
    while (!engine->tidier.is_stopping)
        if (engine->tidier.has_work)
            tidy(engine);
        else
            (void)pthread_cond_wait(&engine->tidier.wake, &engine->lock);
    kolo_engine_leave(engine);
    return NULL;
}

kolo_status kolo_loans_start(struct kolo_engine *engine)
{
    int error = 0;
    if (atomic_load_explicit(&engine->tidier.has_thread, memory_order_relaxed))
        return KOLO_OK;
    kolo_engine_enter(engine);
    if (!engine->tidier.has_thread) /* another thread may have been faster */
        error = kolo_thread_start(&engine->tidier.thread, NULL, thread_main, engine);
    if (error == 0)
        engine->tidier.has_thread = true;
    kolo_engine_leave(engine);
    return error == 0
               ? KOLO_OK
               : kolo_fail_start(error, "cannot start the thread that frees and returns memory");
}

static void stop(struct kolo_engine *engine)
{
    kolo_engine_enter(engine);
    const bool has_tidier = engine->tidier.has_thread;
    engine->tidier.is_stopping = true;
    (void)pthread_cond_signal(&engine->tidier.wake);
    kolo_engine_leave(engine);
    if (has_tidier)
        (void)pthread_join(engine->tidier.thread, NULL);
    engine->tidier.has_thread = false;
}

void kolo_loans_settle(struct kolo_engine *engine, kolo_deadline deadline)
{
    kolo_engine_enter(engine);
    if (kolo_device_memory_has_freed(engine)) {
        engine->tidier.memory_freeing = KOLO_AGAIN;
        kolo_loans_look(engine);
        (void)kolo_engine_await(engine, NULL, &engine->tidier.memory_freeing, deadline);
    }
    kolo_engine_leave(engine);
}

void kolo_loans_end(struct kolo_engine *engine, kolo_deadline deadline)
{
    stop(engine);
    kolo_engine_enter(engine);
    for (int rank = 0; rank < engine->size && engine->lanes; rank++)
        (void)is_unmapped(engine, rank, 0);
    unmap(engine);
    answer(engine);
    if (kolo_device_memory_recall(engine)) {
        engine->tidier.loans_return = KOLO_AGAIN;
        (void)kolo_engine_await(engine, NULL, &engine->tidier.loans_return, deadline);
    }
    while (engine->tidier.recalls) {
        struct kolo_recall *recall = engine->tidier.recalls;
        engine->tidier.recalls = recall->next;
        kolo_free_memory(recall);
    }
    kolo_engine_leave(engine);
}
