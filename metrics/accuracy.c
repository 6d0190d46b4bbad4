// SPDX-License-Identifier: Apache-2.0
// Top-k accuracy. Its words are int64 counts. The record of an indexed sample has a bit for each k
// (whether the sample is correct) and one for NaN scores; an ignored sample has only the bit that
// says so. The rank of a label is found by counting, in O(classes), without sorting.
#include <math.h>
#include <string.h>

#include "metrics/metric.h"
#include "metrics/stage.h"

enum { NAN_BIT = KOLO_TOP_K_MAX, IGNORED_BIT };
static const uint32_t IGNORED = UINT32_C(1) << IGNORED_BIT;

/* The words: correct samples for each k, samples with NaN and, if there is an ignore_index,
 * ignored samples. */
struct accuracy {
    struct kolo_metric metric;
    int64_t classes;
    int k[KOLO_TOP_K_MAX];
    int ks;
    kolo_ties ties;
    bool ignores;
    int64_t ignore_index;
};

static int64_t ignored_in(const struct accuracy *accuracy, const int64_t *words)
{
    return accuracy->ignores ? words[accuracy->ks + 1] : 0;
}

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    const struct accuracy *accuracy = (const struct accuracy *)metric;
    uint32_t bits;
    memcpy(&bits, record, bytes);
    for (int i = 0; i < accuracy->ks; i++)
        words[i] += bits >> i & 1;
    words[accuracy->ks] += bits >> NAN_BIT & 1;
    if (accuracy->ignores)
        words[accuracy->ks + 1] += bits >> IGNORED_BIT & 1;
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    const struct accuracy *accuracy = (const struct accuracy *)metric;
    int64_t ignored = ignored_in(accuracy, words);
    if (ignored < 0 || ignored > metric->direct_count)
        return false;
    for (int i = 0; i <= accuracy->ks; i++)
        if (words[i] < 0 || words[i] > metric->direct_count - ignored)
            return false;
    return true;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    uint32_t bits = 0;
    if (bytes != sizeof bits)
        return false;
    memcpy(&bits, record, sizeof bits);
    return !(bits & IGNORED) || (bits == IGNORED && ((const struct accuracy *)metric)->ignores);
}

static const struct kolo_metric_ops accuracy_ops = {
    .name = "accuracy",
    .fold = fold,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
};

static kolo_status check_config(const struct kolo_accuracy_config *config)
{
    kolo_status status = kolo_check_struct("kolo_accuracy_create", "config", "kolo_accuracy_config",
                                           config, sizeof *config);
    if (status != KOLO_OK)
        return status;
    if (config->classes < 1)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_accuracy_create: classes %lld is not positive",
                         (long long)config->classes);
    if ((unsigned)config->ties > KOLO_TIES_PESSIMISTIC)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_accuracy_create: ties %d is not a value of kolo_ties",
                         (int)config->ties);
    for (int i = 0; i < KOLO_TOP_K_MAX && config->k[i]; i++) {
        if (config->k[i] < 0)
            return kolo_fail(KOLO_ERR_INVALID, "kolo_accuracy_create: k[%d] is %d, not positive", i,
                             config->k[i]);
        if (config->k[i] > config->classes) /* every sample would be correct */
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_accuracy_create: k[%d] is %d, more than the %lld classes", i,
                             config->k[i], (long long)config->classes);
    }
    return KOLO_OK;
}

/* Without an ignore_index nothing is added to the fingerprint, so that states saved by older
 * versions can be restored. */
static void set_ignored(struct accuracy *accuracy, const struct kolo_accuracy_config *config)
{
    if (!config->ignores)
        return;
    accuracy->ignores = true;
    accuracy->ignore_index = config->ignore_index;
    kolo_metric_setting(&accuracy->metric, &accuracy->ignore_index, sizeof accuracy->ignore_index);
}

kolo_status kolo_accuracy_create(const struct kolo_accuracy_config *config,
                                 struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config);
    if (status != KOLO_OK)
        return status;
    if (!metric_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_accuracy_create: metric_out is NULL");
    int ks = 0;
    while (ks < KOLO_TOP_K_MAX && config->k[ks])
        ks++;
    static const int top_1[KOLO_TOP_K_MAX] = {1};
    const int *k = ks ? config->k : top_1;
    if (ks == 0)
        ks = 1;
    status = kolo_metric_create(&accuracy_ops, sizeof(struct accuracy), config->samples,
                                (size_t)ks + 1 + config->ignores, metric_out);
    if (status != KOLO_OK)
        return status;
    struct accuracy *accuracy = (struct accuracy *)*metric_out;
    accuracy->classes = config->classes;
    accuracy->ties = config->ties;
    accuracy->ks = ks;
    memcpy(accuracy->k, k, (size_t)ks * sizeof *k);
    kolo_metric_setting(*metric_out, &accuracy->classes, sizeof accuracy->classes);
    kolo_metric_setting(*metric_out, &accuracy->ties, sizeof accuracy->ties);
    kolo_metric_setting(*metric_out, accuracy->k, sizeof accuracy->k);
    set_ignored(accuracy, config);
    return KOLO_OK;
}

/* Returns how many classes rank before the label. NaN ranks before every number and ties with
 * NaN. */
static int64_t rank_of_label(const float *scores, int64_t classes, int64_t label, kolo_ties ties,
                             bool *has_nan_out)
{
    float own = scores[label];
    int64_t above = 0, tied_below_index = 0, tied = 0;
    bool has_nan = false;
    for (int64_t j = 0; j < classes; j++) {
        bool is_nan = isnan(scores[j]);
        bool is_tied = j != label && (is_nan ? isnan(own) : scores[j] == own);
        has_nan |= is_nan;
        above += is_nan ? !isnan(own) : scores[j] > own;
        tied += is_tied;
        tied_below_index += is_tied && j < label;
    }
    *has_nan_out = has_nan;
    switch (ties) {
    case KOLO_TIES_LOWEST:
        return above + tied_below_index;
    case KOLO_TIES_HIGHEST:
        return above + tied - tied_below_index;
    case KOLO_TIES_OPTIMISTIC:
        return above;
    case KOLO_TIES_PESSIMISTIC:
        break;
    }
    return above + tied;
}

static bool is_ignored(const struct accuracy *accuracy, int64_t label)
{
    return accuracy->ignores && label == accuracy->ignore_index;
}

static uint32_t judge(const struct accuracy *accuracy, const float *scores, int64_t label)
{
    if (is_ignored(accuracy, label))
        return IGNORED;
    bool has_nan;
    int64_t before = rank_of_label(scores, accuracy->classes, label, accuracy->ties, &has_nan);
    uint32_t bits = (uint32_t)has_nan << NAN_BIT;
    for (int i = 0; i < accuracy->ks; i++)
        bits |= (uint32_t)(before < accuracy->k[i]) << i;
    return bits;
}

static kolo_status check_update(const struct kolo_metric *metric, const float *scores,
                                const int64_t *labels, size_t count)
{
    if ((!scores || !labels) && count > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_accuracy_update: %s is NULL",
                         scores ? "labels" : "scores");
    const struct accuracy *accuracy = (const struct accuracy *)metric;
    int64_t classes = accuracy->classes;
    for (size_t i = 0; i < count; i++)
        if ((labels[i] < 0 || labels[i] >= classes) && !is_ignored(accuracy, labels[i]))
            return kolo_metric_refuse_class("kolo_accuracy_update", "labels", i, labels[i],
                                            classes - 1, accuracy->ignores);
    return KOLO_OK;
}

static kolo_status update(struct kolo_metric *metric, const float *scores, const int64_t *labels,
                          size_t count, const int64_t *indices)
{
    kolo_status status = check_update(metric, scores, labels, count);
    if (status == KOLO_OK)
        status = kolo_metric_prepare("kolo_accuracy_update", metric, count,
                                     count * sizeof(uint32_t), indices);
    if (status != KOLO_OK)
        return status;
    const struct accuracy *accuracy = (const struct accuracy *)metric;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = judge(accuracy, scores + i * (size_t)accuracy->classes, labels[i]);
        kolo_metric_add(metric, indices ? indices + i : NULL, &bits, sizeof bits);
    }
    return KOLO_OK;
}

kolo_status kolo_accuracy_update(struct kolo_metric *metric, const float *scores,
                                 const int64_t *labels, size_t count, const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_accuracy_update"};
    kolo_status status = kolo_metric_check(metric, &accuracy_ops, stage.call);
    if (status != KOLO_OK)
        return status;
    size_t classes = (size_t)((const struct accuracy *)metric)->classes;
    scores = kolo_stage(&stage, "scores", scores, count, classes, sizeof *scores);
    labels = kolo_stage(&stage, "labels", labels, count, 1, sizeof *labels);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status =
        stage.status == KOLO_OK ? update(metric, scores, labels, count, indices) : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_accuracy_result(const struct kolo_metric *metric,
                                 struct kolo_accuracy_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &accuracy_ops, "kolo_accuracy_result",
                                                  result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    const struct accuracy *accuracy = (const struct accuracy *)metric;
    int64_t ignored = ignored_in(accuracy, metric->merged);
    int64_t counted = metric->counts.counted - ignored;
    struct kolo_accuracy_result result = {.size = sizeof result,
                                          .ks = accuracy->ks,
                                          .samples = metric->counts,
                                          .nan_samples = metric->merged[accuracy->ks],
                                          .ignored = ignored};
    result.samples.counted = counted;
    for (int i = 0; i < accuracy->ks; i++) {
        result.k[i] = accuracy->k[i];
        result.correct[i] = metric->merged[i];
        result.accuracy[i] = counted ? (double)metric->merged[i] / (double)counted : NAN;
    }
    *result_out = result;
    return KOLO_OK;
}
