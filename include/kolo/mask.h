// SPDX-License-Identifier: Apache-2.0
/** Masks of objects as runs of pixels, COCO's run-length encoding, with pycocotools.mask's results
 *  to the bit.
 *
 *  Pixels are taken column by column, each from top to bottom. Runs are lengths: of pixels that are
 *  not the object's, that are, that are not, ...; the first may be 0.
 *
 *      struct kolo_mask mask = {0};
 *      kolo_mask_from_string(text, strlen(text), height, width, &mask);
 *      kolo_mask_area(&mask, &area);
 *      kolo_mask_free(&mask);
 *
 *  A mask that a function makes may be made again by another: its memory is used again. Where a
 *  program has runs itself, it fills in the struct, and room stays 0.
 *
 *  Threads: any; a mask is written by one thread at a time.
 *  Ownership: what is passed in is read before the call returns. A mask that a function writes must
 *  be zero, or have been written by a function; none of those that the call reads. After a failure
 *  it has no pixel.
 */
#ifndef KOLO_MASK_H
#define KOLO_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

KOLO_BEGIN_DECLS

/** A mask: the library's, or one that a program makes of runs that it has. The runs add up to the
 *  image; every function checks it. Any run may be 0. (Where two masks both have such a one at the
 *  same place, behind their first, pycocotools compares and merges them only up to there.) */
struct kolo_mask {
    uint32_t height, width; /**< of the image, in pixels, from 1; their product is below 2^32 */
    size_t count;           /**< of runs; 0: no pixel */
    uint32_t *runs;         /**< only read where room is 0 */
    size_t room; /**< runs that the library has memory for there; 0: it is the program's */
};

/** Copies @p count runs, COCO's uncompressed `counts`.
 *  @return KOLO_OK; ERR_INVALID (runs that do not add up to the image, with both numbers);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_runs(const uint32_t *runs, size_t count,
                                                        uint32_t height, uint32_t width,
                                                        struct kolo_mask *mask_out);

/** Reads COCO's compressed `counts`.
 *  @param length  of @p text, which needs no end mark
 *  @return KOLO_OK; ERR_INVALID; ERR_DATA (what is none, with the character's place);
 *  ERR_NO_MEMORY.
 */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_string(const char *text, size_t length,
                                                          uint32_t height, uint32_t width,
                                                          struct kolo_mask *mask_out);

/** Writes COCO's compressed `counts`, and an end mark.
 *  @param text  of @p room bytes; NULL: just the length is asked for
 *  @param length_out  without the end mark
 *  @return KOLO_OK; ERR_INVALID (also: too little room, with what is needed). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_to_string(const struct kolo_mask *mask, char *text,
                                                        size_t room, size_t *length_out);

/** The pixels within a polygon, as pycocotools draws it: its border in fifths of a pixel. One that
 *  crosses itself has holes. The parts of an object are merged (kolo_mask_merge).
 *  @param xy  @p points times x and y, in pixels from the image's corner; may lie outside the image
 *  @return KOLO_OK; ERR_INVALID (a coordinate that is not finite or is beyond 2^28, with its place;
 *  a border that steps over columns of the image more than 2^24 times); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_polygon(const double *xy, size_t points,
                                                           uint32_t height, uint32_t width,
                                                           struct kolo_mask *mask_out);

/** The pixels within a box {left, top, width, height}, as of the polygon of its corners.
 *  @return as kolo_mask_from_polygon */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_box(const double *box, uint32_t height,
                                                       uint32_t width, struct kolo_mask *mask_out);

/** The pixels that are not 0.
 *  @param pixels   may be in a CUDA device's memory (metrics.h)
 *  @param by_rows  pixel (x, y) is pixels[y * width + x]; else pixels[x * height + y]
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY; ERR_SYSTEM (of pixels in a device's memory). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_pixels(const uint8_t *pixels, bool by_rows,
                                                          uint32_t height, uint32_t width,
                                                          struct kolo_mask *mask_out);

/** Writes 0 or 1 for each pixel, in the same order.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_to_pixels(const struct kolo_mask *mask, bool by_rows,
                                                        uint8_t *pixels);

/** Is it a mask? What every function asks of those that it reads.
 *  @return KOLO_OK; ERR_INVALID (what is wrong, with the value). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_check(const struct kolo_mask *mask);

/** How many pixels it has.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_area(const struct kolo_mask *mask,
                                                   uint32_t *area_out);

/** The smallest box around it: left, top, width, height; of no pixel, zeros. (pycocotools has a box
 *  of 2^32 pixels where a run of no pixel is all that there is, as in "24, 0".)
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_box(const struct kolo_mask *mask, double *box_out);

/** The union of masks of one size, or their intersection. Only the first of its runs may be 0.
 *  @param count  at least 1
 *  @return KOLO_OK; ERR_INVALID (also: different sizes); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_merge(const struct kolo_mask *masks, size_t count,
                                                    bool intersect, struct kolo_mask *mask_out);

/** Intersection over union of each detection with each ground truth: overlaps_out[detection *
 *  truths + truth]; with a crowd, over the detection alone. -1 for masks of different size whose
 *  boxes overlap.
 *  @param crowds  per ground truth, not 0 for a crowd; NULL: none is
 *  @return KOLO_OK; ERR_INVALID (the mask's place, and what is wrong); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_overlaps(const struct kolo_mask *detection,
                                                       size_t detections,
                                                       const struct kolo_mask *truth, size_t truths,
                                                       const uint8_t *crowds, double *overlaps_out);

/** Frees the memory of a mask that a function made, and makes it zero. NULL is fine. */
KOLO_API void kolo_mask_free(struct kolo_mask *mask);

KOLO_END_DECLS
#endif
