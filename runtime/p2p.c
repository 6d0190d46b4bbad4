// SPDX-License-Identifier: Apache-2.0
// The public send and receive.
//
// A blocking call first tries the link directly: a short message that can be sent now, or arrives
// within some polls, needs no work (transport/at_once.c). Otherwise it gives a work to the link. If
// that completes at once, or within some polls, the call needs nothing else of a request: no place
// in a list, no deadline, no clock. If it takes longer, it becomes a request around that work, and
// waits like all others.
//
// A call that does not block tries the same, without polls. If its message is over then, it gives a
// request that is over (comm->ended), which is in no list; else a request around its work.
//
// Must never take these shortcuts for a call that follows a stream, uses device memory or has
// options that change how it runs; poll while another thread wants the lock or this rank has other
// requests; or keep the engine from its timers and descriptors, however many calls in a row
// complete at once.
#include "runtime/comm.h"

#include <stdint.h>

#include "memory/memory.h"
#include "runtime/group.h"
#include "runtime/spares.h"
#include "runtime/stream.h"
#include "runtime/submit.h"
#include "runtime/timeline_call.h"

/** *bytes_out: the size of @p buffer, the task's only buffer. */
static kolo_status check(struct kolo_comm *comm, const struct kolo_task *task, const void *buffer,
                         const char *what, size_t *bytes_out)
{
    size_t bytes;
    kolo_status status = kolo_task_check(comm, task);
    if (status != KOLO_OK)
        return status;
    if (task->peer < 0 || task->peer >= comm->size)
        return kolo_fail(KOLO_ERR_INVALID, "%s: peer %d is not a rank (there are %d)",
                         task->function, task->peer, comm->size);
    if (task->peer == comm->rank)
        return kolo_fail(KOLO_ERR_INVALID, "%s: peer %d is this rank itself", task->function,
                         task->peer);
    if (__builtin_mul_overflow(task->count, kolo_dtype_bytes(task->dtype), &bytes) ||
        bytes > PTRDIFF_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "%s: count %zu of %s is too large", task->function,
                         task->count, kolo_dtype_text(task->dtype));
    *bytes_out = bytes;
    return kolo_pointer_check(task, what, buffer, bytes);
}

enum {
    /* polls of a link where a message is only a store of the peer away: some microseconds */
    LOOKS = 256,
    CALLS_PER_TURN = 64 /* calls that complete at once for each poll of everything */
};

/** Whether the call needs nothing that only a request of its own can do once it is over. */
static bool is_plain(const struct kolo_comm *comm, const struct kolo_task *task)
{
    const struct kolo_opts *opts = task->opts;
    return !atomic_load_explicit(&comm->group, memory_order_relaxed) &&
           (!opts || (kolo_opts_flags(opts) == 0 && !kolo_task_stream(task) &&
                      (!opts->name || opts->name[0] == '\0'))) &&
           !kolo_task_may_be_foreign(task);
}

/** Fills in what its work needs, and no more: most messages complete before the rest is needed. */
static void fill_in(struct kolo_comm *comm, struct kolo_request *request,
                    const struct kolo_task *task)
{
    /* Read first, since compilers otherwise make a copy whose fields are written one by one and
     * then read several at a time, for which a processor has to wait. */
    const enum kolo_call_kind kind = task->kind;
    const kolo_dtype dtype = task->dtype;
    const kolo_redop op = task->op;
    const uint64_t count = task->count;
    const int peer = task->peer, root = kind == KOLO_CALL_SEND ? peer : comm->rank;
    request->comm = comm;
    request->send = task->send;
    request->recv = task->recv;
    request->call = (struct kolo_call){
        .kind = kind, .dtype = dtype, .op = op, .root = root, .count = count, .peer = peer};
}

/** Fills in what is needed of a request that goes on after the call. */
static void fill_in_rest(struct kolo_comm *comm, struct kolo_request *request,
                         const struct kolo_task *task)
{
    request->route = &kolo_route_links;
    request->timeout_ms = kolo_task_timeout_ms(comm, task);
}

/** Begins its record in the timeline. */
static uint64_t keep_in_timeline(struct kolo_request *request)
{
    request->plan = NULL;
    request->parts = NULL;
    request->is_async = false;
    return kolo_timeline_request(request, false);
}

/** Fills in the rest, once the request has its number. */
static void complete(struct kolo_comm *comm, struct kolo_request *request,
                     const struct kolo_task *task)
{
    const uint32_t sequence = request->call.sequence;
    const struct kolo_desc desc = request->desc;
    kolo_request_clear(request);
    fill_in(comm, request, task);
    fill_in_rest(comm, request, task);
    request->call.sequence = sequence;
    request->desc = desc;
}

/** The link to @p peer if a message can be sent over it now; else NULL. Held: lock, as for
 * everything below. */
static struct kolo_link *link_now(const struct kolo_comm *comm, int peer)
{
    if (comm->failure.status != KOLO_OK || comm->suspicion.status != KOLO_OK)
        return NULL;
    return kolo_endpoint_link_up(comm->engine->endpoint, kolo_comm_world_rank(comm, peer));
}

/** How often the calling thread may poll its link: other threads may need the lock, or have works
 * on other links. */
static int looks(struct kolo_engine *engine, const struct kolo_link *link)
{
    if (engine->has_progressor || kolo_engine_is_busy(engine))
        return 0;
    const bool spins = engine->spin_ns > 0 && !kolo_patience_is_short(&engine->patience);
    return spins && kolo_link_has_signal(link) ? LOOKS : 1;
}

static bool is_wanted(const struct kolo_engine *engine)
{
    return atomic_load_explicit(&engine->wanting, memory_order_relaxed) > 0;
}

/** Polls until the message is over, but only for a short time. */
static void look_on(struct kolo_engine *engine, struct kolo_link *link,
                    const struct kolo_request *request)
{
    if (kolo_message_is_over(request))
        return;
    for (int i = looks(engine, link); i > 0 && !kolo_message_is_over(request); i--) {
        if (is_wanted(engine))
            return;
        (void)kolo_link_look(link);
    }
}

/** After a number of calls that complete at once, polls everything. */
static void count_call(struct kolo_engine *engine)
{
    if (++engine->calls_at_once % CALLS_PER_TURN == 0)
        kolo_engine_poll(engine);
}

/* ---- without a work ---- */

/** A call with a request does not wait for the message, not even for a short time. */
static bool take_at_once(struct kolo_engine *engine, struct kolo_link *link,
                         const struct kolo_task *task, const struct kolo_expected *expected)
{
    kolo_status status = kolo_link_take(link, expected, task->recv);
    for (int i = task->request_out ? 0 : looks(engine, link);
         i > 1 && status == KOLO_AGAIN && !is_wanted(engine); i--)
        status = kolo_link_take(link, expected, task->recv);
    return status == KOLO_OK;
}

/** Carries out the whole call if the message is short, can be sent or received at once, and is not
 * recorded. False: nothing has happened. */
static bool run_at_once(struct kolo_comm *comm, const struct kolo_task *task,
                        struct kolo_link *link)
{
    struct kolo_engine *engine = comm->engine;
    const bool sends = task->kind == KOLO_CALL_SEND;
    const uint32_t channel = kolo_comm_channel(comm, KOLO_CHANNEL_MESSAGE);
    uint32_t *next = (sends ? comm->sequences.sent : comm->sequences.received) + task->peer;
    struct kolo_call call = kolo_task_call(task);
    struct kolo_expected expected;
    struct kolo_desc desc;
    /* without a signal no message is only a poll away */
    if (engine->timeline || !kolo_link_has_signal(link))
        return false;
    call.root = sends ? task->peer : comm->rank;
    call.sequence = *next;
    kolo_call_pack(&call, &desc);
    const bool is_over =
        sends ? kolo_link_send_at_once(link, channel, &desc, task->send, task->send_bytes)
              : kolo_link_expect(link, channel, &desc, task->recv_bytes, &expected) &&
                    take_at_once(engine, link, task, &expected);
    if (is_over) {
        ++*next;
        count_call(engine);
    }
    return is_over;
}

/* ---- by a work, and a request around it ---- */

static kolo_status post(struct kolo_comm *comm, struct kolo_request *request,
                        const struct kolo_task *task, struct kolo_link *link)
{
    struct kolo_engine *engine = comm->engine;
    fill_in(comm, request, task);
    const uint64_t ticket = engine->timeline ? keep_in_timeline(request) : 0;
    kolo_message_post(request, link);
    look_on(engine, link, request);
    if (!kolo_message_is_over(request)) {
        complete(comm, request, task);
        request->ticket = ticket;
        kolo_request_take_up(comm, request);
        return kolo_request_await(comm, request);
    }
    if (ticket != 0)
        kolo_timeline_end(engine->timeline, ticket, KOLO_OK);
    count_call(engine);
    return KOLO_OK;
}

/** A message that the link does not complete now, though it has its work. */
static void go_on(struct kolo_comm *comm, struct kolo_request *request,
                  const struct kolo_task *task)
{
    fill_in_rest(comm, request, task);
    kolo_request_enlist(comm, request);
    request->is_counted = true;
    kolo_request_take_up(comm, request);
    if (request->status == KOLO_AGAIN)
        kolo_engine_notify(comm->engine);
}

/** Starts the call in the background. KOLO_AGAIN: nothing has happened, and it needs more than
 * this, since it is recorded. */
static kolo_status start(struct kolo_comm *comm, const struct kolo_task *task,
                         struct kolo_link *link)
{
    struct kolo_engine *engine = comm->engine;
    struct kolo_request *request = NULL;
    kolo_status status = KOLO_AGAIN;
    if (engine->timeline)
        return status;
    *task->request_out = NULL;
    KOLO_TRY(kolo_engine_start_thread(engine));
    request = kolo_spares_take(engine);
    if (!request)
        return KOLO_ERR_NO_MEMORY;
    fill_in(comm, request, task);
    kolo_message_post(request, link);
    if (kolo_message_is_over(request)) {
        kolo_spares_give(engine, request);
        request = &comm->ended;
        count_call(engine);
    } else {
        go_on(comm, request, task);
    }
    *task->request_out = request;
out:
    return status;
}

/** KOLO_AGAIN: nothing has happened. */
static kolo_status run_plain(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request request;
    struct kolo_link *link = link_now(comm, task->peer);
    if (!link)
        return KOLO_AGAIN;
    if (run_at_once(comm, task, link)) {
        if (task->request_out)
            *task->request_out = &comm->ended;
        return KOLO_OK;
    }
    return task->request_out ? start(comm, task, link) : post(comm, &request, task, link);
}

static kolo_status run(struct kolo_comm *comm, const struct kolo_task *task)
{
    kolo_status status = KOLO_AGAIN;
    if (is_plain(comm, task)) {
        kolo_comm_enter(comm);
        status = run_plain(comm, task);
        kolo_comm_leave(comm);
    }
    return status != KOLO_AGAIN ? status : kolo_task_run(comm, task);
}

kolo_status kolo_send(struct kolo_comm *comm, const void *send, size_t count, kolo_dtype dtype,
                      int peer, const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_SEND,
                             .function = "kolo_send",
                             .send = send,
                             .count = count,
                             .dtype = dtype,
                             .peer = peer,
                             .opts = opts,
                             .request_out = request_out};
    kolo_status status;
    KOLO_TRY(check(comm, &task, send, "send", &task.send_bytes));
    KOLO_TRY(run(comm, &task));
out:
    return kolo_group_note(comm, status);
}

kolo_status kolo_recv(struct kolo_comm *comm, void *recv, size_t count, kolo_dtype dtype, int peer,
                      const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_RECV,
                             .function = "kolo_recv",
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .peer = peer,
                             .opts = opts,
                             .request_out = request_out};
    kolo_status status;
    KOLO_TRY(check(comm, &task, recv, "recv", &task.recv_bytes));
    KOLO_TRY(run(comm, &task));
out:
    return kolo_group_note(comm, status);
}
