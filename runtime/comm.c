// SPDX-License-Identifier: Apache-2.0
// Owns the memory of a communicator: its creation and end, its members and their names, its
// scratch. Also has the smallest public calls: kolo_rank, kolo_size, kolo_abort. Must never free
// what a running request still uses.
#include "runtime/board_hub.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/forks.h"
#include "base/log.h"
#include "runtime/finalized.h"
#include "runtime/group.h"
#include "runtime/nest.h"
#include "runtime/route_board.h"
#include "runtime/store_wire.h"

/* Scratch up to this size is kept between calls. */
static const size_t scratch_kept_bytes = 64u << 20;

void kolo_engine_tell_gone(void *context, uint64_t id)
{
    struct kolo_engine *engine = context;
    if (engine->endpoint)
        kolo_endpoint_span_gone(engine->endpoint, id);
}

static void free_scratch(struct kolo_comm *comm)
{
    struct kolo_engine *engine = comm->engine;
    struct kolo_comm_scratch *scratch = &comm->scratch;
    if (scratch->in_heap)
        (void)kolo_heap_free(engine->heap, scratch->memory, kolo_engine_tell_gone,
                             engine); /* it belongs to the request itself */
    else
        kolo_free_memory(scratch->memory);
    scratch->memory = NULL;
    scratch->bytes = 0;
    scratch->in_heap = false;
}

kolo_status kolo_comm_create(struct kolo_engine *engine, int size, struct kolo_comm **comm_out)
{
    size_t n = (size_t)size;
    struct kolo_comm *comm = kolo_calloc(1, sizeof *comm);
    if (!comm)
        return KOLO_ERR_NO_MEMORY;
    comm->engine = engine;
    comm->ranks = &comm->alone;
    if (size > 1) {
        comm->sequences.sent = kolo_calloc(2 * n, sizeof *comm->sequences.sent);
        comm->ranks = kolo_calloc(n, sizeof *comm->ranks);
    }
    if (!comm->ranks || (size > 1 && !comm->sequences.sent)) {
        kolo_comm_free(comm);
        return KOLO_ERR_NO_MEMORY;
    }
    *comm_out = comm;
    return KOLO_OK;
}

/* ---- the engine's lists ---- */

enum list {
    LISTED = offsetof(struct kolo_comm, listed),
    NUMBERED = offsetof(struct kolo_comm, numbered),
    BUSY = offsetof(struct kolo_comm, busy)
};

static struct kolo_comm_node *node_of(struct kolo_comm *comm, enum list list)
{
    return (struct kolo_comm_node *)(void *)((uint8_t *)comm + list);
}

static void enlist(struct kolo_comm **first, struct kolo_comm *comm, enum list list)
{
    *node_of(comm, list) = (struct kolo_comm_node){.next = *first, .is_in = true};
    if (*first)
        node_of(*first, list)->previous = comm;
    *first = comm;
}

static void unlist(struct kolo_comm **first, struct kolo_comm *comm, enum list list)
{
    struct kolo_comm_node *node = node_of(comm, list);
    if (node->previous)
        node_of(node->previous, list)->next = node->next;
    else
        *first = node->next;
    if (node->next)
        node_of(node->next, list)->previous = node->previous;
    node->is_in = false;
}

/* ---- from open to free ---- */

/** Frees what a communicator does not need because it has fewer members than it was created for. */
static void fit(struct kolo_comm *comm)
{
    bool is_identity = true;
    for (int rank = 0; rank < comm->size; rank++)
        is_identity = is_identity && comm->ranks[rank] == rank;
    if (comm->size == 1) {
        kolo_free_memory(comm->sequences.sent);
        comm->sequences.sent = NULL;
        comm->alone = comm->ranks[0];
    }
    if ((is_identity || comm->size == 1) && comm->ranks != &comm->alone)
        kolo_free_memory(comm->ranks);
    if (is_identity)
        comm->ranks = NULL;
    else if (comm->size == 1)
        comm->ranks = &comm->alone;
}

void kolo_comm_open(struct kolo_comm *comm, uint32_t number, int rank, int size)
{
    struct kolo_engine *engine = comm->engine;
    comm->early.is_there = true; /* a member may have opened it before this rank */
    comm->number = number;
    comm->rank = rank;
    comm->size = size;
    comm->scratch.direct_bytes = SIZE_MAX;
    comm->ended = (struct kolo_request){.comm = comm, .status = KOLO_OK};
    fit(comm);
    comm->sequences.received = comm->sequences.sent ? comm->sequences.sent + size : NULL;
    enlist(&engine->comms, comm, LISTED);
    enlist(&engine->numbered[number % KOLO_COMM_REMAINDERS], comm, NUMBERED);
}

void kolo_comm_close(struct kolo_comm *comm)
{
    struct kolo_engine *engine = comm->engine;
    uint32_t end_sequence = kolo_comm_end_sequence(comm);
    kolo_group_drop(comm);
    kolo_requests_calm(comm);
    for (struct kolo_request *request = engine->asyncs, *next; request; request = next) {
        next = request->next_async;
        if (request->comm != comm)
            continue;
        if (request->status == KOLO_AGAIN)
            kolo_request_end(request, KOLO_ERR_ABORTED);
        kolo_request_drop(request);
    }
    if (comm->hub)
        kolo_board_lent_end(comm->hub); /* kernels of a failed call were late then */
    kolo_hub_close(comm->hub);
    comm->hub = NULL;
    kolo_comm_tell_finalized(comm, end_sequence);
    kolo_endpoint_forget(engine->endpoint, kolo_comm_channel(comm, 0), KOLO_CHANNELS_PER_COMM);
    kolo_nest_close(comm);
}

void kolo_comm_free(struct kolo_comm *comm)
{
    if (!comm)
        return;
    if (comm->listed.is_in) { /* if it never was, the lock is not held */
        unlist(&comm->engine->comms, comm, LISTED);
        unlist(&comm->engine->numbered[comm->number % KOLO_COMM_REMAINDERS], comm, NUMBERED);
    }
    kolo_comm_set_idle(comm);
    free_scratch(comm);
    for (int rank = 0; comm->told.whys && rank < comm->size; rank++)
        kolo_free_memory(comm->told.whys[rank]);
    kolo_free_memory(comm->told.whys);
    kolo_free_memory(comm->told.local_ranks);
    kolo_free_memory(comm->flights);
    kolo_free_memory(comm->repeats);
    kolo_free_memory(comm->nest);
    kolo_free_memory(comm->finalized);
    kolo_free_memory(comm->half_made.ranks);
    kolo_choices_free(&comm->choices);
    kolo_free_memory(comm->sequences.sent);
    if (comm->ranks != &comm->alone)
        kolo_free_memory(comm->ranks);
    kolo_free_memory(comm);
}

void kolo_comm_set_busy(struct kolo_comm *comm)
{
    if (!comm->busy.is_in)
        enlist(&comm->engine->busy, comm, BUSY);
}

void kolo_comm_set_idle(struct kolo_comm *comm)
{
    if (comm->busy.is_in)
        unlist(&comm->engine->busy, comm, BUSY);
}

void kolo_comm_enter(struct kolo_comm *comm)
{
    kolo_engine_enter(comm->engine);
}

void kolo_comm_leave(struct kolo_comm *comm)
{
    kolo_engine_leave(comm->engine);
}

int kolo_comm_member(const struct kolo_comm *comm, int world_rank)
{
    if (!comm->ranks)
        return world_rank >= 0 && world_rank < comm->size ? world_rank : -1;
    for (int rank = 0; rank < comm->size; rank++)
        if (comm->ranks[rank] == world_rank)
            return rank;
    return -1;
}

const struct kolo_peer *kolo_comm_peer(const struct kolo_comm *comm, int rank)
{
    return &comm->engine->peers[kolo_comm_world_rank(comm, rank)];
}

void kolo_comm_count_local(struct kolo_comm *comm)
{
    uint64_t here = kolo_comm_peer(comm, comm->rank)->identity.host_id;
    comm->local_size = comm->local_rank = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        if (kolo_comm_peer(comm, rank)->identity.host_id != here)
            continue;
        comm->local_size++;
        comm->local_rank += rank < comm->rank;
    }
    comm->has_board = kolo_board_has(comm);
    comm->lends = comm->has_board && comm->engine->settings.cuda_ipc;
    comm->plan_is_auto = strcmp(comm->engine->settings.plan, "auto") == 0;
}

const char *kolo_comm_words(const struct kolo_comm *comm, char text[KOLO_COMM_WORDS_MAX])
{
    text[0] = '\0';
    if (comm->number != 0)
        snprintf(text, KOLO_COMM_WORDS_MAX, " in communicator %u (%s)", comm->number, comm->origin);
    return text;
}

const char *kolo_comm_rank_text(const struct kolo_comm *comm, int rank,
                                char text[KOLO_RANK_TEXT_MAX])
{
    if (rank < 0 || rank >= comm->size || kolo_comm_world_rank(comm, rank) == rank)
        return kolo_engine_rank_text(comm->engine, rank, text);
    const struct kolo_identity *identity = &kolo_comm_peer(comm, rank)->identity;
    snprintf(text, KOLO_RANK_TEXT_MAX, "rank %d (%d of communicator %u, %s, pid %d)",
             kolo_comm_world_rank(comm, rank), rank, comm->number, identity->host, identity->pid);
    return text;
}

kolo_status kolo_comm_link(const struct kolo_comm *comm, int member, kolo_deadline call,
                           struct kolo_link **link_out)
{
    struct kolo_endpoint *endpoint = comm->engine->endpoint;
    const int world_rank = kolo_comm_world_rank(comm, member);
    const bool is_of_shrink = comm->is_unmet && !comm->parent && comm->number != 0;
    *link_out = kolo_endpoint_link_up(endpoint, world_rank);
    if (*link_out) /* each step of a plan asks, so the clock is not read */
        return KOLO_OK;
    const kolo_deadline usual = kolo_deadline_in_ms(comm->engine->settings.timeout_ms);
    return kolo_endpoint_link(endpoint, world_rank, is_of_shrink || call > usual ? call : usual,
                              link_out);
}

/** Whether messages of @p bytes in scratch need one copy less, to some member, if the scratch is
 * from the heap. */
static bool may_be_direct(struct kolo_comm *comm, size_t bytes)
{
    const struct kolo_endpoint *endpoint = comm->engine->endpoint;
    struct kolo_comm_scratch *scratch = &comm->scratch;
    for (; scratch->direct_asked < comm->size && bytes < scratch->direct_bytes;
         scratch->direct_asked++) {
        if (scratch->direct_asked == comm->rank)
            continue;
        size_t direct =
            kolo_endpoint_direct_bytes(endpoint, kolo_comm_world_rank(comm, scratch->direct_asked));
        if (direct < scratch->direct_bytes)
            scratch->direct_bytes = direct;
    }
    return bytes >= scratch->direct_bytes;
}

static kolo_status new_scratch(struct kolo_comm *comm, size_t bytes)
{
    struct kolo_comm_scratch *scratch = &comm->scratch;
    free_scratch(comm);
    if (!may_be_direct(comm, bytes)) {
        scratch->memory = kolo_aligned(64, bytes);
        if (!scratch->memory)
            return KOLO_ERR_NO_MEMORY;
    } else {
        kolo_status status = kolo_heap_alloc_plain(comm->engine->heap, bytes, &scratch->memory);
        if (status != KOLO_OK)
            return status;
        scratch->in_heap = true;
    }
    scratch->bytes = bytes;
    return KOLO_OK;
}

kolo_status kolo_comm_scratch(struct kolo_comm *comm, struct kolo_request *request, size_t bytes)
{
    bool is_free = comm->collectives.first == NULL; /* collectives run one after the other */
    bool is_kept = bytes <= scratch_kept_bytes;
    if (bytes == 0)
        return KOLO_OK;
    if (is_free && is_kept && bytes > comm->scratch.bytes) {
        kolo_status status = new_scratch(comm, bytes);
        if (status != KOLO_OK)
            return status;
    }
    if (bytes <= comm->scratch.bytes) {
        request->scratch = comm->scratch.memory;
        return KOLO_OK;
    }
    /* Not from the heap: allocating and registering that for a single call costs more than a
     * copy. */
    request->own_scratch = kolo_aligned(64, bytes);
    request->scratch = request->own_scratch;
    return request->own_scratch ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

kolo_status kolo_comm_flights(struct kolo_comm *comm)
{
    size_t strands = comm->size == 1 ? 1 : 2; /* the call of a single rank needs no closing plan */
    if (!comm->flights)
        comm->flights = kolo_calloc(strands * KOLO_WINDOW_MAX, sizeof *comm->flights);
    return comm->flights ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

kolo_status kolo_comm_check(const struct kolo_comm *comm, const char *function)
{
    char who[KOLO_RANK_TEXT_MAX];
    if (!comm)
        return kolo_fail(KOLO_ERR_INVALID, "%s: comm is NULL", function);
    if (comm->engine->forks == kolo_forks())
        return KOLO_OK;
    return kolo_fail(
        KOLO_ERR_INVALID,
        "%s: this process (pid %d) is a child, by fork, of %s, which alone can use its "
        "communicators: call it there",
        function, (int)getpid(), kolo_comm_rank_text(comm, comm->rank, who));
}

int kolo_rank(const struct kolo_comm *comm)
{
    return comm ? comm->rank : -1;
}

int kolo_size(const struct kolo_comm *comm)
{
    return comm ? comm->size : -1;
}

void kolo_abort(struct kolo_comm *comm, const char *reason)
{
    char text[KOLO_DETAIL_MAX], who[KOLO_RANK_TEXT_MAX];
    if (!comm)
        return;
    if (kolo_comm_check(comm, "kolo_abort") != KOLO_OK) {
        KOLO_WARN("%s", kolo_error_detail()); /* this function returns no status */
        return;
    }
    snprintf(text, sizeof text, "%s aborted: %s", kolo_comm_rank_text(comm, comm->rank, who),
             reason && reason[0] != '\0' ? reason : "no reason given");
    kolo_text_clean(text); /* the same text as the others get */
    kolo_comm_enter(comm);
    kolo_comm_fail(comm, KOLO_ERR_ABORTED, text);
    kolo_comm_leave(comm);
}
