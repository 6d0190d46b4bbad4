// SPDX-License-Identifier: Apache-2.0
// The share of a file of results that a rank reads, and how detections get to where their image is.
#ifndef KOLO_EVALUATE_DETECTIONS_H
#define KOLO_EVALUATE_DETECTIONS_H

#include <kolo/kolo.h>

#include "evaluate/truths.h"

struct eval_detection {
    uint32_t image, category; /* places in the ground truth's lists */
    uint64_t number;          /* in the file */
    double box[4], score;
    uint64_t has_box;
    struct eval_place shape; /* of masks and keypoints */
};

struct eval_detections {
    struct eval_detection *detection;
    size_t count, room;
    struct eval_shapes shapes;
    bool first_has_box; /* the first of the file, on the rank that read it */
    uint64_t all;       /* in the file, of all ranks */
    uint64_t bytes;     /* of the file, unpacked */
    uint32_t sum;       /* CRC-32 of it */
    uint64_t bad; /* if reading failed in what this rank alone reads: the byte; else UINT64_MAX */
};

struct eval_division {
    kolo_detection_kind kind; /* what of detections is needed */
    bool skip_unknown;
    int rank, ranks;
};

/** Reads @p path, and keeps what is in the share of the division's rank. With its skip_unknown
 *  detections of categories that the ground truth does not list are left out; else they are an
 *  error, as those of images always are. eval_detections_free() in every case. */
kolo_status eval_detections_read(struct eval_detections *detections, const char *path,
                                 const struct eval_truths *truths,
                                 const struct eval_division *division) KOLO_NODISCARD;
/** Sends each detection to the rank of its image, that is image modulo ranks. Collective.
 *  Afterwards they are in no order. */
kolo_status eval_detections_deal(struct eval_detections *detections,
                                 struct kolo_comm *comm) KOLO_NODISCARD;
void eval_detections_free(struct eval_detections *detections);

#endif
