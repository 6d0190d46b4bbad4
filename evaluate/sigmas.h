// SPDX-License-Identifier: Apache-2.0
// --sigmas: how far each keypoint may be off.
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

/** @param given numbers with commas between them, or a file with numbers, commas or blanks between,
 *  in [] or not; NULL: none. @return KOLO_OK; ERR_SYSTEM; ERR_DATA (what is none). */
kolo_status eval_sigmas_read(struct eval_sigmas *sigmas, const char *given) KOLO_NODISCARD;
/** Compares them with what the categories of @p path say that they have; a single one becomes as
 *  many as those. @param points_out how many keypoints an object has. @return KOLO_OK; ERR_DATA. */
kolo_status eval_sigmas_fit(struct eval_sigmas *sigmas, const struct eval_truths *truths,
                            const char *path, size_t *points_out) KOLO_NODISCARD;

#endif
