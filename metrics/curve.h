// SPDX-License-Identifier: Apache-2.0
// What binned and exact curves share. Private to metrics/.
#ifndef KOLO_METRICS_CURVE_H
#define KOLO_METRICS_CURVE_H

#include <kolo/classification.h>

#include "metrics/metric.h"
#include "metrics/score.h"

struct kolo_curve {
    struct kolo_metric metric;
    int64_t labels, bins;
    struct kolo_ignored ignored;
    bool micro; /* exact curves: one more, of all elements, behind the labels' */
    struct kolo_curve_entry *record; /* being made */
};

/** The samples of one label that have one score. `key` grows with the label, then with falling
 * scores. Travels as three int64. */
struct kolo_tie {
    int64_t key, positives, negatives;
};

/** Records of an exact curve have one of these per label. */
struct kolo_curve_entry {
    uint32_t place; /* grows with falling scores */
    uint32_t truth; /* 0, 1, or 2: ignored */
};

/** The words of one label of an exact curve. */
enum {
    KOLO_AREA_LIMBS = 4, /* of 32 bits: twice the pairs in which the positive is higher, and ties */
    KOLO_AREA_POSITIVES = KOLO_AREA_LIMBS,
    KOLO_AREA_NEGATIVES,
    KOLO_AREA_PRECISION, /* an exact sum of growth of tp times precision */
    KOLO_AREA_WORDS = KOLO_AREA_PRECISION + KOLO_EXACT_WORDS
};

/** Twice a number of pairs, and products of counts. */
__extension__ typedef unsigned __int128 kolo_pairs;

/** Walks along the scores of one label, from the highest. */
struct kolo_area {
    kolo_pairs twice_pairs;
    int64_t positives, negatives; /* so far */
    struct kolo_exact_sum precision;
};
void kolo_area_add(struct kolo_area *area, int64_t positives, int64_t negatives);

/** struct kolo_metric_ops.exchange of exact curves (curve_exchange.c). */
kolo_status kolo_curve_exchange(struct kolo_metric *metric, struct kolo_comm *comm,
                                const size_t *chosen, size_t count, int64_t *words,
                                const struct kolo_opts *opts) KOLO_NODISCARD;

#endif
