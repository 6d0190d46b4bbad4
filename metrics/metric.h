// SPDX-License-Identifier: Apache-2.0
// What all metrics share: a state of int64 words that add up over ranks, the records of indexed
// samples, and the table of functions that make a kind of metric. Private to metrics/.
//
// A kind is a small file: a create function that says how many words its state has, update
// functions that turn a sample into a record, `fold` that adds a record to words, and result
// functions that read the words of all ranks. Merging, saving, restoring, de-duplicating and
// computing are the same for all and know no kind.
#ifndef KOLO_METRICS_METRIC_H
#define KOLO_METRICS_METRIC_H

#include <kolo/metrics.h>

#include "base/status.h"

/** No count of samples is larger, in a state from outside or not: then sums over ranks, and of
 *  counts, stay in int64. */
static const int64_t KOLO_COUNT_MAX = INT64_C(1) << 40;
/** The same of what samples consist of (pixels, tokens), of which a day's evaluation may have more
 *  than KOLO_COUNT_MAX, and no rank has as many as this. */
static const int64_t KOLO_ELEMENT_COUNT_MAX = INT64_C(1) << 50;

struct kolo_reader;
struct kolo_writer;

/** For a kind that keeps its state in a form of its own. */
struct kolo_metric_store {
    /** How many bytes write() writes. */
    size_t (*bytes)(const struct kolo_metric *metric);
    void (*write)(const struct kolo_metric *metric, struct kolo_writer *writer);
    /** Reads into an empty metric what comes from outside, and believes none of it. */
    kolo_status (*read)(struct kolo_metric *metric, struct kolo_reader *reader);
    /** As if the updates of @p from had been made to @p into, after its own. All or nothing. */
    kolo_status (*merge)(struct kolo_metric *into, const struct kolo_metric *from);
    void (*clear)(struct kolo_metric *metric);
};

struct kolo_metric_ops {
    const char *name;
    /** words += one sample's record. NULL: no update makes records. */
    void (*fold)(const struct kolo_metric *metric, int64_t *words, const void *record,
                 size_t bytes);
    /** Makes words fit to be added to those of up to 2^31 ranks, without changing what they mean
     * (exact sums pass their carries on). NULL: they always are. */
    void (*carry)(const struct kolo_metric *metric, int64_t *words);
    /** What remains to be done with the words of all ranks; alike on all. ERR_DATA by policy. NULL:
     * nothing. */
    kolo_status (*finish)(struct kolo_metric *metric);
    /** Could updates have led to these words, which come from outside? Whatever it accepts must
     * not make other functions overflow. NULL: there are none. */
    bool (*accepts_words)(const struct kolo_metric *metric, const int64_t *words);
    /** The same for a record. NULL: none is accepted. */
    bool (*accepts_record)(const struct kolo_metric *metric, const void *record, size_t bytes);
    /** For kinds whose records are not folded but sorted over all ranks: collective, the same
     * number of collectives on every rank. @p chosen are the numbers of the records that this rank
     * counts. Adds to @p words what the sum over ranks then merges. NULL: records are folded. */
    kolo_status (*exchange)(struct kolo_metric *metric, struct kolo_comm *comm,
                            const size_t *chosen, size_t count, int64_t *words,
                            const struct kolo_opts *opts);
    /** Frees what a kind has beside its struct. NULL: nothing. */
    void (*destroy)(struct kolo_metric *metric);
    /** What updates leave beside words and records. NULL: nothing. */
    const struct kolo_metric_store *store;
};

/** The first field of every metric. */
struct kolo_metric {
    const struct kolo_metric_ops *ops;
    int64_t samples;   /* of the data set; 0: no indices */
    uint64_t settings; /* a fingerprint of the configuration: equal on metrics that may meet */
    size_t words;      /* int64 words of the state */
    int64_t *direct;   /* what came without index */
    int64_t *merged;   /* of all ranks, by the last compute */
    uint64_t *seen;    /* a bit per sample: this rank has a record of it */
    int64_t *indices;  /* per record; -1: none */
    size_t *ends;      /* per record, where it ends in `records`; it begins at the previous end */
    uint8_t *records;
    size_t record_count, index_capacity, end_capacity, record_capacity;
    int64_t local_duplicates;
    int64_t direct_count; /* samples counted without index */
    bool is_computed;
    bool warns;                       /* of all ranks this one says what is to be said once */
    int64_t computed_by;              /* the compute that `merged` is of; > 0 */
    int computed_size;                /* its ranks */
    struct kolo_sample_counts counts; /* of the last compute */
};

/** Allocates a metric of @p bytes bytes (its struct begins with struct kolo_metric) with @p words
 * words of state. */
kolo_status kolo_metric_create(const struct kolo_metric_ops *ops, size_t bytes, int64_t samples,
                               size_t words, struct kolo_metric **metric_out) KOLO_NODISCARD;
/** Makes @p value a part of the configuration, which metrics that meet must share. */
void kolo_metric_setting(struct kolo_metric *metric, const void *value, size_t bytes);
/** Checks that @p count samples more are no more than KOLO_COUNT_MAX together with those without
 * index.
 */
kolo_status kolo_metric_check_more(const struct kolo_metric *metric, const char *verb,
                                   size_t count) KOLO_NODISCARD;
/** Checks that, and that indices are given exactly where the metric has samples and are in range;
 * makes room for @p count more records of @p bytes bytes together. Adds nothing. */
kolo_status kolo_metric_prepare(struct kolo_metric *metric, size_t count, size_t bytes,
                                const int64_t *indices) KOLO_NODISCARD;
/** Adds one sample that was prepared for: without index (NULL) its record is folded at once; a
 * sample this rank already has is a duplicate and leaves the first in place. */
void kolo_metric_add(struct kolo_metric *metric, const int64_t *index, const void *record,
                     size_t bytes);
/** Counts @p count samples without index, of a kind whose records are folded and which adds them
 * itself to the words that are returned. */
int64_t *kolo_metric_count_direct(struct kolo_metric *metric, size_t count);
/** Record number @p i. */
const void *kolo_metric_record(const struct kolo_metric *metric, size_t i, size_t *bytes_out);

/** ERR_INVALID unless there are the config that a metric is created from, a struct of @p size bytes
 * that begins with its size, and a place for the metric. */
kolo_status kolo_metric_check_config(const char *kind, const void *config, size_t size,
                                     struct kolo_metric **metric_out) KOLO_NODISCARD;
/** ERR_INVALID, naming the config's @p field, unless @p low <= @p value <= @p high. */
kolo_status kolo_metric_check_range(const char *kind, const char *field, int64_t value, int64_t low,
                                    int64_t high) KOLO_NODISCARD;
/** ERR_INVALID, naming @p function, unless @p metric is of this kind. */
kolo_status kolo_metric_check(const struct kolo_metric *metric, const struct kolo_metric_ops *ops,
                              const char *function) KOLO_NODISCARD;
/** The same, and unless it is computed, @p out is there and @p size is @p expected. */
kolo_status kolo_metric_check_result(const struct kolo_metric *metric,
                                     const struct kolo_metric_ops *ops, const char *function,
                                     const void *out, size_t size, size_t expected) KOLO_NODISCARD;

/** Number @p i of some, which have @p bytes bytes each: floats or doubles. */
static inline double kolo_number_at(const void *numbers, size_t bytes, size_t i)
{
    return bytes == sizeof(float) ? (double)((const float *)numbers)[i]
                                  : ((const double *)numbers)[i];
}

/** For accepts_words: all are counts of elements, and so is their sum. */
bool kolo_metric_accepts_counts(const struct kolo_metric *metric, const int64_t *words);

/** @p a * @p b rounded, and in *rest_out what the rounding took: their sum is the product, if none
 * of the two underflows. The one multiply-add that is fused (exact_sum.c, which is not to call it):
 * tests/checks/fused.sh finds all others, which would give another processor other bits. */
double kolo_exact_product(double a, double b, double *rest_out);

/** An exact sum is words of a state: all its fields are int64 and add up once carries are passed
 * on. */
enum { KOLO_EXACT_WORDS = sizeof(struct kolo_exact_sum) / sizeof(int64_t) };
static inline struct kolo_exact_sum *kolo_exact_in(int64_t *words)
{
    return (struct kolo_exact_sum *)(void *)words;
}
/** The exact sum that stands in @p words, to be read: a copy. */
struct kolo_exact_sum kolo_exact_of(const int64_t *words);
/** For accepts_words. */
bool kolo_exact_accepts(const int64_t *words);

/** The status of a step that can fail on one rank alone: all go on, or none. Who failed gets its
 * own status back with its detail, the others that of the lowest rank with the gravest one, and who
 * it is. Collective. compute.c */
kolo_status kolo_metric_agree(struct kolo_comm *comm, kolo_status mine,
                              const struct kolo_opts *opts) KOLO_NODISCARD;

/** A number that is the same for metrics of one kind, size and configuration. */
uint64_t kolo_metric_shape(const struct kolo_metric *metric);
/** ERR_MISMATCH, alike on all ranks, in words: what the lowest rank whose list of metrics is not
 * that of rank 0 has in its place. Collective, of ranks whose lists differ. compute_differ.c */
kolo_status kolo_metrics_differ(struct kolo_comm *comm, struct kolo_metric *const *metrics,
                                size_t count, const struct kolo_opts *opts) KOLO_NODISCARD;

#endif
