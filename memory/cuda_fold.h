// SPDX-License-Identifier: Apache-2.0
// The kernels of memory/cuda_kernels.h on a device: kolo_fold and kolo_scale for memory that the
// device reaches (its own, a peer's that is mapped, page-locked memory of the host), put on a
// stream.
#ifndef KOLO_MEMORY_CUDA_FOLD_H
#define KOLO_MEMORY_CUDA_FOLD_H

#include "base/status.h"
#include "memory/cuda_driver.h"
#include "memory/fold.h"

/** The kernels in one context. */
struct kolo_cuda_kernels;

/** Those of the current context, which is one of device number @p ordinal: loads them into it, if
 * nobody has. Threads, as of all here: any.
 * @return KOLO_OK; ERR_UNSUPPORTED: this build has none, or the driver is older than they are; the
 * detail says which. Others as of kolo_cuda_fail. */
kolo_status kolo_cuda_kernels_load(const struct kolo_cuda_driver *driver, int ordinal,
                                   struct kolo_cuda_kernels **kernels_out) KOLO_NODISCARD;
/** In the context that they were loaded into: the last who has them unloads them. NULL is fine. */
void kolo_cuda_kernels_unload(struct kolo_cuda_kernels *kernels);

/** As kolo_fold with its rules of what may overlap, after what @p stream was given before; at most
 * KOLO_CUDA_INPUTS_MAX inputs and KOLO_CUDA_OUTPUTS_MAX outputs, and no operator of the program's
 * own (ERR_UNSUPPORTED, and nothing was started). */
kolo_status kolo_cuda_fold(const struct kolo_cuda_kernels *kernels, void *stream,
                           const struct kolo_fold *fold, void *const out[], size_t nout,
                           const void *const in[], size_t nin, size_t count) KOLO_NODISCARD;
/** As kolo_scale, on @p stream. For floats only. */
kolo_status kolo_cuda_scale(const struct kolo_cuda_kernels *kernels, void *stream, void *out,
                            const void *in, size_t count, kolo_dtype dtype,
                            double factor) KOLO_NODISCARD;

#endif
