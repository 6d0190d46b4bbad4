// SPDX-License-Identifier: Apache-2.0
// Turns calls into records of the timeline. Owns what is recorded of a call, and when: a collective
// begins when it is submitted, and enters when its turn has come (at once, unless other collectives
// of its communicator are before it or its data is being copied from a device); a message begins
// when it is submitted. Must never be called if there is no timeline: each caller checks that
// first, which is all that a job without a timeline pays.
#include "runtime/timeline_call.h"

#include "base/clock.h"

/** The bytes that the call moves, as benchmarks count them: of all blocks together. */
static uint64_t bytes_of(const struct kolo_request *request)
{
    const struct kolo_call *call = &request->call;
    uint64_t count = call->count;
    switch ((int)call->kind) {
    case KOLO_CALL_ALLGATHER:
    case KOLO_CALL_REDUCE_SCATTER:
    case KOLO_CALL_GATHER:
    case KOLO_CALL_SCATTER:
    case KOLO_CALL_ALLTOALL:
    case KOLO_CALL_SPLIT:
    case KOLO_CALL_DUP:
        count *= (uint64_t)request->comm->size;
        break;
    case KOLO_CALL_ALLTOALLV:
        for (int rank = 0; request->args.counts && rank < request->comm->size; rank++)
            count += request->args.counts[rank];
        break;
    default:
        break;
    }
    return count * kolo_dtype_bytes(call->dtype);
}

/** The transport of the communicator: the one to the first rank of another host, since that one
 * counts. */
static const char *joined_by(struct kolo_comm *comm)
{
    int peer = comm->rank > 0 ? 0 : comm->size - 1;
    if (comm->told.joined_by)
        return comm->told.joined_by;
    if (comm->size == 1)
        return comm->told.joined_by = "self";
    const uint64_t here = kolo_comm_peer(comm, comm->rank)->identity.host_id;
    for (int rank = 0; comm->local_size < comm->size && rank < comm->size; rank++)
        if (kolo_comm_peer(comm, rank)->identity.host_id != here) {
            peer = rank;
            break;
        }
    return comm->told.joined_by =
               kolo_endpoint_goes_by(comm->engine->endpoint, kolo_comm_world_rank(comm, peer));
}

static const char *transport_of(const struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    if (request->plan)
        return request->plan->on_board ? "board" : joined_by(comm);
    return kolo_endpoint_goes_by(comm->engine->endpoint,
                                 kolo_comm_world_rank(comm, request->call.peer));
}

static enum kolo_timeline_shape shape_of(const struct kolo_request *request)
{
    if (request->call.kind == KOLO_CALL_SEND)
        return KOLO_SHAPE_SEND;
    if (request->call.kind == KOLO_CALL_RECV)
        return KOLO_SHAPE_RECV;
    if (request->call.kind ==
        KOLO_CALL_FINALIZE) /* a rank that leaves waits for others, but only for a limited time */
        return KOLO_SHAPE_OWN;
    return kolo_plan_is_open(request->plan, &request->args) ? KOLO_SHAPE_ROOT : KOLO_SHAPE_ALL;
}

/** The number of the call in its communicator, or of the message among those to or from its
 * peer. */
static uint32_t sequence_of(const struct kolo_request *request)
{
    const struct kolo_call *call = &request->call;
    const struct kolo_comm *comm = request->comm;
    if (request->plan)
        return call->sequence;
    return call->kind == KOLO_CALL_SEND ? comm->sequences.sent[call->peer]
                                        : comm->sequences.received[call->peer];
}

static int32_t peer_of(const struct kolo_request *request)
{
    const struct kolo_call *call = &request->call;
    if (!request->plan)
        return kolo_comm_world_rank(request->comm, call->peer);
    return kolo_call_is_rooted(call->kind) ? kolo_comm_world_rank(request->comm, call->root) : -1;
}

uint64_t kolo_timeline_request(const struct kolo_request *request, bool waits_for_turn)
{
    struct kolo_timeline *timeline = request->comm->engine->timeline;
    const struct kolo_call *call = &request->call;
    const unsigned flags = (request->is_async ? KOLO_TIMELINE_IS_ASYNC : 0u) |
                           (request->parts ? KOLO_TIMELINE_IS_FUSED : 0u);
    const bool is_own_op = (unsigned)call->op >= KOLO_REDOPS;
    const struct kolo_timeline_record record = {
        .comm = request->comm->number,
        .begin_ns = kolo_now_ns(),
        .enter_ns = waits_for_turn ? -1 : 0,
        .bytes = bytes_of(request),
        .sequence = sequence_of(request),
        .size = (uint32_t)request->comm->size,
        .peer = peer_of(request),
        .dtype = (uint32_t)call->dtype,
        .name = kolo_timeline_name(timeline, call->name),
        .kind = kolo_timeline_word(timeline, kolo_call_text(call->kind)),
        .plan = request->plan ? kolo_timeline_word(timeline, request->plan->name) : 0,
        .transport = kolo_timeline_word(timeline, transport_of(request)),
        .op = kolo_call_reduces(call->kind) && !is_own_op ? (uint8_t)call->op : KOLO_TIMELINE_NO_OP,
        .shape_flags = (uint8_t)((unsigned)shape_of(request) | flags << 4)};
    return kolo_timeline_begin(timeline, &record);
}

/** The rank that a wait for the request depends on: the sender of what it receives, once it has its
 * number; else -1. */
static int32_t awaited_peer(const struct kolo_request *request)
{
    const bool is_numbered = request->call.kind == KOLO_CALL_RECV && !request->staged;
    return is_numbered ? kolo_comm_world_rank(request->comm, request->call.peer) : -1;
}

uint64_t kolo_timeline_wait(const struct kolo_request *request)
{
    const struct kolo_comm *comm = request->comm;
    struct kolo_timeline *timeline = comm->engine->timeline;
    const struct kolo_timeline_record record = {
        .comm = comm->number,
        .begin_ns = kolo_now_ns(),
        .sequence = request->call.sequence,
        .size = (uint32_t)comm->size,
        .peer = awaited_peer(request),
        .kind = kolo_timeline_word(timeline, "wait"),
        .plan = request->plan ? kolo_timeline_word(timeline, request->plan->name) : 0,
        .op = KOLO_TIMELINE_NO_OP,
        .shape_flags = KOLO_SHAPE_WAIT};
    return kolo_timeline_begin(timeline, &record);
}

uint64_t kolo_timeline_start(const struct kolo_engine *engine, int64_t begun_ns)
{
    const struct kolo_timeline_record record = {.comm = KOLO_TIMELINE_NO_COMM,
                                                .begin_ns = begun_ns,
                                                .size = (uint32_t)engine->size,
                                                .peer = -1,
                                                .kind =
                                                    kolo_timeline_word(engine->timeline, "init"),
                                                .op = KOLO_TIMELINE_NO_OP,
                                                .shape_flags = KOLO_SHAPE_ALL};
    return kolo_timeline_begin(engine->timeline, &record);
}
