// SPDX-License-Identifier: Apache-2.0
// The model of fashion.h on a GPU. Every thread computes one number, in float32, and sums in the
// same order as fashion.c; nvcc must not fuse operations (--fmad=false). So a score, a gradient and
// a parameter have the same bits on a GPU and on the host, at any number of ranks.
#include "fashion.h"

#ifndef KERNEL /* a test compiles this text for the host */
#define KERNEL extern "C" __global__ void
#endif
#define THREAD ((int)(blockIdx.x * blockDim.x + threadIdx.x))

/* hidden[image][h] */
KERNEL fashion_hidden(const struct fashion_model *model, const float *images, float *hidden,
                      int count)
{
    const int image = THREAD / FASHION_HIDDEN, h = THREAD % FASHION_HIDDEN;
    if (image >= count)
        return;
    float sum = model->hidden_bias[h];
    for (int p = 0; p < FASHION_PIXELS; p++) {
        const float pixel = images[image * FASHION_PIXELS + p];
        if (pixel != 0.0f)
            sum += pixel * model->input_weights[p][h];
    }
    hidden[THREAD] = sum > 0.0f ? sum : 0.0f;
}

/* scores[image][class] */
KERNEL fashion_scores(const struct fashion_model *model, const float *hidden, float *scores,
                      int count)
{
    const int image = THREAD / FASHION_CLASSES, c = THREAD % FASHION_CLASSES;
    if (image >= count)
        return;
    float sum = model->class_bias[c];
    for (int h = 0; h < FASHION_HIDDEN; h++)
        sum += hidden[image * FASHION_HIDDEN + h] * model->hidden_weights[h][c];
    scores[THREAD] = sum;
}

/* back[image][h]: the derivative of the loss by a hidden value, from slopes[image][class] */
KERNEL fashion_back(const struct fashion_model *model, const float *hidden, const float *slopes,
                    float *back, int count)
{
    const int image = THREAD / FASHION_HIDDEN, h = THREAD % FASHION_HIDDEN;
    if (image >= count)
        return;
    float sum = 0;
    for (int c = 0; c < FASHION_CLASSES; c++)
        sum += slopes[image * FASHION_CLASSES + c] * model->hidden_weights[h][c];
    back[THREAD] = hidden[THREAD] > 0.0f ? sum : 0.0f;
}

/* gradient[of][by]: factors[image][of] * slopes[image][by], summed over the images; without factors
 * (the derivative by a bias) the sum of the slopes. */
KERNEL fashion_gradient(const float *factors, const float *slopes, float *gradient, int ofs,
                        int bys, int count)
{
    const int of = THREAD / bys, by = THREAD % bys;
    if (of >= ofs)
        return;
    float sum = 0;
    for (int image = 0; image < count; image++) {
        const float factor = factors ? factors[image * ofs + of] : 1.0f;
        if (factor != 0.0f)
            sum += factor * slopes[image * bys + by];
    }
    gradient[THREAD] = sum;
}

KERNEL fashion_update(float *parameters, float *momentum, const float *gradient, float rate,
                      float keep, int count)
{
    if (THREAD >= count)
        return;
    momentum[THREAD] = keep * momentum[THREAD] - rate * gradient[THREAD];
    parameters[THREAD] += momentum[THREAD];
}
