// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA devices shared between the processes of one host: describes allocations of this
// process to others, and maps theirs for kernels and copies of this process. A lender is identified
// by a number that the caller chooses.
#ifndef KOLO_MEMORY_CUDA_LOAN_H
#define KOLO_MEMORY_CUDA_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/cuda_driver.h"
#include "memory/lane.h"
#include "memory/memory.h"

/** As kolo_pointer_lend. */
kolo_status kolo_cuda_lend(const struct kolo_pointer *pointer,
                           struct kolo_loan *loan_out) KOLO_NODISCARD;

/** The memory of other processes that is mapped in one context. Threads: one at a time in the
 * functions below, unless they say otherwise. Mapping may take a driver milliseconds. */
struct kolo_cuda_borrower;

/** Opens a borrower in the context of the memory at @p near, or else in its device's primary
 * context. */
kolo_status kolo_cuda_borrower_open(const struct kolo_pointer *near,
                                    struct kolo_cuda_borrower **borrower_out) KOLO_NODISCARD;
/** Unmaps everything. No device may use any of it any more. NULL is allowed. */
void kolo_cuda_borrower_close(struct kolo_cuda_borrower *borrower);

/** Maps the allocation that @p lender has lent, or finds it mapped, and holds it until
 * kolo_cuda_mapping_done. Earlier mappings that overlap it in its owner's memory have been freed
 * there, and become stale. ERR_PROTOCOL: there is no such memory; ERR_UNSUPPORTED: the driver lacks
 * the function; ERR_SYSTEM, ERR_NO_MEMORY: the driver refused. After a failure nothing more is
 * mapped than before. */
kolo_status kolo_cuda_borrower_map(struct kolo_cuda_borrower *borrower, int lender,
                                   const struct kolo_loan *loan,
                                   struct kolo_mapping **mapping_out) KOLO_NODISCARD;
/** The address at which this context accesses the @p bytes bytes that are at @p address in the
 * owner's process. ERR_PROTOCOL: they are not in the allocation. */
kolo_status kolo_cuda_mapping_reach(const struct kolo_mapping *mapping, uint64_t address,
                                    size_t bytes, void **memory_out) KOLO_NODISCARD;
/** Releases a hold: its holder has no more work on a device that uses it. It stays mapped for the
 * next call. */
void kolo_cuda_mapping_done(struct kolo_mapping *mapping);
/** Allocation @p id of @p lender (0: all of them) will be freed by its owner, or the owner is dead:
 * it is stale, and no longer found. True: none of it is mapped. */
bool kolo_cuda_borrower_forget(struct kolo_cuda_borrower *borrower, int lender, uint64_t id);
/** Takes out mappings that are stale and not held; NULL: there are none. */
struct kolo_mapping *kolo_cuda_borrower_detach(struct kolo_cuda_borrower *borrower);
/** Unmaps what was taken out, once no stream of the context is held. As for kolo_lane_unmap, no
 * stream may wait for the caller, or for a lock that it holds. Threads: any. */
void kolo_cuda_borrower_unmap(struct kolo_cuda_borrower *borrower, struct kolo_mapping *mappings);
/** Returns a mapping that the driver refused to unmap, each only once: its owner must never free
 * it. False: there is no other. Threads: any. */
bool kolo_cuda_borrower_stuck(struct kolo_cuda_borrower *borrower, int *lender_out,
                              uint64_t *id_out) KOLO_NODISCARD;

#endif
