// SPDX-License-Identifier: Apache-2.0
// Collectives that run in the order of a CUDA stream of the program (opts.stream): they begin when
// the stream's earlier work is done, and its later work waits until they are over, while the
// calling thread waits for neither. Owns a request's place in the stream. Must never leave a stream
// waiting for a request that is over, however it ended.
//
// How it works: at each start a gate is inserted into the stream (memory/lane.h), without the lock:
// if the stream's queue is full the driver waits there for the stream, and that may wait for a call
// which needs the lock. Only one thread at a time of a communicator inserts a gate and submits its
// call, so calls are in the stream in the order in which they are submitted. The driver reports
// when the stream has reached the gate. Only then is the request's input copied
// (runtime/staging.c), so neither the lanes nor other calls ever wait for a stream. The gate is
// opened when the request ends. A request that follows a stream has an entry among its staged
// buffers even if all of them are in host memory, so that the code which asks whether buffers are
// ready also asks for the stream.
#include "runtime/stream.h"

#include "base/alloc.h"
#include "memory/gate_watch.h"
#include "runtime/staging_private.h"

struct kolo_follow {
    void *stream;
    struct kolo_lane *lane; /* the lane of the stream's context */
    struct kolo_gate *gate; /* NULL: the request is not running */
};

/** Adds an entry of no bytes. Held: lock. */
static kolo_status add_entry(struct kolo_request *request, struct kolo_lane *lane)
{
    struct kolo_staged *staged = kolo_calloc(1, sizeof *staged);
    if (!staged)
        return KOLO_ERR_NO_MEMORY;
    staged->lane = lane;
    staged->next = request->staged;
    request->staged = staged;
    return KOLO_OK;
}

kolo_status kolo_follow_prepare(struct kolo_request *request, void *stream)
{
    struct kolo_comm *comm = request->comm;
    struct kolo_pointer pointer;
    kolo_status status = kolo_stream_look(stream, &pointer);
    if (status != KOLO_OK)
        return status;
    kolo_heap_pin(comm->engine->heap, &pointer); /* now, not while the stream waits */
    struct kolo_follow *follow = kolo_calloc(1, sizeof *follow);
    if (!follow)
        return KOLO_ERR_NO_MEMORY;
    follow->stream = stream;
    kolo_comm_enter(comm);
    status = kolo_staging_lane(comm->engine, &pointer, &follow->lane);
    if (status == KOLO_OK)
        status = add_entry(request, follow->lane);
    kolo_comm_leave(comm);
    if (status == KOLO_OK)
        request->follow = follow;
    else
        kolo_free_memory(follow);
    return status;
}

kolo_status kolo_follow_enter(struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    const kolo_deadline deadline = kolo_deadline_in_ms(request->timeout_ms);
    const kolo_status status = kolo_turn_take(comm, &comm->placing, deadline);
    if (status != KOLO_OK && comm->failure.status != KOLO_OK)
        return kolo_comm_failed(comm, request);
    if (status == KOLO_ERR_TIMEOUT)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "another thread's call on this communicator has not been put into its "
                         "stream within %d ms: is the stream full of work that does not end?",
                         request->timeout_ms);
    return status;
}

void kolo_follow_leave(struct kolo_comm *comm)
{
    kolo_turn_give(comm, &comm->placing);
}

kolo_status kolo_follow_place(struct kolo_request *request, bool holds)
{
    struct kolo_follow *follow = request->follow;
    struct kolo_gate *gate = NULL;
    (void)kolo_direct_buffers_allow(request); /* ask the driver now, not while the stream waits */
    kolo_comm_leave(request->comm);
    const kolo_status status =
        kolo_lane_place(follow->lane, follow->stream, holds, request->timeout_ms, &gate);
    kolo_comm_enter(request->comm);
    follow->gate = gate;
    const bool is_refused = status == KOLO_ERR_UNSUPPORTED || status == KOLO_ERR_INVALID;
    return status == KOLO_OK || is_refused ? status : kolo_staging_fail(request, status);
}

kolo_status kolo_follow_reached(const struct kolo_request *request)
{
    return kolo_gate_reached(request->follow->gate);
}

bool kolo_follow_was_let_go(const struct kolo_request *request)
{
    const struct kolo_gate *gate = request->follow ? request->follow->gate : NULL;
    return gate && kolo_gate_was_let_go(gate);
}

void kolo_follow_end(struct kolo_request *request)
{
    struct kolo_gate *gate = request->follow->gate;
    request->follow->gate = NULL;
    if (gate)
        kolo_gate_open(gate);
}

void kolo_follow_drop(struct kolo_request *request)
{
    if (!request->follow)
        return;
    kolo_follow_end(request);
    kolo_free_memory(request->follow);
    request->follow = NULL;
}
