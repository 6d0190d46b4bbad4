// SPDX-License-Identifier: Apache-2.0
// Saved states of any bytes, in libFuzzer's form: the first byte chooses a metric, the rest is what
// stands between the head and the checksum, which are made right, as by somebody who can. Besides what
// a sanitizer sees: a state that is accepted is the same when it is saved and restored again, can be
// merged, and computes.
#include <openssl/evp.h>
#include <stdint.h>

#include <kolo/classification.h>
#include <kolo/detection.h>
#include <kolo/metrics.h>
#include <kolo/regression.h>

#include "tests/fuzz/fuzz.h"

enum { KINDS = 16, HASH_BYTES = 32, MAGIC_BYTES = 8, SAMPLES = 90, STATE_MAX = 1 << 20 };

static struct kolo_metric *detection(kolo_detection_rules rules)
{
    static const int64_t categories[] = {9, 7, 8};
    const struct kolo_detection_config config = {.size = sizeof config,
                                                 .categories = categories,
                                                 .category_count = 3,
                                                 .rules = rules,
                                                 .images = rules == KOLO_DETECTION_COCO ? 12 : 0};
    struct kolo_detection *made = NULL;
    (void)!kolo_detection_create(&config, &made);
    return kolo_detection_metric(made);
}

static struct kolo_metric *confusion(int64_t samples)
{
    const struct kolo_confusion_config config = {
        .size = sizeof config, .samples = samples, .classes = 4};
    struct kolo_metric *metric = NULL;
    (void)!kolo_confusion_create(&config, &metric);
    return metric;
}

static struct kolo_metric *curve(int64_t samples, int64_t bins)
{
    const struct kolo_curve_config config = {
        .size = sizeof config, .samples = samples, .labels = 2, .bins = bins};
    struct kolo_metric *metric = NULL;
    (void)!kolo_curve_create(&config, &metric);
    return metric;
}

static struct kolo_metric *make(unsigned kind)
{
    int64_t samples = kind % 2 ? SAMPLES : 0;
    struct kolo_metric *metric = NULL;
    const struct kolo_mean_config mean = {.size = sizeof mean, .samples = samples};
    const struct kolo_accuracy_config accuracy = {
        .size = sizeof accuracy, .samples = samples, .classes = 5, .k = {1, 3}};
    const struct kolo_multilabel_config multilabel = {
        .size = sizeof multilabel, .samples = samples, .labels = 3};
    const struct kolo_likelihood_config likelihood = {
        .size = sizeof likelihood, .samples = samples, .classes = 3};
    const struct kolo_regression_config regression = {.size = sizeof regression,
                                                      .samples = samples};
    const struct kolo_calibration_config calibration = {
        .size = sizeof calibration, .samples = SAMPLES, .classes = 2, .bins = 4};
    switch (kind) {
    case 0:
    case 1:
        (void)!kolo_mean_create(&mean, &metric);
        return metric;
    case 2:
        (void)!kolo_accuracy_create(&accuracy, &metric);
        return metric;
    case 3:
        (void)!kolo_multilabel_create(&multilabel, &metric);
        return metric;
    case 4:
    case 5:
        (void)!kolo_likelihood_create(&likelihood, &metric);
        return metric;
    case 6:
    case 7:
        (void)!kolo_regression_create(&regression, &metric);
        return metric;
    case 8:
        (void)!kolo_calibration_create(&calibration, &metric);
        return metric;
    case 9:
    case 10:
        return confusion(samples);
    case 11:
    case 12:
        return curve(samples, 0);
    case 13:
        return curve(samples, 8);
    default:
        return detection(kind == 14 ? KOLO_DETECTION_COCO : KOLO_DETECTION_VOC);
    }
}

/* How long the head of a state is: the magic, the kind, the settings, the samples. */
static size_t head_of(const uint8_t *state)
{
    size_t kind = state[MAGIC_BYTES] | (size_t)state[MAGIC_BYTES + 1] << 8;
    return MAGIC_BYTES + sizeof(uint16_t) + kind + sizeof(uint64_t) + sizeof(int64_t);
}

static size_t save(struct kolo_metric *metric, uint8_t *state)
{
    size_t bytes;
    fuzz_check(kolo_metric_save(metric, state, STATE_MAX, &bytes) == KOLO_OK, "cannot be saved");
    return bytes;
}

/* What is accepted goes through all that is done with it. */
static void use(struct kolo_comm *comm, struct kolo_metric *metric, struct kolo_metric *twin)
{
    static uint8_t state[STATE_MAX], again[STATE_MAX];
    size_t bytes = save(metric, state);
    fuzz_check(kolo_metric_restore(twin, state, bytes) == KOLO_OK, "what it saves is refused");
    fuzz_check(save(twin, again) == bytes && memcmp(state, again, bytes) == 0,
               "saved again, it is another");
    kolo_status status = kolo_metrics_compute(comm, &metric, 1, NULL);
    fuzz_check_status(status, status == KOLO_ERR_INVALID);
    status = kolo_metric_merge(metric, twin);
    fuzz_check_status(status, status == KOLO_ERR_INVALID);
    status = kolo_metrics_compute(comm, &metric, 1, NULL);
    fuzz_check_status(status, status == KOLO_ERR_INVALID);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct kolo_metric *metrics[KINDS], *twins[KINDS];
    static uint8_t state[STATE_MAX];
    static struct kolo_comm *comm;
    if (!comm)
        fuzz_check(kolo_init(NULL, &comm) == KOLO_OK, "no communicator");
    if (size == 0 || size > STATE_MAX / 4)
        return 0;
    unsigned kind = data[0] % KINDS;
    if (!metrics[kind]) {
        metrics[kind] = make(kind);
        twins[kind] = make(kind);
    }
    struct kolo_metric *metric = metrics[kind], *twin = twins[kind];
    fuzz_check(metric && twin, "no metric");
    kolo_metric_reset(metric);
    kolo_metric_reset(twin);
    (void)save(metric, state);
    size_t head = head_of(state), body = head + size - 1;
    memcpy(state + head, data + 1, size - 1);
    fuzz_check(EVP_Digest(state, body, state + body, NULL, EVP_sha256(), NULL), "no SHA-256");
    kolo_status status = kolo_metric_restore(metric, state, body + HASH_BYTES);
    fuzz_check_status(status, false);
    if (status == KOLO_OK)
        use(comm, metric, twin);
    return 0;
}
