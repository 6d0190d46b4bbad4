// SPDX-License-Identifier: Apache-2.0
// The mean of one value per sample. Its words are an exact sum of the values without index; records
// are the values of indexed samples. The mean is sum / count in double, where the sum is
// rounded once and the quotient once.
//
// In fast mode a double follows the exact sum, and values are added to that double; carry() adds it
// to the exact sum. So sums of ranks, saved states and merged metrics are added exactly. Only
// additions on one rank between two carries are rounded.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metrics/metric.h"
#include "metrics/nonfinite.h"
#include "metrics/stage.h"

enum { PENDING = KOLO_EXACT_WORDS, FAST_WORDS };

struct mean {
    struct kolo_metric metric;
    kolo_nonfinite nonfinite;
    bool is_fast;
    double imputed;
    struct kolo_mean_result result;
};

static void add_pending(int64_t *words, double value)
{
    double pending;
    memcpy(&pending, words + PENDING, sizeof pending);
    double sum = pending + value;
    if (!isfinite(sum)) {
        kolo_exact_sum_add(kolo_exact_in(words), pending);
        sum = value;
    }
    memcpy(words + PENDING, &sum, sizeof sum);
}

static void add(const struct mean *mean, int64_t *words, double value)
{
    if (!isfinite(value)) {
        kolo_exact_sum_add(kolo_exact_in(words), value); /* only counts it */
        if (mean->nonfinite != KOLO_NONFINITE_IMPUTE)
            return;
        value = mean->imputed;
    }
    if (mean->is_fast)
        add_pending(words, value);
    else
        kolo_exact_sum_add(kolo_exact_in(words), value);
}

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    double value;
    memcpy(&value, record, bytes);
    add((const struct mean *)metric, words, value);
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    if (((const struct mean *)metric)->is_fast) {
        double pending;
        memcpy(&pending, words + PENDING, sizeof pending);
        kolo_exact_sum_add(kolo_exact_in(words), pending);
        words[PENDING] = 0;
    }
    kolo_exact_sum_carry(kolo_exact_in(words));
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    bool is_fast = ((const struct mean *)metric)->is_fast;
    return kolo_exact_accepts(words) && (!is_fast || words[PENDING] == 0);
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    (void)metric;
    (void)record;
    return bytes == sizeof(double);
}

/* Returns what IEEE 754 addition gives for the finite sum and the values that are not finite. */
static double propagate(const struct kolo_mean_result *result, double finite)
{
    if (result->nans || (result->plus_infinities && result->minus_infinities))
        return NAN;
    if (result->plus_infinities)
        return INFINITY;
    return result->minus_infinities ? -INFINITY : finite;
}

static kolo_status judge(const struct mean *mean, int64_t nonfinite)
{
    const struct kolo_mean_result *result = &mean->result;
    char text[128];
    snprintf(text, sizeof text, "%lld NaN, %lld +infinity and %lld -infinity among %lld values",
             (long long)result->nans, (long long)result->plus_infinities,
             (long long)result->minus_infinities, (long long)result->samples.counted);
    return kolo_nonfinite_judge(&mean->metric, mean->nonfinite, nonfinite, text);
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
    kolo_status status = judge(mean, nonfinite);
    if (status != KOLO_OK)
        return status;
    result->sum = kolo_exact_sum_value(&sum);
    if (mean->nonfinite == KOLO_NONFINITE_PROPAGATE)
        result->sum = propagate(result, result->sum);
    if (kolo_nonfinite_leaves_out(mean->nonfinite))
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
    if (status == KOLO_OK)
        status = kolo_nonfinite_check("mean", config->nonfinite, config->imputed, DBL_MAX);
    if (status == KOLO_OK)
        status = kolo_metric_create(&mean_ops, sizeof(struct mean), config->samples,
                                    config->fast ? FAST_WORDS : KOLO_EXACT_WORDS, metric_out);
    if (status != KOLO_OK)
        return status;
    struct mean *mean = (struct mean *)*metric_out;
    mean->nonfinite = config->nonfinite;
    mean->imputed = config->imputed;
    mean->is_fast = config->fast;
    kolo_nonfinite_setting(*metric_out, config->nonfinite, config->imputed);
    if (config->fast) /* not otherwise, so that states of older versions can be restored */
        kolo_metric_setting(*metric_out, &config->fast, sizeof config->fast);
    return KOLO_OK;
}

static kolo_status prepare(const char *call, struct kolo_metric *metric, const void *values,
                           size_t count, const int64_t *indices)
{
    kolo_status status = kolo_metric_check(metric, &mean_ops, call);
    if (status != KOLO_OK)
        return status;
    if (!values && count > 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: values is NULL", call);
    return kolo_metric_prepare(call, metric, count, count * sizeof(double), indices);
}

/* Adds eight sums side by side, so that no addition waits for the one before. */
static inline double sum_of(const void *values, size_t bytes, size_t count)
{
    enum { LANES = 8 };
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += kolo_number_at(values, bytes, i + j);
    for (; i < count; i++)
        lane[i % LANES] += kolo_number_at(values, bytes, i);
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* For values without indices. If the sum is not finite, because a value is not or because values
 * are very large, the values are added one by one. */
static void add_fast(struct kolo_metric *metric, const void *values, size_t bytes, size_t count)
{
    int64_t *words = kolo_metric_count_direct(metric, count);
    double sum = bytes == sizeof(float) ? sum_of(values, sizeof(float), count)
                                        : sum_of(values, sizeof(double), count);
    if (isfinite(sum)) {
        add_pending(words, sum);
        return;
    }
    for (size_t i = 0; i < count; i++)
        add((const struct mean *)metric, words, kolo_number_at(values, bytes, i));
}

/** @param bytes  size of a value, which is a float or a double */
static kolo_status update(struct kolo_metric *metric, const void *values, size_t bytes,
                          size_t count, const int64_t *indices)
{
    const char *call =
        bytes == sizeof(float) ? "kolo_mean_update_float32" : "kolo_mean_update_float64";
    struct kolo_stage stage = {.call = call};
    values = kolo_stage(&stage, "values", values, count, 1, bytes);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    kolo_status status =
        stage.status == KOLO_OK ? prepare(call, metric, values, count, indices) : stage.status;
    if (status == KOLO_OK && !indices && ((const struct mean *)metric)->is_fast) {
        add_fast(metric, values, bytes, count);
        count = 0;
    }
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        double value = kolo_number_at(values, bytes, i);
        kolo_metric_add(metric, indices ? indices + i : NULL, &value, sizeof value);
    }
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_mean_update_float32(struct kolo_metric *metric, const float *values, size_t count,
                                     const int64_t *indices)
{
    return update(metric, values, sizeof *values, count, indices);
}

kolo_status kolo_mean_update_float64(struct kolo_metric *metric, const double *values, size_t count,
                                     const int64_t *indices)
{
    return update(metric, values, sizeof *values, count, indices);
}

static kolo_status check_batch(const struct kolo_metric *metric, double mean, int64_t count)
{
    kolo_status status = kolo_metric_check(metric, &mean_ops, "kolo_mean_update_batch");
    if (status != KOLO_OK)
        return status;
    if (metric->samples)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mean_update_batch: the metric was created with samples %lld: pass "
                         "the value and index of each sample",
                         (long long)metric->samples);
    if (count < 0 || count > KOLO_COUNT_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mean_update_batch: count %lld is not in 0..%lld",
                         (long long)count, (long long)KOLO_COUNT_MAX);
    status = kolo_metric_check_more("kolo_mean_update_batch", metric, (size_t)count);
    if (status != KOLO_OK)
        return status;
    if (isfinite(mean) && !isfinite(mean * (double)count))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mean_update_batch: %g times %lld is more than a double holds", mean,
                         (long long)count);
    return KOLO_OK;
}

/* Counts a mean that is not finite as @p count such values. */
static void count_nonfinite(int64_t *words, double mean, int64_t count)
{
    struct kolo_exact_sum *sum = kolo_exact_in(words);
    if (isnan(mean))
        sum->nans += count;
    else if (mean > 0)
        sum->plus_infinities += count;
    else
        sum->minus_infinities += count;
}

kolo_status kolo_mean_update_batch(struct kolo_metric *metric, double mean, int64_t count)
{
    const struct mean *own = (const struct mean *)metric;
    kolo_status status = check_batch(metric, mean, count);
    if (status == KOLO_OK && !isfinite(mean) && own->nonfinite == KOLO_NONFINITE_IMPUTE)
        status = check_batch(metric, own->imputed, count);
    if (status != KOLO_OK)
        return status;
    int64_t *words = kolo_metric_count_direct(metric, (size_t)count);
    double value = isfinite(mean) ? mean : own->imputed;
    double rest, product = kolo_exact_product(value, (double)count, &rest);
    if (!isfinite(mean))
        count_nonfinite(words, mean, count);
    if (!isfinite(mean) && own->nonfinite != KOLO_NONFINITE_IMPUTE)
        return KOLO_OK;
    add(own, words, product);
    add(own, words, rest);
    return KOLO_OK;
}

kolo_status kolo_mean_result(const struct kolo_metric *metric, struct kolo_mean_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &mean_ops, "kolo_mean_result", result_out,
                                                  sizeof *result_out);
    if (status == KOLO_OK)
        *result_out = ((const struct mean *)metric)->result;
    return status;
}
