// SPDX-License-Identifier: Apache-2.0
// metrics/mean.c: exact means for any distribution of samples, batches, and the fast variant.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/metrics.h>

#include "base/alloc.h"
#include "tests/support/shards.h"
#include "tests/support/world.h"

/* Integers up to 2^20, whose sums in double are exact in any order, so that the fast mode gives
 * the exact result. */
enum { SAMPLES = 211 };
static bool is_fast;

static double value_of(int64_t i)
{
    return (double)(shard_hash((uint64_t)i) % (1 << 20)) - (1 << 19);
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_mean_config config = {
        .size = sizeof config, .samples = samples, .fast = is_fast};
    return kolo_mean_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    double value = value_of(i);
    return kolo_mean_update_float64(metric, &value, 1, index);
}

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_mean_result r = {.size = sizeof r};
    kolo_status status = kolo_mean_result(metric, &r);
    memcpy(result_out, &r.mean, sizeof r.mean);
    return status;
}

Test(mean, is_the_same_however_samples_are_dealt_out, .timeout = 200)
{
    double sum = 0, mean;
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof mean,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    for (int64_t i = 0; i < SAMPLES; i++)
        sum += value_of(i);
    for (int fast = 0; fast < 2; fast++) {
        is_fast = fast;
        shards_agree(&kind, &mean);
        cr_assert_eq(mean, sum / SAMPLES, "%a instead of %a", mean, sum / SAMPLES);
    }
}

struct job {
    bool is_fast, is_one_update;
    kolo_nonfinite policy;
    const double *values; /* rank r adds values[r], values[r + size] and so on */
    size_t count;
    kolo_status expected;
    double mean;
    int64_t counted;
};

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    const struct job *job = arg;
    struct kolo_metric *metric = NULL;
    struct kolo_mean_config config = {
        .size = sizeof config, .nonfinite = job->policy, .imputed = 4, .fast = job->is_fast};
    kolo_status status = kolo_mean_create(&config, &metric);
    if (status == KOLO_OK && job->is_one_update && kolo_rank(comm) == 0)
        status = kolo_mean_update_float64(metric, job->values, job->count, NULL);
    for (size_t i = (size_t)kolo_rank(comm);
         status == KOLO_OK && !job->is_one_update && i < job->count; i += (size_t)kolo_size(comm))
        status = kolo_mean_update_float64(metric, job->values + i, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    struct kolo_mean_result result = {.size = sizeof result};
    if (status == KOLO_OK)
        status = kolo_mean_result(metric, &result);
    kolo_metric_destroy(metric);
    if (status != job->expected)
        return KOLO_ERR_INTERNAL;
    bool same = (isnan(result.mean) && isnan(job->mean)) ||
                memcmp(&result.mean, &job->mean, sizeof job->mean) == 0;
    return status != KOLO_OK || (same && result.samples.counted == job->counted)
               ? KOLO_OK
               : KOLO_ERR_INTERNAL;
}

/* Exact and fast, with one update and with many. */
static void expect(const struct job *expected)
{
    for (int nranks = 1; nranks <= 5; nranks += 2)
        for (int way = 0; way < 4; way++) {
            struct job job = *expected;
            job.is_fast = way % 2;
            job.is_one_update = way / 2;
            cr_assert_eq(kolo_run_threads(nranks, NULL, rank_main, &job), KOLO_OK,
                         "policy %d, %d ranks, way %d: %s", job.policy, nranks, way,
                         kolo_error_detail());
        }
}

Test(mean, is_the_rounded_sum_divided_once, .timeout = 60)
{
    const double values[] = {0.1, 0.2, 0.3, 1e16, -1e16};
    double sum = 0x1.3333333333333p-1; /* math.fsum([0.1, 0.2, 0.3, 1e16, -1e16]) */
    struct job job = {.values = values, .count = 5, .mean = sum / 5, .counted = 5};
    for (int nranks = 1; nranks <= 5; nranks += 2)
        cr_assert_eq(kolo_run_threads(nranks, NULL, rank_main, &job), KOLO_OK);
    expect(&(struct job){.values = values, .count = 0, .mean = NAN, .counted = 0});
}

Test(mean, follows_the_policy_for_what_is_not_finite, .timeout = 60)
{
    const double with_nan[] = {1, NAN, 2}, with_inf[] = {1, INFINITY, 2};
    const double both[] = {INFINITY, -INFINITY};
    expect(&(struct job){.values = with_nan, .count = 3, .expected = KOLO_ERR_DATA});
    expect(&(struct job){false, false, KOLO_NONFINITE_SKIP, with_nan, 3, KOLO_OK, 1.5, 2});
    expect(&(struct job){false, false, KOLO_NONFINITE_PROPAGATE, with_nan, 3, KOLO_OK, NAN, 3});
    expect(
        &(struct job){false, false, KOLO_NONFINITE_PROPAGATE, with_inf, 3, KOLO_OK, INFINITY, 3});
    expect(&(struct job){false, false, KOLO_NONFINITE_PROPAGATE, both, 2, KOLO_OK, NAN, 2});
    expect(&(struct job){false, false, KOLO_NONFINITE_SKIP, both, 2, KOLO_OK, NAN, 0});
    expect(&(struct job){false, false, KOLO_NONFINITE_IMPUTE, with_inf, 3, KOLO_OK, 7. / 3, 3});
}

Test(mean, adds_fast_what_is_larger_than_a_double_on_the_way, .timeout = 60)
{
    const double values[] = {1e308, 1e308, 1e308, -1e308, -1e308, 0, 0, 0, 0, 0};
    expect(&(struct job){.values = values, .count = 10, .mean = 1e308 / 10, .counted = 10});
}

/* The mean of a batch counts like its values, to the last bit. */
Test(mean, of_batches_is_that_of_their_values, .timeout = 60)
{
    struct kolo_comm *comm = NULL;
    const struct {
        double mean;
        int64_t count;
    } batches[] = {{0.1, 3}, {NAN, 2}, {-0.3, 1}, {INFINITY, 1}, {7, 0}};
    /* Fraction(0.1) * 3 - Fraction(0.3) as a float; rounded products would give
     * 5.551115123125783e-17 */
    const double sum = 0x1.0000000000000p-55;
    cr_assert_eq(kolo_init(NULL, &comm), KOLO_OK, "%s", kolo_error_detail());
    for (int way = 0; way < 2; way++) {
        const struct kolo_mean_config config = {.size = sizeof config,
                                                .nonfinite = way ? KOLO_NONFINITE_IMPUTE
                                                                 : KOLO_NONFINITE_SKIP,
                                                .imputed = 0.1};
        struct kolo_mean_result r = {.size = sizeof r};
        struct kolo_metric *metric = NULL;
        cr_assert_eq(kolo_mean_create(&config, &metric), KOLO_OK);
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            cr_assert_eq(kolo_mean_update_batch(metric, batches[i].mean, batches[i].count),
                         KOLO_OK);
        cr_assert_eq(kolo_metrics_compute(comm, &metric, 1, NULL), KOLO_OK);
        cr_assert_eq(kolo_mean_result(metric, &r), KOLO_OK);
        cr_assert_eq(r.samples.counted, 4 + (way ? 3 : 0));
        cr_assert_eq(r.nans, 2);
        cr_assert_eq(r.plus_infinities, 1);
        cr_assert_eq(r.sum, way ? 0x1.3333333333334p-2 : sum, "%a", r.sum);
        kolo_metric_destroy(metric);
    }
    cr_assert_eq(kolo_finalize(comm), KOLO_OK);
}

Test(mean, refuses_batches_that_cannot_be_counted)
{
    struct kolo_metric *metric = NULL;
    cr_assert_eq(create(0, &metric), KOLO_OK);
    cr_assert_eq(kolo_mean_update_batch(metric, 1, -1), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "count -1"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mean_update_batch(metric, 1e308, 2), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "1e+308 times 2"), "%s", kolo_error_detail());
    kolo_metric_destroy(metric);
    const struct kolo_mean_config imputes = {
        .size = sizeof imputes, .nonfinite = KOLO_NONFINITE_IMPUTE, .imputed = 1e308};
    cr_assert_eq(kolo_mean_create(&imputes, &metric), KOLO_OK);
    cr_assert_eq(kolo_mean_update_batch(metric, (double)NAN, 2), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "1e+308 times 2"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mean_update_batch(metric, 1, 2), KOLO_OK);
    kolo_metric_destroy(metric);
    cr_assert_eq(create(5, &metric), KOLO_OK);
    cr_assert_eq(kolo_mean_update_batch(metric, 1, 1), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "samples 5"), "%s", kolo_error_detail());
    kolo_metric_destroy(metric);
}

Test(mean, that_has_no_memory_names_its_function)
{
    struct kolo_metric *metric = NULL;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = 77};
    kolo_status status = KOLO_AGAIN;
    for (uint64_t nth = 1; status != KOLO_OK; nth++) {
        kolo_alloc_fail_nth(nth);
        status = kolo_mean_create(&config, &metric);
        kolo_alloc_fail_nth(0);
        if (status == KOLO_OK)
            break;
        cr_assert_eq(status, KOLO_ERR_NO_MEMORY);
        cr_assert(strstr(kolo_error_detail(), "kolo_mean_create: ") == kolo_error_detail() &&
                      strstr(kolo_error_detail(), "77 samples"),
                  "%s", kolo_error_detail());
    }
    kolo_metric_destroy(metric);
}

Test(mean, is_near_the_exact_one_when_it_is_fast, .timeout = 60)
{
    enum { COUNT = 100003 };
    static double values[COUNT];
    struct kolo_comm *comm = NULL;
    struct kolo_mean_result r[2] = {{.size = sizeof *r}, {.size = sizeof *r}};
    for (uint64_t i = 0; i < COUNT; i++)
        values[i] = (double)(shard_hash(i) % 1000) / (double)(7 << shard_hash(i + 1) % 20);
    cr_assert_eq(kolo_init(NULL, &comm), KOLO_OK, "%s", kolo_error_detail());
    for (int fast = 0; fast < 2; fast++) {
        struct kolo_metric *metric = NULL;
        is_fast = fast;
        cr_assert_eq(create(0, &metric), KOLO_OK);
        for (size_t i = 0; i < COUNT; i += 1000)
            cr_assert_eq(kolo_mean_update_float64(metric, values + i,
                                                  COUNT - i < 1000 ? COUNT - i : 1000, NULL),
                         KOLO_OK);
        cr_assert_eq(kolo_metrics_compute(comm, &metric, 1, NULL), KOLO_OK);
        cr_assert_eq(kolo_mean_result(metric, &r[fast]), KOLO_OK);
        cr_assert_eq(r[fast].samples.counted, COUNT);
        kolo_metric_destroy(metric);
    }
    cr_assert_neq(r[0].mean, r[1].mean, "nothing was rounded: it is not fast");
    cr_assert_lt(fabs(r[0].mean - r[1].mean), 1e-12 * r[0].mean, "%a and %a", r[0].mean, r[1].mean);
    cr_assert_eq(kolo_finalize(comm), KOLO_OK);
}
