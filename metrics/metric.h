// SPDX-License-Identifier: Apache-2.0
// The base of all metrics: a state of int64 words that add up over ranks, the records of indexed
// samples, and the table of functions that defines a kind of metric. Private to metrics/.
//
// A kind is a small file with a create function that says how many words its state has, update
// functions that turn each sample into a record, `fold`, which adds a record to the words, and
// result functions that read the sum of the words of all ranks. Merging, saving, restoring,
// removing duplicates and computing are the same for all kinds and must not know any of them.
#ifndef KOLO_METRICS_METRIC_H
#define KOLO_METRICS_METRIC_H

#include <kolo/metrics.h>

#include "base/status.h"

/** The largest number of samples in a state, whether it was built here or restored from outside.
 *  With this bound, sums of counts and sums over ranks stay in int64. */
static const int64_t KOLO_COUNT_MAX = INT64_C(1) << 40;
/** The same bound for the elements of samples (pixels, tokens). A day's evaluation may have more
 *  of them than KOLO_COUNT_MAX, but no rank has as many as this. */
static const int64_t KOLO_ELEMENT_COUNT_MAX = INT64_C(1) << 50;

struct kolo_reader;
struct kolo_writer;

/** The functions of a kind that keeps its state in a form of its own. */
struct kolo_metric_store {
    /** Returns the number of bytes that write() writes. */
    size_t (*bytes)(const struct kolo_metric *metric);
    void (*write)(const struct kolo_metric *metric, struct kolo_writer *writer);
    /** Reads a state that comes from outside into an empty metric, and checks all of it. */
    kolo_status (*read)(struct kolo_metric *metric, struct kolo_reader *reader);
    /** Makes @p into what it would be if the updates of @p from had been made to it after its
     *  own. On failure @p into is unchanged. */
    kolo_status (*merge)(struct kolo_metric *into, const struct kolo_metric *from);
    void (*clear)(struct kolo_metric *metric);
};

struct kolo_metric_ops {
    const char *name;
    /** Adds the record of one sample to @p words. NULL: no update makes records. */
    void (*fold)(const struct kolo_metric *metric, int64_t *words, const void *record,
                 size_t bytes);
    /** Prepares @p words for being added to those of up to 2^31 ranks, without changing their
     *  meaning: exact sums propagate their carries. NULL: words always can be added. */
    void (*carry)(const struct kolo_metric *metric, int64_t *words);
    /** Finishes the words of all ranks; the same on every rank. Returns ERR_DATA if a policy of
     *  the config says so. NULL: nothing is left to do. */
    kolo_status (*finish)(struct kolo_metric *metric);
    /** Whether updates could have led to these words, which come from outside. The other
     *  functions must not overflow with any words that it accepts. NULL: the kind has no words. */
    bool (*accepts_words)(const struct kolo_metric *metric, const int64_t *words);
    /** The same for a record. NULL: none is accepted. */
    bool (*accepts_record)(const struct kolo_metric *metric, const void *record, size_t bytes);
    /** For kinds whose records are not folded but sorted over all ranks. Collective, with the
     *  same number of collectives on every rank. @p chosen has the numbers of the records that
     *  this rank counts. Adds to @p words what the sum over ranks then merges. NULL: records are
     *  folded. */
    kolo_status (*exchange)(struct kolo_metric *metric, struct kolo_comm *comm,
                            const size_t *chosen, size_t count, int64_t *words,
                            const struct kolo_opts *opts);
    /** Frees what a kind owns besides its struct. NULL: nothing. */
    void (*destroy)(struct kolo_metric *metric);
    /** State that updates keep besides words and records. NULL: none. */
    const struct kolo_metric_store *store;
};

/** The first field of every metric. */
struct kolo_metric {
    const struct kolo_metric_ops *ops;
    int64_t samples;   /* of the data set; 0: samples have no indices */
    uint64_t settings; /* fingerprint of the configuration; equal if metrics may be merged */
    size_t words;      /* int64 words of the state */
    int64_t *direct;   /* words of the samples without index */
    int64_t *merged;   /* words of all ranks, from the last compute */
    uint64_t *seen;    /* a bit per sample: whether this rank has a record of it */
    int64_t *indices;  /* per record; -1: none */
    size_t *ends;      /* per record, its end in `records`; it begins at the previous end */
    uint8_t *records;
    size_t record_count, index_capacity, end_capacity, record_capacity;
    int64_t local_duplicates;
    int64_t direct_count; /* samples counted without index */
    bool is_computed;
    bool warns;                       /* this is the one rank that logs warnings of the compute */
    int64_t computed_by;              /* identifies the compute that `merged` is from; > 0 */
    int computed_size;                /* number of ranks of that compute */
    struct kolo_sample_counts counts; /* of the last compute */
};

/** Allocates a metric of @p bytes bytes, whose struct begins with struct kolo_metric, with @p
 *  words words of state. */
kolo_status kolo_metric_create(const struct kolo_metric_ops *ops, size_t bytes, int64_t samples,
                               size_t words, struct kolo_metric **metric_out) KOLO_NODISCARD;
/** Adds @p value to the fingerprint of the configuration, which must be equal on all ranks of a
 *  compute, for metrics that are merged, and for a state that is restored. */
void kolo_metric_setting(struct kolo_metric *metric, const void *value, size_t bytes);
/** Checks that the samples without index and @p count more are at most KOLO_COUNT_MAX together. */
kolo_status kolo_metric_check_more(const char *function, const struct kolo_metric *metric,
                                   size_t count) KOLO_NODISCARD;
/** Checks the same, and that indices are passed if and only if the metric has samples and that
 *  they are in range; makes room for @p count more records of @p bytes bytes in total. Adds
 *  nothing. @param function  the public one, for messages */
kolo_status kolo_metric_prepare(const char *function, struct kolo_metric *metric, size_t count,
                                size_t bytes, const int64_t *indices) KOLO_NODISCARD;
/** Adds one sample for which kolo_metric_prepare() made room. Without an index (NULL) its record
 *  is folded at once, or kept if the kind exchanges records. A sample that this rank already has
 *  counts as a duplicate, and the first record stays. */
void kolo_metric_add(struct kolo_metric *metric, const int64_t *index, const void *record,
                     size_t bytes);
/** Counts @p count samples without index, and returns the words to which the kind then adds them
 *  itself. For kinds whose records are folded. */
int64_t *kolo_metric_count_direct(struct kolo_metric *metric, size_t count);
/** Returns record number @p i. */
const void *kolo_metric_record(const struct kolo_metric *metric, size_t i, size_t *bytes_out);

/** Returns ERR_INVALID if @p config or @p metric_out is NULL, or if the config, a struct that
 *  begins with its size, has another size than @p size. */
kolo_status kolo_metric_check_config(const char *kind, const void *config, size_t size,
                                     struct kolo_metric **metric_out) KOLO_NODISCARD;
/** Returns ERR_INVALID, naming @p field of the config, unless @p low <= @p value <= @p high. */
kolo_status kolo_metric_check_range(const char *kind, const char *field, int64_t value, int64_t low,
                                    int64_t high) KOLO_NODISCARD;
/** Returns ERR_INVALID, naming @p function, unless @p metric is of the kind of @p ops. */
kolo_status kolo_metric_check(const struct kolo_metric *metric, const struct kolo_metric_ops *ops,
                              const char *function) KOLO_NODISCARD;
/** Returns ERR_INVALID in the same case, and if the metric is not computed or @p out, which is
 *  called @p what, is NULL. */
kolo_status kolo_metric_check_result(const struct kolo_metric *metric,
                                     const struct kolo_metric_ops *ops, const char *function,
                                     const char *what, const void *out) KOLO_NODISCARD;
/** The same, and if the struct @p result_out, which has the name of the function and begins with
 *  its size, has another size than @p size. */
kolo_status kolo_metric_check_struct(const struct kolo_metric *metric,
                                     const struct kolo_metric_ops *ops, const char *function,
                                     const void *result_out, size_t size) KOLO_NODISCARD;
/** Fails because element @p i of the array @p what is not a class from 0 to @p last. */
kolo_status kolo_metric_refuse_class(const char *function, const char *what, size_t i,
                                     int64_t value, int64_t last,
                                     bool has_ignore_index) KOLO_NODISCARD;

/** Returns element @p i of an array of floats or doubles, which have @p bytes bytes each. */
static inline double kolo_number_at(const void *numbers, size_t bytes, size_t i)
{
    return bytes == sizeof(float) ? (double)((const float *)numbers)[i]
                                  : ((const double *)numbers)[i];
}

/** For accepts_words: whether all words, and their sum, are in 0..KOLO_ELEMENT_COUNT_MAX. */
bool kolo_metric_accepts_counts(const struct kolo_metric *metric, const int64_t *words);

/** Returns @p a * @p b rounded, and stores the rounding error in *rest_out: their sum is the exact
 * product, unless one of them underflows. This (exact_sum.c) is the only fused multiply-add;
 * tests/checks/fused.sh finds any other, which would give other bits on another processor. */
double kolo_exact_product(double a, double b, double *rest_out);

/** An exact sum can be part of a state's words: all its fields are int64, and they add up once
 *  carries are propagated. */
enum { KOLO_EXACT_WORDS = sizeof(struct kolo_exact_sum) / sizeof(int64_t) };
static inline struct kolo_exact_sum *kolo_exact_in(int64_t *words)
{
    return (struct kolo_exact_sum *)(void *)words;
}
/** Returns a copy of the exact sum in @p words, for reading. */
struct kolo_exact_sum kolo_exact_of(const int64_t *words);
/** For accepts_words: whether @p words are an exact sum that can be added to others. */
bool kolo_exact_accepts(const int64_t *words);

/** Agrees on the status of a step that can fail on single ranks, so that either all ranks go on
 *  or none. A rank that failed gets its own status and detail back. The others get the gravest
 *  status, and a detail that names the lowest rank that had it. Collective. In compute.c. */
kolo_status kolo_metric_agree(struct kolo_comm *comm, kolo_status mine,
                              const struct kolo_opts *opts) KOLO_NODISCARD;

/** Returns a number that is the same for metrics of the same kind, size and configuration. */
uint64_t kolo_metric_shape(const struct kolo_metric *metric);
/** Returns ERR_MISMATCH on all ranks, with a detail that says where the list of metrics of the
 *  lowest rank that differs from rank 0 does so, and what both have there. Collective, for ranks
 *  whose lists differ. In compute_differ.c. */
kolo_status kolo_metrics_differ(struct kolo_comm *comm, struct kolo_metric *const *metrics,
                                size_t count, const struct kolo_opts *opts) KOLO_NODISCARD;

#endif
