// SPDX-License-Identifier: Apache-2.0
// Oracle: every pair of a positive and a negative, and average precision by counting, for each
// distinct score, who is at or above it.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/classification.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 149, LABELS = 3, PADDING = -7 };
static float scores[SAMPLES * LABELS];
static int8_t truths[SAMPLES * LABELS];
static int64_t classes[SAMPLES];
static int64_t bins;
/* Collectives that sort the records of exact curves: curve_exchange.c. */
enum { EXCHANGES = 6 };
static bool by_class, ignores;

/* Label 0 has many ties, label 1 none but signed zeros, label 2 no positive unless by class. */
static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES; i++) {
        float *s = scores + i * LABELS;
        int8_t *t = truths + i * LABELS;
        s[0] = (float)(shard_hash(i) % 7) / 8;
        s[1] = (float)(shard_hash(i + 500) % 100000) / 100000 - (bins ? 0.1F : 0.5F);
        if (i % 10 == 0)
            s[1] = i % 20 ? 0.0F : -0.0F;
        s[2] = i == 3 ? INFINITY : (float)i;
        t[0] = (int8_t)(shard_hash(i + 1) % 3 == 0);
        t[1] = (int8_t)(shard_hash(i + 2) % 5 == 0 ? -1 : (int)(shard_hash(i) % 2));
        t[2] = 0;
        classes[i] = (int64_t)(shard_hash(i + 9) % LABELS);
        if (ignores && shard_hash(i + 11) % 4 == 0) {
            classes[i] = PADDING;
            s[0] = NAN; /* which is not looked at */
        }
    }
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_curve_config config = {.size = sizeof config,
                                             .samples = samples,
                                             .labels = LABELS,
                                             .bins = bins,
                                             .ignores = ignores,
                                             .ignore_index = PADDING};
    return kolo_curve_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    if (by_class)
        return kolo_curve_update_classes(metric, scores + i * LABELS, classes + i, 1, index);
    return kolo_curve_update(metric, scores + i * LABELS, truths + i * LABELS, 1, index);
}

struct outcome {
    double auroc, average_precision;
    struct kolo_curve_label labels[LABELS];
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_curve_result r = {.size = sizeof r};
    struct outcome o = {0};
    kolo_status status = kolo_curve_result(metric, &r);
    if (status == KOLO_OK)
        status = kolo_curve_labels(metric, o.labels, LABELS);
    o.auroc = r.auroc;
    o.average_precision = r.average_precision;
    memcpy(result_out, &o, sizeof o);
    return status;
}

static double score_at(int i, int l)
{
    double s = (double)scores[i * LABELS + l];
    if (!bins)
        return s;
    return fmax(0, fmin((double)bins - 1, floor(s * (double)bins)));
}

static int truth_at(int i, int l)
{
    if (by_class && classes[i] == PADDING)
        return -1;
    return by_class ? classes[i] == l : truths[i * LABELS + l];
}

/* The part of the positives that are at or above the score of sample i, and of all that are. */
static double precision_at(int i, int l)
{
    double tp = 0, fp = 0;
    for (int j = 0; j < SAMPLES; j++) {
        tp += truth_at(j, l) == 1 && score_at(j, l) >= score_at(i, l);
        fp += truth_at(j, l) == 0 && score_at(j, l) >= score_at(i, l);
    }
    return tp / (tp + fp);
}

static struct kolo_curve_label expected(int l)
{
    double wins = 0, precision = 0;
    struct kolo_curve_label e = {0};
    for (int i = 0; i < SAMPLES; i++) {
        e.positives += truth_at(i, l) == 1;
        e.negatives += truth_at(i, l) == 0;
        if (truth_at(i, l) != 1)
            continue;
        precision += precision_at(i, l); /* one positive at a time is as one distinct score */
        for (int j = 0; j < SAMPLES; j++)
            if (truth_at(j, l) == 0)
                wins += score_at(i, l) > score_at(j, l)    ? 1
                        : score_at(i, l) == score_at(j, l) ? 0.5
                                                           : 0;
    }
    e.auroc = wins / (double)(e.positives * e.negatives);
    e.average_precision = precision / (double)e.positives;
    return e;
}

static void expect_all(void)
{
    make_data();
    struct outcome o;
    double aurocs = 0;
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof o,
                                    .exchanges = bins ? 0 : EXCHANGES,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    shards_agree(&kind, &o);
    int with = by_class ? LABELS : LABELS - 1;
    for (int l = 0; l < LABELS; l++) {
        struct kolo_curve_label e = expected(l);
        cr_assert_eq(o.labels[l].positives, e.positives);
        cr_assert_eq(o.labels[l].negatives, e.negatives);
        if (l >= with) {
            cr_assert(isnan(o.labels[l].auroc) && isnan(o.labels[l].average_precision));
            continue;
        }
        cr_assert_eq(o.labels[l].auroc, e.auroc, "label %d: %a, %a", l, o.labels[l].auroc, e.auroc);
        cr_assert(fabs(o.labels[l].average_precision - e.average_precision) < 1e-14,
                  "label %d: %a, %a", l, o.labels[l].average_precision, e.average_precision);
        aurocs += e.auroc;
    }
    cr_assert_eq(o.auroc, aurocs / with);
}

Test(curve, is_exact_however_samples_are_dealt_out, .timeout = 200)
{
    expect_all();
    by_class = true;
    expect_all();
    ignores = true;
    expect_all();
}

Test(curve, counts_bins_however_samples_are_dealt_out, .timeout = 200)
{
    bins = 10;
    expect_all();
}

Test(curve, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    struct kolo_curve_config config = {.size = sizeof config, .labels = 0};
    cr_assert_eq(kolo_curve_create(&config, &metric), KOLO_ERR_INVALID);
    config.labels = 1;
    config.bins = -1;
    cr_assert_eq(kolo_curve_create(&config, &metric), KOLO_ERR_INVALID);
    config.bins = 0;
    cr_assert_eq(kolo_curve_create(&config, &metric), KOLO_OK);
    const float good = 1, bad = NAN;
    const int8_t truth = 1, two = 2;
    const int64_t far = 1;
    cr_assert_eq(kolo_curve_update(metric, &bad, &truth, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "scores[0] is NaN"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_curve_update(metric, &good, &two, 1, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_curve_update_classes(metric, &good, &far, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "classes[0] is 1, not in 0..0"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_curve_update(metric, &good, NULL, 1, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}
