// SPDX-License-Identifier: Apache-2.0
// Stands in for a data set and a detector in detect-eval: images with objects, and what a model
// would have found in them. Replace it by your own. Any rank can make any image, from a seed.
#ifndef SCENES_H
#define SCENES_H

#include <stddef.h>
#include <stdint.h>

enum { SCENE_CATEGORIES = 12, SCENE_TRUTHS_MAX = 12, SCENE_FOUND_MAX = 40 };

struct scene {
    size_t truths, found;
    double truth_box[SCENE_TRUTHS_MAX][4]; /* left, top, width, height, as in COCO's files */
    int64_t truth_category[SCENE_TRUTHS_MAX];
    uint8_t truth_crowd[SCENE_TRUTHS_MAX];
    float box[SCENE_FOUND_MAX][4]; /* left, top, right, bottom, as from detectors */
    float score[SCENE_FOUND_MAX];
    int64_t category[SCENE_FOUND_MAX]; /* 1 to SCENE_CATEGORIES; likewise truth_category */
};

/** Makes image number @p image; the same on every rank. */
void scene_make(uint64_t seed, int64_t image, struct scene *out);

#endif
