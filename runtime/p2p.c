// SPDX-License-Identifier: Apache-2.0
// The public send and receive.
#include "runtime/comm.h"

#include <stdint.h>

/** *bytes_out: of @p buffer, which is @p task's one. */
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
    KOLO_TRY(kolo_task_run(comm, &task));
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
    KOLO_TRY(kolo_task_run(comm, &task));
out:
    return kolo_group_note(comm, status);
}
