// SPDX-License-Identifier: Apache-2.0
// Regression metrics. Its words are five exact sums and two counts. A difference is represented by
// two doubles, and its square by up to six, so none of them is rounded.
#include <kolo/regression.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metrics/exact_ratio.h"
#include "metrics/metric.h"
#include "metrics/nonfinite.h"
#include "metrics/stage.h"

enum { ERRORS, MAGNITUDES, SQUARES, TARGETS, TARGET_SQUARES, SUMS };
enum { FINITE = SUMS * KOLO_EXACT_WORDS, NONFINITE, WORDS };
static const double LARGEST = 0x1p500;

struct regression {
    struct kolo_metric metric;
    kolo_nonfinite nonfinite;
    double imputed;
    struct kolo_regression_result result;
};

struct pair {
    double prediction, target;
};

static struct kolo_exact_sum *sum_in(int64_t *words, int number)
{
    return kolo_exact_in(words + number * (int)KOLO_EXACT_WORDS);
}

/* Adds a * b to the sum, exactly. */
static void add_product(struct kolo_exact_sum *sum, double a, double b)
{
    double rest, product = kolo_exact_product(a, b, &rest);
    kolo_exact_sum_add(sum, product);
    kolo_exact_sum_add(sum, rest);
}

static bool is_good(double number)
{
    return fabs(number) <= LARGEST;
}

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    const struct regression *regression = (const struct regression *)metric;
    struct pair pair;
    memcpy(&pair, record, bytes);
    double p = pair.prediction, y = pair.target;
    if (!is_good(p) || !is_good(y)) {
        words[NONFINITE]++;
        if (regression->nonfinite != KOLO_NONFINITE_IMPUTE)
            return;
        p = is_good(p) ? p : regression->imputed;
        y = is_good(y) ? y : regression->imputed;
    }
    words[FINITE]++;
    double high = p - y, back = high - p,
           low = (p - (high - back)) + (-y - back); /* Knuth's TwoSum */
    double sign = high < 0 ? -1 : 1;
    kolo_exact_sum_add(sum_in(words, ERRORS), high);
    kolo_exact_sum_add(sum_in(words, ERRORS), low);
    kolo_exact_sum_add(sum_in(words, MAGNITUDES), sign * high);
    kolo_exact_sum_add(sum_in(words, MAGNITUDES), sign * low);
    add_product(sum_in(words, SQUARES), high, high);
    if (low != 0) {
        add_product(sum_in(words, SQUARES), 2 * high, low);
        add_product(sum_in(words, SQUARES), low, low);
    }
    kolo_exact_sum_add(sum_in(words, TARGETS), y);
    add_product(sum_in(words, TARGET_SQUARES), y, y);
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    (void)metric;
    for (int i = 0; i < SUMS; i++)
        kolo_exact_sum_carry(sum_in(words, i));
}

static kolo_status judge(const struct regression *regression, int64_t nonfinite)
{
    char text[160];
    snprintf(text, sizeof text,
             "%lld of %lld samples have a target or prediction that is not finite or beyond 2^500",
             (long long)nonfinite, (long long)regression->metric.counts.counted);
    return kolo_nonfinite_judge(&regression->metric, regression->nonfinite, nonfinite, text);
}

static kolo_status finish(struct kolo_metric *metric)
{
    struct regression *regression = (struct regression *)metric;
    struct kolo_exact_sum sums[SUMS];
    for (int i = 0; i < SUMS; i++)
        sums[i] = kolo_exact_of(metric->merged + i * (int)KOLO_EXACT_WORDS);
    int64_t n = metric->merged[FINITE], nonfinite = metric->merged[NONFINITE];
    struct kolo_regression_result result = {
        .size = sizeof result, .nonfinite = nonfinite, .samples = metric->counts};
    kolo_status status = judge(regression, nonfinite);
    if (status != KOLO_OK)
        return status;
    bool has_values = n > 0 && !(nonfinite && regression->nonfinite == KOLO_NONFINITE_PROPAGATE);
    if (kolo_nonfinite_leaves_out(regression->nonfinite))
        result.samples.counted -= nonfinite;
    double count = has_values ? (double)n : (double)NAN;
    result.mean_error = kolo_exact_sum_value(sums + ERRORS) / count;
    result.mae = kolo_exact_sum_value(sums + MAGNITUDES) / count;
    result.mse = kolo_exact_sum_value(sums + SQUARES) / count;
    result.rmse = sqrt(result.mse);
    result.r2 = has_values && n > 1
                    ? kolo_exact_r2(n, sums + SQUARES, sums + TARGET_SQUARES, sums + TARGETS)
                    : (double)NAN;
    regression->result = result;
    return KOLO_OK;
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    for (int i = 0; i < SUMS; i++)
        if (!kolo_exact_accepts(words + i * (int)KOLO_EXACT_WORDS))
            return false;
    return words[FINITE] >= 0 && words[NONFINITE] >= 0 && words[FINITE] <= metric->direct_count &&
           words[NONFINITE] <= metric->direct_count;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    (void)metric;
    (void)record;
    return bytes == sizeof(struct pair);
}

static const struct kolo_metric_ops regression_ops = {
    .name = "regression",
    .fold = fold,
    .carry = carry,
    .finish = finish,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
};

kolo_status kolo_regression_create(const struct kolo_regression_config *config,
                                   struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("regression", config, sizeof *config, metric_out);
    if (status == KOLO_OK)
        status = kolo_nonfinite_check("regression", config->nonfinite, config->imputed, LARGEST);
    if (status == KOLO_OK)
        status = kolo_metric_create(&regression_ops, sizeof(struct regression), config->samples,
                                    WORDS, metric_out);
    if (status != KOLO_OK)
        return status;
    ((struct regression *)*metric_out)->nonfinite = config->nonfinite;
    ((struct regression *)*metric_out)->imputed = config->imputed;
    kolo_nonfinite_setting(*metric_out, config->nonfinite, config->imputed);
    return KOLO_OK;
}

static kolo_status prepare(const char *call, struct kolo_metric *metric, const void *predictions,
                           const void *targets, size_t count, const int64_t *indices)
{
    kolo_status status = kolo_metric_check(metric, &regression_ops, call);
    if (status != KOLO_OK)
        return status;
    if (count > 0 && (!predictions || !targets))
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL", call,
                         predictions ? "targets" : "predictions");
    return kolo_metric_prepare(call, metric, count, count * sizeof(struct pair), indices);
}

/** @param bytes  size of a number, which is a float or a double */
static kolo_status update(struct kolo_metric *metric, const void *predictions, const void *targets,
                          size_t bytes, size_t count, const int64_t *indices)
{
    const char *call = bytes == sizeof(float) ? "kolo_regression_update_float32"
                                              : "kolo_regression_update_float64";
    struct kolo_stage stage = {.call = call};
    predictions = kolo_stage(&stage, "predictions", predictions, count, 1, bytes);
    targets = kolo_stage(&stage, "targets", targets, count, 1, bytes);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    kolo_status status = stage.status == KOLO_OK
                             ? prepare(call, metric, predictions, targets, count, indices)
                             : stage.status;
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        const struct pair pair = {kolo_number_at(predictions, bytes, i),
                                  kolo_number_at(targets, bytes, i)};
        kolo_metric_add(metric, indices ? indices + i : NULL, &pair, sizeof pair);
    }
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_regression_update_float32(struct kolo_metric *metric, const float *predictions,
                                           const float *targets, size_t count,
                                           const int64_t *indices)
{
    return update(metric, predictions, targets, sizeof *predictions, count, indices);
}

kolo_status kolo_regression_update_float64(struct kolo_metric *metric, const double *predictions,
                                           const double *targets, size_t count,
                                           const int64_t *indices)
{
    return update(metric, predictions, targets, sizeof *predictions, count, indices);
}

kolo_status kolo_regression_result(const struct kolo_metric *metric,
                                   struct kolo_regression_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &regression_ops, "kolo_regression_result",
                                                  result_out, sizeof *result_out);
    if (status == KOLO_OK)
        *result_out = ((const struct regression *)metric)->result;
    return status;
}
