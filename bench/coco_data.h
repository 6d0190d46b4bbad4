// SPDX-License-Identifier: Apache-2.0
// Sets like COCO's val2017, made up: image by image from a seed, so that any rank makes any image,
// the same bits everywhere.
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
    int has_few_digits; /* scores of three decimals: many are equal */
};

struct coco_image {
    int truths, found; /* found: at most what coco_data says */
    double truth_box[4 * COCO_DATA_TRUTHS_MAX], truth_area[COCO_DATA_TRUTHS_MAX];
    int64_t truth_category[COCO_DATA_TRUTHS_MAX];
    uint8_t truth_crowd[COCO_DATA_TRUTHS_MAX];
    double *box, *score; /* the caller's, room for coco_data.found */
    int64_t *category;   /* 1 to COCO_DATA_CATEGORIES, as of truths */
};

/** Makes image number @p image. */
void coco_data_make(const struct coco_data *data, uint64_t image, struct coco_image *out);
/** A ragged ellipse in the box. */
void coco_data_draw(const double *box, uint64_t seed, double corners[2 * COCO_DATA_CORNERS]);
/** Keypoints (x, y, v), in the same places of every box; by the seed some are not seen. */
void coco_data_pose(const double *box, uint64_t seed, double points[3 * COCO_DATA_POINTS]);

#endif
