// SPDX-License-Identifier: Apache-2.0
// One GPU, used through the CUDA driver's library libcuda.so.1, which is loaded when the program
// runs: a program that uses this is built without CUDA, and starts on machines that have none. All
// work is put into one stream and done in order. Copy it beside your own kernels.
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_ERROR_MAX = 512, GPU_BLOCK = 256 /* threads per block */ };

struct gpu;

/** Opens GPU number @p wanted modulo the number of GPUs, in the context that the CUDA runtime and
 * kolo also use, makes it current for the calling thread, and loads the kernels of @p image (a
 * fatbin, or PTX). On failure returns false, and @p error says why. */
bool gpu_open(struct gpu **gpu_out, int wanted, const void *image, char error[GPU_ERROR_MAX]);
/** Memory allocated with it must be freed before. NULL is allowed. */
void gpu_close(struct gpu *gpu);
const char *gpu_name(const struct gpu *gpu);
int gpu_number(const struct gpu *gpu);
/** For the stream of struct kolo_opts. */
void *gpu_stream(const struct gpu *gpu);

/* All functions below return false if they failed, or if an earlier one did; then gpu_error() says
 * what failed. */
bool gpu_kernel(struct gpu *gpu, const char *name, void **kernel_out);
/** Copies between memory of the GPU and of the host, in either direction. Host memory must not
 * change until gpu_wait() returns. */
bool gpu_copy(struct gpu *gpu, void *into, const void *from, size_t bytes);
/** Starts at least @p threads threads; @p parameters points to the values of the kernel's
 * parameters. */
bool gpu_launch(struct gpu *gpu, void *kernel, size_t threads, void **parameters);
/** Waits until all work is done. */
bool gpu_wait(struct gpu *gpu);
const char *gpu_error(const struct gpu *gpu);

#endif
