// SPDX-License-Identifier: Apache-2.0
// Calibration error. Its words are, for each bin, the number of samples, the number of those that
// were right, and the exact sum of their confidences; then, if there is an ignore_index, the number
// of samples left out. The record of an indexed sample is its confidence and whether it was right
// or is ignored.
#include <kolo/classification.h>

#include <math.h>
#include <string.h>

#include "metrics/metric.h"
#include "metrics/stage.h"

enum { COUNT, RIGHT, CONFIDENCE, BIN_WORDS = CONFIDENCE + KOLO_EXACT_WORDS, DEFAULT_BINS = 15 };

struct calibration {
    struct kolo_metric metric;
    int64_t classes, bins;
    bool ignores;
    int64_t ignore_index;
};

enum { WRONG_SAMPLE, RIGHT_SAMPLE, IGNORED_SAMPLE };

struct judged {
    float confidence;
    uint32_t verdict;
};

static size_t words_of_bins(const struct kolo_metric *metric)
{
    return (size_t)((const struct calibration *)metric)->bins * BIN_WORDS;
}

static int64_t ignored_in(const struct kolo_metric *metric, const int64_t *words)
{
    return ((const struct calibration *)metric)->ignores ? words[words_of_bins(metric)] : 0;
}

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    int64_t bins = ((const struct calibration *)metric)->bins;
    struct judged judged;
    memcpy(&judged, record, bytes);
    if (judged.verdict == IGNORED_SAMPLE) {
        words[words_of_bins(metric)]++;
        return;
    }
    int64_t bin = (int64_t)((double)judged.confidence * (double)bins);
    words += (bin < bins ? bin : bins - 1) * (int64_t)BIN_WORDS;
    words[COUNT]++;
    words[RIGHT] += judged.verdict;
    kolo_exact_sum_add(kolo_exact_in(words + CONFIDENCE), (double)judged.confidence);
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    for (size_t at = 0; at < words_of_bins(metric); at += BIN_WORDS)
        kolo_exact_sum_carry(kolo_exact_in(words + at + CONFIDENCE));
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    int64_t ignored = ignored_in(metric, words);
    if (ignored < 0 || ignored > metric->direct_count)
        return false;
    for (size_t at = 0; at < words_of_bins(metric); at += BIN_WORDS)
        if (words[at + COUNT] < 0 || words[at + COUNT] > metric->direct_count - ignored ||
            words[at + RIGHT] < 0 || words[at + RIGHT] > words[at + COUNT] ||
            !kolo_exact_accepts(words + at + CONFIDENCE))
            return false;
    return true;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    struct judged judged;
    if (bytes != sizeof judged)
        return false;
    memcpy(&judged, record, sizeof judged);
    if (judged.verdict == IGNORED_SAMPLE)
        return ((const struct calibration *)metric)->ignores;
    return judged.confidence >= 0 && judged.confidence <= 1 && judged.verdict <= RIGHT_SAMPLE;
}

static const struct kolo_metric_ops calibration_ops = {
    .name = "calibration",
    .fold = fold,
    .carry = carry,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
};

static kolo_status check_config(const struct kolo_calibration_config *config,
                                struct kolo_metric **metric_out)
{
    kolo_status status =
        kolo_metric_check_config("calibration", config, sizeof *config, metric_out);
    if (status != KOLO_OK)
        return status;
    if (config->classes < 1)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_calibration_create: classes %lld is not positive",
                         (long long)config->classes);
    return kolo_metric_check_range("calibration", "bins", config->bins, 0,
                                   KOLO_CALIBRATION_BINS_MAX);
}

kolo_status kolo_calibration_create(const struct kolo_calibration_config *config,
                                    struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config, metric_out);
    if (status != KOLO_OK)
        return status;
    int64_t bins = config->bins ? config->bins : DEFAULT_BINS;
    status = kolo_metric_create(&calibration_ops, sizeof(struct calibration), config->samples,
                                (size_t)bins * BIN_WORDS + config->ignores, metric_out);
    if (status != KOLO_OK)
        return status;
    struct calibration *calibration = (struct calibration *)*metric_out;
    calibration->classes = config->classes;
    calibration->bins = bins;
    kolo_metric_setting(*metric_out, &calibration->classes, sizeof calibration->classes);
    kolo_metric_setting(*metric_out, &calibration->bins, sizeof calibration->bins);
    if (config->ignores) { /* not otherwise, so that states of older versions can be restored */
        calibration->ignores = true;
        calibration->ignore_index = config->ignore_index;
        kolo_metric_setting(*metric_out, &config->ignore_index, sizeof config->ignore_index);
    }
    return KOLO_OK;
}

static bool is_ignored(const struct calibration *calibration, int64_t label)
{
    return calibration->ignores && label == calibration->ignore_index;
}

static kolo_status check_sample(const struct calibration *calibration, const float *probabilities,
                                int64_t label, size_t number)
{
    int64_t classes = calibration->classes, last = classes > 1 ? classes - 1 : 1;
    if (is_ignored(calibration, label))
        return KOLO_OK;
    if (label < 0 || label > last)
        return kolo_metric_refuse_class("kolo_calibration_update", "labels", number, label, last,
                                        calibration->ignores);
    for (size_t i = number * (size_t)classes; i < (number + 1) * (size_t)classes; i++)
        if (!(probabilities[i] >= 0 && probabilities[i] <= 1))
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_calibration_update: probabilities[%zu] is %.9g, not in 0..1", i,
                             (double)probabilities[i]);
    return KOLO_OK;
}

static kolo_status check_update(const struct kolo_metric *metric, const float *probabilities,
                                const int64_t *labels, size_t count)
{
    if (count > 0 && (!probabilities || !labels))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_calibration_update: %s is NULL",
                         probabilities ? "labels" : "probabilities");
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        status = check_sample((const struct calibration *)metric, probabilities, labels[i], i);
    return status;
}

static struct judged judge(const struct calibration *calibration, const float *probabilities,
                           int64_t label)
{
    int64_t best = 0, classes = calibration->classes;
    if (is_ignored(calibration, label))
        return (struct judged){.verdict = IGNORED_SAMPLE};
    for (int64_t c = 1; c < classes; c++)
        if (probabilities[c] > probabilities[best])
            best = c;
    bool is_right = classes == 1 ? label == 1 : best == label;
    return (struct judged){.confidence = probabilities[best],
                           .verdict = is_right ? RIGHT_SAMPLE : WRONG_SAMPLE};
}

static kolo_status update(struct kolo_metric *metric, const float *probabilities,
                          const int64_t *labels, size_t count, const int64_t *indices)
{
    kolo_status status = check_update(metric, probabilities, labels, count);
    if (status == KOLO_OK)
        status = kolo_metric_prepare("kolo_calibration_update", metric, count,
                                     count * sizeof(struct judged), indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        const struct calibration *calibration = (const struct calibration *)metric;
        const struct judged judged =
            judge(calibration, probabilities + i * (size_t)calibration->classes, labels[i]);
        kolo_metric_add(metric, indices ? indices + i : NULL, &judged, sizeof judged);
    }
    return status;
}

kolo_status kolo_calibration_update(struct kolo_metric *metric, const float *probabilities,
                                    const int64_t *labels, size_t count, const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_calibration_update"};
    kolo_status status = kolo_metric_check(metric, &calibration_ops, stage.call);
    if (status != KOLO_OK)
        return status;
    size_t classes = (size_t)((const struct calibration *)metric)->classes;
    probabilities =
        kolo_stage(&stage, "probabilities", probabilities, count, classes, sizeof *probabilities);
    labels = kolo_stage(&stage, "labels", labels, count, 1, sizeof *labels);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status = stage.status == KOLO_OK ? update(metric, probabilities, labels, count, indices)
                                     : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_calibration_result(const struct kolo_metric *metric,
                                    struct kolo_calibration_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(
        metric, &calibration_ops, "kolo_calibration_result", result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_sample_counts counts = metric->counts;
    int64_t ignored = ignored_in(metric, metric->merged);
    counts.counted -= ignored;
    double gaps = 0, squares = 0, largest = 0, samples = (double)counts.counted;
    for (size_t at = 0; at < words_of_bins(metric); at += BIN_WORDS) {
        struct kolo_exact_sum sum = kolo_exact_of(metric->merged + at + CONFIDENCE);
        double count = (double)metric->merged[at + COUNT];
        double gap = fabs((double)metric->merged[at + RIGHT] - kolo_exact_sum_value(&sum));
        if (count == 0)
            continue;
        gaps += gap;
        squares += gap * (gap / count);
        largest = fmax(largest, gap / count);
    }
    bool has_samples = samples > 0;
    *result_out = (struct kolo_calibration_result){
        .size = sizeof *result_out,
        .expected = has_samples ? gaps / samples : (double)NAN,
        .maximum = has_samples ? largest : (double)NAN,
        .rms = has_samples ? sqrt(squares / samples) : (double)NAN,
        .ignored = ignored,
        .samples = counts,
    };
    return KOLO_OK;
}
