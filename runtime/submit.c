// SPDX-License-Identifier: Apache-2.0
// From a checked call to a request: copies what outlives the call, chooses the plan, finds scratch
// before anything is sent, submits, and waits if the call is blocking. Also test and wait.
#include "runtime/comm.h"

#include <string.h>

#include "base/alloc.h"

static bool is_message(const struct kolo_task *task)
{
    return task->kind == KOLO_CALL_SEND || task->kind == KOLO_CALL_RECV;
}

/** Copies counts and displs (packed if none were given) of @p n ranks; the sum of the counts. */
static size_t copy_blocks(size_t *counts_out, size_t *displs_out, const size_t *counts,
                          const size_t *displs, size_t n)
{
    size_t at = 0;
    for (size_t rank = 0; rank < n; rank++) {
        counts_out[rank] = counts[rank];
        displs_out[rank] = displs != NULL ? displs[rank] : at;
        at += counts[rank];
    }
    return at;
}

/** The counts of alltoallv are each rank's own: they travel in its messages, not in the call. */
static kolo_status copy_arrays(struct kolo_request *request, const struct kolo_task *task, int size)
{
    size_t n = (size_t)size, total;
    bool is_exchange = task->send_counts != NULL;
    if (task->counts == NULL)
        return KOLO_OK;
    request->arrays = kolo_calloc((is_exchange ? 4 : 2) * n, sizeof(*request->arrays));
    if (request->arrays == NULL)
        return KOLO_ERR_NO_MEMORY;
    request->args.counts = request->arrays;
    request->args.displs = request->arrays + n;
    total = copy_blocks(request->arrays, request->arrays + n, task->counts, task->displs, n);
    if (!is_exchange) {
        request->call.count = total;
        request->call.hash =
            kolo_call_hash(request->call.hash, task->counts, n * sizeof(*task->counts));
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
    const char *name = task->opts != NULL ? task->opts->name : NULL;
    if (name == NULL || name[0] == '\0')
        return KOLO_OK;
    request->call.hash = kolo_call_hash(request->call.hash, name, strlen(name));
    request->call.name = name;
    if (task->request_out == NULL)
        return KOLO_OK;
    request->name = kolo_strdup(name);
    request->call.name = request->name;
    return request->name != NULL ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static enum kolo_order order_of(const struct kolo_comm *comm, const struct kolo_request *request,
                                const struct kolo_task *task)
{
    bool is_deterministic = comm->engine->settings.deterministic ||
                            (kolo_opts_flags(task->opts) & KOLO_DETERMINISTIC) != 0;
    if (request->own_op != NULL)
        return is_deterministic || !kolo_own_op_is_free(request) ? KOLO_ORDER_STRICT
                                                                 : KOLO_ORDER_FREE;
    return kolo_order_of(task->dtype, task->op, is_deterministic);
}

/** Held: lock. */
static kolo_status choose_plan(struct kolo_comm *comm, struct kolo_request *request,
                               const struct kolo_task *task)
{
    kolo_status status;
    size_t element_bytes = kolo_dtype_bytes(task->dtype);
    size_t segment = comm->engine->settings.segment_bytes / element_bytes;
    request->args.rank = comm->rank;
    request->args.size = comm->size;
    request->args.root = task->root;
    request->args.count = task->count;
    request->args.in_place = request->in_place;
    request->args.segment = segment > 0 ? segment : 1;
    enum kolo_collective collective = kolo_call_collective(task->kind);
    KOLO_TRY(kolo_comm_choose(comm, collective, &request->args, element_bytes,
                              order_of(comm, request, task), &request->plan));
    if (request->plan->on_board)
        request->route = &kolo_route_board;
    request->args.hosts = kolo_choices_hosts(&comm->choices);
    request->call.plan = (int)(request->plan - kolo_plans);
    if (request->plan->is_segmented)
        request->call.hash = kolo_call_hash(request->call.hash, &request->args.segment,
                                            sizeof(request->args.segment));
out:
    return status;
}

static kolo_status fill_in(struct kolo_comm *comm, struct kolo_request *request,
                           const struct kolo_task *task)
{
    int timeout_ms = task->opts != NULL ? task->opts->timeout_ms : 0;
    kolo_status status;
    request->comm = comm;
    request->route = &kolo_route_links;
    request->send = task->send;
    request->recv = task->recv;
    request->in_place = task->in_place;
    request->timeout_ms = timeout_ms > 0 ? timeout_ms : (int)comm->engine->settings.timeout_ms;
    request->call = (struct kolo_call){.kind = task->kind,
                                       .dtype = task->dtype,
                                       .op = task->op,
                                       .root = task->root,
                                       .count = task->count,
                                       .peer = task->peer};
    KOLO_TRY(kolo_own_op_take(comm, request, task));
    KOLO_TRY(take_name(request, task));
    KOLO_TRY(copy_arrays(request, task, comm->size));
    KOLO_TRY(kolo_scale_begin(request, task));
    if (is_message(task))
        request->call.root = task->kind == KOLO_CALL_SEND ? task->peer : comm->rank;
out:
    return status;
}

/** Held: lock. Nothing is sent unless it returns KOLO_OK. */
static kolo_status submit(struct kolo_comm *comm, struct kolo_request *request,
                          const struct kolo_task *task)
{
    kolo_status status = KOLO_OK;
    if (comm->failure.status != KOLO_OK) {
        request->call.sequence = comm->sequence;
        return kolo_comm_failed(comm, request);
    }
    if (!is_message(task))
        KOLO_TRY(choose_plan(comm, request, task));
    if (!is_message(task) && kolo_plan_window(request->plan, &request->args) > 1)
        KOLO_TRY(kolo_comm_flights(comm));
    if (!is_message(task))
        KOLO_TRY(kolo_comm_scratch(
            comm, request, request->plan->scratch(&request->args) * kolo_dtype_bytes(task->dtype)));
    if (task->request_out != NULL)
        KOLO_TRY(kolo_engine_start_thread(comm->engine));
    kolo_request_submit(comm, request);
out:
    return status;
}

/** The result of a request that is over. Held: lock. */
static kolo_status result_of(struct kolo_comm *comm, const struct kolo_request *request)
{
    return request->status == KOLO_OK ? KOLO_OK : kolo_comm_failed(comm, request);
}

static kolo_status run_async(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request *request = kolo_calloc(1, sizeof(*request));
    *task->request_out = NULL;
    if (request == NULL)
        return KOLO_ERR_NO_MEMORY;
    request->is_async = true;
    kolo_status status = fill_in(comm, request, task);
    if (status == KOLO_OK) {
        kolo_comm_enter(comm);
        status = submit(comm, request, task);
        if (status == KOLO_OK)
            kolo_engine_notify(comm->engine);
        kolo_comm_leave(comm);
    }
    if (status == KOLO_OK) {
        *task->request_out = request;
        return KOLO_OK;
    }
    kolo_comm_enter(comm); /* the list of requests, which it is not in, is looked at */
    kolo_request_free(request);
    kolo_comm_leave(comm);
    return status;
}

kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request request;
    if (task->request_out != NULL)
        return run_async(comm, task);
    kolo_request_clear(&request);
    kolo_status status = fill_in(comm, &request, task);
    if (status == KOLO_OK) {
        kolo_comm_enter(comm);
        status = submit(comm, &request, task);
        if (status == KOLO_OK && request.status == KOLO_AGAIN) {
            kolo_engine_notify(comm->engine);
            (void)kolo_engine_wait(comm, &request.status, KOLO_NEVER); /* has its own deadline */
        }
        if (status == KOLO_OK)
            status = result_of(comm, &request);
        kolo_comm_leave(comm);
    }
    kolo_request_free(&request);
    return status;
}

/** Hands a finished request's result to the user. Held: lock. */
static kolo_status collect(struct kolo_comm *comm, struct kolo_request **request)
{
    if ((*request)->status == KOLO_AGAIN)
        return KOLO_AGAIN;
    kolo_status status = result_of(comm, *request);
    kolo_request_free(*request);
    *request = NULL;
    return status;
}

kolo_status kolo_test(struct kolo_request **request)
{
    if (request == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_test: request is NULL");
    if (*request == NULL)
        return KOLO_OK;
    struct kolo_comm *comm = (*request)->comm;
    kolo_comm_enter(comm);
    if ((*request)->status == KOLO_AGAIN)
        kolo_engine_poll(comm->engine);
    kolo_status status = collect(comm, request);
    kolo_comm_leave(comm);
    return status;
}

kolo_status kolo_wait(struct kolo_request **request, int timeout_ms)
{
    if (request == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_wait: request is NULL");
    if (*request == NULL)
        return KOLO_OK;
    struct kolo_comm *comm = (*request)->comm;
    kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    kolo_comm_enter(comm);
    (void)kolo_engine_wait(comm, &(*request)->status, deadline);
    kolo_status status = collect(comm, request);
    kolo_comm_leave(comm);
    return status;
}
