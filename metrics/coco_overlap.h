// SPDX-License-Identifier: Apache-2.0
// What the evaluation needs to know about a kind of object (boxes, masks, keypoints): how its
// numbers are checked, what its area is, and how much two objects overlap. coco_overlap.c has the
// table of kinds; all other files see only overlaps and areas. Private to metrics/.
#ifndef KOLO_METRICS_COCO_OVERLAP_H
#define KOLO_METRICS_COCO_OVERLAP_H

#include "metrics/coco.h"
#include "metrics/mask.h"

/** left, top, width, height */
struct kolo_coco_box {
    double x, y, w, h;
};

/** Objects of one image and category in the form in which they are compared. The arrays grow and
 *  are reused. */
struct kolo_coco_shapes {
    struct kolo_coco_box *found_box, *truth_box;
    size_t found_box_room, truth_box_room;
    struct kolo_mask_outlines found_masks, truth_masks;
};

struct kolo_coco_kind_ops {
    const char *name;
    bool has_found_boxes, has_truth_boxes; /* whether kolo_boxes.boxes is read */
    /** Checks what only this kind has; the rest is checked for all kinds. NULL: nothing. */
    kolo_status (*check)(const struct kolo_coco_params *params,
                         const struct kolo_coco_update *update);
    /** Returns the area of an object whose update does not give one. */
    double (*area)(const struct kolo_coco_params *params, const struct kolo_boxes *boxes, size_t i);
    /** The same for a detection. NULL: the same function as for ground truth. */
    double (*found_area)(const struct kolo_coco_params *params, const struct kolo_boxes *boxes,
                         size_t i);
    /** Whether a ground truth has nothing that could be found. NULL: it never is blank. */
    bool (*is_blank)(const struct kolo_coco_params *params, const struct kolo_boxes *truths,
                     size_t i);
    kolo_status (*overlap)(const struct kolo_coco_params *params,
                           const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                           double *overlaps);
};

/** Returns NULL if there is no such kind. */
const struct kolo_coco_kind_ops *kolo_coco_kind_of(kolo_detection_kind kind);
void kolo_coco_shapes_free(struct kolo_coco_shapes *shapes);

extern const struct kolo_coco_kind_ops kolo_coco_boxes, kolo_coco_masks, kolo_coco_keypoints;
/** Checks the sigmas of a config and copies them. */
kolo_status kolo_coco_sigmas_take(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config) KOLO_NODISCARD;
/** Computes PASCAL VOC's overlaps of boxes, which include the pixels at their edges. */
void kolo_voc_overlap(const struct kolo_coco_group *group, double *overlaps);

/** Returns box @p i in COCO's form. */
struct kolo_coco_box kolo_coco_box_read(const struct kolo_boxes *boxes, size_t i);

#endif
