// SPDX-License-Identifier: Apache-2.0
// COCO's ground truth as a rank keeps it: all images, categories and annotations of the file.
#ifndef KOLO_EVALUATE_TRUTHS_H
#define KOLO_EVALUATE_TRUTHS_H

#include <stdbool.h>

#include "evaluate/source.h"

struct eval_truth {
    int64_t id, image, category;
    double box[4], area;
    bool is_crowd, is_ignored;
};

struct eval_category {
    int64_t id;
    char *name; /* NULL: none */
};

struct eval_truths {
    int64_t *image; /* ids, ascending, each once */
    size_t images, image_room;
    struct eval_category *category; /* ascending by id, each once */
    size_t categories, category_room;
    struct eval_truth *truth; /* as in the file */
    size_t truths, truth_room;
    uint64_t bytes; /* of the file, unpacked */
    uint32_t sum;   /* CRC-32 of it */
};

/** Reads @p path. @param skip_unknown  annotations of images and categories that the file does not
 *  list are left out; else they are an error. @return KOLO_OK; ERR_SYSTEM; ERR_DATA;
 *  ERR_NO_MEMORY. eval_truths_free() in every case. */
kolo_status eval_truths_read(struct eval_truths *truths, const char *path,
                             bool skip_unknown) KOLO_NODISCARD;
void eval_truths_free(struct eval_truths *truths);
/** The place of an image; -1: it is not there. */
int64_t eval_image_find(const struct eval_truths *truths, int64_t id);
int64_t eval_category_find(const struct eval_truths *truths, int64_t id);

#endif
