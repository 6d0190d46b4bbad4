// SPDX-License-Identifier: Apache-2.0
// Watches the gates of streams that wait for a collective, and opens those whose collective should
// have been over a while ago.
//
// Whoever carries out a collective ends it at its deadline, and then its gate is opened. But if a
// thread of the program calls what waits for all streams and keeps every other thread out of the
// driver (cudaFree, the first launch of a kernel), the thread that carries out the collective does
// not return from the driver to look at the deadline: each waits for the other. A gate is opened
// without a call of the driver, so another thread can do it.
//
// Threads: any, for all functions.
#ifndef KOLO_MEMORY_GATE_WATCH_H
#define KOLO_MEMORY_GATE_WATCH_H

#include "memory/lane.h"

/** Says that there is a lane more, or one less. When there is none, the watch's thread ends before
 * kolo_gate_watch_leave returns. */
void kolo_gate_watch_join(void);
void kolo_gate_watch_leave(void);
/** Watches @p gate, which is not watched, until kolo_gate_unwatch: if a stream waits for it, the
 * stream is let go a few seconds after @p deadline. */
void kolo_gate_watch(struct kolo_gate *gate, kolo_deadline deadline);
void kolo_gate_unwatch(struct kolo_gate *gate);
/** Whether its stream was let go, which stays so until kolo_gate_unwatch. */
bool kolo_gate_was_let_go(const struct kolo_gate *gate);

/** Around calls that a driver answers at once. If none comes back for a while, a warning says
 * so. */
void kolo_driver_entered(void);
void kolo_driver_left(void);

#endif
