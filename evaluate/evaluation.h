// SPDX-License-Identifier: Apache-2.0
// From files to results: what all ranks do together.
#ifndef KOLO_EVALUATE_EVALUATION_H
#define KOLO_EVALUATE_EVALUATION_H

#include "evaluate/detections.h"
#include "evaluate/options.h"
#include "evaluate/sigmas.h"

enum { EVAL_BARE_NAMED = 10 };

/** Images of the ground truth without detections. */
struct eval_bare {
    int64_t count;
    /* their lowest ids; only the first `count` are valid */
    int64_t first[EVAL_BARE_NAMED];
};

struct eval_evaluation {
    const struct eval_options *options;
    struct eval_truths truths;
    struct eval_detections detections;
    bool by_box;               /* masks, keypoints: a detection's area is that of its box */
    struct eval_sigmas sigmas; /* for keypoints */
    size_t points;             /* keypoints per object; 0: none */
    struct eval_bare bare;
    struct kolo_detection *detection;
    struct kolo_detection_result result;
};

/** Reads both files and computes the results. Collective: every rank returns the same status with
 * the same detail. eval_evaluation_free() in every case. */
kolo_status eval_evaluation_run(struct eval_evaluation *evaluation, struct kolo_comm *comm,
                                const struct eval_options *options) KOLO_NODISCARD;
void eval_evaluation_free(struct eval_evaluation *evaluation);

#endif
