// SPDX-License-Identifier: Apache-2.0
// Every policy for values that are not finite, of both kinds of metrics that have one: what is
// counted, who warns, and which value is substituted.
#include <criterion/criterion.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <kolo/regression.h>

#include "base/log.h"
#include "tests/support/world.h"

enum { RANKS = 3, LINE_MAX = 256 };

static atomic_int lines;
static char line_kept[LINE_MAX];

static void keep(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    if (level != KOLO_LOG_WARN || !strstr(line, "left out"))
        return;
    if (atomic_fetch_add(&lines, 1) == 0)
        snprintf(line_kept, sizeof line_kept, "%s", line);
}

static const double values[] = {1, NAN, 2, INFINITY, 6};
enum { VALUES = sizeof values / sizeof *values };

struct job {
    kolo_nonfinite policy;
    double imputed;
    struct kolo_mean_result mean;
    struct kolo_regression_result regression;
    kolo_status status;
};

/* The values are the targets, and all predictions are 2. */
static kolo_status feed(struct kolo_metric *const metrics[2], size_t first, size_t step)
{
    const double two = 2;
    kolo_status status = KOLO_OK;
    for (size_t i = first; status == KOLO_OK && i < VALUES; i += step) {
        status = kolo_mean_update_float64(metrics[0], values + i, 1, NULL);
        if (status == KOLO_OK)
            status = kolo_regression_update_float64(metrics[1], &two, values + i, 1, NULL);
    }
    return status;
}

static kolo_status rank_main(struct kolo_comm *comm, void *argument)
{
    struct job *job = argument;
    struct kolo_metric *metrics[2] = {NULL};
    const struct kolo_mean_config mean = {
        .size = sizeof mean, .nonfinite = job->policy, .imputed = job->imputed};
    const struct kolo_regression_config regression = {
        .size = sizeof regression, .nonfinite = job->policy, .imputed = job->imputed};
    struct job mine = {.mean.size = sizeof mine.mean, .regression.size = sizeof mine.regression};
    kolo_status status;
    KOLO_TRY(kolo_mean_create(&mean, &metrics[0]));
    KOLO_TRY(kolo_regression_create(&regression, &metrics[1]));
    KOLO_TRY(feed(metrics, (size_t)kolo_rank(comm), RANKS));
    /* the second result is cached, unless the first compute failed */
    for (int again = 0; again < 2; again++)
        mine.status = kolo_metrics_compute(comm, metrics, 2, NULL);
    if (mine.status == KOLO_OK) {
        KOLO_TRY(kolo_mean_result(metrics[0], &mine.mean));
        KOLO_TRY(kolo_regression_result(metrics[1], &mine.regression));
    }
    if (kolo_rank(comm) == RANKS - 1) {
        mine.policy = job->policy;
        *job = mine;
    }
out:
    kolo_metric_destroy(metrics[0]);
    kolo_metric_destroy(metrics[1]);
    return status;
}

static struct job of(kolo_nonfinite policy, double imputed)
{
    struct job job = {.policy = policy, .imputed = imputed};
    struct world world = {.size = RANKS};
    atomic_store(&lines, 0);
    kolo_log_set_sink(keep, NULL);
    cr_assert_eq(world_run(&world, rank_main, &job), KOLO_OK, "%s", world_cause(&world)->text);
    kolo_log_set_sink(NULL, NULL);
    cr_assert_eq(atomic_load(&lines), policy == KOLO_NONFINITE_WARN ? 2 : 0, "policy %d: %d lines",
                 (int)policy, atomic_load(&lines));
    return job;
}

Test(nonfinite, is_left_out_or_refused, .timeout = 60)
{
    cr_assert_eq(of(KOLO_NONFINITE_ERROR, 0).status, KOLO_ERR_DATA);
    for (int policy = KOLO_NONFINITE_SKIP; policy <= KOLO_NONFINITE_WARN; policy += 2) {
        struct job job = of((kolo_nonfinite)policy, 0);
        cr_assert_eq(job.status, KOLO_OK);
        cr_assert_eq(job.mean.mean, 3);
        cr_assert_eq(job.mean.samples.counted, 3);
        cr_assert_eq(job.mean.nans + job.mean.plus_infinities, 2);
        cr_assert_eq(job.regression.mae, 5. / 3);
        cr_assert_eq(job.regression.samples.counted, 3);
        cr_assert_eq(job.regression.nonfinite, 2);
    }
}

Test(nonfinite, warns_once_for_all_ranks_of_each_metric, .timeout = 60)
{
    of(KOLO_NONFINITE_WARN, 0);
    cr_assert(strstr(line_kept, "mean: 1 NaN, 1 +infinity and 0 -infinity among 5 values: they are "
                                "left out"),
              "%s", line_kept);
}

Test(nonfinite, is_replaced, .timeout = 60)
{
    struct job job = of(KOLO_NONFINITE_IMPUTE, 0.5);
    cr_assert_eq(job.mean.mean, 2);
    cr_assert_eq(job.mean.sum, 10);
    cr_assert_eq(job.mean.samples.counted, 5);
    cr_assert_eq(job.mean.nans, 1);
    cr_assert_eq(job.mean.plus_infinities, 1);
    cr_assert_eq(job.regression.mae, (1 + 1.5 + 0 + 1.5 + 4) / 5);
    cr_assert_eq(job.regression.samples.counted, 5);
    cr_assert_eq(job.regression.nonfinite, 2);
}

Test(nonfinite, refuses_what_is_no_policy_and_no_value)
{
    struct kolo_metric *metric = NULL;
    struct kolo_mean_config mean = {.size = sizeof mean, .nonfinite = (kolo_nonfinite)5};
    struct kolo_regression_config regression = {
        .size = sizeof regression, .nonfinite = KOLO_NONFINITE_IMPUTE, .imputed = 0x1p501};
    cr_assert_eq(kolo_mean_create(&mean, &metric), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kolo_mean_create: nonfinite 5"), "%s",
              kolo_error_detail());
    mean.nonfinite = KOLO_NONFINITE_IMPUTE;
    mean.imputed = NAN;
    cr_assert_eq(kolo_mean_create(&mean, &metric), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "imputed nan"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_regression_create(&regression, &metric), KOLO_ERR_INVALID);
}
