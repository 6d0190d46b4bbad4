// SPDX-License-Identifier: Apache-2.0
/** Regression, exact at any number of ranks: a kind of metric for <kolo/metrics.h>, which says how
 *  all metrics are created, updated, computed, merged and saved. */
#ifndef KOLO_REGRESSION_H
#define KOLO_REGRESSION_H

#include <kolo/metrics.h>

KOLO_BEGIN_DECLS

struct kolo_regression_config {
    size_t size;     /**< sizeof(struct kolo_regression_config) */
    int64_t samples; /**< as in kolo_mean_config */
    /** Of samples whose target or prediction is NaN, infinite, or beyond 2^500 in magnitude, whose
     *  square would not fit. KOLO_NONFINITE_PROPAGATE makes every result NaN. */
    kolo_nonfinite nonfinite;
    /** KOLO_NONFINITE_IMPUTE: stands for whichever of the two is so; up to 2^500 in magnitude. */
    double imputed;
};

/** Mean error, mean absolute and mean square error, and R2. Differences and squares are added
 *  without any rounding (squares down to 2^-1074), and R2's numerator and denominator, where
 *  n * sum(y^2) - sum(y)^2 may cancel nearly all, are integers until the one division: the results
 *  are the same bits however samples are dealt out.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_create(
    const struct kolo_regression_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples.
 *  @return KOLO_OK; ERR_INVALID (an index, named; nothing is added); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_update_float32(struct kolo_metric *metric,
                                                                   const float *predictions,
                                                                   const float *targets,
                                                                   size_t count,
                                                                   const int64_t *indices);
/** The same for float64. */
KOLO_API KOLO_NODISCARD kolo_status kolo_regression_update_float64(struct kolo_metric *metric,
                                                                   const double *predictions,
                                                                   const double *targets,
                                                                   size_t count,
                                                                   const int64_t *indices);

struct kolo_regression_result {
    size_t size;       /**< set to sizeof(struct kolo_regression_result) by the caller */
    double mean_error; /**< of prediction - target; NaN where nothing was counted, as the next */
    double mae, mse;   /**< mean absolute, mean square error */
    double rmse;       /**< the root of mse */
    double r2;         /**< 1 - sum((y - p)^2) / sum((y - mean y)^2). As scikit-learn has it: NaN
                              below two samples; where all targets are equal, 1 if all predictions
                              are right, else 0. (TorchMetrics has other values there.) */
    int64_t nonfinite; /**< samples that were not finite, or too large */
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute(), which fails with ERR_DATA under KOLO_NONFINITE_ERROR.
 *  @return KOLO_OK; ERR_INVALID (not a regression, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_regression_result(const struct kolo_metric *metric, struct kolo_regression_result *result_out);

KOLO_END_DECLS
#endif
