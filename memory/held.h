// SPDX-License-Identifier: Apache-2.0
// Keeps two things apart: streams of the program that are held until a collective is over, and
// calls of a driver that wait for all streams while they keep every other thread from the driver.
//
// Such a call (CUDA: freeing, unmapping, unlocking pages, loading kernels) that comes while a
// stream is held never returns: the collective that would release the stream needs the driver. So a
// stream is held only between kolo_held_begin and kolo_held_end, and such a call is made only
// between kolo_none_held_begin and kolo_none_held_end. Streams and calls are told apart by their
// context.
//
// Threads: any, for all functions.
#ifndef KOLO_MEMORY_HELD_H
#define KOLO_MEMORY_HELD_H

#include "base/condition.h"
#include "base/status.h"

/** A stream of @p context is about to be held. Waits while a call of a driver for that context is
 * being made, which waits for no held stream, but maybe for the program's own work.
 *  @return KOLO_OK; ERR_TIMEOUT: it has not returned by @p deadline, and the stream must not be
 *  held. */
kolo_status kolo_held_begin(const void *context, kolo_deadline deadline) KOLO_NODISCARD;
/** It is released; it may still have to notice. */
void kolo_held_end(const void *context);
/** Begins a call that waits for all streams of @p context (NULL: of every context). Waits until
 * none is held; until kolo_none_held_end, none becomes held.
 *  @return KOLO_OK; KOLO_AGAIN: one is still held at @p deadline, or @p unless (may be NULL) ended
 *  the wait, and nothing has begun. */
kolo_status kolo_none_held_begin(const void *context, kolo_deadline deadline,
                                 const struct kolo_unless *unless) KOLO_NODISCARD;
void kolo_none_held_end(const void *context);

#endif
