// SPDX-License-Identifier: Apache-2.0
// What all metrics share: the records of indexed samples, and how a metric packs its state into
// int64 words that add up over ranks. Private to metrics/.
#ifndef KOLO_METRICS_METRIC_H
#define KOLO_METRICS_METRIC_H

#include <kolo/metrics.h>

#include "base/status.h"

/** A kind of metric. `direct` state comes from updates without indices; records are folded in when
 * computing. */
struct kolo_metric_ops {
    const char *name;
    size_t record_bytes;                               /* of one sample's record */
    size_t (*words)(const struct kolo_metric *metric); /* int64 words of the packed state */
    /** working state = direct state */
    void (*begin)(struct kolo_metric *metric);
    /** working state += one record */
    void (*fold)(struct kolo_metric *metric, const void *record);
    /** Writes the working state as words that an int64 sum-allreduce merges. */
    void (*pack)(struct kolo_metric *metric, int64_t *words);
    /** The merged words of all ranks: makes the result. ERR_DATA by policy. */
    kolo_status (*finish)(struct kolo_metric *metric, const int64_t *words);
    void (*reset)(struct kolo_metric *metric);
};

/** The first field of every metric. */
struct kolo_metric {
    const struct kolo_metric_ops *ops;
    int64_t samples;  /* of the data set; 0: no indices */
    uint64_t *seen;   /* a bit per sample: this rank has a record of it */
    int64_t *indices; /* per record */
    uint8_t *records; /* record_bytes per record */
    size_t record_count, index_capacity, record_capacity;
    int64_t local_duplicates;
    int64_t direct_count; /* samples counted without index */
    bool is_computed;
    struct kolo_sample_counts counts; /* of the last compute */
};

/** Allocates a metric of @p bytes bytes (its struct begins with struct kolo_metric). */
kolo_status kolo_metric_create(const struct kolo_metric_ops *ops, size_t bytes, int64_t samples,
                               struct kolo_metric **metric_out) KOLO_NODISCARD;
/** Checks that indices are given exactly where the metric has samples, and that they are in range;
 * makes room for
 *  @p count more records. Adds nothing. */
kolo_status kolo_metric_prepare(struct kolo_metric *metric, size_t count,
                                const int64_t *indices) KOLO_NODISCARD;
/** Adds a record that was prepared for; a sample this rank already has is a duplicate and leaves
 * the first in place. */
void kolo_metric_record(struct kolo_metric *metric, int64_t index, const void *record);

#endif
