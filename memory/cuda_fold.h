// SPDX-License-Identifier: Apache-2.0
// Runs the kernels of memory/cuda_kernels.h: kolo_fold and kolo_scale on a stream of a device, for
// memory that the device can access (its own, a mapped peer's, page-locked host memory).
#ifndef KOLO_MEMORY_CUDA_FOLD_H
#define KOLO_MEMORY_CUDA_FOLD_H

#include "base/clock.h"
#include "base/status.h"
#include "memory/cuda_driver.h"
#include "memory/fold.h"

/** The kernels, loaded into one context. */
struct kolo_cuda_kernels;

/** Finds the kernels of the current context, which is one of device number @p ordinal, and loads
 * them if they are not loaded yet, which begins when no stream of the context is held
 * (memory/held.h). Threads, as of all here: any.
 *  @return KOLO_OK; ERR_UNSUPPORTED: this build has no kernels, or the driver is older than they
 *  are; the detail says which. ERR_TIMEOUT: a stream is still held at @p deadline, or after
 *  2 s. Others as of kolo_cuda_fail. */
kolo_status kolo_cuda_kernels_load(const struct kolo_cuda_driver *driver, int ordinal,
                                   kolo_deadline deadline,
                                   struct kolo_cuda_kernels **kernels_out) KOLO_NODISCARD;
/** Releases the kernels; the last user unloads them. Call it in the context into which they were
 * loaded. NULL is allowed. */
void kolo_cuda_kernels_unload(struct kolo_cuda_kernels *kernels);

/** As kolo_fold, with its rules for overlap, after the earlier work of @p stream. At most
 * KOLO_CUDA_INPUTS_MAX inputs and KOLO_CUDA_OUTPUTS_MAX outputs, and no operator of the program
 * (else ERR_UNSUPPORTED, and nothing was started). */
kolo_status kolo_cuda_fold(const struct kolo_cuda_kernels *kernels, void *stream,
                           const struct kolo_fold *fold, void *const out[], size_t nout,
                           const void *const in[], size_t nin, size_t count) KOLO_NODISCARD;
/** As kolo_scale, on @p stream. For floats only. */
kolo_status kolo_cuda_scale(const struct kolo_cuda_kernels *kernels, void *stream, void *out,
                            const void *in, size_t count, kolo_dtype dtype,
                            double factor) KOLO_NODISCARD;

#endif
