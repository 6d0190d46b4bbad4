// SPDX-License-Identifier: Apache-2.0
/** Exact distributed evaluation: a sampler that says which samples a rank takes, sums that do not
 *  depend on order, mean loss and top-k accuracy that are the same to the last bit at any number of
 *  ranks.
 *
 *  A metric is created, updated with this rank's batches (no communication), and computed by all
 *  ranks together:
 *
 *      const struct kolo_mean_config config = {.size = sizeof config, .samples = n};
 *      kolo_mean_create(&config, &loss);
 *      for (each batch)
 *          kolo_mean_update_float32(loss, losses, batch, indices);
 *      kolo_metrics_compute(comm, (struct kolo_metric *[]){loss, accuracy}, 2, NULL);
 *      kolo_mean_result(loss, &result);
 *
 *  The state is int64 counts and an exact integer sum (and, where sample indices are given, one
 *  record per sample); division happens once, last, in double. A rank without data takes part like
 *  the others. A sample that several ranks hold, as a padding sampler deals out, counts once: on
 *  the lowest rank that has it, by its first update there.
 *
 *  Arrays of an update may be in the memory of a CUDA device, managed memory too, each on its own:
 *  nothing is to be said, and the results have the same bits. Such an array is copied to the host
 *  for the update, once all work that its context was given before, on any stream, is done: the
 *  call waits for that, for each array until KOLO_TIMEOUT of the environment has passed
 *  (KOLO_ERR_TIMEOUT), and is refused while a stream of that context is captured into a graph
 *  (KOLO_ERR_UNSUPPORTED; CUDA ends the capture). (Pinned memory is the host's: the program itself
 *  waits until it is written.) It takes a process that uses CUDA, and a library that was not built
 *  with KOLO_CUDA=OFF, to which such a pointer is as good as a wild one.
 *
 *  Threads: a metric is used by one thread at a time.
 *  Ownership: what is passed in is read before the call returns.
 *  Statuses: an update whose array cannot be copied is ERR_SYSTEM (ERR_NO_MEMORY where that is the
 *  cause), with the array, the driver's call and result, and the device; nothing is added.
 */
#ifndef KOLO_METRICS_H
#define KOLO_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

KOLO_BEGIN_DECLS

/* ---- sampler --------------------------------------------------------------------------------- */

/** What to do when the number of samples is not a multiple of the number of ranks. */
typedef enum kolo_sampler_tail {
    KOLO_SAMPLER_PAD, /**< repeat leading indices: all ranks have equally many (torch's default) */
    KOLO_SAMPLER_DROP_LAST, /**< leave out the tail */
    KOLO_SAMPLER_UNPADDED,  /**< every sample exactly once; ranks differ by at most one */
} kolo_sampler_tail;

struct kolo_sampler_config {
    size_t size;     /**< sizeof(struct kolo_sampler_config) */
    int64_t samples; /**< in the data set, 0 to 2^31 - 1 */
    int rank, nranks;
    bool shuffle;  /**< by seed + epoch; false: ascending order */
    uint64_t seed; /**< equal on all ranks */
    kolo_sampler_tail tail;
};

struct kolo_sampler;

/** Deals out sample indices as torch.utils.data.DistributedSampler does: the permutation of
 *  torch.randperm(samples, generator seeded with seed + epoch), padded or cut, then every nranks-th
 *  from rank on. The indices are the same as torch's for the same seed and epoch. Epoch 0 is set.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_sampler_create(const struct kolo_sampler_config *config,
                                                        struct kolo_sampler **sampler_out);
/** Deals again, for another epoch.
 *  @return KOLO_OK; ERR_INVALID (negative). */
KOLO_API KOLO_NODISCARD kolo_status kolo_sampler_set_epoch(struct kolo_sampler *sampler,
                                                           int64_t epoch);
/** How many indices this rank has in an epoch; 0 of NULL. */
KOLO_API int64_t kolo_sampler_count(const struct kolo_sampler *sampler);
/** This rank's indices, kolo_sampler_count() of them; valid until set_epoch or destroy. NULL of
 *  NULL. */
KOLO_API const int64_t *kolo_sampler_indices(const struct kolo_sampler *sampler);
/** NULL is fine. */
KOLO_API void kolo_sampler_destroy(struct kolo_sampler *sampler);

/* ---- exact sums ------------------------------------------------------------------------------ */

enum { KOLO_EXACT_SUM_LIMBS = 68 };

/** A sum of doubles without rounding: a fixed-point integer of 68 limbs of 32 bits (with room for
 *  carries), wide enough for every finite double, after Collange, Defour, Graillat, Iakymchuk,
 *  "Numerical reproducibility for the parallel reduction" (2015). Two sums merge by adding limbs,
 *  so an int64 sum-allreduce merges those of all ranks. The value is the correctly rounded sum,
 *  whatever the order. */
struct kolo_exact_sum {
    int64_t limbs[KOLO_EXACT_SUM_LIMBS];
    int64_t nans, plus_infinities, minus_infinities; /**< counted, not added */
    int64_t since_carry; /**< additions since carries were last passed on */
};

/** Makes @p sum zero. */
KOLO_API void kolo_exact_sum_init(struct kolo_exact_sum *sum);
/** Adds a value; NaN and infinities are counted beside the sum. */
KOLO_API void kolo_exact_sum_add(struct kolo_exact_sum *sum, double value);
/** Adds @p count values, as kolo_exact_sum_add() each of them. */
KOLO_API void kolo_exact_sum_add_float32(struct kolo_exact_sum *sum, const float *values,
                                         size_t count);
/** sum += other. @p other has its carries passed on, its value stays. */
KOLO_API void kolo_exact_sum_merge(struct kolo_exact_sum *sum, struct kolo_exact_sum *other);
/** Passes on carries, so that every limb but the last lies in [0, 2^32): after it up to 2^31 sums
 *  can be added limb by limb. */
KOLO_API void kolo_exact_sum_carry(struct kolo_exact_sum *sum);
/** The sum of the finite values, rounded once to nearest even; +-infinity where it overflows. */
KOLO_API double kolo_exact_sum_value(struct kolo_exact_sum *sum);

/* ---- metrics --------------------------------------------------------------------------------- */

struct kolo_metric;

/** What to do with NaN and infinities among the values of a mean. They are said in the result in
 *  any case. */
typedef enum kolo_nonfinite {
    KOLO_NONFINITE_ERROR,     /**< computing fails with ERR_DATA, on all ranks alike */
    KOLO_NONFINITE_SKIP,      /**< leave them out of sum and count */
    KOLO_NONFINITE_PROPAGATE, /**< as IEEE 754 adds: NaN, or an infinity if all are of one sign */
    KOLO_NONFINITE_WARN,      /**< SKIP, and a line of the log, on rank 0, when it is computed */
    KOLO_NONFINITE_IMPUTE,    /**< each counts as the config's `imputed` */
} kolo_nonfinite;

struct kolo_mean_config {
    size_t size;     /**< sizeof(struct kolo_mean_config) */
    int64_t samples; /**< in the data set, where updates give sample indices; 0: they do not */
    kolo_nonfinite nonfinite;
    double imputed; /**< KOLO_NONFINITE_IMPUTE: finite */
    /** Each rank adds up in double (an update without indices in eight sums), and the ranks' sums
     *  are added exactly: all ranks still have the same bits, but the last ones depend on how
     *  values are divided among ranks and updates. */
    bool fast;
};

/** The mean of one value per sample, such as the loss: the exact sum over all samples, rounded
 *  once, divided once by their number. Never a mean of means.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_create(const struct kolo_mean_config *config,
                                                     struct kolo_metric **metric_out);
/** Adds @p count values. @p indices: the global index of each sample (0 <= index < samples) where
 *  the metric has samples; NULL where it has none. Nothing is added on failure.
 *  @return KOLO_OK; ERR_INVALID (an index, named); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_float32(struct kolo_metric *metric,
                                                             const float *values, size_t count,
                                                             const int64_t *indices);
/** The same for values of float64. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_float64(struct kolo_metric *metric,
                                                             const double *values, size_t count,
                                                             const int64_t *indices);

/** Adds @p count values of which only the mean is known, as of a batch whose losses were averaged:
 *  mean * count is added without rounding. Not of metrics that have samples.
 *  @return KOLO_OK; ERR_INVALID (a count out of 0..2^40, alone or with what is there, a product
 *  that no double holds, a metric with samples; nothing is added). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_batch(struct kolo_metric *metric, double mean,
                                                           int64_t count);

/** How samples were counted. */
struct kolo_sample_counts {
    int64_t counted;    /**< samples that count, each once */
    int64_t duplicates; /**< updates beyond the first of a sample */
    int64_t missing;    /**< samples that no rank had; 0 where the metric has no samples */
};

struct kolo_mean_result {
    size_t size; /**< set to sizeof(struct kolo_mean_result) by the caller */
    double mean; /**< NaN where nothing was counted */
    double sum;
    struct kolo_sample_counts samples;
    int64_t nans, plus_infinities, minus_infinities;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a mean, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_result(const struct kolo_metric *metric,
                                                     struct kolo_mean_result *result_out);

/** Which of several classes with the same score ranks first. */
typedef enum kolo_ties {
    KOLO_TIES_LOWEST,      /**< the lowest class index, as argmax does */
    KOLO_TIES_HIGHEST,     /**< the highest class index */
    KOLO_TIES_OPTIMISTIC,  /**< the label */
    KOLO_TIES_PESSIMISTIC, /**< any class but the label */
} kolo_ties;

enum { KOLO_TOP_K_MAX = 16 };

struct kolo_accuracy_config {
    size_t size;           /**< sizeof(struct kolo_accuracy_config) */
    int64_t samples;       /**< as in kolo_mean_config */
    int64_t classes;       /**< at least 1 */
    int k[KOLO_TOP_K_MAX]; /**< the k of top-k, each at least 1; ends at the first 0; none: {1} */
    kolo_ties ties;
    bool ignores; /**< samples with label ignore_index are left out and counted as ignored */
    int64_t ignore_index; /**< any number, a class or not */
};

/** Top-k accuracy, for several k at once: a sample is correct if fewer than k classes rank before
 *  its label. With the scores s and label t, class j ranks before t if s[j] > s[t], or s[j] == s[t]
 *  and the tie rule says so. A NaN score ranks before every number (as argmax takes it) and ties
 *  with other NaNs; samples with one are counted.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_create(const struct kolo_accuracy_config *config,
                                                         struct kolo_metric **metric_out);
/** Adds @p count samples: scores[i * classes + j] is sample i's score of class j, labels[i] its
 *  class.
 *  @return KOLO_OK; ERR_INVALID (a label or index out of range, named; nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_update(struct kolo_metric *metric,
                                                         const float *scores, const int64_t *labels,
                                                         size_t count, const int64_t *indices);

struct kolo_accuracy_result {
    size_t size; /**< set to sizeof(struct kolo_accuracy_result) by the caller */
    int ks;      /**< how many k */
    int k[KOLO_TOP_K_MAX];
    int64_t correct[KOLO_TOP_K_MAX];
    double accuracy[KOLO_TOP_K_MAX]; /**< correct / counted; NaN where nothing was counted */
    struct kolo_sample_counts samples;
    int64_t nan_samples; /**< samples with a NaN score */
    int64_t ignored;     /**< samples left out by ignore_index; not in samples.counted */
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not an accuracy, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_result(const struct kolo_metric *metric,
                                                         struct kolo_accuracy_result *result_out);

/* ---- what every metric can ------------------------------------------------------------------- */

/** Computes several metrics over all ranks; collective: all ranks pass metrics of the same kinds
 *  and configurations in the same order. Their number is fixed by those configurations and by how
 *  many ranks there are, whatever each of them holds: one int64 allreduce to agree, one for all
 *  together, and, for each that has samples, one more per 2^20 samples to settle which rank counts
 *  which; an exact curve (AUROC, average precision) takes six more of its own to sort its records,
 *  and a detection (detection.h) 55 (19 on one rank; one more by PASCAL VOC's rules, on several
 *  ranks). If no metric was updated on any rank since these very ranks computed it last, the
 *  results are still there and only the first allreduce is made. The results are the same on all
 *  ranks; the state stays, and more updates may follow. A failure of one rank (no memory, or a
 *  metric that is NULL) is one of all, which names it, and so is a list that is not that of rank 0.
 *  @return KOLO_OK; ERR_DATA (non-finite values under KOLO_NONFINITE_ERROR); ERR_INVALID;
 *  ERR_MISMATCH (different lists); ERR_NO_MEMORY; and those of kolo_allreduce(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metrics_compute(struct kolo_comm *comm,
                                                         struct kolo_metric *const *metrics,
                                                         size_t count,
                                                         const struct kolo_opts *opts);
/** into += from, on this rank: as if all updates of @p from had been made to @p into, after its
 *  own (so a sample that both have counts as @p into has it, and as one more duplicate). The two
 *  were created with the same configuration. What @p from counts stays.
 *  @return KOLO_OK; ERR_INVALID (different kinds or configurations; more than 2^40 samples, or
 *  than 2^50 elements that they consist of); ERR_NO_MEMORY. On failure nothing is added. */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_merge(struct kolo_metric *into,
                                                      struct kolo_metric *from);
/** Writes this rank's state (what updates made of it, not the results) as bytes that
 *  kolo_metric_restore() reads on any machine: a version, the kind and a fingerprint of the
 *  configuration, the counts and records, a SHA-256 over it all. With @p buffer NULL only says how
 *  many bytes it takes now.
 *  @return KOLO_OK; ERR_INVALID (@p capacity is too small). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_save(struct kolo_metric *metric, void *buffer,
                                                     size_t capacity, size_t *bytes_out);
/** Replaces the state by a saved one, of a metric that was created with the same configuration.
 *  Trusts nothing in @p data.
 *  @return KOLO_OK; ERR_DATA (cut short, changed, of another version, kind or configuration, or
 *  with contents that no updates lead to: the detail says which; the state is as before, or, where
 *  the checksum was right, empty); ERR_INVALID (NULL); ERR_NO_MEMORY (then it is empty). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_restore(struct kolo_metric *metric,
                                                        const void *data, size_t bytes);
/** Forgets all updates and results. */
KOLO_API void kolo_metric_reset(struct kolo_metric *metric);
/** NULL is fine. */
KOLO_API void kolo_metric_destroy(struct kolo_metric *metric);

KOLO_END_DECLS
#endif
