// SPDX-License-Identifier: Apache-2.0
// Oracle: finds the bin of each sample by comparing with one edge after the other. Confidences are
// multiples of 1/64, so that plain sums are exact.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/classification.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 163, CLASSES = 3, BINS = 8 };
static float probabilities[SAMPLES * CLASSES];
static int64_t labels[SAMPLES], classes = CLASSES;
static bool ignores;

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_calibration_config config = {.size = sizeof config,
                                                   .samples = samples,
                                                   .classes = classes,
                                                   .bins = BINS,
                                                   .ignores = ignores,
                                                   .ignore_index = -100};
    return kolo_calibration_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    return kolo_calibration_update(metric, probabilities + i * classes, labels + i, 1, index);
}

struct outcome {
    double expected, maximum, rms;
    int64_t ignored;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_calibration_result r = {.size = sizeof r};
    kolo_status status = kolo_calibration_result(metric, &r);
    const struct outcome o = {r.expected, r.maximum, r.rms, r.ignored};
    memcpy(result_out, &o, sizeof o);
    return status;
}

/* The confidence of sample i, and whether it was right. */
static double confidence_of(int i, bool *is_right_out)
{
    const float *p = probabilities + i * classes;
    int64_t best = 0;
    for (int64_t c = classes - 1; c >= 0; c--)
        best = p[c] >= p[best] ? c : best;
    for (int64_t c = 0; c < best; c++)
        best = p[c] == p[best] ? c : best;
    *is_right_out = classes == 1 ? labels[i] == 1 : labels[i] == best;
    return (double)p[best];
}

static void make_data(void)
{
    for (uint64_t i = 0; i < SAMPLES * CLASSES; i++)
        probabilities[i] = (float)(shard_hash(i) % 65) / 64;
    for (uint64_t i = 0; i < SAMPLES; i++)
        labels[i] = (int64_t)(shard_hash(i + 5) % (classes > 1 ? CLASSES : 2));
    for (uint64_t i = 0; ignores && i < SAMPLES; i++)
        if (shard_hash(i + 9) % 4 == 0) {
            labels[i] = -100;
            probabilities[i * (uint64_t)classes] = NAN; /* as padding may leave them */
        }
}

static void expect(void)
{
    make_data();
    double all = SAMPLES;
    for (int i = 0; i < SAMPLES; i++)
        all -= labels[i] == -100;
    struct outcome o, e = {0};
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof o,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    shards_agree(&kind, &o);
    for (int b = 0; b < BINS; b++) {
        double low = (double)b / BINS, high = b == BINS - 1 ? 2 : (double)(b + 1) / BINS;
        double n = 0, right = 0, sum = 0;
        for (int i = 0; i < SAMPLES; i++) {
            bool is_right;
            if (labels[i] == -100)
                continue;
            double confidence = confidence_of(i, &is_right);
            if (confidence < low || confidence >= high)
                continue;
            n++;
            right += is_right;
            sum += confidence;
        }
        double gap = n > 0 ? fabs(right / n - sum / n) : 0;
        e.expected += n / all * gap;
        e.rms += n / all * gap * gap;
        e.maximum = fmax(e.maximum, gap);
    }
    cr_assert_eq((double)o.ignored, SAMPLES - all);
    cr_assert(fabs(o.expected - e.expected) < 1e-14, "%a, %a", o.expected, e.expected);
    cr_assert(fabs(o.maximum - e.maximum) < 1e-14, "%a, %a", o.maximum, e.maximum);
    cr_assert(fabs(o.rms - sqrt(e.rms)) < 1e-14, "%a, %a", o.rms, sqrt(e.rms));
}

Test(calibration, is_the_definition_however_samples_are_dealt_out, .timeout = 200)
{
    expect();
    classes = 1;
    expect();
    ignores = true;
    expect();
    classes = CLASSES;
    expect();
}

Test(calibration, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    struct kolo_calibration_config config = {.size = sizeof config, .classes = 0};
    cr_assert_eq(kolo_calibration_create(&config, &metric), KOLO_ERR_INVALID);
    config.classes = 1;
    config.bins = -1;
    cr_assert_eq(kolo_calibration_create(&config, &metric), KOLO_ERR_INVALID);
    config.bins = 0;
    cr_assert_eq(kolo_calibration_create(&config, &metric), KOLO_OK);
    const float good = 1, bad = NAN, above = 0x1.000002p0F;
    const int64_t one = 1, two = 2;
    cr_assert_eq(kolo_calibration_update(metric, &bad, &one, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "probabilities[0] is nan"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_calibration_update(metric, &above, &one, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "probabilities[0] is 1.00000012, not"), "%s",
              kolo_error_detail());
    const float below = -0x1p-149F;
    cr_assert_eq(kolo_calibration_update(metric, &below, &one, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "probabilities[0] is -1.4"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_calibration_update(metric, &good, &two, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "labels[0] is 2, not in 0..1"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_calibration_update(metric, NULL, &one, 1, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}
