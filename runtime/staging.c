// SPDX-License-Identifier: Apache-2.0
// Owns the staging of device buffers: here, and nowhere else, a call's device buffers are replaced
// by host memory, whatever the call, its plan, its route, and the memory of other ranks. Owns the
// lanes by which copies go. The host memory that stands in for a buffer is a slab
// (runtime/slabs.h). Must never know of CUDA, nor change what a call tells other ranks.
//
// Before a request is made, its task gets slabs in place of such buffers (kolo_staging_prepare),
// and all later code sees only host memory. From the first such call on, all kolo_alloc memory of
// the rank is locked for devices.
//
// When the request starts, its input is copied to the slabs. The route either waits for that, or
// runs beside it segment by segment (runtime/staging_flow.c). Meanwhile the input of later calls is
// copied, and in the other direction the result of the call before. When the route has finished,
// the result is copied back to the device, and then the request is over. A request that follows a
// stream of the program (runtime/stream.c) begins to copy its input when the stream has reached it,
// not when it starts. A sleeping thread is woken when a copy is done. A device that fails fails the
// communicator.
#include "runtime/staging.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/device_memory.h"
#include "runtime/staging_private.h"
#include "runtime/stream.h"
#include "runtime/timers.h"

enum { CANCEL_MS = 1000 };

/** Whether the data stays on the device, where others reach it. */
static bool stays(enum kolo_staging stage)
{
    return stage == KOLO_STAGING_DIRECT || stage == KOLO_STAGING_LENT;
}

kolo_status kolo_staging_fail(struct kolo_request *request, kolo_status status)
{
    struct kolo_comm *comm = request->comm;
    char text[KOLO_DETAIL_MAX], words[KOLO_WORDS_MAX], who[KOLO_RANK_TEXT_MAX];
    kolo_request_words(request, words, sizeof words);
    snprintf(text, sizeof text, "%s on %s: %s", words, kolo_comm_rank_text(comm, comm->rank, who),
             kolo_error_detail());
    kolo_comm_fail(comm, status, text);
    return kolo_comm_failed(comm, NULL);
}

/* ---- lanes ---- */

static void wake(void *context)
{
    kolo_endpoint_wake(((struct kolo_engine *)context)->endpoint);
}

kolo_status kolo_staging_lane(struct kolo_engine *engine, const struct kolo_pointer *pointer,
                              struct kolo_lane **lane_out)
{
    struct kolo_lane *lane = engine->lanes;
    while (lane && !kolo_lane_serves(lane, pointer))
        lane = lane->next;
    if (!lane) {
        const kolo_status status = kolo_lane_open(pointer, wake, engine, &lane);
        if (status != KOLO_OK)
            return status;
        lane->next = engine->lanes;
        engine->lanes = lane;
    }
    *lane_out = lane;
    /* A lane that is opened while another thread sleeps must wake that thread too. If it cannot,
     * the thread looks for itself. */
    if (engine->is_sleeping && kolo_lane_sleeps(lane, true) != KOLO_OK)
        kolo_endpoint_wake(engine->endpoint);
    return KOLO_OK;
}

/* ---- from a task to slabs ---- */

static struct kolo_staged *make_staged(const struct kolo_engine *engine, size_t bytes)
{
    const size_t segment = kolo_flow_segment_bytes(bytes, engine->settings.stage_bytes);
    const size_t count = (bytes + segment - 1) / segment;
    struct kolo_staged *staged =
        kolo_calloc(1, sizeof *staged + count * sizeof staged->segments[0]);
    if (staged) {
        staged->bytes = bytes;
        staged->segment_bytes = segment;
        staged->segment_count = count;
    }
    return staged;
}

/** Held: lock. */
static kolo_status add(struct kolo_request *request, const struct kolo_pointer *pointer,
                       size_t bytes, struct kolo_byte_range in, struct kolo_byte_range out)
{
    struct kolo_engine *engine = request->comm->engine;
    struct kolo_staged *staged = make_staged(engine, bytes);
    if (!staged)
        return KOLO_ERR_NO_MEMORY;
    staged->device = (uint8_t *)(uintptr_t)pointer->memory;
    staged->in = in;
    staged->out = out;
    kolo_status status = kolo_staging_lane(engine, pointer, &staged->lane);
    const bool is_reserved = status == KOLO_OK && kolo_lent_reserve(request, staged);
    if (status == KOLO_OK && !is_reserved)
        status = kolo_slab_take(request->comm, bytes, pointer, &staged->slab);
    if (status != KOLO_OK) {
        kolo_free_memory(staged);
        return status;
    }
    if (!is_reserved)
        staged->host = staged->slab->memory;
    staged->next = request->staged;
    request->staged = staged;
    return KOLO_OK;
}

/** Where in @p to the byte is for which @p address stands, if it is in the buffer @p staged; else
 * @p address. */
static void *moved(const void *address, const struct kolo_staged *staged, uint8_t *to)
{
    const size_t at = (size_t)((uintptr_t)address - (uintptr_t)staged->host);
    return at < staged->bytes ? to + at : (void *)(uintptr_t)address;
}

/** Also replaces the addresses that stood in for the buffer in the request. */
kolo_status kolo_staging_take_slab(struct kolo_request *request, struct kolo_staged *staged)
{
    struct kolo_engine *engine = request->comm->engine;
    struct kolo_pointer pointer;
    if (!kolo_device_memory_find(engine, staged->device, staged->bytes, &pointer))
        return kolo_fail(KOLO_ERR_INVALID, "memory at %p was freed while a call has it",
                         (void *)staged->device);
    kolo_status status = kolo_slab_take(request->comm, staged->bytes, &pointer, &staged->slab);
    if (status != KOLO_OK)
        return status;
    uint8_t *memory = staged->slab->memory;
    request->send = moved(request->send, staged, memory);
    request->recv = moved(request->recv, staged, memory);
    request->scaling.input = moved(request->scaling.input, staged, memory);
    request->scaling.unscaled = moved(request->scaling.unscaled, staged, memory);
    kolo_lent_drop(staged);
    staged->host = memory;
    return KOLO_OK;
}

/** Stages the buffer at @p memory. *slab_out: what stands in for it; NULL: nothing, it is host
 * memory. */
static kolo_status stage(struct kolo_request *request, const void *memory, size_t bytes,
                         struct kolo_byte_range in, struct kolo_byte_range out, uint8_t **slab_out)
{
    struct kolo_comm *comm = request->comm;
    struct kolo_pointer pointer;
    struct kolo_span span;
    *slab_out = NULL;
    if (bytes == 0 || kolo_heap_find(comm->engine->heap, memory, bytes, &span))
        return KOLO_OK; /* the driver need not be asked about the rank's own memory */
    kolo_status status = kolo_pointer_look(memory, &pointer);
    if (status == KOLO_OK && kolo_pointer_is_host(&pointer))
        return KOLO_OK;
    if (status == KOLO_OK)
        kolo_heap_pin(comm->engine->heap, &pointer);
    if (status == KOLO_OK)
        request->may_lend &= kolo_lent_look(request, memory, bytes);
    kolo_comm_enter(comm);
    if (status == KOLO_OK)
        status = add(request, &pointer, bytes, in, out);
    if (status == KOLO_OK)
        *slab_out = request->staged->host;
    else if (status != KOLO_ERR_NO_MEMORY)
        status = kolo_staging_fail(request, status);
    kolo_comm_leave(comm);
    return status;
}

/** Stages one buffer that is read and written: the smaller part lies within the larger. */
static kolo_status stage_in_place(struct kolo_request *request, struct kolo_task *task)
{
    const uintptr_t send = (uintptr_t)task->send, recv = (uintptr_t)task->recv;
    const uintptr_t send_end = send + task->send_bytes, recv_end = recv + task->recv_bytes;
    const uintptr_t base = send < recv ? send : recv;
    const size_t bytes = (send_end > recv_end ? send_end : recv_end) - base;
    const struct kolo_byte_range out = {recv - base, task->recv_bytes};
    struct kolo_byte_range in = {send - base, task->send_bytes};
    uint8_t *slab;
    if (task->displs) /* what lies between blocks must come back unchanged */
        in = (struct kolo_byte_range){0, bytes};
    kolo_status status = stage(request, (const void *)base, bytes, in, out, &slab);
    if (status == KOLO_OK && slab) {
        task->send = slab + (send - base);
        task->recv = slab + (recv - base);
    }
    return status;
}

static kolo_status stage_apart(struct kolo_request *request, struct kolo_task *task)
{
    const struct kolo_byte_range none = {0, 0}, sent = {0, task->send_bytes},
                                 received = {0, task->recv_bytes};
    uint8_t *slab;
    kolo_status status = stage(request, task->send, task->send_bytes, sent, none, &slab);
    if (status == KOLO_OK && slab)
        task->send = slab;
    if (status == KOLO_OK)
        status = stage(request, task->recv, task->recv_bytes, task->displs ? received : none,
                       received, &slab);
    if (status == KOLO_OK && slab)
        task->recv = slab;
    return status;
}

static bool is_slab(const struct kolo_request *request, const void *memory)
{
    for (const struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        if ((uintptr_t)memory - (uintptr_t)staged->host < staged->bytes)
            return true;
    return false;
}

kolo_status kolo_staging_follow(struct kolo_comm *comm, struct kolo_request *request,
                                const struct kolo_task *task)
{
    request->comm = comm;
    if (!kolo_task_stream(task))
        return KOLO_OK;
    kolo_status status = kolo_follow_prepare(request, kolo_task_stream(task));
    if (status == KOLO_ERR_SYSTEM) { /* the device failed: the other ranks must not wait */
        kolo_comm_enter(comm);
        status = kolo_staging_fail(request, status);
        kolo_comm_leave(comm);
    }
    return status;
}

kolo_status kolo_staging_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 struct kolo_task *task)
{
    request->call = kolo_task_call(task);
    request->may_lend = kolo_lent_may(comm, task);
    kolo_slabs_trim(comm->engine);
    kolo_status status = kolo_staging_follow(comm, request, task);
    if (status != KOLO_OK)
        return status;
    status = task->in_place ? stage_in_place(request, task) : stage_apart(request, task);
    request->is_apart = (task->send_bytes == 0 || is_slab(request, task->send)) &&
                        (task->recv_bytes == 0 || is_slab(request, task->recv));
    if (status == KOLO_OK)
        kolo_lent_ready(request);
    return status;
}

void kolo_staging_take(struct kolo_request *to, struct kolo_request *from)
{
    struct kolo_staged **end = &to->staged;
    while (*end)
        end = &(*end)->next;
    *end = from->staged;
    from->staged = NULL;
}

void kolo_staging_drop(struct kolo_request *request)
{
    struct kolo_engine *engine = request->comm->engine;
    kolo_staging_cancel(request); /* if a start failed */
    kolo_follow_drop(request);
    for (struct kolo_staged *staged = request->staged, *next; staged; staged = next) {
        next = staged->next;
        if (staged->slab)
            kolo_slab_give_back(engine, staged->slab);
        kolo_lent_drop(staged);
        kolo_free_memory(staged);
    }
    request->staged = NULL;
}

/* ---- copies to the host ---- */

static kolo_status wait_until(const struct kolo_request *request, enum kolo_way way,
                              kolo_deadline deadline)
{
    kolo_status status = KOLO_OK;
    for (const struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        status = kolo_lane_wait(staged->lane, way, staged->marks[way], deadline);
    return status;
}

/** A wait before the call has begun, which the store is told of if it lasts. */
struct wait {
    const struct kolo_request *request;
    enum kolo_own_wait own;
    kolo_deadline report_at;
    uint32_t report; /* its number; 0: none */
};

static struct wait wait_for(const struct kolo_request *request, enum kolo_own_wait own)
{
    const int64_t stall_ms = request->comm->engine->settings.stall_ms;
    return (struct wait){request, own, kolo_deadline_in_ms(stall_ms), 0};
}

/** Held: lock. */
static void report(struct wait *wait)
{
    if (wait->report == 0)
        wait->report = kolo_comm_report_before(wait->request->comm, wait->request, wait->own);
}

/** Not held: lock. */
static void end_wait(struct wait *wait)
{
    struct kolo_comm *comm = wait->request->comm;
    if (wait->report == 0)
        return;
    kolo_comm_enter(comm);
    kolo_comm_unreport_before(comm, wait->report);
    kolo_comm_leave(comm);
}

/** Polls while the call waits for its device: other ranks may wait in vain for this rank's call,
 * and the device for a call of theirs. */
static bool has_failed(void *context)
{
    struct wait *wait = context;
    struct kolo_comm *comm = wait->request->comm;
    kolo_comm_enter(comm);
    kolo_engine_poll(comm->engine);
    kolo_comm_settle(comm);
    if (kolo_deadline_passed(wait->report_at))
        report(wait);
    const bool failed = comm->failure.status != KOLO_OK;
    kolo_comm_leave(comm);
    return failed;
}

/** Whether an earlier entry has the same lane. */
static bool is_repeated(const struct kolo_request *request, const struct kolo_staged *staged)
{
    const struct kolo_staged *other = request->staged;
    while (other != staged && other->lane != staged->lane)
        other = other->next;
    return other != staged;
}

static kolo_status await_device(const struct kolo_request *request, kolo_deadline deadline)
{
    struct wait wait = wait_for(request, KOLO_OWN_DEVICE);
    const struct kolo_unless unless = {has_failed, &wait};
    kolo_status status = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        if (!is_repeated(request, staged))
            status = kolo_lane_await_device(staged->lane, deadline, &unless);
    end_wait(&wait);          /* before a failure, which says the same */
    if (status == KOLO_AGAIN) /* if the communicator has failed, its first cause stays */
        status = kolo_fail(KOLO_ERR_TIMEOUT,
                           "the device has not finished the program's earlier work within %d ms: "
                           "does that work wait for this call, or for another rank's?",
                           request->timeout_ms);
    return status;
}

/** Messages are sent in the order of calls, and one in host memory begins at once. So a message in
 * device memory is copied to the host before it is submitted. Not held: lock, which the wait does
 * not take. */
static kolo_status bring_message(struct kolo_request *request, kolo_deadline deadline)
{
    kolo_comm_enter(request->comm);
    kolo_status status = KOLO_OK;
    const bool is_running = request->status == KOLO_AGAIN; /* then its start will be refused */
    const bool is_direct = !is_running && kolo_direct_is_possible(request);
    if (is_direct) {
        kolo_direct_begin(request);
        request->stage = KOLO_STAGING_DIRECT;
    } else if (!is_running) {
        status = kolo_flow_begin(request, false);
        request->stage = KOLO_STAGING_IN;
    }
    kolo_comm_leave(request->comm);
    if (is_running || is_direct || status != KOLO_OK)
        return status;
    struct wait wait = wait_for(request, KOLO_OWN_INPUT);
    status = wait_until(request, KOLO_WAY_IN, kolo_deadline_min(deadline, wait.report_at));
    if (status == KOLO_AGAIN && !kolo_deadline_passed(deadline)) {
        kolo_comm_enter(request->comm);
        report(&wait);
        kolo_comm_leave(request->comm);
        status = wait_until(request, KOLO_WAY_IN, deadline);
    }
    end_wait(&wait);
    if (status == KOLO_AGAIN)
        return kolo_fail(KOLO_ERR_TIMEOUT, "the device has not copied within %d ms",
                         request->timeout_ms);
    if (status == KOLO_OK)
        request->stage = KOLO_STAGING_READY;
    return status;
}

kolo_status kolo_staging_await(struct kolo_request *request)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(request->timeout_ms);
    if (request->follow) /* only that is waited for, and not here */
        return KOLO_OK;
    kolo_status status = await_device(request, deadline);
    if (status == KOLO_OK && kolo_call_is_message(request->call.kind))
        status = bring_message(request, deadline);
    /* _UNSUPPORTED: a stream is being captured */
    if (status != KOLO_OK && status != KOLO_ERR_UNSUPPORTED) {
        kolo_comm_enter(request->comm);
        status = kolo_staging_fail(request, status);
        kolo_comm_leave(request->comm);
    }
    return status;
}

static kolo_status begin_copies(struct kolo_request *request)
{
    request->scaling.is_on_device = false;
    if (kolo_direct_is_possible(request)) {
        kolo_direct_begin(request);
        request->stage = KOLO_STAGING_DIRECT;
        return KOLO_OK;
    }
    if (kolo_lent_can(request)) {
        kolo_lent_begin(request);
        return KOLO_OK;
    }
    const bool can_flow = kolo_flow_can(request);
    kolo_status status = kolo_lent_bring(request);
    if (status == KOLO_OK)
        status = kolo_flow_begin(request, can_flow);
    request->stage = can_flow ? KOLO_STAGING_FLOWS : KOLO_STAGING_IN;
    return status;
}

kolo_status kolo_staging_begin(struct kolo_request *request)
{
    if (kolo_call_is_message(request->call.kind))
        return KOLO_OK;
    if (request->follow) {
        request->stage = KOLO_STAGING_BEHIND;
        return KOLO_OK;
    }
    const kolo_status status = begin_copies(request);
    return status == KOLO_OK ? KOLO_OK : kolo_staging_fail(request, status);
}

/** Begins the copies once the stream has reached the request. */
static kolo_status look_behind(struct kolo_request *request)
{
    kolo_status status = kolo_follow_reached(request);
    if (status == KOLO_OK) {
        request->comm->engine->has_moved = true;
        status = begin_copies(request);
    }
    return status;
}

bool kolo_staging_is_in(struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    if (request->stage == KOLO_STAGING_BEHIND)
        status = look_behind(request);
    else if (request->stage != KOLO_STAGING_IN && request->stage != KOLO_STAGING_FLOWS)
        return true;
    if (status == KOLO_OK && request->stage == KOLO_STAGING_IN)
        status = kolo_flow_is_in(request);
    if (status != KOLO_OK && status != KOLO_AGAIN) {
        (void)kolo_staging_fail(request, status);
        return false;
    }
    if (request->stage == KOLO_STAGING_FLOWS || stays(request->stage))
        return true;
    if (status == KOLO_AGAIN)
        return false;
    request->stage = KOLO_STAGING_READY;
    request->comm->engine->has_moved = true;
    kolo_request_load(request);
    return true;
}

bool kolo_staging_has(struct kolo_request *request, const struct kolo_step *step)
{
    const kolo_status status = kolo_flow_has(request, step);
    if (status != KOLO_OK && status != KOLO_AGAIN)
        (void)kolo_staging_fail(request, status);
    return status == KOLO_OK;
}

/* ---- where links reach the device ---- */

uint8_t *kolo_staging_address(const struct kolo_request *request, uint8_t *host)
{
    return kolo_direct_address(request, host);
}

bool kolo_staging_may(struct kolo_request *request, size_t index, const struct kolo_step *step)
{
    const kolo_status status = kolo_direct_may(request, index, step);
    if (status != KOLO_OK && status != KOLO_AGAIN)
        (void)kolo_staging_fail(request, status);
    return status == KOLO_OK;
}

bool kolo_staging_received(struct kolo_request *request, const struct kolo_work *work)
{
    const kolo_status status = kolo_direct_received(request, work);
    if (status != KOLO_OK)
        (void)kolo_staging_fail(request, status);
    return status == KOLO_OK;
}

/* ---- copies from the host ---- */

void kolo_staging_flow(struct kolo_request *request)
{
    if (request->stage != KOLO_STAGING_FLOWS)
        return;
    const kolo_status status = kolo_flow_continue(request);
    if (status != KOLO_OK)
        (void)kolo_staging_fail(request, status);
}

static kolo_status look_out(const struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    for (const struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        status = kolo_lane_passed(staged->lane, KOLO_WAY_OUT, staged->marks[KOLO_WAY_OUT]);
    return status;
}

bool kolo_staging_is_out(struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    /* segments that no step touched may still have to be copied to the host */
    if (request->stage == KOLO_STAGING_FLOWS)
        status = kolo_flow_continue(request);
    if (status == KOLO_OK && request->stage == KOLO_STAGING_FLOWS)
        status = kolo_flow_is_in(request);
    if (status == KOLO_OK && request->stage != KOLO_STAGING_OUT) {
        if (request->stage == KOLO_STAGING_LENT)
            status = kolo_lent_finish(request);
        else
            kolo_request_finish(request);
        if (!stays(request->stage))
            status = kolo_flow_end(request);
        request->stage = KOLO_STAGING_OUT;
        request->comm->engine->has_moved = true;
    }
    if (status == KOLO_OK)
        status = look_out(request);
    if (status == KOLO_AGAIN)
        return false;
    if (status != KOLO_OK) {
        (void)kolo_staging_fail(request, status);
        return false;
    }
    request->stage = KOLO_STAGING_NONE;
    return true;
}

/** Waits for the copies of both directions, and for kernels. False: they are not over. *writes_out
 * becomes true if the device may still write to the program's buffer. */
static bool await_copies(struct kolo_staged *staged, kolo_deadline deadline, bool *writes_out)
{
    const kolo_deadline until = staged->lane->is_late ? 0 : deadline;
    const bool is_in =
        kolo_lane_is_over(staged->lane, KOLO_WAY_IN, staged->marks[KOLO_WAY_IN], until);
    const bool is_out =
        kolo_lane_is_over(staged->lane, KOLO_WAY_OUT, staged->marks[KOLO_WAY_OUT], until);
    *writes_out |= !is_out;
    return is_in && is_out;
}

/** No driver can take back a copy that is queued. */
static void warn_late(const struct kolo_request *request)
{
    char words[KOLO_WORDS_MAX];
    kolo_request_words(request, words, sizeof words);
    KOLO_WARN("%s sequence %u has failed, but the device has not done what it was given for it: it "
              "may still write to the buffers of that call",
              words, request->call.sequence);
}

/** Waits a moment until all copies of @p request are over. */
static void end_copies(struct kolo_request *request)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(CANCEL_MS);
    bool writes = false;
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next) {
        if (staged->bytes == 0)
            continue;
        const bool is_over = await_copies(staged, deadline, &writes);
        staged->lane->is_late = !is_over; /* so that many requests wait only once */
        if (!is_over) {                   /* a late copy may still arrive: never used again */
            staged->slab = NULL;
            staged->is_reserved = false;
        }
    }
    if (writes)
        warn_late(request);
}

void kolo_staging_cancel(struct kolo_request *request)
{
    const enum kolo_staging stage = request->stage;
    request->stage = KOLO_STAGING_NONE;
    if (stage == KOLO_STAGING_NONE)
        return;
    /* in stage BEHIND nothing has been copied or is known to others */
    if (stage != KOLO_STAGING_BEHIND)
        end_copies(request);
    if (request->follow && (stage == KOLO_STAGING_BEHIND || (!stays(stage) && request->is_apart)))
        kolo_follow_end(request);
}

bool kolo_staging_close(struct kolo_engine *engine, kolo_deadline deadline)
{
    bool is_over = true;
    while (engine->lanes) {
        struct kolo_lane *lane = engine->lanes;
        engine->lanes = lane->next;
        is_over &= kolo_lane_close(lane, deadline);
    }
    return kolo_slabs_close(engine, !is_over);
}
