// SPDX-License-Identifier: Apache-2.0
// Oracle: a naive implementation that sorts the classes of each sample by the rule for ties, and
// finds the position of the label.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/metrics.h>

#include "tests/support/shards.h"

enum { SAMPLES = 400, CLASSES = 7, KS = 3 };
static const int top[KS] = {1, 2, 5};

static float scores[SAMPLES * CLASSES];
static int64_t labels[SAMPLES];

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void make_data(void)
{
    uint64_t state = 3;
    for (int i = 0; i < SAMPLES * CLASSES; i++) {
        /* many ties, and negative scores too */
        scores[i] = (float)(int)(next_random(&state) % 5) - 2.5f;
        if (next_random(&state) % 50 == 0)
            scores[i] = NAN;
        if (next_random(&state) % 50 == 0)
            scores[i] = next_random(&state) % 2 ? INFINITY : -INFINITY;
    }
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = (int64_t)(next_random(&state) % CLASSES);
}

/* Whether class a ranks before class b for this label. NaN is the largest score. */
static bool ranks_before(const float *s, int a, int b, int label, kolo_ties ties)
{
    double x = isnan(s[a]) ? 1e300 : (double)s[a], y = isnan(s[b]) ? 1e300 : (double)s[b];
    if (isinf(x))
        x = x > 0 ? 1e299 : -1e299;
    if (isinf(y))
        y = y > 0 ? 1e299 : -1e299;
    if (x != y)
        return x > y;
    switch (ties) {
    case KOLO_TIES_LOWEST:
        return a < b;
    case KOLO_TIES_HIGHEST:
        return a > b;
    case KOLO_TIES_OPTIMISTIC:
        return a == label;
    case KOLO_TIES_PESSIMISTIC:
        break;
    }
    return b == label;
}

static int place_of_label(const float *s, int label, kolo_ties ties)
{
    int place = 0;
    for (int j = 0; j < CLASSES; j++)
        place += j != label && ranks_before(s, j, label, label, ties);
    return place;
}

struct job {
    kolo_ties ties;
    int64_t expected[KS];
};

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    const struct job *job = arg;
    struct kolo_metric *metric = NULL;
    struct kolo_accuracy_config config = {
        .size = sizeof config, .classes = CLASSES, .k = {1, 2, 5}, .ties = job->ties};
    kolo_status status = kolo_accuracy_create(&config, &metric);
    for (int i = kolo_rank(comm); status == KOLO_OK && i < SAMPLES; i += kolo_size(comm))
        status = kolo_accuracy_update(metric, scores + i * CLASSES, labels + i, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    struct kolo_accuracy_result result = {.size = sizeof result};
    if (status == KOLO_OK)
        status = kolo_accuracy_result(metric, &result);
    kolo_metric_destroy(metric);
    if (status == KOLO_OK && (result.ks != KS || result.samples.counted != SAMPLES ||
                              memcmp(result.correct, job->expected, sizeof job->expected) != 0))
        status = KOLO_ERR_INTERNAL;
    for (int i = 0; status == KOLO_OK && i < KS; i++)
        if (result.k[i] != top[i] ||
            result.accuracy[i] != (double)job->expected[i] / (double)SAMPLES)
            status = KOLO_ERR_INTERNAL;
    return status;
}

Test(accuracy, counts_as_the_naive_ranking_does_for_every_tie_rule, .timeout = 60)
{
    make_data();
    for (int ties = KOLO_TIES_LOWEST; ties <= KOLO_TIES_PESSIMISTIC; ties++) {
        struct job job = {.ties = (kolo_ties)ties};
        for (int i = 0; i < SAMPLES; i++)
            for (int k = 0; k < KS; k++)
                job.expected[k] +=
                    place_of_label(scores + i * CLASSES, (int)labels[i], (kolo_ties)ties) < top[k];
        for (int nranks = 1; nranks <= 4; nranks++)
            cr_assert_eq(kolo_run_threads(nranks, NULL, rank_main, &job), KOLO_OK,
                         "tie rule %d, %d ranks: %s", ties, nranks, kolo_error_detail());
    }
}

/* Without a k it is 1. */
static kolo_status of_one(struct kolo_comm *comm, void *arg)
{
    const struct kolo_accuracy_config config = {.size = sizeof config, .classes = 2};
    struct kolo_accuracy_result result = {.size = sizeof result};
    const float three[3][2] = {{0, 1}, {1, 0}, {0, 1}};
    const int64_t ones[3] = {1, 1, 1};
    struct kolo_metric *metric = NULL;
    kolo_status status = kolo_accuracy_create(&config, &metric);
    (void)arg;
    if (status == KOLO_OK)
        status = kolo_accuracy_update(metric, three[0], ones, 3, NULL);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, &metric, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_accuracy_result(metric, &result);
    kolo_metric_destroy(metric);
    const bool is_right = result.ks == 1 && result.k[0] == 1 && result.correct[0] == 2 &&
                          result.accuracy[0] == 2.0 / 3 && result.samples.counted == 3;
    return status == KOLO_OK && !is_right ? KOLO_ERR_INTERNAL : status;
}

Test(accuracy, is_of_the_first_place_unless_told)
{
    cr_assert_eq(kolo_run_threads(1, NULL, of_one, NULL), KOLO_OK, "%s", kolo_error_detail());
}

/* Samples of class 2, and samples whose label is not a class, are left out. */
enum { LEFT_OUT = 2, PADDING = -100 };
static int64_t ignore_index;

static kolo_status create(int64_t samples, struct kolo_metric **metric_out)
{
    const struct kolo_accuracy_config config = {.size = sizeof config,
                                                .samples = samples,
                                                .classes = CLASSES,
                                                .k = {1, 2, 5},
                                                .ignores = true,
                                                .ignore_index = ignore_index};
    return kolo_accuracy_create(&config, metric_out);
}

static kolo_status update(struct kolo_metric *metric, int64_t i, const int64_t *index)
{
    bool is_padding = ignore_index == PADDING && labels[i] == LEFT_OUT;
    int64_t label = is_padding ? PADDING : labels[i];
    return kolo_accuracy_update(metric, scores + i * CLASSES, &label, 1, index);
}

struct outcome {
    int64_t correct[KS], counted, ignored, with_nan;
};

static kolo_status result(const struct kolo_metric *metric, void *result_out)
{
    struct kolo_accuracy_result r = {.size = sizeof r};
    kolo_status status = kolo_accuracy_result(metric, &r);
    struct outcome o = {
        .counted = r.samples.counted, .ignored = r.ignored, .with_nan = r.nan_samples};
    memcpy(o.correct, r.correct, sizeof o.correct);
    memcpy(result_out, &o, sizeof o);
    return status;
}

static bool has_nan(const float *s)
{
    for (int j = 0; j < CLASSES; j++)
        if (isnan(s[j]))
            return true;
    return false;
}

Test(accuracy, leaves_out_what_is_ignored_however_samples_are_dealt_out, .timeout = 200)
{
    make_data();
    struct outcome o, e = {.counted = 0};
    const struct shard_kind kind = {.samples = SAMPLES,
                                    .result_bytes = sizeof o,
                                    .create = create,
                                    .update = update,
                                    .result = result};
    for (int i = 0; i < SAMPLES; i++) {
        const float *s = scores + i * CLASSES;
        bool is_left_out = labels[i] == LEFT_OUT;
        e.ignored += is_left_out;
        e.counted += !is_left_out;
        e.with_nan += !is_left_out && has_nan(s);
        for (int k = 0; k < KS; k++)
            e.correct[k] +=
                !is_left_out && place_of_label(s, (int)labels[i], KOLO_TIES_LOWEST) < top[k];
    }
    for (int outside = 0; outside < 2; outside++) {
        ignore_index = outside ? PADDING : LEFT_OUT;
        shards_agree(&kind, &o);
        cr_assert_eq(memcmp(&o, &e, sizeof e), 0, "%lld counted, %lld ignored, %lld at the top",
                     (long long)o.counted, (long long)o.ignored, (long long)o.correct[0]);
    }
}

Test(accuracy, refuses_bad_input_and_adds_nothing)
{
    struct kolo_metric *metric = NULL;
    struct kolo_accuracy_config config = {.size = sizeof config, .classes = 0};
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_ERR_INVALID);
    config.classes = 3;
    config.k[0] = -1;
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_ERR_INVALID);
    config.k[0] = 3; /* all of them: every sample is correct */
    config.k[1] = 4;
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "k[1] is 4, more than the 3 classes"), "%s",
              kolo_error_detail());
    config.k[1] = 0;
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());
    kolo_metric_destroy(metric);
    metric = NULL;
    config.k[0] = 0;
    config.ties = (kolo_ties)9;
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_ERR_INVALID);
    config.ties = KOLO_TIES_LOWEST;
    cr_assert_eq(kolo_accuracy_create(&config, &metric), KOLO_OK);
    const float s[6] = {0};
    const int64_t good[2] = {0, 2}, bad[2] = {0, 3}, index[2] = {0, 1};
    cr_assert_eq(kolo_accuracy_update(metric, s, bad, 2, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "labels[1] is 3"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_accuracy_update(metric, s, good, 2, index), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_accuracy_update(metric, NULL, good, 2, NULL), KOLO_ERR_INVALID);
    struct kolo_accuracy_result result = {.size = sizeof result};
    cr_assert_eq(kolo_accuracy_result(metric, &result), KOLO_ERR_INVALID, "not computed yet");
    struct kolo_mean_result mean = {.size = sizeof mean};
    cr_assert_eq(kolo_mean_result(metric, &mean), KOLO_ERR_INVALID, "not a mean");
    kolo_metric_destroy(metric);
}
