// SPDX-License-Identifier: Apache-2.0
/** Exact distributed evaluation: a sampler that says which samples a rank takes, sums that do not
 *  depend on the order of addition, and mean loss and top-k accuracy that are the same to the last
 *  bit for any number of ranks. <kolo/classification.h>, <kolo/regression.h> and <kolo/detection.h>
 *  have further metrics.
 *
 *  Each rank creates a metric and updates it with its own batches (no communication); then all
 *  ranks compute it together:
 *
 *      const struct kolo_mean_config config = {.size = sizeof config, .samples = n};
 *      kolo_mean_create(&config, &loss);
 *      for (each batch)
 *          kolo_mean_update_float32(loss, losses, batch, indices);
 *      kolo_metrics_compute(comm, (struct kolo_metric *[]){loss, accuracy}, 2, NULL);
 *      kolo_mean_result(loss, &result);
 *
 *  The state of a metric is int64 counts and an exact integer sum, and one record per sample if
 *  sample indices are given. Division happens once, at the end, in double. A rank without data
 *  takes part like the others. A sample that several ranks hold, because a sampler padded their
 *  shares, counts once: on the lowest rank that has it, by its first update there.
 *
 *  CUDA: each array of an update may be in host memory, device memory or managed memory; the
 *  library recognises it, and the results have the same bits. A device array is copied to the host
 *  for the update, after all earlier work of its context, on any stream. The call waits for that
 *  work for at most KOLO_TIMEOUT of the environment per array (KOLO_ERR_TIMEOUT), and is refused
 *  while a stream of that context is captured into a graph (KOLO_ERR_UNSUPPORTED; CUDA ends the
 *  capture). Pinned memory is host memory: the program itself must wait until it is written. A
 *  library built with KOLO_CUDA=OFF takes every pointer for host memory.
 *
 *  Floating point: an update or a result is computed in the mode of the calling thread, which must
 *  be that with which programs begin (to nearest, with subnormal numbers) if the last bits matter.
 *  A library that was linked with -ffast-math changes it when it is loaded. The reductions of
 *  <kolo/kolo.h> do not depend on it.
 *
 *  C++: the struct of a result has the name of the function that returns it, like struct stat. So
 *  write `struct kolo_mean_result result{};` there too: without the word struct, the name is the
 *  function.
 *
 *  Threads: a metric, a sampler or a sum may be used by only one thread at a time; different ones
 *  by different threads.
 *  Ownership: what is passed in is read before the call returns.
 *  Statuses: if a device array cannot be copied, an update adds nothing and returns ERR_TIMEOUT or
 *  ERR_UNSUPPORTED (see CUDA above), ERR_NO_MEMORY if that is the cause, else ERR_SYSTEM; the
 *  detail names the array, the driver's call and result, and the device.
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
    KOLO_SAMPLER_PAD,       /**< repeat leading indices, so that all ranks have the same number
                                   (torch's default) */
    KOLO_SAMPLER_DROP_LAST, /**< leave out the tail */
    KOLO_SAMPLER_UNPADDED,  /**< every sample exactly once; numbers differ by at most one */
} kolo_sampler_tail;

struct kolo_sampler_config {
    size_t size;      /**< sizeof(struct kolo_sampler_config) */
    int64_t samples;  /**< in the data set, 0 to 2^31 - 1 */
    int rank, nranks; /**< 0 <= rank < nranks: kolo_rank() and kolo_size() */
    bool shuffle;     /**< by seed + epoch; false: ascending order */
    uint64_t seed;    /**< equal on all ranks */
    kolo_sampler_tail tail;
};

struct kolo_sampler;

/** Distributes sample indices over ranks as torch.utils.data.DistributedSampler does: it takes the
 *  permutation of torch.randperm(samples, generator seeded with seed + epoch), pads or cuts it, and
 *  gives each rank every nranks-th index, starting at its rank. The indices are the same as torch's
 *  for the same seed and epoch. The sampler begins with epoch 0.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY.
 *  Ownership: *sampler_out is the caller's until kolo_sampler_destroy(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_sampler_create(const struct kolo_sampler_config *config,
                                                        struct kolo_sampler **sampler_out);
/** Distributes the indices again, for another epoch.
 *  @return KOLO_OK; ERR_INVALID (@p epoch is negative). */
KOLO_API KOLO_NODISCARD kolo_status kolo_sampler_set_epoch(struct kolo_sampler *sampler,
                                                           int64_t epoch);
/** The number of indices that this rank has in an epoch; 0 for NULL. */
KOLO_API int64_t kolo_sampler_count(const struct kolo_sampler *sampler);
/** This rank's indices, kolo_sampler_count() of them, valid until kolo_sampler_set_epoch() or
 *  kolo_sampler_destroy(). NULL for NULL. */
KOLO_API const int64_t *kolo_sampler_indices(const struct kolo_sampler *sampler);
/** Frees a sampler. NULL is allowed. */
KOLO_API void kolo_sampler_destroy(struct kolo_sampler *sampler);

/* ---- exact sums ------------------------------------------------------------------------------ */

enum { KOLO_EXACT_SUM_LIMBS = 68 };

/** A sum of doubles without rounding: a fixed-point integer of 68 limbs of 32 bits (with room for
 *  carries), wide enough for every finite double, after Collange, Defour, Graillat, Iakymchuk,
 *  "Numerical reproducibility for the parallel reduction" (2015). Adding the limbs of two sums
 *  merges them, so an int64 sum-allreduce merges those of all ranks. The value is the correctly
 *  rounded sum, in whatever order values were added. */
struct kolo_exact_sum {
    int64_t limbs[KOLO_EXACT_SUM_LIMBS];
    int64_t nans, plus_infinities, minus_infinities; /**< counted, not added */
    int64_t since_carry; /**< additions since carries were last propagated */
};

/** Sets @p sum to zero. */
KOLO_API void kolo_exact_sum_init(struct kolo_exact_sum *sum);
/** Adds a value. NaNs and infinities are counted separately. */
KOLO_API void kolo_exact_sum_add(struct kolo_exact_sum *sum, double value);
/** Adds @p count values, as kolo_exact_sum_add() each of them. */
KOLO_API void kolo_exact_sum_add_float32(struct kolo_exact_sum *sum, const float *values,
                                         size_t count);
/** sum += other. Carries in @p other are propagated; its value does not change. */
KOLO_API void kolo_exact_sum_merge(struct kolo_exact_sum *sum, struct kolo_exact_sum *other);
/** Propagates carries, so that every limb but the last is in [0, 2^32). After that up to 2^31 sums
 *  can be added limb by limb. */
KOLO_API void kolo_exact_sum_carry(struct kolo_exact_sum *sum);
/** The sum of the finite values, rounded once to nearest even; +-infinity if it overflows. */
KOLO_API double kolo_exact_sum_value(struct kolo_exact_sum *sum);

/* ---- metrics --------------------------------------------------------------------------------- */

struct kolo_metric;

/** What to do with NaNs and infinities among the values of a mean. The result reports their number
 *  in any case. */
typedef enum kolo_nonfinite {
    KOLO_NONFINITE_ERROR,     /**< computing fails with ERR_DATA on all ranks */
    KOLO_NONFINITE_SKIP,      /**< leave them out of sum and count */
    KOLO_NONFINITE_PROPAGATE, /**< as IEEE 754 adds: NaN, or infinity if all have one sign */
    KOLO_NONFINITE_WARN,      /**< as SKIP, and rank 0 logs a warning when it is computed */
    KOLO_NONFINITE_IMPUTE,    /**< use the config's `imputed` in place of each */
} kolo_nonfinite;

struct kolo_mean_config {
    size_t size; /**< sizeof(struct kolo_mean_config) */
    /** The number of samples in the data set, if updates pass sample indices, so that a sample that
     *  is passed twice counts once; 0 if updates pass none. */
    int64_t samples;
    kolo_nonfinite nonfinite;
    double imputed; /**< KOLO_NONFINITE_IMPUTE: a finite value */
    /** Each rank adds up in double (in eight partial sums in an update without indices), and only
     *  the ranks' sums are added exactly. All ranks still have the same bits, but the last bits
     *  depend on how values are distributed over ranks and updates. */
    bool fast;
};

/** Creates a metric of the mean of one value per sample, such as the loss: the exact sum over all
 *  samples, rounded once, divided once by their number. It is not a mean of per-rank means.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY.
 *  Ownership: *metric_out is the caller's until kolo_metric_destroy(), as for every kind. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_create(const struct kolo_mean_config *config,
                                                     struct kolo_metric **metric_out);
/** Adds @p count values. @p indices: if the config has `samples`, the global index of each sample
 *  (0 <= index < samples); else NULL. Nothing is added on failure.
 *  @return KOLO_OK; ERR_INVALID (an index is out of range, and named); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_float32(struct kolo_metric *metric,
                                                             const float *values, size_t count,
                                                             const int64_t *indices);
/** The same for values in float64. */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_float64(struct kolo_metric *metric,
                                                             const double *values, size_t count,
                                                             const int64_t *indices);

/** Adds @p count values of which only the mean is known, such as the losses of a batch that were
 *  already averaged: mean * count is added without rounding. Only for metrics without `samples`.
 *  @return KOLO_OK; ERR_INVALID (the count, or the total, is not in 0..2^40; the product overflows
 *  a double; the metric has `samples`; nothing is added). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_update_batch(struct kolo_metric *metric, double mean,
                                                           int64_t count);

/** How samples were counted. */
struct kolo_sample_counts {
    int64_t counted;    /**< samples that count, each once */
    int64_t duplicates; /**< updates beyond the first of each sample */
    int64_t missing;    /**< samples that no rank had; 0 for a metric without `samples` */
};

struct kolo_mean_result {
    size_t size; /**< set to sizeof(struct kolo_mean_result) by the caller */
    double mean; /**< NaN if nothing was counted */
    double sum;
    struct kolo_sample_counts samples;
    int64_t nans, plus_infinities, minus_infinities;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a mean, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_mean_result(const struct kolo_metric *metric,
                                                     struct kolo_mean_result *result_out);

/** Which of several classes with equal scores ranks first. */
typedef enum kolo_ties {
    KOLO_TIES_LOWEST,      /**< the lowest class index, as in argmax */
    KOLO_TIES_HIGHEST,     /**< the highest class index */
    KOLO_TIES_OPTIMISTIC,  /**< the label */
    KOLO_TIES_PESSIMISTIC, /**< every class but the label */
} kolo_ties;

enum { KOLO_TOP_K_MAX = 16 };

struct kolo_accuracy_config {
    size_t size;     /**< sizeof(struct kolo_accuracy_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t classes; /**< at least 1 */
    /** The k of top-k, each from 1 to classes, up to the first 0; all 0: {1}. */
    int k[KOLO_TOP_K_MAX];
    kolo_ties ties;
    bool ignores; /**< leave out samples with label ignore_index, and count them as ignored */
    int64_t ignore_index; /**< any number, whether or not it is a class */
};

/** Creates a metric of top-k accuracy, for several k at once. A sample is correct if fewer than k
 *  classes rank before its label. With scores s and label t, class j ranks before t if s[j] > s[t],
 *  or if s[j] == s[t] and the tie rule says so. A NaN score ranks before every number (as in
 *  argmax) and ties with other NaNs; the result has the number of samples with one.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_create(const struct kolo_accuracy_config *config,
                                                         struct kolo_metric **metric_out);
/** Adds @p count samples: scores[i * classes + j] is the score of sample i for class j, labels[i]
 *  its class. @p indices: as for kolo_mean_update_float32().
 *  @return KOLO_OK; ERR_INVALID (a label or an index is out of range, and named; nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_update(struct kolo_metric *metric,
                                                         const float *scores, const int64_t *labels,
                                                         size_t count, const int64_t *indices);

struct kolo_accuracy_result {
    size_t size; /**< set to sizeof(struct kolo_accuracy_result) by the caller */
    int ks;      /**< the number of k; the arrays have as many entries */
    int k[KOLO_TOP_K_MAX];
    int64_t correct[KOLO_TOP_K_MAX];
    double accuracy[KOLO_TOP_K_MAX]; /**< correct / counted; NaN if nothing was counted */
    struct kolo_sample_counts samples;
    int64_t nan_samples; /**< samples with a NaN score */
    int64_t ignored;     /**< samples left out by ignore_index; not in samples.counted */
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not an accuracy, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_accuracy_result(const struct kolo_metric *metric,
                                                         struct kolo_accuracy_result *result_out);

/* ---- functions of all metrics ---------------------------------------------------------------- */

/** Computes @p count metrics over all ranks. Collective: all ranks must pass metrics of the same
 *  kinds and configurations in the same order. The results are the same on all ranks. The state
 *  stays, and more updates may follow. If one rank fails (no memory, or a metric that is NULL), or
 *  its list differs from that of rank 0, all ranks fail, and the detail names that rank.
 *
 *  The number of collective calls depends only on the configurations and on the number of ranks:
 *  one int64 allreduce to agree, and one for all metrics together; for each metric with `samples`,
 *  one more per 2^20 samples, to decide which rank counts which sample; six more for each exact
 *  curve (AUROC, average precision), to sort its records; and 55 for each detection (detection.h;
 *  19 on one rank; one more by PASCAL VOC's rules on several ranks). If no metric was updated on
 *  any rank since the same ranks computed it last, the results are kept, and only the first
 *  allreduce is made.
 *  @param opts  as for kolo_allreduce(), but without factors; a deadline is that of each call
 *  @return KOLO_OK; ERR_DATA (non-finite values under KOLO_NONFINITE_ERROR; the detail has the
 *  index of the first such metric, and all others have their results); ERR_INVALID;
 *  ERR_MISMATCH (different lists: the ranks found out by calls that succeeded, so the communicator
 *  stays usable); ERR_NO_MEMORY (on all ranks; the communicator stays usable, unless a rank lacked
 *  memory for an exchange with the others); else as kolo_allreduce(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metrics_compute(struct kolo_comm *comm,
                                                         struct kolo_metric *const *metrics,
                                                         size_t count,
                                                         const struct kolo_opts *opts);
/** Adds @p from to @p into, on this rank: as if all updates of @p from had been made to @p into,
 *  after its own. So a sample that both have counts as in @p into, and as one more duplicate. Both
 *  must have been created with the same configuration. @p from keeps its counts.
 *  @return KOLO_OK; ERR_INVALID (different kinds or configurations; more than 2^40 samples, or more
 *  than 2^50 elements in them); ERR_NO_MEMORY. On failure nothing is added. */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_merge(struct kolo_metric *into,
                                                      struct kolo_metric *from);
/** Saves this rank's state (the updates, not the results) as bytes that kolo_metric_restore() reads
 *  on any machine: a version, the kind, a fingerprint of the configuration, the counts and records,
 *  and a SHA-256 of all that.
 *  @param buffer NULL: only asks for the size
 *  @param capacity the size of @p buffer in bytes
 *  @param bytes_out the size of the state in bytes
 *  @return KOLO_OK; ERR_INVALID (@p capacity is too small); ERR_SYSTEM (the library that computes
 *  SHA-256 refuses it). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_save(struct kolo_metric *metric, void *buffer,
                                                     size_t capacity, size_t *bytes_out);
/** Replaces the state by a saved one, of a metric that was created with the same configuration.
 *  Nothing in @p data is trusted.
 *  @return KOLO_OK; ERR_DATA (@p data is truncated, changed, of another version, kind or
 *  configuration, or has contents that no updates can produce: the detail says which; the state is
 *  as before, or empty if the checksum was right); ERR_INVALID (NULL); ERR_NO_MEMORY (the state is
 *  then empty); ERR_SYSTEM (as kolo_metric_save()). */
KOLO_API KOLO_NODISCARD kolo_status kolo_metric_restore(struct kolo_metric *metric,
                                                        const void *data, size_t bytes);
/** Discards all updates and results; the configuration stays. */
KOLO_API void kolo_metric_reset(struct kolo_metric *metric);
/** Frees a metric. NULL is allowed. */
KOLO_API void kolo_metric_destroy(struct kolo_metric *metric);

KOLO_END_DECLS
#endif
