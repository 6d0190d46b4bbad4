// SPDX-License-Identifier: Apache-2.0
/** A regression metric whose results do not depend on the number of ranks. <kolo/metrics.h> says
 *  how all metrics are created, updated, computed, merged and saved. */
#ifndef KOLO_REGRESSION_H
#define KOLO_REGRESSION_H

#include <kolo/metrics.h>

KOLO_BEGIN_DECLS

struct kolo_regression_config {
    size_t size;     /**< sizeof(struct kolo_regression_config) */
    int64_t samples; /**< as in kolo_mean_config */
    /** What to do with samples whose target or prediction is NaN, infinite, or beyond 2^500 in
     *  magnitude (its square would not fit). KOLO_NONFINITE_PROPAGATE makes every result NaN. */
    kolo_nonfinite nonfinite;
    /** KOLO_NONFINITE_IMPUTE: replaces the target or prediction; at most 2^500 in magnitude. */
    double imputed;
};

/** Creates a metric of mean error, mean absolute error, mean square error, and R2. Differences and
 *  squares are added without rounding (squares down to 2^-1074). The numerator and denominator of
 *  R2, where n * sum(y^2) - sum(y)^2 may cancel almost completely, are integers until the single
 *  division. So the results have the same bits for any distribution of the samples.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_create(
    const struct kolo_regression_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples, with one prediction and one target each. @p indices: as for
 *  kolo_mean_update_float32().
 *  @return KOLO_OK; ERR_INVALID (an index is out of range, and named; nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_update_float32(struct kolo_metric *metric,
                                                                   const float *predictions,
                                                                   const float *targets,
                                                                   size_t count,
                                                                   const int64_t *indices);
/** The same for predictions and targets in float64. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_update_float64(struct kolo_metric *metric,
                                                                   const double *predictions,
                                                                   const double *targets,
                                                                   size_t count,
                                                                   const int64_t *indices);

struct kolo_regression_result {
    size_t size;       /**< set to sizeof(struct kolo_regression_result) by the caller */
    double mean_error; /**< mean of prediction - target; like the next three NaN without samples */
    double mae, mse;   /**< mean absolute error, mean square error */
    double rmse;       /**< square root of mse */
    double r2;         /**< 1 - sum((y - p)^2) / sum((y - mean y)^2), with scikit-learn's special
                              cases: NaN for fewer than two samples; if all targets are equal (or
                              their squares, rounded at 2^-1074, do not tell them apart), 1 if all
                              predictions are right, else 0. (TorchMetrics differs there.) */
    int64_t nonfinite; /**< samples that were not finite, or too large */
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute() (which fails with ERR_DATA for a sample that is
 *  not finite under KOLO_NONFINITE_ERROR).
 *  @return KOLO_OK; ERR_INVALID (not a regression, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_regression_result(const struct kolo_metric *metric, struct kolo_regression_result *result_out);

KOLO_END_DECLS
#endif
