// SPDX-License-Identifier: Apache-2.0
// Oracle: the four counts of each label, counted naively.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/classification.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 157, LABELS = 3, PADDING = 5 };
static const float thresholds[LABELS] = {0.25F, 0.5F, 0.75F};
static float scores[SAMPLES * LABELS];
static int8_t truths[SAMPLES * LABELS];

static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES * LABELS; i++) {
        scores[i] = shard_hash(i) % 30 ? (float)(shard_hash(i) % 9) / 8 : NAN;
        truths[i] = (int8_t)(shard_hash(i + 4) % 9 ? (int)(shard_hash(i + 1) % 2)
                             : i % 2               ? PADDING
                                                   : -1);
    }
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_multilabel_config config = {.size = sizeof config,
                                                  .samples = samples,
                                                  .labels = LABELS,
                                                  .thresholds = thresholds,
                                                  .ignores = true,
                                                  .ignore_index = PADDING};
    return kolo_multilabel_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    return kolo_multilabel_update(metric, scores + i * LABELS, truths + i * LABELS, 1, index);
}

struct outcome {
    struct {
        int64_t elements, ignored, nan_elements;
        double accuracy, exact_match;
    } r;
    double recall[LABELS], micro_precision;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_multilabel_result r = {.size = sizeof r};
    struct outcome o = {0};
    struct kolo_score_config config = {
        .size = sizeof config, .score = KOLO_SCORE_RECALL, .average = KOLO_AVERAGE_NONE};
    kolo_status status;
    KOLO_TRY(kolo_multilabel_result(metric, &r));
    KOLO_TRY(kolo_multilabel_score(metric, &config, o.recall, LABELS));
    config.score = KOLO_SCORE_PRECISION;
    config.average = KOLO_AVERAGE_MICRO;
    KOLO_TRY(kolo_multilabel_score(metric, &config, &o.micro_precision, 1));
    o.r.elements = r.elements;
    o.r.ignored = r.ignored;
    o.r.nan_elements = r.nan_elements;
    o.r.accuracy = r.accuracy;
    o.r.exact_match = r.exact_match;
    memcpy(result_out, &o, sizeof o);
out:
    return status;
}

Test(multilabel, counts_alike_however_samples_are_dealt_out, .timeout = 200)
{
    make_data();
    struct outcome o;
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof o,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    shards_agree(&kind, &o);
    int64_t hits[LABELS] = {0}, positives[LABELS] = {0}, all_hits = 0, predicted = 0, right = 0;
    int64_t ignored = 0, nans = 0, matches = 0;
    for (int i = 0; i < SAMPLES; i++) {
        bool is_match = true;
        for (int l = 0; l < LABELS; l++) {
            int truth = truths[i * LABELS + l], guess = scores[i * LABELS + l] > thresholds[l];
            if (truth < 0 || truth == PADDING) {
                ignored++;
                continue;
            }
            nans += isnan(scores[i * LABELS + l]);
            right += truth == guess;
            is_match = is_match && truth == guess;
            hits[l] += truth && guess;
            positives[l] += truth;
            all_hits += truth && guess;
            predicted += guess;
        }
        matches += is_match;
    }
    cr_assert_eq(o.r.elements, SAMPLES * LABELS - ignored);
    cr_assert_eq(o.r.ignored, ignored);
    cr_assert_eq(o.r.nan_elements, nans);
    cr_assert_eq(o.r.accuracy, (double)right / (double)(SAMPLES * LABELS - ignored));
    cr_assert_eq(o.r.exact_match, (double)matches / SAMPLES);
    cr_assert_eq(o.micro_precision, (double)all_hits / (double)predicted);
    for (int l = 0; l < LABELS; l++)
        cr_assert_eq(o.recall[l], (double)hits[l] / (double)positives[l]);
}

Test(multilabel, what_is_left_out_is_of_the_config)
{
    struct kolo_metric *metric = NULL, *other = NULL;
    struct kolo_multilabel_config config = {.size = sizeof config, .labels = 1, .ignores = true};
    const float score[1] = {1};
    const int8_t zero[1] = {0}, five[1] = {PADDING};
    cr_assert_eq(kolo_multilabel_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_multilabel_update(metric, score, zero, 1, NULL), KOLO_OK);
    cr_assert_eq(kolo_multilabel_update(metric, score, five, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "truths[0] is 5"), "%s", kolo_error_detail());
    config.ignore_index = 1;
    cr_assert_eq(kolo_multilabel_create(&config, &other), KOLO_OK);
    cr_assert_eq(kolo_metric_merge(metric, other), KOLO_ERR_INVALID);
    kolo_metric_destroy(other);
    kolo_metric_destroy(metric);
}

Test(multilabel, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    const float nan_threshold[1] = {NAN};
    struct kolo_multilabel_config config = {.size = sizeof config, .labels = 0};
    cr_assert_eq(kolo_multilabel_create(&config, &metric), KOLO_ERR_INVALID);
    config.labels = 1;
    config.thresholds = nan_threshold;
    cr_assert_eq(kolo_multilabel_create(&config, &metric), KOLO_ERR_INVALID);
    config.thresholds = NULL;
    cr_assert_eq(kolo_multilabel_create(&config, &metric), KOLO_OK);
    const float score[1] = {1};
    const int8_t two[1] = {2};
    cr_assert_eq(kolo_multilabel_update(metric, score, two, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "truths[0] is 2"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_multilabel_update(metric, NULL, two, 1, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
    config.samples = 3;
    cr_assert_eq(kolo_multilabel_create(&config, &metric), KOLO_OK);
    const int8_t one[1] = {1};
    const int64_t far[1] = {3};
    cr_assert_eq(kolo_multilabel_update(metric, score, one, 1, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_multilabel_update(metric, score, one, 1, far), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}
