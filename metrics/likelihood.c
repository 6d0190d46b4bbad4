// SPDX-License-Identifier: Apache-2.0
// Log loss and perplexity. Its words are an exact sum of -ln p, then the numbers of elements
// counted and ignored. The record of an indexed sample has a double for each element; NaN marks an
// ignored one.
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "metrics/stage.h"

#include <kolo/classification.h>

enum { ELEMENTS = KOLO_EXACT_WORDS, IGNORED, WORDS };

struct likelihood {
    struct kolo_metric metric;
    int64_t classes, ignore_index;
    bool logits, ignores;
    double floor;
    double *losses; /* of the elements of the current update */
    size_t loss_capacity;
};

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    (void)metric;
    const uint8_t *at = record;
    for (size_t i = 0; i < bytes / sizeof(double); i++) {
        double loss;
        memcpy(&loss, at + i * sizeof loss, sizeof loss);
        if (isnan(loss)) {
            words[IGNORED]++;
            continue;
        }
        words[ELEMENTS]++;
        kolo_exact_sum_add(kolo_exact_in(words), loss);
    }
}

static void carry(const struct kolo_metric *metric, int64_t *words)
{
    (void)metric;
    kolo_exact_sum_carry(kolo_exact_in(words));
}

static bool accepts_words(const struct kolo_metric *metric, const int64_t *words)
{
    (void)metric;
    return kolo_exact_accepts(words) && words[ELEMENTS] >= 0 &&
           words[ELEMENTS] <= KOLO_ELEMENT_COUNT_MAX && words[IGNORED] >= 0 &&
           words[IGNORED] <= KOLO_ELEMENT_COUNT_MAX;
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    (void)metric;
    const uint8_t *at = record;
    for (size_t i = 0; i < bytes / sizeof(double); i++) {
        double loss;
        memcpy(&loss, at + i * sizeof loss, sizeof loss);
        if (isinf(loss))
            return false;
    }
    return bytes % sizeof(double) == 0;
}

static void destroy(struct kolo_metric *metric)
{
    kolo_free_memory(((struct likelihood *)metric)->losses);
}

static const struct kolo_metric_ops likelihood_ops = {
    .name = "likelihood",
    .fold = fold,
    .carry = carry,
    .accepts_words = accepts_words,
    .accepts_record = accepts_record,
    .destroy = destroy,
};

static kolo_status check_config(const struct kolo_likelihood_config *config,
                                struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("likelihood", config, sizeof *config, metric_out);
    if (status != KOLO_OK)
        return status;
    if (config->classes < 1)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_likelihood_create: classes %lld is not positive",
                         (long long)config->classes);
    if (!(config->floor >= 0 && config->floor <= 1))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_likelihood_create: floor %g is not in 0..1",
                         config->floor);
    return KOLO_OK;
}

kolo_status kolo_likelihood_create(const struct kolo_likelihood_config *config,
                                   struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config, metric_out);
    if (status == KOLO_OK)
        status = kolo_metric_create(&likelihood_ops, sizeof(struct likelihood), config->samples,
                                    WORDS, metric_out);
    if (status != KOLO_OK)
        return status;
    struct likelihood *likelihood = (struct likelihood *)*metric_out;
    likelihood->classes = config->classes;
    likelihood->logits = config->logits;
    likelihood->floor = config->floor > 0 ? config->floor : DBL_EPSILON;
    likelihood->ignores = config->ignores;
    likelihood->ignore_index = config->ignores ? config->ignore_index : 0;
    kolo_metric_setting(*metric_out, &likelihood->classes, sizeof likelihood->classes);
    kolo_metric_setting(*metric_out, &likelihood->logits, sizeof likelihood->logits);
    kolo_metric_setting(*metric_out, &likelihood->floor, sizeof likelihood->floor);
    kolo_metric_setting(*metric_out, &likelihood->ignores, sizeof likelihood->ignores);
    kolo_metric_setting(*metric_out, &likelihood->ignore_index, sizeof likelihood->ignore_index);
    return KOLO_OK;
}

/* Returns -ln of the probability that softmax gives to the label. */
static double loss_of_logits(const float *logits, int64_t classes, int64_t label)
{
    double most = (double)logits[0], sum = 0;
    for (int64_t c = 1; c < classes; c++)
        most = (double)logits[c] > most ? (double)logits[c] : most;
    for (int64_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - most);
    return log(sum) - ((double)logits[label] - most);
}

static double loss_of(const struct likelihood *likelihood, const float *scores, int64_t label)
{
    if (likelihood->logits)
        return loss_of_logits(scores, likelihood->classes, label);
    double p = (double)scores[label];
    double loss = -log(p > likelihood->floor ? p : likelihood->floor);
    return loss > 0 ? loss : 0; /* never -0 */
}

static kolo_status check_scores(const struct likelihood *likelihood, const float *scores,
                                int64_t label, size_t element)
{
    for (int64_t c = 0; c < likelihood->classes; c++) {
        bool is_good = likelihood->logits
                           ? scores[c] < INFINITY && (c != label || isfinite(scores[c]))
                           : scores[c] >= 0 && scores[c] <= 1;
        if (!is_good)
            return kolo_fail(
                KOLO_ERR_INVALID,
                "kolo_likelihood_update: element %zu has %s %.9g for class %lld%s%s", element,
                likelihood->logits ? "the logit" : "the probability", (double)scores[c],
                (long long)c, c == label ? ", which is its label" : "",
                likelihood->logits ? "; logits are numbers, or -infinity for other classes"
                                   : "; give 0 to 1, or set logits if these are logits");
    }
    return KOLO_OK;
}

/* Writes likelihood->losses, which must have room for them. */
static kolo_status find_losses(struct likelihood *likelihood, const float *scores,
                               const int64_t *labels, size_t total)
{
    for (size_t i = 0; i < total; i++) {
        const float *own = scores + i * (size_t)likelihood->classes;
        likelihood->losses[i] = (double)NAN;
        if (likelihood->ignores && labels[i] == likelihood->ignore_index)
            continue;
        if (labels[i] < 0 || labels[i] >= likelihood->classes)
            return kolo_metric_refuse_class("kolo_likelihood_update", "labels", i, labels[i],
                                            likelihood->classes - 1, likelihood->ignores);
        kolo_status status = check_scores(likelihood, own, labels[i], i);
        if (status != KOLO_OK)
            return status;
        likelihood->losses[i] = loss_of(likelihood, own, labels[i]);
    }
    return KOLO_OK;
}

static kolo_status update(struct kolo_metric *metric, const float *scores, const int64_t *labels,
                          size_t count, size_t elements, const int64_t *indices)
{
    struct likelihood *likelihood = (struct likelihood *)metric;
    size_t total = count * elements, bytes;
    if (__builtin_mul_overflow(total, sizeof(double), &bytes))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_likelihood_update: %zu samples of %zu elements are too many", count,
                         elements);
    if (total && (!scores || !labels))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_likelihood_update: %s is NULL",
                         scores ? "labels" : "scores");
    kolo_status status = kolo_grow((void **)&likelihood->losses, &likelihood->loss_capacity, total,
                                   sizeof *likelihood->losses);
    if (status == KOLO_OK)
        status = find_losses(likelihood, scores, labels, total);
    if (status == KOLO_OK)
        status = kolo_metric_prepare("kolo_likelihood_update", metric, count, bytes, indices);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        kolo_metric_add(metric, indices ? indices + i : NULL, likelihood->losses + i * elements,
                        elements * sizeof(double));
    return status;
}

kolo_status kolo_likelihood_update(struct kolo_metric *metric, const float *scores,
                                   const int64_t *labels, size_t count, size_t elements,
                                   const int64_t *indices)
{
    struct kolo_stage stage = {.call = "kolo_likelihood_update"};
    kolo_status status = kolo_metric_check(metric, &likelihood_ops, stage.call);
    size_t total;
    if (status != KOLO_OK)
        return status;
    if (__builtin_mul_overflow(count, elements, &total))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_likelihood_update: %zu samples of %zu elements are too many", count,
                         elements);
    size_t classes = (size_t)((const struct likelihood *)metric)->classes;
    scores = kolo_stage(&stage, "scores", scores, total, classes, sizeof *scores);
    labels = kolo_stage(&stage, "labels", labels, total, 1, sizeof *labels);
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status = stage.status == KOLO_OK ? update(metric, scores, labels, count, elements, indices)
                                     : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_likelihood_result(const struct kolo_metric *metric,
                                   struct kolo_likelihood_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &likelihood_ops, "kolo_likelihood_result",
                                                  result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_exact_sum sum = kolo_exact_of(metric->merged);
    int64_t elements = metric->merged[ELEMENTS];
    double loss = elements ? kolo_exact_sum_value(&sum) / (double)elements : (double)NAN;
    *result_out = (struct kolo_likelihood_result){.size = sizeof *result_out,
                                                  .log_loss = loss,
                                                  .perplexity = exp(loss),
                                                  .elements = elements,
                                                  .ignored = metric->merged[IGNORED],
                                                  .samples = metric->counts};
    return KOLO_OK;
}
