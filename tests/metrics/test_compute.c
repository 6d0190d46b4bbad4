// SPDX-License-Identifier: Apache-2.0
// Computing metrics together: the same bits for any number of ranks and distribution of samples,
// padding counted once, missing samples reported, several metrics in one compute, and errors that
// all ranks return.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/metrics.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "tests/support/metric_calls.h"
#include "tests/support/world.h"

enum { SAMPLES = 1003, CLASSES = 4 };
static double losses[SAMPLES];
static float scores[SAMPLES * CLASSES];
static int64_t labels[SAMPLES];

static uint64_t hash(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    return (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
}

static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES; i++) {
        losses[i] = ldexp((double)(int64_t)hash(i + 1), (int)(hash(i) % 90) - 120);
        labels[i] = (int64_t)(hash(i + 7) % CLASSES);
        for (uint64_t c = 0; c < CLASSES; c++)
            scores[i * CLASSES + c] = (float)(hash(i * CLASSES + c) % 3);
    }
}

/* Collectives of a compute: one to agree, one for a chunk of each of two metrics, one for the
 * sum. */
enum { CALLS_OF_TWO = 1 + 2 + 1, CALLS_OF_FOUR_CHUNKS = 1 + 4 + 1 };

enum shard { STRIDED, BLOCK, HASHED, ALL_ON_LAST, PADDED, EVERYTHING, SHARDS };

static bool holds(enum shard shard, int64_t i, int rank, int nranks)
{
    switch (shard) {
    case STRIDED:
        return i % nranks == rank;
    case BLOCK:
        return i * nranks / SAMPLES == rank;
    case HASHED:
        return (int)(hash((uint64_t)i) % (uint64_t)nranks) == rank;
    case ALL_ON_LAST:
        return rank == nranks - 1;
    case PADDED: /* the first samples a second time, on another rank */
        return i % nranks == rank || (i < nranks && (i + 1) % nranks == rank);
    case EVERYTHING:
    case SHARDS:
        break;
    }
    return true;
}

struct outcome {
    struct kolo_mean_result mean;
    struct kolo_accuracy_result accuracy;
};
struct job {
    enum shard shard;
    int64_t left_out; /* no rank gets the samples before this one */
    struct outcome outcome;
};

static kolo_status feed(struct kolo_comm *comm, const struct job *job, struct kolo_metric **metrics)
{
    for (int64_t n = 0; n < SAMPLES; n++) {
        int64_t i = kolo_rank(comm) % 2 ? SAMPLES - 1 - n : n; /* odd ranks go backwards */
        if (i < job->left_out || !holds(job->shard, i, kolo_rank(comm), kolo_size(comm)))
            continue;
        kolo_status status = kolo_mean_update_float64(metrics[0], losses + i, 1, &i);
        if (status == KOLO_OK)
            status = kolo_accuracy_update(metrics[1], scores + i * CLASSES, labels + i, 1, &i);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct job *job = arg;
    struct kolo_metric *metrics[2] = {NULL, NULL};
    struct outcome outcome = {.mean.size = sizeof outcome.mean,
                              .accuracy.size = sizeof outcome.accuracy};
    struct kolo_mean_config mean = {.size = sizeof mean, .samples = SAMPLES};
    struct kolo_accuracy_config accuracy = {
        .size = sizeof accuracy, .samples = SAMPLES, .classes = CLASSES, .k = {1, 2}};
    kolo_status status = kolo_mean_create(&mean, &metrics[0]);
    if (status == KOLO_OK)
        status = kolo_accuracy_create(&accuracy, &metrics[1]);
    if (status == KOLO_OK)
        status = feed(comm, job, metrics);
    if (status == KOLO_OK)
        status = metric_compute_in(CALLS_OF_TWO, comm, metrics, 2);
    if (status == KOLO_OK)
        status = kolo_mean_result(metrics[0], &outcome.mean);
    if (status == KOLO_OK)
        status = kolo_accuracy_result(metrics[1], &outcome.accuracy);
    kolo_metric_destroy(metrics[0]);
    kolo_metric_destroy(metrics[1]);
    if (kolo_rank(comm) == 0)
        job->outcome = outcome;
    return status;
}

static struct outcome run_over(const char *transport, int nranks, enum shard shard,
                               int64_t left_out)
{
    struct job job = {.shard = shard, .left_out = left_out};
    struct world world = {.size = nranks, .transport = transport};
    cr_assert_eq(world_run(&world, rank_main, &job), KOLO_OK, "%s", world_cause(&world)->text);
    return job.outcome;
}

static struct outcome run(int nranks, enum shard shard, int64_t left_out)
{
    return run_over(NULL, nranks, shard, left_out);
}

Test(compute, gives_the_same_bits_at_any_world_size_and_shard, .timeout = 120)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8, 16};
    make_data();
    struct outcome one = run(1, STRIDED, 0);
    cr_assert_eq(one.mean.samples.counted, SAMPLES);
    cr_assert_eq(one.mean.samples.missing, 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int shard = STRIDED; shard < SHARDS; shard++) {
            static const char *const transports[] = {"inproc", "shm", "tcp"};
            const char *transport = transports[((int)s + shard) % 3]; /* each with each in turn */
            struct outcome many = run_over(transport, sizes[s], (enum shard)shard, 0);
            cr_assert(memcmp(&many.mean.mean, &one.mean.mean, sizeof(double)) == 0,
                      "%d ranks shard %d: %a, alone %a", sizes[s], shard, many.mean.mean,
                      one.mean.mean);
            cr_assert_arr_eq(many.accuracy.correct, one.accuracy.correct,
                             sizeof one.accuracy.correct);
            cr_assert_eq(many.mean.samples.counted, SAMPLES);
            cr_assert_eq(many.accuracy.samples.counted, SAMPLES);
            int64_t duplicates = 0;
            for (int64_t i = 0; i < SAMPLES; i++) {
                for (int r = 0; r < sizes[s]; r++)
                    duplicates += holds((enum shard)shard, i, r, sizes[s]);
                duplicates--;
            }
            cr_assert_eq(many.mean.samples.duplicates, duplicates, "%d ranks shard %d: %lld",
                         sizes[s], shard, (long long)many.mean.samples.duplicates);
        }
}

Test(compute, equals_the_plain_definition, .timeout = 60)
{
    make_data();
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    for (int i = 0; i < SAMPLES; i++)
        kolo_exact_sum_add(&sum, losses[i]);
    double mean = kolo_exact_sum_value(&sum) / SAMPLES;
    struct outcome three = run(3, BLOCK, 0);
    cr_assert(memcmp(&three.mean.mean, &mean, sizeof mean) == 0);
}

Test(compute, reports_missing_samples, .timeout = 60)
{
    make_data();
    struct outcome some = run(3, PADDED, 100);
    cr_assert_eq(some.mean.samples.missing, 100);
    cr_assert_eq(some.mean.samples.counted, SAMPLES - 100);
    cr_assert_eq(some.accuracy.samples.missing, 100);
}

/* More than one chunk of 2^20 indices, with samples at the edges of the chunks. */
static kolo_status far_main(struct kolo_comm *comm, void *arg)
{
    const int64_t edges[] = {0, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (3 << 20) - 1, 3 << 20};
    enum { EDGES = sizeof edges / sizeof *edges };
    struct kolo_mean_config config = {.size = sizeof config, .samples = (3 << 20) + 1};
    struct kolo_metric *metric = NULL;
    kolo_status status = kolo_mean_create(&config, &metric);
    for (int i = 0; status == KOLO_OK && i < EDGES; i++) {
        int at = kolo_rank(comm) ? i : EDGES - 1 - i;
        double value = at + 1;
        if ((at + kolo_rank(comm)) % 3 != 0)
            status = kolo_mean_update_float64(metric, &value, 1, edges + at);
    }
    if (status == KOLO_OK)
        status = metric_compute_in(CALLS_OF_FOUR_CHUNKS, comm, &metric, 1);
    struct kolo_mean_result result = {.size = sizeof result};
    if (status == KOLO_OK)
        status = kolo_mean_result(metric, &result);
    kolo_metric_destroy(metric);
    *(int64_t *)arg = result.samples.missing;
    if (status == KOLO_OK &&
        (result.sum != 21 || result.samples.counted != EDGES || result.samples.duplicates != 2))
        return KOLO_ERR_INTERNAL;
    return status;
}

Test(compute, spans_several_chunks_of_indices, .timeout = 60)
{
    int64_t missing = 0;
    cr_assert_eq(kolo_run_threads(2, NULL, far_main, &missing), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(missing, (3 << 20) + 1 - 6);
}

static kolo_status different_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_mean_config config = {.size = sizeof config, .samples = 10 + kolo_rank(comm)};
    struct kolo_metric *metric = NULL;
    kolo_status status = kolo_mean_create(&config, &metric);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    kolo_metric_destroy(metric);
    return status == KOLO_ERR_MISMATCH ? KOLO_OK : KOLO_ERR_INTERNAL;
}

Test(compute, tells_every_rank_that_the_lists_differ, .timeout = 60)
{
    cr_assert_eq(kolo_run_threads(3, NULL, different_main, NULL), KOLO_OK, "%s",
                 kolo_error_detail());
}

static kolo_status reuse_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_mean_result result = {.size = sizeof result};
    struct kolo_metric *metric = NULL;
    float value = 3;
    kolo_status status = kolo_mean_create(&config, &metric);
    for (int round = 1; status == KOLO_OK && round <= 3; round++) {
        status = kolo_mean_update_float32(metric, &value, 1, NULL);
        if (status == KOLO_OK && kolo_mean_result(metric, &result) == KOLO_OK)
            status = KOLO_ERR_INTERNAL; /* the update must have invalidated the result */
        if (status == KOLO_OK)
            status = kolo_metrics_compute(comm, &metric, 1, NULL);
        if (status == KOLO_OK)
            status = kolo_mean_result(metric, &result);
        if (status == KOLO_OK && result.samples.counted != round * kolo_size(comm))
            status = KOLO_ERR_INTERNAL;
    }
    kolo_metric_reset(metric);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_mean_result(metric, &result);
    kolo_metric_destroy(metric);
    return status == KOLO_OK && result.samples.counted != 0 ? KOLO_ERR_INTERNAL : status;
}

Test(compute, goes_on_after_computing_and_starts_afresh_after_reset, .timeout = 60)
{
    cr_assert_eq(kolo_run_threads(2, NULL, reuse_main, NULL), KOLO_OK, "%s", kolo_error_detail());
}

/* The collectives are the same on every rank even if only one has anything new, and only the first
 * one is made if none has. */
static kolo_status cache_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_mean_result result = {.size = sizeof result};
    int64_t before = 0;
    struct kolo_metric *metric = NULL;
    float value = 3;
    kolo_status status;
    KOLO_TRY(kolo_mean_create(&config, &metric));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    before = metric->computed_by;
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    WORLD_EXPECT(metric->computed_by == before && metric->is_computed, "it was computed again");
    if (kolo_rank(comm) == 1)
        KOLO_TRY(kolo_mean_update_float32(metric, &value, 1, NULL));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    KOLO_TRY(kolo_mean_result(metric, &result));
    WORLD_EXPECT(result.mean == 3 && result.samples.counted == 1, "mean %g", result.mean);
    WORLD_EXPECT(metric->computed_by != before, "it was not computed again");
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(compute, keeps_results_until_somebody_updates, .timeout = 60)
{
    struct world world = {.size = 3};
    cr_assert_eq(world_run(&world, cache_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

/* Computes the mean of the ranks in each half of 4 ranks: in odd rounds the lower and the upper
 * ones, in even rounds those with even and odd numbers. */
static kolo_status check_half(struct kolo_comm *comm, struct kolo_metric *metric, int round)
{
    struct kolo_mean_result result = {.size = sizeof result};
    struct kolo_comm *half = NULL;
    const int number = round % 2 ? kolo_rank(comm) / 2 : kolo_rank(comm) % 2;
    WORLD_TRY(kolo_split(comm, number, 0, NULL, &half));
    WORLD_TRY(kolo_metrics_compute(half, &metric, 1, NULL));
    WORLD_TRY(kolo_mean_result(metric, &result));
    WORLD_EXPECT(result.mean == (round % 2 ? 0.5 + 2 * number : 1 + number), "of half %d: %g",
                 number, result.mean);
    return kolo_finalize(half);
}

/* A result computed among all ranks is not the one that the halves would get. */
static kolo_status halves_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_mean_result result = {.size = sizeof result};
    struct kolo_metric *metric = NULL;
    double value = kolo_rank(comm);
    kolo_status status;
    KOLO_TRY(kolo_mean_create(&config, &metric));
    KOLO_TRY(kolo_mean_update_float64(metric, &value, 1, NULL));
    for (int round = 0; round < 3; round++) {
        KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
        KOLO_TRY(kolo_mean_result(metric, &result));
        WORLD_EXPECT(result.mean == 1.5, "of all: %g", result.mean);
        KOLO_TRY(check_half(comm, metric, round));
    }
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(compute, does_not_take_the_result_of_other_ranks, .timeout = 60)
{
    struct world world = {.size = 4};
    cr_assert_eq(world_run(&world, halves_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

/* Nor is the result of one half that of another half of as many ranks. */
static kolo_status other_halves_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_metric *metric = NULL;
    double value = kolo_rank(comm);
    kolo_status status;
    KOLO_TRY(kolo_mean_create(&config, &metric));
    KOLO_TRY(kolo_mean_update_float64(metric, &value, 1, NULL));
    for (int round = 0; round < 4; round++)
        KOLO_TRY(check_half(comm, metric, round));
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(compute, does_not_take_the_result_of_as_many_other_ranks, .timeout = 60)
{
    struct world world = {.size = 4};
    cr_assert_eq(world_run(&world, other_halves_main, NULL), KOLO_OK, "%s",
                 world_cause(&world)->text);
}

/* Two metrics of several chunks: the second begins with nothing of the first. */
static kolo_status two_far_main(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = (9 << 20) + 1};
    struct kolo_mean_result result = {.size = sizeof result};
    struct kolo_metric *metrics[2] = {NULL, NULL};
    kolo_status status;
    for (int m = 0; m < 2; m++)
        KOLO_TRY(kolo_mean_create(&config, &metrics[m]));
    for (int64_t chunk = 0; chunk <= 9; chunk++)
        for (int m = 0; m < 2; m++) {
            const double value = (double)(chunk + 1);
            const int64_t index = chunk << 20;
            KOLO_TRY(kolo_mean_update_float64(metrics[m], &value, 1, &index));
        }
    KOLO_TRY(kolo_metrics_compute(comm, metrics, 2, NULL));
    for (int m = 0; m < 2; m++) {
        KOLO_TRY(kolo_mean_result(metrics[m], &result));
        WORLD_EXPECT(result.sum == 55 && result.samples.counted == 10, "%d: %g", m, result.sum);
    }
out:
    for (int m = 0; m < 2; m++)
        kolo_metric_destroy(metrics[m]);
    return status;
}

Test(compute, several_metrics_span_several_chunks, .timeout = 60)
{
    struct world world = {.size = 2};
    cr_assert_eq(world_run(&world, two_far_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

/* On one rank, so that nobody else counts allocations. */
static kolo_status lacking_main(struct kolo_comm *comm, void *arg)
{
    const struct kolo_mean_config config = {.size = sizeof config, .samples = 3};
    struct kolo_mean_result result = {.size = sizeof result};
    const double value = 7;
    const int64_t index = 1;
    bool *succeeded = arg;
    kolo_status status;
    for (uint64_t nth = 1; nth < 100 && !*succeeded; nth++) {
        struct kolo_metric *metric = NULL;
        KOLO_TRY(kolo_mean_create(&config, &metric));
        KOLO_TRY(kolo_mean_update_float64(metric, &value, 1, &index));
        kolo_alloc_fail_nth(nth);
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
        kolo_alloc_fail_nth(0);
        *succeeded = status == KOLO_OK;
        WORLD_EXPECT(*succeeded || status == KOLO_ERR_NO_MEMORY, "%llu: %s",
                     (unsigned long long)nth, kolo_status_name(status));
        if (*succeeded)
            KOLO_TRY(kolo_mean_result(metric, &result));
        kolo_metric_destroy(metric);
    }
    WORLD_EXPECT(result.mean == 7, "%g", result.mean);
    status = KOLO_OK;
out:
    return status;
}

Test(compute, survives_every_failing_allocation, .timeout = 60)
{
    struct world world = {.size = 1};
    bool succeeded = false;
    cr_assert_eq(world_run(&world, lacking_main, &succeeded), KOLO_OK, "%s",
                 world_cause(&world)->text);
    cr_assert(succeeded);
}

/* One allocation fails on rank 1, which comes first: if it says that there is no memory, the other
 * has heard it too, and both go on alike. */
static kolo_status poor_main(struct kolo_comm *comm, void *arg)
{
    const uint64_t *nth = arg;
    const bool is_poor = kolo_rank(comm) == 1;
    const struct timespec behind = {.tv_nsec = 20 * 1000 * 1000};
    const struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_metric *metric = NULL;
    kolo_status status, next;
    KOLO_TRY(kolo_mean_create(&config, &metric));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    if (is_poor)
        kolo_alloc_fail_nth(*nth);
    else
        nanosleep(&behind, NULL);
    status = kolo_metrics_compute(comm, &metric, 1, NULL);
    if (is_poor)
        kolo_alloc_fail_nth(0);
    next = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK)
        status = next;
    else if (next != KOLO_OK && next != status)
        status = kolo_fail(KOLO_ERR_INTERNAL, "then %s", kolo_error_detail());
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(compute, all_ranks_hear_who_has_no_memory, .timeout = 60)
{
    int poor = 0;
    for (uint64_t nth = 1; nth <= 16; nth++) {
        struct world world = {.size = 2, .transport = "tcp"};
        const kolo_status status = world_run(&world, poor_main, &nth);
        cr_assert(status == KOLO_OK || status == KOLO_ERR_NO_MEMORY, "%d: %s: %s", (int)nth,
                  kolo_status_name(status), world_cause(&world)->text);
        cr_assert_eq(world.results[0].status, world.results[1].status, "%d: %s, %s", (int)nth,
                     world.results[0].text, world.results[1].text);
        poor += status == KOLO_ERR_NO_MEMORY;
    }
    cr_assert(poor > 1);
}

/* ---- agreeing ---- */

/* The second and the third of three metrics fail; the first has its result. */
static kolo_status failing_main(struct kolo_comm *comm, void *argument)
{
    const double values[2] = {(double)NAN, 1}, good = 2;
    const struct kolo_mean_config config = {.size = sizeof config};
    struct kolo_mean_result result = {.size = sizeof result};
    struct kolo_metric *metrics[3] = {NULL};
    (void)argument;
    kolo_status status;
    for (int i = 0; i < 3; i++)
        KOLO_TRY(kolo_mean_create(&config, &metrics[i]));
    KOLO_TRY(kolo_mean_update_float64(metrics[0], &good, 1, NULL));
    KOLO_TRY(kolo_mean_update_float64(metrics[1], values, 2, NULL));
    KOLO_TRY(kolo_mean_update_float64(metrics[2], values, 1, NULL));
    WORLD_EXPECT(kolo_metrics_compute(comm, metrics, 3, NULL) == KOLO_ERR_DATA, "no failure");
    WORLD_EXPECT(strstr(kolo_error_detail(), "metrics[1], mean: 3 NaN"), "%s", kolo_error_detail());
    KOLO_TRY(kolo_mean_result(metrics[0], &result));
    WORLD_EXPECT(result.mean == 2, "%g", result.mean);
out:
    for (int i = 0; i < 3; i++)
        kolo_metric_destroy(metrics[i]);
    return status;
}

Test(compute, the_first_metric_that_fails_is_named, .timeout = 60)
{
    struct world world = {.size = 3};
    cr_assert_eq(world_run(&world, failing_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

static kolo_status agree_main(struct kolo_comm *comm, void *arg)
{
    const kolo_status *mine = arg; /* of each rank */
    int rank = kolo_rank(comm), gravest = 0;
    for (int i = 0; i < kolo_size(comm); i++)
        if (mine[i] < mine[gravest])
            gravest = i;
    if (mine[rank] != KOLO_OK)
        (void)kolo_fail(mine[rank], "what rank %d knows", rank);
    kolo_status got = kolo_metric_agree(comm, mine[rank], NULL);
    char words[64];
    if (mine[rank] != KOLO_OK)
        snprintf(words, sizeof words, "what rank %d knows", rank);
    else
        snprintf(words, sizeof words, "rank %d (", gravest);
    WORLD_EXPECT(got == (mine[rank] != KOLO_OK ? mine[rank] : mine[gravest]), "rank %d gets %s",
                 rank, kolo_status_name(got));
    WORLD_EXPECT(got == KOLO_OK || strstr(kolo_error_detail(), words), "rank %d: %s", rank,
                 kolo_error_detail());
    WORLD_EXPECT(got == KOLO_OK || mine[rank] != KOLO_OK ||
                     strstr(kolo_error_detail(), kolo_status_text(got)),
                 "rank %d: %s", rank, kolo_error_detail());
    return KOLO_OK;
}

Test(compute, who_failed_and_why_is_known_to_all, .timeout = 60)
{
    static kolo_status each[][3] = {{KOLO_OK, KOLO_OK, KOLO_OK},
                                    {KOLO_OK, KOLO_OK, KOLO_ERR_DATA},
                                    {KOLO_ERR_NO_MEMORY, KOLO_OK, KOLO_OK},
                                    {KOLO_OK, KOLO_ERR_INVALID, KOLO_ERR_INVALID},
                                    {KOLO_ERR_INVALID, KOLO_OK, KOLO_ERR_DATA}};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        struct world world = {.size = 3};
        cr_assert_eq(world_run(&world, agree_main, each[i]), KOLO_OK, "case %zu: %s", i,
                     world_cause(&world)->text);
    }
}
