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
    cr_assert_eq(kolo_likelihood_update(metric, NULL, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "scores is NULL"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_likelihood_update(metric, above, NULL, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "labels is NULL"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_likelihood_update(metric, above, &far, 2, SIZE_MAX, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
    config.logits = true;
    cr_assert_eq(kolo_likelihood_create(&config, &metric), KOLO_OK);
    cr_assert_eq(kolo_likelihood_update(metric, lost, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the logit -inf for class 1"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_likelihood_update(metric, nan, &label, 1, 1, NULL), KOLO_ERR_INVALID);
    kolo_metric_destroy(metric);
}

/** Ranks that configure it differently are told, and states of the one do not fit the other. */
Test(likelihood, each_field_of_the_configuration_makes_another_metric)
{
    const struct kolo_likelihood_config base = {.size = sizeof base, .classes = 2};
    struct kolo_likelihood_config others[5] = {base, base, base, base, base};
    struct kolo_metric *metrics[6] = {NULL};
    others[0].classes = 3;
    others[1].logits = true;
    others[2].floor = 0.25;
    others[3].ignores = true; /* index 0 */
    others[4].ignores = true;
    others[4].ignore_index = 1;
    cr_assert_eq(kolo_likelihood_create(&base, &metrics[0]), KOLO_OK);
    for (int i = 1; i < 6; i++) {
        cr_assert_eq(kolo_likelihood_create(&others[i - 1], &metrics[i]), KOLO_OK);
        for (int k = 0; k < i; k++)
            cr_assert(kolo_metric_merge(metrics[i], metrics[k]) == KOLO_ERR_INVALID, "%d, %d", i,
                      k);
    }
    for (int i = 0; i < 6; i++)
        kolo_metric_destroy(metrics[i]);
}

static kolo_status floored(struct kolo_comm *comm, void *arg)
{
    const struct kolo_likelihood_config config = {
        .size = sizeof config, .classes = 2, .floor = 0.25};
    struct kolo_likelihood_result result = {.size = sizeof result}, wrong = {.size = 1};
    const float scores[3][2] = {{0.875F, 0.125F}, {0.5F, 0.5F}, {0.75F, 0.25F}};
    const int64_t of_1[3] = {1, 1, 1};
    struct kolo_metric *metric = NULL;
    kolo_status status;
    (void)arg;
    KOLO_TRY(kolo_likelihood_create(&config, &metric));
    KOLO_TRY(kolo_likelihood_update(metric, scores[0], of_1, 3, 1, NULL));
    KOLO_TRY(kolo_metrics_compute(comm, &metric, 1, NULL));
    KOLO_TRY(kolo_likelihood_result(metric, &result));
    const double expected = (-2 * log(0.25) - log(0.5)) / 3;
    WORLD_EXPECT(fabs(result.log_loss - expected) < 1e-15, "%a, not %a", result.log_loss, expected);
    WORLD_EXPECT(kolo_likelihood_result(metric, &wrong) == KOLO_ERR_INVALID, "a struct of 1 byte");
    WORLD_EXPECT(kolo_likelihood_result(metric, NULL) == KOLO_ERR_INVALID, "NULL");
out:
    kolo_metric_destroy(metric);
    return status;
}

Test(likelihood, no_probability_is_below_the_floor)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, floored, NULL);
}
