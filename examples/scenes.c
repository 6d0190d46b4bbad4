// SPDX-License-Identifier: Apache-2.0
// Makes scenes from random numbers (SplitMix64) without any function of the C library, so that they
// are the same everywhere.
#include "scenes.h"

static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In [0, 1). */
static double uniform(uint64_t *state)
{
    return (double)(next_bits(state) >> 11) / (double)(UINT64_C(1) << 53);
}

static void add_found(struct scene *scene, const double box[4], int64_t category, double score)
{
    size_t i = scene->found++;
    scene->box[i][0] = (float)box[0];
    scene->box[i][1] = (float)box[1];
    scene->box[i][2] = (float)(box[0] + box[2]);
    scene->box[i][3] = (float)(box[1] + box[3]);
    scene->score[i] = (float)score;
    scene->category[i] = category;
}

static void make_truth(struct scene *scene, size_t i, uint64_t *state)
{
    double side = 8 + 300 * uniform(state) * uniform(state);
    double *box = scene->truth_box[i];
    box[0] = uniform(state) * 600;
    box[1] = uniform(state) * 440;
    box[2] = side;
    box[3] = side * (0.5 + uniform(state));
    scene->truth_category[i] = 1 + (int64_t)(next_bits(state) % SCENE_CATEGORIES);
    scene->truth_crowd[i] = uniform(state) < 0.02;
}

/* Up to three detections of an object, each worse if it is further off. */
static void find_truth(struct scene *scene, size_t i, uint64_t *state)
{
    const double *truth = scene->truth_box[i];
    size_t times = uniform(state) < 0.85 ? 1 + (size_t)(next_bits(state) % 3) : 0;
    for (size_t t = 0; t < times; t++) {
        double off = 0.3 * uniform(state) * uniform(state), box[4];
        for (int j = 0; j < 4; j++)
            box[j] = truth[j] + truth[2 + j % 2] * off * (2 * uniform(state) - 1);
        int64_t category = uniform(state) < 0.93 ? scene->truth_category[i] : 1;
        add_found(scene, box, category, (1 - 2 * off) * (0.4 + 0.6 * uniform(state)));
    }
}

void scene_make(uint64_t seed, int64_t image, struct scene *out)
{
    uint64_t state = seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)image;
    state = next_bits(&state);
    out->truths = (size_t)(next_bits(&state) % (SCENE_TRUTHS_MAX + 1));
    out->found = 0;
    for (size_t i = 0; i < out->truths; i++)
        make_truth(out, i, &state);
    for (size_t i = 0; i < out->truths; i++)
        find_truth(out, i, &state);
    while (out->found < SCENE_FOUND_MAX && uniform(&state) < 0.8) { /* where no object is */
        double box[4] = {uniform(&state) * 600, uniform(&state) * 440, 20 + 80 * uniform(&state),
                         20 + 80 * uniform(&state)};
        int64_t category = 1 + (int64_t)(next_bits(&state) % SCENE_CATEGORIES);
        double u = uniform(&state);
        add_found(out, box, category, 0.05 + 0.6 * u * u);
    }
}
