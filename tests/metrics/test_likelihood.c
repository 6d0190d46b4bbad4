// SPDX-License-Identifier: Apache-2.0
// Oracle: the definition, summed in long double.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/classification.h>

#include "tests/support/shards.h"
#include "tests/support/world.h"

enum { SAMPLES = 131, TOKENS = 4, CLASSES = 6, IGNORE = -1, TOTAL = SAMPLES * TOKENS };
static float logits[TOTAL * CLASSES], probabilities[TOTAL * CLASSES];
static int64_t labels[TOTAL];
static bool takes_logits;

static void make_data(void)
{
    for (uint64_t i = 0; i < TOTAL; i++) {
        double sum = 0;
        for (uint64_t c = 0; c < CLASSES; c++) {
            logits[i * CLASSES + c] = (float)(shard_hash(i * CLASSES + c) % 2001) / 100 - 10;
            sum += exp((double)logits[i * CLASSES + c]);
        }
        for (uint64_t c = 0; c < CLASSES; c++)
            probabilities[i * CLASSES + c] = (float)(exp((double)logits[i * CLASSES + c]) / sum);
        labels[i] = shard_hash(i) % 7 ? (int64_t)(shard_hash(i + 1) % CLASSES) : IGNORE;
    }
    probabilities[CLASSES * 2] = 0; /* the floor keeps this loss finite */
    labels[2] = 0;
}

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_likelihood_config config = {.size = sizeof config,
                                                  .samples = samples,
                                                  .classes = CLASSES,
                                                  .logits = takes_logits,
                                                  .ignores = true,
                                                  .ignore_index = IGNORE};
    return kolo_likelihood_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    const float *scores = takes_logits ? logits : probabilities;
    return kolo_likelihood_update(metric, scores + i * TOKENS * CLASSES, labels + i * TOKENS, 1,
                                  TOKENS, index);
}

struct outcome {
    double log_loss, perplexity;
    int64_t elements, ignored;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_likelihood_result r = {.size = sizeof r};
    kolo_status status = kolo_likelihood_result(metric, &r);
    const struct outcome o = {r.log_loss, r.perplexity, r.elements, r.ignored};
    memcpy(result_out, &o, sizeof o);
    return status;
}

static void expect(void)
{
    make_data();
    struct outcome o;
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof o,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    shards_agree(&kind, &o);
    long double sum = 0;
    int64_t elements = 0;
    for (int i = 0; i < TOTAL; i++) {
        if (labels[i] == IGNORE)
            continue;
        elements++;
        long double all = 0, own = (long double)probabilities[i * CLASSES + labels[i]];
        for (int c = 0; c < CLASSES; c++)
            all += expl((long double)logits[i * CLASSES + c]);
        if (takes_logits)
            own = expl((long double)logits[i * CLASSES + labels[i]]) / all;
        sum -= logl(own > 0 ? own : 0x1p-52L);
    }
    double expected = (double)(sum / (long double)elements);
    cr_assert_eq(o.elements, elements);
    cr_assert_eq(o.ignored, TOTAL - elements);
    cr_assert(fabs(o.log_loss - expected) < 1e-14 * expected, "%a, %a", o.log_loss, expected);
    cr_assert(fabs(o.perplexity - exp(expected)) < 1e-12 * exp(expected));
}

Test(likelihood, is_the_definition_however_samples_are_dealt_out, .timeout = 200)
{
    expect();
    takes_logits = true;
    expect();
}

Test(likelihood, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    struct kolo_likelihood_config config = {.size = sizeof config, .classes = 0};
    cr_assert_eq(kolo_likelihood_create(&config, &metric), KOLO_ERR_INVALID);
    config.classes = 2;
    config.floor = NAN;
    cr_assert_eq(kolo_likelihood_create(&config, &metric), KOLO_ERR_INVALID);
    config.floor = 0;
    const float above[2] = {0.5F, 1.5F}, nearly[2] = {0, 0x1.000002p0F}, lost[2] = {0, -INFINITY},
                nan[2] = {NAN, 0};
    const int64_t label = 1, far = 2;
    cr_assert_eq(kolo_likelihood_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_likelihood_update(metric, above, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the probability 1.5 for class 1, which is its label"));
    cr_assert_eq(kolo_likelihood_update(metric, nearly, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the probability 1.00000012 for class 1"));
    cr_assert_eq(kolo_likelihood_update(metric, above, &far, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "labels[0] is 2, not in 0..1"));
    cr_assert_eq(kolo_likelihood_update(metric, NULL, &far, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_likelihood_update(metric, above, &far, 2, SIZE_MAX, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
    config.logits = true;
    cr_assert_eq(kolo_likelihood_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_likelihood_update(metric, lost, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the logit -inf for class 1"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_likelihood_update(metric, nan, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}
