// SPDX-License-Identifier: Apache-2.0
// The model of fashion.h on a GPU, with memory from kolo. What it computes has the same bits as on
// the host.
#ifndef FASHION_GPU_H
#define FASHION_GPU_H

#include <kolo/kolo.h>

#include "fashion.h"
#include "gpu.h"

/** fashion_kernels.cu as nvcc -fatbin made it; of a build without nvcc there are 0 bytes. */
extern const unsigned char fashion_image[];
extern const unsigned long long fashion_image_bytes;

struct fashion_gpu {
    struct gpu *gpu;
    struct kolo_comm *comm;
    int64_t batch;
    struct fashion_model *model, *momentum, *gradient; /* the GPU's */
    float *images, *hidden, *scores, *slopes, *back;   /* the GPU's, of a batch */
    float *host_images, *host_scores;                  /* page-locked */
    void *run_hidden, *run_scores, *run_back, *run_gradient, *run_update; /* kernels */
};

enum fashion_device { FASHION_AUTO, FASHION_CPU, FASHION_GPU };
/** "auto", "cpu" or "gpu". */
bool fashion_parse_device(const char *text, enum fashion_device *device_out);

/** Takes a GPU for batches of up to @p batch images, or not, as @p device says: then *gpu_out is
 * NULL. False where it must be a GPU and cannot. @p note: which, or why none. */
bool fashion_gpu_open(struct fashion_gpu **gpu_out, struct kolo_comm *comm,
                      enum fashion_device device, int64_t batch, char note[FASHION_ERROR_MAX]);
void fashion_gpu_close(struct fashion_gpu *gpu);
/** One line on rank 0's standard error that says where it is computed. All ranks call it. */
kolo_status fashion_gpu_announce(const char *program, struct kolo_comm *comm,
                                 const struct fashion_gpu *gpu, const char *note);

/** Why a rank failed: its GPU (NULL: none), else kolo. */
const char *fashion_gpu_detail(const struct fashion_gpu *gpu);

/* All below: false if the GPU failed; fashion_gpu_detail() says how. */
bool fashion_gpu_put(struct fashion_gpu *gpu, const struct fashion_checkpoint *state);
bool fashion_gpu_get(struct fashion_gpu *gpu, struct fashion_checkpoint *state);
/** Class scores of the images that @p indices name, into @p scores [count][FASHION_CLASSES]. */
bool fashion_gpu_scores(struct fashion_gpu *gpu, const struct fashion_data *data,
                        const int64_t *indices, int64_t count, float *scores);
/** Of the same images: their gradients, summed into gpu->gradient, from the slopes of the loss by
 * their scores. On the stream: it is there for what comes behind it. */
bool fashion_gpu_gradient(struct fashion_gpu *gpu, const float *slopes, int64_t count);
/** momentum = keep * momentum - rate * gradient, added to the parameters. On the stream. */
bool fashion_gpu_update(struct fashion_gpu *gpu, float rate, float keep);

#endif
