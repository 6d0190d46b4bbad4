// SPDX-License-Identifier: Apache-2.0
// Ground truth in COCO's format as each rank keeps it: all images, categories and annotations of
// the file.
#ifndef KOLO_EVALUATE_TRUTHS_H
#define KOLO_EVALUATE_TRUTHS_H

#include <stdbool.h>

#include <kolo/detection.h>

#include "evaluate/shape.h"
#include "evaluate/source.h"

struct eval_truth {
    int64_t id, image, category, point_count;
    double box[4], area;
    struct eval_place shape;   /* for masks and keypoints */
    bool is_crowd, is_ignored; /* is_ignored: also VOC's difficult */
};

struct eval_category {
    int64_t id;
    char *name;        /* NULL: none */
    int64_t frequency; /* LVIS: 1 r, 2 c, 3 f; 0: not known */
    size_t points;     /* keypoints that it lists; 0: none */
};

/* A range of the ids in the lists of the images. */
struct eval_id_list {
    size_t at, count;
};

struct eval_image {
    int64_t id;
    uint32_t height, width; /* 0: not known */
    struct eval_id_list absent,
        partial; /* LVIS: categories that are absent, or not all annotated */
};

struct eval_truths {
    struct eval_image *image; /* ascending by id, each once */
    size_t images, image_room;
    struct eval_category *category; /* ascending by id, each once */
    size_t categories, category_room;
    struct eval_truth *truth; /* in the order of the file */
    size_t truths, truth_room;
    int64_t *id; /* of the images' lists */
    size_t ids, id_room;
    struct eval_shapes shapes;
    uint64_t bytes; /* of the file, unpacked */
    uint32_t sum;   /* CRC-32 of it, if it is compared */
};

/** What is read, and what must be present. */
struct eval_terms {
    kolo_detection_kind kind;
    kolo_detection_rules rules;
    /** What is missing gets a default: annotations without area have that of their box, without
     * iscrowd they are not crowds, and without LVIS's lists and frequency images and categories
     * have none. Otherwise all of these are required. */
    bool is_lenient;
    /** Annotations of images and categories that the file does not list are left out; otherwise
     * they are an error. */
    bool skip_unknown;
    /** Compute the file's sum. */
    bool is_compared;
};

/** Reads @p path. @return KOLO_OK; ERR_SYSTEM; ERR_DATA; ERR_NO_MEMORY. eval_truths_free() in every
 * case. */
kolo_status eval_truths_read(struct eval_truths *truths, const char *path,
                             const struct eval_terms *terms) KOLO_NODISCARD;
void eval_truths_free(struct eval_truths *truths);
/** The index of an image; -1: there is none with this id. */
int64_t eval_image_find(const struct eval_truths *truths, int64_t id);
int64_t eval_category_find(const struct eval_truths *truths, int64_t id);

#endif
