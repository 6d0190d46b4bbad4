// SPDX-License-Identifier: Apache-2.0
/** Masks of objects in COCO's run-length encoding. Results have the same bits as those of
 *  pycocotools.mask.
 *
 *  Pixels are in column order, each column from top to bottom. Runs are lengths that alternate
 *  between pixels outside and inside the object, starting outside; the first may be 0.
 *
 *      struct kolo_mask mask = {0};
 *      kolo_mask_from_string(text, strlen(text), height, width, &mask);
 *      kolo_mask_area(&mask, &area);
 *      kolo_mask_free(&mask);
 *
 *  A program that has runs of its own fills in the struct and leaves `room` 0.
 *
 *  Threads: any, but a mask may be written by only one thread at a time.
 *  Ownership: what is passed in is read before the call returns. A mask that a function writes
 *  (mask_out) must be zero or have been written by such a function, whose memory is then reused; it
 *  must not be one that the call reads (ERR_INVALID, and it stays as it was). After any other
 *  failure it is empty. kolo_mask_free() frees it.
 */
#ifndef KOLO_MASK_H
#define KOLO_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

KOLO_BEGIN_DECLS

/** A mask, made by a function or by the program from its own runs. The runs must add up to the
 *  number of pixels of the image; every function checks it. Any run may be 0. (If two masks both
 *  have a run of 0 at the same place after their first run, pycocotools compares and merges them
 *  only up to there.) */
struct kolo_mask {
    uint32_t height, width; /**< of the image in pixels, at least 1; their product is below 2^32 */
    size_t count;           /**< number of runs; 0: the mask is empty */
    uint32_t *runs;         /**< if room is 0, it is only read */
    size_t room; /**< number of runs that the library's memory holds; 0: the program's memory */
};

/** Makes a mask by copying @p count runs, COCO's uncompressed `counts`.
 *  @return KOLO_OK; ERR_INVALID (the runs do not add up to the image; the detail has both numbers);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_runs(const uint32_t *runs, size_t count,
                                                        uint32_t height, uint32_t width,
                                                        struct kolo_mask *mask_out);

/** Makes a mask from COCO's compressed `counts`.
 *  @param length  of @p text in bytes; no terminating zero is needed
 *  @return KOLO_OK; ERR_INVALID; ERR_DATA (@p text is malformed; the detail has the position of the
 *  character); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_string(const char *text, size_t length,
                                                          uint32_t height, uint32_t width,
                                                          struct kolo_mask *mask_out);

/** Writes COCO's compressed `counts` with a terminating zero; of a mask without runs, one run of
 *  zeros.
 *  @param text  NULL: only asks for the length
 *  @param room  the size of @p text in bytes
 *  @param length_out  the length without the terminating zero; may be NULL if @p text is not
 *  @return KOLO_OK; ERR_INVALID (also: @p room is too small; the detail says what is needed). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_to_string(const struct kolo_mask *mask, char *text,
                                                        size_t room, size_t *length_out);

/** Makes a mask of the pixels within a polygon, drawn as pycocotools does: its border in fifths of
 *  a pixel. A polygon that crosses itself has holes. Use kolo_mask_merge() for an object of several
 *  polygons.
 *  @param xy  x and y of each of @p points corners, in pixels from the image's upper left corner;
 *  they may be outside the image
 *  @return KOLO_OK; ERR_INVALID (a coordinate is not finite or beyond 2^28; the detail has its
 *  position; or the border crosses columns of the image more than 2^24 times); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_polygon(const double *xy, size_t points,
                                                           uint32_t height, uint32_t width,
                                                           struct kolo_mask *mask_out);

/** Makes a mask of the pixels within a box {left, top, width, height}, as of the polygon of its
 *  corners.
 *  @return as kolo_mask_from_polygon() */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_box(const double *box, uint32_t height,
                                                       uint32_t width, struct kolo_mask *mask_out);

/** Makes a mask of the pixels that are not 0.
 *  @param pixels   height * width bytes; may be in CUDA device memory (metrics.h)
 *  @param by_rows  true: pixel (x, y) is pixels[y * width + x]; false: pixels[x * height + y]
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY; ERR_SYSTEM, ERR_TIMEOUT or ERR_UNSUPPORTED (device
 *  memory could not be copied, see metrics.h). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_from_pixels(const uint8_t *pixels, bool by_rows,
                                                          uint32_t height, uint32_t width,
                                                          struct kolo_mask *mask_out);

/** Writes 0 or 1 for each pixel into @p pixels, which has height * width bytes, ordered as in
 *  kolo_mask_from_pixels().
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_to_pixels(const struct kolo_mask *mask, bool by_rows,
                                                        uint8_t *pixels);

/** Checks a mask, as every function does with those that it reads.
 *  @return KOLO_OK; ERR_INVALID (the detail says what is wrong, with the value). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_check(const struct kolo_mask *mask);

/** The number of pixels of a mask.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_area(const struct kolo_mask *mask,
                                                   uint32_t *area_out);

/** The smallest box around a mask: box_out[0..3] are left, top, width, height; zeros for an empty
 *  mask. (pycocotools returns a box of 2^32 pixels if the only run inside the object is 0, as in
 *  "24, 0".)
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_box(const struct kolo_mask *mask, double *box_out);

/** Makes the union of @p count masks of the same size, or, if @p intersect, their intersection.
 *  Only the first run of the result may be 0.
 *  @param count  at least 1
 *  @return KOLO_OK; ERR_INVALID (also: the sizes differ); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_merge(const struct kolo_mask *masks, size_t count,
                                                    bool intersect, struct kolo_mask *mask_out);

/** Computes the intersection over union of each detection with each ground truth, into
 *  overlaps_out[d * truths + t] for detection d and ground truth t. With a crowd it is the
 *  intersection over the area of the detection. It is -1 for masks of different sizes whose boxes
 *  overlap.
 *  @param crowds  for each ground truth, not 0 for a crowd; NULL: there are none
 *  @return KOLO_OK; ERR_INVALID (the detail has the index of the mask and what is wrong);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mask_overlaps(const struct kolo_mask *detection,
                                                       size_t detections,
                                                       const struct kolo_mask *truth, size_t truths,
                                                       const uint8_t *crowds, double *overlaps_out);

/** Frees the memory of a mask that a function made, and sets the mask to zero. NULL is allowed. */
KOLO_API void kolo_mask_free(struct kolo_mask *mask);

KOLO_END_DECLS
#endif
