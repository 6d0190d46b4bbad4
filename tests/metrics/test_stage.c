// SPDX-License-Identifier: Apache-2.0
// metrics/stage.c: the state of every metric has the same bytes whether its arrays are in host or
// in device memory, and an update that fails adds nothing. The host cannot touch the mock's device
// memory.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/classification.h>
#include <kolo/mask.h>
#include <kolo/regression.h>

#include "base/alloc.h"
#include "memory/cuda_driver.h"
#include "metrics/stage.h"
#include "tests/support/await.h"
#include "tests/support/metric_state.h"
#include "tests/support/mock_cuda.h"

enum { COUNT = 24, CLASSES = 3, ARRAYS_MAX = 3 };

static float scores[COUNT * CLASSES], more_scores[COUNT];
static double numbers[COUNT], more_numbers[COUNT];
static int64_t labels[COUNT], indices[COUNT];
static int8_t truths[COUNT * CLASSES];

static void make_data(void)
{
    for (int i = 0; i < COUNT * CLASSES; i++) {
        scores[i] = (float)(i * 37 % 101) / 128;
        truths[i] = (int8_t)(i * 5 % 3 - 1);
    }
    for (int i = 0; i < COUNT; i++) {
        more_scores[i] = (float)(i * 29 % 31) / 32;
        numbers[i] = (double)(i * 17 % 41) / 3;
        more_numbers[i] = (double)(i * 13 % 43) / 7;
        labels[i] = i * 11 % CLASSES;
        indices[i] = i * 7 % COUNT;
    }
}

/* An update of one kind of metric, and its arrays; the last array has the type of the labels, and
 * may be NULL. */
struct kind {
    const char *name, *call;
    kolo_status (*create)(struct kolo_metric **metric_out, int64_t samples);
    kolo_status (*update)(struct kolo_metric *metric, const void *const *arrays,
                          const int64_t *which);
    struct {
        const void *memory;
        size_t bytes;
    } arrays[ARRAYS_MAX];
};

#define CREATE(function, kind, ...)                                                                \
    static kolo_status function(struct kolo_metric **metric_out, int64_t samples)                  \
    {                                                                                              \
        const struct kolo_##kind##_config config = {                                               \
            .size = sizeof config, .samples = samples, __VA_ARGS__};                               \
        return kolo_##kind##_create(&config, metric_out);                                          \
    }
CREATE(create_mean, mean, .nonfinite = KOLO_NONFINITE_SKIP)
CREATE(create_accuracy, accuracy, .classes = CLASSES, .k = {1, 2})
CREATE(create_regression, regression, .nonfinite = KOLO_NONFINITE_SKIP)
CREATE(create_confusion, confusion, .classes = CLASSES)
CREATE(create_multilabel, multilabel, .labels = CLASSES)
CREATE(create_binned, curve, .labels = CLASSES, .bins = 16)
CREATE(create_curve, curve, .labels = CLASSES)
CREATE(create_likelihood, likelihood, .classes = CLASSES, .logits = true)
CREATE(create_calibration, calibration, .classes = CLASSES, .bins = 4)

#define UPDATE(function, ...)                                                                      \
    static kolo_status function(struct kolo_metric *metric, const void *const *a,                  \
                                const int64_t *which)                                              \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
UPDATE(mean_float32, kolo_mean_update_float32(metric, a[0], COUNT, which))
UPDATE(mean_float64, kolo_mean_update_float64(metric, a[0], COUNT, which))
UPDATE(accuracy, kolo_accuracy_update(metric, a[0], a[1], COUNT, which))
UPDATE(regression_float32, kolo_regression_update_float32(metric, a[0], a[1], COUNT, which))
UPDATE(regression_float64, kolo_regression_update_float64(metric, a[0], a[1], COUNT, which))
UPDATE(confusion, kolo_confusion_update(metric, a[0], a[1], COUNT, 1, which))
UPDATE(confusion_scores, kolo_confusion_update_scores(metric, a[0], a[1], COUNT, which))
UPDATE(multilabel, kolo_multilabel_update(metric, a[0], a[1], COUNT, which))
UPDATE(curve, kolo_curve_update(metric, a[0], a[1], COUNT, which))
UPDATE(curve_classes, kolo_curve_update_classes(metric, a[0], a[1], COUNT, which))
UPDATE(likelihood, kolo_likelihood_update(metric, a[0], a[1], COUNT, 1, which))
UPDATE(calibration, kolo_calibration_update(metric, a[0], a[1], COUNT, which))

#define ARRAY(name)                                                                                \
    {                                                                                              \
        name, sizeof name                                                                          \
    }
static const struct kind kinds[] = {
    {"mean of float32",
     "kolo_mean_update_float32: ",
     create_mean,
     mean_float32,
     {ARRAY(more_scores)}},
    {"mean of float64", "kolo_mean_update_float64: ", create_mean, mean_float64, {ARRAY(numbers)}},
    {"accuracy",
     "kolo_accuracy_update: ",
     create_accuracy,
     accuracy,
     {ARRAY(scores), ARRAY(labels)}},
    {"regression of float32",
     "kolo_regression_update_float32: ",
     create_regression,
     regression_float32,
     {ARRAY(more_scores), {scores, sizeof more_scores}}},
    {"regression of float64",
     "kolo_regression_update_float64: ",
     create_regression,
     regression_float64,
     {ARRAY(numbers), ARRAY(more_numbers)}},
    {"confusion",
     "kolo_confusion_update: ",
     create_confusion,
     confusion,
     {{labels, sizeof labels}, ARRAY(labels)}},
    {"confusion of scores",
     "kolo_confusion_update_scores: ",
     create_confusion,
     confusion_scores,
     {ARRAY(scores), ARRAY(labels)}},
    {"multilabel",
     "kolo_multilabel_update: ",
     create_multilabel,
     multilabel,
     {ARRAY(scores), ARRAY(truths)}},
    {"binned curve", "kolo_curve_update: ", create_binned, curve, {ARRAY(scores), ARRAY(truths)}},
    {"curve", "kolo_curve_update: ", create_curve, curve, {ARRAY(scores), ARRAY(truths)}},
    {"curve of classes",
     "kolo_curve_update_classes: ",
     create_curve,
     curve_classes,
     {ARRAY(scores), ARRAY(labels)}},
    {"likelihood",
     "kolo_likelihood_update: ",
     create_likelihood,
     likelihood,
     {ARRAY(scores), ARRAY(labels)}},
    {"calibration",
     "kolo_calibration_update: ",
     create_calibration,
     calibration,
     {ARRAY(scores), ARRAY(labels)}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct kolo_metric *create(const struct kind *kind, bool is_indexed)
{
    struct kolo_metric *metric = NULL;
    cr_assert_eq(kind->create(&metric, is_indexed ? COUNT : 0), KOLO_OK, "%s: %s", kind->name,
                 kolo_error_detail());
    return metric;
}

/* Sets copies to the kind's arrays in the mock's memory; returns the copy of the indices. */
static const int64_t *send(const struct mock_cuda *mock, const struct kind *kind,
                           enum mock_kind where, int device, const void *copies[ARRAYS_MAX])
{
    for (int i = 0; i < ARRAYS_MAX; i++)
        copies[i] =
            kind->arrays[i].memory
                ? mock_cuda_copy(mock, where, device, kind->arrays[i].memory, kind->arrays[i].bytes)
                : NULL;
    return mock_cuda_copy(mock, where, device, indices, sizeof indices);
}

static size_t state_on_host(const struct kind *kind, bool is_indexed, uint8_t bytes[ROOM])
{
    struct kolo_metric *metric = create(kind, is_indexed);
    const void *arrays[ARRAYS_MAX];
    for (int i = 0; i < ARRAYS_MAX; i++)
        arrays[i] = kind->arrays[i].memory;
    cr_assert_eq(kind->update(metric, arrays, is_indexed ? indices : NULL), KOLO_OK, "%s: %s",
                 kind->name, kolo_error_detail());
    size_t size = state_saved(metric, bytes);
    kolo_metric_destroy(metric);
    return size;
}

static void check_same(const struct kind *kind, struct kolo_metric *metric, const uint8_t *expected,
                       size_t size, const char *what)
{
    uint8_t bytes[ROOM];
    cr_assert_eq(state_saved(metric, bytes), size, "%s: %s", kind->name, what);
    cr_assert_arr_eq(bytes, expected, size, "%s: %s", kind->name, what);
}

static int numbers_of_kinds[KINDS];

static struct criterion_test_params each_kind(void)
{
    for (int i = 0; i < KINDS; i++)
        numbers_of_kinds[i] = i;
    return cr_make_param_array(int, numbers_of_kinds, KINDS);
}

ParameterizedTestParameters(stage, states_are_those_of_the_hosts_arrays)
{
    return each_kind();
}

ParameterizedTest(int *number, stage, states_are_those_of_the_hosts_arrays)
{
    const struct kind *kind = &kinds[*number];
    uint8_t expected[2][ROOM];
    size_t sizes[2];
    make_data();
    for (int is_indexed = 0; is_indexed < 2; is_indexed++)
        sizes[is_indexed] = state_on_host(kind, is_indexed, expected[is_indexed]);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    for (int where = 0; where < MOCK_KINDS; where++)
        for (int device = 0; device < MOCK_DEVICES; device++)
            for (int is_indexed = 0; is_indexed < 2; is_indexed++) {
                const void *copies[ARRAYS_MAX];
                struct kolo_metric *metric = create(kind, is_indexed);
                const int64_t *which = send(mock, kind, (enum mock_kind)where, device, copies);
                if (where == MOCK_PINNED) /* as the program would */
                    for (int i = 0; i < ARRAYS_MAX; i++) {
                        if (copies[i])
                            mock->write((void *)(uintptr_t)copies[i], kind->arrays[i].memory,
                                        kind->arrays[i].bytes);
                        mock->write((void *)(uintptr_t)which, indices, sizeof indices);
                    }
                cr_assert_eq(kind->update(metric, copies, is_indexed ? which : NULL), KOLO_OK,
                             "%s: %s", kind->name, kolo_error_detail());
                check_same(kind, metric, expected[is_indexed], sizes[is_indexed], "on a device");
                kolo_metric_destroy(metric);
            }
}

Test(stage, a_device_that_does_not_come_to_an_end_is_given_up, .timeout = 60)
{
    static const uint32_t zero = 0, one = 1;
    const struct kind *kind = &kinds[0];
    uint8_t empty[ROOM], expected[ROOM];
    const void *copies[ARRAYS_MAX];
    make_data();
    const size_t size = state_on_host(kind, false, expected);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    (void)setenv("KOLO_TIMEOUT", "100ms", 1);
    (void)send(mock, kind, MOCK_DEVICE, 1, copies);
    struct kolo_metric *metric = create(kind, false);
    const size_t empty_size = state_saved(metric, empty);
    void *stream = mock->stream(1), *flag = mock->alloc(MOCK_DEVICE, 1, sizeof zero);
    mock->write(flag, &zero, sizeof zero);
    mock->await(stream, flag, 1);
    cr_assert_eq(kind->update(metric, copies, NULL), KOLO_ERR_TIMEOUT, "%s", kolo_error_detail());
    cr_assert_not_null(strstr(kolo_error_detail(), "has not done within 100 ms"), "%s",
                       kolo_error_detail());
    check_same(kind, metric, empty, empty_size, "given up");
    mock->write(flag, &one, sizeof one);
    kolo_status status = KOLO_OK; /* on a busy machine the stream may take longer than 100 ms */
    cr_assert(AWAIT((status = kind->update(metric, copies, NULL)) != KOLO_ERR_TIMEOUT));
    cr_assert_eq(status, KOLO_OK, "%s", kolo_error_detail());
    check_same(kind, metric, expected, size, "afterwards");
    kolo_metric_destroy(metric);
}

Test(stage, an_update_in_a_capture_is_refused)
{
    const struct kind *kind = &kinds[0];
    uint8_t empty[ROOM], expected[ROOM];
    const void *copies[ARRAYS_MAX];
    make_data();
    const size_t size = state_on_host(kind, false, expected);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    (void)send(mock, kind, MOCK_DEVICE, 1, copies);
    struct kolo_metric *metric = create(kind, false);
    const size_t empty_size = state_saved(metric, empty);
    void *stream = mock->stream(1);
    (void)mock->capture(stream, MOCK_CAPTURE);
    cr_assert_eq(kind->update(metric, copies, NULL), KOLO_ERR_UNSUPPORTED, "%s",
                 kolo_error_detail());
    cr_assert_not_null(strstr(kolo_error_detail(), "is captured into a graph"), "%s",
                       kolo_error_detail());
    check_same(kind, metric, empty, empty_size, "refused");
    (void)mock->capture(stream, MOCK_NO_CAPTURE);
    cr_assert_eq(kind->update(metric, copies, NULL), KOLO_OK, "%s", kolo_error_detail());
    check_same(kind, metric, expected, size, "afterwards");
    kolo_metric_destroy(metric);
}

ParameterizedTestParameters(stage, what_fails_adds_nothing)
{
    return each_kind();
}

ParameterizedTest(int *number, stage, what_fails_adds_nothing)
{
    static const char *const functions[] = {"cuPointerGetAttributes", "cuCtxPushCurrent_v2",
                                            "cuCtxRecordEvent", "cuMemcpyDtoH_v2"};
    const struct kind *kind = &kinds[*number];
    uint8_t empty[ROOM], expected[ROOM];
    const void *copies[ARRAYS_MAX];
    make_data();
    const size_t size = state_on_host(kind, true, expected);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    const int64_t *which = send(mock, kind, MOCK_DEVICE, 1, copies);
    struct kolo_metric *metric = create(kind, true);
    const size_t empty_size = state_saved(metric, empty);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        int failures = 0;
        for (kolo_status status = KOLO_ERR_SYSTEM; status != KOLO_OK; failures++) {
            mock->fail(functions[f], failures + 1, KOLO_CUDA_ILLEGAL_ADDRESS);
            status = kind->update(metric, copies, which);
            if (status == KOLO_OK)
                break;
            cr_assert_eq(status, KOLO_ERR_SYSTEM, "%s", kolo_error_detail());
            cr_assert(strncmp(kolo_error_detail(), kind->call, strlen(kind->call)) == 0 &&
                          strstr(kolo_error_detail(), "(700)"),
                      "%s", kolo_error_detail());
            mock->fail("", 0, 0);
            check_same(kind, metric, empty, empty_size, functions[f]);
        }
        cr_assert_geq(failures, 2, "%s: %s failed %d times", kind->name, functions[f], failures);
        mock->fail("", 0, 0);
        check_same(kind, metric, expected, size, functions[f]);
        kolo_metric_reset(metric);
    }
    for (uint64_t nth = 1;; nth++) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = kind->update(metric, copies, which);
        kolo_alloc_fail_nth(0);
        if (status == KOLO_OK)
            break;
        cr_assert_eq(status, KOLO_ERR_NO_MEMORY, "%s", kolo_error_detail());
        check_same(kind, metric, empty, empty_size, "an allocation");
    }
    check_same(kind, metric, expected, size, "at last");
    kolo_metric_destroy(metric);
}

Test(stage, nothing_is_looked_at_where_there_is_no_driver)
{
    struct kolo_stage stage = {.call = "a call"};
    cr_assert_eq(kolo_stage(&stage, "x", numbers, COUNT, 1, sizeof *numbers), numbers);
    cr_assert_eq(stage.pointers, KOLO_STAGE_HOST);
    cr_assert_null(kolo_stage(&stage, "x", NULL, COUNT, 1, 8));
    kolo_stage_end(&stage);
    cr_assert(stage.status == KOLO_OK && !stage.copies);
}

Test(stage, of_no_elements_nothing_is_copied)
{
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    struct kolo_metric *metric = create(&kinds[2], true);
    const void *memory = mock->alloc(MOCK_DEVICE, 0, 64);
    cr_assert_eq(kolo_accuracy_update(metric, memory, memory, 0, memory), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(mock->calls("cuMemcpyDtoH_v2"), 0);
    kolo_metric_destroy(metric);
}

/* In device memory and in host memory. */
static void refuse_long(const void *memory, bool is_host)
{
    const size_t counts[][3] = {
        {SIZE_MAX / 4, 8, 1}, {SIZE_MAX / 4, 2, 8}, {SIZE_MAX, 1, 1}, {SIZE_MAX / 8 + 1, 1, 4}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct kolo_stage stage = {.call = "a call", .part = "part."};
        if (is_host)
            stage.pointers = KOLO_STAGE_HOST;
        cr_assert_null(kolo_stage(&stage, "x", memory, counts[i][0], counts[i][1], counts[i][2]));
        cr_assert_eq(stage.status, KOLO_ERR_INVALID);
        cr_assert_not_null(strstr(kolo_error_detail(), "a call: part.x: "), "%s",
                           kolo_error_detail());
        cr_assert_eq(kolo_stage(&stage, "y", memory, 1, 1, 1), memory, "after a failure");
        kolo_stage_end(&stage);
    }
}

Test(stage, arrays_that_cannot_be_so_long_are_refused)
{
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    refuse_long(numbers, true);
    refuse_long(mock->alloc(MOCK_DEVICE, 0, 64), false);
    cr_assert_eq(mock->calls("cuMemcpyDtoH_v2"), 0);
}

Test(stage, only_the_array_that_is_on_a_device_is_copied)
{
    make_data();
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    struct kolo_metric *metric = create(&kinds[2], false);
    const float *device = mock_cuda_copy(mock, MOCK_DEVICE, 1, scores, sizeof scores);
    cr_assert_eq(kolo_accuracy_update(metric, device, labels, COUNT, NULL), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(mock->calls("cuMemcpyDtoH_v2"), 1);
    cr_assert_eq(kolo_accuracy_update(metric, device, labels, COUNT + 1, NULL), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(kolo_error_detail(), "kolo_accuracy_update: scores: cuMemcpyDtoH"),
                       "%s", kolo_error_detail());
    kolo_metric_destroy(metric);
}

Test(stage, pixels_of_a_mask)
{
    static const uint8_t pixels[] = {0, 1, 1, 0, 1, 0};
    struct kolo_mask expected = {.runs = NULL}, mask = {.runs = NULL};
    cr_assert_eq(kolo_mask_from_pixels(pixels, true, 2, 3, &expected), KOLO_OK);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    const uint8_t *device = mock_cuda_copy(mock, MOCK_DEVICE, 0, pixels, sizeof pixels);
    cr_assert_eq(kolo_mask_from_pixels(device, true, 2, 3, &mask), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(mask.count, expected.count);
    cr_assert_arr_eq(mask.runs, expected.runs, mask.count * sizeof *mask.runs);
    cr_assert_eq(kolo_mask_from_pixels(device, true, 3, 3, &mask), KOLO_ERR_SYSTEM);
    kolo_mask_free(&mask);
    kolo_mask_free(&expected);
}
