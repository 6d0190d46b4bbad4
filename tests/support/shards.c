// SPDX-License-Identifier: Apache-2.0
// See shards.h.
#include "tests/support/shards.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/metric_calls.h"
#include "tests/support/world.h"

enum way { STRIDED, BLOCK, HASHED, ALL_ON_LAST, PADDED, EVERYTHING, WAYS };

struct job {
    const struct shard_kind *kind;
    enum way way;
    bool is_indexed;
    uint8_t result[SHARD_RESULT_MAX];
};

uint64_t shard_hash(uint64_t x)
{
    x = (x + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    return x ^ x >> 27;
}

static bool holds(const struct job *job, int64_t i, int rank, int nranks)
{
    switch (job->way) {
    case STRIDED:
        return i % nranks == rank;
    case BLOCK:
        return i * nranks / job->kind->samples == rank;
    case HASHED:
        return (int)(shard_hash((uint64_t)i) % (uint64_t)nranks) == rank;
    case ALL_ON_LAST:
        return rank == nranks - 1;
    case PADDED: /* the first samples a second time, on another rank */
        return i % nranks == rank || (i < nranks && (i + 1) % nranks == rank);
    case EVERYTHING:
    case WAYS:
        break;
    }
    return true;
}

/* Replaces the metric by a copy that was saved and restored. */
static kolo_status reload(const struct shard_kind *kind, int64_t samples,
                          struct kolo_metric **metric)
{
    struct kolo_metric *copy = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    kolo_status status;
    KOLO_TRY(kolo_metric_save(*metric, NULL, 0, &size));
    bytes = kolo_calloc(size, 1);
    KOLO_TRY(bytes ? KOLO_OK : KOLO_ERR_NO_MEMORY);
    KOLO_TRY(kolo_metric_save(*metric, bytes, size, &size));
    KOLO_TRY(kind->create(samples, &copy));
    KOLO_TRY(kolo_metric_restore(copy, bytes, size));
    kolo_metric_destroy(*metric);
    *metric = copy;
    copy = NULL;
out:
    kolo_free_memory(bytes);
    kolo_metric_destroy(copy);
    return status;
}

/* The first half goes into @p first, the second into @p second; odd ranks go backwards. */
static kolo_status feed(struct kolo_comm *comm, const struct job *job, struct kolo_metric *first,
                        struct kolo_metric *second)
{
    int64_t samples = job->kind->samples;
    for (int64_t n = 0; n < samples; n++) {
        int64_t i = kolo_rank(comm) % 2 ? samples - 1 - n : n;
        if (!holds(job, i, kolo_rank(comm), kolo_size(comm)))
            continue;
        struct kolo_metric *metric = n < samples / 2 ? first : second;
        kolo_status status = job->kind->update(metric, i, job->is_indexed ? &i : NULL);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

/* The collectives of a compute; metrics of samples with indices make one more. */
enum { AGREE_AND_SUM = 2 };

static kolo_status rank_main(struct kolo_comm *comm, void *argument)
{
    struct job *job = argument;
    const struct shard_kind *kind = job->kind;
    struct kolo_metric *metric = NULL, *second = NULL;
    int64_t samples = job->is_indexed ? kind->samples : 0;
    uint8_t result[SHARD_RESULT_MAX] = {0};
    kolo_status status;
    KOLO_TRY(kind->create(samples, &metric));
    KOLO_TRY(kind->create(samples, &second));
    KOLO_TRY(feed(comm, job, metric, second));
    if (kolo_rank(comm) % 3 == 1)
        KOLO_TRY(reload(kind, samples, &metric));
    KOLO_TRY(kolo_metric_merge(metric, second));
    KOLO_TRY(
        metric_compute_in(AGREE_AND_SUM + job->is_indexed + kind->exchanges, comm, &metric, 1));
    KOLO_TRY(kind->result(metric, result));
    if (kolo_rank(comm) == kolo_size(comm) / 2)
        memcpy(job->result, result, sizeof result);
out:
    kolo_metric_destroy(metric);
    kolo_metric_destroy(second);
    return status;
}

static void run(struct job *job, const char *transport, int nranks)
{
    struct world world = {.size = nranks, .transport = transport};
    cr_assert_eq(world_run(&world, rank_main, job), KOLO_OK, "%d ranks over %s, way %d: %s", nranks,
                 transport ? transport : "auto", job->way, world_cause(&world)->text);
}

void shards_agree(const struct shard_kind *kind, void *result_out)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8, 16};
    static const char *const transports[] = {"inproc", "shm", "tcp"};
    struct job one = {.kind = kind};
    run(&one, NULL, 1);
    int turn = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int indexed = 0; indexed < 2; indexed++)
            for (int way = STRIDED; way < (indexed ? (int)WAYS : (int)PADDED); way++) {
                struct job job = {.kind = kind, .way = (enum way)way, .is_indexed = indexed};
                run(&job, transports[turn++ % 3], sizes[s]);
                cr_assert_arr_eq(job.result, one.result, kind->result_bytes,
                                 "%d ranks, way %d, indexed %d", sizes[s], way, indexed);
            }
    memcpy(result_out, one.result, kind->result_bytes);
}
