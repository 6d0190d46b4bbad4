// SPDX-License-Identifier: Apache-2.0
// Device memory of kolo_alloc_device: finding, lending and freeing it (device_memory.c). Functions
// take the engine's lock unless they say that it must be held.
#ifndef KOLO_RUNTIME_DEVICE_MEMORY_H
#define KOLO_RUNTIME_DEVICE_MEMORY_H

#include "memory/memory.h"
#include "runtime/engine.h"

/** Finds the allocation that contains the @p bytes bytes at @p address; false: it is not one of
 * ours. Held: lock. */
bool kolo_device_memory_find(const struct kolo_engine *engine, const void *address, size_t bytes,
                             struct kolo_pointer *pointer_out);
/** Whether other ranks of the host can map the allocation that contains these bytes. May call the
 * driver, once per allocation. Must be called without the lock, as _free and _reap; the others need
 * it. */
bool kolo_device_memory_may_lend(struct kolo_engine *engine, const void *address, size_t bytes);
/** Whether it is known already that they can. */
bool kolo_device_memory_has_loan(const struct kolo_engine *engine, const void *address,
                                 size_t bytes);
/** What other members of @p comm need to map the allocation; from now on they may. Valid while the
 * lock is held. NULL: it cannot be lent, was freed, or there is no memory. */
const struct kolo_loan *kolo_device_memory_lend(const struct kolo_comm *comm, const void *address,
                                                size_t bytes);
/** Rank @p world_rank has returned loan @p id; 0: no loan. */
void kolo_device_memory_returned(struct kolo_engine *engine, int world_rank, uint64_t id);
/** Loan @p id stays mapped somewhere, whatever is returned: its memory is never freed. */
void kolo_device_memory_kept(struct kolo_engine *engine, uint64_t id);
/** Recalls everything that is lent. False: nothing is. */
bool kolo_device_memory_recall(struct kolo_engine *engine);
bool kolo_device_memory_is_lent(const struct kolo_engine *engine);
/** Whether there is memory that the program has freed and others may still have mapped. */
bool kolo_device_memory_has_freed(const struct kolo_engine *engine);
/** Frees what the program has freed and all others have returned, once the device has done its
 * earlier work, unless @p unless ends the wait. */
void kolo_device_memory_reap(struct kolo_engine *engine, const struct kolo_unless *unless);
/** Frees @p memory, at once or when all borrowers have returned it. ERR_INVALID without a detail:
 * it is not device memory of ours. ERR_TIMEOUT: the device has not finished its earlier work.
 * ERR_UNSUPPORTED: a stream is being captured. After these two it is not freed. */
kolo_status kolo_device_memory_free(struct kolo_engine *engine, void *memory);
/** Frees all that is left. */
void kolo_device_memory_close(struct kolo_engine *engine, kolo_deadline deadline);

#endif
