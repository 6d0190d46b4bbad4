// SPDX-License-Identifier: Apache-2.0
// A call of the public API that was checked (a task), and its way to requests that are submitted
// and waited for.
#ifndef KOLO_RUNTIME_SUBMIT_H
#define KOLO_RUNTIME_SUBMIT_H

#include "memory/memory.h"
#include "runtime/comm.h"

/** A call of the public API, checked. */
struct kolo_task {
    enum kolo_call_kind kind;
    const char *function; /* "kolo_allreduce" */
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts, *displs;
    const size_t *send_counts, *send_displs; /* alltoallv; counts and displs are of recv */
    kolo_dtype dtype;
    kolo_redop op;
    int root, peer;
    bool in_place;
    bool is_own; /* the library's, of a call that is no collective of the program's */
    size_t send_bytes, recv_bytes; /* that it reads and writes, gaps between blocks included */
    const struct kolo_opts *opts;
    struct kolo_request **request_out;
};
/** The call that it is. */
static inline struct kolo_call kolo_task_call(const struct kolo_task *task)
{
    return (struct kolo_call){.kind = task->kind,
                              .dtype = task->dtype,
                              .op = task->op,
                              .root = task->root,
                              .count = task->count,
                              .peer = task->peer};
}
/** How long it may take: what its options say, or else the settings. */
static inline int kolo_task_timeout_ms(const struct kolo_comm *comm, const struct kolo_task *task)
{
    const int own = task->opts != NULL ? task->opts->timeout_ms : 0;
    return own > 0 ? own : (int)comm->engine->settings.timeout_ms;
}

/** May some of its buffers be a device's? */
static inline bool kolo_task_may_be_foreign(const struct kolo_task *task)
{
    return !(kolo_memory_is_plain(task->send, task->send_bytes) &&
             kolo_memory_is_plain(task->recv, task->recv_bytes)) &&
           kolo_pointer_may_be_foreign();
}

/* ---- collectives.c: checks, before anything is done. ERR_INVALID, ERR_UNSUPPORTED ---- */

/** What all calls have in common: comm, dtype, op, root and opts. */
kolo_status kolo_task_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Whether there can be so many bytes at @p pointer, which is called @p what. */
kolo_status kolo_pointer_check(const struct kolo_task *task, const char *what, const void *pointer,
                               size_t bytes) KOLO_NODISCARD;

/* ---- submit.c ---- */

/** Carries out a call that was checked: takes it into the group that is open, or starts a request
 * (task->request_out), or does it and waits. Takes the lock. ERR_NO_MEMORY and what is refused
 * before anything is sent: the communicator lives on; any other failure is the communicator's. */
kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** A request that is ready to start, kept; nothing has been sent or written. Takes the lock. */
kolo_status kolo_task_prepare(struct kolo_comm *comm, const struct kolo_task *task,
                              struct kolo_request **request_out) KOLO_NODISCARD;
/** Starts all requests of a chain that are not running, or none. @p in_background: the progress
 * thread goes on with them while nobody waits. Takes the lock. */
kolo_status kolo_chain_start(struct kolo_request *chain, bool in_background) KOLO_NODISCARD;
/** Waits for all of them; the first failure. Held: lock, as of the next four. */
kolo_status kolo_chain_wait(struct kolo_request *chain, kolo_deadline deadline) KOLO_NODISCARD;
/** Some of them are not over. */
bool kolo_chain_is_running(const struct kolo_request *chain);
/** Frees them all. */
void kolo_chain_drop(struct kolo_request *chain);
/** Waits for a request that was submitted; its result. */
kolo_status kolo_request_await(struct kolo_comm *comm, struct kolo_request *request) KOLO_NODISCARD;
/** What is done before the first step: of a request whose data is on the host. */
void kolo_request_load(const struct kolo_request *request);
/** opts->flags, 0 for opts of before there were flags. */
unsigned kolo_opts_flags(const struct kolo_opts *opts);

#endif
