// SPDX-License-Identifier: Apache-2.0
// Areas under curves. Its words are, for binned curves, the positives and negatives of each label
// and bin. For exact curves they are the areas of each label, which are made from the records after
// curve_exchange.c has sorted them over all ranks.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/curve.h"
#include "metrics/stage.h"

enum { NEGATIVE, POSITIVE, IGNORED, TRUTHS };

/* Returns a place that grows with falling scores; -0 counts as 0. @p score must not be NaN. */
static uint32_t exact_place(float score)
{
    float plain = score + 0.0F;
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    if (plain == 0)
        bits = 0;
    return ~(bits >> 31 ? ~bits : bits | UINT32_C(1) << 31);
}

static uint32_t bin_place(float score, int64_t bins)
{
    double at = (double)score * (double)bins;
    int64_t bin = at >= (double)bins ? bins - 1 : at > 0 ? (int64_t)at : 0;
    return (uint32_t)(bins - 1 - bin);
}

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    size_t bins = (size_t)((const struct kolo_curve *)metric)->bins;
    const uint8_t *at = record;
    for (size_t l = 0; l < bytes / sizeof(struct kolo_curve_entry); l++) {
        struct kolo_curve_entry entry;
        memcpy(&entry, at + l * sizeof entry, sizeof entry);
        if (entry.truth != IGNORED)
            words[(l * bins + entry.place) * 2 + entry.truth]++;
    }
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    int64_t most = ((const struct kolo_curve *)metric)->bins ? metric->direct_count : 0;
    for (size_t i = 0; i < metric->words; i++)
        if (words[i] < 0 || words[i] > most)
            return false;
    return true;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    const struct kolo_curve *curve = (const struct kolo_curve *)metric;
    const uint8_t *at = record;
    if (bytes != (size_t)curve->labels * sizeof(struct kolo_curve_entry))
        return false;
    for (int64_t l = 0; l < curve->labels; l++) {
        struct kolo_curve_entry entry;
        memcpy(&entry, at + (size_t)l * sizeof entry, sizeof entry);
        if (entry.truth >= TRUTHS || (curve->bins && entry.place >= curve->bins))
            return false;
    }
    return true;
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    for (size_t at = 0; at < metric->words; at += KOLO_AREA_WORDS)
        kolo_exact_sum_carry(kolo_exact_in(words + at + KOLO_AREA_PRECISION));
}

static void destroy(struct kolo_metric *metric)
{
    kolo_free_memory(((struct kolo_curve *)metric)->record);
}

static const struct kolo_metric_ops binned_ops = {
    .name = "curve",
    .fold = fold,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
    .destroy = destroy,
};

static const struct kolo_metric_ops exact_ops = {
    .name = "curve",
    .exchange = kolo_curve_exchange,
    .carry = carry,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
    .destroy = destroy,
};

/* Returns the table that this metric has if it is a curve. */
static const struct kolo_metric_ops *ops_of(const struct kolo_metric *metric)
{
    return metric && metric->ops == &exact_ops ? &exact_ops : &binned_ops;
}

static kolo_status check_config(const struct kolo_curve_config *config,
                                struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("curve", config, sizeof *config, metric_out);
    if (status == KOLO_OK)
        status =
            kolo_metric_check_range("curve", "labels", config->labels, 1, KOLO_CURVE_LABELS_MAX);
    if (status == KOLO_OK)
        status = kolo_metric_check_range("curve", "bins", config->bins, 0, KOLO_CURVE_BINS_MAX);
    return status;
}

kolo_status kolo_curve_create(const struct kolo_curve_config *config,
                              struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config, metric_out);
    if (status != KOLO_OK)
        return status;
    bool micro = config->micro && !config->bins;
    size_t words = config->bins ? (size_t)config->bins * 2 : KOLO_AREA_WORDS;
    struct kolo_metric *metric;
    status = kolo_metric_create(config->bins ? &binned_ops : &exact_ops, sizeof(struct kolo_curve),
                                config->samples, ((size_t)config->labels + micro) * words, &metric);
    if (status != KOLO_OK)
        return status;
    struct kolo_curve *curve = (struct kolo_curve *)metric;
    curve->labels = config->labels;
    curve->bins = config->bins;
    curve->micro = micro;
    kolo_metric_setting(metric, &curve->labels, sizeof curve->labels);
    kolo_metric_setting(metric, &curve->bins, sizeof curve->bins);
    /* Without micro nothing is added, so that states of older versions can be restored. */
    if (micro)
        kolo_metric_setting(metric, "micro", sizeof "micro");
    if (config->ignores) {
        curve->ignored = (struct kolo_ignored){.is_set = true, .index = config->ignore_index};
        kolo_metric_setting(metric, &curve->ignored.index, sizeof curve->ignored.index);
    }
    curve->record = kolo_calloc((size_t)curve->labels, sizeof *curve->record);
    if (!curve->record) {
        kolo_metric_destroy(metric);
        return KOLO_ERR_NO_MEMORY;
    }
    *metric_out = metric;
    return KOLO_OK;
}

/* The truths of an update: one for each element, or the class of each sample. */
struct truths {
    const char *call; /* the public function that got them, for messages */
    const char *what; /* what that calls them */
    const int8_t *each;
    const int64_t *classes;
};

/* Whether the whole sample is ignored. */
static bool is_ignored(const struct kolo_curve *curve, const struct truths *truths, size_t sample)
{
    return curve->ignored.is_set && truths->classes &&
           truths->classes[sample] == curve->ignored.index;
}

static kolo_status check_sample(const struct kolo_curve *curve, const float *scores,
                                const struct truths *truths, size_t sample)
{
    size_t labels = (size_t)curve->labels;
    if (is_ignored(curve, truths, sample))
        return KOLO_OK;
    if (truths->classes &&
        (truths->classes[sample] < 0 || truths->classes[sample] >= curve->labels))
        return kolo_metric_refuse_class(truths->call, "classes", sample, truths->classes[sample],
                                        curve->labels - 1, curve->ignored.is_set);
    for (size_t i = sample * labels; i < (sample + 1) * labels; i++)
        if (isnan(scores[i]))
            return kolo_fail(KOLO_ERR_INVALID, "%s: scores[%zu] is NaN", truths->call, i);
    return KOLO_OK;
}

static kolo_status check_update(const struct kolo_metric *metric, const float *scores,
                                const struct truths *truths, size_t count)
{
    const struct kolo_curve *curve = (const struct kolo_curve *)metric;
    kolo_status status = KOLO_OK;
    if (count > 0 && (!scores || (!truths->each && !truths->classes)))
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL", truths->call,
                         scores ? truths->what : "scores");
    if (truths->each)
        status = kolo_truths_check(truths->call, &curve->ignored, truths->each,
                                   count * (size_t)curve->labels);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        status = check_sample(curve, scores, truths, i);
    return status;
}

static struct kolo_curve_entry entry_of(const struct kolo_curve *curve, float score, uint32_t truth)
{
    return (struct kolo_curve_entry){
        .place = curve->bins ? bin_place(score, curve->bins) : exact_place(score), .truth = truth};
}

static uint32_t truth_of(const struct kolo_curve *curve, const struct truths *truths, size_t sample,
                         size_t label)
{
    if (truths->classes)
        return truths->classes[sample] == (int64_t)label ? POSITIVE : NEGATIVE;
    int8_t truth = truths->each[sample * (size_t)curve->labels + label];
    return kolo_truth_is_ignored(&curve->ignored, truth) ? IGNORED : (uint32_t)truth;
}

static kolo_status update_staged(struct kolo_metric *metric, const float *scores,
                                 const struct truths *truths, size_t count, const int64_t *indices)
{
    kolo_status status = check_update(metric, scores, truths, count);
    if (status != KOLO_OK)
        return status;
    struct kolo_curve *curve = (struct kolo_curve *)metric;
    size_t labels = (size_t)curve->labels, bytes = labels * sizeof *curve->record;
    status = kolo_metric_prepare(truths->call, metric, count, count * bytes, indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        bool is_out = is_ignored(curve, truths, i);
        for (size_t l = 0; l < labels; l++)
            curve->record[l] =
                is_out ? entry_of(curve, 0, IGNORED)
                       : entry_of(curve, scores[i * labels + l], truth_of(curve, truths, i, l));
        kolo_metric_add(metric, indices ? indices + i : NULL, curve->record, bytes);
    }
    return status;
}

static kolo_status update(struct kolo_metric *metric, const float *scores,
                          const struct truths *given, size_t count, const int64_t *indices)
{
    struct kolo_stage stage = {.call = given->call};
    kolo_status status = kolo_metric_check(metric, ops_of(metric), stage.call);
    if (status != KOLO_OK)
        return status;
    size_t labels = (size_t)((const struct kolo_curve *)metric)->labels;
    scores = kolo_stage(&stage, "scores", scores, count, labels, sizeof *scores);
    const struct truths truths = {
        .call = given->call,
        .what = given->what,
        .each = kolo_stage(&stage, "truths", given->each, count, labels, sizeof *given->each),
        .classes = kolo_stage(&stage, "classes", given->classes, count, 1, sizeof *given->classes)};
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status = stage.status == KOLO_OK ? update_staged(metric, scores, &truths, count, indices)
                                     : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_curve_update(struct kolo_metric *metric, const float *scores, const int8_t *truths,
                              size_t count, const int64_t *indices)
{
    const struct truths each = {.call = "kolo_curve_update", .what = "truths", .each = truths};
    return update(metric, scores, &each, count, indices);
}

kolo_status kolo_curve_update_classes(struct kolo_metric *metric, const float *scores,
                                      const int64_t *classes, size_t count, const int64_t *indices)
{
    const struct truths by_class = {
        .call = "kolo_curve_update_classes", .what = "classes", .classes = classes};
    return update(metric, scores, &by_class, count, indices);
}

void kolo_area_add(struct kolo_area *area, int64_t positives, int64_t negatives)
{
    uint64_t higher_twice = 2 * (uint64_t)area->positives + (uint64_t)positives;
    area->twice_pairs += (kolo_pairs)higher_twice * (kolo_pairs)negatives;
    area->positives += positives;
    area->negatives += negatives;
    if (positives == 0)
        return;
    double precision = (double)area->positives / (double)(area->positives + area->negatives);
    kolo_exact_sum_add(&area->precision, (double)positives * precision);
}

static struct kolo_area area_of(const struct kolo_curve *curve, int64_t label)
{
    struct kolo_area area = {.positives = 0};
    if (curve->bins) {
        const int64_t *words = curve->metric.merged + label * curve->bins * 2;
        for (int64_t b = 0; b < curve->bins; b++)
            kolo_area_add(&area, words[b * 2 + POSITIVE], words[b * 2 + NEGATIVE]);
        return area;
    }
    const int64_t *words = curve->metric.merged + label * KOLO_AREA_WORDS;
    for (int i = KOLO_AREA_LIMBS - 1; i >= 0; i--)
        area.twice_pairs = (area.twice_pairs << 32) + (uint64_t)words[i];
    area.positives = words[KOLO_AREA_POSITIVES];
    area.negatives = words[KOLO_AREA_NEGATIVES];
    area.precision = kolo_exact_of(words + KOLO_AREA_PRECISION);
    return area;
}

static struct kolo_curve_label label_from(struct kolo_area *area)
{
    kolo_pairs pairs = (kolo_pairs)area->positives * (kolo_pairs)area->negatives;
    return (struct kolo_curve_label){
        .auroc = pairs ? (double)area->twice_pairs / (double)(2 * pairs) : (double)NAN,
        .average_precision = area->positives
                                 ? kolo_exact_sum_value(&area->precision) / (double)area->positives
                                 : (double)NAN,
        .positives = area->positives,
        .negatives = area->negatives,
    };
}

static struct kolo_curve_label label_of(const struct kolo_curve *curve, int64_t label)
{
    struct kolo_area area = area_of(curve, label);
    return label_from(&area);
}

/* ---- averages ---- */

/* Returns the areas of all elements: binned, from the sums over the labels of each bin; exact,
 * those of the curve after the labels. */
static struct kolo_curve_label all_elements(const struct kolo_curve *curve)
{
    if (!curve->bins)
        return label_of(curve, curve->labels);
    struct kolo_area area = {.positives = 0};
    for (int64_t b = 0; b < curve->bins; b++) {
        int64_t positives = 0, negatives = 0;
        for (int64_t l = 0; l < curve->labels; l++) {
            const int64_t *words = curve->metric.merged + (l * curve->bins + b) * 2;
            positives += words[POSITIVE];
            negatives += words[NEGATIVE];
        }
        kolo_area_add(&area, positives, negatives);
    }
    return label_from(&area);
}

/* Returns the mean areas over the labels that have them, weighted by their positives if asked. */
static struct kolo_curve_label mean_of(const struct kolo_curve *curve, bool is_weighted)
{
    double aurocs = 0, precisions = 0, with_auroc = 0, with_precision = 0;
    struct kolo_curve_label mean = {.positives = 0};
    for (int64_t l = 0; l < curve->labels; l++) {
        struct kolo_curve_label label = label_of(curve, l);
        double weight = is_weighted ? (double)label.positives : 1;
        mean.positives += label.positives;
        mean.negatives += label.negatives;
        if (label.positives == 0)
            continue;
        with_precision += weight;
        precisions += weight * label.average_precision;
        if (label.negatives == 0)
            continue;
        with_auroc += weight;
        aurocs += weight * label.auroc;
    }
    mean.auroc = with_auroc > 0 ? aurocs / with_auroc : (double)NAN;
    mean.average_precision = with_precision > 0 ? precisions / with_precision : (double)NAN;
    return mean;
}

kolo_status kolo_curve_result(const struct kolo_metric *metric,
                              struct kolo_curve_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, ops_of(metric), "kolo_curve_result",
                                                  result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_curve_label mean = mean_of((const struct kolo_curve *)metric, false);
    *result_out = (struct kolo_curve_result){
        .size = sizeof *result_out,
        .auroc = mean.auroc,
        .average_precision = mean.average_precision,
        .samples = metric->counts,
    };
    return KOLO_OK;
}

kolo_status kolo_curve_labels(const struct kolo_metric *metric, struct kolo_curve_label *labels_out,
                              size_t count)
{
    kolo_status status = kolo_metric_check_result(metric, ops_of(metric), "kolo_curve_labels",
                                                  "labels_out", labels_out);
    if (status != KOLO_OK)
        return status;
    const struct kolo_curve *curve = (const struct kolo_curve *)metric;
    if (count < (size_t)curve->labels)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_curve_labels: count is %zu, but labels_out gets %lld", count,
                         (long long)curve->labels);
    for (int64_t l = 0; l < curve->labels; l++)
        labels_out[l] = label_of(curve, l);
    return KOLO_OK;
}

kolo_status kolo_curve_average(const struct kolo_metric *metric, kolo_average average,
                               struct kolo_curve_label *average_out)
{
    kolo_status status = kolo_metric_check_result(metric, ops_of(metric), "kolo_curve_average",
                                                  "average_out", average_out);
    if (status != KOLO_OK)
        return status;
    const struct kolo_curve *curve = (const struct kolo_curve *)metric;
    switch (average) {
    case KOLO_AVERAGE_MACRO:
    case KOLO_AVERAGE_WEIGHTED:
        *average_out = mean_of(curve, average == KOLO_AVERAGE_WEIGHTED);
        return KOLO_OK;
    case KOLO_AVERAGE_MICRO:
        if (!curve->bins && !curve->micro)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_curve_average: the micro average of exact curves needs a curve "
                             "of all elements: set micro in the config");
        *average_out = all_elements(curve);
        return KOLO_OK;
    case KOLO_AVERAGE_NONE:
        return kolo_fail(
            KOLO_ERR_INVALID,
            "kolo_curve_average: KOLO_AVERAGE_NONE: call kolo_curve_labels() for that");
    }
    return kolo_fail(KOLO_ERR_INVALID, "kolo_curve_average: unknown average %d; use a kolo_average",
                     (int)average);
}
