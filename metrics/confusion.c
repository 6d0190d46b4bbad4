// SPDX-License-Identifier: Apache-2.0
// The confusion matrix. Its words are the matrix, with a row for each label, then the number of
// ignored elements and the number of elements with a NaN score. The record of an indexed sample is
// a list of words and by how much each grows, so the record of an image has at most as many entries
// as there are pairs of classes in it.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "metrics/score.h"
#include "metrics/stage.h"

/* 128 bits, for products of two counts. */
__extension__ typedef __int128 wide;

struct pair {
    uint32_t word, count;
};

struct confusion {
    struct kolo_metric metric;
    int64_t classes, ignore_index;
    bool ignores;
    int64_t elements;              /* in the merged matrix */
    int64_t *labelled, *predicted; /* per class: sums of the rows and columns of that matrix */
    uint32_t *counts; /* per word; zero between updates; only if samples have indices */
    struct pair *pairs;
    size_t pair_capacity;
};

/* The arguments of an update. */
struct source {
    const char *call;           /* the public function, for messages */
    const char *guesses;        /* what that calls the predictions */
    const int64_t *predictions; /* or */
    const float *scores;
    const int64_t *labels;
    size_t count, elements;
};

static void fold(const struct kolo_metric *metric, int64_t *words, const void *record, size_t bytes)
{
    (void)metric;
    const uint8_t *at = record;
    for (size_t i = 0; i < bytes / sizeof(struct pair); i++) {
        struct pair pair;
        memcpy(&pair, at + i * sizeof pair, sizeof pair);
        words[pair.word] += pair.count;
    }
}

static bool accepts_record(const struct kolo_metric *metric, const void *record, size_t bytes)
{
    const uint8_t *at = record;
    for (size_t i = 0; i < bytes / sizeof(struct pair); i++) {
        struct pair pair;
        memcpy(&pair, at + i * sizeof pair, sizeof pair);
        if (pair.word >= metric->words)
            return false;
    }
    return bytes % sizeof(struct pair) == 0;
}

/* Sums rows and columns in one pass along the rows: reading column by column would miss the
 * cache in every row. */
static kolo_status finish(struct kolo_metric *metric)
{
    struct confusion *confusion = (struct confusion *)metric;
    size_t classes = (size_t)confusion->classes;
    const int64_t *row = metric->merged;
    confusion->elements = 0;
    memset(confusion->predicted, 0, classes * sizeof *confusion->predicted);
    for (size_t label = 0; label < classes; label++, row += classes) {
        int64_t sum = 0;
        for (size_t c = 0; c < classes; c++) {
            sum += row[c];
            confusion->predicted[c] += row[c];
        }
        confusion->labelled[label] = sum;
        confusion->elements += sum;
    }
    return KOLO_OK;
}

static void destroy(struct kolo_metric *metric)
{
    struct confusion *confusion = (struct confusion *)metric;
    kolo_free_memory(confusion->labelled);
    kolo_free_memory(confusion->predicted);
    kolo_free_memory(confusion->counts);
    kolo_free_memory(confusion->pairs);
}

static const struct kolo_metric_ops confusion_ops = {
    .name = "confusion",
    .fold = fold,
    .finish = finish,
    .accepts_words = kolo_metric_accepts_counts,
    .accepts_record = accepts_record,
    .destroy = destroy,
};

static kolo_status check_config(const struct kolo_confusion_config *config,
                                struct kolo_metric **metric_out)
{
    kolo_status status = kolo_metric_check_config("confusion", config, sizeof *config, metric_out);
    if (status == KOLO_OK)
        status = kolo_metric_check_range("confusion", "classes", config->classes, 1,
                                         KOLO_CONFUSION_CLASSES_MAX);
    return status;
}

kolo_status kolo_confusion_create(const struct kolo_confusion_config *config,
                                  struct kolo_metric **metric_out)
{
    kolo_status status = check_config(config, metric_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_metric *metric;
    size_t words = (size_t)config->classes * (size_t)config->classes + 2;
    status = kolo_metric_create(&confusion_ops, sizeof(struct confusion), config->samples, words,
                                &metric);
    if (status != KOLO_OK)
        return status;
    struct confusion *confusion = (struct confusion *)metric;
    confusion->classes = config->classes;
    confusion->ignores = config->ignores;
    confusion->ignore_index = config->ignores ? config->ignore_index : 0;
    kolo_metric_setting(metric, &confusion->classes, sizeof confusion->classes);
    kolo_metric_setting(metric, &confusion->ignores, sizeof confusion->ignores);
    kolo_metric_setting(metric, &confusion->ignore_index, sizeof confusion->ignore_index);
    size_t classes = (size_t)config->classes;
    confusion->labelled = kolo_calloc(classes, sizeof *confusion->labelled);
    confusion->predicted = kolo_calloc(classes, sizeof *confusion->predicted);
    if (config->samples)
        confusion->counts = kolo_calloc(words, sizeof *confusion->counts);
    if (!confusion->labelled || !confusion->predicted || (config->samples && !confusion->counts)) {
        kolo_metric_destroy(metric);
        return KOLO_ERR_NO_MEMORY;
    }
    *metric_out = metric;
    return KOLO_OK;
}

static bool is_class(const struct confusion *confusion, int64_t value)
{
    return value >= 0 && value < confusion->classes;
}

static bool is_ignored(const struct confusion *confusion, int64_t label)
{
    return confusion->ignores && label == confusion->ignore_index;
}

static kolo_status check_source(const struct confusion *confusion, const struct source *source)
{
    size_t total;
    if (__builtin_mul_overflow(source->count, source->elements, &total) ||
        source->elements > UINT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "%s: %zu samples of %zu elements are too many",
                         source->call, source->count, source->elements);
    if (total && (!source->labels || (!source->predictions && !source->scores)))
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL", source->call,
                         source->labels ? source->guesses : "labels");
    for (size_t i = 0; i < total; i++) {
        if (is_ignored(confusion, source->labels[i]))
            continue;
        if (!is_class(confusion, source->labels[i]))
            return kolo_metric_refuse_class(source->call, "labels", i, source->labels[i],
                                            confusion->classes - 1, confusion->ignores);
        if (source->predictions && !is_class(confusion, source->predictions[i]))
            return kolo_fail(KOLO_ERR_INVALID, "%s: predictions[%zu] is %lld, not in 0..%lld",
                             source->call, i, (long long)source->predictions[i],
                             (long long)confusion->classes - 1);
    }
    return KOLO_OK;
}

/* Returns the lowest class with the highest score; NaN is the highest. */
static int64_t highest(const float *scores, int64_t classes, bool *has_nan_out)
{
    int64_t best = 0;
    *has_nan_out = false;
    for (int64_t c = 0; c < classes; c++) {
        if (isnan(scores[c]) && !*has_nan_out) {
            *has_nan_out = true;
            best = c;
        }
        if (!*has_nan_out && scores[c] > scores[best])
            best = c;
    }
    return best;
}

/* Finds the words to which one element adds 1, and returns their number. */
static int words_of(const struct confusion *confusion, const struct source *source, size_t element,
                    size_t words_out[2])
{
    size_t classes = (size_t)confusion->classes, cells = classes * classes;
    int64_t label = source->labels[element];
    if (is_ignored(confusion, label)) {
        words_out[0] = cells;
        return 1;
    }
    bool has_nan = false;
    int64_t prediction = source->predictions ? source->predictions[element]
                                             : highest(source->scores + element * classes,
                                                       confusion->classes, &has_nan);
    words_out[0] = (size_t)label * classes + (size_t)prediction;
    words_out[1] = cells + 1;
    return has_nan ? 2 : 1;
}

/* Returns how many pairs the record of one sample has. If @p writes, also writes it to
 * confusion->pairs, which must have room for it. */
static size_t make_record(struct confusion *confusion, const struct source *source, size_t sample,
                          bool writes)
{
    size_t pairs = 0, first = sample * source->elements, words[2];
    for (size_t e = first; e < first + source->elements; e++)
        for (int w = words_of(confusion, source, e, words); w-- > 0;)
            pairs += confusion->counts[words[w]]++ == 0;
    size_t written = 0;
    for (size_t e = first; e < first + source->elements; e++)
        for (int w = words_of(confusion, source, e, words); w-- > 0;) {
            uint32_t *count = confusion->counts + words[w];
            if (*count && writes)
                confusion->pairs[written++] = (struct pair){(uint32_t)words[w], *count};
            *count = 0;
        }
    return pairs;
}

static kolo_status add_indexed(struct confusion *confusion, const struct source *source,
                               const int64_t *indices)
{
    size_t all = 0, most = 0;
    for (size_t i = 0; i < source->count; i++) {
        size_t pairs = make_record(confusion, source, i, false);
        all += pairs;
        most = pairs > most ? pairs : most;
    }
    kolo_status status =
        kolo_grow((void **)&confusion->pairs, &confusion->pair_capacity, most, sizeof(struct pair));
    if (status == KOLO_OK)
        status = kolo_metric_prepare(source->call, &confusion->metric, source->count,
                                     all * sizeof(struct pair), indices);
    for (size_t i = 0; status == KOLO_OK && i < source->count; i++) {
        size_t pairs = make_record(confusion, source, i, true);
        kolo_metric_add(&confusion->metric, indices + i, confusion->pairs,
                        pairs * sizeof(struct pair));
    }
    return status;
}

static kolo_status update_staged(struct kolo_metric *metric, const struct source *source,
                                 const int64_t *indices)
{
    struct confusion *confusion = (struct confusion *)metric;
    kolo_status status = check_source(confusion, source);
    if (status == KOLO_OK)
        status = kolo_metric_prepare(source->call, metric, source->count, 0, indices);
    if (status != KOLO_OK || source->count == 0)
        return status;
    if (indices)
        return add_indexed(confusion, source, indices);
    for (size_t e = 0; e < source->count * source->elements; e++) {
        size_t words[2];
        for (int w = words_of(confusion, source, e, words); w-- > 0;)
            metric->direct[words[w]]++;
    }
    metric->direct_count += (int64_t)source->count;
    metric->is_computed = false;
    return KOLO_OK;
}

static kolo_status update(struct kolo_metric *metric, const struct source *given,
                          const int64_t *indices)
{
    struct kolo_stage stage = {.call = given->call};
    kolo_status status = kolo_metric_check(metric, &confusion_ops, stage.call);
    size_t count = given->count, elements = given->elements;
    if (status != KOLO_OK)
        return status;
    size_t classes = (size_t)((const struct confusion *)metric)->classes;
    const struct source source = {
        .call = given->call,
        .guesses = given->guesses,
        .predictions = kolo_stage(&stage, "predictions", given->predictions, count, elements,
                                  sizeof *given->predictions),
        .scores =
            kolo_stage(&stage, "scores", given->scores, count, classes, sizeof *given->scores),
        .labels =
            kolo_stage(&stage, "labels", given->labels, count, elements, sizeof *given->labels),
        .count = count,
        .elements = elements};
    indices = kolo_stage(&stage, "indices", indices, count, 1, sizeof *indices);
    status = stage.status == KOLO_OK ? update_staged(metric, &source, indices) : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_confusion_update(struct kolo_metric *metric, const int64_t *predictions,
                                  const int64_t *labels, size_t count, size_t elements,
                                  const int64_t *indices)
{
    const struct source source = {.call = "kolo_confusion_update",
                                  .guesses = "predictions",
                                  .predictions = predictions,
                                  .labels = labels,
                                  .count = count,
                                  .elements = elements};
    return update(metric, &source, indices);
}

kolo_status kolo_confusion_update_scores(struct kolo_metric *metric, const float *scores,
                                         const int64_t *labels, size_t count,
                                         const int64_t *indices)
{
    const struct source source = {.call = "kolo_confusion_update_scores",
                                  .guesses = "scores",
                                  .scores = scores,
                                  .labels = labels,
                                  .count = count,
                                  .elements = 1};
    return update(metric, &source, indices);
}

static struct kolo_outcomes outcomes_of(const struct kolo_metric *metric, int64_t number)
{
    const struct confusion *confusion = (const struct confusion *)metric;
    size_t own = (size_t)number;
    int64_t hits = metric->merged[own * (size_t)confusion->classes + own];
    int64_t labelled = confusion->labelled[own], predicted = confusion->predicted[own];
    return (struct kolo_outcomes){.tp = hits,
                                  .fp = predicted - hits,
                                  .fn = labelled - hits,
                                  .tn = confusion->elements - labelled - predicted + hits};
}

/* Chance agreement and similar terms are 128-bit integers until the one division. */
static void set_agreement(const struct kolo_metric *metric, struct kolo_confusion_result *result)
{
    int64_t classes = ((const struct confusion *)metric)->classes, trace = 0, occurring = 0;
    wide chance = 0, labels = 0, predictions = 0, all = (wide)result->elements * result->elements;
    double recalls = 0;
    for (int64_t c = 0; c < classes; c++) {
        struct kolo_outcomes o = outcomes_of(metric, c);
        int64_t labelled = o.tp + o.fn, predicted = o.tp + o.fp;
        trace += o.tp;
        occurring += labelled > 0;
        recalls += labelled ? (double)o.tp / (double)labelled : 0;
        chance += (wide)labelled * predicted;
        labels += (wide)labelled * labelled;
        predictions += (wide)predicted * predicted;
    }
    wide beyond = (wide)trace * result->elements - chance;
    double spread = (double)(all - labels) * (double)(all - predictions);
    result->accuracy = result->elements ? (double)trace / (double)result->elements : (double)NAN;
    result->balanced_accuracy = occurring ? recalls / (double)occurring : (double)NAN;
    result->kappa = all != chance ? (double)beyond / (double)(all - chance) : (double)NAN;
    result->matthews = spread > 0 ? (double)beyond / sqrt(spread) : 0;
}

kolo_status kolo_confusion_result(const struct kolo_metric *metric,
                                  struct kolo_confusion_result *result_out)
{
    kolo_status status = kolo_metric_check_struct(metric, &confusion_ops, "kolo_confusion_result",
                                                  result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_confusion_result result = {.size = sizeof result,
                                           .elements = ((const struct confusion *)metric)->elements,
                                           .ignored = metric->merged[metric->words - 2],
                                           .nan_elements = metric->merged[metric->words - 1],
                                           .samples = metric->counts};
    set_agreement(metric, &result);
    *result_out = result;
    return KOLO_OK;
}

kolo_status kolo_confusion_counts(const struct kolo_metric *metric, int64_t *counts_out,
                                  size_t count)
{
    kolo_status status = kolo_metric_check_result(metric, &confusion_ops, "kolo_confusion_counts",
                                                  "counts_out", counts_out);
    if (status != KOLO_OK)
        return status;
    if (count < metric->words - 2)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_confusion_counts: count is %zu, but counts_out gets %zu", count,
                         metric->words - 2);
    memcpy(counts_out, metric->merged, (metric->words - 2) * sizeof *counts_out);
    return KOLO_OK;
}

kolo_status kolo_confusion_score(const struct kolo_metric *metric,
                                 const struct kolo_score_config *config, double *values_out,
                                 size_t count)
{
    kolo_status status = kolo_metric_check_result(metric, &confusion_ops, "kolo_confusion_score",
                                                  "values_out", values_out);
    if (status != KOLO_OK)
        return status;
    return kolo_scores(metric, outcomes_of, ((const struct confusion *)metric)->classes,
                       "kolo_confusion_score", config, values_out, count);
}
