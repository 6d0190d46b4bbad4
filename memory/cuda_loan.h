// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA's devices across the processes of one host: what one tells the others of an
// allocation of its own, and theirs as kernels and copies of this process reach them. Who lends is
// a number here, by which the caller knows it.
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

/** The others' memory in one context. Threads, as of all that follows: one at a time. To map may
 * take a driver milliseconds. */
struct kolo_cuda_borrower;

/** In the context that the memory at @p near is of, else its device's primary one. */
kolo_status kolo_cuda_borrower_open(const struct kolo_pointer *near,
                                    struct kolo_cuda_borrower **borrower_out) KOLO_NODISCARD;
/** Unmaps all. Nothing on a device uses any of it any more. NULL is fine. */
void kolo_cuda_borrower_close(struct kolo_cuda_borrower *borrower);

/** Maps what @p lender has lent, or finds it mapped, and holds it until kolo_cuda_mapping_done.
 * What overlaps it in its owner's memory and was mapped before is freed there: it is stale.
 * ERR_PROTOCOL: there is no such memory; ERR_UNSUPPORTED: the driver has no function for that;
 * ERR_SYSTEM, ERR_NO_MEMORY: what the driver refused. On failure nothing more is mapped than
 * before. */
kolo_status kolo_cuda_borrower_map(struct kolo_cuda_borrower *borrower, int lender,
                                   const struct kolo_loan *loan,
                                   struct kolo_mapping **mapping_out) KOLO_NODISCARD;
/** Where this context reaches the @p bytes bytes that the owner has at @p address. ERR_PROTOCOL:
 * they are not in it. */
kolo_status kolo_cuda_mapping_reach(const struct kolo_mapping *mapping, uint64_t address,
                                    size_t bytes, void **memory_out) KOLO_NODISCARD;
/** Its holder has no more work on a device that uses it. It stays mapped, for a next call. */
void kolo_cuda_mapping_done(struct kolo_mapping *mapping);
/** Allocation @p id of @p lender (0: all of them) is to be freed there, or its owner is dead: it is
 * stale, and not found any more. True: none of it is mapped. */
bool kolo_cuda_borrower_forget(struct kolo_cuda_borrower *borrower, int lender, uint64_t id);
/** Takes out what is stale and not held; NULL: there is none. */
struct kolo_mapping *kolo_cuda_borrower_detach(struct kolo_cuda_borrower *borrower);
/** Unmaps what was taken out. A driver may wait until its context has done what it was given,
 * streams that wait for the program included: so nothing that those wait for may wait for the
 * caller, nor for a lock of its. Threads: any. */
void kolo_cuda_borrower_unmap(struct kolo_cuda_borrower *borrower, struct kolo_mapping *mappings);
/** One that the driver has refused to unmap, each once: its owner must never free it. False: there
 * is no other. Threads: any. */
bool kolo_cuda_borrower_stuck(struct kolo_cuda_borrower *borrower, int *lender_out,
                              uint64_t *id_out) KOLO_NODISCARD;

#endif
