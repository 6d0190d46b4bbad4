// SPDX-License-Identifier: Apache-2.0
// What the parts of masks share. Private to metrics/.
//
//   mask          a mask's runs: checked, from and to pixels, its area and box
//   mask_string   from and to COCO's compressed string
//   mask_polygon  from polygons and boxes
//   mask_merge    unions and intersections
//   mask_overlap  how much two overlap
#ifndef KOLO_METRICS_MASK_H
#define KOLO_METRICS_MASK_H

#include <kolo/mask.h>

#include "base/status.h"

/** @param where, i  what is checked, for the detail: "call: mask" and its number */
kolo_status kolo_mask_check_one(const struct kolo_mask *mask, const char *where,
                                size_t i) KOLO_NODISCARD;
/** The same of a call's only one, which may be NULL. */
kolo_status kolo_mask_check_read(const struct kolo_mask *mask, const char *where) KOLO_NODISCARD;

/** Makes @p mask one of this size without runs, for a function to write. */
kolo_status kolo_mask_begin(struct kolo_mask *mask, uint32_t height, uint32_t width,
                            const char *call) KOLO_NODISCARD;
/** Room for @p count runs, which it may write. */
kolo_status kolo_mask_room(struct kolo_mask *mask, size_t count) KOLO_NODISCARD;

static inline uint32_t kolo_mask_pixels(const struct kolo_mask *mask)
{
    return mask->height * mask->width;
}

/** The pixels from x0 to before x1, from y0 to before y1; x1 == x0 for none. */
struct kolo_mask_bounds {
    uint32_t x0, y0, x1, y1;
};

/** A mask made ready for many comparisons. */
struct kolo_mask_outline {
    const struct kolo_mask *mask;
    size_t first, edges; /* in the outlines' edge: where the object begins, ends, begins, ... */
    uint32_t area;
    struct kolo_mask_bounds bounds;
};

/** Outlines of several masks, and their memory; grows. Zero at first. */
struct kolo_mask_outlines {
    struct kolo_mask_outline *outline;
    uint32_t *edge;
    size_t outlines, edges; /* used */
    size_t outline_room, edge_room;
};

/** Room for @p masks more with @p runs runs in all; forgets those before. */
kolo_status kolo_mask_outlines_begin(struct kolo_mask_outlines *outlines, size_t masks,
                                     size_t runs) KOLO_NODISCARD;
/** Adds the outline of a mask that has been checked. */
void kolo_mask_outlines_add(struct kolo_mask_outlines *outlines, const struct kolo_mask *mask);
void kolo_mask_outlines_free(struct kolo_mask_outlines *outlines);

/** Intersection over union; with a crowd, over the detection alone. Where it is certain to be below
 *  @p least, it may be 0 instead. */
double kolo_mask_overlap(const struct kolo_mask_outlines *detections, size_t d,
                         const struct kolo_mask_outlines *truths, size_t g, bool is_crowd,
                         double least);

#endif
