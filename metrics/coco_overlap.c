// SPDX-License-Identifier: Apache-2.0
// Owns the checks of an update, and is the one place where the kinds of objects (boxes, masks,
// keypoints) are told apart. It must never compute an overlap itself.
#include <math.h>

#include "base/alloc.h"
#include "metrics/coco_overlap.h"

const struct kolo_coco_kind_ops *kolo_coco_kind_of(kolo_detection_kind kind)
{
    static const struct kolo_coco_kind_ops *const kinds[] = {
        [KOLO_DETECTION_BOXES] = &kolo_coco_boxes,
        [KOLO_DETECTION_MASKS] = &kolo_coco_masks,
        [KOLO_DETECTION_KEYPOINTS] = &kolo_coco_keypoints,
    };
    return (unsigned)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : NULL;
}

void kolo_coco_shapes_free(struct kolo_coco_shapes *shapes)
{
    kolo_free_memory(shapes->found_box);
    kolo_free_memory(shapes->truth_box);
    kolo_mask_outlines_free(&shapes->found_masks);
    kolo_mask_outlines_free(&shapes->truth_masks);
    *shapes = (struct kolo_coco_shapes){.found_box = NULL};
}

/* The params were checked, so there always is a kind; the other branch is for the compiler. */
static const struct kolo_coco_kind_ops *kind_of(const struct kolo_coco_params *params)
{
    const struct kolo_coco_kind_ops *kind = kolo_coco_kind_of(params->kind);
    return kind ? kind : &kolo_coco_boxes;
}

double kolo_coco_area(const struct kolo_coco_params *params, const struct kolo_boxes *boxes,
                      size_t i, bool is_found)
{
    const struct kolo_coco_kind_ops *kind = kind_of(params);
    if (boxes->areas)
        return boxes->areas[i];
    return is_found && kind->found_area ? kind->found_area(params, boxes, i)
                                        : kind->area(params, boxes, i);
}

bool kolo_coco_is_blank(const struct kolo_coco_params *params, const struct kolo_boxes *truths,
                        size_t i)
{
    const struct kolo_coco_kind_ops *kind = kind_of(params);
    return kind->is_blank && kind->is_blank(params, truths, i);
}

kolo_status kolo_coco_overlap(const struct kolo_coco_params *params,
                              const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                              double *overlaps)
{
    if (params->rules == KOLO_DETECTION_VOC && params->kind == KOLO_DETECTION_BOXES &&
        !params->is_continuous) {
        kolo_voc_overlap(group, overlaps);
        return KOLO_OK;
    }
    return kind_of(params)->overlap(params, group, shapes, overlaps);
}

/* ---- what an update may contain ---- */

/* One of the two parts of an update: ground truths or detections. */
struct part {
    const struct kolo_coco_params *params;
    const struct kolo_boxes *boxes;
    const char *what;
    bool is_found, has_boxes;
};

static kolo_status check_counts(const struct part *part, size_t images)
{
    const struct kolo_boxes *boxes = part->boxes;
    size_t sum = 0;
    bool is_more = false;
    if (!boxes->image_counts && images > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %s.image_counts is NULL",
                         part->what);
    for (size_t i = 0; i < images && !is_more; i++) {
        is_more = boxes->image_counts[i] > boxes->count - sum;
        sum += boxes->image_counts[i];
    }
    if (is_more)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.image_counts add up to more than count %zu",
                         part->what, boxes->count);
    if (sum != boxes->count)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.image_counts add up to %zu, but count is %zu",
                         part->what, sum, boxes->count);
    if (boxes->count >= UINT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %zu %s; give fewer at a time",
                         boxes->count, part->what);
    return KOLO_OK;
}

static kolo_status check_arrays(const struct part *part)
{
    const struct kolo_boxes *boxes = part->boxes;
    const char *missing = part->has_boxes && !boxes->boxes   ? "boxes"
                          : !boxes->categories               ? "categories"
                          : part->is_found && !boxes->scores ? "scores"
                                                             : NULL;
    if (boxes->count > 0 && missing)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %s.%s is NULL, and count is %zu",
                         part->what, missing, boxes->count);
    if (boxes->dtype != KOLO_FLOAT32 && boxes->dtype != KOLO_FLOAT64)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.dtype is %d; use KOLO_FLOAT32 or KOLO_FLOAT64",
                         part->what, (int)boxes->dtype);
    if ((unsigned)boxes->format > KOLO_BOX_XYXY)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %s.format is %d; use a kolo_box_format",
                         part->what, (int)boxes->format);
    return KOLO_OK;
}

static kolo_status check_box(const struct part *part, size_t i)
{
    struct kolo_coco_box box = kolo_coco_box_read(part->boxes, i);
    if (!isfinite(box.x) || !isfinite(box.y) || !isfinite(box.w) || !isfinite(box.h))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is not finite: %g %g %g %g", i,
                         part->what, box.x, box.y, box.w, box.h);
    if (!isfinite(box.x + box.w) || !isfinite(box.y + box.h) || !isfinite(box.w * box.h))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is too large: %g %g %g %g", i,
                         part->what, box.x, box.y, box.w, box.h);
    if (box.w < 0 || box.h < 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s has width %g and height %g", i,
                         part->what, box.w, box.h);
    return KOLO_OK;
}

static kolo_status check_object(const struct part *part, size_t i)
{
    const struct kolo_boxes *boxes = part->boxes;
    kolo_status status = part->has_boxes ? check_box(part, i) : KOLO_OK;
    if (status != KOLO_OK)
        return status;
    if (boxes->areas && !isfinite(boxes->areas[i]))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: the area of box %zu of %s is %g",
                         i, part->what, boxes->areas[i]);
    if (kolo_coco_category(part->params, boxes->categories[i]) < 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: box %zu of %s is of category %lld, which the "
                         "config does not name",
                         i, part->what, (long long)boxes->categories[i]);
    if (part->is_found && !isfinite(kolo_coco_score(boxes, i)))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: the score of box %zu of %s is %g", i, part->what,
                         kolo_coco_score(boxes, i));
    return KOLO_OK;
}

static kolo_status check_part(const struct part *part, size_t images)
{
    if (!part->boxes)
        return KOLO_OK;
    kolo_status status = check_counts(part, images);
    if (status == KOLO_OK)
        status = check_arrays(part);
    for (size_t i = 0; status == KOLO_OK && i < part->boxes->count; i++)
        status = check_object(part, i);
    return status;
}

kolo_status kolo_coco_check(const struct kolo_coco_params *params,
                            const struct kolo_coco_update *update)
{
    const struct kolo_coco_kind_ops *kind = kind_of(params);
    struct part truths = {.params = params,
                          .boxes = update->truths,
                          .what = "truths",
                          .has_boxes = kind->has_truth_boxes};
    struct part found = {.params = params,
                         .boxes = update->found,
                         .what = "detections",
                         .is_found = true,
                         .has_boxes = kind->has_found_boxes};
    kolo_status status = check_part(&truths, update->images);
    if (status == KOLO_OK)
        status = check_part(&found, update->images);
    if (status == KOLO_OK && params->rules == KOLO_DETECTION_LVIS && update->truths)
        status = kolo_coco_lvis_check(update->truths, update->images);
    if (status == KOLO_OK && kind->check)
        status = kind->check(params, update);
    return status;
}
