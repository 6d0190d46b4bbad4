// SPDX-License-Identifier: Apache-2.0
// Synthetic data sets like COCO's val2017, generated image by image from a seed, so that any rank
// can make any image, with the same bits everywhere.
#ifndef KOLO_BENCH_COCO_DATA_H
#define KOLO_BENCH_COCO_DATA_H

#include <stdint.h>

enum {
    COCO_DATA_CATEGORIES = 80,
    COCO_DATA_TRUTHS_MAX = 90,
    COCO_DATA_CORNERS = 24,
    COCO_DATA_POINTS = 17,
    COCO_DATA_HEIGHT = 480, /* of every image */
    COCO_DATA_WIDTH = 640
};

struct coco_data {
    uint64_t seed;
    int found;          /* detections per image */
    int has_few_digits; /* scores have three decimals, so many are equal */
};

struct coco_image {
    int truths, found; /* found: at most coco_data.found */
    double truth_box[4 * COCO_DATA_TRUTHS_MAX], truth_area[COCO_DATA_TRUTHS_MAX];
    int64_t truth_category[COCO_DATA_TRUTHS_MAX];
    uint8_t truth_crowd[COCO_DATA_TRUTHS_MAX];
    double *box, *score; /* the caller's, with room for coco_data.found */
    int64_t *category;   /* 1 to COCO_DATA_CATEGORIES; likewise truth_category */
};

/** Makes image number @p image. */
void coco_data_make(const struct coco_data *data, uint64_t image, struct coco_image *out);
/** Draws a ragged ellipse in the box. */
void coco_data_draw(const double *box, uint64_t seed, double corners[2 * COCO_DATA_CORNERS]);
/** Keypoints (x, y, v), at the same places in every box; the seed decides which are not visible. */
void coco_data_pose(const double *box, uint64_t seed, double points[3 * COCO_DATA_POINTS]);

#endif
