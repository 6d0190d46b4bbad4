// SPDX-License-Identifier: Apache-2.0
// What a kind of object is to the evaluation: how its numbers are checked, which area it has, and
// how much two overlap. coco_overlap has the table of kinds; all else knows overlaps and areas
// alone. Private to metrics/.
#ifndef KOLO_METRICS_COCO_OVERLAP_H
#define KOLO_METRICS_COCO_OVERLAP_H

#include "metrics/coco.h"
#include "metrics/mask.h"

/** left, top, width, height */
struct kolo_coco_box {
    double x, y, w, h;
};

/** What is made of the objects of one image and category before they are compared; grows. */
struct kolo_coco_shapes {
    struct kolo_coco_box *found_box, *truth_box;
    size_t found_box_room, truth_box_room;
    struct kolo_mask_outlines found_masks, truth_masks;
};

struct kolo_coco_kind_ops {
    const char *name;
    bool has_found_boxes, has_truth_boxes; /* whether kolo_boxes.boxes is read */
    /** What it alone has; all else is checked for all. NULL: nothing. */
    kolo_status (*check)(const struct kolo_coco_params *params,
                         const struct kolo_coco_update *update);
    /** The area of an object for which none is given. */
    double (*area)(const struct kolo_coco_params *params, const struct kolo_boxes *boxes, size_t i);
    /** The same of a detection. NULL: as of ground truth. */
    double (*found_area)(const struct kolo_coco_params *params, const struct kolo_boxes *boxes,
                         size_t i);
    /** Has ground truth nothing to find? NULL: it always has. */
    bool (*is_blank)(const struct kolo_coco_params *params, const struct kolo_boxes *truths,
                     size_t i);
    kolo_status (*overlap)(const struct kolo_coco_params *params,
                           const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                           double *overlaps);
};

/** NULL: this library has none such. */
const struct kolo_coco_kind_ops *kolo_coco_kind_of(kolo_detection_kind kind);
void kolo_coco_shapes_free(struct kolo_coco_shapes *shapes);

extern const struct kolo_coco_kind_ops kolo_coco_boxes, kolo_coco_masks, kolo_coco_keypoints;
/** Checks a config's sigmas, and keeps them. */
kolo_status kolo_coco_sigmas_take(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config) KOLO_NODISCARD;
/** VOC's overlaps of boxes: pixels at the edges are inside. */
void kolo_voc_overlap(const struct kolo_coco_group *group, double *overlaps);

/** Box @p i in COCO's form. */
struct kolo_coco_box kolo_coco_box_read(const struct kolo_boxes *boxes, size_t i);

#endif
