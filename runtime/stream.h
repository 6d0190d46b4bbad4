// SPDX-License-Identifier: Apache-2.0
// Collectives that run in the order of a CUDA stream of the program (kolo_opts.stream).
#ifndef KOLO_RUNTIME_STREAM_H
#define KOLO_RUNTIME_STREAM_H

#include "runtime/submit.h"

/** The stream in the options of @p task; NULL: none. */
static inline void *kolo_task_stream(const struct kolo_task *task)
{
    return task->opts ? task->opts->stream : NULL;
}
/** Makes @p request follow @p stream at each start. Takes the lock. ERR_INVALID and ERR_UNSUPPORTED
 * as kolo_stream_look, ERR_NO_MEMORY: the communicator stays usable. */
kolo_status kolo_follow_prepare(struct kolo_request *request, void *stream) KOLO_NODISCARD;
/** Only one thread at a time places calls of a communicator into streams, between this and
 * kolo_follow_leave. So calls of two threads on one stream are submitted in the order in which they
 * are in the stream. ERR_TIMEOUT: another thread's call was held up for longer than this one may
 * take. Any other failure: the communicator has failed. Held: lock, as in all below; it is released
 * meanwhile. */
kolo_status kolo_follow_enter(struct kolo_request *request) KOLO_NODISCARD;
void kolo_follow_leave(struct kolo_comm *comm);
/** Inserts the request, which is not running, into the stream: it comes after the stream's earlier
 * work, and if it @p holds, later work waits until it is over. The lock is released meanwhile,
 * since a driver may wait until the stream continues. ERR_UNSUPPORTED, ERR_INVALID: the stream
 * cannot wait, is being captured, or is not a stream. Any other failure loses the communicator. */
kolo_status kolo_follow_place(struct kolo_request *request, bool holds) KOLO_NODISCARD;
/** Whether the stream's earlier work is done. KOLO_AGAIN: not yet. Any other failure: the device
 * failed. */
kolo_status kolo_follow_reached(const struct kolo_request *request) KOLO_NODISCARD;
/** Whether its stream continues although the request is not over, because its deadline has passed
 * and the driver kept this process's threads from ending it (memory/gate_watch.h). */
bool kolo_follow_was_let_go(const struct kolo_request *request);
/** The request is over, whether it succeeded or failed: the stream continues. */
void kolo_follow_end(struct kolo_request *request);
void kolo_follow_drop(struct kolo_request *request);

#endif
