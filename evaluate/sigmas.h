// SPDX-License-Identifier: Apache-2.0
// --sigmas: the tolerance for each keypoint.
#ifndef KOLO_EVALUATE_SIGMAS_H
#define KOLO_EVALUATE_SIGMAS_H

#include <stddef.h>

#include <kolo/detection.h>

#include "base/status.h"
#include "evaluate/truths.h"

struct eval_sigmas {
    size_t count; /* 0: COCO's */
    double sigma[KOLO_DETECTION_POINTS_MAX];
};

/** @param given  numbers separated by commas, or a file of numbers separated by commas or blanks,
 * with or without []; NULL: none. @return KOLO_OK; ERR_CONFIG (no such file or numbers). */
kolo_status eval_sigmas_read(struct eval_sigmas *sigmas, const char *given) KOLO_NODISCARD;
/** Compares them with the keypoints of the categories in @p path; a single sigma is repeated for
 * each keypoint. @param points_out  keypoints per object. @return KOLO_OK; ERR_DATA. */
kolo_status eval_sigmas_fit(struct eval_sigmas *sigmas, const struct eval_truths *truths,
                            const char *path, size_t *points_out) KOLO_NODISCARD;

#endif
