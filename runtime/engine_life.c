// SPDX-License-Identifier: Apache-2.0
// The life of an engine: its creation and destruction, its lock, and the names of ranks in
// messages. Must never free something on which another part still depends: kolo_engine_destroy has
// the order.
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/condition.h"
#include "base/forks.h"
#include "runtime/board_hub.h"
#include "runtime/device_memory.h"
#include "runtime/own_ops.h"
#include "runtime/peers.h"
#include "runtime/spares.h"
#include "runtime/staging.h"
#include "runtime/timeline.h"

enum { GIVE_WAY_NS = KOLO_NS_PER_MS };

static kolo_status init_conds(struct kolo_engine *engine)
{
    int error = kolo_condition_init(&engine->changed);
    if (error == 0) {
        error = kolo_condition_init(&engine->tidier.wake);
        if (error != 0)
            pthread_cond_destroy(&engine->changed);
    }
    return error == 0 ? KOLO_OK : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "pthread_cond_init");
}

kolo_status kolo_engine_create(struct kolo_engine **engine_out)
{
    kolo_memory_find_plain();
    struct kolo_engine *engine = kolo_calloc(1, sizeof *engine);
    if (!engine)
        return KOLO_ERR_NO_MEMORY;
    kolo_settings_init(&engine->settings);
    engine->next_timer = KOLO_NEVER;
    kolo_status status = kolo_forks_watch();
    engine->forks = kolo_forks();
    if (status == KOLO_OK)
        status = init_conds(engine);
    if (status != KOLO_OK) {
        kolo_free_memory(engine);
        return status;
    }
    int error = pthread_mutex_init(&engine->lock, NULL);
    if (error == 0) {
        error = pthread_mutex_init(&engine->news_lock, NULL);
        if (error != 0)
            pthread_mutex_destroy(&engine->lock);
    }
    if (error != 0) {
        pthread_cond_destroy(&engine->changed);
        pthread_cond_destroy(&engine->tidier.wake);
        kolo_free_memory(engine);
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "pthread_mutex_init");
    }
    (void)sem_init(&engine->thread.wake, 0, 0); /* fails only for other arguments */
    *engine_out = engine;
    return KOLO_OK;
}

kolo_status kolo_engine_destroy(struct kolo_engine *engine, kolo_deadline deadline,
                                kolo_deadline handover)
{
    char detail[KOLO_DETAIL_MAX];
    if (!engine)
        return KOLO_OK;
    const struct kolo_peer *peers =
        kolo_store_client_take_peers(engine->store);            /* they are the endpoint's too */
    const bool may_free = kolo_staging_close(engine, deadline); /* it wakes the endpoint */
    kolo_store_client_close(engine->store, deadline);           /* it uses the endpoint's poller */
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next) {
        kolo_hub_close(comm->hub); /* it uses the endpoint's links */
        comm->hub = NULL;
    }
    kolo_status status = kolo_endpoint_close(engine->endpoint, handover);
    engine->endpoint = NULL;
    kolo_detail_keep(detail);
    if (engine->own_store)
        kolo_store_thread_stop(engine->own_store, deadline);
    kolo_rendezvous_host_close(engine->host, deadline);
    kolo_peers_drop(peers);
    while (engine->comms)
        kolo_comm_free(engine->comms);
    kolo_own_ops_free(engine);
    kolo_spares_free(engine);
    if (may_free)
        kolo_heap_destroy(engine->heap);
    kolo_device_memory_close(engine, deadline); /* after everything in the devices' contexts */
    kolo_timeline_close(engine->timeline);
    kolo_free_memory(engine->left_ns);
    kolo_free_memory(engine->transports);
    kolo_free_memory(engine->memory_kinds);
    kolo_free_memory(engine->left_out);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->news_lock);
    pthread_cond_destroy(&engine->changed);
    pthread_cond_destroy(&engine->tidier.wake);
    (void)sem_destroy(&engine->thread.wake);
    explicit_bzero(&engine->settings, sizeof engine->settings);
    kolo_free_memory(engine);
    kolo_detail_set(detail);
    return status;
}

void kolo_engine_give_up(struct kolo_engine *engine)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    (void)kolo_engine_destroy(engine, 0, 0);
    kolo_detail_set(detail);
}

/** While the progressor has waited too long for the lock. Bounded: it may itself not run. */
static void give_way(const struct kolo_engine *engine)
{
    if (!atomic_load_explicit(&engine->is_awaited, memory_order_relaxed))
        return;
    const kolo_deadline end = kolo_now_ns() + GIVE_WAY_NS;
    while (atomic_load_explicit(&engine->is_awaited, memory_order_relaxed) &&
           !kolo_deadline_passed(end))
        sched_yield();
}

void kolo_engine_enter(struct kolo_engine *engine)
{
    give_way(engine);
    if (pthread_mutex_trylock(&engine->lock) == 0)
        return;
    atomic_fetch_add(&engine->wanting, 1); /* makes a spinning progressor release the lock */
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_sub(&engine->wanting, 1);
}

void kolo_engine_leave(struct kolo_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

struct kolo_comm *kolo_engine_comm(const struct kolo_engine *engine, uint32_t number)
{
    struct kolo_comm *comm =
        number == 0 ? engine->world : engine->numbered[number % KOLO_COMM_REMAINDERS];
    while (comm && comm->number != number)
        comm = comm->numbered.next;
    return comm;
}

const char *kolo_engine_rank_text(const struct kolo_engine *engine, int world_rank,
                                  char text[KOLO_RANK_TEXT_MAX])
{
    if (world_rank < 0 || world_rank >= engine->size || !engine->peers) {
        snprintf(text, KOLO_RANK_TEXT_MAX, "rank %d", world_rank);
        return text;
    }
    const struct kolo_identity *identity = &engine->peers[world_rank].identity;
    snprintf(text, KOLO_RANK_TEXT_MAX, "rank %d (%s, pid %d)", world_rank, identity->host,
             identity->pid);
    return text;
}
