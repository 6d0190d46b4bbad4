// SPDX-License-Identifier: Apache-2.0
// A task is a call of the public API that has been checked. Here are its checks, and the way from a
// task to requests that are submitted and waited for.
#ifndef KOLO_RUNTIME_SUBMIT_H
#define KOLO_RUNTIME_SUBMIT_H

#include "memory/memory.h"
#include "runtime/comm.h"

/** A call of the public API that has been checked. */
struct kolo_task {
    enum kolo_call_kind kind;
    const char *function; /* "kolo_allreduce" */
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts, *displs;
    const size_t *send_counts, *send_displs; /* alltoallv; counts and displs are for recv */
    kolo_dtype dtype;
    kolo_redop op;
    int root, peer;
    bool in_place;
    bool is_own;     /* a call of the library itself, not a collective of the program */
    bool is_meeting; /* the barrier in which the members of a new communicator meet */
    size_t send_bytes, recv_bytes; /* bytes it reads and writes, including gaps between blocks */
    const struct kolo_opts *opts;
    kolo_deadline deadline; /* of the call that this is a part of; 0: counts from its start */
    struct kolo_request **request_out;
};
/** The call of @p task. */
static inline struct kolo_call kolo_task_call(const struct kolo_task *task)
{
    return (struct kolo_call){.kind = task->kind,
                              .dtype = task->dtype,
                              .op = task->op,
                              .root = task->root,
                              .count = task->count,
                              .peer = task->peer};
}
/** The deadline of the call: from its options, or else from the settings. */
static inline int kolo_task_timeout_ms(const struct kolo_comm *comm, const struct kolo_task *task)
{
    const int own = task->opts ? task->opts->timeout_ms : 0;
    return own > 0 ? own : (int)comm->engine->settings.timeout_ms;
}

/** Whether some of its buffers may be in device memory. */
static inline bool kolo_task_may_be_foreign(const struct kolo_task *task)
{
    return !(kolo_memory_is_plain(task->send, task->send_bytes) &&
             kolo_memory_is_plain(task->recv, task->recv_bytes)) &&
           kolo_pointer_may_be_foreign();
}

/* ---- collectives.c: checks before anything is done. ERR_INVALID, ERR_UNSUPPORTED ---- */

/** Checks what all calls have in common: comm, dtype, op, root and opts. */
kolo_status kolo_task_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Checks that @p pointer can have @p bytes bytes; @p what is its name in the error. */
kolo_status kolo_pointer_check(const struct kolo_task *task, const char *what, const void *pointer,
                               size_t bytes) KOLO_NODISCARD;

/* ---- submit.c ---- */

/** Carries out a checked call: adds it to the open group, or starts a request (task->request_out),
 * or runs it and waits. Takes the lock. ERR_NO_MEMORY, and what is refused before anything is sent,
 * leave the communicator usable; any other failure loses it. */
kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Between true and false, this thread's calls on @p comm are parts of one call of the library
 * (metrics), and other ranks count on them. So one that is refused loses the communicator: then
 * they do not wait, nor take this rank's next call for another one. And no group that another
 * thread opens meanwhile takes one up. */
void kolo_comm_bind(const struct kolo_comm *comm, bool is_bound);
/** Makes a request that is ready to start, and lists it for finalize. Nothing is sent or written.
 * Takes the lock. */
kolo_status kolo_task_prepare(struct kolo_comm *comm, const struct kolo_task *task,
                              struct kolo_request **request_out) KOLO_NODISCARD;
/** Starts all requests of a chain that are not running, or none. @p in_background: the progress
 * thread advances them while no other thread waits. Takes the lock. */
kolo_status kolo_chain_start(struct kolo_request *chain, bool in_background) KOLO_NODISCARD;
/** Starts them from within another request, which stands for them to the progress thread and the
 * device. Held: lock. */
kolo_status kolo_chain_begin(struct kolo_request *chain) KOLO_NODISCARD;
/** Waits for all requests of a chain; returns the first failure. Held: lock, as in the next
 * four. */
kolo_status kolo_chain_wait(struct kolo_request *chain, kolo_deadline deadline) KOLO_NODISCARD;
/** Whether some request of the chain is not over. */
bool kolo_chain_is_running(const struct kolo_request *chain);
/** Frees all requests of the chain. */
void kolo_chain_drop(struct kolo_request *chain);
/** Waits for a request that was submitted, and returns its result. */
kolo_status kolo_request_await(struct kolo_comm *comm, struct kolo_request *request) KOLO_NODISCARD;
/** Prepares the input before the first step, when the data is on the host. */
void kolo_request_load(const struct kolo_request *request);
/** opts->flags; 0 if opts comes from a version without flags. */
unsigned kolo_opts_flags(const struct kolo_opts *opts);

#endif
