// SPDX-License-Identifier: Apache-2.0
// Owns boxes: how they are read and checked, and how much two overlap. Every operation of
// kolo_coco_iou is one of pycocotools' (maskApi.c, bbIou), in its order; the project is compiled
// with -ffp-contract=off, so that none is fused with another.
#include <math.h>

#include "metrics/coco.h"

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double overlap(const struct kolo_coco_box *detection, const struct kolo_coco_box *truth,
                      bool is_crowd)
{
    double truth_area = truth->w * truth->h, area = detection->w * detection->h;
    double w =
        least(detection->w + detection->x, truth->w + truth->x) - most(detection->x, truth->x);
    if (w <= 0)
        return 0;
    double h =
        least(detection->h + detection->y, truth->h + truth->y) - most(detection->y, truth->y);
    if (h <= 0)
        return 0;
    double both = w * h;
    double either = is_crowd ? area : area + truth_area - both;
    return both / either;
}

void kolo_coco_iou(const struct kolo_coco_box *detection, size_t detections,
                   const struct kolo_coco_box *box, const struct kolo_coco_truth *truth,
                   size_t truths, double *overlaps)
{
    for (size_t d = 0; d < detections; d++)
        for (size_t g = 0; g < truths; g++)
            overlaps[d * truths + g] = overlap(&detection[d], &box[g], truth[g].is_crowd);
}

static double number(const void *numbers, kolo_dtype dtype, size_t i)
{
    return dtype == KOLO_FLOAT32 ? (double)((const float *)numbers)[i]
                                 : ((const double *)numbers)[i];
}

struct kolo_coco_box kolo_coco_box_read(const struct kolo_boxes *boxes, size_t i)
{
    struct kolo_coco_box box = {.x = number(boxes->boxes, boxes->dtype, 4 * i),
                                .y = number(boxes->boxes, boxes->dtype, 4 * i + 1),
                                .w = number(boxes->boxes, boxes->dtype, 4 * i + 2),
                                .h = number(boxes->boxes, boxes->dtype, 4 * i + 3)};
    if (boxes->format == KOLO_BOX_XYXY) {
        box.w -= box.x;
        box.h -= box.y;
    }
    return box;
}

double kolo_coco_score_read(const struct kolo_boxes *boxes, size_t i)
{
    return number(boxes->scores, boxes->dtype, i);
}

static kolo_status check_shape(const char *what, const struct kolo_boxes *boxes, size_t images,
                               bool with_scores)
{
    size_t sum = 0;
    if (!boxes->image_counts && images > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %s.image_counts is NULL", what);
    for (size_t i = 0; i < images; i++) {
        sum += boxes->image_counts[i];
        if (sum < boxes->image_counts[i] || sum > boxes->count)
            break;
    }
    if (sum != boxes->count)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.image_counts do not add up to count %zu", what,
                         boxes->count);
    if (boxes->count >= UINT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %zu %s; give fewer at a time",
                         boxes->count, what);
    if (boxes->count > 0 &&
        (!boxes->boxes || !boxes->categories || (with_scores && !boxes->scores)))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.boxes, categories or scores is NULL", what);
    if ((boxes->dtype != KOLO_FLOAT32 && boxes->dtype != KOLO_FLOAT64) ||
        (unsigned)boxes->format > KOLO_BOX_XYXY)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.dtype %d or format %d is none of boxes", what,
                         (int)boxes->dtype, (int)boxes->format);
    return KOLO_OK;
}

static kolo_status check_box(const struct kolo_coco_params *params, const char *what,
                             const struct kolo_boxes *boxes, size_t i)
{
    struct kolo_coco_box box = kolo_coco_box_read(boxes, i);
    if (!isfinite(box.x) || !isfinite(box.y) || !isfinite(box.w) || !isfinite(box.h))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is not finite: %g %g %g %g", i, what,
                         box.x, box.y, box.w, box.h);
    if (!isfinite(box.x + box.w) || !isfinite(box.y + box.h) || !isfinite(box.w * box.h))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is too large: %g %g %g %g", i, what,
                         box.x, box.y, box.w, box.h);
    if (box.w < 0 || box.h < 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s has width %g and height %g", i, what,
                         box.w, box.h);
    if (boxes->areas && !isfinite(boxes->areas[i]))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: the area of box %zu of %s is %g",
                         i, what, boxes->areas[i]);
    if (kolo_coco_category(params, boxes->categories[i]) < 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is of category %lld, which the "
                         "config does not name",
                         i, what, (long long)boxes->categories[i]);
    return KOLO_OK;
}

kolo_status kolo_coco_boxes_check(const struct kolo_coco_params *params, const char *what,
                                  const struct kolo_boxes *boxes, size_t images, bool with_scores)
{
    kolo_status status = check_shape(what, boxes, images, with_scores);
    for (size_t i = 0; status == KOLO_OK && i < boxes->count; i++) {
        status = check_box(params, what, boxes, i);
        if (status == KOLO_OK && with_scores && !isfinite(kolo_coco_score_read(boxes, i)))
            status = kolo_fail(KOLO_ERR_INVALID,
                               "kolo_detection_update: the score of box %zu of %s is %g", i, what,
                               kolo_coco_score_read(boxes, i));
    }
    return status;
}
