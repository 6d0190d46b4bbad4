// SPDX-License-Identifier: Apache-2.0
// One GPU by way of the CUDA driver's own library, libcuda.so.1, which is looked for when the
// program runs: a program that uses this is built without CUDA and starts where there is none. What
// is done here is put into one stream and happens in that order. Copy it beside your own kernels.
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_ERROR_MAX = 512, GPU_BLOCK = 256 /* threads of a block */ };

struct gpu;

/** The GPU number @p wanted modulo how many there are, in the context that the CUDA runtime and
 * kolo use too, current for the calling thread, with the kernels of @p image (a fatbin, or PTX).
 * False: @p error says why not. */
bool gpu_open(struct gpu **gpu_out, int wanted, const void *image, char error[GPU_ERROR_MAX]);
/** What was allocated beside it is to be freed before. NULL is fine. */
void gpu_close(struct gpu *gpu);
const char *gpu_name(const struct gpu *gpu);
int gpu_number(const struct gpu *gpu);
/** For the stream of struct kolo_opts. */
void *gpu_stream(const struct gpu *gpu);

/* All below: false if it failed, or if anything did before; then gpu_error() says what. */
bool gpu_kernel(struct gpu *gpu, const char *name, void **kernel_out);
/** Memory of the GPU or the host's, both ways; the host's stays as it is until gpu_wait(). */
bool gpu_copy(struct gpu *gpu, void *into, const void *from, size_t bytes);
/** At least @p threads threads; @p parameters lead to the values of the kernel's. */
bool gpu_launch(struct gpu *gpu, void *kernel, size_t threads, void **parameters);
/** Until all is done. */
bool gpu_wait(struct gpu *gpu);
const char *gpu_error(const struct gpu *gpu);

#endif
