// SPDX-License-Identifier: Apache-2.0
// Groups: calls that are collected, and started together by kolo_group_end. Owns the open group of
// a communicator, and the fusion of its short allreduces. Must never start a part of a group, or
// write a buffer, before the whole group can start.
//
// Each call is checked and prepared when it is made (kolo_task_prepare), so errors are reported at
// once; the group remembers the first failure. At its end no call may write what another one reads
// or writes (accesses.h). Consecutive allreduces of the same type and operator are fused into one
// call on memory of its own: the parts are gathered before it and scattered after it. All ranks
// fuse alike, because fusion depends only on what each call's description contains. (A rank's
// prescale is not in the description; it is applied when the part is gathered.) The hash of the
// fused call is the sum of the descriptions.
#include "runtime/group.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/forks.h"
#include "base/log.h"
#include "memory/reduce.h"
#include "runtime/accesses.h"
#include "runtime/staging.h"
#include "runtime/stream.h"

/* For a part of 4 KiB the two copies cost less than the latency of a collective (bench/RESULTS.md,
 * Calls that repeat, and groups). The length from which on they cost more was not measured. */
enum { FUSED_PART_BYTES = 4 << 10, FUSED_BYTES = 32 << 10 };

struct kolo_group {
    kolo_status status; /* of the first call that failed */
    char text[KOLO_DETAIL_MAX];
    struct kolo_request *first, *last;
    unsigned calls;
    struct kolo_accesses accesses; /* of their buffers */
};

/** Its calls are kept. */
static void free_group(struct kolo_group *group)
{
    kolo_accesses_free(&group->accesses);
    kolo_free_memory(group);
}

void kolo_group_drop(struct kolo_comm *comm)
{
    struct kolo_group *group = atomic_exchange(&comm->group, NULL);
    char who[KOLO_RANK_TEXT_MAX], where[KOLO_COMM_WORDS_MAX];
    if (!group)
        return;
    if (group->calls > 0 && group->status == KOLO_OK && comm->failure.status == KOLO_OK)
        KOLO_WARN("%s finalized its communicator%s with an open group: %u call%s never started, "
                  "because kolo_group_end was not called",
                  kolo_comm_rank_text(comm, comm->rank, who), kolo_comm_words(comm, where),
                  group->calls, group->calls == 1 ? " was" : "s were");
    free_group(group);
}

kolo_status kolo_group_begin(struct kolo_comm *comm)
{
    kolo_status status = kolo_comm_check(comm, "kolo_group_begin");
    if (status != KOLO_OK)
        return status;
    struct kolo_group *group = kolo_calloc(1, sizeof *group), *none = NULL;
    if (!group)
        return KOLO_ERR_NO_MEMORY;
    if (atomic_compare_exchange_strong(&comm->group, &none, group))
        return KOLO_OK;
    kolo_free_memory(group);
    return kolo_fail(KOLO_ERR_INVALID, "kolo_group_begin: a group is open: end it first");
}

kolo_status kolo_group_none(const struct kolo_comm *comm, const char *function)
{
    if (!comm || !atomic_load_explicit(&comm->group, memory_order_relaxed))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID, "%s: cannot be part of a group: call kolo_group_end first",
                     function);
}

kolo_status kolo_group_note(struct kolo_comm *comm, kolo_status status)
{
    if (status == KOLO_OK || !comm || !atomic_load_explicit(&comm->group, memory_order_relaxed))
        return status;
    if (comm->engine->forks != kolo_forks()) /* a thread that is not here may hold the lock */
        return status;
    kolo_comm_enter(comm);
    struct kolo_group *group = atomic_load(&comm->group);
    if (group && group->status == KOLO_OK) {
        group->status = status;
        snprintf(group->text, sizeof group->text, "%s", kolo_error_detail());
    }
    kolo_comm_leave(comm);
    return status;
}

/** Refuses a call with a stream: calls that are fused might follow different streams. */
static kolo_status refuse_stream(const struct kolo_task *task)
{
    if (!kolo_task_stream(task))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "%s: a group cannot follow a stream: opts->stream must be NULL",
                     task->function);
}

/** Held: lock. On failure the caller still owns the request. */
static kolo_status take_up(const struct kolo_comm *comm, struct kolo_group *group,
                           const struct kolo_task *task, struct kolo_request *request)
{
    if (!group)
        return kolo_fail(KOLO_ERR_INVALID, "%s: another thread ended the group", task->function);
    kolo_status status = kolo_accesses_add(&group->accesses, task, comm->size);
    if (status != KOLO_OK)
        return status;
    if (group->last)
        group->last->chain = request;
    else
        group->first = request;
    group->last = request;
    group->calls++;
    return KOLO_OK;
}

kolo_status kolo_group_add(struct kolo_comm *comm, const struct kolo_task *task)
{
    struct kolo_request *request = NULL;
    if (task->request_out)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: in a group request_out must be NULL: kolo_group_end gives one for "
                         "all",
                         task->function);
    kolo_status status = refuse_stream(task);
    if (status == KOLO_OK)
        status = kolo_task_prepare(comm, task, &request);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    status = take_up(comm, atomic_load(&comm->group), task, request);
    if (status != KOLO_OK)
        kolo_chain_drop(request);
    kolo_comm_leave(comm);
    return status;
}

/* ---- fusion ---- */

static size_t bytes_of(const struct kolo_request *request)
{
    return (size_t)request->call.count * kolo_dtype_bytes(request->call.dtype);
}

static bool is_short(const struct kolo_request *request)
{
    return request->call.kind == KOLO_CALL_ALLREDUCE && request->comm->size > 1 &&
           !request->nested && request->scaling.postscale == 0 &&
           bytes_of(request) <= FUSED_PART_BYTES;
}

static bool goes_with(const struct kolo_request *first, const struct kolo_request *other)
{
    return is_short(other) && first->call.dtype == other->call.dtype &&
           first->call.op == other->call.op && first->own_op == other->own_op &&
           first->flags == other->flags;
}

/** Counts the collectives from @p first on that can be fused, and their bytes. */
static size_t count_run(const struct kolo_request *first, size_t *bytes_out)
{
    size_t count = 0, bytes = 0;
    for (const struct kolo_request *request = first; request; request = request->chain) {
        if (kolo_request_is_message(request))
            continue;
        if (!goes_with(first, request) || bytes + bytes_of(request) > FUSED_BYTES)
            break;
        bytes += bytes_of(request);
        count++;
    }
    *bytes_out = bytes;
    return is_short(first) ? count : 0;
}

/** Makes one allreduce, in place in memory of its own, for @p count calls with @p bytes in all. */
static kolo_status make_fused(const struct kolo_request *first, size_t count, size_t bytes,
                              struct kolo_request **fused_out)
{
    char name[40];
    struct kolo_group_part *parts = kolo_calloc(count, sizeof *parts);
    void *memory = kolo_aligned(64, bytes > 0 ? bytes : 1);
    snprintf(name, sizeof name, "group of %zu", count);
    const struct kolo_opts opts = {.size = sizeof opts, .name = name, .flags = first->flags};
    const struct kolo_task task = {.kind = KOLO_CALL_ALLREDUCE,
                                   .function = "kolo_group_end",
                                   .send = memory,
                                   .recv = memory,
                                   .count = bytes / kolo_dtype_bytes(first->call.dtype),
                                   .dtype = first->call.dtype,
                                   .op = first->call.op,
                                   .in_place = true,
                                   .opts = &opts};
    kolo_status status = parts && memory ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = kolo_task_prepare(first->comm, &task, fused_out);
    if (status != KOLO_OK) {
        kolo_free_memory(parts);
        kolo_free_memory(memory);
        return status;
    }
    (*fused_out)->parts = parts;
    (*fused_out)->scaling.room = memory; /* freed with the request */
    return KOLO_OK;
}

/** Moves the call of @p request into @p fused. */
static void take_part(struct kolo_request *fused, struct kolo_request *request)
{
    uint64_t facts[2] = {request->call.count, request->call.hash};
    const bool is_scaled = request->scaling.prescale != 0;
    fused->parts[fused->part_count++] =
        (struct kolo_group_part){.send = is_scaled ? request->scaling.unscaled : request->send,
                                 .recv = request->recv,
                                 .count = (size_t)request->call.count,
                                 .prescale = request->scaling.prescale};
    fused->call.hash = kolo_call_hash(fused->call.hash, facts, sizeof facts);
    if (request->timeout_ms < fused->timeout_ms)
        fused->timeout_ms = request->timeout_ms;
    kolo_staging_take(fused, request);
}

/** Removes @p count collectives from @p *place on from the chain, and puts a fused one in their
 * place. */
static kolo_status fuse(struct kolo_request **place, size_t count, size_t bytes)
{
    struct kolo_comm *comm = (*place)->comm;
    struct kolo_request *fused = NULL;
    kolo_status status = make_fused(*place, count, bytes, &fused);
    if (status != KOLO_OK)
        return status;
    fused->chain = *place;
    *place = fused;
    kolo_comm_enter(comm);
    for (struct kolo_request **at = &fused->chain; count > 0;) {
        struct kolo_request *request = *at;
        if (kolo_request_is_message(request)) {
            at = &request->chain;
            continue;
        }
        take_part(fused, request);
        *at = request->chain;
        kolo_request_drop(request);
        count--;
    }
    kolo_comm_leave(comm);
    return KOLO_OK;
}

static kolo_status fuse_all(struct kolo_group *group)
{
    for (struct kolo_request **at = &group->first; *at; at = &(*at)->chain) {
        size_t bytes, count = kolo_request_is_message(*at) ? 0 : count_run(*at, &bytes);
        kolo_status status = count > 1 ? fuse(at, count, bytes) : KOLO_OK;
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

void kolo_parts_gather(const struct kolo_request *request)
{
    const kolo_dtype dtype = request->call.dtype;
    uint8_t *at = request->recv;
    for (size_t i = 0; i < request->part_count; i++) {
        const struct kolo_group_part *part = &request->parts[i];
        const size_t bytes = part->count * kolo_dtype_bytes(dtype);
        if (part->prescale != 0)
            kolo_scale(at, part->send, part->count, dtype, part->prescale);
        else if (bytes > 0)
            memcpy(at, part->send, bytes);
        at += bytes;
    }
}

void kolo_parts_scatter(const struct kolo_request *request)
{
    const uint8_t *at = request->recv;
    for (size_t i = 0; i < request->part_count; i++) {
        const struct kolo_group_part *part = &request->parts[i];
        const size_t bytes = part->count * kolo_dtype_bytes(request->call.dtype);
        if (bytes > 0)
            memcpy(part->recv, at, bytes);
        at += bytes;
    }
}

/* ---- the end ---- */

static void settle_options(struct kolo_request *chain, const struct kolo_opts *opts)
{
    for (; chain; chain = chain->chain) {
        chain->is_persistent = (kolo_opts_flags(opts) & KOLO_PERSISTENT) != 0;
        if (opts && opts->timeout_ms > 0)
            chain->timeout_ms = opts->timeout_ms;
    }
}

/** Refuses a group in which one call writes what another reads or writes. */
static kolo_status check_apart(struct kolo_group *group)
{
    struct kolo_access first, second;
    if (!kolo_accesses_clash(&group->accesses, &first, &second))
        return KOLO_OK;
    const uintptr_t begin = first.begin > second.begin ? first.begin : second.begin;
    const uintptr_t end = first.end < second.end ? first.end : second.end;
    const char *does = second.is_written ? "writes" : "reads";
    const char *did = !first.is_written ? "reads" : second.is_written ? "writes too" : "writes";
    return kolo_fail(KOLO_ERR_INVALID,
                     "kolo_group_end: call %u (%s) %s what call %u (%s) %s, %zu bytes at %p: "
                     "calls of a group run at the same time; end the group between the two",
                     second.call, second.function, does, first.call, first.function, did,
                     (size_t)(end - begin), (void *)begin);
}

/** Checks the arguments of kolo_group_end, and whether all calls were accepted. */
static kolo_status check_end(struct kolo_comm *comm, struct kolo_group *group,
                             const struct kolo_task *task)
{
    kolo_status status = kolo_task_check(comm, task);
    if (status == KOLO_OK)
        status = refuse_stream(task);
    if (group->status == KOLO_OK)
        return status != KOLO_OK ? status : check_apart(group);
    kolo_detail_set(group->text);
    return group->status;
}

static kolo_status start(struct kolo_comm *comm, struct kolo_group *group,
                         const struct kolo_task *task)
{
    kolo_status status = check_end(comm, group, task);
    if (status == KOLO_OK)
        status = fuse_all(group);
    if (status != KOLO_OK || !group->first)
        return status;
    settle_options(group->first, task->opts);
    if (!group->first->is_persistent)
        status = kolo_chain_start(group->first, task->request_out != NULL);
    return status;
}

/** The group that was open; NULL: none. With the lock, since another thread may be adding a call to
 * it. */
static struct kolo_group *close_group(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    struct kolo_group *group = atomic_exchange(&comm->group, NULL);
    kolo_comm_leave(comm);
    return group;
}

kolo_status kolo_group_end(struct kolo_comm *comm, const struct kolo_opts *opts,
                           struct kolo_request **request_out)
{
    const struct kolo_task task = {.kind = KOLO_CALL_BARRIER,
                                   .function = "kolo_group_end",
                                   .opts = opts,
                                   .request_out = request_out};
    if (request_out)
        *request_out = NULL;
    kolo_status status = kolo_comm_check(comm, task.function);
    if (status != KOLO_OK)
        return status;
    struct kolo_group *group = close_group(comm);
    if (!group)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_group_end: no group is open");
    status = start(comm, group, &task);
    struct kolo_request *chain = group->first;
    free_group(group);
    if (status == KOLO_OK && request_out) {
        *request_out = chain;
        return KOLO_OK;
    }
    kolo_comm_enter(comm);
    if (status == KOLO_OK && chain)
        status = kolo_chain_wait(chain, KOLO_NEVER); /* each call has its own deadline */
    kolo_chain_drop(chain);
    kolo_comm_leave(comm);
    return status;
}
