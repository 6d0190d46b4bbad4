// SPDX-License-Identifier: Apache-2.0
// Owns masks as objects of a detection: checks that all masks of an image have the same size, and
// computes the overlaps of an image and category. Overlaps that cannot reach the lowest threshold
// are not computed, because they decide nothing.
#include <math.h>

#include "base/alloc.h"
#include "metrics/coco_overlap.h"

/* The size of the masks of an image so far; 0: there are none yet. */
struct size {
    uint32_t height, width;
};

static kolo_status check_mask(const struct kolo_mask *mask, struct size *size, const char *where,
                              size_t i, int64_t image)
{
    kolo_status status = kolo_mask_check_one(mask, where, i);
    if (status != KOLO_OK)
        return status;
    if (size->height > 0 && (mask->height != size->height || mask->width != size->width))
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s %zu is of %u x %u pixels; others of image %lld are of %u x %u", where,
                         i, mask->height, mask->width, (long long)image, size->height, size->width);
    *size = (struct size){mask->height, mask->width};
    return KOLO_OK;
}

static kolo_status check_image(const struct kolo_boxes *objects, size_t first, size_t count,
                               struct size *size, const char *where, int64_t image)
{
    kolo_status status = KOLO_OK;
    for (size_t i = first; status == KOLO_OK && i < first + count; i++)
        status = check_mask(&objects->masks[i], size, where, i, image);
    return status;
}

static kolo_status check(const struct kolo_coco_params *params,
                         const struct kolo_coco_update *update)
{
    (void)params;
    const struct kolo_boxes *truths = update->truths, *found = update->found;
    bool lacks_truths = truths && truths->count > 0 && !truths->masks;
    if (lacks_truths || (found && found->count > 0 && !found->masks))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.masks is NULL, and the kind is "
                         "KOLO_DETECTION_MASKS",
                         lacks_truths ? "truths" : "detections");
    kolo_status status = KOLO_OK;
    size_t first_truth = 0, first_found = 0;
    for (size_t i = 0; status == KOLO_OK && i < update->images; i++) {
        size_t there = truths ? truths->image_counts[i] : 0;
        size_t ours = found ? found->image_counts[i] : 0;
        struct size size = {0, 0};
        status = check_image(truths, first_truth, there, &size,
                             "kolo_detection_update: the mask of truth", update->ids[i]);
        if (status == KOLO_OK)
            status = check_image(found, first_found, ours, &size,
                                 "kolo_detection_update: the mask of detection", update->ids[i]);
        first_truth += there;
        first_found += ours;
    }
    return status;
}

static double area(const struct kolo_coco_params *params, const struct kolo_boxes *boxes, size_t i)
{
    (void)params;
    const struct kolo_mask *mask = &boxes->masks[i];
    uint32_t pixels = 0;
    for (size_t r = 1; r < mask->count; r += 2)
        pixels += mask->runs[r];
    return pixels;
}

static kolo_status outline(const struct kolo_boxes *objects, const uint32_t *number, size_t count,
                           struct kolo_mask_outlines *outlines)
{
    size_t runs = 0;
    for (size_t i = 0; i < count; i++)
        runs += objects->masks[number[i]].count;
    kolo_status status = kolo_mask_outlines_begin(outlines, count, runs);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        kolo_mask_outlines_add(outlines, &objects->masks[number[i]]);
    return status;
}

static kolo_status overlap(const struct kolo_coco_params *params,
                           const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                           double *overlaps)
{
    if (group->detections == 0 || group->truths == 0)
        return KOLO_OK;
    double least = fmin(params->threshold[0], 1 - 1e-10); /* as in coco_match.c */
    kolo_status status;
    KOLO_TRY(outline(group->update->found, group->found_number, group->detections,
                     &shapes->found_masks));
    KOLO_TRY(
        outline(group->update->truths, group->truth_number, group->truths, &shapes->truth_masks));
    for (size_t d = 0; d < group->detections; d++)
        for (size_t g = 0; g < group->truths; g++)
            overlaps[d * group->truths + g] = kolo_mask_overlap(
                &shapes->found_masks, d, &shapes->truth_masks, g, group->truth[g].is_crowd, least);
out:
    return status;
}

const struct kolo_coco_kind_ops kolo_coco_masks = {
    .name = "masks", .check = check, .area = area, .overlap = overlap};
