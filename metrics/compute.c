// SPDX-License-Identifier: Apache-2.0
// Computes several metrics together over all ranks. Owns the buffers of one compute. It must know
// no kind of metric, and never change a state.
//
// The sequence of collectives is the same on every rank, whatever data it holds:
//   1. Agree: an int64 min over three things. Whether each rank could prepare: a rank that is out
// of
//      memory makes the call fail on all ranks instead of making them hang. The kinds, sizes and
//      configurations of the metrics: if ranks differ, compute_differ.c says in what. And which
//      compute their results are from: if that is the same one everywhere and nothing was updated
//      since, the call ends here.
//   2. For each metric with samples, per 2^20 sample indices: an int32 min over "rank, if it has a
//      record". The lowest rank counts the sample, the others count a duplicate. If no rank has a
//      record, the sample is missing.
//   3. For each metric whose records are sorted over all ranks, or which has a state in a form of
//      its own: its own exchange.
//   4. One int64 sum over the words of all metrics.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "metrics/metric.h"
#include "runtime/choose.h"
#include "runtime/comm.h"
#include "runtime/group.h"
#include "runtime/scale.h"
#include "runtime/submit.h"

enum { OWNER_BITS = 20, OWNERS = 1 << OWNER_BITS };
/* In the buffer of the sum, COMMON_WORDS come before the words of each metric, and STAMP_WORDS
 * once before everything. */
enum { COUNTED, DUPLICATES, COMMON_WORDS };
enum { STAMP_WORDS = 1 };
enum { REASON_BYTES = 512 }; /* of the detail of a rank that failed, as others have it */

/* Buffers of one compute, sized before the first collective. */
struct work {
    struct kolo_metric *const *metrics;
    size_t count;
    int64_t *words; /* STAMP_WORDS; then, for each metric, COMMON_WORDS and its state */
    size_t word_count;
    int32_t *owners;
    size_t *order;  /* record numbers sorted by chunk of indices */
    size_t *starts; /* where the records of each chunk start in order */
    size_t *chosen; /* numbers of the records that this rank counts, if they are exchanged */
    size_t chosen_count;
};

static int64_t chunks_of(const struct kolo_metric *metric)
{
    return metric->samples / OWNERS + (metric->samples % OWNERS != 0);
}

static size_t words_of(const struct kolo_metric *metric)
{
    return COMMON_WORDS + metric->words;
}

static kolo_status allocate(struct work *work)
{
    size_t records = 0;
    int64_t chunks = 0;
    work->word_count = STAMP_WORDS;
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
    work->chosen = kolo_calloc(records, sizeof *work->chosen);
    work->starts = kolo_calloc((size_t)chunks + 1, sizeof *work->starts);
    return work->words && work->owners && work->order && work->chosen && work->starts
               ? KOLO_OK
               : KOLO_ERR_NO_MEMORY;
}

static void release(struct work *work)
{
    kolo_free_memory(work->words);
    kolo_free_memory(work->owners);
    kolo_free_memory(work->order);
    kolo_free_memory(work->chosen);
    kolo_free_memory(work->starts);
}

uint64_t kolo_metric_shape(const struct kolo_metric *metric)
{
    uint64_t shape = kolo_hash_text(KOLO_HASH_START, metric->ops->name);
    shape = kolo_hash_word(shape, (uint64_t)metric->samples);
    shape = kolo_hash_word(shape, metric->settings);
    return kolo_hash_word(shape, words_of(metric));
}

/* Returns a number that is the same on ranks whose metrics have the same kinds, sizes and
 * configurations. */
static int64_t shape_of(const struct work *work)
{
    uint64_t shape = work->count;
    for (size_t i = 0; i < work->count; i++)
        shape = kolo_hash_word(shape, kolo_metric_shape(work->metrics[i]));
    return (int64_t)(shape >> 2);
}

/* Returns a number that is the same on all ranks, and not 0, if all hold the results of the same
 * compute over the same number of ranks as now, which then are the same ranks. */
static int64_t cached_of(const struct work *work, int size)
{
    uint64_t cached = KOLO_HASH_START;
    for (size_t i = 0; i < work->count; i++) {
        const struct kolo_metric *metric = work->metrics[i];
        if (!metric->is_computed || metric->computed_size != size)
            return 0;
        cached = kolo_hash_word(cached, (uint64_t)metric->computed_by);
    }
    return (int64_t)(cached >> 2 | 1);
}

/* ---- agreeing ---- */

/* Returns a word such that the least of all ranks' words has the gravest status, and the lowest
 * rank that has it. */
static int64_t word_of(const struct kolo_comm *comm, kolo_status mine)
{
    return mine == KOLO_OK ? 0 : (int64_t)mine * (INT64_C(1) << 32) + kolo_rank(comm);
}

/* Why rank @p rank has failed, for all ranks. A rank without memory could perhaps not begin this
 * collective, and needs no further words. */
static kolo_status tell_reason(struct kolo_comm *comm, int rank, kolo_status status,
                               const char *detail, char reason[REASON_BYTES],
                               const struct kolo_opts *opts)
{
    static const char function[] = "kolo_metrics_compute: ";
    const size_t begin = sizeof function - 1;
    memset(reason, 0, REASON_BYTES);
    if (status == KOLO_ERR_NO_MEMORY)
        return KOLO_OK;
    if (kolo_rank(comm) == rank)
        snprintf(reason, REASON_BYTES, ": %s",
                 strncmp(detail, function, begin) == 0 ? detail + begin : detail);
    kolo_status told = kolo_broadcast(comm, reason, REASON_BYTES, KOLO_UINT8, rank, opts, NULL);
    reason[REASON_BYTES - 1] = '\0'; /* whatever was received */
    return told;
}

/* Returns the status of the call from the least word of all ranks. A rank that failed keeps its
 * own status and @p detail. */
static kolo_status verdict(struct kolo_comm *comm, int64_t word, kolo_status mine,
                           const char *detail, const struct kolo_opts *opts)
{
    char who[KOLO_RANK_TEXT_MAX], reason[REASON_BYTES];
    if (word == 0)
        return KOLO_OK;
    const int rank = (int)(word & UINT32_MAX);
    const kolo_status status = (kolo_status)(word >> 32);
    const kolo_status told = tell_reason(comm, rank, status, detail, reason, opts);
    if (told != KOLO_OK)
        return told;
    if (mine == KOLO_OK)
        return kolo_fail(status, "kolo_metrics_compute: %s: %s%s",
                         kolo_comm_rank_text(comm, rank, who), kolo_status_text(status), reason);
    kolo_detail_set(detail);
    return mine;
}

kolo_status kolo_metric_agree(struct kolo_comm *comm, kolo_status mine,
                              const struct kolo_opts *opts)
{
    int64_t word = word_of(comm, mine);
    char detail[KOLO_DETAIL_MAX]; /* kept, because the collective may write another */
    kolo_detail_keep(detail);
    kolo_status status = kolo_allreduce(comm, &word, &word, 1, KOLO_INT64, KOLO_MIN, opts, NULL);
    return status == KOLO_OK ? verdict(comm, word, mine, detail, opts) : status;
}

/* The first collective of a compute is a call of its own kind: if another rank calls something
 * else, the error on both names both calls. */
static struct kolo_task task_of(const struct kolo_opts *opts)
{
    return (struct kolo_task){.kind = KOLO_CALL_COMPUTE,
                              .function = "kolo_metrics_compute",
                              .dtype = KOLO_INT64,
                              .op = KOLO_MIN,
                              .in_place = true,
                              .is_own = true,
                              .opts = opts};
}

/* Step 1. @p mine is the status of this rank's preparation. */
static kolo_status agree(struct kolo_comm *comm, const struct work *work, kolo_status mine,
                         bool *is_cached_out, const struct kolo_opts *opts)
{
    enum { WORD, SHAPE, MINUS_SHAPE, CACHED, MINUS_CACHED, FACTS };
    int64_t shape = mine == KOLO_OK ? shape_of(work) : 0;
    int64_t cached = mine == KOLO_OK ? cached_of(work, kolo_size(comm)) : 0;
    int64_t facts[FACTS] = {word_of(comm, mine), shape, -shape, cached, -cached};
    char detail[KOLO_DETAIL_MAX]; /* as in kolo_metric_agree() */
    kolo_detail_keep(detail);
    struct kolo_task task = task_of(opts);
    task.send = task.recv = facts;
    task.count = FACTS;
    task.send_bytes = task.recv_bytes = sizeof facts;
    kolo_status status = kolo_task_run(comm, &task);
    if (status == KOLO_OK)
        status = verdict(comm, facts[WORD], mine, detail, opts);
    if (status != KOLO_OK)
        return status;
    if (facts[SHAPE] != -facts[MINUS_SHAPE])
        return kolo_metrics_differ(comm, work->metrics, work->count, opts);
    *is_cached_out = cached && facts[CACHED] == -facts[MINUS_CACHED];
    return KOLO_OK;
}

/* Sorts the record numbers by chunk, with a counting sort. */
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

static void count_record(struct work *work, const struct kolo_metric *metric, int64_t *words,
                         size_t record)
{
    if (metric->ops->exchange) {
        work->chosen[work->chosen_count++] = record;
        return;
    }
    size_t bytes;
    const void *data = kolo_metric_record(metric, record, &bytes);
    metric->ops->fold(metric, words, data, bytes);
}

/* Step 2 for one chunk of indices: counts the records whose samples this rank has to count. */
static kolo_status settle_chunk(struct kolo_comm *comm, struct work *work,
                                struct kolo_metric *metric, int64_t *words, size_t chunk,
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
            count_record(work, metric, words, record);
        } else {
            metric->counts.duplicates++;
        }
    }
    return KOLO_OK;
}

/* Steps 2 and 3 for one metric: writes to @p words what this rank adds to the sum. */
static kolo_status settle(struct kolo_comm *comm, struct work *work, struct kolo_metric *metric,
                          int64_t *words, const struct kolo_opts *opts)
{
    metric->is_computed = false;
    metric->counts = (struct kolo_sample_counts){.counted = metric->direct_count,
                                                 .duplicates = metric->local_duplicates};
    work->chosen_count = 0;
    memcpy(words, metric->direct, metric->words * sizeof *words);
    kolo_status status = KOLO_OK;
    if (metric->samples)
        sort_by_chunk(work, metric);
    for (size_t chunk = 0; status == KOLO_OK && chunk < (size_t)chunks_of(metric); chunk++)
        status = settle_chunk(comm, work, metric, words, chunk, opts);
    for (size_t i = 0; !metric->samples && i < metric->record_count; i++)
        count_record(work, metric, words, i);
    if (status == KOLO_OK && metric->ops->exchange)
        status = metric->ops->exchange(metric, comm, work->chosen, work->chosen_count, words, opts);
    if (status == KOLO_OK && metric->ops->carry)
        metric->ops->carry(metric, words);
    return status;
}

static kolo_status settle_all(struct kolo_comm *comm, struct work *work,
                              const struct kolo_opts *opts)
{
    int64_t *at = work->words + STAMP_WORDS;
    for (size_t i = 0; i < work->count; at += words_of(work->metrics[i++])) {
        struct kolo_metric *metric = work->metrics[i];
        kolo_status status = settle(comm, work, metric, at + COMMON_WORDS, opts);
        if (status != KOLO_OK)
            return status;
        at[COUNTED] = metric->counts.counted;
        at[DUPLICATES] = metric->counts.duplicates;
    }
    return KOLO_OK;
}

static kolo_status finish(const struct kolo_comm *comm, struct kolo_metric *metric,
                          const int64_t *at, int64_t stamp)
{
    metric->counts.counted = at[COUNTED];
    metric->counts.duplicates = at[DUPLICATES];
    memcpy(metric->merged, at + COMMON_WORDS, metric->words * sizeof *at);
    metric->warns = kolo_rank(comm) == 0;
    kolo_status status = metric->ops->finish ? metric->ops->finish(metric) : KOLO_OK;
    metric->is_computed = status == KOLO_OK;
    metric->computed_by = stamp;
    metric->computed_size = kolo_size(comm);
    return status;
}

/* Says which of several metrics has failed. Its detail begins with its kind. */
static kolo_status name_failed(const struct work *work, size_t i, kolo_status status)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    return work->count > 1 ? kolo_fail(status, "kolo_metrics_compute: metrics[%zu], %s", i, detail)
                           : status;
}

/* Step 4. If policies fail, the call returns the first failure after all metrics have results. */
static kolo_status merge(struct kolo_comm *comm, struct work *work, const struct kolo_opts *opts)
{
    /* The sum of the ranks' clocks identifies this compute; another is unlikely to have the
     * same. */
    work->words[0] =
        (int64_t)(kolo_hash_word((uint64_t)kolo_now_ns(), (uint64_t)kolo_rank(comm)) >> 34);
    kolo_status status = kolo_allreduce(comm, work->words, work->words, work->word_count,
                                        KOLO_INT64, KOLO_SUM, opts, NULL);
    if (status != KOLO_OK)
        return status;
    const int64_t *at = work->words + STAMP_WORDS;
    char detail[KOLO_DETAIL_MAX];
    for (size_t i = 0; i < work->count; at += words_of(work->metrics[i++])) {
        kolo_status finished = finish(comm, work->metrics[i], at, work->words[0]);
        if (status == KOLO_OK && finished != KOLO_OK) {
            status = name_failed(work, i, finished);
            kolo_detail_keep(detail);
        }
    }
    if (status != KOLO_OK)
        kolo_detail_set(detail);
    return status;
}

/* Checks the list of this rank. A failure is told to the other ranks in step 1. */
static kolo_status check(struct kolo_metric *const *metrics, size_t count)
{
    if (!metrics && count > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metrics_compute: metrics is NULL");
    for (size_t i = 0; i < count; i++)
        if (!metrics[i])
            return kolo_fail(KOLO_ERR_INVALID, "kolo_metrics_compute: metrics[%zu] is NULL", i);
    return KOLO_OK;
}

/* Runs all steps. @p mine is the status of this rank's preparation. If a rank cannot even begin to
 * agree, the others must hear that too: nobody could tell that failure from one of which they know.
 */
static kolo_status run(struct kolo_comm *comm, struct work *work, kolo_status mine,
                       const struct kolo_opts *opts)
{
    bool is_cached = false;
    kolo_comm_bind(comm, true);
    kolo_status status = agree(comm, work, mine, &is_cached, opts);
    if (status == KOLO_OK && !is_cached)
        status = settle_all(comm, work, opts);
    if (status == KOLO_OK && !is_cached)
        status = merge(comm, work, opts);
    kolo_comm_bind(comm, false);
    return status;
}

kolo_status kolo_metrics_compute(struct kolo_comm *comm, struct kolo_metric *const *metrics,
                                 size_t count, const struct kolo_opts *opts)
{
    kolo_status status = kolo_comm_check(comm, "kolo_metrics_compute");
    if (status == KOLO_OK)
        status = kolo_group_none(comm, "kolo_metrics_compute");
    if (status != KOLO_OK)
        return status;
    const struct kolo_task task = task_of(opts);
    struct kolo_opts named = {.size = sizeof named};
    status = kolo_task_check(comm, &task);
    if (status == KOLO_OK) {
        status = check(metrics, count);
    } else { /* the others must be told: keep only the name, which their calls have too */
        if (opts && kolo_opts_size_is_known(opts->size))
            named.name = opts->name;
        opts = &named;
    }
    struct work work = {.metrics = metrics, .count = status == KOLO_OK ? count : 0};
    if (status == KOLO_OK)
        status = allocate(&work);
    kolo_comm_own(comm, true); /* a plan forced for the program's calls must not refuse these */
    status = run(comm, &work, status, opts);
    kolo_comm_own(comm, false);
    release(&work);
    return status;
}
