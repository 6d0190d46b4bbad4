// SPDX-License-Identifier: Apache-2.0
// The mean of one value per sample. Owns an exact sum of what came without index; records are the
// values of indexed samples. The mean is sum / count in double, each rounded once.
#include <math.h>
#include <string.h>

#include "metrics/metric.h"

struct mean {
    struct kolo_metric metric;
    kolo_nonfinite nonfinite;
    struct kolo_exact_sum direct, working;
    struct kolo_mean_result result;
};

enum { SUM_WORDS = KOLO_EXACT_SUM_LIMBS + 3 };

static size_t words(const struct kolo_metric *metric)
{
    (void)metric;
    return SUM_WORDS;
}

static void begin(struct kolo_metric *metric)
{
    struct mean *mean = (struct mean *)metric;
    mean->working = mean->direct;
}

static void fold(struct kolo_metric *metric, const void *record)
{
    double value;
    memcpy(&value, record, sizeof value);
    kolo_exact_sum_add(&((struct mean *)metric)->working, value);
}

static void pack(struct kolo_metric *metric, int64_t *words_out)
{
    struct kolo_exact_sum *sum = &((struct mean *)metric)->working;
    kolo_exact_sum_carry(sum);
    memcpy(words_out, sum->limbs, sizeof sum->limbs);
    words_out[KOLO_EXACT_SUM_LIMBS] = sum->nans;
    words_out[KOLO_EXACT_SUM_LIMBS + 1] = sum->plus_infinities;
    words_out[KOLO_EXACT_SUM_LIMBS + 2] = sum->minus_infinities;
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

static kolo_status finish(struct kolo_metric *metric, const int64_t *merged)
{
    struct mean *mean = (struct mean *)metric;
    struct kolo_mean_result *result = &mean->result;
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    memcpy(sum.limbs, merged, sizeof sum.limbs);
    *result = (struct kolo_mean_result){.size = sizeof *result,
                                        .samples = metric->counts,
                                        .nans = merged[KOLO_EXACT_SUM_LIMBS],
                                        .plus_infinities = merged[KOLO_EXACT_SUM_LIMBS + 1],
                                        .minus_infinities = merged[KOLO_EXACT_SUM_LIMBS + 2]};
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

static void reset(struct kolo_metric *metric)
{
    kolo_exact_sum_init(&((struct mean *)metric)->direct);
}

static const struct kolo_metric_ops mean_ops = {
    .name = "mean",
    .record_bytes = sizeof(double),
    .words = words,
    .begin = begin,
    .fold = fold,
    .pack = pack,
    .finish = finish,
    .reset = reset,
};

kolo_status kolo_mean_create(const struct kolo_mean_config *config, struct kolo_metric **metric_out)
{
    if (!config || config->size != sizeof *config || !metric_out)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mean_create: config or metric_out is NULL, or config->size is not "
                         "sizeof(struct kolo_mean_config)");
    if ((unsigned)config->nonfinite > KOLO_NONFINITE_PROPAGATE)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_create: nonfinite %d is no kolo_nonfinite",
                         (int)config->nonfinite);
    kolo_status status =
        kolo_metric_create(&mean_ops, sizeof(struct mean), config->samples, metric_out);
    if (status == KOLO_OK)
        ((struct mean *)*metric_out)->nonfinite = config->nonfinite;
    return status;
}

static kolo_status check_update(const struct kolo_metric *metric, const void *values, size_t count)
{
    if (!metric || metric->ops != &mean_ops)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_update: the metric is NULL or not a mean");
    if (!values && count > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_update: values is NULL");
    return KOLO_OK;
}

static void add(struct kolo_metric *metric, double value, const int64_t *index)
{
    if (index) {
        kolo_metric_record(metric, *index, &value);
    } else {
        kolo_exact_sum_add(&((struct mean *)metric)->direct, value);
        metric->direct_count++;
        metric->is_computed = false;
    }
}

kolo_status kolo_mean_update_float32(struct kolo_metric *metric, const float *values, size_t count,
                                     const int64_t *indices)
{
    kolo_status status = check_update(metric, values, count);
    if (status == KOLO_OK)
        status = kolo_metric_prepare(metric, count, indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        add(metric, (double)values[i], indices ? indices + i : NULL);
    return status;
}

kolo_status kolo_mean_update_float64(struct kolo_metric *metric, const double *values, size_t count,
                                     const int64_t *indices)
{
    kolo_status status = check_update(metric, values, count);
    if (status == KOLO_OK)
        status = kolo_metric_prepare(metric, count, indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        add(metric, values[i], indices ? indices + i : NULL);
    return status;
}

kolo_status kolo_mean_result(const struct kolo_metric *metric, struct kolo_mean_result *result_out)
{
    if (!metric || metric->ops != &mean_ops || !metric->is_computed)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mean_result: the metric is NULL, not a mean, or not computed since "
                         "its last update");
    if (!result_out || result_out->size != sizeof *result_out)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mean_result: result_out is NULL or its size is not sizeof(struct "
                         "kolo_mean_result)");
    *result_out = ((const struct mean *)metric)->result;
    return KOLO_OK;
}
