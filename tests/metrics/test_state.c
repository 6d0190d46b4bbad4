// SPDX-License-Identifier: Apache-2.0
// Merging, saving and restoring give what one metric would have counted. Bytes from outside are
// accepted or refused with a clear text, and do nothing else.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/classification.h>
#include <kolo/regression.h>

#include "metrics/curve.h"
#include "metrics/metric.h"
#include "tests/support/metric_state.h"

enum { SAMPLES = 90 };

static struct kolo_metric *mean_of(int64_t samples)
{
    struct kolo_metric *metric = NULL;
    const struct kolo_mean_config config = {
        .size = sizeof config, .samples = samples, .nonfinite = KOLO_NONFINITE_SKIP};
    cr_assert_eq(kolo_mean_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());
    return metric;
}

static struct kolo_metric *accuracy_of(int64_t samples, int k)
{
    struct kolo_metric *metric = NULL;
    const struct kolo_accuracy_config config = {
        .size = sizeof config, .samples = samples, .classes = 5, .k = {k}};
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());
    return metric;
}

static double value_of(int64_t i)
{
    return i % 2 ? 1e300 / (double)(i + 1) : -0.1 * (double)i;
}

static void feed(struct kolo_metric *metric, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        double value = value_of(i);
        cr_assert_eq(kolo_mean_update_float64(metric, &value, 1, metric->samples ? &i : NULL),
                     KOLO_OK);
    }
}

/* Computed in a world of one. */
static struct kolo_mean_result result_of(struct kolo_metric *metric)
{
    struct kolo_comm *comm = NULL;
    struct kolo_mean_result result = {.size = sizeof result};
    cr_assert_eq(kolo_init(NULL, &comm), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_metrics_compute(comm, &metric, 1, NULL), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_mean_result(metric, &result), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_finalize(comm), KOLO_OK);
    return result;
}

static void expect_equal(struct kolo_metric *a, struct kolo_metric *b, int64_t more_duplicates)
{
    struct kolo_mean_result x = result_of(a), y = result_of(b);
    cr_assert_eq(memcmp(&x.mean, &y.mean, sizeof x.mean), 0, "%a and %a", x.mean, y.mean);
    cr_assert_eq(x.samples.counted, y.samples.counted);
    cr_assert_eq(x.samples.missing, y.samples.missing);
    cr_assert_eq(x.samples.duplicates, y.samples.duplicates + more_duplicates);
}

Test(state, merges_into_what_one_metric_would_have_counted, .timeout = 60)
{
    for (int64_t samples = 0; samples <= SAMPLES; samples += SAMPLES) {
        struct kolo_metric *one = mean_of(samples), *a = mean_of(samples), *b = mean_of(samples);
        feed(one, 0, 80);
        feed(a, 0, 40);
        feed(b, samples ? 30 : 40, 80); /* with samples, ten of which both have */
        cr_assert_eq(kolo_metric_merge(a, b), KOLO_OK, "%s", kolo_error_detail());
        expect_equal(a, one, samples ? 10 : 0);
        feed(one, 80, 90);
        feed(a, 80, 90);
        expect_equal(a, one, samples ? 10 : 0);
        kolo_metric_destroy(one);
        kolo_metric_destroy(a);
        kolo_metric_destroy(b);
    }
}

Test(state, merges_only_what_fits_together)
{
    struct kolo_metric *metrics[] = {mean_of(0), mean_of(5), accuracy_of(0, 1), accuracy_of(0, 2)};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            cr_assert_eq(kolo_metric_merge(metrics[i], metrics[j]), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metric_merge(metrics[0], NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metric_merge(NULL, metrics[0]), KOLO_ERR_INVALID);
    for (int i = 0; i < 4; i++)
        kolo_metric_destroy(metrics[i]);
}

#define MAKE(kind, ...)                                                                            \
    do {                                                                                           \
        const struct kolo_##kind##_config config = {.size = sizeof config, __VA_ARGS__};           \
        cr_assert_eq(kolo_##kind##_create(&config, &metrics[count++]), KOLO_OK, "%s",              \
                     kolo_error_detail());                                                         \
    } while (0)

/* Each differs from all others in what its updates or results mean, so none takes another's
 * state. */
Test(state, each_field_of_a_configuration_counts)
{
    static const float thresholds[] = {0.5F, 0.25F};
    struct kolo_metric *metrics[40];
    uint8_t bytes[ROOM];
    int count = 0;
    MAKE(mean, .samples = 0);
    MAKE(mean, .nonfinite = KOLO_NONFINITE_SKIP);
    MAKE(mean, .nonfinite = KOLO_NONFINITE_IMPUTE);
    MAKE(mean, .nonfinite = KOLO_NONFINITE_IMPUTE, .imputed = 1);
    MAKE(mean, .fast = true);
    MAKE(regression, .samples = 0);
    MAKE(regression, .nonfinite = KOLO_NONFINITE_IMPUTE);
    MAKE(regression, .nonfinite = KOLO_NONFINITE_IMPUTE, .imputed = 1);
    MAKE(accuracy, .classes = 3);
    MAKE(accuracy, .classes = 4);
    MAKE(accuracy, .classes = 3, .k = {2});
    MAKE(accuracy, .classes = 3, .k = {1, 2});
    MAKE(accuracy, .classes = 3, .ties = KOLO_TIES_PESSIMISTIC);
    MAKE(accuracy, .classes = 3, .ignores = true);
    MAKE(accuracy, .classes = 3, .ignores = true, .ignore_index = 1);
    MAKE(confusion, .classes = 3);
    MAKE(confusion, .classes = 4);
    MAKE(confusion, .classes = 3, .ignores = true);
    MAKE(confusion, .classes = 3, .ignores = true, .ignore_index = 1);
    MAKE(multilabel, .labels = 2);
    MAKE(multilabel, .labels = 3);
    MAKE(multilabel, .labels = 2, .thresholds = thresholds);
    MAKE(multilabel, .labels = 2, .ignores = true);
    MAKE(multilabel, .labels = 2, .ignores = true, .ignore_index = 1);
    MAKE(curve, .labels = 2);
    MAKE(curve, .labels = 3);
    MAKE(curve, .labels = 2, .bins = 8);
    MAKE(curve, .labels = 2, .bins = 9);
    MAKE(curve, .labels = 2, .ignores = true);
    MAKE(curve, .labels = 2, .ignores = true, .ignore_index = 1);
    MAKE(curve, .labels = 2, .micro = true);
    MAKE(calibration, .classes = 2, .bins = 4);
    MAKE(calibration, .classes = 3, .bins = 4);
    MAKE(calibration, .classes = 2, .bins = 5);
    MAKE(calibration, .classes = 2, .bins = 4, .ignores = true);
    MAKE(calibration, .classes = 2, .bins = 4, .ignores = true, .ignore_index = 1);
    for (int i = 0; i < count; i++) {
        const size_t size = state_saved(metrics[i], bytes);
        for (int j = 0; j < count; j++)
            if (j != i) {
                cr_expect_eq(kolo_metric_merge(metrics[j], metrics[i]), KOLO_ERR_INVALID,
                             "%d into %d", i, j);
                cr_expect_eq(kolo_metric_restore(metrics[j], bytes, size), KOLO_ERR_DATA,
                             "%d of %d", j, i);
            }
    }
    for (int i = 0; i < count; i++)
        kolo_metric_destroy(metrics[i]);
}

/** Whoever writes a state can give it the right checksum, and folding does not look again. */
Test(state, takes_only_records_that_updates_make)
{
    static const uint32_t ignored = UINT32_C(1) << (KOLO_TOP_K_MAX + 1), both = ignored | 1;
    static const uint32_t none = 0;
    static const struct judged {
        float confidence;
        uint32_t verdict;
    } right = {1, 1}, above = {0x1.000002p0F, 1}, below = {-0x1p-149F, 1}, nan = {NAN, 0},
      skipped = {0, 2}, unknown = {0.5F, 3};
    static const uint32_t last[] = {0, 1, 10, 1}, outside[] = {0, 1, 11, 1};
    static const struct kolo_curve_entry bins[] = {{7, 1}, {0, 2}}, bin[] = {{0, 1}, {8, 1}};
    static const struct kolo_curve_entry truth[] = {{0, 1}, {0, 3}};
    static const double losses[] = {1, NAN, INFINITY};
    static const uint8_t codes[] = {4, 12}, third[] = {0, 5}, fourth[] = {16, 0};
    enum { ACCURACY, IGNORES, CALIBRATION, SKIPS, CONFUSION, CURVE, LIKELIHOOD, MULTILABEL, MEAN };
    static const struct {
        int kind;
        bool is_made;
        size_t bytes;
        const void *record;
    } cases[] = {
        {ACCURACY, true, 4, &none},        {ACCURACY, false, 3, &none},
        {ACCURACY, false, 4, &ignored},    {IGNORES, true, 4, &ignored},
        {IGNORES, false, 4, &both},        {CALIBRATION, true, 8, &right},
        {CALIBRATION, false, 7, &right},   {CALIBRATION, false, 8, &above},
        {CALIBRATION, false, 8, &below},   {CALIBRATION, false, 8, &nan},
        {CALIBRATION, false, 8, &skipped}, {SKIPS, true, 8, &skipped},
        {SKIPS, false, 8, &unknown},       {CONFUSION, true, 16, last},
        {CONFUSION, false, 15, last},      {CONFUSION, false, 16, outside},
        {CURVE, true, 16, bins},           {CURVE, false, 8, bins},
        {CURVE, false, 16, bin},           {CURVE, false, 16, truth},
        {LIKELIHOOD, true, 16, losses},    {LIKELIHOOD, false, 15, losses},
        {LIKELIHOOD, false, 24, losses},   {MULTILABEL, true, 2, codes},
        {MULTILABEL, false, 1, codes},     {MULTILABEL, false, 2, third},
        {MULTILABEL, false, 2, fourth},    {MEAN, true, 8, losses},
        {MEAN, false, 16, losses},
    };
    struct kolo_metric *metrics[MEAN + 1];
    int count = 0;
    MAKE(accuracy, .classes = 5);
    MAKE(accuracy, .classes = 5, .ignores = true);
    MAKE(calibration, .classes = 2);
    MAKE(calibration, .classes = 2, .ignores = true);
    MAKE(confusion, .classes = 3);
    MAKE(curve, .labels = 2, .bins = 8);
    MAKE(likelihood, .classes = 2);
    MAKE(multilabel, .labels = 2);
    MAKE(mean, .samples = 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct kolo_metric *metric = metrics[cases[i].kind];
        cr_expect_eq(metric->ops->accepts_record(metric, cases[i].record, cases[i].bytes),
                     cases[i].is_made, "case %zu, %s", i, metric->ops->name);
    }
    for (int i = 0; i < count; i++)
        kolo_metric_destroy(metrics[i]);
}

Test(state, takes_only_words_that_updates_make)
{
    enum { ACCURACY, IGNORES, CALIBRATION, SKIPS, CONFUSION, CURVE, LIKELIHOOD, MULTILABEL };
    enum { FAST = MULTILABEL + 1, REGRESSION, KINDS, SAMPLE_COUNT = 3 };
    enum { SUM = KOLO_EXACT_WORDS, BIN = 2 + SUM, SKIPPED = 4 * BIN };
    static const int64_t most = INT64_C(1) << 50;
    const struct {
        int kind;
        bool is_made;
        struct {
            int at;
            int64_t value;
        } words[2];
    } cases[] = {
        {ACCURACY, true, {{0, 3}, {1, 3}}},
        {ACCURACY, false, {{0, 4}}},
        {ACCURACY, false, {{0, -1}}},
        {ACCURACY, false, {{1, 4}}},
        {IGNORES, true, {{0, 2}, {2, 1}}},
        {IGNORES, false, {{0, 3}, {2, 1}}},
        {IGNORES, false, {{1, 3}, {2, 1}}},
        {IGNORES, false, {{2, 4}}},
        {IGNORES, false, {{2, -1}}},
        {CALIBRATION, true, {{3 * BIN, 3}, {3 * BIN + 1, 3}}},
        {CALIBRATION, false, {{3 * BIN, 4}}},
        {CALIBRATION, false, {{3 * BIN, -1}}},
        {CALIBRATION, false, {{3 * BIN, 1}, {3 * BIN + 1, 2}}},
        {CALIBRATION, false, {{3 * BIN + 1, -1}}},
        {CALIBRATION, false, {{3 * BIN + 2, -1}}},
        {SKIPS, true, {{0, 2}, {SKIPPED, 1}}},
        {SKIPS, false, {{0, 3}, {SKIPPED, 1}}},
        {SKIPS, false, {{SKIPPED, 4}}},
        {SKIPS, false, {{SKIPPED, -1}}},
        {CONFUSION, true, {{10, most}}},
        {CONFUSION, false, {{10, most}, {0, 1}}},
        {CONFUSION, false, {{10, -1}}},
        {CURVE, true, {{31, 3}, {0, 3}}},
        {CURVE, false, {{31, 4}}},
        {CURVE, false, {{31, -1}}},
        {LIKELIHOOD, true, {{SUM, most}, {SUM + 1, most}}},
        {LIKELIHOOD, false, {{0, -1}}},
        {LIKELIHOOD, false, {{SUM, most + 1}}},
        {LIKELIHOOD, false, {{SUM, -1}}},
        {LIKELIHOOD, false, {{SUM + 1, most + 1}}},
        {LIKELIHOOD, false, {{SUM + 1, -1}}},
        {MULTILABEL, true, {{0, most}}},
        {MULTILABEL, false, {{0, most}, {1, 1}}},
        {FAST, false, {{0, -1}}},
        {FAST, false, {{SUM, 1}}},
        {REGRESSION, true, {{5 * SUM, 3}, {5 * SUM + 1, 3}}},
        {REGRESSION, false, {{4 * SUM, -1}}},
        {REGRESSION, false, {{5 * SUM, 4}}},
        {REGRESSION, false, {{5 * SUM, -1}}},
        {REGRESSION, false, {{5 * SUM + 1, 4}}},
        {REGRESSION, false, {{5 * SUM + 1, -1}}},
    };
    struct kolo_metric *metrics[KINDS];
    int count = 0;
    MAKE(accuracy, .classes = 5);
    MAKE(accuracy, .classes = 5, .ignores = true);
    MAKE(calibration, .classes = 2, .bins = 4);
    MAKE(calibration, .classes = 2, .bins = 4, .ignores = true);
    MAKE(confusion, .classes = 3);
    MAKE(curve, .labels = 2, .bins = 8);
    MAKE(likelihood, .classes = 2);
    MAKE(multilabel, .labels = 2);
    MAKE(mean, .fast = true);
    MAKE(regression, .samples = 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kolo_metric *metric = metrics[cases[i].kind];
        metric->direct_count = SAMPLE_COUNT;
        for (int w = 0; w < 2 && (w == 0 || cases[i].words[w].value != 0); w++)
            metric->direct[cases[i].words[w].at] = cases[i].words[w].value;
        cr_expect_eq(metric->ops->accepts_words(metric, metric->direct), cases[i].is_made,
                     "case %zu, %s", i, metric->ops->name);
        memset(metric->direct, 0, metric->words * sizeof *metric->direct);
        cr_expect(metric->ops->accepts_words(metric, metric->direct), "case %zu, all 0", i);
    }
    for (int i = 0; i < count; i++)
        kolo_metric_destroy(metrics[i]);
}

/* When metrics were merged back and forth, their counts used to exceed int64, and a mean of halves
 * became 9e9; and a state with more than 2^40 could be saved but not read. */
Test(state, counts_no_more_than_can_be_saved_and_added)
{
    uint8_t bytes[ROOM];
    const int64_t most = INT64_C(1) << 40, merges = 40;
    struct kolo_metric *a = mean_of(0), *b = mean_of(0);
    cr_assert_eq(kolo_mean_update_batch(a, 0.5, most), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_mean_update_batch(a, 0.5, 1), KOLO_ERR_INVALID);
    cr_expect(strstr(kolo_error_detail(), "kolo_mean_update_batch: 1 samples more"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_mean_update_float32(a, (float[]){0.5f}, 1, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metric_restore(b, bytes, state_saved(a, bytes)), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_metric_merge(a, b), KOLO_ERR_INVALID);
    cr_expect(strstr(kolo_error_detail(), "kolo_metric_merge: 1099511627776 and"), "%s",
              kolo_error_detail());
    cr_expect_eq(result_of(a).samples.counted, most);
    kolo_metric_reset(a);
    kolo_metric_reset(b);
    cr_assert_eq(kolo_mean_update_batch(a, 0.5, 3), KOLO_OK);
    for (int64_t i = 0; i < merges && kolo_metric_merge(b, a) == KOLO_OK; i++)
        if (kolo_metric_merge(a, b) != KOLO_OK)
            break;
    cr_expect_eq(result_of(a).mean, 0.5);
    cr_expect_eq(result_of(b).mean, 0.5);
    kolo_metric_destroy(a);
    kolo_metric_destroy(b);
}

static int64_t elements_of(struct kolo_metric *metric)
{
    struct kolo_comm *comm = NULL;
    struct kolo_confusion_result result = {.size = sizeof result};
    cr_assert_eq(kolo_init(NULL, &comm), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_metrics_compute(comm, &metric, 1, NULL), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_confusion_result(metric, &result), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_finalize(comm), KOLO_OK);
    return result.elements;
}

/* A million images have more than 2^40 pixels, and their state used to be refused. A thousand
 * times as many are refused when merged, and the metric stays as it was. */
Test(state, counts_more_elements_than_samples)
{
    enum { PIXELS = 4096 };
    static const int64_t labels[PIXELS];
    uint8_t bytes[ROOM];
    const struct kolo_confusion_config config = {.size = sizeof config, .classes = 2};
    struct kolo_metric *metrics[2];
    kolo_status status = KOLO_OK;
    int64_t counts[2] = {PIXELS, PIXELS};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(kolo_confusion_create(&config, &metrics[i]), KOLO_OK);
        cr_assert_eq(kolo_confusion_update(metrics[i], labels, labels, 1, PIXELS, NULL), KOLO_OK);
    }
    for (int into = 0; status == KOLO_OK; into = 1 - into) {
        status = kolo_metric_merge(metrics[into], metrics[1 - into]);
        if (status == KOLO_OK)
            counts[into] += counts[1 - into];
    }
    cr_expect_eq(status, KOLO_ERR_INVALID);
    cr_expect(strstr(kolo_error_detail(), "kolo_metric_merge: the elements of both"), "%s",
              kolo_error_detail());
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(elements_of(metrics[i]), counts[i]);
        cr_expect_gt(counts[i], INT64_C(1) << 48);
        cr_expect_eq(kolo_metric_restore(metrics[1 - i], bytes, state_saved(metrics[i], bytes)),
                     KOLO_OK, "%s", kolo_error_detail());
        counts[1 - i] = counts[i];
    }
    kolo_metric_destroy(metrics[0]);
    kolo_metric_destroy(metrics[1]);
}

Test(state, counts_duplicates_up_to_what_can_be_saved)
{
    uint8_t bytes[ROOM];
    struct kolo_metric *a = mean_of(SAMPLES), *b = mean_of(SAMPLES);
    kolo_status status = KOLO_OK;
    feed(a, 0, 40);
    for (int i = 0; i < 100 && status == KOLO_OK; i++)
        status = i % 2 ? kolo_metric_merge(a, b) : kolo_metric_merge(b, a);
    cr_expect_eq(status, KOLO_ERR_INVALID);
    cr_expect_eq(kolo_metric_restore(b, bytes, state_saved(a, bytes)), KOLO_OK, "%s",
                 kolo_error_detail());
    expect_equal(a, b, 0);
    kolo_metric_destroy(a);
    kolo_metric_destroy(b);
}

Test(state, goes_on_after_restoring_as_if_nothing_had_been, .timeout = 60)
{
    uint8_t bytes[ROOM];
    for (int64_t samples = 0; samples <= SAMPLES; samples += SAMPLES) {
        struct kolo_metric *one = mean_of(samples), *two = mean_of(samples);
        feed(one, 0, 50);
        if (samples)
            feed(one, 20, 30);
        size_t size = state_saved(one, bytes);
        feed(two, 60, 70); /* which restoring discards */
        cr_assert_eq(kolo_metric_restore(two, bytes, size), KOLO_OK, "%s", kolo_error_detail());
        expect_equal(two, one, 0);
        feed(one, 45, 80);
        feed(two, 45, 80);
        expect_equal(two, one, 0);
        kolo_metric_destroy(one);
        kolo_metric_destroy(two);
    }
}

Test(state, refuses_a_state_of_something_else)
{
    uint8_t bytes[ROOM];
    struct kolo_metric *from = accuracy_of(0, 1);
    size_t size = state_saved(from, bytes);
    struct kolo_metric *others[] = {mean_of(0), accuracy_of(9, 1), accuracy_of(0, 2)};
    const char *const words[] = {"'accuracy', this one is of kind 'mean'",
                                 "of 0 samples, this metric of 9", "another configuration"};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(kolo_metric_restore(others[i], bytes, size), KOLO_ERR_DATA);
        cr_assert(strstr(kolo_error_detail(), words[i]), "%s", kolo_error_detail());
        kolo_metric_destroy(others[i]);
    }
    kolo_metric_destroy(from);
}

/* The fingerprint and the length of a state without updates before configurations got more fields:
 * metrics that do not use those fields still read states that were saved then. */
#define EXPECT_OLD_FORM(kind, fingerprint, bytes, ...)                                             \
    do {                                                                                           \
        const struct kolo_##kind##_config config = {.size = sizeof config, __VA_ARGS__};           \
        struct kolo_metric *metric = NULL;                                                         \
        size_t size;                                                                               \
        cr_assert_eq(kolo_##kind##_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());  \
        cr_assert_eq(metric->settings, UINT64_C(fingerprint), #kind ": %llx",                      \
                     (unsigned long long)metric->settings);                                        \
        cr_assert_eq(kolo_metric_save(metric, NULL, 0, &size), KOLO_OK);                           \
        cr_assert_eq(size, (bytes), #kind ": %zu", size);                                          \
        kolo_metric_destroy(metric);                                                               \
    } while (0)

Test(state, of_an_earlier_version_is_read)
{
    EXPECT_OLD_FORM(mean, 0x4d25767f9dce13f5, 670, .nonfinite = KOLO_NONFINITE_ERROR);
    EXPECT_OLD_FORM(accuracy, 0x6daa46788bd9df92, 122, .classes = 5, .k = {1, 3});
    EXPECT_OLD_FORM(calibration, 0xaa312f255b6c6c63, 2469, .classes = 2, .bins = 4);
    EXPECT_OLD_FORM(curve, 0x261c4b49872994e7, 1343, .labels = 2);
    EXPECT_OLD_FORM(curve, 0x1df28391dea3e5ef, 351, .labels = 2, .bins = 8);
    EXPECT_OLD_FORM(regression, 0xad2aca7747985764, 2996, .nonfinite = KOLO_NONFINITE_SKIP);
}

Test(state, refuses_every_changed_byte_and_every_length, .timeout = 60)
{
    uint8_t bytes[ROOM];
    struct kolo_metric *metric = mean_of(SAMPLES);
    feed(metric, 0, 20);
    size_t size = state_saved(metric, bytes);
    for (size_t i = 0; i < size; i++) {
        cr_assert_eq(kolo_metric_restore(metric, bytes, i), KOLO_ERR_DATA, "%zu bytes", i);
        bytes[i] ^= 0x10;
        cr_assert_eq(kolo_metric_restore(metric, bytes, size), KOLO_ERR_DATA, "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    bytes[7] = '2';
    cr_assert_eq(kolo_metric_restore(metric, bytes, size), KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "format '2', this kolo reads '1'"));
    cr_assert_eq(metric->record_count, 20, "the state is as before");
    cr_assert_eq(kolo_metric_restore(metric, NULL, 9), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}

static void compute_alone(void *metric)
{
    result_of(metric);
}

Test(state, survives_contents_under_a_right_checksum, .timeout = 120)
{
    struct state_verdicts verdicts = {0};
    for (int64_t samples = 0; samples <= SAMPLES; samples += SAMPLES) {
        struct kolo_metric *metric = mean_of(samples);
        feed(metric, 0, 6);
        state_survives(metric, compute_alone, metric, &verdicts);
        kolo_metric_destroy(metric);
    }
    cr_assert_gt(verdicts.accepted, 0);
}

Test(state, refuses_two_records_of_one_sample_and_indices_out_of_range)
{
    uint8_t bytes[ROOM];
    struct kolo_metric *metric = accuracy_of(4, 1);
    const float scores[10] = {1};
    const int64_t labels[2] = {0, 1}, indices[2] = {1, 2};
    cr_assert_eq(kolo_accuracy_update(metric, scores, labels, 2, indices), KOLO_OK);
    size_t body = state_saved(metric, bytes) - HASH_BYTES;
    uint8_t *second = bytes + body - 16; /* index, length, record */
    static const int64_t bad[] = {1, 4, -1};
    static const char *const words[] = {"index 1, as one before it", "index 4 of 4",
                                        "index -1 of 4"};
    for (int i = 0; i < 3; i++) {
        for (int b = 0; b < 8; b++)
            second[b] = (uint8_t)((uint64_t)bad[i] >> 8 * b);
        state_sign(bytes, body);
        cr_assert_eq(kolo_metric_restore(metric, bytes, body + HASH_BYTES), KOLO_ERR_DATA);
        cr_assert(strstr(kolo_error_detail(), words[i]), "%s", kolo_error_detail());
        cr_assert_eq(metric->record_count, 0, "the state is empty, since the checksum was right");
    }
    kolo_metric_destroy(metric);
}

/* What follows the words of a metric that keeps no records: their number. */
enum { RECORD_COUNT_BYTES = 8 };

Test(state, refuses_counts_out_of_range)
{
    uint8_t bytes[ROOM], changed[ROOM];
    struct kolo_metric *metric = mean_of(0);
    feed(metric, 0, 6);
    const size_t size = state_saved(metric, bytes), body = size - HASH_BYTES;
    const size_t words = body - RECORD_COUNT_BYTES - metric->words * sizeof(int64_t);
    const struct {
        size_t at;     /* of eight bytes, the last one is the highest */
        uint8_t value; /* that it becomes */
        const char *text;
    } cases[] = {
        {words - 8 + 1, 1, "words of state where"},
        {words - 16 + 5, 2, "6 samples without index or 2199023255552 duplicates"},
        {words - 16 + 7, 0x80, "duplicates are out of range"},
        {words - 24 + 5, 2, "2199023255558 samples without index"},
        {words - 24 + 7, 0x80, "duplicates are out of range"},
        {body - 8, 1, "1 records cannot be in the 0 bytes left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(changed, bytes, size);
        changed[cases[i].at] = cases[i].value;
        state_sign(changed, body);
        cr_expect_eq(kolo_metric_restore(metric, changed, size), KOLO_ERR_DATA, "case %zu", i);
        cr_expect(strstr(kolo_error_detail(), cases[i].text), "case %zu: %s", i,
                  kolo_error_detail());
    }
    cr_expect_eq(kolo_metric_restore(metric, bytes, size), KOLO_OK, "%s", kolo_error_detail());
    kolo_metric_destroy(metric);
}
