// SPDX-License-Identifier: Apache-2.0
// Owns boxes: how they are read, and how much two overlap. Every operation of box_overlap() is one
// of pycocotools' (maskApi.c, bbIou), in the same order. The project is compiled with
// -ffp-contract=off, so that no two operations are fused.
#include "base/alloc.h"
#include "metrics/coco_overlap.h"

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/** Returns intersection over union; for a crowd, intersection over the detection. 0 if they do
 *  not overlap. */
static double box_overlap(const struct kolo_coco_box *detection, const struct kolo_coco_box *truth,
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

double kolo_coco_score(const struct kolo_boxes *boxes, size_t i)
{
    return number(boxes->scores, boxes->dtype, i);
}

static double area(const struct kolo_coco_params *params, const struct kolo_boxes *boxes, size_t i)
{
    (void)params;
    struct kolo_coco_box box = kolo_coco_box_read(boxes, i);
    return box.w * box.h;
}

static kolo_status overlap(const struct kolo_coco_params *params,
                           const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                           double *overlaps)
{
    (void)params;
    size_t detections = group->detections, truths = group->truths;
    kolo_status status;
    KOLO_TRY(kolo_grow((void **)&shapes->found_box, &shapes->found_box_room, detections,
                       sizeof *shapes->found_box));
    KOLO_TRY(kolo_grow((void **)&shapes->truth_box, &shapes->truth_box_room, truths,
                       sizeof *shapes->truth_box));
    for (size_t d = 0; d < detections; d++)
        shapes->found_box[d] = kolo_coco_box_read(group->update->found, group->found_number[d]);
    for (size_t g = 0; g < truths; g++)
        shapes->truth_box[g] = kolo_coco_box_read(group->update->truths, group->truth_number[g]);
    for (size_t d = 0; d < detections; d++)
        for (size_t g = 0; g < truths; g++)
            overlaps[d * truths + g] =
                box_overlap(&shapes->found_box[d], &shapes->truth_box[g], group->truth[g].is_crowd);
out:
    return status;
}

const struct kolo_coco_kind_ops kolo_coco_boxes = {.name = "boxes",
                                                   .has_found_boxes = true,
                                                   .has_truth_boxes = true,
                                                   .area = area,
                                                   .overlap = overlap};
