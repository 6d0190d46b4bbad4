// SPDX-License-Identifier: Apache-2.0
// Reads a rank's share of a file of results, and sends each detection to the rank of its image.
#ifndef KOLO_EVALUATE_DETECTIONS_H
#define KOLO_EVALUATE_DETECTIONS_H

#include <kolo/kolo.h>

#include "evaluate/truths.h"

struct eval_detection {
    uint32_t image, category; /* indices in the ground truth's lists */
    uint64_t number;          /* its number in the file */
    double box[4], score;
    uint64_t has_box;
    struct eval_place shape; /* for masks and keypoints */
};

struct eval_detections {
    struct eval_detection *detection;
    size_t count, room;
    struct eval_shapes shapes;
    bool first_has_box; /* whether the file's first one has; on the rank that read it */
    uint64_t all;       /* detections in the file, of all ranks */
    uint64_t bytes;     /* of the file, unpacked */
    uint32_t sum;       /* CRC-32 of it */
    uint64_t bad;       /* the byte, if reading failed in this rank's share; else UINT64_MAX */
};

struct eval_division {
    kolo_detection_kind kind; /* which parts of detections are needed */
    bool skip_unknown;
    int rank, ranks;
};

/** A part of a plain file that is a list: the detections that begin in bytes from @p from up to @p
 * to. */
struct eval_part {
    uint64_t from, to; /* to: EVAL_NO_PLACE: to the end */
    /* Where its first detection and the first one after the part begin; EVAL_NO_PLACE: there is
     * none. */
    uint64_t first, next;
    uint64_t count;
};

/** Reads a part. It assumes that the first thing in the part that looks like the beginning of a
 * detection is one. If no part's reader fails and eval_parts_fit() holds, together they have read
 * exactly what a reader of the whole file would have. Numbers begin with 0 in each part. @return
 * KOLO_OK; otherwise the whole file must be read, since the failure may come from that assumption.
 * eval_detections_free() in every case. */
kolo_status eval_detections_read_part(struct eval_detections *detections, const char *path,
                                      const struct eval_truths *truths,
                                      const struct eval_division *division,
                                      struct eval_part *part) KOLO_NODISCARD;
/** Whether each part begins where the one before it ended; the parts are all of a file. */
bool eval_parts_fit(const struct eval_part *part, size_t parts);

/** Reads @p path, and keeps the share of the division's rank. With skip_unknown, detections of
 * categories that the ground truth does not list are left out; otherwise they are an error, as
 * those of unknown images always are. eval_detections_free() in every case. */
kolo_status eval_detections_read(struct eval_detections *detections, const char *path,
                                 const struct eval_truths *truths,
                                 const struct eval_division *division) KOLO_NODISCARD;
/** The same by all ranks together; also checks that all have the same file. If the system's
 * attributes show that it is one file, each rank reads a part of it. Otherwise, and if reading in
 * parts fails in any way, all read the whole file, so that failures are the same as on one rank
 * alone. All get the same answer. Collective. */
kolo_status eval_detections_read_together(struct eval_detections *detections, const char *path,
                                          const struct eval_truths *truths,
                                          const struct eval_division *division,
                                          struct kolo_comm *comm) KOLO_NODISCARD;
/** Sends each detection to the rank of its image, which is image modulo ranks. Collective.
 * Afterwards detections are in no order. */
kolo_status eval_detections_deal(struct eval_detections *detections,
                                 struct kolo_comm *comm) KOLO_NODISCARD;
void eval_detections_free(struct eval_detections *detections);

#endif
