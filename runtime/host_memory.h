// SPDX-License-Identifier: Apache-2.0
// Frees host memory of kolo_alloc without waiting for a stream that is held (host_memory.c). Not
// held: the engine's lock, which is taken.
#ifndef KOLO_RUNTIME_HOST_MEMORY_H
#define KOLO_RUNTIME_HOST_MEMORY_H

#include "memory/memory.h"
#include "runtime/engine.h"

/** Unlocks memory of the heap for devices, and frees it. No stream may be held. ERR_INVALID: it is
 * none. */
kolo_status kolo_host_memory_free(struct kolo_engine *engine, void *memory);
/** Frees what kolo_free has put aside once no stream is held, unless one still is at @p deadline,
 * or @p unless (may be NULL) ends the wait. */
void kolo_host_memory_reap(struct kolo_engine *engine, kolo_deadline deadline,
                           const struct kolo_unless *unless);

#endif
