// SPDX-License-Identifier: Apache-2.0
// From a checked call to a request that can be started: copies the arguments that must outlive the
// call, fills in this rank's description of it, and chooses the plan. Must never write into a
// buffer, nor send.
#include "runtime/prepare.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/meeting.h"
#include "runtime/nested.h"
#include "runtime/own_ops.h"
#include "runtime/scale.h"
#include "runtime/staging.h"
#include "runtime/stream.h"

/** Copies the counts and displs of @p n ranks (displs of packed blocks if none were given). Returns
 * the sum of the counts. */
static size_t copy_blocks(size_t *counts_out, size_t *displs_out, const size_t *counts,
                          const size_t *displs, size_t n)
{
    size_t at = 0;
    for (size_t rank = 0; rank < n; rank++) {
        counts_out[rank] = counts[rank];
        displs_out[rank] = displs ? displs[rank] : at;
        at += counts[rank];
    }
    return at;
}

/** The places of blocks are part of the description: over a board any rank may write into the whole
 * buffer of any other. Empty blocks have no place. */
static void hash_blocks(struct kolo_call *call, const size_t *counts, const size_t *displs,
                        size_t n)
{
    call->hash = kolo_call_hash(call->hash, counts, n * sizeof *counts);
    for (size_t rank = 0; rank < n; rank++)
        if (counts[rank] > 0)
            call->hash = kolo_call_hash(call->hash, &displs[rank], sizeof displs[rank]);
}

/** alltoallv's counts differ from rank to rank, so they travel in its messages, not in the call. */
static kolo_status copy_arrays(struct kolo_request *request, const struct kolo_task *task, int size)
{
    size_t n = (size_t)size, total;
    bool is_exchange = task->send_counts != NULL;
    if (!task->counts)
        return KOLO_OK;
    request->arrays = kolo_calloc((is_exchange ? 4 : 2) * n, sizeof *request->arrays);
    if (!request->arrays)
        return KOLO_ERR_NO_MEMORY;
    request->args.counts = request->arrays;
    request->args.displs = request->arrays + n;
    total = copy_blocks(request->arrays, request->arrays + n, task->counts, task->displs, n);
    if (!is_exchange) {
        request->call.count = total;
        hash_blocks(&request->call, request->arrays, request->arrays + n, n);
        return KOLO_OK;
    }
    request->args.send_counts = request->arrays + 2 * n;
    request->args.send_displs = request->arrays + 3 * n;
    (void)copy_blocks(request->arrays + 2 * n, request->arrays + 3 * n, task->send_counts,
                      task->send_displs, n);
    return KOLO_OK;
}

static kolo_status take_name(struct kolo_request *request, const struct kolo_task *task)
{
    const char *name = task->opts ? task->opts->name : NULL;
    if (!name || name[0] == '\0')
        return KOLO_OK;
    request->call.hash = kolo_call_hash(request->call.hash, name, strlen(name));
    request->call.name = name;
    if (!request->is_async)
        return KOLO_OK;
    request->name = kolo_strdup(name);
    request->call.name = request->name;
    return request->name ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

bool kolo_task_is_deterministic(const struct kolo_comm *comm, const struct kolo_task *task)
{
    return comm->engine->settings.deterministic ||
           (kolo_opts_flags(task->opts) & KOLO_DETERMINISTIC) != 0;
}

static enum kolo_order order_of(const struct kolo_comm *comm, const struct kolo_request *request,
                                const struct kolo_task *task)
{
    const bool is_deterministic = kolo_task_is_deterministic(comm, task);
    if (request->own_op)
        return is_deterministic || !kolo_own_op_takes_any_order(request) ? KOLO_ORDER_STRICT
                                                                         : KOLO_ORDER_FREE;
    return kolo_order_of(task->dtype, task->op, is_deterministic);
}

/** The members of a new communicator meet on their parent's board if it has one, and else over
 * links, even if they could have a board: to open that takes longer than all the rest. NULL: as any
 * barrier. Held: lock. */
static const struct kolo_plan *plan_of_meeting(const struct kolo_comm *comm)
{
    if (kolo_meeting_has_board(comm))
        return kolo_plans[KOLO_PLAN_ONESHOT_BARRIER];
    return comm->has_board && comm->plan_is_auto ? kolo_plans[KOLO_PLAN_DISSEMINATION_BARRIER]
                                                 : NULL;
}

/** Held: lock. */
static kolo_status choose_plan(struct kolo_comm *comm, struct kolo_request *request,
                               const struct kolo_task *task)
{
    kolo_status status = KOLO_OK;
    size_t element_bytes = kolo_dtype_bytes(task->dtype);
    size_t segment = comm->engine->settings.segment_bytes / element_bytes;
    request->args.rank = comm->rank;
    request->args.size = comm->size;
    request->args.root = task->root;
    request->args.count = task->count;
    request->args.in_place = request->in_place;
    request->args.segment = segment > 0 ? segment : 1;
    enum kolo_collective collective = kolo_call_collective(task->kind);
    if (request->nested)
        request->plan = kolo_plan_find(collective, "nested");
    else if (task->is_meeting)
        request->plan = plan_of_meeting(comm);
    if (!request->plan)
        KOLO_TRY(kolo_comm_choose(comm, collective, &request->args, element_bytes,
                                  order_of(comm, request, task),
                                  task->is_own || comm->own_calls > 0, &request->plan));
    if (request->plan->on_board)
        request->route = task->is_meeting && kolo_meeting_has_board(comm) ? &kolo_route_meeting
                                                                          : &kolo_route_board;
    if (request->plan->is_nested)
        request->route = &kolo_route_nested;
    request->args.hosts = kolo_choices_hosts(&comm->choices);
    request->call.plan = (int)request->plan->number;
    if (request->plan->is_segmented)
        request->call.hash = kolo_call_hash(request->call.hash, &request->args.segment,
                                            sizeof request->args.segment);
out:
    return status;
}

static kolo_status copy_task(struct kolo_comm *comm, struct kolo_request *request,
                             const struct kolo_task *task)
{
    kolo_status status;
    request->comm = comm;
    request->route = &kolo_route_links;
    request->send = task->send;
    request->recv = task->recv;
    request->in_place = task->in_place;
    request->flags = kolo_opts_flags(task->opts) & KOLO_DETERMINISTIC;
    request->timeout_ms = kolo_task_timeout_ms(comm, task);
    request->fixed_deadline = task->deadline;
    request->call = kolo_task_call(task);
    KOLO_TRY(kolo_own_op_take(comm, request, task));
    KOLO_TRY(take_name(request, task));
    KOLO_TRY(copy_arrays(request, task, comm->size));
    request->divisor = task->op == KOLO_AVERAGE ? (size_t)comm->size : 0;
    kolo_scale_describe(request, task);
    if (!request->nested) /* else its inner calls scale */
        KOLO_TRY(kolo_scale_prepare(request, task));
    if (kolo_call_is_message(task->kind))
        request->call.root = task->kind == KOLO_CALL_SEND ? task->peer : comm->rank;
out:
    return status;
}

/** Prepares the inner calls if there are any. Else makes @p *task point to a copy with host
 * buffers, if some buffer may not be in host memory, or the call follows a stream. */
static kolo_status stage(struct kolo_comm *comm, struct kolo_request *request,
                         const struct kolo_task **task, struct kolo_task *copy)
{
    request->comm = comm;
    if (kolo_nested_takes(comm, *task))
        return kolo_nested_prepare(comm, request, *task);
    if (!kolo_task_may_be_foreign(*task) && !kolo_task_stream(*task))
        return KOLO_OK;
    *copy = **task;
    *task = copy;
    return kolo_staging_prepare(comm, request, copy);
}

kolo_status kolo_request_fill_in(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task **task, struct kolo_task *copy)
{
    kolo_status status = stage(comm, request, task, copy);
    return status == KOLO_OK ? copy_task(comm, request, *task) : status;
}

/** The number that a call that did not begin would have had. Held: lock. */
static uint32_t next_sequence(const struct kolo_comm *comm, const struct kolo_call *call)
{
    if (call->kind == KOLO_CALL_SEND)
        return comm->sequences.sent[call->peer];
    return call->kind == KOLO_CALL_RECV ? comm->sequences.received[call->peer]
                                        : comm->sequences.collective;
}

kolo_status kolo_request_check_comm(struct kolo_comm *comm, struct kolo_request *request)
{
    if (comm->suspicion.status != KOLO_OK) /* also between two calls */
        kolo_comm_settle(comm);
    if (comm->failure.status == KOLO_OK)
        return KOLO_OK;
    request->call.sequence = next_sequence(comm, &request->call);
    request->fell_with_comm = false; /* if it did, that was in an earlier start */
    return kolo_comm_failed(comm, request);
}

/** Whether its closing plan has more than one message in flight. */
static bool has_notes(const struct kolo_comm *comm, const struct kolo_request *request)
{
    return comm->number != 0 && !request->plan->on_board &&
           kolo_plan_is_open(request->plan, &request->args);
}

kolo_status kolo_request_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 const struct kolo_task *task)
{
    kolo_status status;
    KOLO_TRY(kolo_request_check_comm(comm, request));
    if (kolo_call_is_message(task->kind))
        return KOLO_OK;
    KOLO_TRY(choose_plan(comm, request, task));
    if (request->staged)
        KOLO_TRY(kolo_lent_settle(request));
    if (kolo_plan_window(request->plan, &request->args) > 1 || has_notes(comm, request))
        KOLO_TRY(kolo_comm_flights(comm));
    if (task->is_meeting && request->route == &kolo_route_links)
        KOLO_TRY(kolo_links_open_channels(request));
out:
    return status;
}
