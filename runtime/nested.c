// SPDX-License-Identifier: Apache-2.0
// The route of a nested allreduce. The vector is cut into pieces, and each piece takes three calls:
//
//   SUM      reduce_scatter inside the host: each rank has a share of the host's sum
//   ACROSS   allreduce of that share, with the ranks that have the same share on the other hosts
//   SPREAD   allgather inside the host
//
// so that memory of devices which the ranks of a host lend to each other is summed by kernels, and
// only shares are copied to the host and sent. While one piece crosses, others are summed and
// spread. Owns the inner calls, from the preparation of a call to its end. Must never begin them in
// an order that depends on timing, since the calls of a communicator have the same order on all its
// ranks:
//
//   host     SUM 0, SUM 1, then by turns SUM i + 2 and SPREAD i
//   across   ACROSS 0, ACROSS 1, ...
//
// A call begins when those before it in its row have begun and the one before it on its piece is
// over. Inner calls are made by the public functions, once, and started like persistent requests.
// Messages of the outer call do not exist; what tells ranks that they have called the same is the
// inner calls, whose descriptions contain a hash of the outer one's.
#include "runtime/nested.h"

#include <stdio.h>

#include "base/alloc.h"
#include "runtime/prepare.h"
#include "runtime/scale.h"
#include "runtime/staging.h"
#include "runtime/stream.h"

/* Pieces of a quarter of the vector, so that most of a call overlaps, between the two bounds. Below
 * the first a piece costs more than it hides, beyond the second it hides no more (chosen, not
 * measured on devices). */
enum { PARTS = 4, PIECE_LEAST_BYTES = 1 << 20, PIECE_MOST_BYTES = 8 << 20 };
/* Shares begin at multiples of this in the vector, for accesses of whole packets. */
enum { SHARE_BYTES = 64 };
/* The number of pieces that may be summed before the first is spread. */
enum { AHEAD = 2 };

enum stage { SUM, ACROSS, SPREAD, STAGES };

/** The calls of a piece, in the order of enum stage; NULL: not prepared yet. */
struct piece {
    struct kolo_request *calls[STAGES];
    uint32_t hashes[STAGES]; /* of the calls, without the outer one's description */
};

struct kolo_nested {
    size_t count;
    size_t host_begun, host_over;     /* calls in the row of the host */
    size_t across_begun, across_over; /* calls in the row across */
    bool has_failed;                  /* an inner call has; the request has too, or will */
    struct piece pieces[];
};

/* ---- which calls ---- */

bool kolo_nested_takes(const struct kolo_comm *comm, const struct kolo_task *task)
{
    const size_t least = comm->engine->settings.nested_bytes;
    return comm->nest && task->kind == KOLO_CALL_ALLREDUCE && !task->is_own && comm->plan_is_auto &&
           (unsigned)task->op < KOLO_REDOP_OWN &&
           kolo_order_of(task->dtype, task->op, kolo_task_is_deterministic(comm, task)) !=
               KOLO_ORDER_STRICT &&
           task->send_bytes > 0 && /* the fused call of a group has none */
           task->send_bytes >= least;
}

/* ---- preparing ---- */

/** The length of a piece, in elements; the last one may be shorter. */
static size_t piece_elements(const struct kolo_task *task, size_t element_bytes)
{
    size_t bytes = task->send_bytes / PARTS;
    bytes = bytes < PIECE_LEAST_BYTES ? PIECE_LEAST_BYTES : bytes;
    bytes = bytes > PIECE_MOST_BYTES ? PIECE_MOST_BYTES : bytes;
    return bytes / element_bytes;
}

/** Divides @p count elements into a share for each rank of the host. Returns where the share of @p
 * place begins. */
static size_t share_out(size_t count, size_t element_bytes, int ranks, int place,
                        size_t *counts_out)
{
    const size_t unit = SHARE_BYTES / element_bytes, units = (count + unit - 1) / unit;
    size_t at = 0, begin = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const size_t share =
            (units / (size_t)ranks + ((size_t)rank < units % (size_t)ranks)) * unit;
        if (rank == place)
            begin = at;
        counts_out[rank] = share < count - at ? share : count - at;
        at += counts_out[rank];
    }
    return begin;
}

/** A piece of the outer call. */
struct part {
    const uint8_t *send;
    uint8_t *recv, *share; /* of this rank */
    size_t *counts;        /* of the host's ranks */
    size_t mine;
};

static kolo_status make_calls(const struct kolo_comm *comm, const struct kolo_task *task,
                              const struct part *part, const char *words, struct piece *piece)
{
    const struct kolo_nest *nest = comm->nest;
    struct kolo_opts opts = {.size = sizeof opts,
                             .flags = KOLO_PERSISTENT,
                             .timeout_ms = kolo_task_timeout_ms(comm, task),
                             .name = words};
    const bool is_scaled = kolo_opts_scale(task->opts);
    kolo_status status;
    opts.prescale = is_scaled ? task->opts->prescale : 0;
    KOLO_TRY(kolo_reduce_scatterv(nest->host, part->send, part->share, part->counts, task->dtype,
                                  task->op == KOLO_AVERAGE ? KOLO_SUM : task->op, &opts,
                                  &piece->calls[SUM]));
    opts.prescale = 0;
    opts.postscale = is_scaled ? task->opts->postscale : 0;
    KOLO_TRY(kolo_allreduce(nest->across, part->share, part->share, part->mine, task->dtype,
                            task->op, &opts, &piece->calls[ACROSS]));
    opts.postscale = 0;
    KOLO_TRY(kolo_allgatherv(nest->host, part->share, part->recv, part->counts, NULL, task->dtype,
                             &opts, &piece->calls[SPREAD]));
out:
    return status;
}

/** Fails the communicator for the reason for which @p inner has. Held: lock. */
static void fail_like(struct kolo_comm *comm, const struct kolo_comm *inner)
{
    char text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", inner->failure.text);
    kolo_comm_fail(comm, inner->failure.status, text);
}

/** An inner communicator has failed, and so does this one. If two ranks differ in an inner call,
 * the store knows by which outer calls, once both have told it; what the inner ones know is the
 * reason only if it does not. Held: lock. */
static void fail_with(struct kolo_comm *comm, const struct kolo_comm *inner)
{
    if (inner->failure.status != KOLO_ERR_MISMATCH) {
        fail_like(comm, inner);
    } else if (comm->suspicion.status == KOLO_OK) {
        kolo_comm_suspect(comm, -1, KOLO_ERR_MISMATCH, KOLO_VERDICT_GRACE_MS, "%s",
                          inner->failure.text);
        comm->must_report = true;
    }
}

/** Something failed before the inner calls could begin. If that was a device, an inner communicator
 * has failed, and so does this one. Not held: lock. */
static void fail_with_nest(struct kolo_comm *comm)
{
    const struct kolo_comm *inner[] = {comm->nest->host, comm->nest->across};
    kolo_comm_enter(comm);
    for (int i = 0; i < 2; i++)
        if (inner[i]->failure.status != KOLO_OK && comm->failure.status == KOLO_OK)
            fail_with(comm, inner[i]);
    kolo_comm_leave(comm);
}

/** Makes the calls this request's own. Held: lock. */
static void take_calls(const struct kolo_comm *comm, struct piece *piece)
{
    for (int stage = 0; stage < STAGES; stage++) {
        struct kolo_request *call = piece->calls[stage];
        if (!call)
            continue;
        kolo_request_unlist(call);
        piece->hashes[stage] = call->call.hash;
        if (call->call.op == KOLO_AVERAGE)
            call->divisor = (size_t)comm->size;
    }
}

static kolo_status make_pieces(struct kolo_comm *comm, struct kolo_request *request,
                               const struct kolo_task *task, size_t *counts)
{
    const size_t element_bytes = kolo_dtype_bytes(task->dtype);
    const size_t step = piece_elements(task, element_bytes);
    struct kolo_nested *nested = request->nested;
    char words[KOLO_WORDS_MAX];
    kolo_status status = KOLO_OK;
    kolo_call_words(&request->call, words, sizeof words);
    for (size_t i = 0; i < nested->count && status == KOLO_OK; i++) {
        const size_t at = i * step, left = task->count - at, count = left < step ? left : step;
        const size_t begin =
            share_out(count, element_bytes, comm->local_size, comm->local_rank, counts);
        const struct part part = {
            .send = (const uint8_t *)task->send + at * element_bytes,
            .recv = (uint8_t *)task->recv + at * element_bytes,
            .share = (uint8_t *)task->recv + (at + begin) * element_bytes,
            .counts = counts,
            .mine = counts[comm->local_rank],
        };
        status = make_calls(comm, task, &part, words, &nested->pieces[i]);
        kolo_comm_enter(comm);
        take_calls(comm, &nested->pieces[i]);
        kolo_comm_leave(comm);
    }
    return status;
}

kolo_status kolo_nested_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                const struct kolo_task *task)
{
    const size_t step = piece_elements(task, kolo_dtype_bytes(task->dtype));
    const size_t pieces = (task->count + step - 1) / step;
    size_t *counts = kolo_calloc((size_t)comm->local_size, sizeof *counts);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    request->call = kolo_task_call(task);
    request->nested =
        kolo_calloc(1, sizeof *request->nested + pieces * sizeof request->nested->pieces[0]);
    if (counts && request->nested) {
        request->nested->count = pieces;
        status = kolo_staging_follow(comm, request, task);
    }
    if (status == KOLO_OK)
        status = make_pieces(comm, request, task, counts);
    if (status != KOLO_OK)
        fail_with_nest(comm);
    kolo_free_memory(counts);
    return status;
}

/** Waits on the devices of one inner call. */
static kolo_status await_call(struct kolo_request *call)
{
    return call->staged ? kolo_staging_await(call) : KOLO_OK;
}

/** The calls of the first piece have the buffers of all, and their devices. */
kolo_status kolo_nested_await(struct kolo_request *request)
{
    struct kolo_request *const *calls = request->nested->pieces[0].calls;
    struct kolo_comm *comm = request->comm;
    if (request->follow) /* only that is waited for, and not here */
        return KOLO_OK;
    calls[SUM]->timeout_ms = calls[SPREAD]->timeout_ms = request->timeout_ms;
    kolo_status status = await_call(calls[SUM]);
    if (status == KOLO_OK)
        status = await_call(calls[SPREAD]);
    if (status == KOLO_OK)
        return KOLO_OK;
    fail_with_nest(comm);
    return status;
}

void kolo_nested_drop(struct kolo_request *request)
{
    struct kolo_nested *nested = request->nested;
    request->nested = NULL;
    for (size_t i = 0; i < nested->count; i++)
        for (int stage = 0; stage < STAGES; stage++)
            if (nested->pieces[i].calls[stage])
                kolo_request_drop(nested->pieces[i].calls[stage]);
    kolo_free_memory(nested);
}

/* ---- the row of the host ---- */

struct place {
    size_t piece;
    enum stage stage;
};

/** Entry @p index of the host's row. */
static struct place host_place(const struct kolo_nested *nested, size_t index)
{
    const size_t ahead = nested->count < AHEAD ? nested->count : AHEAD;
    const size_t turns = nested->count - ahead; /* of a SUM and a SPREAD each */
    if (index < ahead)
        return (struct place){index, SUM};
    index -= ahead;
    if (index >= 2 * turns)
        return (struct place){index - turns, SPREAD};
    return index % 2 == 0 ? (struct place){ahead + index / 2, SUM}
                          : (struct place){index / 2, SPREAD};
}

/** Whether the sum of @p piece is over inside the host. Counts the entries of its row, which are
 * over in order. */
static bool is_summed(const struct kolo_nested *nested, size_t piece)
{
    const size_t ahead = nested->count < AHEAD ? nested->count : AHEAD;
    const size_t index = piece < ahead ? piece : ahead + 2 * (piece - ahead);
    return nested->host_over > index;
}

static struct kolo_request *host_call(const struct kolo_nested *nested, size_t index)
{
    const struct place place = host_place(nested, index);
    return nested->pieces[place.piece].calls[place.stage];
}

static struct kolo_request *across_call(const struct kolo_nested *nested, size_t index)
{
    return nested->pieces[index].calls[ACROSS];
}

/** The calls that run and come first in their rows; NULL: none. */
static struct kolo_request *running_in_host(const struct kolo_nested *nested)
{
    return nested->host_over < nested->host_begun ? host_call(nested, nested->host_over) : NULL;
}

static struct kolo_request *running_across(const struct kolo_nested *nested)
{
    return nested->across_over < nested->across_begun ? across_call(nested, nested->across_over)
                                                      : NULL;
}

/* ---- advancing ---- */

static void nested_begin(struct kolo_request *request)
{
    struct kolo_nested *nested = request->nested;
    nested->host_begun = nested->host_over = nested->across_begun = nested->across_over = 0;
    nested->has_failed = false;
}

/** An inner communicator has failed, whichever call was running. No call may begin or be counted
 * any more, since one that was refused looks like one that is over. */
static void fail(struct kolo_request *request, const struct kolo_comm *inner)
{
    request->nested->has_failed = true;
    if (request->comm->failure.status == KOLO_OK)
        fail_with(request->comm, inner);
}

/** An inner call was refused, with @p status and this thread's detail. */
static void refuse(struct kolo_request *request, const struct kolo_request *call,
                   kolo_status status)
{
    char text[KOLO_DETAIL_MAX];
    kolo_detail_keep(text);
    if (call->comm->failure.status != KOLO_OK) {
        fail(request, call->comm);
        return;
    }
    request->nested->has_failed = true;
    kolo_comm_fail_here(request->comm, status, text);
}

/** Counts the calls of both rows that are over. False: one failed. */
static bool look(struct kolo_request *request)
{
    const struct kolo_nest *nest = request->comm->nest;
    struct kolo_nested *nested = request->nested;
    const struct kolo_request *call;
    if (nest->host->failure.status != KOLO_OK)
        fail(request, nest->host);
    else if (nest->across->failure.status != KOLO_OK)
        fail(request, nest->across);
    if (nested->has_failed)
        return false;
    while ((call = running_in_host(nested)) != NULL && call->status == KOLO_OK)
        nested->host_over++;
    while ((call = running_across(nested)) != NULL && call->status == KOLO_OK)
        nested->across_over++;
    return true;
}

/** False: it failed, and so did the request. */
static bool start(struct kolo_request *request, size_t piece, enum stage stage)
{
    const struct piece *calls = &request->nested->pieces[piece];
    struct kolo_request *call = calls->calls[stage];
    call->call.hash = kolo_call_hash(calls->hashes[stage], &request->desc, sizeof request->desc);
    request->stall.moves++;
    const kolo_status status = kolo_chain_begin(call);
    if (status != KOLO_OK)
        refuse(request, call, status);
    return status == KOLO_OK;
}

/** Begins the next call of the host's row, if it may. False: it may not, or failed. */
static bool start_in_host(struct kolo_request *request)
{
    struct kolo_nested *nested = request->nested;
    if (nested->host_begun == 2 * nested->count)
        return false;
    const struct place place = host_place(nested, nested->host_begun);
    if (place.stage == SPREAD && nested->across_over <= place.piece)
        return false;
    nested->host_begun++;
    return start(request, place.piece, place.stage);
}

static bool start_across(struct kolo_request *request)
{
    struct kolo_nested *nested = request->nested;
    if (nested->across_begun == nested->count || !is_summed(nested, nested->across_begun))
        return false;
    const size_t piece = nested->across_begun++;
    return start(request, piece, ACROSS);
}

static bool nested_advance(struct kolo_request *request)
{
    const struct kolo_nested *nested = request->nested;
    bool may_go_on = true;
    while (may_go_on) {
        if (!look(request))
            return false;
        may_go_on = start_across(request) || start_in_host(request);
    }
    return !nested->has_failed && nested->host_over == 2 * nested->count;
}

/** Whether another rank may still access the memory of @p call. */
static bool is_reached(const struct kolo_request *call)
{
    return call && call->status == KOLO_AGAIN &&
           (!call->is_apart || call->stage == KOLO_STAGING_LENT ||
            call->stage == KOLO_STAGING_DIRECT);
}

/** Ends the copies, and lets the stream continue if that is safe: before any route is cancelled,
 * see kolo_requests_calm(). */
static void calm(struct kolo_request *request)
{
    const struct kolo_nest *nest = request->comm->nest;
    const bool is_safe = !is_reached(running_in_host(request->nested)) &&
                         !is_reached(running_across(request->nested));
    kolo_requests_calm(nest->host);
    kolo_requests_calm(nest->across);
    if (request->follow && is_safe)
        kolo_follow_end(request);
}

/** After a failure of the outer communicator, which all its members learn of, the inner ones fail
 * without another word. */
static void nested_cancel(struct kolo_request *request)
{
    const struct kolo_comm *comm = request->comm;
    struct kolo_request *call;
    struct kolo_comm *inner[] = {comm->nest->host, comm->nest->across};
    if (running_in_host(request->nested) || running_across(request->nested))
        calm(request);
    for (int i = 0; i < 2 && comm->failure.status != KOLO_OK; i++)
        kolo_comm_fail_quietly(inner[i], comm->failure.status, comm->failure.text);
    for (; (call = running_in_host(request->nested)) != NULL; request->nested->host_over++)
        if (call->status == KOLO_AGAIN)
            kolo_request_end(call, KOLO_ERR_ABORTED);
    for (; (call = running_across(request->nested)) != NULL; request->nested->across_over++)
        if (call->status == KOLO_AGAIN)
            kolo_request_end(call, KOLO_ERR_ABORTED);
}

/* ---- what it waits for ---- */

/** The ranks that an inner call waits for, as members of the outer communicator. */
static int waits_of(const struct kolo_comm *comm, const struct kolo_request *call, int peers[],
                    int capacity)
{
    if (!call || call->status != KOLO_AGAIN)
        return 0;
    const int count = call->route->waits_for(call, peers, capacity);
    for (int i = 0; i < count && i < capacity; i++)
        peers[i] = kolo_comm_member(comm, kolo_comm_world_rank(call->comm, peers[i]));
    return count < capacity ? count : capacity;
}

static int nested_waits_for(const struct kolo_request *request, int peers[], int capacity)
{
    const int count = waits_of(request->comm, running_in_host(request->nested), peers, capacity);
    return count + waits_of(request->comm, running_across(request->nested), peers + count,
                            capacity - count);
}

void kolo_nested_running(const struct kolo_request *request,
                         const struct kolo_request *calls_out[2])
{
    const struct kolo_request *const calls[] = {running_in_host(request->nested),
                                                running_across(request->nested)};
    for (int i = 0; i < 2; i++)
        calls_out[i] = calls[i] && calls[i]->status == KOLO_AGAIN ? calls[i] : NULL;
}

static void nested_describe(const struct kolo_request *request, char *text, size_t capacity)
{
    const struct kolo_request *calls[2];
    kolo_nested_running(request, calls);
    text[0] = '\0';
    for (int i = 0; i < 2 && text[0] == '\0'; i++)
        if (calls[i])
            calls[i]->route->describe(calls[i], text, capacity);
}

static uint64_t moves_of(const struct kolo_request *call)
{
    return call && call->status == KOLO_AGAIN ? call->route->moves(call) : 0;
}

/** Each call that begins counts more than all that moves in one. */
static uint64_t nested_moves(const struct kolo_request *request)
{
    enum { CALL_BITS = 40 };
    return (request->stall.moves << CALL_BITS) + moves_of(running_in_host(request->nested)) +
           moves_of(running_across(request->nested));
}

const struct kolo_route kolo_route_nested = {
    .begin = nested_begin,
    .advance = nested_advance,
    .cancel = nested_cancel,
    .waits_for = nested_waits_for,
    .describe = nested_describe,
    .moves = nested_moves,
};
