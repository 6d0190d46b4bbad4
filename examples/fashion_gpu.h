// SPDX-License-Identifier: Apache-2.0
// The model of fashion.h on a GPU, with memory from kolo. The results have the same bits as those
// computed on the host.
#ifndef FASHION_GPU_H
#define FASHION_GPU_H

#include <kolo/kolo.h>

#include "fashion.h"
#include "gpu.h"

/** fashion_kernels.cu compiled by nvcc -fatbin, which kolo's build links; 0 bytes without nvcc. A
 * program can also be linked without such a file, since both are weak: their address is NULL. */
extern const unsigned char fashion_image[] __attribute__((weak));
extern const unsigned long long fashion_image_bytes __attribute__((weak));

struct fashion_gpu {
    struct gpu *gpu;
    struct kolo_comm *comm;
    int64_t batch;
    struct fashion_model *model, *momentum, *gradient; /* in GPU memory */
    float *images, *hidden, *scores, *slopes, *back;   /* in GPU memory, for a batch */
    float *host_images, *host_scores;                  /* page-locked */
    void *run_hidden, *run_scores, *run_back, *run_gradient, *run_update; /* kernels */
};

enum fashion_device { FASHION_AUTO, FASHION_CPU, FASHION_GPU };
/** Parses "auto", "cpu" or "gpu". */
bool fashion_parse_device(const char *text, enum fashion_device *device_out);

/** Opens a GPU for batches of up to @p batch images if @p device allows; otherwise *gpu_out is
 * NULL. Returns false if it must be a GPU and none can be used. @p note says which GPU, or why
 * none. */
bool fashion_gpu_open(struct fashion_gpu **gpu_out, struct kolo_comm *comm,
                      enum fashion_device device, int64_t batch, char note[FASHION_ERROR_MAX]);
void fashion_gpu_close(struct fashion_gpu *gpu);
/** Prints one line on rank 0's standard error that says where the model is computed. All ranks must
 * call it. */
kolo_status fashion_gpu_announce(const char *program, struct kolo_comm *comm,
                                 const struct fashion_gpu *gpu, const char *note);

/** Why a rank failed: the GPU's error, or kolo's if @p gpu is NULL or has none. */
const char *fashion_gpu_detail(const struct fashion_gpu *gpu);

/* All functions below return false if the GPU failed; then fashion_gpu_detail() says how. */
bool fashion_gpu_put(struct fashion_gpu *gpu, const struct fashion_checkpoint *state);
bool fashion_gpu_get(struct fashion_gpu *gpu, struct fashion_checkpoint *state);
/** Computes the class scores of the images that @p indices lists, into @p scores
 * [count][FASHION_CLASSES]. */
bool fashion_gpu_scores(struct fashion_gpu *gpu, const struct fashion_data *data,
                        const int64_t *indices, int64_t count, float *scores);
/** For the same images: computes their gradients from the derivatives of the loss by their
 * scores, and sums them into gpu->gradient. Asynchronous on the stream: later work there sees
 * the result. */
bool fashion_gpu_gradient(struct fashion_gpu *gpu, const float *slopes, int64_t count);
/** momentum = keep * momentum - rate * gradient; then adds momentum to the parameters. Asynchronous
 * on the stream. */
bool fashion_gpu_update(struct fashion_gpu *gpu, float rate, float keep);

#endif
