// SPDX-License-Identifier: Apache-2.0
// Carries out calls that have been checked, and kolo_test() and kolo_wait(). Each call is made into
// a request (prepare.c), gets scratch memory, has its input scaled, and is submitted (start); a
// blocking call then waits. Must never write a buffer before everything that can be refused has
// been checked.
//
// A chain is a group of requests that are started together; a single request is a chain of its own.
#include "runtime/submit.h"

#include <string.h>

#include "memory/memory.h"
#include "runtime/group.h"
#include "runtime/nested.h"
#include "runtime/prepare.h"
#include "runtime/repeat.h"
#include "runtime/scale.h"
#include "runtime/spares.h"
#include "runtime/staging.h"
#include "runtime/stream.h"
#include "runtime/timeline_call.h"
#include "runtime/timers.h"

/** Whether something must be written before anything is sent: memory of the request, or an input in
 * place. */
static bool has_load(const struct kolo_request *request)
{
    return request->scaling.prescale != 0 || request->parts;
}

void kolo_request_load(const struct kolo_request *request)
{
    if (request->scaling.prescale != 0)
        kolo_scale_begin(request);
    if (request->parts)
        kolo_parts_gather(request);
}

/** Finds scratch memory, if the request has none of its own yet. Once found, it is there at the
 * next try too: the communicator's scratch may be replaced meanwhile, but by more. Held: lock. */
static kolo_status find_scratch(struct kolo_comm *comm, struct kolo_request *request)
{
    if (request->own_scratch || !request->plan || request->plan->on_board)
        return KOLO_OK;
    return kolo_comm_scratch(comm, request,
                             request->plan->scratch(&request->args) *
                                 kolo_dtype_bytes(request->call.dtype));
}

/** Held: lock. Nothing is sent unless it returns KOLO_OK. */
static kolo_status submit(struct kolo_comm *comm, struct kolo_request *request)
{
    kolo_status status;
    KOLO_TRY(
        kolo_request_check_comm(comm, request)); /* it may have failed while the input was scaled */
    KOLO_TRY(find_scratch(comm, request));
    kolo_request_submit(comm, request);
out:
    return status;
}

/** The result of a request that is over. Held: lock. */
static kolo_status result_of(struct kolo_comm *comm, const struct kolo_request *request)
{
    return request->status == KOLO_OK ? KOLO_OK : kolo_comm_failed(comm, request);
}

/* ---- one blocking call ---- */

/** Starts the copies to the host that must be started before anything is sent, if there are any.
 * Held: lock. */
static kolo_status begin_staging(struct kolo_request *request)
{
    return request->staged ? kolo_staging_begin(request) : KOLO_OK;
}

/** Fails if another thread has started the request meanwhile. Held: lock. */
static kolo_status check_idle(const struct kolo_request *chain)
{
    if (kolo_chain_is_running(chain))
        return kolo_fail(KOLO_ERR_INVALID, "the request is running: wait for it first");
    return KOLO_OK;
}

/** Puts the request into the stream that it follows. Other threads wait with theirs until
 * kolo_follow_leave. Held: lock, which is released meanwhile. */
static kolo_status enter_stream(struct kolo_comm *comm, struct kolo_request *request, bool holds)
{
    kolo_status status = kolo_follow_enter(request);
    if (status != KOLO_OK)
        return status;
    status = kolo_request_check_comm(comm, request);
    if (status == KOLO_OK)
        status = check_idle(request);
    if (status == KOLO_OK)
        status = kolo_follow_place(request, holds);
    if (status != KOLO_OK)
        kolo_follow_leave(comm);
    return status;
}

/** Lets the next thread put its call into a stream. If the request was not started, its stream
 * continues. Held: lock. */
static void leave_stream(struct kolo_comm *comm, struct kolo_request *request, kolo_status status)
{
    if (status != KOLO_OK)
        kolo_follow_end(request);
    kolo_follow_leave(comm);
}

static kolo_status submit_behind(struct kolo_comm *comm, struct kolo_request *request)
{
    kolo_status status = enter_stream(comm, request, false);
    if (status != KOLO_OK)
        return status;
    status = begin_staging(request);
    if (status == KOLO_OK)
        status = submit(comm, request);
    leave_stream(comm, request, status);
    return status;
}

kolo_status kolo_request_await(struct kolo_comm *comm, struct kolo_request *request)
{
    if (request->status == KOLO_AGAIN)
        (void)kolo_engine_wait(comm, &request->status, KOLO_NEVER); /* has its own deadline */
    return result_of(comm, request);
}

static kolo_status run_held(struct kolo_comm *comm, struct kolo_request *request,
                            const struct kolo_task *task)
{
    kolo_status status;
    KOLO_TRY(kolo_request_prepare(comm, request, task));
    if (!request->staged && has_load(request)) {
        KOLO_TRY(find_scratch(comm, request)); /* before a buffer is written */
        kolo_comm_leave(comm);
        kolo_request_load(request);
        kolo_comm_enter(comm);
    }
    if (request->follow) {
        KOLO_TRY(submit_behind(comm, request));
    } else {
        KOLO_TRY(begin_staging(request));
        KOLO_TRY(submit(comm, request));
    }
    KOLO_TRY(kolo_request_await(comm, request));
    if (!request->staged && kolo_repeat_may(comm, task))
        kolo_repeat_keep(comm, request);
out:
    return status;
}

/** Runs a call like one that was kept. KOLO_AGAIN: none was kept. */
static kolo_status run_again(struct kolo_comm *comm, const struct kolo_task *task)
{
    kolo_status status = KOLO_AGAIN;
    if (kolo_task_may_be_foreign(task))
        return KOLO_AGAIN;
    kolo_comm_enter(comm);
    struct kolo_request *kept = kolo_repeat_take(comm, task);
    if (kept) {
        status = submit(comm, kept);
        if (status == KOLO_OK)
            status = kolo_request_await(comm, kept);
        kolo_repeat_give_back(kept);
    }
    kolo_comm_leave(comm);
    return status;
}

/** Waits for the program's earlier work on the request's devices; if it has none, prepares its
 * input at once. Not held: lock. */
static kolo_status await_or_load(struct kolo_request *request)
{
    if (request->nested)
        return kolo_nested_await(request);
    if (request->staged)
        return kolo_staging_await(request);
    kolo_request_load(request);
    return KOLO_OK;
}

static kolo_status run_blocking(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request request;
    struct kolo_task staged;
    kolo_request_clear(&request);
    kolo_status status = kolo_request_fill_in(comm, &request, &task, &staged);
    const bool is_foreign = request.staged || request.nested;
    if (status == KOLO_OK && is_foreign)
        status = await_or_load(&request);
    if (status == KOLO_OK || is_foreign) {
        kolo_comm_enter(comm);
        if (status == KOLO_OK)
            status = run_held(comm, &request, task);
        if (request.nested)
            kolo_nested_drop(&request);
        if (request.staged)
            kolo_staging_drop(&request);
        kolo_comm_leave(comm);
    }
    kolo_request_drop(&request);
    return status;
}

/* ---- requests ---- */

kolo_status kolo_task_prepare(struct kolo_comm *comm, const struct kolo_task *task,
                              struct kolo_request **request_out)
{
    struct kolo_request *request = kolo_spares_try(comm->engine);
    if (!request)
        return KOLO_ERR_NO_MEMORY;
    struct kolo_task staged;
    request->is_async = true;
    kolo_status status = kolo_request_fill_in(comm, request, &task, &staged);
    kolo_comm_enter(comm);
    if (status == KOLO_OK)
        status = kolo_request_prepare(comm, request, task);
    if (status == KOLO_OK)
        kolo_request_enlist(comm, request);
    else
        kolo_request_drop(request);
    kolo_comm_leave(comm);
    if (status == KOLO_OK)
        *request_out = request;
    return status;
}

/** Finds scratch memory for all requests of the chain. The communicator's scratch may grow
 * meanwhile, and they share it. Held: lock. */
static kolo_status find_all_scratch(struct kolo_comm *comm, struct kolo_request *chain)
{
    for (struct kolo_request *request = chain; request; request = request->chain) {
        kolo_status status = find_scratch(comm, request);
        if (status != KOLO_OK)
            return status;
    }
    for (struct kolo_request *request = chain; request; request = request->chain)
        if (!request->own_scratch)
            request->scratch = comm->scratch.memory;
    return KOLO_OK;
}

/** Checks everything for which a start can be refused while the communicator stays usable. Held:
 * lock. */
static kolo_status check_start(struct kolo_comm *comm, struct kolo_request *chain,
                               bool in_background)
{
    kolo_status status;
    KOLO_TRY(kolo_request_check_comm(comm, chain));
    KOLO_TRY(check_idle(chain));
    KOLO_TRY(find_all_scratch(comm, chain));
    if (in_background)
        KOLO_TRY(kolo_engine_start_thread(comm->engine));
out:
    return status;
}

/** Starts what check_start() has accepted. Held: lock. */
static kolo_status launch(struct kolo_comm *comm, struct kolo_request *chain, bool in_background)
{
    kolo_status status = KOLO_OK;
    for (struct kolo_request *request = chain; request; request = request->chain)
        KOLO_TRY(begin_staging(request));
    for (struct kolo_request *request = chain; request; request = request->chain) {
        request->is_counted = in_background;
        kolo_request_submit(comm, request);
    }
    if (kolo_chain_is_running(chain))
        kolo_engine_notify(comm->engine);
out:
    return status;
}

/** Held: lock. */
static kolo_status start_held(struct kolo_comm *comm, struct kolo_request *chain,
                              bool in_background)
{
    const kolo_status status = check_start(comm, chain, in_background);
    return status == KOLO_OK ? launch(comm, chain, in_background) : status;
}

/** Whether a start writes buffers before the calls can begin. */
static bool writes_first(const struct kolo_request *chain)
{
    for (; chain; chain = chain->chain)
        if (!chain->staged && has_load(chain))
            return true;
    return false;
}

/** check_start() before a start, for which it is checked again. Not held: lock. */
static kolo_status may_start(struct kolo_comm *comm, struct kolo_request *chain, bool in_background)
{
    kolo_comm_enter(comm);
    const kolo_status status = check_start(comm, chain, in_background);
    kolo_comm_leave(comm);
    return status;
}

kolo_status kolo_chain_begin(struct kolo_request *chain)
{
    const kolo_status status = check_start(chain->comm, chain, false);
    if (status != KOLO_OK)
        return status;
    for (const struct kolo_request *request = chain; request; request = request->chain)
        if (!request->staged)
            kolo_request_load(request);
    return launch(chain->comm, chain, false);
}

/** Starts a request that follows a stream; it is in no group. Held: lock. */
static kolo_status start_behind(struct kolo_comm *comm, struct kolo_request *request,
                                bool in_background)
{
    kolo_status status = enter_stream(comm, request, in_background);
    if (status != KOLO_OK)
        return status;
    status = start_held(comm, request, in_background);
    leave_stream(comm, request, status);
    return status;
}

kolo_status kolo_chain_start(struct kolo_request *chain, bool in_background)
{
    struct kolo_comm *comm = chain->comm;
    kolo_status status = writes_first(chain) ? may_start(comm, chain, in_background) : KOLO_OK;
    for (struct kolo_request *request = chain; request && status == KOLO_OK;
         request = request->chain)
        status = await_or_load(request);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    status = chain->follow ? start_behind(comm, chain, in_background)
                           : start_held(comm, chain, in_background);
    kolo_comm_leave(comm);
    return status;
}

bool kolo_chain_is_running(const struct kolo_request *chain)
{
    for (; chain; chain = chain->chain)
        if (chain->status == KOLO_AGAIN)
            return true;
    return false;
}

/** Sets whether a thread waits for the requests of the chain. */
static void set_awaited(struct kolo_request *chain, bool is_awaited)
{
    for (struct kolo_request *request = chain; request; request = request->chain) {
        request->is_awaited = is_awaited;
        if (!is_awaited && request->stall.is_reported && !request->plan)
            kolo_comm_unreport(request->comm, request);
    }
}

kolo_status kolo_chain_wait(struct kolo_request *chain, kolo_deadline deadline)
{
    struct kolo_comm *comm = chain->comm;
    struct kolo_request *failed = NULL;
    set_awaited(chain, true);
    for (struct kolo_request *request = chain; request; request = request->chain)
        if (!kolo_engine_wait(comm, &request->status, deadline)) {
            set_awaited(chain, false);
            return KOLO_AGAIN;
        }
    for (struct kolo_request *request = chain; request; request = request->chain)
        if (!failed && request->status != KOLO_OK)
            failed = request;
    return failed ? result_of(comm, failed) : KOLO_OK;
}

void kolo_chain_drop(struct kolo_request *chain)
{
    for (struct kolo_request *next; chain; chain = next) {
        next = chain->chain;
        kolo_request_drop(chain);
    }
}

static kolo_status run_async(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request *request = NULL;
    bool is_persistent = (kolo_opts_flags(task->opts) & KOLO_PERSISTENT) != 0;
    *task->request_out = NULL;
    kolo_status status = kolo_task_prepare(comm, task, &request);
    if (status != KOLO_OK)
        return status;
    request->is_persistent = is_persistent;
    if (!is_persistent)
        status = kolo_chain_start(request, true);
    if (status == KOLO_OK) {
        *task->request_out = request;
        return KOLO_OK;
    }
    kolo_comm_enter(comm);
    kolo_chain_drop(request);
    kolo_comm_leave(comm);
    return status;
}

/** The communicator that this thread has bound; NULL: none. */
static _Thread_local const struct kolo_comm *bound;

void kolo_comm_bind(const struct kolo_comm *comm, bool is_bound)
{
    bound = is_bound ? comm : NULL;
}

/** A call was refused, for the reason in this thread's detail, or has lost the communicator. */
static kolo_status refused(struct kolo_comm *comm, kolo_status status)
{
    if (bound != comm)
        return status;
    kolo_comm_enter(comm);
    if (comm->failure.status == KOLO_OK) {
        kolo_comm_fail_here(comm, status, kolo_error_detail());
        status = kolo_comm_failed(comm, NULL);
    }
    kolo_comm_leave(comm);
    return status;
}

/** Whether the call is to be collected for a group. What is a part of another call is not: that
 * began when there was no group. */
static bool is_for_group(struct kolo_comm *comm, const struct kolo_task *task)
{
    return atomic_load_explicit(&comm->group, memory_order_relaxed) && !task->is_own &&
           bound != comm;
}

kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task)
{
    if (is_for_group(comm, task))
        return kolo_group_add(comm, task);
    if (task->request_out)
        return run_async(comm, task);
    kolo_status status = kolo_repeat_may(comm, task) ? run_again(comm, task) : KOLO_AGAIN;
    if (status == KOLO_AGAIN)
        status = run_blocking(comm, task);
    return status == KOLO_OK ? KOLO_OK : refused(comm, status);
}

/* ---- test and wait ---- */

/** Returns the result of a chain to the program. Held: lock. */
static kolo_status collect(struct kolo_request **request, kolo_deadline deadline)
{
    kolo_status status = kolo_chain_wait(*request, deadline);
    if (status == KOLO_AGAIN || (*request)->is_persistent)
        return status;
    kolo_chain_drop(*request);
    *request = NULL;
    return status;
}

/** Finds the communicator of the request and checks it. *comm_out stays NULL if there is no
 * request, or it may not be used. */
static kolo_status find_comm(const char *function, struct kolo_request *const *request,
                             struct kolo_comm **comm_out)
{
    if (!request)
        return kolo_fail(KOLO_ERR_INVALID, "%s: request is NULL", function);
    if (!*request)
        return KOLO_OK;
    kolo_status status = kolo_comm_check((*request)->comm, function);
    if (status == KOLO_OK)
        *comm_out = (*request)->comm;
    return status;
}

/** Takes back a request that was over from the start. False: it is another. */
static bool take_ended(const struct kolo_comm *comm, struct kolo_request **request)
{
    if (*request != &comm->ended)
        return false;
    *request = NULL;
    return true;
}

kolo_status kolo_test(struct kolo_request **request)
{
    struct kolo_comm *comm = NULL;
    kolo_status status = find_comm("kolo_test", request, &comm);
    if (!comm || take_ended(comm, request))
        return status;
    kolo_comm_enter(comm);
    if (kolo_chain_is_running(*request))
        kolo_engine_poll(comm->engine);
    if (kolo_chain_is_running(*request))
        kolo_engine_asked_in_vain(comm->engine);
    status = kolo_chain_is_running(*request) ? KOLO_AGAIN : collect(request, 0);
    kolo_comm_leave(comm);
    return status;
}

kolo_status kolo_wait(struct kolo_request **request, int timeout_ms)
{
    struct kolo_comm *comm = NULL;
    kolo_status status = find_comm("kolo_wait", request, &comm);
    if (!comm || take_ended(comm, request))
        return status;
    kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    kolo_comm_enter(comm);
    /* a call with timeout 0 does not wait; recording repeated ones would leave no room for other
     * calls */
    const bool is_kept =
        comm->engine->timeline && timeout_ms != 0 && kolo_chain_is_running(*request);
    const uint64_t ticket = is_kept ? kolo_timeline_wait(*request) : 0;
    status = collect(request, deadline);
    if (is_kept)
        kolo_timeline_end(comm->engine->timeline, ticket, status);
    if (status == KOLO_AGAIN)
        kolo_engine_asked_in_vain(comm->engine);
    kolo_comm_leave(comm);
    return status;
}
