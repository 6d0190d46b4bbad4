// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/metrics.h>

struct job {
    kolo_nonfinite policy;
    const double *values; /* rank r adds values[r] and so on, strided */
    size_t count;
    kolo_status expected;
    double mean;
    int64_t counted;
};

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    const struct job *job = arg;
    struct kolo_metric *metric = NULL;
    struct kolo_mean_config config = {.size = sizeof config, .nonfinite = job->policy};
    kolo_status status = kolo_mean_create(&config, &metric);
    for (size_t i = (size_t)kolo_rank(comm); status == KOLO_OK && i < job->count;
         i += (size_t)kolo_size(comm))
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

static void expect(const struct job *job)
{
    for (int nranks = 1; nranks <= 5; nranks += 2)
        cr_assert_eq(kolo_run_threads(nranks, NULL, rank_main, (void *)(uintptr_t)job), KOLO_OK,
                     "policy %d, %d ranks: %s", job->policy, nranks, kolo_error_detail());
}

Test(mean, is_the_rounded_sum_divided_once, .timeout = 60)
{
    const double values[] = {0.1, 0.2, 0.3, 1e16, -1e16};
    double sum = 0x1.3333333333333p-1; /* math.fsum([0.1, 0.2, 0.3, 1e16, -1e16]) */
    expect(&(struct job){.values = values, .count = 5, .mean = sum / 5, .counted = 5});
    expect(&(struct job){.values = values, .count = 0, .mean = NAN, .counted = 0});
}

Test(mean, follows_the_policy_for_what_is_not_finite, .timeout = 60)
{
    const double with_nan[] = {1, NAN, 2}, with_inf[] = {1, INFINITY, 2};
    const double both[] = {INFINITY, -INFINITY};
    expect(&(struct job){.values = with_nan, .count = 3, .expected = KOLO_ERR_DATA});
    expect(&(struct job){KOLO_NONFINITE_SKIP, with_nan, 3, KOLO_OK, 1.5, 2});
    expect(&(struct job){KOLO_NONFINITE_PROPAGATE, with_nan, 3, KOLO_OK, NAN, 3});
    expect(&(struct job){KOLO_NONFINITE_PROPAGATE, with_inf, 3, KOLO_OK, INFINITY, 3});
    expect(&(struct job){KOLO_NONFINITE_PROPAGATE, both, 2, KOLO_OK, NAN, 2});
    expect(&(struct job){KOLO_NONFINITE_SKIP, both, 2, KOLO_OK, NAN, 0});
}
