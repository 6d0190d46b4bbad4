// SPDX-License-Identifier: Apache-2.0
// See fashion_gpu.h. A batch is copied to the GPU and its scores are copied back. The host computes
// the loss and its derivatives by the scores in double, as it does without a GPU; everything else
// stays on the GPU.
#include "fashion_gpu.h"

#include <stdlib.h>
#include <string.h>

bool fashion_parse_device(const char *text, enum fashion_device *device_out)
{
    static const char *const names[] = {"auto", "cpu", "gpu"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *device_out = (enum fashion_device)i;
            return true;
        }
    return false;
}

/* ---- taking a GPU ---- */

static bool find_kernels(struct fashion_gpu *gpu)
{
    return gpu_kernel(gpu->gpu, "fashion_hidden", &gpu->run_hidden) &&
           gpu_kernel(gpu->gpu, "fashion_scores", &gpu->run_scores) &&
           gpu_kernel(gpu->gpu, "fashion_back", &gpu->run_back) &&
           gpu_kernel(gpu->gpu, "fashion_gradient", &gpu->run_gradient) &&
           gpu_kernel(gpu->gpu, "fashion_update", &gpu->run_update);
}

static kolo_status allocate(struct fashion_gpu *gpu)
{
    const size_t batch = (size_t)gpu->batch * sizeof(float);
    const struct {
        size_t bytes;
        void *memory_out;
    } device[] = {{sizeof *gpu->model, &gpu->model},       {sizeof *gpu->momentum, &gpu->momentum},
                  {sizeof *gpu->gradient, &gpu->gradient}, {batch * FASHION_PIXELS, &gpu->images},
                  {batch * FASHION_HIDDEN, &gpu->hidden},  {batch * FASHION_HIDDEN, &gpu->back},
                  {batch * FASHION_CLASSES, &gpu->scores}, {batch * FASHION_CLASSES, &gpu->slopes}};
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < sizeof device / sizeof *device && status == KOLO_OK; i++)
        status = kolo_alloc_device(gpu->comm, device[i].bytes, gpu_number(gpu->gpu),
                                   device[i].memory_out);
    if (status == KOLO_OK)
        status = kolo_alloc(gpu->comm, batch * FASHION_PIXELS, (void **)&gpu->host_images);
    if (status == KOLO_OK)
        status = kolo_alloc(gpu->comm, batch * FASHION_CLASSES, (void **)&gpu->host_scores);
    return status;
}

static bool take(struct fashion_gpu *gpu, char note[FASHION_ERROR_MAX])
{
    struct kolo_info info = {.size = sizeof info};
    if (!&fashion_image_bytes || fashion_image_bytes == 0) {
        snprintf(note, FASHION_ERROR_MAX,
                 "this build has no CUDA kernels: it was made without nvcc");
        return false;
    }
    if (kolo_get_info(gpu->comm, &info) != KOLO_OK) {
        snprintf(note, FASHION_ERROR_MAX, "%s", kolo_error_detail());
        return false;
    }
    if (!gpu_open(&gpu->gpu, info.local_rank, fashion_image, note))
        return false;
    if (!find_kernels(gpu)) {
        snprintf(note, FASHION_ERROR_MAX, "%s", gpu_error(gpu->gpu));
        return false;
    }
    if (allocate(gpu) != KOLO_OK) {
        snprintf(note, FASHION_ERROR_MAX, "%s", kolo_error_detail());
        return false;
    }
    snprintf(note, FASHION_ERROR_MAX, "GPU %d, %s", gpu_number(gpu->gpu), gpu_name(gpu->gpu));
    return true;
}

bool fashion_gpu_open(struct fashion_gpu **gpu_out, struct kolo_comm *comm,
                      enum fashion_device device, int64_t batch, char note[FASHION_ERROR_MAX])
{
    *gpu_out = NULL;
    if (device == FASHION_CPU) {
        snprintf(note, FASHION_ERROR_MAX, "as --device cpu says");
        return true;
    }
    struct fashion_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) {
        snprintf(note, FASHION_ERROR_MAX, "out of memory");
        return false;
    }
    gpu->comm = comm;
    gpu->batch = batch;
    if (take(gpu, note)) {
        *gpu_out = gpu;
        return true;
    }
    fashion_gpu_close(gpu);
    return device == FASHION_AUTO;
}

void fashion_gpu_close(struct fashion_gpu *gpu)
{
    if (!gpu)
        return;
    void *memory[] = {gpu->model, gpu->momentum, gpu->gradient, gpu->images,      gpu->hidden,
                      gpu->back,  gpu->scores,   gpu->slopes,   gpu->host_images, gpu->host_scores};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        (void)kolo_free(gpu->comm, memory[i]);
    gpu_close(gpu->gpu);
    free(gpu);
}

kolo_status fashion_gpu_announce(const char *program, struct kolo_comm *comm,
                                 const struct fashion_gpu *gpu, const char *note)
{
    int32_t with_gpu = gpu != NULL;
    kolo_status status =
        kolo_allreduce(comm, &with_gpu, &with_gpu, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        fprintf(stderr, "%s: %d of %d ranks compute on a GPU; rank 0 %s (%s)\n", program, with_gpu,
                kolo_size(comm), gpu ? "does" : "does not", note);
    return status;
}

const char *fashion_gpu_detail(const struct fashion_gpu *gpu)
{
    return gpu && gpu_error(gpu->gpu)[0] ? gpu_error(gpu->gpu) : kolo_error_detail();
}

/* ---- computing ---- */

bool fashion_gpu_put(struct fashion_gpu *gpu, const struct fashion_checkpoint *state)
{
    return gpu_copy(gpu->gpu, gpu->model, &state->model, sizeof state->model) &&
           gpu_copy(gpu->gpu, gpu->momentum, &state->momentum, sizeof state->momentum) &&
           gpu_wait(gpu->gpu);
}

bool fashion_gpu_get(struct fashion_gpu *gpu, struct fashion_checkpoint *state)
{
    return gpu_copy(gpu->gpu, &state->model, gpu->model, sizeof state->model) &&
           gpu_copy(gpu->gpu, &state->momentum, gpu->momentum, sizeof state->momentum) &&
           gpu_wait(gpu->gpu);
}

bool fashion_gpu_scores(struct fashion_gpu *gpu, const struct fashion_data *data,
                        const int64_t *indices, int64_t count, float *scores)
{
    const size_t image_bytes = FASHION_PIXELS * sizeof(float), images = (size_t)count;
    const size_t scores_bytes = images * FASHION_CLASSES * sizeof(float);
    int n = (int)count;
    for (size_t i = 0; i < images; i++)
        memcpy(gpu->host_images + i * FASHION_PIXELS, data->images + indices[i] * FASHION_PIXELS,
               image_bytes);
    if (!gpu_copy(gpu->gpu, gpu->images, gpu->host_images, images * image_bytes) ||
        !gpu_launch(gpu->gpu, gpu->run_hidden, images * FASHION_HIDDEN,
                    (void *[]){&gpu->model, &gpu->images, &gpu->hidden, &n}) ||
        !gpu_launch(gpu->gpu, gpu->run_scores, images * FASHION_CLASSES,
                    (void *[]){&gpu->model, &gpu->hidden, &gpu->scores, &n}) ||
        !gpu_copy(gpu->gpu, gpu->host_scores, gpu->scores, scores_bytes) || !gpu_wait(gpu->gpu))
        return false;
    memcpy(scores, gpu->host_scores, scores_bytes);
    return true;
}

/* One array of the parameters: into[of][by]. */
static bool sum_slopes(struct fashion_gpu *gpu, float *factors, float *slopes, float *into, int of,
                       int by, int count)
{
    return gpu_launch(gpu->gpu, gpu->run_gradient, (size_t)of * (size_t)by,
                      (void *[]){&factors, &slopes, &into, &of, &by, &count});
}

bool fashion_gpu_gradient(struct fashion_gpu *gpu, const float *slopes, int64_t count)
{
    enum { PIXELS = FASHION_PIXELS, HIDDEN = FASHION_HIDDEN, CLASSES = FASHION_CLASSES };
    struct fashion_model *to = gpu->gradient;
    const size_t images = (size_t)count;
    int n = (int)count;
    memcpy(gpu->host_scores, slopes, images * CLASSES * sizeof(float)); /* they have been read */
    return gpu_copy(gpu->gpu, gpu->slopes, gpu->host_scores, images * CLASSES * sizeof(float)) &&
           gpu_launch(gpu->gpu, gpu->run_back, images * HIDDEN,
                      (void *[]){&gpu->model, &gpu->hidden, &gpu->slopes, &gpu->back, &n}) &&
           sum_slopes(gpu, gpu->images, gpu->back, to->input_weights[0], PIXELS, HIDDEN, n) &&
           sum_slopes(gpu, NULL, gpu->back, to->hidden_bias, 1, HIDDEN, n) &&
           sum_slopes(gpu, gpu->hidden, gpu->slopes, to->hidden_weights[0], HIDDEN, CLASSES, n) &&
           sum_slopes(gpu, NULL, gpu->slopes, to->class_bias, 1, CLASSES, n);
}

bool fashion_gpu_update(struct fashion_gpu *gpu, float rate, float keep)
{
    int count = FASHION_PARAMETERS;
    return gpu_launch(
        gpu->gpu, gpu->run_update, FASHION_PARAMETERS,
        (void *[]){&gpu->model, &gpu->momentum, &gpu->gradient, &rate, &keep, &count});
}
