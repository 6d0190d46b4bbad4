// SPDX-License-Identifier: Apache-2.0
// The route over links: runs plans step by step, and messages between two ranks.
//
// A step has at most two transfers ("works"), one in each direction. It begins when all steps
// before it are over, except for the last few, as many as the plan allows (`after`). Transfers in
// flight are kept in a ring whose size is the plan's window.
//
// If a plan does not close by itself, the plan that closes it (kolo_plan_closing) runs beside it,
// on a channel of its own and with the same description; the call is over when both are. If both
// begin with a message to the same rank, these leave together. Most broadcasts have no closing
// plan: a rank has finished when it has received its data and passed it on, so it may be some
// broadcasts ahead of other ranks.
#include "runtime/comm.h"

#include <stdio.h>
#include <string.h>

#include "memory/fold.h"
#include "runtime/own_ops.h"
#include "runtime/staging.h"

static bool is_direct(const struct kolo_request *request)
{
    return request->stage == KOLO_STAGING_DIRECT;
}

/* ---- one step ---- */

uint8_t *kolo_slice_address(const struct kolo_request *request, const struct kolo_slice *slice)
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
    return base ? base + offset : NULL;
}

/** Returns the link to @p peer. On failure it returns NULL, suspects the peer, and stores the
 * status in @p work. */
static struct kolo_link *link_to(struct kolo_request *request, int peer, struct kolo_work *work)
{
    struct kolo_link *link = NULL;
    kolo_status status = kolo_comm_link(request->comm, peer, request->deadline, &link);
    if (status == KOLO_OK)
        return link;
    *work = (struct kolo_work){.status = status};
    kolo_comm_suspect_here(request->comm, peer, status);
    return NULL;
}

static void post_receive(struct kolo_request *request, const struct kolo_strand *strand,
                         const struct kolo_step *step, struct kolo_work *work)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    struct kolo_action action = {.kind = step->reduces ? KOLO_REDUCE : KOLO_COPY};
    uint8_t *into = kolo_slice_address(request, &step->in);
    struct kolo_link *link = link_to(request, step->from, work);
    if (is_direct(request))
        action.landing = kolo_staging_address(request, into);
    if (step->reduces) {
        action.dtype = request->call.dtype;
        action.op = request->call.op;
        action.own = kolo_own_operator(request);
        action.local = kolo_slice_address(request, &step->local);
        action.incoming_first = step->incoming_first;
    }
    struct kolo_desc desc = kolo_call_message(&request->call, &request->desc, step->in.count);
    if (link)
        kolo_link_recv(link, kolo_comm_channel(request->comm, strand->channel), &desc, into,
                       step->in.count * element_bytes, &action, work);
}

/* Messages up to this length take a note along; of 512 KiB it cost a few per cent. */
enum { NOTED_BYTES_MAX = 64 << 10 };

static kolo_status open_channel(const struct kolo_request *request, int peer)
{
    const struct kolo_comm *comm = request->comm;
    struct kolo_link *link =
        peer < 0 ? NULL
                 : kolo_endpoint_link_up(comm->engine->endpoint, kolo_comm_world_rank(comm, peer));
    return link ? kolo_link_open_channel(link, kolo_comm_channel(comm, KOLO_CHANNEL_COLLECTIVE))
                : KOLO_OK;
}

kolo_status kolo_links_open_channels(const struct kolo_request *request)
{
    const struct kolo_plan *plan = request->plan;
    const size_t nsteps = plan->nsteps(&request->args);
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < nsteps && status == KOLO_OK; i++) {
        struct kolo_step step;
        plan->step(&request->args, i, &step);
        status = open_channel(request, step.from);
        if (status == KOLO_OK)
            status = open_channel(request, step.to);
    }
    return status;
}

static bool advance_strand(struct kolo_request *request, struct kolo_strand *strand);

/** Whether a message that is about to go to @p peer is the plan's first, and the closing plan
 * begins with a note to the same rank, which can leave together with it. */
static bool takes_note(const struct kolo_request *request, const struct kolo_strand *strand,
                       const struct kolo_link *link, int peer)
{
    const struct kolo_strand *closing = &request->closing;
    struct kolo_step first;
    if (strand != &request->main || strand->next != 1 || !closing->plan || closing->next > 0 ||
        closing->nsteps == 0 || !kolo_link_gathers(link))
        return false;
    closing->plan->step(&request->args, 0, &first);
    return first.to == peer;
}

/** Begins the closing plan, and only queues what it sends: a short call takes half as long again if
 * its data and its note are a system call each. */
static void begin_queued(struct kolo_request *request)
{
    request->closing.queues = true;
    (void)advance_strand(request, &request->closing);
    request->closing.queues = false;
}

static void post_send(struct kolo_request *request, const struct kolo_strand *strand,
                      const struct kolo_step *step, struct kolo_work *work)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    struct kolo_link *link = link_to(request, step->to, work);
    struct kolo_desc desc = kolo_call_message(&request->call, &request->desc, step->out.count);
    const uint8_t *from = kolo_slice_address(request, &step->out);
    const uint8_t *there = is_direct(request) && step->out.count > 0
                               ? kolo_staging_address(request, (uint8_t *)(uintptr_t)from)
                               : NULL;
    if (link && step->out.count * element_bytes <= NOTED_BYTES_MAX &&
        takes_note(request, strand, link, step->to))
        begin_queued(request);
    if (link)
        (strand->queues ? kolo_link_queue : kolo_link_send)(
            link, kolo_comm_channel(request->comm, strand->channel), &desc, there ? there : from,
            step->out.count * element_bytes, work);
}

static void run_fold(const struct kolo_request *request, const struct kolo_folding *folding)
{
    size_t stride = folding->stride * kolo_dtype_bytes(request->call.dtype);
    const uint8_t *others = kolo_slice_address(request, &folding->others);
    const void *in[KOLO_FOLD_MAX];
    void *out = kolo_slice_address(request, &folding->out);
    struct kolo_fold fold = {.dtype = request->call.dtype,
                             .op = request->call.op,
                             .own = kolo_own_operator(request),
                             .divisor = request->divisor};
    for (int way = 0; way < folding->ways; way++)
        in[way] = way == folding->own
                      ? kolo_slice_address(request, &folding->mine)
                      : others + (size_t)(way < folding->own ? way : way - 1) * stride;
    kolo_fold(&fold, &out, 1, in, (size_t)folding->ways, folding->out.count, KOLO_STORE_CACHED);
}

/** In a world of one, an average is the data itself, and truth values become 1 or 0. */
static void finish_alone(const struct kolo_request *request, const struct kolo_slice *slice)
{
    void *data = kolo_slice_address(request, slice);
    const void *in = data;
    const struct kolo_fold fold = {
        .dtype = request->call.dtype, .op = request->call.op, .own = kolo_own_operator(request)};
    kolo_fold(&fold, &data, 1, &in, 1, slice->count, KOLO_STORE_CACHED);
}

static void run_local(const struct kolo_request *request, const struct kolo_step *step)
{
    size_t element_bytes = kolo_dtype_bytes(request->call.dtype);
    if (step->copy_to.count > 0) {
        const uint8_t *from = kolo_slice_address(request, &step->copy_from);
        uint8_t *to = kolo_slice_address(request, &step->copy_to);
        if (from != to)
            memcpy(to, from, step->copy_to.count * element_bytes);
    }
    if (step->fold.ways > 0)
        run_fold(request, &step->fold);
    if (!kolo_step_finishes(request, step) || is_direct(request))
        return;
    if (request->args.size == 1)
        finish_alone(request, &step->finish);
    else
        kolo_divide(kolo_slice_address(request, &step->finish), step->finish.count,
                    request->call.dtype, request->divisor);
}

static void run_step(struct kolo_request *request, struct kolo_strand *strand,
                     const struct kolo_step *step)
{
    struct kolo_flight *flight = &strand->flights[strand->next++ % strand->window];
    if (!is_direct(request))
        run_local(request, step);
    flight->in.status = flight->out.status = KOLO_OK;
    flight->from = step->from;
    flight->to = step->to;
    if (step->from >= 0)
        post_receive(request, strand, step, &flight->in);
    if (step->to >= 0)
        post_send(request, strand, step, &flight->out);
    request->stall.moves++;
}

/* ---- advancing ---- */

static bool has_failed(const struct kolo_work *work)
{
    return work->status != KOLO_OK && work->status != KOLO_AGAIN;
}

/** A transfer failed. Events have already given the reason, unless it is a plain error of the
 * link. */
static void explain(struct kolo_request *request, const struct kolo_flight *flight)
{
    struct kolo_comm *comm = request->comm;
    char who[KOLO_RANK_TEXT_MAX];
    kolo_status status = has_failed(&flight->in) ? flight->in.status : flight->out.status;
    int peer = has_failed(&flight->in) ? flight->from : flight->to;
    if (comm->failure.status != KOLO_OK || comm->suspicion.status != KOLO_OK)
        return;
    if (status != KOLO_ERR_PEER) {
        kolo_comm_suspect_link(comm, peer, status, kolo_status_text(status));
        return;
    }
    /* a rank that failed also leaves, and its report to the store may still be on its way */
    kolo_comm_suspect(comm, peer, status, KOLO_VERDICT_GRACE_MS, "%s has left",
                      kolo_comm_rank_text(comm, peer, who));
}

/** A step is over: copies what it received to the device if that is needed. False: the device
 * failed, and the request has ended. */
static bool is_received(struct kolo_request *request, const struct kolo_strand *strand,
                        const struct kolo_flight *flight)
{
    return !is_direct(request) || strand != &request->main || flight->from < 0 ||
           kolo_staging_received(request, &flight->in);
}

/** Counts the steps that are over, in order, and explains failed ones. False: the device failed,
 * and the request has ended. */
static bool look(struct kolo_request *request, struct kolo_strand *strand)
{
    size_t i = strand->first;
    for (; i < strand->next; i++) {
        const struct kolo_flight *flight = &strand->flights[i % strand->window];
        if (flight->in.status != KOLO_OK || flight->out.status != KOLO_OK)
            break;
        if (!is_received(request, strand, flight))
            return false;
    }
    strand->first = i;
    for (; i < strand->next; i++) {
        const struct kolo_flight *flight = &strand->flights[i % strand->window];
        if (has_failed(&flight->in) || has_failed(&flight->out))
            explain(request, flight);
    }
    return true;
}

/** Begins the steps that may begin. True: all steps are over. */
static bool advance_strand(struct kolo_request *request, struct kolo_strand *strand)
{
    for (;;) {
        struct kolo_step step;
        if (!look(request, strand))
            return false;
        if (strand->next == strand->nsteps)
            return strand->first == strand->next;
        if (strand->after > 0 && strand->next - strand->first >= strand->after)
            return false;
        strand->plan->step(&request->args, strand->next, &step);
        strand->after = step.after;
        if (strand->next - strand->first >= step.after)
            return false;
        if (request->stage == KOLO_STAGING_FLOWS && !kolo_staging_has(request, &step))
            return false;
        if (is_direct(request) && strand == &request->main &&
            !kolo_staging_may(request, strand->next, &step))
            return false;
        strand->after = 0;
        run_step(request, strand, &step);
    }
}

static bool has_closing(const struct kolo_request *request)
{
    return !kolo_request_is_message(request) && !request->plan->closes && request->args.size > 1;
}

/** Gives a message the next number of the messages to its peer, or from it. */
static void number_message(struct kolo_request *request)
{
    const struct kolo_comm *comm = request->comm;
    uint32_t *next =
        request->call.kind == KOLO_CALL_SEND ? comm->sequences.sent : comm->sequences.received;
    request->call.sequence = next[request->call.peer]++;
    kolo_call_pack(&request->call, &request->desc);
}

static void begin_message(struct kolo_request *request)
{
    int peer = request->call.peer;
    struct kolo_slice slice = {KOLO_BUFFER_SEND, 0, (size_t)request->call.count};
    struct kolo_step step;
    kolo_step_clear(&step);
    if (request->call.kind == KOLO_CALL_SEND) {
        step.to = peer;
        step.out = slice;
    } else {
        slice.buffer = KOLO_BUFFER_RECV;
        step.from = peer;
        step.in = slice;
    }
    number_message(request);
    run_step(request, &request->main, &step);
}

/** Prepares @p strand. @p flights has room for a window of flights. Their contents are left as they
 * are: each step sets its own when it begins. */
static void begin_strand(struct kolo_request *request, struct kolo_strand *strand,
                         const struct kolo_plan *plan, uint32_t channel,
                         struct kolo_flight *flights)
{
    strand->plan = plan;
    strand->channel = channel;
    strand->nsteps = 0;
    strand->queues = false;
    strand->window = 1;
    strand->first = strand->next = strand->after = 0;
    strand->flights = &strand->alone;
    if (!plan)
        return;
    strand->nsteps = plan->nsteps(&request->args);
    strand->window = kolo_plan_window(plan, &request->args);
    if (strand->window > 1)
        strand->flights = flights;
}

void kolo_message_post(struct kolo_request *request, struct kolo_link *link)
{
    const uint32_t channel = kolo_comm_channel(request->comm, KOLO_CHANNEL_MESSAGE);
    const size_t bytes = (size_t)request->call.count * kolo_dtype_bytes(request->call.dtype);
    const bool sends = request->call.kind == KOLO_CALL_SEND;
    struct kolo_flight *flight = &request->main.alone;
    begin_strand(request, &request->main, NULL, KOLO_CHANNEL_MESSAGE, NULL);
    begin_strand(request, &request->closing, NULL, KOLO_CHANNEL_CLOSING, NULL);
    number_message(request);
    request->main.next = 1;
    flight->in.status = flight->out.status = KOLO_OK;
    flight->from = sends ? -1 : request->call.peer;
    flight->to = sends ? request->call.peer : -1;
    if (sends)
        kolo_link_send(link, channel, &request->desc, request->send, bytes, &flight->out);
    else
        kolo_link_recv(link, channel, &request->desc, request->recv, bytes, NULL, &flight->in);
}

static void links_begin(struct kolo_request *request)
{
    struct kolo_flight *flights = request->comm->flights;
    struct kolo_flight *others = flights ? flights + KOLO_WINDOW_MAX : NULL;
    const struct kolo_plan *closing =
        has_closing(request) ? kolo_plan_closing(request->plan, &request->args) : NULL;
    begin_strand(request, &request->main, request->plan,
                 kolo_request_is_message(request) ? KOLO_CHANNEL_MESSAGE : KOLO_CHANNEL_COLLECTIVE,
                 flights);
    begin_strand(request, &request->closing, closing, KOLO_CHANNEL_CLOSING, others);
    if (kolo_request_is_message(request))
        begin_message(request);
}

/** Hands over what begin_queued() queued, unless the plan's message has taken it along. */
static void push_queued(const struct kolo_request *request)
{
    const struct kolo_strand *closing = &request->closing;
    for (size_t i = closing->first; i < closing->next; i++) {
        const struct kolo_work *note = &closing->flights[i % closing->window].out;
        if (note->status == KOLO_AGAIN && note->link)
            kolo_link_push(note->link);
    }
}

static bool links_advance(struct kolo_request *request)
{
    bool is_over, is_new;
    if (kolo_request_is_message(request))
        return look(request, &request->main) && request->main.first == request->main.next;
    is_new = request->closing.next == 0;
    is_over = advance_strand(request, &request->main);
    if (request->status != KOLO_AGAIN) /* a device failed: nothing more may be posted for it */
        return false;
    if (!request->closing.plan)
        return is_over;
    if (is_new)
        push_queued(request);
    return advance_strand(request, &request->closing) && is_over;
}

/* ---- all transfers in flight ---- */

/** A flight, and which of its two transfers is waiting. */
struct wait {
    const struct kolo_flight *flight;
    bool is_in;
};

/** Finds the next transfer that is waiting, from @p *at on (start with 0). False: there is no
 * other. */
static bool next_wait(const struct kolo_request *request, size_t *at, struct wait *wait_out)
{
    const struct kolo_strand *strands[] = {&request->main, &request->closing};
    size_t skipped = 0;
    for (int s = 0; s < 2; s++) {
        size_t works = 2 * (strands[s]->next - strands[s]->first);
        for (; *at - skipped < works; ++*at) {
            size_t index = strands[s]->first + (*at - skipped) / 2;
            const struct kolo_flight *flight = &strands[s]->flights[index % strands[s]->window];
            bool is_in = (*at - skipped) % 2 == 0;
            if ((is_in ? &flight->in : &flight->out)->status != KOLO_AGAIN)
                continue;
            *wait_out = (struct wait){flight, is_in};
            ++*at;
            return true;
        }
        skipped += works;
    }
    return false;
}

static void links_cancel(struct kolo_request *request)
{
    struct wait wait;
    for (size_t at = 0; next_wait(request, &at, &wait);) {
        struct kolo_flight *flight = (struct kolo_flight *)(uintptr_t)wait.flight;
        kolo_work_cancel(wait.is_in ? &flight->in : &flight->out);
    }
}

static int links_waits_for(const struct kolo_request *request, int peers[], int capacity)
{
    int count = 0;
    struct wait wait;
    for (size_t at = 0; count < capacity && next_wait(request, &at, &wait);)
        peers[count++] = wait.is_in ? wait.flight->from : wait.flight->to;
    return count;
}

static void links_describe(const struct kolo_request *request, char *text, size_t capacity)
{
    char who[KOLO_RANK_TEXT_MAX], link[600];
    struct wait wait;
    size_t at = 0;
    text[0] = '\0';
    if (!next_wait(request, &at, &wait))
        return;
    const struct kolo_work *work = wait.is_in ? &wait.flight->in : &wait.flight->out;
    if (work->link)
        kolo_link_describe(work->link, link, sizeof link);
    else
        snprintf(link, sizeof link, "not connected, %zu of %zu bytes %s", work->bytes_done,
                 work->bytes, wait.is_in ? "received" : "sent");
    snprintf(
        text, capacity, "%s: %s",
        kolo_comm_rank_text(request->comm, wait.is_in ? wait.flight->from : wait.flight->to, who),
        link);
}

static uint64_t links_moves(const struct kolo_request *request)
{
    uint64_t moves = request->stall.moves;
    struct wait wait;
    for (size_t at = 0; next_wait(request, &at, &wait);)
        moves += wait.is_in ? wait.flight->in.bytes_done : wait.flight->out.bytes_done;
    return moves;
}

const struct kolo_route kolo_route_links = {
    .begin = links_begin,
    .advance = links_advance,
    .cancel = links_cancel,
    .waits_for = links_waits_for,
    .describe = links_describe,
    .moves = links_moves,
};
