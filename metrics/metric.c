// SPDX-License-Identifier: Apache-2.0
// The life of a metric on one rank: owns its words and records. It must never communicate
// (compute.c does), nor know any kind of metric.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "metrics/metric.h"

static size_t seen_words(int64_t samples)
{
    return (size_t)samples / 64 + 1;
}

/* This thread's detail says which allocation failed. */
static kolo_status no_memory(const struct kolo_metric_ops *ops, size_t words, int64_t samples)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    return kolo_fail(KOLO_ERR_NO_MEMORY, "kolo_%s_create: %s, for %zu numbers and %lld samples",
                     ops->name, detail, words, (long long)samples);
}

kolo_status kolo_metric_create(const struct kolo_metric_ops *ops, size_t bytes, int64_t samples,
                               size_t words, struct kolo_metric **metric_out)
{
    if (samples < 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_%s_create: samples %lld is negative", ops->name,
                         (long long)samples);
    struct kolo_metric *metric = kolo_calloc(1, bytes);
    if (!metric)
        return no_memory(ops, words, samples);
    metric->ops = ops;
    metric->samples = samples;
    metric->settings = KOLO_HASH_START;
    metric->words = words;
    metric->direct = kolo_calloc(words, sizeof *metric->direct);
    metric->merged = kolo_calloc(words, sizeof *metric->merged);
    if (samples > 0)
        metric->seen = kolo_calloc(seen_words(samples), sizeof *metric->seen);
    if (!metric->direct || !metric->merged || (samples > 0 && !metric->seen)) {
        kolo_metric_destroy(metric);
        return no_memory(ops, words, samples);
    }
    *metric_out = metric;
    return KOLO_OK;
}

void kolo_metric_setting(struct kolo_metric *metric, const void *value, size_t bytes)
{
    metric->settings = kolo_hash(metric->settings, value, bytes);
}

void kolo_metric_destroy(struct kolo_metric *metric)
{
    if (!metric)
        return;
    if (metric->ops->destroy)
        metric->ops->destroy(metric);
    kolo_free_memory(metric->direct);
    kolo_free_memory(metric->merged);
    kolo_free_memory(metric->seen);
    kolo_free_memory(metric->indices);
    kolo_free_memory(metric->ends);
    kolo_free_memory(metric->records);
    kolo_free_memory(metric);
}

void kolo_metric_reset(struct kolo_metric *metric)
{
    if (!metric)
        return;
    if (metric->seen)
        memset(metric->seen, 0, seen_words(metric->samples) * sizeof *metric->seen);
    memset(metric->direct, 0, metric->words * sizeof *metric->direct);
    metric->record_count = 0;
    metric->local_duplicates = 0;
    metric->direct_count = 0;
    metric->is_computed = false;
    if (metric->ops->store)
        metric->ops->store->clear(metric);
}

static size_t bytes_used(const struct kolo_metric *metric)
{
    return metric->record_count ? metric->ends[metric->record_count - 1] : 0;
}

static kolo_status check_indices(const char *function, const struct kolo_metric *metric,
                                 size_t count, const int64_t *indices)
{
    if (!metric->samples && indices)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: indices given, but the metric was created with samples 0; pass NULL, "
                         "or set samples to the size of the data set",
                         function);
    if (metric->samples && !indices && count > 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: indices is NULL, but the metric was created with samples %lld; pass "
                         "the index of each sample, or leave samples 0",
                         function, (long long)metric->samples);
    for (size_t i = 0; indices && i < count; i++)
        if (indices[i] < 0 || indices[i] >= metric->samples)
            return kolo_fail(KOLO_ERR_INVALID,
                             "%s: indices[%zu] is %lld, not in 0..%lld, as samples is %lld",
                             function, i, (long long)indices[i], (long long)metric->samples - 1,
                             (long long)metric->samples);
    return KOLO_OK;
}

kolo_status kolo_metric_check_more(const char *function, const struct kolo_metric *metric,
                                   size_t count)
{
    if (count <= (uint64_t)(KOLO_COUNT_MAX - metric->direct_count))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s: %zu samples more than the %lld so far are too many; a metric counts up "
                     "to %lld",
                     function, count, (long long)metric->direct_count, (long long)KOLO_COUNT_MAX);
}

kolo_status kolo_metric_prepare(const char *function, struct kolo_metric *metric, size_t count,
                                size_t bytes, const int64_t *indices)
{
    kolo_status status = check_indices(function, metric, count, indices);
    if (status == KOLO_OK)
        status = kolo_metric_check_more(function, metric, count);
    if (status != KOLO_OK || (!metric->samples && !metric->ops->exchange))
        return status;
    size_t need = metric->record_count + count;
    KOLO_TRY(kolo_grow((void **)&metric->indices, &metric->index_capacity, need,
                       sizeof *metric->indices));
    KOLO_TRY(kolo_grow((void **)&metric->ends, &metric->end_capacity, need, sizeof *metric->ends));
    KOLO_TRY(kolo_grow((void **)&metric->records, &metric->record_capacity,
                       bytes_used(metric) + bytes, 1));
out:
    return status;
}

static void append(struct kolo_metric *metric, int64_t index, const void *record, size_t bytes)
{
    size_t begin = bytes_used(metric), i = metric->record_count++;
    metric->indices[i] = index;
    metric->ends[i] = begin + bytes;
    if (bytes)
        memcpy(metric->records + begin, record, bytes);
}

void kolo_metric_add(struct kolo_metric *metric, const int64_t *index, const void *record,
                     size_t bytes)
{
    metric->is_computed = false;
    if (!index) {
        metric->direct_count++;
        if (metric->ops->exchange)
            append(metric, -1, record, bytes);
        else
            metric->ops->fold(metric, metric->direct, record, bytes);
        return;
    }
    uint64_t *word = metric->seen + *index / 64, bit = UINT64_C(1) << *index % 64;
    if (*word & bit) {
        metric->local_duplicates++;
        return;
    }
    *word |= bit;
    append(metric, *index, record, bytes);
}

int64_t *kolo_metric_count_direct(struct kolo_metric *metric, size_t count)
{
    if (count > 0)
        metric->is_computed = false;
    metric->direct_count += (int64_t)count;
    return metric->direct;
}

const void *kolo_metric_record(const struct kolo_metric *metric, size_t i, size_t *bytes_out)
{
    size_t begin = i ? metric->ends[i - 1] : 0;
    *bytes_out = metric->ends[i] - begin;
    return metric->records + begin;
}

kolo_status kolo_metric_check_config(const char *kind, const void *config, size_t size,
                                     struct kolo_metric **metric_out)
{
    char function[64], type[64];
    snprintf(function, sizeof function, "kolo_%s_create", kind);
    snprintf(type, sizeof type, "kolo_%s_config", kind);
    kolo_status status = kolo_check_struct(function, "config", type, config, size);
    if (status == KOLO_OK && !metric_out)
        status = kolo_fail(KOLO_ERR_INVALID, "%s: metric_out is NULL", function);
    return status;
}

kolo_status kolo_metric_check_range(const char *kind, const char *field, int64_t value, int64_t low,
                                    int64_t high)
{
    if (value < low || value > high)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_%s_create: %s %lld is not in %lld..%lld", kind,
                         field, (long long)value, (long long)low, (long long)high);
    return KOLO_OK;
}

bool kolo_metric_accepts_counts(const struct kolo_metric *metric, const int64_t *words)
{
    int64_t sum = 0;
    for (size_t i = 0; i < metric->words; i++) {
        if (words[i] < 0 || words[i] > KOLO_ELEMENT_COUNT_MAX - sum)
            return false;
        sum += words[i];
    }
    return true;
}

kolo_status kolo_metric_check(const struct kolo_metric *metric, const struct kolo_metric_ops *ops,
                              const char *function)
{
    if (!metric)
        return kolo_fail(KOLO_ERR_INVALID, "%s: the metric is NULL", function);
    if (metric->ops != ops)
        return kolo_fail(KOLO_ERR_INVALID, "%s: the metric is of kind '%s', not '%s'", function,
                         metric->ops->name, ops->name);
    return KOLO_OK;
}

kolo_status kolo_metric_check_result(const struct kolo_metric *metric,
                                     const struct kolo_metric_ops *ops, const char *function,
                                     const char *what, const void *out)
{
    kolo_status status = kolo_metric_check(metric, ops, function);
    if (status != KOLO_OK)
        return status;
    if (!metric->is_computed)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: not computed since the last update; call kolo_metrics_compute() on "
                         "all ranks",
                         function);
    return out ? KOLO_OK : kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL", function, what);
}

kolo_status kolo_metric_check_struct(const struct kolo_metric *metric,
                                     const struct kolo_metric_ops *ops, const char *function,
                                     const void *result_out, size_t size)
{
    kolo_status status = kolo_metric_check_result(metric, ops, function, "result_out", result_out);
    return status == KOLO_OK ? kolo_check_struct(function, "result_out", function, result_out, size)
                             : status;
}

kolo_status kolo_metric_refuse_class(const char *function, const char *what, size_t i,
                                     int64_t value, int64_t last, bool has_ignore_index)
{
    return kolo_fail(KOLO_ERR_INVALID, "%s: %s[%zu] is %lld, not in 0..%lld%s", function, what, i,
                     (long long)value, (long long)last,
                     has_ignore_index
                         ? " and not the config's ignore_index"
                         : "; to leave such samples out, set ignores and ignore_index");
}
