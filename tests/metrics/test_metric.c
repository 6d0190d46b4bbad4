// SPDX-License-Identifier: Apache-2.0
// What all kinds of metrics do on one rank: which updates they refuse, and that a refused update
// adds nothing.
#include <criterion/criterion.h>
#include <string.h>

#include <kolo/classification.h>
#include <kolo/detection.h>
#include <kolo/metrics.h>
#include <kolo/regression.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "tests/support/world.h"

static struct kolo_metric *mean_of(int64_t samples)
{
    struct kolo_metric *metric = NULL;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = samples};
    cr_assert_eq(kolo_mean_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());
    return metric;
}

#define refuses(call, words)                                                                       \
    do {                                                                                           \
        cr_assert_eq((call), KOLO_ERR_INVALID);                                                    \
        cr_assert(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());                  \
    } while (0)

Test(metric, refuses_indices_that_it_has_no_samples_for)
{
    const float values[2] = {1, 2};
    const int64_t indices[2] = {0, 10}, negative[1] = {-1};
    struct kolo_metric *plain = mean_of(0), *indexed = mean_of(10);
    refuses(kolo_mean_update_float32(plain, values, 2, indices), "created with samples 0");
    refuses(kolo_mean_update_float32(indexed, values, 2, NULL), "indices is NULL");
    refuses(kolo_mean_update_float32(indexed, values, 2, indices), "indices[1] is 10, not in 0..9");
    refuses(kolo_mean_update_float32(indexed, values, 1, negative), "indices[0] is -1");
    refuses(kolo_mean_update_float32(NULL, values, 1, NULL), "is NULL");
    cr_assert_eq(indexed->record_count, 0);
    cr_assert_eq(plain->direct_count, 0);
    cr_assert_eq(kolo_mean_update_float32(indexed, NULL, 0, NULL), KOLO_OK, "an empty batch");
    kolo_metric_destroy(plain);
    kolo_metric_destroy(indexed);
    struct kolo_metric *none = NULL;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = -1};
    refuses(kolo_mean_create(&config, &none), "samples -1");
    cr_assert_null(none);
}

Test(metric, keeps_the_first_of_a_sample_until_reset)
{
    struct kolo_metric *metric = mean_of(70);
    const double values[3] = {1, 2, 3};
    const int64_t indices[3] = {69, 3, 69};
    cr_assert_eq(kolo_mean_update_float64(metric, values, 3, indices), KOLO_OK);
    cr_assert_eq(metric->record_count, 2);
    cr_assert_eq(metric->local_duplicates, 1);
    size_t bytes;
    double first;
    memcpy(&first, kolo_metric_record(metric, 0, &bytes), sizeof first);
    cr_assert_eq(bytes, sizeof first);
    cr_assert_eq(first, 1);
    kolo_metric_reset(metric);
    cr_assert_eq(kolo_mean_update_float64(metric, values + 2, 1, indices), KOLO_OK);
    cr_assert_eq(metric->record_count, 1);
    cr_assert_eq(metric->local_duplicates, 0);
    kolo_metric_destroy(metric);
    kolo_metric_reset(NULL);
    kolo_metric_destroy(NULL);
}

Test(metric, names_the_argument_that_is_wrong)
{
    struct kolo_metric *metric = NULL;
    struct kolo_mean_config mean = {.size = 3};
    refuses(kolo_mean_create(NULL, &metric), "kolo_mean_create: config is NULL");
    refuses(kolo_mean_create(&mean, &metric), "kolo_mean_create: config->size is 3, not ");
    refuses(kolo_mean_create(&mean, &metric), "set it to sizeof(struct kolo_mean_config)");
    mean.size = sizeof mean;
    refuses(kolo_mean_create(&mean, NULL), "kolo_mean_create: metric_out is NULL");
    refuses(kolo_sampler_set_epoch(NULL, 1), "sampler is NULL");
    const int64_t category = 1;
    struct kolo_detection *detection = NULL;
    struct kolo_detection_config config = {.size = sizeof config, .category_count = 1};
    refuses(kolo_detection_create(&config, &detection), "categories is NULL; give the ids");
    config.categories = &category;
    config.category_count = 0;
    refuses(kolo_detection_create(&config, &detection), "category_count 0 is not in 1..2147483647");
    config.category_count = 1;
    config.mean_rule = (kolo_mean_rule)9;
    refuses(kolo_detection_create(&config, &detection),
            "kolo_detection_create: mean_rule 9 is not a value of kolo_mean_rule");
}

Test(metric, messages_name_the_call_and_the_next_step)
{
    const double values[2] = {1, 2};
    const float scores[2] = {1, 2};
    const int64_t index = 0, ignored = -100;
    const struct kolo_confusion_config classes = {.size = sizeof classes, .classes = 2};
    struct kolo_mean_result result = {.size = 3};
    struct kolo_metric *plain = mean_of(0), *indexed = mean_of(1), *confusion = NULL;
    refuses(kolo_mean_update_float64(plain, values, 1, &index),
            "kolo_mean_update_float64: indices given");
    refuses(kolo_mean_update_float64(indexed, values, 1, NULL), "pass the index of each sample");
    cr_assert_eq(kolo_mean_update_batch(plain, 1, KOLO_COUNT_MAX), KOLO_OK);
    refuses(kolo_mean_update_batch(plain, 1, 1), "kolo_mean_update_batch: 1 samples more than the");
    refuses(kolo_metric_merge(plain, indexed),
            "from is of kind 'mean' with samples 1: create both");
    cr_assert_eq(kolo_confusion_create(&classes, &confusion), KOLO_OK);
    refuses(kolo_confusion_update_scores(confusion, NULL, &index, 1, NULL),
            "kolo_confusion_update_scores: scores is NULL");
    refuses(kolo_confusion_update_scores(confusion, scores, &ignored, 1, NULL),
            "labels[0] is -100, not in 0..1; to leave such samples out, set ignores");
    cr_assert_eq(kolo_metrics_compute(NULL, &plain, 1, NULL), KOLO_ERR_INVALID);
    plain->is_computed = true;
    refuses(kolo_mean_result(plain, &result),
            "kolo_mean_result: result_out->size is 3, not 72: set it to sizeof(struct "
            "kolo_mean_result)");
    refuses(kolo_mean_result(plain, NULL), "kolo_mean_result: result_out is NULL");
    kolo_metric_destroy(plain);
    kolo_metric_destroy(indexed);
    kolo_metric_destroy(confusion);
}

Test(metric, names_the_array_of_boxes_that_is_wrong)
{
    const int64_t category = 1, image = 0;
    const size_t one = 1;
    const float numbers[4] = {0, 0, 1, 1};
    const double score = 1;
    const struct kolo_detection_config config = {
        .size = sizeof config, .categories = &category, .category_count = 1};
    const struct kolo_boxes none = {.image_counts = (const size_t[]){0}, .dtype = KOLO_FLOAT32};
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    struct kolo_boxes found = {.image_counts = &one, .count = 1, .dtype = KOLO_FLOAT32};
    refuses(kolo_detection_update(detection, &image, 1, &none, &found),
            "detections.boxes is NULL, and count is 1");
    found.boxes = numbers;
    refuses(kolo_detection_update(detection, &image, 1, &none, &found),
            "detections.categories is NULL, and count is 1");
    found.categories = &category;
    refuses(kolo_detection_update(detection, &image, 1, &none, &found),
            "detections.scores is NULL, and count is 1");
    found.scores = &score;
    found.dtype = KOLO_INT32;
    refuses(kolo_detection_update(detection, &image, 1, &none, &found),
            "detections.dtype is 2; use KOLO_FLOAT32 or KOLO_FLOAT64");
    found.dtype = KOLO_FLOAT32;
    found.format = (kolo_box_format)7;
    refuses(kolo_detection_update(detection, &image, 1, &none, &found),
            "detections.format is 7; use a kolo_box_format");
    kolo_detection_destroy(detection);
}

Test(metric, survives_every_failing_allocation)
{
    const double value = 1;
    const int64_t index = 5;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = 70};
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 50 && !succeeded; nth++) {
        struct kolo_metric *metric = NULL;
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_mean_create(&config, &metric);
        if (status == KOLO_OK)
            status = kolo_mean_update_float64(metric, &value, 1, &index);
        succeeded = status == KOLO_OK;
        cr_assert(succeeded || status == KOLO_ERR_NO_MEMORY);
        cr_assert(!metric || succeeded || metric->record_count == 0);
        kolo_alloc_fail_nth(0);
        kolo_metric_destroy(metric);
    }
    cr_assert(succeeded);
}

/* Creates a metric and gives it one sample. */
static kolo_status likelihood_with_one(struct kolo_metric **metric_out)
{
    const struct kolo_likelihood_config config = {
        .size = sizeof config, .classes = 2, .samples = 70};
    const float scores[2] = {0.5F, 0.5F};
    const int64_t label = 1, index = 5;
    const kolo_status status = kolo_likelihood_create(&config, metric_out);
    return status == KOLO_OK ? kolo_likelihood_update(*metric_out, scores, &label, 1, 1, &index)
                             : status;
}

static kolo_status confusion_with_one(struct kolo_metric **metric_out)
{
    const struct kolo_confusion_config config = {
        .size = sizeof config, .classes = 3, .samples = 70};
    const int64_t one = 1, index = 5;
    const kolo_status status = kolo_confusion_create(&config, metric_out);
    return status == KOLO_OK ? kolo_confusion_update(*metric_out, &one, &one, 1, 1, &index)
                             : status;
}

static kolo_status multilabel_with_one(struct kolo_metric **metric_out)
{
    const struct kolo_multilabel_config config = {
        .size = sizeof config, .labels = 2, .samples = 70};
    const float scores[2] = {0.5F, 0.5F};
    const int8_t truths[2] = {0, 1};
    const int64_t index = 5;
    const kolo_status status = kolo_multilabel_create(&config, metric_out);
    return status == KOLO_OK ? kolo_multilabel_update(*metric_out, scores, truths, 1, &index)
                             : status;
}

Test(metric, kinds_with_memory_of_their_own_survive_failing_allocations)
{
    kolo_status (*const kinds[])(struct kolo_metric **) = {likelihood_with_one, confusion_with_one,
                                                           multilabel_with_one};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        bool succeeded = false;
        for (uint64_t nth = 1; nth < 50 && !succeeded; nth++) {
            struct kolo_metric *metric = NULL;
            kolo_alloc_fail_nth(nth);
            const kolo_status status = kinds[kind](&metric);
            kolo_alloc_fail_nth(0);
            succeeded = status == KOLO_OK;
            cr_assert(succeeded || status == KOLO_ERR_NO_MEMORY, "kind %zu", kind);
            cr_assert(!metric || succeeded || metric->record_count == 0, "kind %zu", kind);
            kolo_metric_destroy(metric);
        }
        cr_assert(succeeded, "kind %zu", kind);
    }
}

Test(metric, of_another_kind_is_refused)
{
    const struct kolo_confusion_config config = {.size = sizeof config, .classes = 3};
    const float scores[3] = {0};
    const int8_t truths[3] = {0};
    const double value = 0;
    const int64_t label = 0;
    struct kolo_metric *mean = mean_of(0), *confusion = NULL;
    cr_assert_eq(kolo_confusion_create(&config, &confusion), KOLO_OK);
    refuses(kolo_accuracy_update(mean, scores, &label, 1, NULL), "kolo_accuracy_update");
    refuses(kolo_likelihood_update(mean, scores, &label, 1, 1, NULL), "kolo_likelihood_update");
    refuses(kolo_confusion_update(mean, &label, &label, 1, 1, NULL), "kolo_confusion_update");
    refuses(kolo_multilabel_update(mean, scores, truths, 1, NULL), "kolo_multilabel_update");
    refuses(kolo_curve_update(mean, scores, truths, 1, NULL), "kolo_curve_update");
    refuses(kolo_calibration_update(mean, scores, &label, 1, NULL), "kolo_calibration_update");
    refuses(kolo_mean_update_float32(confusion, scores, 1, NULL), "mean");
    refuses(kolo_mean_update_batch(confusion, 1, 1), "kolo_mean_update_batch");
    refuses(kolo_regression_update_float32(confusion, scores, scores, 1, NULL), "regression");
    refuses(kolo_regression_update_float64(confusion, &value, &value, 1, NULL), "regression");
    cr_assert_eq(mean->direct_count, 0);
    cr_assert_eq(confusion->direct_count, 0);
    kolo_metric_destroy(mean);
    kolo_metric_destroy(confusion);
}

Test(metric, reset_leaves_no_word)
{
    enum { CLASSES = 6 };
    const struct kolo_confusion_config config = {.size = sizeof config, .classes = CLASSES};
    struct kolo_metric *metric = NULL;
    int64_t classes[CLASSES];
    for (int i = 0; i < CLASSES; i++)
        classes[i] = i;
    cr_assert_eq(kolo_confusion_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_confusion_update(metric, classes, classes, CLASSES, 1, NULL), KOLO_OK);
    cr_assert_eq(metric->direct_count, CLASSES);
    kolo_metric_reset(metric);
    cr_assert_eq(metric->direct_count, 0);
    for (size_t i = 0; i < metric->words; i++)
        cr_assert_eq(metric->direct[i], 0, "word %zu of %zu", i, metric->words);
    kolo_metric_destroy(metric);
}
