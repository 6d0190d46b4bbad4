// SPDX-License-Identifier: Apache-2.0
// Every kind of metric with sample indices counts each sample once, and reports how many updates
// were duplicates and how many samples no rank had.
#include <criterion/criterion.h>

#include <kolo/classification.h>
#include <kolo/regression.h>

enum { SAMPLES = 10, CLASSES = 2, RANKS = 3 };
enum { COUNTED = 5, DUPLICATES = 5, MISSING = 5 };

static const float half[CLASSES] = {0.5F, 0.5F};

#define CREATE(kind, ...)                                                                          \
    static kolo_status create_##kind(struct kolo_metric **metric_out)                              \
    {                                                                                              \
        const struct kolo_##kind##_config config = {                                               \
            .size = sizeof config, .samples = SAMPLES, __VA_ARGS__};                               \
        return kolo_##kind##_create(&config, metric_out);                                          \
    }
#define COUNTS(kind)                                                                               \
    static kolo_status counts_##kind(const struct kolo_metric *metric,                             \
                                     struct kolo_sample_counts *counts_out)                        \
    {                                                                                              \
        struct kolo_##kind##_result result = {.size = sizeof result};                              \
        kolo_status status = kolo_##kind##_result(metric, &result);                                \
        *counts_out = result.samples;                                                              \
        return status;                                                                             \
    }
CREATE(mean, .nonfinite = KOLO_NONFINITE_ERROR)
CREATE(accuracy, .classes = CLASSES)
CREATE(confusion, .classes = CLASSES)
CREATE(multilabel, .labels = CLASSES)
CREATE(curve, .labels = CLASSES)
CREATE(likelihood, .classes = CLASSES)
CREATE(calibration, .classes = CLASSES)
CREATE(regression, .nonfinite = KOLO_NONFINITE_ERROR)
COUNTS(mean)
COUNTS(accuracy)
COUNTS(confusion)
COUNTS(multilabel)
COUNTS(curve)
COUNTS(likelihood)
COUNTS(calibration)
COUNTS(regression)

static kolo_status create_binned(struct kolo_metric **metric_out)
{
    const struct kolo_curve_config config = {
        .size = sizeof config, .samples = SAMPLES, .labels = CLASSES, .bins = 4};
    return kolo_curve_create(&config, metric_out);
}

static kolo_status update_mean(struct kolo_metric *metric, int64_t index)
{
    return kolo_mean_update_float32(metric, half, 1, &index);
}

static kolo_status update_accuracy(struct kolo_metric *metric, int64_t index)
{
    return kolo_accuracy_update(metric, half, (int64_t[]){1}, 1, &index);
}

static kolo_status update_confusion(struct kolo_metric *metric, int64_t index)
{
    return kolo_confusion_update(metric, (int64_t[]){0}, (int64_t[]){1}, 1, 1, &index);
}

static kolo_status update_multilabel(struct kolo_metric *metric, int64_t index)
{
    return kolo_multilabel_update(metric, half, (int8_t[]){1, 0}, 1, &index);
}

static kolo_status update_curve(struct kolo_metric *metric, int64_t index)
{
    return kolo_curve_update(metric, half, (int8_t[]){1, 0}, 1, &index);
}

static kolo_status update_likelihood(struct kolo_metric *metric, int64_t index)
{
    return kolo_likelihood_update(metric, half, (int64_t[]){1}, 1, 1, &index);
}

static kolo_status update_calibration(struct kolo_metric *metric, int64_t index)
{
    return kolo_calibration_update(metric, half, (int64_t[]){1}, 1, &index);
}

static kolo_status update_regression(struct kolo_metric *metric, int64_t index)
{
    return kolo_regression_update_float32(metric, half, half, 1, &index);
}

static const struct kind {
    const char *name;
    kolo_status (*create)(struct kolo_metric **metric_out);
    kolo_status (*update)(struct kolo_metric *metric, int64_t index);
    kolo_status (*counts)(const struct kolo_metric *metric, struct kolo_sample_counts *counts_out);
} kinds[] = {
    {"mean", create_mean, update_mean, counts_mean},
    {"accuracy", create_accuracy, update_accuracy, counts_accuracy},
    {"confusion", create_confusion, update_confusion, counts_confusion},
    {"multilabel", create_multilabel, update_multilabel, counts_multilabel},
    {"exact curve", create_curve, update_curve, counts_curve},
    {"binned curve", create_binned, update_curve, counts_curve},
    {"likelihood", create_likelihood, update_likelihood, counts_likelihood},
    {"calibration", create_calibration, update_calibration, counts_calibration},
    {"regression", create_regression, update_regression, counts_regression},
};

/* Rank r has samples r, r + 1 and the last one; rank 0 has its first one twice. Together: 0, 1, 2,
 * 3 and 9. */
static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    const struct kind *kind = arg;
    struct kolo_metric *metric = NULL;
    struct kolo_sample_counts counts = {0};
    int64_t rank = kolo_rank(comm), has[] = {rank, rank + 1, SAMPLES - 1, 0};
    kolo_status status = kind->create(&metric);
    for (int i = 0; status == KOLO_OK && i < (rank == 0 ? 4 : 3); i++)
        status = kind->update(metric, has[i]);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    if (status == KOLO_OK)
        status = kind->counts(metric, &counts);
    bool is_right =
        counts.counted == COUNTED && counts.duplicates == DUPLICATES && counts.missing == MISSING;
    kolo_metric_destroy(metric);
    return status == KOLO_OK && !is_right ? KOLO_ERR_DATA : status;
}

Test(samples, are_counted_once_and_those_twice_or_missing_are_reported)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct kind kind = kinds[i];
        cr_assert_eq(kolo_run_threads(RANKS, NULL, rank_main, &kind), KOLO_OK, "%s: %s", kind.name,
                     kolo_error_detail());
    }
}
