// SPDX-License-Identifier: Apache-2.0
// A fuzzer of saved states, in libFuzzer's form. The first byte of an input chooses a metric, and
// the rest is what stands between the head and the checksum; both of these are made valid, as
// anybody can do. Besides what a sanitizer finds, it checks that an accepted state is the same when
// it is saved and restored again, can be merged, and computes.
#include <openssl/evp.h>
#include <stdint.h>

#include <kolo/classification.h>
#include <kolo/detection.h>
#include <kolo/metrics.h>
#include <kolo/regression.h>

#include "tests/fuzz/fuzz.h"

enum { HASH_BYTES = 32, MAGIC_BYTES = 8, SAMPLES = 90, IMAGES = 12, STATE_MAX = 1 << 20 };

/* Defines a function that creates a metric of a kind, with everything in the configuration given
 * except the samples. */
#define MAKER(name, kind, ...)                                                                     \
    static struct kolo_metric *name(int64_t samples)                                               \
    {                                                                                              \
        const struct kolo_##kind##_config config = {                                               \
            .size = sizeof config, .samples = samples, __VA_ARGS__};                               \
        struct kolo_metric *metric = NULL;                                                         \
        (void)!kolo_##kind##_create(&config, &metric);                                             \
        return metric;                                                                             \
    }
MAKER(mean, mean, .fast = false)
MAKER(fast_mean, mean, .fast = true, .nonfinite = KOLO_NONFINITE_IMPUTE)
MAKER(accuracy, accuracy, .classes = 5, .k = {1, 3})
MAKER(ignoring_accuracy, accuracy, .classes = 5, .ignores = true)
MAKER(multilabel, multilabel, .labels = 3)
MAKER(likelihood, likelihood, .classes = 3)
MAKER(regression, regression, .nonfinite = KOLO_NONFINITE_ERROR)
MAKER(calibration, calibration, .classes = 2, .bins = 4)
MAKER(ignoring_calibration, calibration, .classes = 2, .bins = 4, .ignores = true)
MAKER(confusion, confusion, .classes = 4)
MAKER(curve, curve, .labels = 2)
MAKER(binned_curve, curve, .labels = 2, .bins = 8)

static struct kolo_metric *detection_of(kolo_detection_rules rules, int64_t images)
{
    static const int64_t categories[] = {9, 7, 8};
    const struct kolo_detection_config config = {.size = sizeof config,
                                                 .categories = categories,
                                                 .category_count = 3,
                                                 .rules = rules,
                                                 .images = images};
    struct kolo_detection *made = NULL;
    (void)!kolo_detection_create(&config, &made);
    return kolo_detection_metric(made);
}

static struct kolo_metric *coco(int64_t images)
{
    return detection_of(KOLO_DETECTION_COCO, images);
}

static struct kolo_metric *voc(int64_t images)
{
    return detection_of(KOLO_DETECTION_VOC, images);
}

/* The corpus refers to them by their positions: add new ones at the end. */
static const struct {
    struct kolo_metric *(*make)(int64_t samples);
    int64_t samples;
} kinds[] = {{mean, 0},
             {mean, SAMPLES},
             {accuracy, 0},
             {multilabel, SAMPLES},
             {likelihood, 0},
             {likelihood, SAMPLES},
             {regression, 0},
             {regression, SAMPLES},
             {calibration, SAMPLES},
             {confusion, SAMPLES},
             {confusion, 0},
             {curve, SAMPLES},
             {curve, 0},
             {binned_curve, SAMPLES},
             {coco, IMAGES},
             {voc, 0},
             {fast_mean, 0},
             {fast_mean, SAMPLES},
             {ignoring_accuracy, 0},
             {ignoring_accuracy, SAMPLES},
             {ignoring_calibration, 0},
             {ignoring_calibration, SAMPLES},
             {multilabel, 0},
             {binned_curve, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The length of a state's head: the magic, the kind, the settings, the samples. */
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

/* A state that is accepted goes through everything that is done with states. */
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
        metrics[kind] = kinds[kind].make(kinds[kind].samples);
        twins[kind] = kinds[kind].make(kinds[kind].samples);
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
