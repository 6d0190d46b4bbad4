// SPDX-License-Identifier: Apache-2.0
// What an object has besides its box: COCO's segmentation (polygons or runs) or keypoints. Read
// from parts of JSON, kept as bytes that can be sent, and converted to a mask when one is needed.
#ifndef KOLO_EVALUATE_SHAPE_H
#define KOLO_EVALUATE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/mask.h>

#include "base/status.h"

enum eval_shape_kind { EVAL_NO_SHAPE, EVAL_POINTS, EVAL_POLYGONS, EVAL_RUNS, EVAL_STRING };

enum { EVAL_POINT_NUMBERS = 3 }; /* x, y and v */

enum eval_shape_key { EVAL_KEY_OTHER, EVAL_KEY_SIZE, EVAL_KEY_COUNTS };

/** The shape that is being read; reused for the next. Must be zero at first. */
struct eval_shape {
    enum eval_shape_kind kind;
    bool is_object;          /* {"size": ..., "counts": ...} */
    enum eval_shape_key key; /* whose value comes next */
    uint32_t size[2];        /* height and width */
    size_t sizes;
    double *number; /* points, those of all polygons, or runs */
    size_t numbers, number_room;
    uint64_t *end; /* of each polygon, in numbers */
    size_t ends, end_room;
    char *text;
    size_t bytes, text_room;
};

/** What the functions below return if memory is missing. The detail says how much. */
extern const char eval_shape_no_memory[];

/** Take the parts of its JSON, one after the other. @param inside  how many arrays and objects of
 * the shape are open around the part. @return NULL, or a description of what is wrong with it. */
const char *eval_shape_begin(struct eval_shape *shape, bool is_points, bool is_object);
const char *eval_shape_open(struct eval_shape *shape, size_t inside, bool is_object);
const char *eval_shape_key(struct eval_shape *shape, size_t inside, const char *text,
                           size_t length);
const char *eval_shape_number(struct eval_shape *shape, size_t inside, const char *text,
                              size_t length);
const char *eval_shape_string(struct eval_shape *shape, size_t inside, const char *text,
                              size_t length);
const char *eval_shape_close(struct eval_shape *shape, size_t inside);
/** null, true and false. */
const char *eval_shape_word(const struct eval_shape *shape, size_t inside);
void eval_shape_free(struct eval_shape *shape);

/** Many shapes as bytes. */
struct eval_shapes {
    unsigned char *data;
    size_t bytes, room;
};

/** Where a shape begins among the bytes, and its length, a multiple of 8; 0: none. */
struct eval_place {
    uint64_t at, bytes;
};

kolo_status eval_shapes_add(struct eval_shapes *shapes, const struct eval_shape *shape,
                            struct eval_place *place_out) KOLO_NODISCARD;
/** @param height, width  of the image; 0: not known. @param mask_out  zero.
 *  @return KOLO_OK; ERR_DATA (what is wrong, but not with which object); ERR_NO_MEMORY. */
kolo_status eval_shapes_mask(const struct eval_shapes *shapes, const struct eval_place *place,
                             uint32_t height, uint32_t width,
                             struct kolo_mask *mask_out) KOLO_NODISCARD;
/** @param count  how many numbers there must be
 *  @return KOLO_OK; ERR_DATA (also if the area of the rectangle around the points exceeds a
 * double). */
kolo_status eval_shapes_points(const struct eval_shapes *shapes, const struct eval_place *place,
                               size_t count, double *points_out) KOLO_NODISCARD;
void eval_shapes_free(struct eval_shapes *shapes);

#endif
