// SPDX-License-Identifier: Apache-2.0
// Requests: the two lists of a communicator, and the life of a request from submission to its end.
// A collective waits in comm->collectives until those before it are over; messages run side by
// side. How the data of a request moves is left to its route.
#include "runtime/request.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/comm.h"
#include "runtime/group.h"
#include "runtime/mismatch.h"
#include "runtime/nested.h"
#include "runtime/own_ops.h"
#include "runtime/scale.h"
#include "runtime/spares.h"
#include "runtime/staging.h"
#include "runtime/stream.h"
#include "runtime/timeline_call.h"
#include "runtime/timers.h"

static void append(struct kolo_request_list *list, struct kolo_request *request)
{
    request->next = NULL;
    request->previous = list->last;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

static void take_out(struct kolo_request_list *list, struct kolo_request *request)
{
    if (request->previous)
        request->previous->next = request->next;
    else
        list->first = request->next;
    if (request->next)
        request->next->previous = request->previous;
    else
        list->last = request->previous;
}

static struct kolo_request_list *list_of(struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    return kolo_request_is_message(request) ? &comm->messages.list : &comm->collectives;
}

void kolo_request_words(const struct kolo_request *request, char *text, size_t capacity)
{
    char where[KOLO_COMM_WORDS_MAX];
    kolo_call_words(&request->call, text, capacity);
    size_t used = strlen(text);
    snprintf(text + used, capacity - used, "%s", kolo_comm_words(request->comm, where));
}

void kolo_request_finish(const struct kolo_request *request)
{
    kolo_scale_end(request);
    if (request->parts)
        kolo_parts_scatter(request);
}

void kolo_requests_calm(const struct kolo_comm *comm)
{
    for (struct kolo_request *request = comm->collectives.first; request; request = request->next)
        if (request->staged)
            kolo_staging_cancel(request);
}

/** Changes the number of requests that the progress thread must advance. */
static void count(const struct kolo_request *request, int change)
{
    struct kolo_engine *engine = request->comm->engine;
    atomic_fetch_add_explicit(&engine->outstanding, change, memory_order_relaxed);
    if (request->follow)
        engine->following += change;
}

void kolo_request_end(struct kolo_request *request, kolo_status status)
{
    struct kolo_comm *comm = request->comm;
    if (request->staged && status != KOLO_OK)
        kolo_staging_cancel(request); /* first: the route may sever pages that are being copied */
    request->route->cancel(request);
    if (request->told)
        kolo_message_untell(request);
    if (!request->staged && status == KOLO_OK)
        kolo_request_finish(request);
    if (request->stall.is_reported) /* if the communicator has failed too: the job may continue */
        kolo_comm_unreport(comm, request);
    take_out(list_of(request), request);
    if (request->own_scratch)
        kolo_free_memory(request->own_scratch);
    request->own_scratch = NULL;
    if (request->follow)
        kolo_follow_end(request);
    request->status = status;
    if (request->ticket != 0)
        kolo_timeline_end(comm->engine->timeline, request->ticket, status);
    if (request->is_counted)
        count(request, -1);
    request->is_counted = false;
    comm->engine->has_moved |= comm->is_inner; /* the outer call may go on */
    kolo_engine_news(comm->engine);
}

void kolo_request_unlist(struct kolo_request *request)
{
    struct kolo_engine *engine = request->comm->engine;
    if (request->previous_async)
        request->previous_async->next_async = request->next_async;
    else if (engine->asyncs == request)
        engine->asyncs = request->next_async;
    if (request->next_async)
        request->next_async->previous_async = request->previous_async;
    request->next_async = request->previous_async = NULL;
}

void kolo_request_drop(struct kolo_request *request)
{
    if (request->nested)
        kolo_nested_drop(request);
    if (request->staged)
        kolo_staging_drop(request);
    bool has_memory =
        request->arrays || request->name || request->scaling.room || request->own_scratch;
    if (has_memory) {
        kolo_free_memory(request->arrays);
        kolo_free_memory(request->name);
        kolo_free_memory(request->scaling.room);
        kolo_free_memory(request->parts);
        kolo_free_memory(request->own_scratch);
    }
    kolo_own_op_give_back(request);
    if (!request->is_async)
        return;
    kolo_request_unlist(request);
    kolo_spares_give(request->comm->engine, request);
}

/* ---- advancing ---- */

/** The request is now at the head of its communicator's collectives. */
static void enter(struct kolo_comm *comm, struct kolo_request *request)
{
    request->has_entered = true;
    if (!request->has_turn)
        kolo_timeline_enter(comm->engine->timeline, request->ticket);
    request->has_turn = true;
    if (comm->early.is_there)
        kolo_comm_look_early(comm);
}

/** Keeps the description of an open broadcast, to check messages that come late from ranks that
 * have not ended it. */
static void remember(struct kolo_comm *comm, const struct kolo_request *request)
{
    comm->is_open = kolo_plan_is_open(request->plan, &request->args);
    if (comm->is_open)
        comm->broadcasts.past[request->call.sequence % KOLO_PAST] = request->desc;
}

/** Ends the request if its stream went on without it: its buffers may be in use again, and neither
 * its data may be sent nor its result be reported. */
static bool is_lost(struct kolo_comm *comm, const struct kolo_request *request)
{
    const bool was_let_go = kolo_follow_was_let_go(request);
    if (was_let_go)
        kolo_request_expire(comm, request);
    return was_let_go;
}

static void advance_collectives(struct kolo_comm *comm)
{
    struct kolo_request *request;
    while ((request = comm->collectives.first) != NULL) {
        if (request->staged && !kolo_staging_is_in(request))
            break;
        if (is_lost(comm, request))
            break;
        if (!request->has_entered)
            enter(comm, request);
        if (request->stage != KOLO_STAGING_OUT) {
            if (!request->route->advance(request)) {
                if (request->staged)
                    kolo_staging_flow(request);
                break;
            }
            remember(comm, request);
        }
        if (request->staged && !kolo_staging_is_out(request))
            break;
        if (is_lost(comm, request))
            break;
        kolo_request_end(request, KOLO_OK);
    }
}

void kolo_requests_advance(struct kolo_comm *comm)
{
    if (comm->collectives.first)
        advance_collectives(comm);
    if (comm->messages.list.first)
        kolo_messages_advance(comm);
}

/* ---- beginning ---- */

void kolo_request_enlist(struct kolo_comm *comm, struct kolo_request *request)
{
    struct kolo_engine *engine = comm->engine;
    request->is_async = true;
    request->next_async = engine->asyncs;
    if (engine->asyncs)
        engine->asyncs->previous_async = request;
    engine->asyncs = request;
}

static void set_deadline(struct kolo_engine *engine, struct kolo_request *request)
{
    request->deadline = request->fixed_deadline != 0 ? request->fixed_deadline
                                                     : kolo_deadline_in_ms(request->timeout_ms);
    /* the first idle check of the clock looks at the timers and sets the other deadlines */
    engine->next_timer = kolo_deadline_min(engine->next_timer, engine->next_tick);
    engine->next_timer = kolo_deadline_min(engine->next_timer, request->deadline);
}

/** A broadcast on the world is open on every rank until a later call has closed it. On other
 * communicators a rank may finalize without waiting for anything (kolo_finalize), so there the root
 * waits for notes. */
static enum kolo_closing closing_of(const struct kolo_comm *comm)
{
    if (comm->number != 0)
        return KOLO_CLOSING_NOTES;
    return comm->broadcasts.open + 1 < KOLO_OPEN_MAX ? KOLO_CLOSING_LATER : KOLO_CLOSING_NOW;
}

/** Gives the request its place among the collectives: its number, what its description says of
 * earlier ones (history), and what later ones will say of it. */
static void take_place(struct kolo_comm *comm, struct kolo_request *request)
{
    request->args.closing = closing_of(comm);
    request->call.sequence = comm->sequences.collective++;
    request->call.history = comm->broadcasts.history;
    if (request->is_kept)
        kolo_call_renumber(&request->call, &request->desc);
    else
        kolo_call_pack(&request->call, &request->desc);
    const enum kolo_closing closing =
        kolo_plan_is_open(request->plan, &request->args) ? request->args.closing : KOLO_CLOSING_NOW;
    if (closing == KOLO_CLOSING_NOW) { /* on a board the root closes it: it sees all enter */
        comm->broadcasts.history = 0;
        comm->broadcasts.open = 0;
    } else if (closing == KOLO_CLOSING_LATER) {
        comm->broadcasts.history = kolo_call_history(comm->broadcasts.history, &request->desc);
        comm->broadcasts.open++;
    }
}

static void enlist(struct kolo_comm *comm, struct kolo_request *request)
{
    request->comm = comm;
    request->status = KOLO_AGAIN;
    request->fell_with_comm = request->stall.is_reported = request->has_entered = false;
    request->stall.has_asked = false;
    request->stall.own_reported = KOLO_OWN_NONE;
    request->is_awaited = false;
    request->told = NULL;
    request->stall.moves = request->stall.moves_seen = 0;
    request->stall.quiet_ticks = 0;
    append(list_of(request), request);
    kolo_comm_set_busy(comm);
    if (request->is_counted)
        count(request, 1);
    request->deadline = KOLO_NEVER;
}

/** Begins the timeline's record. A message has no turn to wait for. */
static void keep_in_timeline(struct kolo_request *request)
{
    const bool is_first = request->comm->collectives.first == request;
    request->has_turn = kolo_request_is_message(request) || (is_first && !request->staged);
    request->ticket = kolo_timeline_request(request, !request->has_turn);
}

void kolo_request_submit(struct kolo_comm *comm, struct kolo_request *request)
{
    struct kolo_engine *engine = comm->engine;
    /* On an open board many calls are over at once: the clock is not read for them. */
    bool may_be_quick = request->route == &kolo_route_board && comm->hub;
    enlist(comm, request);
    if (!may_be_quick)
        set_deadline(engine, request);
    if (!kolo_request_is_message(request))
        take_place(comm, request);
    request->ticket = 0;
    request->has_turn = true;
    if (engine->timeline && !comm->is_inner) /* the outer call is there */
        keep_in_timeline(request);
    request->route->begin(request);
    if (kolo_request_is_message(request))
        kolo_message_advance_new(comm, request);
    else
        kolo_requests_advance(comm);
    if (may_be_quick && request->status == KOLO_AGAIN)
        set_deadline(engine, request);
}

void kolo_request_take_up(struct kolo_comm *comm, struct kolo_request *request)
{
    enlist(comm, request);
    request->stall.moves = 1; /* as after the first step has begun */
    set_deadline(comm->engine, request);
    if (comm->failure.status == KOLO_OK) {
        kolo_message_advance_new(comm, request);
        return;
    }
    request->fell_with_comm = true; /* the failure ended only what was in the list then */
    kolo_request_end(request, comm->failure.status);
}
