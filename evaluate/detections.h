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

/** A part of a plain file that is a list: the detections that begin in bytes from @p from up to @p
 * to. */
struct eval_part {
    uint64_t from, to; /* to: EVAL_NO_PLACE: to the end */
    /* Where the first of them, and the first behind them, begin; EVAL_NO_PLACE: there is none. */
    uint64_t first, next;
    uint64_t count;
};

/** Reads a part, taking it on trust that the first thing in it that looks like the begin of a
 *  detection is one: the readers of all parts have read what a reader of the whole would have if
 *  none failed and eval_parts_fit(). Numbers begin with 0 in each part. @return KOLO_OK; else the
 *  whole is to be read, as the failure may come from the guess. eval_detections_free() in every
 *  case. */
kolo_status eval_detections_read_part(struct eval_detections *detections, const char *path,
                                      const struct eval_truths *truths,
                                      const struct eval_division *division,
                                      struct eval_part *part) KOLO_NODISCARD;
/** Whether each of the parts, which are all of a file, begins where the one before it ended. */
bool eval_parts_fit(const struct eval_part *part, size_t parts);

/** Reads @p path, and keeps what is in the share of the division's rank. With its skip_unknown
 *  detections of categories that the ground truth does not list are left out; else they are an
 *  error, as those of images always are. eval_detections_free() in every case. */
kolo_status eval_detections_read(struct eval_detections *detections, const char *path,
                                 const struct eval_truths *truths,
                                 const struct eval_division *division) KOLO_NODISCARD;
/** The same by all ranks together, and whether all have the same file: where they do by what the
 *  system says of it, each rank reads a part of it; else, and wherever that comes to no good end,
 *  the whole, so that failures are those of one rank alone. All have the same answer.
 *  Collective. */
kolo_status eval_detections_read_together(struct eval_detections *detections, const char *path,
                                          const struct eval_truths *truths,
                                          const struct eval_division *division,
                                          struct kolo_comm *comm) KOLO_NODISCARD;
/** Sends each detection to the rank of its image, that is image modulo ranks. Collective.
 *  Afterwards they are in no order. */
kolo_status eval_detections_deal(struct eval_detections *detections,
                                 struct kolo_comm *comm) KOLO_NODISCARD;
void eval_detections_free(struct eval_detections *detections);

#endif
