// SPDX-License-Identifier: Apache-2.0
// Which truths a label may have; scores from true and false positives and negatives, and their
// averages. Owns nothing. The same counts always give the same bits. Private to metrics/.
#ifndef KOLO_METRICS_SCORE_H
#define KOLO_METRICS_SCORE_H

#include <kolo/classification.h>

#include "base/status.h"

/** The truth that a config ignores in addition to -1, if any. */
struct kolo_ignored {
    bool is_set;
    int64_t index;
};

static inline bool kolo_truth_is_ignored(const struct kolo_ignored *ignored, int8_t truth)
{
    return truth == -1 || (ignored->is_set && truth == ignored->index);
}

/** Checks that each truth is 0, 1 or ignored. @p function is named in errors. */
kolo_status kolo_truths_check(const char *function, const struct kolo_ignored *ignored,
                              const int8_t *truths, size_t count) KOLO_NODISCARD;

struct kolo_outcomes {
    int64_t tp, fp, fn, tn;
};

/** Returns the outcomes of class @p number of a metric. */
typedef struct kolo_outcomes (*kolo_outcomes_of)(const struct kolo_metric *metric, int64_t number);

/** The common part of kolo_confusion_score() and kolo_multilabel_score(). @p function is named
 *  in errors. */
kolo_status kolo_scores(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of,
                        int64_t classes, const char *function,
                        const struct kolo_score_config *config, double *values_out,
                        size_t count) KOLO_NODISCARD;

#endif
