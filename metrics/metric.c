// SPDX-License-Identifier: Apache-2.0
// The life of a metric, and computing several together. Owns the records and the packed state;
// talks to other ranks only by kolo_allreduce.
//
// Computing is the same sequence of collectives on every rank, whatever it holds:
//   1. agree: int64 min over what each rank could prepare (so that a rank out of memory fails all,
//   not hangs them), and
//      over the kinds and sizes of the metrics (so that ranks that differ are told so);
//   2. for each metric with samples, per 2^20 sample indices: int32 min over "rank, if it has a
//   record": the lowest rank
//      counts the sample, the others count a duplicate, nobody: it is missing;
//   3. one int64 sum over the packed states of all metrics.
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "runtime/comm.h"

enum { OWNER_BITS = 20, OWNERS = 1 << OWNER_BITS, COMMON_WORDS = 2 };

/* Buffers of one compute, sized before the first collective. */
struct work {
    struct kolo_metric *const *metrics;
    size_t count;
    int64_t *words;
    size_t word_count;
    int32_t *owners;
    size_t *order;  /* record numbers sorted by chunk of indices */
    size_t *starts; /* where each chunk's records start in order */
};

kolo_status kolo_metric_create(const struct kolo_metric_ops *ops, size_t bytes, int64_t samples,
                               struct kolo_metric **metric_out)
{
    if (samples < 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_%s_create: samples %lld is negative", ops->name,
                         (long long)samples);
    struct kolo_metric *metric = kolo_calloc(1, bytes);
    if (!metric)
        return KOLO_ERR_NO_MEMORY;
    metric->ops = ops;
    metric->samples = samples;
    if (samples > 0) {
        metric->seen = kolo_calloc((size_t)samples / 64 + 1, sizeof *metric->seen);
        if (!metric->seen) {
            kolo_metric_destroy(metric);
            return KOLO_ERR_NO_MEMORY;
        }
    }
    *metric_out = metric;
    return KOLO_OK;
}

void kolo_metric_destroy(struct kolo_metric *metric)
{
    if (!metric)
        return;
    kolo_free_memory(metric->seen);
    kolo_free_memory(metric->indices);
    kolo_free_memory(metric->records);
    kolo_free_memory(metric);
}

void kolo_metric_reset(struct kolo_metric *metric)
{
    if (metric->seen)
        memset(metric->seen, 0, ((size_t)metric->samples / 64 + 1) * sizeof *metric->seen);
    metric->record_count = 0;
    metric->local_duplicates = 0;
    metric->direct_count = 0;
    metric->is_computed = false;
    metric->ops->reset(metric);
}

kolo_status kolo_metric_prepare(struct kolo_metric *metric, size_t count, const int64_t *indices)
{
    const char *name = metric->ops->name;
    if (!metric->samples && indices)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_%s_update: indices given, but the metric was created with samples 0",
                         name);
    if (!metric->samples || count == 0)
        return KOLO_OK;
    if (!indices)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_%s_update: indices is NULL, but the metric was created with samples "
                         "%lld",
                         name, (long long)metric->samples);
    for (size_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= metric->samples)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_%s_update: indices[%zu] is %lld, not in 0..%lld", name, i,
                             (long long)indices[i], (long long)metric->samples - 1);
    size_t need = metric->record_count + count;
    kolo_status status = kolo_grow((void **)&metric->indices, &metric->index_capacity, need,
                                   sizeof *metric->indices);
    if (status == KOLO_OK)
        status = kolo_grow((void **)&metric->records, &metric->record_capacity, need,
                           metric->ops->record_bytes);
    return status;
}

void kolo_metric_record(struct kolo_metric *metric, int64_t index, const void *record)
{
    uint64_t *word = metric->seen + index / 64, bit = UINT64_C(1) << index % 64;
    metric->is_computed = false;
    if (*word & bit) {
        metric->local_duplicates++;
        return;
    }
    *word |= bit;
    size_t bytes = metric->ops->record_bytes;
    metric->indices[metric->record_count] = index;
    memcpy(metric->records + metric->record_count * bytes, record, bytes);
    metric->record_count++;
}

static int64_t chunks_of(const struct kolo_metric *metric)
{
    return (metric->samples + OWNERS - 1) >> OWNER_BITS;
}

static size_t words_of(const struct kolo_metric *metric)
{
    return COMMON_WORDS + metric->ops->words(metric);
}

static kolo_status allocate(struct work *work)
{
    size_t records = 0;
    int64_t chunks = 0;
    for (size_t i = 0; i < work->count; i++) {
        const struct kolo_metric *metric = work->metrics[i];
        work->word_count += words_of(metric);
        if (metric->record_count > records)
            records = metric->record_count;
        if (chunks_of(metric) > chunks)
            chunks = chunks_of(metric);
    }
    work->words = kolo_calloc(work->word_count, sizeof *work->words);
    work->owners = kolo_calloc(chunks ? OWNERS : 0, sizeof *work->owners);
    work->order = kolo_calloc(records, sizeof *work->order);
    work->starts = kolo_calloc((size_t)chunks + 1, sizeof *work->starts);
    return work->words && work->owners && work->order && work->starts ? KOLO_OK
                                                                      : KOLO_ERR_NO_MEMORY;
}

static void release(struct work *work)
{
    kolo_free_memory(work->words);
    kolo_free_memory(work->owners);
    kolo_free_memory(work->order);
    kolo_free_memory(work->starts);
}

/* A number that is the same on ranks whose lists of metrics are of the same kinds and sizes. */
static int64_t shape_of(const struct work *work)
{
    uint64_t shape = work->count;
    for (size_t i = 0; i < work->count; i++) {
        const struct kolo_metric *metric = work->metrics[i];
        for (const char *c = metric->ops->name; *c; c++)
            shape = shape * 1099511628211u + (uint64_t)*c;
        shape = shape * 1099511628211u + (uint64_t)metric->samples;
        shape = shape * 1099511628211u + words_of(metric);
    }
    return (int64_t)(shape >> 2);
}

/* Step 1: @p mine is what this rank could prepare. */
static kolo_status agree(struct kolo_comm *comm, const struct work *work, kolo_status mine,
                         const struct kolo_opts *opts)
{
    int64_t shape = mine == KOLO_OK ? shape_of(work) : 0;
    int64_t facts[3] = {mine == KOLO_OK, shape, -shape};
    kolo_status status = kolo_allreduce(comm, facts, facts, 3, KOLO_INT64, KOLO_MIN, opts, NULL);
    if (status != KOLO_OK || mine != KOLO_OK)
        return status != KOLO_OK ? status : mine;
    if (!facts[0])
        return kolo_fail(KOLO_ERR_NO_MEMORY, "kolo_metrics_compute: another rank is out of memory");
    if (facts[1] != -facts[2])
        return kolo_fail(KOLO_ERR_MISMATCH,
                         "kolo_metrics_compute: the ranks passed metrics of different kinds or "
                         "sizes; pass the same list on all");
    return KOLO_OK;
}

/* Sorts the record numbers by chunk: a counting sort. */
static void sort_by_chunk(struct work *work, const struct kolo_metric *metric)
{
    size_t chunks = (size_t)chunks_of(metric);
    memset(work->starts, 0, (chunks + 1) * sizeof *work->starts);
    for (size_t i = 0; i < metric->record_count; i++)
        work->starts[(metric->indices[i] >> OWNER_BITS) + 1]++;
    for (size_t chunk = 0; chunk < chunks; chunk++)
        work->starts[chunk + 1] += work->starts[chunk];
    for (size_t i = metric->record_count; i-- > 0;) { /* fills each chunk's part from its end */
        size_t chunk = (size_t)(metric->indices[i] >> OWNER_BITS);
        work->order[--work->starts[chunk + 1]] = i;
    }
    /* starts[chunk + 1] is now where chunk begins */
}

static size_t chunk_begin(const struct work *work, size_t chunk)
{
    return work->starts[chunk + 1];
}

static size_t chunk_end(const struct work *work, const struct kolo_metric *metric, size_t chunk)
{
    return chunk + 1 < (size_t)chunks_of(metric) ? work->starts[chunk + 2] : metric->record_count;
}

/* Step 2 for one chunk of indices: counts the records that are this rank's to count. */
static kolo_status settle_chunk(struct kolo_comm *comm, struct work *work,
                                struct kolo_metric *metric, size_t chunk,
                                const struct kolo_opts *opts)
{
    int64_t first = (int64_t)chunk << OWNER_BITS;
    int64_t count = metric->samples - first < OWNERS ? metric->samples - first : OWNERS;
    size_t begin = chunk_begin(work, chunk), end = chunk_end(work, metric, chunk);
    for (int64_t i = 0; i < count; i++)
        work->owners[i] = INT32_MAX;
    for (size_t i = begin; i < end; i++)
        work->owners[metric->indices[work->order[i]] - first] = kolo_rank(comm);
    kolo_status status = kolo_allreduce(comm, work->owners, work->owners, (size_t)count, KOLO_INT32,
                                        KOLO_MIN, opts, NULL);
    if (status != KOLO_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        metric->counts.missing += work->owners[i] == INT32_MAX;
    for (size_t i = begin; i < end; i++) {
        size_t record = work->order[i];
        if (work->owners[metric->indices[record] - first] == kolo_rank(comm)) {
            metric->counts.counted++;
            metric->ops->fold(metric, metric->records + record * metric->ops->record_bytes);
        } else {
            metric->counts.duplicates++;
        }
    }
    return KOLO_OK;
}

static kolo_status settle(struct kolo_comm *comm, struct work *work, struct kolo_metric *metric,
                          const struct kolo_opts *opts)
{
    metric->ops->begin(metric);
    metric->counts = (struct kolo_sample_counts){.counted = metric->direct_count,
                                                 .duplicates = metric->local_duplicates};
    if (!metric->samples)
        return KOLO_OK;
    sort_by_chunk(work, metric);
    kolo_status status = KOLO_OK;
    for (size_t chunk = 0; status == KOLO_OK && chunk < (size_t)chunks_of(metric); chunk++)
        status = settle_chunk(comm, work, metric, chunk, opts);
    return status;
}

/* Step 3. The first policy failure is the call's, after all metrics have their results. */
static kolo_status merge(struct kolo_comm *comm, struct work *work, const struct kolo_opts *opts)
{
    int64_t *at = work->words;
    for (size_t i = 0; i < work->count; at += words_of(work->metrics[i++])) {
        at[0] = work->metrics[i]->counts.counted;
        at[1] = work->metrics[i]->counts.duplicates;
        work->metrics[i]->ops->pack(work->metrics[i], at + COMMON_WORDS);
    }
    kolo_status status = kolo_allreduce(comm, work->words, work->words, work->word_count,
                                        KOLO_INT64, KOLO_SUM, opts, NULL);
    if (status != KOLO_OK)
        return status;
    at = work->words;
    for (size_t i = 0; i < work->count; at += words_of(work->metrics[i++])) {
        struct kolo_metric *metric = work->metrics[i];
        metric->counts.counted = at[0];
        metric->counts.duplicates = at[1];
        kolo_status finished = metric->ops->finish(metric, at + COMMON_WORDS);
        metric->is_computed = finished == KOLO_OK;
        if (status == KOLO_OK)
            status = finished;
    }
    return status;
}

kolo_status kolo_metrics_compute(struct kolo_comm *comm, struct kolo_metric *const *metrics,
                                 size_t count, const struct kolo_opts *opts)
{
    if (!comm || (!metrics && count > 0))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metrics_compute: comm or metrics is NULL");
    for (size_t i = 0; i < count; i++)
        if (!metrics[i])
            return kolo_fail(KOLO_ERR_INVALID, "kolo_metrics_compute: metrics[%zu] is NULL", i);
    struct work work = {.metrics = metrics, .count = count};
    kolo_status status = kolo_group_none(comm, "kolo_metrics_compute");
    if (status != KOLO_OK)
        return status;
    status = agree(comm, &work, allocate(&work), opts);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        status = settle(comm, &work, metrics[i], opts);
    if (status == KOLO_OK)
        status = merge(comm, &work, opts);
    release(&work);
    return status;
}
