// SPDX-License-Identifier: Apache-2.0
// From files to results: what all ranks do together.
#ifndef KOLO_EVALUATE_EVALUATION_H
#define KOLO_EVALUATE_EVALUATION_H

#include "evaluate/detections.h"
#include "evaluate/options.h"
#include "evaluate/sigmas.h"

enum { EVAL_BARE_NAMED = 10 };

/** Images of the ground truth that no detection is of. */
struct eval_bare {
    int64_t count;
    /* the lowest ids of them; what is behind the count means nothing */
    int64_t first[EVAL_BARE_NAMED];
};

struct eval_evaluation {
    const struct eval_options *options;
    struct eval_truths truths;
    struct eval_detections detections;
    bool by_box;               /* masks, keypoints: the area of a detection is that of its box */
    struct eval_sigmas sigmas; /* keypoints */
    size_t points;             /* that an object has; 0: none */
    struct eval_bare bare;
    struct kolo_detection *detection;
    struct kolo_detection_result result;
};

/** Reads both files and computes. Collective: every rank returns the same status with the same
 *  detail. eval_evaluation_free() in every case. */
kolo_status eval_evaluation_run(struct eval_evaluation *evaluation, struct kolo_comm *comm,
                                const struct eval_options *options) KOLO_NODISCARD;
void eval_evaluation_free(struct eval_evaluation *evaluation);

#endif
