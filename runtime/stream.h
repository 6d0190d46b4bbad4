// SPDX-License-Identifier: Apache-2.0
// Collectives that follow a stream of the program's.
#ifndef KOLO_RUNTIME_STREAM_H
#define KOLO_RUNTIME_STREAM_H

#include "runtime/submit.h"

/** The stream of the options of @p task, NULL: none. */
static inline void *kolo_task_stream(const struct kolo_task *task)
{
    return task->opts != NULL ? task->opts->stream : NULL;
}
/** Lets @p request follow @p stream from each start on. Takes the lock. ERR_INVALID,
 * ERR_UNSUPPORTED as kolo_stream_look, ERR_NO_MEMORY: the communicator lives on. */
kolo_status kolo_follow_prepare(struct kolo_request *request, void *stream) KOLO_NODISCARD;
/** One at a time places calls of a communicator into streams, from here to kolo_follow_leave: so
 * those that two threads make on one stream are submitted in the order in which they lie there.
 * ERR_TIMEOUT: another's call is held up for longer than this one may take; else the communicator
 * has failed. Held: lock, as of all below; it is given up meanwhile. */
kolo_status kolo_follow_enter(struct kolo_request *request) KOLO_NODISCARD;
void kolo_follow_leave(struct kolo_comm *comm);
/** Puts a place into the stream: the request, which is not running, is behind what is there; what
 * comes after waits for its end, if it @p holds. The lock is given up meanwhile: a driver may wait
 * until the stream goes on. ERR_UNSUPPORTED, ERR_INVALID: that stream cannot wait, or is captured,
 * or none; what else it fails with loses the communicator. */
kolo_status kolo_follow_place(struct kolo_request *request, bool holds) KOLO_NODISCARD;
/** Is what was before it done? KOLO_AGAIN: not yet. Else the device failed. */
kolo_status kolo_follow_reached(const struct kolo_request *request) KOLO_NODISCARD;
/** It is over, well or not: the stream goes on. */
void kolo_follow_end(struct kolo_request *request);
void kolo_follow_drop(struct kolo_request *request);

#endif
