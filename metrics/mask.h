// SPDX-License-Identifier: Apache-2.0
// What the files about masks share. Private to metrics/.
//
//   mask          the runs of a mask: checks, from and to pixels, area and box
//   mask_string   from and to COCO's compressed string
//   mask_polygon  from polygons and boxes
//   mask_merge    unions and intersections
//   mask_overlap  how much two masks overlap
#ifndef KOLO_METRICS_MASK_H
#define KOLO_METRICS_MASK_H

#include <kolo/mask.h>

#include "base/status.h"

/** Checks a mask.
 *  @param where, i  what is checked, for the detail: "call: mask" and its number */
kolo_status kolo_mask_check_one(const struct kolo_mask *mask, const char *where,
                                size_t i) KOLO_NODISCARD;
/** The same for a call with only one mask, which may be NULL: that is an error. */
kolo_status kolo_mask_check_read(const struct kolo_mask *mask, const char *where) KOLO_NODISCARD;

/** Makes @p mask a mask of this size without runs, to be written. */
kolo_status kolo_mask_begin(struct kolo_mask *mask, uint32_t height, uint32_t width,
                            const char *call) KOLO_NODISCARD;
/** Makes room for @p count runs. */
kolo_status kolo_mask_room(struct kolo_mask *mask, size_t count) KOLO_NODISCARD;

static inline uint32_t kolo_mask_pixels(const struct kolo_mask *mask)
{
    return mask->height * mask->width;
}

/** The pixels with x0 <= x < x1 and y0 <= y < y1; x1 == x0 if there are none. */
struct kolo_mask_bounds {
    uint32_t x0, y0, x1, y1;
};

/** A mask in the form in which masks are compared. */
struct kolo_mask_outline {
    const struct kolo_mask *mask;
    /* in `edge` of the outlines: the pixels at which the object begins, ends, begins, ... */
    size_t first, edges;
    uint32_t area;
    struct kolo_mask_bounds bounds;
};

/** Outlines of several masks and their memory, which grows and is reused. Initially zero. */
struct kolo_mask_outlines {
    struct kolo_mask_outline *outline;
    uint32_t *edge;
    size_t outlines, edges; /* used */
    size_t outline_room, edge_room;
};

/** Forgets the outlines so far and makes room for those of @p masks masks with @p runs runs in
 *  total. */
kolo_status kolo_mask_outlines_begin(struct kolo_mask_outlines *outlines, size_t masks,
                                     size_t runs) KOLO_NODISCARD;
/** Adds the outline of a mask that has been checked. */
void kolo_mask_outlines_add(struct kolo_mask_outlines *outlines, const struct kolo_mask *mask);
void kolo_mask_outlines_free(struct kolo_mask_outlines *outlines);

/** Returns intersection over union; for a crowd, intersection over the detection. If the overlap
 *  is certainly below @p least, it may return 0 instead. Returns -1 if the sizes differ and the
 *  bounds intersect. */
double kolo_mask_overlap(const struct kolo_mask_outlines *detections, size_t d,
                         const struct kolo_mask_outlines *truths, size_t g, bool is_crowd,
                         double least);

#endif
