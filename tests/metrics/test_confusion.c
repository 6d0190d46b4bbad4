// SPDX-License-Identifier: Apache-2.0
// Oracle: a matrix counted naively, and each score by its definition from the list of samples.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include <kolo/classification.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 211, CLASSES = 5, PIXELS = 6, CELLS = CLASSES * CLASSES, IGNORE = -100 };
static int64_t predictions[SAMPLES * PIXELS], labels[SAMPLES * PIXELS];
static float scores[SAMPLES * CLASSES];

static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES * PIXELS; i++) {
        labels[i] = (int64_t)(shard_hash(i) % (CLASSES - 1)); /* the last class never occurs */
        predictions[i] = shard_hash(i + 77777) % 3 ? labels[i] : (int64_t)(shard_hash(3 * i) % 4);
        if (shard_hash(i + 5555) % 11 == 0)
            labels[i] = IGNORE;
    }
    for (uint64_t i = 0; i < SAMPLES * CLASSES; i++)
        scores[i] = shard_hash(i + 9) % 40 ? (float)(shard_hash(i) % 4) : NAN;
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_confusion_config config = {.size = sizeof config,
                                                 .samples = samples,
                                                 .classes = CLASSES,
                                                 .ignores = true,
                                                 .ignore_index = IGNORE};
    return kolo_confusion_create(&config, metric_out);
}

struct outcome {
    int64_t cells[CELLS];
    int64_t ignored, nan_elements, counted;
    double accuracy, balanced, kappa, matthews, macro_f1, weighted_iou, precision[CLASSES];
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_confusion_result r = {.size = sizeof r};
    struct outcome o = {0};
    struct kolo_score_config config = {
        .size = sizeof config, .score = KOLO_SCORE_F_BETA, .average = KOLO_AVERAGE_MACRO};
    kolo_status status;
    KOLO_TRY(kolo_confusion_result(metric, &r));
    KOLO_TRY(kolo_confusion_counts(metric, o.cells, CELLS));
    KOLO_TRY(kolo_confusion_score(metric, &config, &o.macro_f1, 1));
    config.score = KOLO_SCORE_IOU;
    config.average = KOLO_AVERAGE_WEIGHTED;
    KOLO_TRY(kolo_confusion_score(metric, &config, &o.weighted_iou, 1));
    config.score = KOLO_SCORE_PRECISION;
    config.average = KOLO_AVERAGE_NONE;
    KOLO_TRY(kolo_confusion_score(metric, &config, o.precision, CLASSES));
    o.ignored = r.ignored;
    o.nan_elements = r.nan_elements;
    o.counted = r.samples.counted;
    o.accuracy = r.accuracy;
    o.balanced = r.balanced_accuracy;
    o.kappa = r.kappa;
    o.matthews = r.matthews;
    memcpy(result_out, &o, sizeof o);
out:
    return status;
}

static kolo_status add_image(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    return kolo_confusion_update(metric, predictions + i * PIXELS, labels + i * PIXELS, 1, PIXELS,
                                 index);
}

static kolo_status add_scores(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    return kolo_confusion_update_scores(metric, scores + i * CLASSES, labels + i, 1, index);
}

static void expect_cells(const struct outcome *outcome, const int64_t *predicted, size_t elements)
{
    int64_t cells[CELLS] = {0}, ignored = 0;
    for (size_t i = 0; i < elements; i++) {
        if (labels[i] == IGNORE)
            ignored++;
        else
            cells[labels[i] * CLASSES + predicted[i]]++;
    }
    cr_assert_arr_eq(outcome->cells, cells, sizeof cells);
    cr_assert_eq(outcome->ignored, ignored);
    cr_assert_eq(outcome->counted, SAMPLES);
}

static double near(double a, double b)
{
    return fabs(a - b) < 1e-13;
}

/* Each score by its textbook formula in probabilities; the library uses integers. */
static void expect_scores(const struct outcome *outcome)
{
    double n = 0, agree = 0, chance = 0, recalls = 0, f1 = 0, iou = 0, rows[CLASSES] = {0},
           columns[CLASSES] = {0}, xy = 0, xx = 0, yy = 0;
    int present = 0;
    for (int i = 0; i < CELLS; i++) {
        n += (double)outcome->cells[i];
        rows[i / CLASSES] += (double)outcome->cells[i];
        columns[i % CLASSES] += (double)outcome->cells[i];
    }
    for (int c = 0; c < CLASSES; c++) {
        double tp = (double)outcome->cells[c * CLASSES + c];
        agree += tp / n;
        chance += rows[c] / n * (columns[c] / n);
        xy += tp / n - rows[c] / n * (columns[c] / n);
        xx += columns[c] / n * (1 - columns[c] / n);
        yy += rows[c] / n * (1 - rows[c] / n);
        if (rows[c] + columns[c] == 0)
            continue;
        present++;
        recalls += tp / rows[c];
        f1 += 2 * tp / (rows[c] + columns[c]);
        iou += rows[c] / n * tp / (rows[c] + columns[c] - tp);
        cr_assert(near(outcome->precision[c], tp / columns[c]));
    }
    cr_assert_eq(present, CLASSES - 1);
    cr_assert(near(outcome->accuracy, agree));
    cr_assert(near(outcome->balanced, recalls / present));
    cr_assert(near(outcome->kappa, (agree - chance) / (1 - chance)));
    cr_assert(near(outcome->matthews, xy / sqrt(xx * yy)));
    cr_assert(near(outcome->macro_f1, f1 / present));
    cr_assert(near(outcome->weighted_iou, iou));
    cr_assert_eq(outcome->precision[CLASSES - 1], 0);
}

Test(confusion, counts_images_alike_however_they_are_dealt_out, .timeout = 200)
{
    make_data();
    struct outcome outcome;
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof outcome,
                                    .create = create,
                                    .update = add_image,
                                    .result = result};
    shards_agree(&kind, &outcome);
    expect_cells(&outcome, predictions, SAMPLES * PIXELS);
    expect_scores(&outcome);
}

Test(confusion, takes_the_lowest_class_with_the_highest_score, .timeout = 200)
{
    make_data();
    struct outcome outcome;
    int64_t expected[SAMPLES], with_nan = 0;
    for (int i = 0; i < SAMPLES; i++) {
        const float *s = scores + i * CLASSES;
        bool has_nan = false;
        expected[i] = 0;
        for (int c = CLASSES - 1; c >= 0; c--) {
            bool beats = true;
            for (int d = 0; d < CLASSES; d++)
                beats = beats && (isnan(s[c]) || (!isnan(s[d]) && s[c] >= s[d]));
            expected[i] = beats ? c : expected[i];
            has_nan = has_nan || isnan(s[c]);
        }
        with_nan += has_nan && labels[i] != IGNORE;
    }
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof outcome,
                                    .create = create,
                                    .update = add_scores,
                                    .result = result};
    shards_agree(&kind, &outcome);
    expect_cells(&outcome, expected, SAMPLES);
    cr_assert_eq(outcome.nan_elements, with_nan);
}

static kolo_status edges_main(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct kolo_metric *metric = NULL;
    struct kolo_confusion_result r = {.size = sizeof r};
    struct kolo_score_config config = {.size = sizeof config, .undefined = -7};
    double value = 0;
    int64_t zero = 0, one = 1;
    const double bad_betas[] = {-1, 1e101, (double)NAN};
    kolo_status status;
    KOLO_TRY(create(0, &metric));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    for (int i = 0; i < 3; i++) {
        config.beta = bad_betas[i];
        WORLD_EXPECT(kolo_confusion_score(metric, &config, &value, 1) == KOLO_ERR_INVALID &&
                         strstr(kolo_error_detail(), "beta"),
                     "beta %g: %s", config.beta, kolo_error_detail());
    }
    config.beta = 0;
    KOLO_TRY(kolo_confusion_result(metric, &r));
    WORLD_EXPECT(r.elements == 0 && isnan(r.accuracy) && isnan(r.kappa) &&
                     isnan(r.balanced_accuracy) && r.matthews == 0,
                 "of nothing: accuracy %g, kappa %g", r.accuracy, r.kappa);
    KOLO_TRY(kolo_confusion_score(metric, &config, &value, 1));
    WORLD_EXPECT(value == -7, "macro precision of nothing: %g", value);
    KOLO_TRY(kolo_confusion_update(metric, &zero, &one, 1, 1, NULL));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    KOLO_TRY(kolo_confusion_score(metric, &config, &value, 1));
    WORLD_EXPECT(value == -3.5, "0 / 1 and 0 / 0: %g", value);
    config.counts_absent = true;
    KOLO_TRY(kolo_confusion_score(metric, &config, &value, 1));
    WORLD_EXPECT(value == -7.0 * 4 / 5, "with the absent three: %g", value);
    WORLD_INVALID(kolo_confusion_score(metric, &config, &value, 0),
                  "count is 0, but values_out gets 1");
    WORLD_INVALID(kolo_confusion_score(metric, &config, NULL, 1), "values_out is NULL");
    config.average = KOLO_AVERAGE_NONE;
    WORLD_INVALID(kolo_confusion_score(metric, &config, &value, 4),
                  "count is 4, but values_out gets 5");
    config.beta = NAN;
    WORLD_INVALID(kolo_confusion_score(metric, &config, &value, 5), "beta");
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(confusion, says_what_nothing_divided_by_nothing_is, .timeout = 60)
{
    struct world world = {.size = 2};
    cr_assert_eq(world_run(&world, edges_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

static double cpu_seconds(void)
{
    struct timespec t;
    cr_assert_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* With 4096 classes, 20 scores took 5 s when each summed every column anew; now the sums are
 * kept. */
static kolo_status score_many(struct kolo_comm *comm, void *arg)
{
    enum { MANY = 4096 };
    const struct kolo_confusion_config config = {.size = sizeof config, .classes = MANY};
    const struct kolo_score_config recall = {.size = sizeof recall, .score = KOLO_SCORE_RECALL};
    const int64_t label[] = {0, 7, MANY - 1, MANY - 1}, chosen[] = {0, 8, 7, MANY - 1};
    struct kolo_metric *metric = NULL;
    double value = 0, *seconds = arg;
    kolo_status status;
    KOLO_TRY(kolo_confusion_create(&config, &metric));
    KOLO_TRY(kolo_confusion_update(metric, chosen, label, 4, 1, NULL));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    *seconds = -cpu_seconds();
    for (int i = 0; i < 20; i++)
        KOLO_TRY(kolo_confusion_score(metric, &recall, &value, 1));
    *seconds += cpu_seconds();
    cr_expect_eq(value, (1 + 0.5) / 4); /* classes 0, 7, 8 and the last one occur */
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(confusion, scores_of_many_classes_take_no_walk_over_the_matrix, .timeout = 200)
{
    double seconds = 0;
    cr_assert_eq(kolo_run_threads(1, NULL, score_many, &seconds), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_expect_lt(seconds, 1, "%g s", seconds);
}

/* Class 1: three are right, two are taken for it, one is taken for another; four are others. */
static kolo_status scores_main(struct kolo_comm *comm, void *argument)
{
    static const int64_t found[10] = {1, 1, 1, 1, 1, 0, 0, 2, 3, 4},
                         truths[10] = {1, 1, 1, 0, 2, 1, 0, 2, 3, 3};
    static const struct {
        kolo_score score;
        double beta, expected;
    } cases[] = {{KOLO_SCORE_PRECISION, 0, 3.0 / 5},   {KOLO_SCORE_RECALL, 0, 3.0 / 4},
                 {KOLO_SCORE_F_BETA, 0, 6.0 / 9},      {KOLO_SCORE_F_BETA, 2, 15.0 / 21},
                 {KOLO_SCORE_SPECIFICITY, 0, 4.0 / 6}, {KOLO_SCORE_IOU, 0, 3.0 / 6},
                 {KOLO_SCORE_DICE, 0, 6.0 / 9}};
    struct kolo_metric *metric = NULL;
    double values[CLASSES];
    kolo_status status;
    (void)argument;
    KOLO_TRY(create(0, &metric));
    KOLO_TRY(kolo_confusion_update(metric, found, truths, 10, 1, NULL));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct kolo_score_config config = {.size = sizeof config,
                                                 .score = cases[i].score,
                                                 .beta = cases[i].beta,
                                                 .average = KOLO_AVERAGE_NONE};
        KOLO_TRY(kolo_confusion_score(metric, &config, values, CLASSES));
        WORLD_EXPECT(values[1] == cases[i].expected, "case %zu: %g", i, values[1]);
    }
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(confusion, scores_are_their_definitions, .timeout = 60)
{
    struct world world = {.size = 1};
    cr_assert_eq(world_run(&world, scores_main, NULL), KOLO_OK, "%s", world_cause(&world)->text);
}

Test(confusion, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    struct kolo_confusion_config config = {.size = sizeof config, .classes = 0};
    cr_assert_eq(kolo_confusion_create(&config, &metric), KOLO_ERR_INVALID);
    config.classes = KOLO_CONFUSION_CLASSES_MAX + 1;
    cr_assert_eq(kolo_confusion_create(&config, &metric), KOLO_ERR_INVALID);
    cr_assert_eq(create(9, &metric), KOLO_OK);
    const int64_t good[2] = {0, 1}, bad[2] = {1, CLASSES}, negative[2] = {-1, 0};
    const int64_t index[2] = {3, 4};
    cr_assert_eq(kolo_confusion_update(metric, good, bad, 2, 1, index), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "labels[1] is 5, not in 0..4"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_confusion_update(metric, negative, good, 2, 1, index), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "predictions[0] is -1"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_confusion_update(metric, good, NULL, 2, 1, index), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_confusion_update(metric, good, good, 2, SIZE_MAX, index), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_confusion_update(metric, good, good, 2, 1, NULL), KOLO_ERR_INVALID);
    size_t bytes, before;
    cr_assert_eq(kolo_metric_save(metric, NULL, 0, &before), KOLO_OK);
    cr_assert_eq(kolo_confusion_update(metric, good, good, 2, 1, index), KOLO_OK);
    cr_assert_eq(kolo_metric_save(metric, NULL, 0, &bytes), KOLO_OK);
    cr_assert_eq(bytes - before, 2 * (8 + 4 + 8), "two records of one pair each");
    kolo_metric_destroy(metric);
}
