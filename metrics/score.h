// SPDX-License-Identifier: Apache-2.0
// Scores from true and false positives and negatives, and their averages. Owns nothing; the same
// bits from the same counts. Private to metrics/.
#ifndef KOLO_METRICS_SCORE_H
#define KOLO_METRICS_SCORE_H

#include <kolo/classification.h>

#include "base/status.h"

struct kolo_outcomes {
    int64_t tp, fp, fn, tn;
};

/** What became of class @p number of a metric. */
typedef struct kolo_outcomes (*kolo_outcomes_of)(const struct kolo_metric *metric, int64_t number);

/** The rest of kolo_confusion_score() and its kin; @p function is named in errors. */
kolo_status kolo_scores(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of,
                        int64_t classes, const char *function,
                        const struct kolo_score_config *config, double *values_out,
                        size_t count) KOLO_NODISCARD;

#endif
