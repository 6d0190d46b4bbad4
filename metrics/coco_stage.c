// SPDX-License-Identifier: Apache-2.0
// Knows which arrays of a detection's update are read, and how long they are. Owns nothing. It must
// never look at an array that is not read, because that pointer may be anything. Masks are not
// arrays of numbers: they and their runs are always in host memory, even if they were made from
// pixels in a device's memory.
#include "metrics/coco_stage.h"
#include "metrics/coco_overlap.h"

enum { BOX_NUMBERS = 4, POINT_NUMBERS = 3 };

static size_t number_bytes(kolo_dtype dtype)
{
    return dtype == KOLO_FLOAT32 ? sizeof(float) : sizeof(double);
}

static bool has_numbers(const struct kolo_boxes *boxes)
{
    return boxes->dtype == KOLO_FLOAT32 || boxes->dtype == KOLO_FLOAT64;
}

static void stage_both(struct kolo_stage *stage, const struct kolo_coco_params *params,
                       struct kolo_boxes *boxes, size_t images, bool has_boxes)
{
    boxes->image_counts = kolo_stage(stage, "image_counts", boxes->image_counts, images, 1,
                                     sizeof *boxes->image_counts);
    if (has_boxes && has_numbers(boxes)) /* another dtype is refused later */
        boxes->boxes = kolo_stage(stage, "boxes", boxes->boxes, boxes->count, BOX_NUMBERS,
                                  number_bytes(boxes->dtype));
    boxes->categories = kolo_stage(stage, "categories", boxes->categories, boxes->count, 1,
                                   sizeof *boxes->categories);
    boxes->areas = kolo_stage(stage, "areas", boxes->areas, boxes->count, 1, sizeof *boxes->areas);
    if (params->kind == KOLO_DETECTION_KEYPOINTS)
        boxes->keypoints = kolo_stage(stage, "keypoints", boxes->keypoints, boxes->count,
                                      params->sigmas * POINT_NUMBERS, sizeof *boxes->keypoints);
}

/** Returns how many entries the lists of all images have in total; 0 if the sum overflows. */
static size_t total(const size_t *counts, size_t images)
{
    size_t sum = 0;
    for (size_t i = 0; counts && i < images; i++)
        if (__builtin_add_overflow(sum, counts[i], &sum))
            return 0;
    return sum;
}

static void stage_lists(struct kolo_stage *stage, struct kolo_boxes *truths, size_t images)
{
    truths->absent_counts = kolo_stage(stage, "absent_counts", truths->absent_counts, images, 1,
                                       sizeof *truths->absent_counts);
    truths->partial_counts = kolo_stage(stage, "partial_counts", truths->partial_counts, images, 1,
                                        sizeof *truths->partial_counts);
    if (stage->status != KOLO_OK)
        return;
    truths->absent = kolo_stage(stage, "absent", truths->absent,
                                total(truths->absent_counts, images), 1, sizeof *truths->absent);
    truths->partial = kolo_stage(stage, "partial", truths->partial,
                                 total(truths->partial_counts, images), 1, sizeof *truths->partial);
}

static void stage_truths(struct kolo_stage *stage, const struct kolo_coco_params *params,
                         struct kolo_boxes *truths, size_t images)
{
    const bool is_coco = params->rules == KOLO_DETECTION_COCO;
    const bool is_compatible = params->mode == KOLO_DETECTION_COMPAT;
    stage->part = "truths.";
    stage_both(stage, params, truths, images, kolo_coco_kind_of(params->kind)->has_truth_boxes);
    if (is_coco)
        truths->crowds =
            kolo_stage(stage, "crowds", truths->crowds, truths->count, 1, sizeof *truths->crowds);
    if (!is_coco || !is_compatible)
        truths->ignored = kolo_stage(stage, "ignored", truths->ignored, truths->count, 1,
                                     sizeof *truths->ignored);
    if (is_compatible)
        truths->ids = kolo_stage(stage, "ids", truths->ids, truths->count, 1, sizeof *truths->ids);
    if (params->kind == KOLO_DETECTION_KEYPOINTS)
        truths->point_counts = kolo_stage(stage, "point_counts", truths->point_counts,
                                          truths->count, 1, sizeof *truths->point_counts);
    if (params->rules == KOLO_DETECTION_LVIS)
        stage_lists(stage, truths, images);
}

static void stage_found(struct kolo_stage *stage, const struct kolo_coco_params *params,
                        struct kolo_boxes *found, size_t images)
{
    stage->part = "detections.";
    stage_both(stage, params, found, images, kolo_coco_kind_of(params->kind)->has_found_boxes);
    if (has_numbers(found))
        found->scores =
            kolo_stage(stage, "scores", found->scores, found->count, 1, number_bytes(found->dtype));
}

kolo_status kolo_coco_stage(struct kolo_stage *stage, const struct kolo_coco_params *params,
                            const struct kolo_coco_update *given,
                            struct kolo_coco_staged *staged_out)
{
    staged_out->update = *given;
    staged_out->update.ids =
        kolo_stage(stage, "images", given->ids, given->images, 1, sizeof *given->ids);
    if (given->truths) {
        staged_out->truths = *given->truths;
        staged_out->update.truths = &staged_out->truths;
        stage_truths(stage, params, &staged_out->truths, given->images);
    }
    if (given->found) {
        staged_out->found = *given->found;
        staged_out->update.found = &staged_out->found;
        stage_found(stage, params, &staged_out->found, given->images);
    }
    return stage->status;
}
