// SPDX-License-Identifier: Apache-2.0
// What binned and exact curves have in common, and what curve.c and curve_exchange.c share. Private
// to metrics/.
#ifndef KOLO_METRICS_CURVE_H
#define KOLO_METRICS_CURVE_H

#include <kolo/classification.h>

#include "metrics/metric.h"
#include "metrics/score.h"

struct kolo_curve {
    struct kolo_metric metric;
    int64_t labels, bins;
    struct kolo_ignored ignored;
    bool micro; /* exact curves: one more curve, of all elements, after those of the labels */
    struct kolo_curve_entry *record; /* memory for the record of one sample */
};

/** The samples of one label with the same score. `key` grows with the label, then with falling
 *  scores. It is sent as three int64. */
struct kolo_tie {
    int64_t key, positives, negatives;
};

/** A record of a curve has one entry per label. */
struct kolo_curve_entry {
    uint32_t place; /* stands for the score or its bin; grows with falling scores */
    uint32_t truth; /* 0, 1, or 2: ignored */
};

/** The words of one label of an exact curve. */
enum {
    KOLO_AREA_LIMBS = 4, /* 32 bits each: 2 * pairs with a higher positive + pairs that tie */
    KOLO_AREA_POSITIVES = KOLO_AREA_LIMBS,
    KOLO_AREA_NEGATIVES,
    KOLO_AREA_PRECISION, /* exact sum of (growth of tp) * precision */
    KOLO_AREA_WORDS = KOLO_AREA_PRECISION + KOLO_EXACT_WORDS
};

/** Wide enough for twice a number of pairs, which is a product of counts. */
__extension__ typedef unsigned __int128 kolo_pairs;

/** The areas of one label, accumulated from the highest score to the lowest. */
struct kolo_area {
    kolo_pairs twice_pairs;
    int64_t positives, negatives; /* so far */
    struct kolo_exact_sum precision;
};
/** Adds the samples with the next lower score. */
void kolo_area_add(struct kolo_area *area, int64_t positives, int64_t negatives);

/** The function kolo_metric_ops.exchange of exact curves, in curve_exchange.c. */
kolo_status kolo_curve_exchange(struct kolo_metric *metric, struct kolo_comm *comm,
                                const size_t *chosen, size_t count, int64_t *words,
                                const struct kolo_opts *opts) KOLO_NODISCARD;

#endif
