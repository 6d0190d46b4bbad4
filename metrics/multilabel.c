// SPDX-License-Identifier: Apache-2.0
// Metrics of samples with several labels. Its words are tp, fp, fn and tn of each label, then the
// numbers of exact matches, ignored elements and NaN scores. The record of an indexed sample has a
// byte per label.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "metrics/score.h"
#include "metrics/stage.h"

enum { TP, FP, FN, TN, IGNORED, CODES, NAN_BIT = 8, OUTCOMES = 4 };
enum { EXACT_MATCHES, IGNORED_ELEMENTS, NAN_ELEMENTS, MORE_WORDS };

struct multilabel {
    struct kolo_metric metric;
    int64_t labels;
    struct kolo_ignored ignored;
    float *thresholds;
    uint8_t *record; /* memory for the record of one sample */
};

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    (void)metric;
    const uint8_t *codes = record;
    int64_t *more = words + bytes * OUTCOMES;
    bool is_match = true;
    for (size_t l = 0; l < bytes; l++) {
        unsigned code = codes[l] & (NAN_BIT - 1u);
        more[NAN_ELEMENTS] += codes[l] / NAN_BIT;
        if (code == IGNORED) {
            more[IGNORED_ELEMENTS]++;
            continue;
        }
        words[l * OUTCOMES + code]++;
        is_match = is_match && (code == TP || code == TN);
    }
    more[EXACT_MATCHES] += is_match;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    const uint8_t *codes = record;
    if (bytes != (size_t)((const struct multilabel *)metric)->labels)
        return false;
    for (size_t l = 0; l < bytes; l++)
        if (codes[l] >= 2 * NAN_BIT || codes[l] % NAN_BIT >= CODES)
            return false;
    return true;
}

static void destroy(struct kolo_metric *metric)
{
    kolo_free_memory(((struct multilabel *)metric)->thresholds);
    kolo_free_memory(((struct multilabel *)metric)->record);
}

static const struct kolo_metric_ops multilabel_ops = {
    .name = "multilabel",
    .fold = fold,
    .accepts_words = kolo_metric_accepts_counts,
    .accepts_record = accepts_record,
    .destroy = destroy,
};

static kolo_status check_config(const struct kolo_multilabel_config *config,
                                struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("multilabel", config, sizeof *config, metric_out);
    if (status == KOLO_OK)
        status = kolo_metric_check_range("multilabel", "labels", config->labels, 1,
                                         KOLO_MULTILABEL_LABELS_MAX);
    if (status != KOLO_OK)
        return status;
    for (int64_t l = 0; config->thresholds && l < config->labels; l++)
        if (isnan(config->thresholds[l]))
            return kolo_fail(KOLO_ERR_INVALID, "kolo_multilabel_create: thresholds[%lld] is NaN",
                             (long long)l);
    return KOLO_OK;
}

kolo_status kolo_multilabel_create(const struct kolo_multilabel_config *config,
                                   struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config, metric_out);
    if (status != KOLO_OK)
        return status;
    size_t labels = (size_t)config->labels;
    struct kolo_metric *metric;
    status = kolo_metric_create(&multilabel_ops, sizeof(struct multilabel), config->samples,
                                labels * OUTCOMES + MORE_WORDS, &metric);
    if (status != KOLO_OK)
        return status;
    struct multilabel *multilabel = (struct multilabel *)metric;
    multilabel->labels = config->labels;
    multilabel->ignored =
        (struct kolo_ignored){.is_set = config->ignores, .index = config->ignore_index};
    multilabel->thresholds = kolo_calloc(labels, sizeof *multilabel->thresholds);
    multilabel->record = kolo_calloc(labels, sizeof *multilabel->record);
    if (!multilabel->thresholds || !multilabel->record) {
        kolo_metric_destroy(metric);
        return KOLO_ERR_NO_MEMORY;
    }
    for (size_t l = 0; l < labels; l++)
        multilabel->thresholds[l] = config->thresholds ? config->thresholds[l] : 0.5F;
    kolo_metric_setting(metric, multilabel->thresholds, labels * sizeof *multilabel->thresholds);
    if (config->ignores) /* not otherwise, so that states of older versions can be restored */
        kolo_metric_setting(metric, &multilabel->ignored.index, sizeof multilabel->ignored.index);
    *metric_out = metric;
    return KOLO_OK;
}

static uint8_t judge(const struct multilabel *multilabel, size_t label, float score, int8_t truth)
{
    uint8_t nan_bit = isnan(score) ? NAN_BIT : 0;
    float threshold = multilabel->thresholds[label];
    if (kolo_truth_is_ignored(&multilabel->ignored, truth))
        return IGNORED;
    if (truth)
        return (uint8_t)(nan_bit | (score > threshold ? TP : FN));
    return (uint8_t)(nan_bit | (score > threshold ? FP : TN));
}

static kolo_status check_update(const struct kolo_metric *metric, const float *scores,
                                const int8_t *truths, size_t count)
{
    if (count > 0 && (!scores || !truths))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_multilabel_update: %s is NULL",
                         scores ? "truths" : "scores");
    const struct multilabel *multilabel = (const struct multilabel *)metric;
    return kolo_truths_check("kolo_multilabel_update", &multilabel->ignored, truths,
                             count * (size_t)multilabel->labels);
}

static kolo_status update(struct kolo_metric *metric, const float *scores, const int8_t *truths,
                          size_t count, const int64_t *indices)
{
    kolo_status status = check_update(metric, scores, truths, count);
    if (status != KOLO_OK)
        return status;
    struct multilabel *multilabel = (struct multilabel *)metric;
    size_t labels = (size_t)multilabel->labels;
    status = kolo_metric_prepare("kolo_multilabel_update", metric, count, count * labels, indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        for (size_t l = 0; l < labels; l++)
            multilabel->record[l] =
                judge(multilabel, l, scores[i * labels + l], truths[i * labels + l]);
        kolo_metric_add(metric, indices ? indices + i : NULL, multilabel->record, labels);
    }
    return status;
}

kolo_status kolo_multilabel_update(struct kolo_metric *metric, const float *scores,
                                   const int8_t *truths, size_t count, const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_multilabel_update"};
    kolo_status status = kolo_metric_check(metric, &multilabel_ops, stage.call);
    if (status != KOLO_OK)
        return status;
    size_t labels = (size_t)((const struct multilabel *)metric)->labels;
    scores = kolo_stage(&stage, "scores", scores, count, labels, sizeof *scores);
    truths = kolo_stage(&stage, "truths", truths, count, labels, sizeof *truths);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status =
        stage.status == KOLO_OK ? update(metric, scores, truths, count, indices) : stage.status;
    kolo_stage_end(&stage);
    return status;
}

static struct kolo_outcomes outcomes_of(const struct kolo_metric *metric, int64_t number)
{
    const int64_t *words = metric->merged + number * OUTCOMES;
    return (struct kolo_outcomes){
        .tp = words[TP], .fp = words[FP], .fn = words[FN], .tn = words[TN]};
}

kolo_status kolo_multilabel_result(const struct kolo_metric *metric,
                                   struct kolo_multilabel_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &multilabel_ops, "kolo_multilabel_result",
                                                  result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    const struct multilabel *multilabel = (const struct multilabel *)metric;
    const int64_t *more = metric->merged + multilabel->labels * OUTCOMES;
    int64_t right = 0, elements = 0, samples = metric->counts.counted;
    for (int64_t l = 0; l < multilabel->labels; l++) {
        struct kolo_outcomes o = outcomes_of(metric, l);
        right += o.tp + o.tn;
        elements += o.tp + o.tn + o.fp + o.fn;
    }
    *result_out = (struct kolo_multilabel_result){
        .size = sizeof *result_out,
        .elements = elements,
        .ignored = more[IGNORED_ELEMENTS],
        .nan_elements = more[NAN_ELEMENTS],
        .accuracy = elements ? (double)right / (double)elements : (double)NAN,
        .exact_match = samples ? (double)more[EXACT_MATCHES] / (double)samples : (double)NAN,
        .samples = metric->counts,
    };
    return KOLO_OK;
}

kolo_status kolo_multilabel_score(const struct kolo_metric *metric,
                                  const struct kolo_score_config *config, double *values_out,
                                  size_t count)
{
    kolo_status status = kolo_metric_check_result(metric, &multilabel_ops, "kolo_multilabel_score",
                                                  "values_out", values_out);
    if (status != KOLO_OK)
        return status;
    return kolo_scores(metric, outcomes_of, ((const struct multilabel *)metric)->labels,
                       "kolo_multilabel_score", config, values_out, count);
}
