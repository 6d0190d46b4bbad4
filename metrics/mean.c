// SPDX-License-Identifier: Apache-2.0
// The mean of one value per sample. Owns an exact sum of what came without index; records are the
// values of indexed samples. The mean is sum / count in double, each rounded once.
#include <math.h>
#include <string.h>

#include "metrics/metric.h"
#include "metrics/stage.h"

struct mean {
    struct kolo_metric metric;
    kolo_nonfinite nonfinite;
    struct kolo_mean_result result;
};

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    (void)metric;
    double value;
    memcpy(&value, record, bytes);
    kolo_exact_sum_add(kolo_exact_in(words), value);
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    (void)metric;
    kolo_exact_sum_carry(kolo_exact_in(words));
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    (void)metric;
    return kolo_exact_accepts(words);
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    (void)metric;
    (void)record;
    return bytes == sizeof(double);
}

/* What IEEE 754 addition makes of the finite sum and the non-finite values. */
static double propagate(const struct kolo_mean_result *result, double finite)
{
    if (result->nans || (result->plus_infinities && result->minus_infinities))
        return NAN;
    if (result->plus_infinities)
        return INFINITY;
    return result->minus_infinities ? -INFINITY : finite;
}

static kolo_status finish(struct kolo_metric *metric)
{
    struct mean *mean = (struct mean *)metric;
    struct kolo_mean_result *result = &mean->result;
    struct kolo_exact_sum sum = kolo_exact_of(metric->merged);
    *result = (struct kolo_mean_result){.size = sizeof *result,
                                        .samples = metric->counts,
                                        .nans = sum.nans,
                                        .plus_infinities = sum.plus_infinities,
                                        .minus_infinities = sum.minus_infinities};
    int64_t nonfinite = result->nans + result->plus_infinities + result->minus_infinities;
    if (nonfinite && mean->nonfinite == KOLO_NONFINITE_ERROR)
        return kolo_fail(KOLO_ERR_DATA,
                         "mean: %lld NaN, %lld +infinity and %lld -infinity among %lld values; "
                         "mend the data, or create the metric with KOLO_NONFINITE_SKIP",
                         (long long)result->nans, (long long)result->plus_infinities,
                         (long long)result->minus_infinities, (long long)metric->counts.counted);
    result->sum = kolo_exact_sum_value(&sum);
    if (mean->nonfinite == KOLO_NONFINITE_PROPAGATE)
        result->sum = propagate(result, result->sum);
    else
        result->samples.counted -= nonfinite;
    result->mean = result->samples.counted ? result->sum / (double)result->samples.counted : NAN;
    return KOLO_OK;
}

static const struct kolo_metric_ops mean_ops = {
    .name = "mean",
    .fold = fold,
    .carry = carry,
    .finish = finish,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
};

kolo_status kolo_mean_create(const struct kolo_mean_config *config, struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("mean", config, sizeof *config, metric_out);
    if (status != KOLO_OK)
        return status;
    if ((unsigned)config->nonfinite > KOLO_NONFINITE_PROPAGATE)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_create: nonfinite %d is no kolo_nonfinite",
                         (int)config->nonfinite);
    status = kolo_metric_create(&mean_ops, sizeof(struct mean), config->samples, KOLO_EXACT_WORDS,
                                metric_out);
    if (status != KOLO_OK)
        return status;
    ((struct mean *)*metric_out)->nonfinite = config->nonfinite;
    kolo_metric_setting(*metric_out, &config->nonfinite, sizeof config->nonfinite);
    return KOLO_OK;
}

static kolo_status prepare(struct kolo_metric *metric, const void *values, size_t count,
                           const int64_t *indices)
{
    kolo_status status = kolo_metric_check(metric, &mean_ops, "kolo_mean_update");
    if (status != KOLO_OK)
        return status;
    if (!values && count > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_update: values is NULL");
    return kolo_metric_prepare(metric, count, count * sizeof(double), indices);
}

kolo_status kolo_mean_update_float32(struct kolo_metric *metric, const float *values, size_t count,
                                     const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_mean_update"};
    values = kolo_stage(&stage, "values", values, count, 1, sizeof *values);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    kolo_status status =
        stage.status == KOLO_OK ? prepare(metric, values, count, indices) : stage.status;
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        double value = (double)values[i];
        kolo_metric_add(metric, indices ? indices + i : NULL, &value, sizeof value);
    }
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_mean_update_float64(struct kolo_metric *metric, const double *values, size_t count,
                                     const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_mean_update"};
    values = kolo_stage(&stage, "values", values, count, 1, sizeof *values);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    kolo_status status =
        stage.status == KOLO_OK ? prepare(metric, values, count, indices) : stage.status;
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        kolo_metric_add(metric, indices ? indices + i : NULL, values + i, sizeof *values);
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_mean_result(const struct kolo_metric *metric, struct kolo_mean_result *result_out)
{
    kolo_status status =
        kolo_metric_check_result(metric, &mean_ops, "kolo_mean_result", result_out,
                                 result_out ? result_out->size : 0, sizeof *result_out);
    if (status == KOLO_OK)
        *result_out = ((const struct mean *)metric)->result;
    return status;
}
