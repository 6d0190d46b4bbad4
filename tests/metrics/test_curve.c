// SPDX-License-Identifier: Apache-2.0
// Oracle: a loop over every pair of a positive and a negative; and, for average precision, for each
// distinct score the number of samples with that score or a higher one.
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
/* The number of collectives that sort the records of exact curves: curve_exchange.c. */
enum { EXCHANGES = 6 };
static bool by_class, ignores;

/* Label 0 has many ties, label 1 none except signed zeros, and label 2 no positive, unless updated
 * by class. */
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
            s[0] = NAN; /* not read */
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
                                             .ignore_index = PADDING,
                                             .micro = true};
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
    struct kolo_curve_label labels[LABELS], macro, micro, weighted;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_curve_result r = {.size = sizeof r};
    struct outcome o = {0};
    kolo_status status = kolo_curve_result(metric, &r);
    if (status == KOLO_OK)
        status = kolo_curve_labels(metric, o.labels, LABELS);
    if (status == KOLO_OK)
        status = kolo_curve_average(metric, KOLO_AVERAGE_MACRO, &o.macro);
    if (status == KOLO_OK)
        status = kolo_curve_average(metric, KOLO_AVERAGE_MICRO, &o.micro);
    if (status == KOLO_OK)
        status = kolo_curve_average(metric, KOLO_AVERAGE_WEIGHTED, &o.weighted);
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

/* A sample and a label. */
struct element {
    int truth;
    double score;
};

static struct element element_of(int number, int first, int labels)
{
    int i = number / labels, l = first + number % labels;
    return (struct element){.truth = truth_at(i, l), .score = score_at(i, l)};
}

/* The contribution of a positive: the number of negatives with lower scores, where a tie counts
 * half; and the share of positives among the elements with its score or a higher one. */
static void add_positive(const struct element *one, int first, int labels, double *wins,
                         double *precision)
{
    double tp = 0, fp = 0;
    for (int j = 0; j < SAMPLES * labels; j++) {
        struct element other = element_of(j, first, labels);
        tp += other.truth == 1 && other.score >= one->score;
        fp += other.truth == 0 && other.score >= one->score;
        if (other.truth == 0)
            *wins += one->score > other.score ? 1 : one->score == other.score ? 0.5 : 0;
    }
    /* one positive at a time gives the same as one distinct score at a time */
    *precision += tp / (tp + fp);
}

/* One curve of all elements of some labels. */
static struct kolo_curve_label expected(int first, int labels)
{
    double wins = 0, precision = 0;
    struct kolo_curve_label e = {0};
    for (int i = 0; i < SAMPLES * labels; i++) {
        struct element one = element_of(i, first, labels);
        e.positives += one.truth == 1;
        e.negatives += one.truth == 0;
        if (one.truth == 1)
            add_positive(&one, first, labels, &wins, &precision);
    }
    e.auroc = wins / (double)(e.positives * e.negatives);
    e.average_precision = precision / (double)e.positives;
    return e;
}

static void expect_label(const char *what, const struct kolo_curve_label *got,
                         const struct kolo_curve_label *e)
{
    cr_assert_eq(got->positives, e->positives, "%s", what);
    cr_assert_eq(got->negatives, e->negatives, "%s", what);
    cr_assert(fabs(got->auroc - e->auroc) < 1e-15, "%s: %a, %a", what, got->auroc, e->auroc);
    cr_assert(fabs(got->average_precision - e->average_precision) < 1e-14, "%s: %a, %a", what,
              got->average_precision, e->average_precision);
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
    struct kolo_curve_label weighted = {0}, micro = expected(0, LABELS);
    for (int l = 0; l < LABELS; l++) {
        struct kolo_curve_label e = expected(l, 1);
        if (l >= with) {
            cr_assert_eq(o.labels[l].positives, 0);
            cr_assert_eq(o.labels[l].negatives, e.negatives);
            cr_assert(isnan(o.labels[l].auroc) && isnan(o.labels[l].average_precision));
            continue;
        }
        expect_label("label", &o.labels[l], &e);
        cr_assert_eq(o.labels[l].auroc, e.auroc, "label %d: %a, %a", l, o.labels[l].auroc, e.auroc);
        aurocs += e.auroc;
        weighted.auroc += e.auroc * (double)e.positives / (double)micro.positives;
        weighted.average_precision +=
            e.average_precision * (double)e.positives / (double)micro.positives;
    }
    weighted.positives = micro.positives;
    weighted.negatives = micro.negatives;
    expect_label("micro", &o.micro, &micro);
    expect_label("weighted", &o.weighted, &weighted);
    cr_assert_eq(o.auroc, aurocs / with);
    cr_assert_eq(o.macro.auroc, o.auroc);
    cr_assert_eq(o.macro.average_precision, o.average_precision);
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

/* Truths that the config ignores, and an average that it did not request. */
static kolo_status left_out(struct kolo_comm *comm, void *arg)
{
    const struct kolo_curve_config config = {
        .size = sizeof config, .labels = 1, .ignores = true, .ignore_index = 1};
    const float some[] = {0.5F, 0.25F, 0.75F};
    const int8_t given[] = {0, 1, -1};
    struct kolo_metric *metric = NULL;
    struct kolo_curve_label label;
    (void)arg;
    cr_assert_eq(kolo_curve_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_curve_update(metric, some, given, 3, NULL), KOLO_OK);
    cr_assert_eq(kolo_curve_average(metric, KOLO_AVERAGE_MACRO, &label), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metrics_compute(comm, &metric, 1, NULL), KOLO_OK);
    cr_assert_eq(kolo_curve_average(metric, KOLO_AVERAGE_WEIGHTED, &label), KOLO_OK);
    cr_assert(label.positives == 0 && label.negatives == 1 && isnan(label.auroc));
    cr_assert_eq(kolo_curve_average(metric, KOLO_AVERAGE_MICRO, &label), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "set micro in the config"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_curve_average(metric, KOLO_AVERAGE_NONE, &label), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_curve_average(metric, (kolo_average)9, &label), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_curve_average(metric, KOLO_AVERAGE_MACRO, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
    return KOLO_OK;
}

Test(curve, leaves_out_what_the_config_names)
{
    cr_assert_eq(kolo_run_threads(1, NULL, left_out, NULL), KOLO_OK);
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
