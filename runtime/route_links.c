// SPDX-License-Identifier: Apache-2.0
// The route over links: a plan run step by step, and messages between two ranks. A step is two
// works, one each way; when both are over the next begins. A plan that does not close is followed
// by the barrier, under the same description.
#include "runtime/comm.h"

#include <stdio.h>
#include <string.h>

static bool is_message(const struct kolo_request *request)
{
    return request->plan == NULL;
}

/* ---- one step ---- */

static uint8_t *address(const struct kolo_request *request, const struct kolo_slice *slice)
{
    size_t offset = slice->offset * kolo_dtype_bytes(request->call.dtype);
    uint8_t *base = NULL;
    switch (slice->buffer) {
    case KOLO_BUFFER_SEND:
        base = (uint8_t *)(uintptr_t)request->send; /* plans never write it */
        break;
    case KOLO_BUFFER_RECV:
        base = request->recv;
        break;
    case KOLO_BUFFER_SCRATCH:
        base = request->scratch;
        break;
    case KOLO_BUFFERS:
        break;
    }
    return base != NULL ? base + offset : NULL;
}

static uint32_t channel_of(const struct kolo_request *request)
{
    return kolo_comm_channel(request->comm,
                             is_message(request) ? KOLO_CHANNEL_MESSAGE : KOLO_CHANNEL_COLLECTIVE);
}

/** The link to @p peer, or a suspicion and NULL; *work_out then says why. */
static struct kolo_link *link_to(struct kolo_request *request, int peer, struct kolo_work *work)
{
    struct kolo_link *link = NULL;
    kolo_status status =
        kolo_endpoint_link(request->comm->engine->endpoint, kolo_comm_world(request->comm, peer),
                           request->deadline, &link);
    if (status == KOLO_OK)
        return link;
    *work = (struct kolo_work){.status = status};
    kolo_comm_suspect(request->comm, peer, status, KOLO_VERDICT_GRACE_MS, "%s",
                      kolo_error_detail());
    return NULL;
}

static void post_receive(struct kolo_request *request, const struct kolo_step *step)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    struct kolo_action action = {.kind = step->reduces ? KOLO_REDUCE : KOLO_COPY};
    struct kolo_link *link = link_to(request, step->from, &request->in);
    if (step->reduces) {
        action.dtype = request->call.dtype;
        action.op = request->call.op;
        action.local = address(request, &step->local);
        action.incoming_first = step->incoming_first;
    }
    if (link != NULL)
        kolo_link_recv(link, channel_of(request), &request->desc, address(request, &step->in),
                       step->in.count * element_bytes, &action, &request->in);
}

static void post_send(struct kolo_request *request, const struct kolo_step *step)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    struct kolo_link *link = link_to(request, step->to, &request->out);
    if (link != NULL)
        kolo_link_send(link, channel_of(request), &request->desc, address(request, &step->out),
                       step->out.count * element_bytes, &request->out);
}

static void run_local(const struct kolo_request *request, const struct kolo_step *step)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    if (step->copy_to.count > 0) {
        const uint8_t *from = address(request, &step->copy_from);
        uint8_t *to = address(request, &step->copy_to);
        if (from != to)
            memcpy(to, from, step->copy_to.count * element_bytes);
    }
    if (step->finish.count > 0 && request->call.op == KOLO_AVERAGE)
        kolo_divide(address(request, &step->finish), step->finish.count, request->call.dtype,
                    (size_t)request->comm->size);
}

static void run_step(struct kolo_request *request, const struct kolo_step *step)
{
    run_local(request, step);
    request->in.status = request->out.status = KOLO_OK;
    request->from = step->from;
    request->to = step->to;
    if (step->from >= 0)
        post_receive(request, step);
    if (step->to >= 0)
        post_send(request, step);
}

/* ---- advancing ---- */

/** A work failed. Events have told why, unless it is a plain error of the link's. */
static void explain(struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    char who[KOLO_RANK_TEXT_MAX];
    bool is_in = request->in.status != KOLO_OK && request->in.status != KOLO_AGAIN;
    kolo_status status = is_in ? request->in.status : request->out.status;
    int peer = is_in ? request->from : request->to;
    if (comm->failure.status != KOLO_OK || comm->suspicion.status != KOLO_OK)
        return;
    kolo_comm_rank_text(comm, peer, who);
    /* a rank that failed leaves too, and what it told the store may still be on its way */
    kolo_comm_suspect(comm, peer, status, KOLO_VERDICT_GRACE_MS, "%s%s%s", who,
                      status == KOLO_ERR_PEER ? " has left" : ": ",
                      status == KOLO_ERR_PEER ? "" : kolo_status_text(status));
}

/** True: the present step is over. */
static bool step_is_over(struct kolo_request *request)
{
    kolo_status in = request->in.status, out = request->out.status;
    if (in == KOLO_OK && out == KOLO_OK)
        return true;
    if ((in != KOLO_OK && in != KOLO_AGAIN) || (out != KOLO_OK && out != KOLO_AGAIN))
        explain(request);
    return false;
}

/** Runs steps until one has to wait. True: the request is over. */
static bool advance_collective(struct kolo_request *request)
{
    struct kolo_step step;
    while (step_is_over(request)) {
        while (request->index == request->nsteps) {
            if (request->plan->closes || request->args.size == 1)
                return true;
            request->plan = kolo_plan_find(KOLO_COLLECTIVE_BARRIER, "dissemination");
            request->index = 0;
            request->nsteps = request->plan->nsteps(&request->args);
        }
        request->plan->step(&request->args, request->index++, &step);
        request->moves++;
        run_step(request, &step);
    }
    return false;
}

static void begin_message(struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    int peer = request->call.peer;
    struct kolo_slice slice = {KOLO_BUFFER_SEND, 0, (size_t)request->call.count};
    struct kolo_step step;
    kolo_step_clear(&step);
    if (request->call.kind == KOLO_CALL_SEND) {
        request->call.sequence = comm->sent[peer]++;
        step.to = peer;
        step.out = slice;
    } else {
        request->call.sequence = comm->received[peer]++;
        slice.buffer = KOLO_BUFFER_RECV;
        step.from = peer;
        step.in = slice;
    }
    kolo_call_pack(&request->call, &request->desc);
    run_step(request, &step);
}

static void links_begin(struct kolo_request *request)
{
    request->from = request->to = -1;
    if (is_message(request))
        begin_message(request);
}

static bool links_advance(struct kolo_request *request)
{
    return is_message(request) ? step_is_over(request) : advance_collective(request);
}

static void links_cancel(struct kolo_request *request)
{
    if (request->in.status == KOLO_AGAIN)
        kolo_work_cancel(&request->in);
    if (request->out.status == KOLO_AGAIN)
        kolo_work_cancel(&request->out);
}

static int links_waits_for(const struct kolo_request *request, int peers[], int capacity)
{
    int count = 0;
    if (request->in.status == KOLO_AGAIN && count < capacity)
        peers[count++] = request->from;
    if (request->out.status == KOLO_AGAIN && count < capacity)
        peers[count++] = request->to;
    return count;
}

static void describe_wait(const struct kolo_request *request, int peer,
                          const struct kolo_work *work, const char *what, char *text,
                          size_t capacity)
{
    char who[KOLO_RANK_TEXT_MAX], link[256];
    if (work->link != NULL)
        kolo_link_describe(work->link, link, sizeof(link));
    else
        snprintf(link, sizeof(link), "not connected, %zu of %zu bytes %s", work->bytes_done,
                 work->bytes, what);
    snprintf(text, capacity, "%s: %s", kolo_comm_rank_text(request->comm, peer, who), link);
}

static void links_describe(const struct kolo_request *request, char *text, size_t capacity)
{
    text[0] = '\0';
    if (request->in.status == KOLO_AGAIN)
        describe_wait(request, request->from, &request->in, "received", text, capacity);
    else if (request->out.status == KOLO_AGAIN)
        describe_wait(request, request->to, &request->out, "sent", text, capacity);
}

static uint64_t links_moves(const struct kolo_request *request)
{
    return request->moves + request->in.bytes_done + request->out.bytes_done;
}

const struct kolo_route kolo_route_links = {
    .begin = links_begin,
    .advance = links_advance,
    .cancel = links_cancel,
    .waits_for = links_waits_for,
    .describe = links_describe,
    .moves = links_moves,
};
