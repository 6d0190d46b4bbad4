// SPDX-License-Identifier: Apache-2.0
// The public collectives. All arguments, and what all calls have in common, are checked here,
// completely, before anything else happens: a wrong one is ERR_INVALID, with one line that names
// function, argument and value. Must never send or write anything before that. Sends and receives
// are in p2p.c.
#include "runtime/comm.h"

#include <stdint.h>

#include "memory/reduce.h"
#include "runtime/group.h"
#include "runtime/own_ops.h"
#include "runtime/scale.h"
#include "runtime/submit.h"

/* ---- checks ---- */

enum { OPTS_BYTES_BEFORE_FLAGS = offsetof(struct kolo_opts, flags) };

unsigned kolo_opts_flags(const struct kolo_opts *opts)
{
    return opts && opts->size > OPTS_BYTES_BEFORE_FLAGS ? opts->flags : 0;
}

static kolo_status check_operator(struct kolo_comm *comm, const struct kolo_task *task)
{
    if (!kolo_call_reduces(task->kind))
        return KOLO_OK;
    if ((unsigned)task->op >= KOLO_REDOP_OWN)
        return kolo_own_op_check(comm, task);
    if ((unsigned)task->op >= KOLO_REDOPS)
        return kolo_fail(KOLO_ERR_INVALID, "%s: op %d is not an operator", task->function,
                         (int)task->op);
    if (kolo_reduce_function(task->dtype, task->op))
        return KOLO_OK;
    if ((unsigned)task->dtype > KOLO_DTYPE_OPAQUE)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: %s cannot combine opaque elements: make an operator for them with "
                         "kolo_op_create",
                         task->function, kolo_redop_text(task->op));
    return kolo_fail(KOLO_ERR_INVALID, "%s: %s is for integers, not for %s", task->function,
                     kolo_redop_text(task->op), kolo_dtype_text(task->dtype));
}

/** Whether the call can follow a stream. Messages cannot, because they are sent in the order of
 * calls, nor calls that make a communicator, because they consist of several calls. */
static bool can_follow(const struct kolo_task *task)
{
    return !task->is_own && !kolo_call_is_message(task->kind);
}

static kolo_status check_opts(const struct kolo_task *task)
{
    const struct kolo_opts *opts = task->opts;
    if (!opts)
        return KOLO_OK;
    if (!kolo_opts_size_is_known(opts->size))
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: opts->size is %zu, not %zu: set it to "
                         "sizeof(struct kolo_opts)",
                         task->function, opts->size, sizeof *opts);
    if (opts->timeout_ms < 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: opts->timeout_ms is %d, negative", task->function,
                         opts->timeout_ms);
    if ((kolo_opts_flags(opts) & ~(unsigned)(KOLO_DETERMINISTIC | KOLO_PERSISTENT)) != 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: opts->flags 0x%x has unknown flags", task->function,
                         kolo_opts_flags(opts));
    if ((kolo_opts_flags(opts) & KOLO_PERSISTENT) != 0 && !task->request_out)
        return kolo_fail(KOLO_ERR_INVALID, "%s: KOLO_PERSISTENT is for calls with a request_out",
                         task->function);
    if (opts->stream && !can_follow(task))
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "%s: opts->stream is for collectives: wait for the stream, and set it to NULL",
            task->function);
    return kolo_scale_check(task);
}

static kolo_status no_type(const struct kolo_task *task)
{
    int opaque_bytes = (int)task->dtype - KOLO_DTYPE_OPAQUE; /* the argument of KOLO_OPAQUE */
    if (opaque_bytes < 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: dtype %d is not a type", task->function,
                         (int)task->dtype);
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s: KOLO_OPAQUE(%d) is not a type: its elements have from 1 to %d bytes",
                     task->function, opaque_bytes, KOLO_OPAQUE_BYTES_MAX);
}

/** Whether a description has room for this count of the type. */
static kolo_status check_count(const struct kolo_task *task, size_t count)
{
    if ((unsigned)task->dtype <= KOLO_DTYPE_OPAQUE || count <= KOLO_OPAQUE_COUNT_MAX)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID, "%s: count %zu of opaque elements is too large",
                     task->function, count);
}

kolo_status kolo_task_check(struct kolo_comm *comm, const struct kolo_task *task)
{
    kolo_status status;
    KOLO_TRY(kolo_comm_check(comm, task->function));
    if (kolo_dtype_bytes(task->dtype) == 0)
        return no_type(task);
    KOLO_TRY(check_operator(comm, task));
    if (task->root < 0 || task->root >= comm->size)
        return kolo_fail(KOLO_ERR_INVALID, "%s: root %d is not a rank (there are %d)",
                         task->function, task->root, comm->size);
    KOLO_TRY(check_opts(task));
    KOLO_TRY(check_count(task, task->count));
out:
    return status;
}

/** Whether @p count elements for each of @p ranks ranks fit into an object; *bytes_out is their
 * size. */
static bool fits(const struct kolo_task *task, size_t count, size_t ranks, size_t *bytes_out)
{
    size_t bytes = kolo_dtype_bytes(task->dtype);
    return !__builtin_mul_overflow(bytes, count, bytes_out) &&
           !__builtin_mul_overflow(*bytes_out, ranks, bytes_out) && *bytes_out <= PTRDIFF_MAX;
}

static kolo_status refuse_count(const struct kolo_task *task, size_t count, size_t ranks)
{
    const char *type = kolo_dtype_text(task->dtype);
    if (ranks > 1)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: count %zu of %s, once for each of %zu ranks, is too large: no buffer "
                         "has more than %td bytes",
                         task->function, count, type, ranks, PTRDIFF_MAX);
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s: count %zu of %s is too large: no buffer has more than %td bytes",
                     task->function, count, type, PTRDIFF_MAX);
}

static kolo_status total_bytes(const struct kolo_task *task, size_t count, size_t ranks,
                               size_t *bytes_out)
{
    size_t bytes;
    if (!fits(task, count, ranks, &bytes))
        return refuse_count(task, count, ranks);
    *bytes_out = bytes;
    return check_count(task, count);
}

kolo_status kolo_pointer_check(const struct kolo_task *task, const char *what, const void *pointer,
                               size_t bytes)
{
    if (!pointer && bytes > 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL for %zu bytes", task->function, what,
                         bytes);
    if (bytes > 0 && (uintptr_t)pointer > UINTPTR_MAX - bytes)
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s of %zu bytes ends beyond the address space",
                         task->function, what, bytes);
    return KOLO_OK;
}

/** Puts the lengths of both buffers into the task, and checks that there are such buffers. */
static kolo_status take_buffers(struct kolo_task *task, size_t send_bytes, size_t recv_bytes)
{
    kolo_status status;
    task->send_bytes = send_bytes;
    task->recv_bytes = recv_bytes;
    KOLO_TRY(kolo_pointer_check(task, "send", task->send, send_bytes));
    KOLO_TRY(kolo_pointer_check(task, "recv", task->recv, recv_bytes));
out:
    return status;
}

static bool buffers_overlap(const struct kolo_task *task)
{
    uintptr_t send = (uintptr_t)task->send, recv = (uintptr_t)task->recv;
    return task->send_bytes > 0 && task->recv_bytes > 0 && send < recv + task->recv_bytes &&
           recv < send + task->send_bytes;
}

/** Checks the buffers of one rank. A call is in place if the smaller buffer is exactly @p offset
 * bytes into the larger one; any other overlap is refused. */
static kolo_status check_buffers(struct kolo_task *task, size_t send_bytes, size_t recv_bytes,
                                 size_t offset)
{
    uintptr_t send = (uintptr_t)task->send, recv = (uintptr_t)task->recv;
    kolo_status status;
    KOLO_TRY(take_buffers(task, send_bytes, recv_bytes));
    if (send_bytes == 0 || recv_bytes == 0)
        return KOLO_OK;
    bool is_in_place = send_bytes <= recv_bytes ? send == recv + offset : recv == send + offset;
    if (buffers_overlap(task) && !is_in_place)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: send (%zu bytes at %p) and recv (%zu bytes at %p) overlap, but the "
                         "call is not in place",
                         task->function, send_bytes, task->send, recv_bytes, task->recv);
    task->in_place = is_in_place;
out:
    return status;
}

/** The blocks of one buffer, one for each rank. */
struct blocks {
    const size_t *counts, *displs; /* displs NULL: one after the other */
    const char *side;              /* prefix of the arrays' names */
    bool may_overlap;
};

static kolo_status check_apart(const struct kolo_comm *comm, const struct kolo_task *task,
                               const struct blocks *blocks)
{
    const size_t *counts = blocks->counts, *displs = blocks->displs;
    for (int i = 0; i < comm->size; i++)
        for (int j = 0; j < i; j++)
            if (counts[i] > 0 && counts[j] > 0 && displs[i] < displs[j] + counts[j] &&
                displs[j] < displs[i] + counts[i])
                return kolo_fail(KOLO_ERR_INVALID, "%s: the blocks of ranks %d and %d overlap",
                                 task->function, j, i);
    return KOLO_OK;
}

/** Refuses a block whose end no object can have; names the arrays that say so, and their values. */
static kolo_status refuse_end(const struct kolo_task *task, const struct blocks *blocks, int rank,
                              size_t first)
{
    const char *side = blocks->side, *type = kolo_dtype_text(task->dtype);
    if (blocks->displs)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: %sdispls[%d] %zu and %scounts[%d] %zu of %s together are too large",
                         task->function, side, rank, first, side, rank, blocks->counts[rank], type);
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s: %scounts[%d] %zu of %s after the %zu of the ranks before is too large",
                     task->function, side, rank, blocks->counts[rank], type, first);
}

/** Checks that all blocks are in range, and do not overlap if they are written. */
static kolo_status check_blocks(const struct kolo_comm *comm, const struct kolo_task *task,
                                const struct blocks *blocks, size_t *extent_out)
{
    size_t at = 0, extent = 0, bytes;
    bool ascends = true;
    if (!blocks->counts)
        return kolo_fail(KOLO_ERR_INVALID, "%s: %scounts is NULL", task->function, blocks->side);
    for (int rank = 0; rank < comm->size; rank++) {
        size_t first = blocks->displs ? blocks->displs[rank] : at, end;
        kolo_status status;
        if (blocks->counts[rank] == 0)
            continue; /* is nowhere, whatever its displacement */
        if (__builtin_add_overflow(first, blocks->counts[rank], &end) ||
            !fits(task, end, 1, &bytes))
            return refuse_end(task, blocks, rank, first);
        status = check_count(task, end);
        if (status != KOLO_OK)
            return status;
        ascends = ascends && first >= at;
        at = end > at ? end : at;
        extent = at;
    }
    *extent_out = extent;
    return ascends || blocks->may_overlap ? KOLO_OK : check_apart(comm, task, blocks);
}

/** The offset of this rank's block. */
static size_t own_offset(const struct kolo_comm *comm, const struct blocks *blocks)
{
    size_t offset = 0;
    if (blocks->displs)
        return blocks->displs[comm->rank];
    for (int rank = 0; rank < comm->rank; rank++)
        offset += blocks->counts[rank];
    return offset;
}

/** Submits a call after @p check, if there is one, has accepted its buffers. */
static inline kolo_status run(struct kolo_comm *comm, struct kolo_task *task,
                              kolo_status (*check)(const struct kolo_comm *comm,
                                                   struct kolo_task *task))
{
    kolo_status status;
    KOLO_TRY(kolo_task_check(comm, task));
    if (check)
        KOLO_TRY(check(comm, task));
    KOLO_TRY(kolo_task_run(comm, task));
out:
    return kolo_group_note(comm, status);
}

/* ---- collectives on whole vectors ---- */

static kolo_status check_allreduce(const struct kolo_comm *comm, struct kolo_task *task)
{
    size_t bytes;
    kolo_status status;
    (void)comm;
    KOLO_TRY(total_bytes(task, task->count, 1, &bytes));
    KOLO_TRY(check_buffers(task, bytes, bytes, 0));
out:
    return status;
}

kolo_status kolo_allreduce(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                           kolo_dtype dtype, kolo_redop op, const struct kolo_opts *opts,
                           struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_ALLREDUCE,
                             .function = "kolo_allreduce",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .op = op,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_allreduce);
}

static kolo_status check_reduce(const struct kolo_comm *comm, struct kolo_task *task)
{
    size_t bytes;
    kolo_status status;
    if (comm->rank != task->root)
        task->recv = NULL; /* ignored there */
    KOLO_TRY(total_bytes(task, task->count, 1, &bytes));
    KOLO_TRY(check_buffers(task, bytes, comm->rank == task->root ? bytes : 0, 0));
out:
    return status;
}

kolo_status kolo_reduce(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                        kolo_dtype dtype, kolo_redop op, int root, const struct kolo_opts *opts,
                        struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_REDUCE,
                             .function = "kolo_reduce",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .op = op,
                             .root = root,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_reduce);
}

static kolo_status check_broadcast(const struct kolo_comm *comm, struct kolo_task *task)
{
    size_t bytes;
    kolo_status status;
    KOLO_TRY(total_bytes(task, task->count, 1, &bytes));
    KOLO_TRY(kolo_pointer_check(task, "buffer", task->send, bytes));
    task->send_bytes = comm->rank == task->root ? bytes : 0;
    task->recv_bytes = comm->rank == task->root ? 0 : bytes;
out:
    return status;
}

kolo_status kolo_broadcast(struct kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype,
                           int root, const struct kolo_opts *opts,
                           struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_BROADCAST,
                             .function = "kolo_broadcast",
                             .send = buffer,
                             .recv = buffer,
                             .count = count,
                             .dtype = dtype,
                             .root = root,
                             .in_place = true,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_broadcast);
}

/* ---- collectives on blocks ---- */

/** Only the root has the whole vector: the pointer of other ranks is ignored. */
static void forget_whole(struct kolo_task *task, bool scatters)
{
    if (scatters)
        task->send = NULL;
    else
        task->recv = NULL;
}

/** Checks calls with blocks of equal length: this rank's block on one side and, where it has one,
 * the whole vector on the other. */
static kolo_status check_even(const struct kolo_comm *comm, struct kolo_task *task)
{
    bool is_rooted = task->kind == KOLO_CALL_GATHER || task->kind == KOLO_CALL_SCATTER;
    bool scatters = task->kind == KOLO_CALL_SCATTER || task->kind == KOLO_CALL_REDUCE_SCATTER;
    size_t block, whole;
    kolo_status status;
    KOLO_TRY(total_bytes(task, task->count, 1, &block));
    KOLO_TRY(total_bytes(task, task->count, (size_t)comm->size, &whole));
    if (is_rooted && comm->rank != task->root) {
        forget_whole(task, scatters);
        whole = 0;
    }
    KOLO_TRY(check_buffers(task, scatters ? whole : block, scatters ? block : whole,
                           block * (size_t)comm->rank));
out:
    return status;
}

kolo_status kolo_allgather(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                           kolo_dtype dtype, const struct kolo_opts *opts,
                           struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_ALLGATHER,
                             .function = "kolo_allgather",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_even);
}

/** Checks calls with blocks of different lengths: this rank's block on one side and, where it has
 * one, the whole vector on the other. */
static kolo_status check_v(const struct kolo_comm *comm, struct kolo_task *task)
{
    const struct blocks blocks = {task->counts, task->displs, "", task->kind == KOLO_CALL_SCATTERV};
    bool is_rooted = task->kind == KOLO_CALL_GATHERV || task->kind == KOLO_CALL_SCATTERV;
    bool scatters = task->kind == KOLO_CALL_SCATTERV || task->kind == KOLO_CALL_REDUCE_SCATTERV;
    size_t whole, element_bytes = kolo_dtype_bytes(task->dtype);
    kolo_status status;
    KOLO_TRY(check_blocks(comm, task, &blocks, &whole));
    size_t offset = own_offset(comm, &blocks) * element_bytes;
    size_t mine = task->counts[comm->rank] * element_bytes;
    whole = is_rooted && comm->rank != task->root ? 0 : whole * element_bytes;
    if (whole == 0)
        forget_whole(task, scatters);
    KOLO_TRY(check_buffers(task, scatters ? whole : mine, scatters ? mine : whole, offset));
out:
    return status;
}

kolo_status kolo_allgatherv(struct kolo_comm *comm, const void *send, void *recv,
                            const size_t *counts, const size_t *displs, kolo_dtype dtype,
                            const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_ALLGATHERV,
                             .function = "kolo_allgatherv",
                             .send = send,
                             .recv = recv,
                             .counts = counts,
                             .displs = displs,
                             .dtype = dtype,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_v);
}

kolo_status kolo_gatherv(struct kolo_comm *comm, const void *send, void *recv, const size_t *counts,
                         const size_t *displs, kolo_dtype dtype, int root,
                         const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_GATHERV,
                             .function = "kolo_gatherv",
                             .send = send,
                             .recv = recv,
                             .counts = counts,
                             .displs = displs,
                             .dtype = dtype,
                             .root = root,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_v);
}

kolo_status kolo_reduce_scatter(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                                kolo_dtype dtype, kolo_redop op, const struct kolo_opts *opts,
                                struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_REDUCE_SCATTER,
                             .function = "kolo_reduce_scatter",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .op = op,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_even);
}

kolo_status kolo_gather(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                        kolo_dtype dtype, int root, const struct kolo_opts *opts,
                        struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_GATHER,
                             .function = "kolo_gather",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .root = root,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_even);
}

kolo_status kolo_scatter(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                         kolo_dtype dtype, int root, const struct kolo_opts *opts,
                         struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_SCATTER,
                             .function = "kolo_scatter",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .root = root,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_even);
}

kolo_status kolo_scatterv(struct kolo_comm *comm, const void *send, const size_t *counts,
                          const size_t *displs, void *recv, kolo_dtype dtype, int root,
                          const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_SCATTERV,
                             .function = "kolo_scatterv",
                             .send = send,
                             .recv = recv,
                             .counts = counts,
                             .displs = displs,
                             .dtype = dtype,
                             .root = root,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_v);
}

kolo_status kolo_reduce_scatterv(struct kolo_comm *comm, const void *send, void *recv,
                                 const size_t *counts, kolo_dtype dtype, kolo_redop op,
                                 const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_REDUCE_SCATTERV,
                             .function = "kolo_reduce_scatterv",
                             .send = send,
                             .recv = recv,
                             .counts = counts,
                             .dtype = dtype,
                             .op = op,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_v);
}

/* ---- from everybody to everybody ---- */

/** Checks the buffers of alltoall and alltoallv. They cannot be in place: what goes to one rank
 * would overlap what comes from another. */
static kolo_status check_apart_buffers(struct kolo_task *task, size_t send_bytes, size_t recv_bytes)
{
    kolo_status status;
    KOLO_TRY(take_buffers(task, send_bytes, recv_bytes));
    if (buffers_overlap(task))
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: send (%zu bytes at %p) and recv (%zu bytes at %p) overlap; it has no "
                         "in place form",
                         task->function, send_bytes, task->send, recv_bytes, task->recv);
out:
    return status;
}

static kolo_status check_alltoall(const struct kolo_comm *comm, struct kolo_task *task)
{
    size_t all;
    kolo_status status;
    KOLO_TRY(total_bytes(task, task->count, (size_t)comm->size, &all));
    KOLO_TRY(check_apart_buffers(task, all, all));
out:
    return status;
}

kolo_status kolo_alltoall(struct kolo_comm *comm, const void *send, void *recv, size_t count,
                          kolo_dtype dtype, const struct kolo_opts *opts,
                          struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_ALLTOALL,
                             .function = "kolo_alltoall",
                             .send = send,
                             .recv = recv,
                             .count = count,
                             .dtype = dtype,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_alltoall);
}

/** alltoallv: a rank must send as much to itself as it receives from itself. */
static kolo_status check_own_block(const struct kolo_comm *comm, const struct kolo_task *task)
{
    size_t leaving = task->send_counts[comm->rank], coming = task->counts[comm->rank];
    if (leaving == coming)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID, "%s: rank %d sends itself %zu elements and receives %zu",
                     task->function, comm->rank, leaving, coming);
}

static kolo_status check_alltoallv(const struct kolo_comm *comm, struct kolo_task *task)
{
    const struct blocks leaving = {task->send_counts, task->send_displs, "send_", true};
    const struct blocks coming = {task->counts, task->displs, "recv_", false};
    size_t send_extent, recv_extent, element_bytes = kolo_dtype_bytes(task->dtype);
    kolo_status status;
    KOLO_TRY(check_blocks(comm, task, &leaving, &send_extent));
    KOLO_TRY(check_blocks(comm, task, &coming, &recv_extent));
    KOLO_TRY(check_own_block(comm, task));
    KOLO_TRY(check_apart_buffers(task, send_extent * element_bytes, recv_extent * element_bytes));
out:
    return status;
}

kolo_status kolo_alltoallv(struct kolo_comm *comm, const void *send, const size_t *send_counts,
                           const size_t *send_displs, void *recv, const size_t *recv_counts,
                           const size_t *recv_displs, kolo_dtype dtype,
                           const struct kolo_opts *opts, struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_ALLTOALLV,
                             .function = "kolo_alltoallv",
                             .send = send,
                             .recv = recv,
                             .counts = recv_counts,
                             .displs = recv_displs,
                             .send_counts = send_counts,
                             .send_displs = send_displs,
                             .dtype = dtype,
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, check_alltoallv);
}

kolo_status kolo_barrier(struct kolo_comm *comm, const struct kolo_opts *opts,
                         struct kolo_request **request_out)
{
    struct kolo_task task = {.kind = KOLO_CALL_BARRIER,
                             .function = "kolo_barrier",
                             .opts = opts,
                             .request_out = request_out};
    return run(comm, &task, NULL);
}
