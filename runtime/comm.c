// SPDX-License-Identifier: Apache-2.0
// A communicator's memory: creation, destruction, the lock, scratch, and the smallest calls.
#include "runtime/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Scratch up to this size is kept between calls. */
static const size_t scratch_kept_bytes = 64u << 20;

static kolo_status init_conds(struct kolo_comm *comm)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "pthread_condattr_init");
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* always there */
    error = pthread_cond_init(&comm->changed, &attributes);
    if (error == 0) {
        error = pthread_cond_init(&comm->thread_wake, &attributes);
        if (error != 0)
            pthread_cond_destroy(&comm->changed);
    }
    pthread_condattr_destroy(&attributes);
    return error == 0 ? KOLO_OK : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "pthread_cond_init");
}

kolo_status kolo_comm_create(struct kolo_comm **comm_out)
{
    struct kolo_comm *comm = kolo_calloc(1, sizeof(*comm));
    if (comm == NULL)
        return KOLO_ERR_NO_MEMORY;
    kolo_settings_init(&comm->settings);
    comm->next_timer = KOLO_NEVER;
    kolo_status status = init_conds(comm);
    if (status != KOLO_OK) {
        kolo_free_memory(comm);
        return status;
    }
    int error = pthread_mutex_init(&comm->lock, NULL);
    if (error == 0) {
        error = pthread_mutex_init(&comm->news_lock, NULL);
        if (error != 0)
            pthread_mutex_destroy(&comm->lock);
    }
    if (error != 0) {
        pthread_cond_destroy(&comm->changed);
        pthread_cond_destroy(&comm->thread_wake);
        kolo_free_memory(comm);
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "pthread_mutex_init");
    }
    *comm_out = comm;
    return KOLO_OK;
}

/** Held: lock. The neighbours let go of what they mapped. */
static void tell_gone(void *context, uint64_t id)
{
    struct kolo_comm *comm = context;
    if (comm->endpoint != NULL)
        kolo_endpoint_span_gone(comm->endpoint, id);
}

static void free_scratch(struct kolo_comm *comm)
{
    if (comm->scratch_in_heap)
        (void)kolo_heap_free(comm->heap, comm->scratch, tell_gone, comm); /* it is its own */
    else
        kolo_free_memory(comm->scratch);
    comm->scratch = NULL;
    comm->scratch_bytes = 0;
    comm->scratch_in_heap = false;
}

kolo_status kolo_comm_destroy(struct kolo_comm *comm, kolo_deadline deadline)
{
    char detail[KOLO_DETAIL_MAX];
    if (comm == NULL)
        return KOLO_OK;
    struct kolo_peer *peers = kolo_store_client_take_peers(comm->store); /* lent to the endpoint */
    kolo_store_client_close(comm->store, deadline); /* it lives on the endpoint's poller */
    kolo_status status = kolo_endpoint_close(comm->endpoint, deadline);
    comm->endpoint = NULL;
    snprintf(detail, sizeof(detail), "%s", kolo_error_detail());
    if (comm->own_store != NULL)
        kolo_store_thread_stop(comm->own_store, deadline);
    kolo_rendezvous_host_close(comm->host, deadline);
    kolo_free_memory(peers);
    free_scratch(comm);
    kolo_heap_destroy(comm->heap);
    kolo_free_memory(comm->sent);
    kolo_free_memory(comm->left_ns);
    kolo_free_memory(comm->transports);
    kolo_free_memory(comm->memory_kinds);
    kolo_free_memory(comm->left_out);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->news_lock);
    pthread_cond_destroy(&comm->changed);
    pthread_cond_destroy(&comm->thread_wake);
    explicit_bzero(&comm->settings, sizeof(comm->settings));
    kolo_free_memory(comm);
    kolo_detail_set(detail);
    return status;
}

void kolo_comm_enter(struct kolo_comm *comm)
{
    if (pthread_mutex_trylock(&comm->lock) == 0)
        return;
    atomic_fetch_add(&comm->wanting, 1); /* a progressor that spins lets go */
    pthread_mutex_lock(&comm->lock);
    atomic_fetch_sub(&comm->wanting, 1);
}

void kolo_comm_leave(struct kolo_comm *comm)
{
    pthread_mutex_unlock(&comm->lock);
}

const char *kolo_comm_rank_text(const struct kolo_comm *comm, int rank,
                                char text[KOLO_RANK_TEXT_MAX])
{
    if (rank < 0 || rank >= comm->size || comm->peers == NULL) {
        snprintf(text, KOLO_RANK_TEXT_MAX, "rank %d", rank);
        return text;
    }
    const struct kolo_identity *identity = &comm->peers[rank].identity;
    snprintf(text, KOLO_RANK_TEXT_MAX, "rank %d (%s, pid %d)", rank, identity->host, identity->pid);
    return text;
}

/** Scratch that neighbours on this host can read in place, where that may pay. */
static kolo_status new_scratch(struct kolo_comm *comm, size_t bytes)
{
    free_scratch(comm);
    if (bytes < comm->settings.shm_direct_bytes || comm->local_size == 1) {
        comm->scratch = kolo_aligned(64, bytes);
        if (comm->scratch == NULL)
            return KOLO_ERR_NO_MEMORY;
    } else {
        kolo_status status = kolo_heap_alloc(comm->heap, bytes, &comm->scratch);
        if (status != KOLO_OK)
            return status;
        comm->scratch_in_heap = true;
    }
    comm->scratch_bytes = bytes;
    return KOLO_OK;
}

kolo_status kolo_comm_scratch(struct kolo_comm *comm, struct kolo_request *request, size_t bytes)
{
    bool is_free = comm->collectives.first == NULL; /* those run one after the other */
    bool is_kept = bytes <= scratch_kept_bytes;
    if (bytes == 0)
        return KOLO_OK;
    if (is_free && is_kept && bytes > comm->scratch_bytes) {
        kolo_status status = new_scratch(comm, bytes);
        if (status != KOLO_OK)
            return status;
    }
    if (bytes <= comm->scratch_bytes) {
        request->scratch = comm->scratch;
        return KOLO_OK;
    }
    request->own_scratch = kolo_aligned(64, bytes);
    request->scratch = request->own_scratch;
    return request->own_scratch != NULL ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

int kolo_rank(const struct kolo_comm *comm)
{
    return comm != NULL ? comm->rank : -1;
}

int kolo_size(const struct kolo_comm *comm)
{
    return comm != NULL ? comm->size : -1;
}

kolo_status kolo_alloc(struct kolo_comm *comm, size_t bytes, void **memory_out)
{
    if (comm == NULL || memory_out == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc: %s is NULL",
                         comm == NULL ? "comm" : "memory_out");
    return kolo_heap_alloc(comm->heap, bytes, memory_out);
}

kolo_status kolo_free(struct kolo_comm *comm, void *memory)
{
    if (memory == NULL)
        return KOLO_OK;
    if (comm == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_free: comm is NULL");
    kolo_comm_enter(comm);
    kolo_status status = kolo_heap_free(comm->heap, memory, tell_gone, comm);
    kolo_comm_leave(comm);
    return status;
}

void kolo_abort(struct kolo_comm *comm, const char *reason)
{
    char text[KOLO_DETAIL_MAX], who[KOLO_RANK_TEXT_MAX];
    if (comm == NULL)
        return;
    snprintf(text, sizeof(text), "%s aborted: %s", kolo_comm_rank_text(comm, comm->rank, who),
             reason != NULL && reason[0] != '\0' ? reason : "no reason given");
    kolo_comm_enter(comm);
    kolo_comm_fail(comm, KOLO_ERR_ABORTED, text, true);
    kolo_comm_leave(comm);
}
