// SPDX-License-Identifier: Apache-2.0
// Members that have finalized a communicator of kolo_split, kolo_dup or kolo_shrink while others
// may still make calls on it. Must never fail a call that can still complete with what was already
// sent.
//
// A member that finalizes sends the sequence number of the first collective in which it does not
// take part, over its existing links. A member that is in that collective or a later one, or waits
// for a message from it, cannot complete; it fails the communicator at once, which tells all
// members. The existing links are enough: the members have met in a closed barrier, whose links
// connect them all. So as long as some members are in a call that others will not make, one of the
// former has a link to one of the latter.
//
// The announcement arrives after everything else that its sender has sent. But completions without
// a message (a lent buffer that was returned) are seen only by the next poll, so nothing is judged
// in the poll in which the announcement arrived. A send may still be going into the link's buffers,
// since a message that nobody receives may be sent; it fails once it stalls.
#include "runtime/finalized.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "runtime/store_stall.h"

struct kolo_finalized {
    uint64_t turn; /* the engine's poll in which the latest announcement arrived */
    int first;     /* the member that takes part in the fewest collectives */
    struct {
        bool is_gone;
        uint32_t sequence; /* the first collective in which it does not take part */
    } members[];
};

/** Sequence numbers wrap around. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

uint32_t kolo_comm_end_sequence(const struct kolo_comm *comm)
{
    const struct kolo_request *running = comm->collectives.first;
    return running ? running->call.sequence : comm->sequences.collective;
}

void kolo_comm_tell_finalized(struct kolo_comm *comm, uint32_t end_sequence)
{
    if (comm->size > 1 && comm->failure.status == KOLO_OK) /* otherwise they know more already */
        kolo_endpoint_finalized(comm->engine->endpoint, comm->ranks, comm->size, comm->number,
                                end_sequence);
}

void kolo_comm_tell_store(struct kolo_engine *engine, uint32_t number, const int *ranks, int size)
{
    uint8_t *members = kolo_calloc(kolo_stall_bits_bytes(engine->size), 1);
    for (int i = 0; members && i < size; i++) {
        int rank = ranks ? ranks[i] : i;
        members[rank / 8] |= (uint8_t)(1u << (rank % 8));
    }
    if (members && size > 1) /* otherwise a shrink waits for its deadline */
        kolo_store_client_finalized(engine->store, number, members);
    kolo_free_memory(members);
}

void kolo_comm_hear_finalized(struct kolo_comm *comm, int rank, uint32_t sequence)
{
    struct kolo_finalized *finalized = comm->finalized;
    size_t n = (size_t)comm->size;
    if (!finalized) {
        finalized = kolo_calloc(1, sizeof *finalized + n * sizeof finalized->members[0]);
        if (!finalized)
            return; /* its calls end by their deadlines */
        finalized->first = rank;
        comm->finalized = finalized;
    }
    finalized->members[rank].is_gone = true;
    finalized->members[rank].sequence = sequence;
    if (is_before(sequence, finalized->members[finalized->first].sequence))
        finalized->first = rank;
    finalized->turn = comm->engine->turns;
}

static void say(struct kolo_comm *comm, int rank)
{
    char who[KOLO_RANK_TEXT_MAX];
    kolo_comm_suspect(comm, -1, KOLO_ERR_PEER, 0,
                      "%s has finalized communicator %u (%s), where sequence %u was its last",
                      kolo_comm_rank_text(comm, rank, who), comm->number, comm->origin,
                      comm->finalized->members[rank].sequence - 1);
}

static bool is_of_gone(const struct kolo_comm *comm, const struct kolo_request *request,
                       enum kolo_call_kind kind)
{
    return request->call.kind == kind && comm->finalized->members[request->call.peer].is_gone;
}

void kolo_comm_check_finalized(struct kolo_comm *comm)
{
    const struct kolo_finalized *finalized = comm->finalized;
    const struct kolo_request *running = comm->collectives.first;
    if (finalized->turn == comm->engine->turns || comm->failure.status != KOLO_OK)
        return;
    if (kolo_comm_is_part(comm))
        return; /* the outer one is checked */
    if (running &&
        !is_before(running->call.sequence, finalized->members[finalized->first].sequence))
        say(comm, finalized->first);
    /* a message that is being copied to a device has arrived */
    for (const struct kolo_request *at = comm->messages.list.first; at; at = at->next)
        if (is_of_gone(comm, at, KOLO_CALL_RECV) && at->stage != KOLO_STAGING_OUT)
            say(comm, at->call.peer);
}

void kolo_comm_check_stalled_send(struct kolo_comm *comm, const struct kolo_request *request)
{
    if (is_of_gone(comm, request, KOLO_CALL_SEND))
        say(comm, request->call.peer);
}
