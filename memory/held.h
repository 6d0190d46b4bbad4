// SPDX-License-Identifier: Apache-2.0
// Keeps two things apart: streams of the program that wait in a gate until a collective is over
// ("held"), and driver calls that wait for all streams.
//
// While a stream is held, some driver calls (CUDA: freeing, unmapping, unlocking pages, loading
// kernels) block until the stream goes on, and let no other thread into the driver. The collective
// that would let it go on needs the driver, so neither would end. So a stream is held only between
// kolo_held_begin and kolo_held_end, such a call is made only between kolo_none_held_begin and
// kolo_none_held_end, and each begins only when none of the other is under way in its context.
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
