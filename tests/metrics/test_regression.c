// SPDX-License-Identifier: Apache-2.0
// Oracle: small integers, for which the textbook's formulas are exact in 64 bits; data shifted far
// from 0, for which R2 must not change although everything but the last bits cancels; and values
// computed by Python's fractions module.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/regression.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 173 };
static double targets[SAMPLES], predictions[SAMPLES];
static int64_t offset;

static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES; i++) {
        targets[i] = (double)offset + (double)(shard_hash(i) % 100) - 50;
        predictions[i] = targets[i] + (double)(shard_hash(i + 300) % 21) - 10;
    }
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_regression_config config = {.size = sizeof config, .samples = samples};
    return kolo_regression_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    return kolo_regression_update_float64(metric, predictions + i, targets + i, 1, index);
}

struct outcome {
    double mean_error, mae, mse, rmse, r2;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_regression_result r = {.size = sizeof r};
    kolo_status status = kolo_regression_result(metric, &r);
    const struct outcome o = {r.mean_error, r.mae, r.mse, r.rmse, r.r2};
    memcpy(result_out, &o, sizeof o);
    return status;
}

static const struct shard_kind kind = {.samples = SAMPLES,
                                       .result_bytes = sizeof(struct outcome),
                                       .create = create,
                                       .update = update,
                                       .result = result};

static struct outcome by_integers(void)
{
    int64_t n = SAMPLES, errors = 0, magnitudes = 0, squares = 0, sum = 0, sum_squares = 0;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t y = (int64_t)targets[i] - offset, p = (int64_t)predictions[i] - offset;
        errors += p - y;
        magnitudes += p > y ? p - y : y - p;
        squares += (p - y) * (p - y);
        sum += y;
        sum_squares += y * y;
    }
    int64_t spread = n * sum_squares - sum * sum;
    return (struct outcome){(double)errors / (double)n, (double)magnitudes / (double)n,
                            (double)squares / (double)n, sqrt((double)squares / (double)n),
                            (double)(spread - n * squares) / (double)spread};
}

Test(regression, is_what_integers_say_however_samples_are_dealt_out, .timeout = 200)
{
    make_data();
    struct outcome o, e = by_integers();
    shards_agree(&kind, &o);
    cr_assert_arr_eq(&o, &e, sizeof e, "r2 %a, expected %a; mse %a, %a", o.r2, e.r2, o.mse, e.mse);
    offset = INT64_C(1) << 45; /* squares of 2^90, a spread of 2^20 */
    make_data();
    shards_agree(&kind, &o);
    cr_assert_arr_eq(&o, &e, sizeof e, "r2 %a, expected %a; mse %a, %a", o.r2, e.r2, o.mse, e.mse);
}

struct job {
    const double *predictions, *targets;
    size_t count;
    kolo_nonfinite policy;
    double imputed;
    kolo_status expected;
    struct kolo_regression_result result;
};

static kolo_status one_main(struct kolo_comm *comm, void *argument)
{
    struct job *job = argument;
    struct kolo_metric *metric = NULL;
    const struct kolo_regression_config config = {
        .size = sizeof config, .nonfinite = job->policy, .imputed = job->imputed};
    kolo_status status;
    KOLO_TRY(kolo_regression_create(&config, &metric));
    for (size_t i = (size_t)kolo_rank(comm); i < job->count; i += (size_t)kolo_size(comm))
        KOLO_TRY(kolo_regression_update_float64(metric, job->predictions + i, job->targets + i, 1,
                                                NULL));
    status = kolo_metrics_compute(comm, &metric, 1, NULL);
    WORLD_EXPECT(status == job->expected, "status %d", status);
    struct kolo_regression_result r = {.size = sizeof r};
    if (status == KOLO_OK)
        KOLO_TRY(kolo_regression_result(metric, &r));
    status = KOLO_OK;
    if (kolo_rank(comm) == 0)
        job->result = r;
out:
    kolo_metric_destroy(metric);
    return status;
}

static struct kolo_regression_result of(struct job job)
{
    struct world world = {.size = 2};
    cr_assert_eq(world_run(&world, one_main, &job), KOLO_OK, "%s", world_cause(&world)->text);
    return job.result;
}

/* from fractions import Fraction as F: y = [0.1, 0.2, 0.3, 1e10], p = [0.1, 0.25, 0.3, 1e10 + 1e-5]
 */
Test(regression, loses_nothing_of_what_doubles_say, .timeout = 60)
{
    const double y[] = {0.1, 0.2, 0.3, 1e10}, p[] = {0.1, 0.25, 0.30000000000000004, 1e10 + 1e-5};
    struct kolo_regression_result r = of((struct job){.predictions = p, .targets = y, .count = 4});
    cr_assert_eq(r.mae, 0x1.99ad9999999a0p-7, "%a", r.mae);
    cr_assert_eq(r.mse, 0x1.47ae1542e1478p-11, "%a", r.mse);
    cr_assert_eq(r.r2, 0x1.0000000000000p+0, "%a", r.r2);
}

/* The sum of the errors' magnitudes has 53 bits, of which the last comes from what rounding took
 * from the first difference. */
Test(regression, adds_what_the_differences_lost)
{
    const double y[] = {-0x1p-53, 0}, p[] = {1, 0x1p-53};
    struct kolo_regression_result r = of((struct job){.predictions = p, .targets = y, .count = 2});
    cr_assert_eq(r.mae, 0x1.0000000000001p-1, "%a", r.mae);
    cr_assert_eq(r.mean_error, 0x1.0000000000001p-1, "%a", r.mean_error);
    r = of((struct job){.predictions = y, .targets = p, .count = 2});
    cr_assert_eq(r.mae, 0x1.0000000000001p-1, "%a", r.mae);
    cr_assert_eq(r.mean_error, -0x1.0000000000001p-1, "%a", r.mean_error);
}

/* As of their negatives. from fractions import Fraction as F, as above */
Test(regression, targets_may_be_negative)
{
    const double y[] = {0.1, 0.2, 0.3, 1}, p[] = {0.25, 0.5, 0, 0.75};
    double minus_y[4], minus_p[4];
    for (int i = 0; i < 4; i++) {
        minus_y[i] = -y[i];
        minus_p[i] = -p[i];
    }
    const struct kolo_regression_result r =
        of((struct job){.predictions = p, .targets = y, .count = 4});
    const struct kolo_regression_result minus_r =
        of((struct job){.predictions = minus_p, .targets = minus_y, .count = 4});
    cr_assert(fabs(r.r2 - (1 - 0.265 / 0.5)) < 1e-12, "%a", r.r2);
    cr_assert_eq(minus_r.r2, r.r2, "%a, not %a", minus_r.r2, r.r2);
    cr_assert_eq(minus_r.mean_error, -r.mean_error, "%a", minus_r.mean_error);
}

Test(regression, says_what_has_no_spread_as_scikit_learn_does, .timeout = 60)
{
    const double y[] = {0.1, 0.1, 0.1}, p[] = {0.1, 0.1, 0.2}, far[] = {1e3, -1e3, 5};
    cr_assert_eq(of((struct job){.predictions = y, .targets = y, .count = 3}).r2, 1);
    cr_assert_eq(of((struct job){.predictions = p, .targets = y, .count = 3}).r2, 0);
    const double tiny[3] = {0x1.921fb54442d18p-497, 0x1.921fb54442d18p-497, 0x1.921fb54442d18p-497};
    cr_assert_eq(of((struct job){.predictions = tiny, .targets = tiny, .count = 3}).r2, 1);
    cr_assert_eq(of((struct job){.predictions = p, .targets = tiny, .count = 3}).r2, 0,
                 "squares are rounded at 2^-1074");
    cr_assert(isnan(of((struct job){.predictions = p, .targets = y, .count = 1}).r2));
    cr_assert(isnan(of((struct job){.predictions = p, .targets = y, .count = 0}).mse));
    cr_assert_lt(of((struct job){.predictions = far, .targets = p, .count = 3}).r2, -1e6);
}

Test(regression, follows_the_policy_for_what_is_not_finite, .timeout = 60)
{
    const double y[] = {1, 2, NAN, 3}, p[] = {1.5, INFINITY, 1, 0x1p501};
    struct job job = {.predictions = p, .targets = y, .count = 4, .expected = KOLO_ERR_DATA};
    of(job);
    job.expected = KOLO_OK;
    job.policy = KOLO_NONFINITE_SKIP;
    struct kolo_regression_result r = of(job);
    cr_assert_eq(r.mse, 0.25);
    cr_assert_eq(r.nonfinite, 3);
    cr_assert_eq(r.samples.counted, 1);
    job.policy = KOLO_NONFINITE_PROPAGATE;
    cr_assert(isnan(of(job).mae));
    job.policy = KOLO_NONFINITE_IMPUTE;
    job.imputed = 2.5; /* errors of 0.5, 0.5, -1.5 and -0.5 */
    r = of(job);
    cr_assert_eq(r.mae, 0.75, "%g", r.mae);
    cr_assert_eq(r.mean_error, -0.25, "%g", r.mean_error);
    cr_assert_eq(r.samples.counted, 4);
}

Test(regression, refuses_configurations_that_make_no_sense)
{
    const struct kolo_regression_config good = {.size = sizeof good};
    struct kolo_regression_config bad[5] = {good, good, good, good, good};
    struct kolo_metric *metric = NULL;
    bad[0].size = 1;
    bad[1].samples = -1;
    bad[2].nonfinite = (kolo_nonfinite)99;
    bad[3].nonfinite = bad[4].nonfinite = KOLO_NONFINITE_IMPUTE;
    bad[3].imputed = (double)INFINITY;
    bad[4].imputed = 0x1p501;
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(kolo_regression_create(&bad[i], &metric), KOLO_ERR_INVALID, "case %d", i);
        cr_assert(!metric && kolo_error_detail()[0] != '\0', "case %d", i);
    }
    cr_assert_eq(kolo_regression_create(NULL, &metric), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_regression_create(&good, NULL), KOLO_ERR_INVALID);
}
