// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA's devices across the processes of one host: what one tells the others of an
// allocation of its own, and theirs as kernels and copies of this process reach them. Who lends is a
// number here, by which the caller knows it.
#ifndef KOLO_MEMORY_CUDA_LOAN_H
#define KOLO_MEMORY_CUDA_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/cuda_driver.h"
#include "memory/memory.h"

/** What a lender tells the others: plain bytes without gaps, for processes of the same host. */
struct kolo_cuda_loan {
    uint64_t process; /* drawn by each; 0: none */
    uint64_t id;      /* of the allocation: no other of that process ever has it */
    uint64_t start;   /* where its owner has it */
    uint64_t length;
    struct kolo_cuda_handle handle; /* the driver's, for other processes */
};

/** The whole allocation that @p pointer leads into, which stays the caller's: it may be freed once
 * everybody who mapped it has said that it has not any more. ERR_UNSUPPORTED: others cannot map it,
 * and why; ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_cuda_lend(const struct kolo_pointer *pointer,
                           struct kolo_cuda_loan *loan_out) KOLO_NODISCARD;

/** The others' memory in one context. Threads, as of all that follows: one at a time; a driver may
 * take milliseconds, so a lock that others need must not be held. */
struct kolo_cuda_borrower;
/** A part of it: one allocation of one lender's. */
struct kolo_cuda_mapping;

/** In the context that the memory at @p near is of, else its device's primary one. */
kolo_status kolo_cuda_borrower_open(const struct kolo_pointer *near,
                                    struct kolo_cuda_borrower **borrower_out) KOLO_NODISCARD;
/** Unmaps all. Nothing on a device uses any of it any more. NULL is fine. */
void kolo_cuda_borrower_close(struct kolo_cuda_borrower *borrower);

/** Maps what @p lender has lent, or finds it mapped, and holds it until kolo_cuda_borrower_done. What
 * overlaps it in its owner's memory and was mapped before is freed there, so it goes. ERR_PROTOCOL:
 * there is no such memory; ERR_UNSUPPORTED: the driver has no function for that; ERR_SYSTEM,
 * ERR_NO_MEMORY: what the driver refused. On failure nothing more is mapped than before. */
kolo_status kolo_cuda_borrower_map(struct kolo_cuda_borrower *borrower, int lender,
                                   const struct kolo_cuda_loan *loan,
                                   struct kolo_cuda_mapping **mapping_out) KOLO_NODISCARD;
/** Where this context reaches the @p bytes bytes that the owner has at @p address. ERR_PROTOCOL: they
 * are not in it. */
kolo_status kolo_cuda_mapping_reach(const struct kolo_cuda_mapping *mapping, uint64_t address,
                                    size_t bytes, void **memory_out) KOLO_NODISCARD;
/** Its holder has no more work on a device that uses it. It stays mapped, for a next call. */
void kolo_cuda_borrower_done(struct kolo_cuda_borrower *borrower,
                             struct kolo_cuda_mapping *mapping);
/** Unmaps allocation @p id of @p lender (0: all of them), which is to be freed there, or is dead. What is
 * held goes as soon as it no longer is. True: none of it is mapped any more. */
bool kolo_cuda_borrower_forget(struct kolo_cuda_borrower *borrower, int lender, uint64_t id);

#endif
