// SPDX-License-Identifier: Apache-2.0
// The values of numpy.linspace, bit by bit, including those where a naive grid differs.
#include <criterion/criterion.h>
#include <string.h>

#include "metrics/coco.h"

Test(coco_params, thresholds_are_numpys)
{
    struct kolo_coco_params params;
    struct kolo_detection_config config = {
        .size = sizeof config, .categories = (int64_t[]){3, 1}, .category_count = 2};
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_OK);
    cr_assert_eq(params.threshold[0], 0.5);
    cr_assert_eq(params.threshold[7], 0x1.b333333333333p-1);
    cr_assert_eq(params.threshold[8], 0x1.cccccccccccccp-1);
    cr_assert_eq(params.threshold[9], 0.95);
    static const int differ[] = {35, 41, 47, 57, 69, 70, 82, 83, 94, 95};
    size_t next = 0;
    for (int r = 0; r <= 100; r++) {
        bool differs = next < 10 && differ[next] == r;
        next += differs;
        cr_assert_eq(params.recall[r] != r / 100., differs, "%d", r);
    }
    cr_assert_eq(kolo_coco_category(&params, 3), 1);
    cr_assert_eq(kolo_coco_category(&params, 2), -1);
    kolo_coco_params_free(&params);
}

/** A recall that differs from i / 100, rounded to float32. */
struct odd_recall {
    int place;
    double value;
};

static void expect_torch(kolo_threshold_mode mode, const struct odd_recall *recalls, size_t places)
{
    static const double thresholds[] = {0x1p-1,        0x1.19999ap-1, 0x1.333334p-1, 0x1.4cccccp-1,
                                        0x1.666666p-1, 0x1.8p-1,      0x1.99999ap-1, 0x1.b33334p-1,
                                        0x1.ccccccp-1, 0x1.e66666p-1};
    struct kolo_coco_params params;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = (int64_t[]){1},
                                           .category_count = 1,
                                           .threshold_mode = mode};
    size_t next = 0;
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_OK);
    cr_assert_arr_eq(params.threshold, thresholds, sizeof thresholds);
    for (int r = 0; r <= 100; r++) {
        bool differs = next < places && recalls[next].place == r;
        double expected = differs ? recalls[next].value : (double)(float)(r / 100.);
        next += differs;
        cr_assert_eq(params.recall[r], expected, "%d: %a instead of %a", r, params.recall[r],
                     expected);
    }
    kolo_coco_params_free(&params);
}

/* torch.linspace(0, 1, 101).tolist() of PyTorch 2.6 on a processor with fused multiplication and
 * addition. oracle/coco.py --torch compares all values with those of the PyTorch that is there. */
Test(coco_params, thresholds_are_torchs_where_asked_for)
{
    static const struct odd_recall recalls[] = {
        {5, 0x1.999998p-5},  {9, 0x1.70a3d6p-4},  {10, 0x1.999998p-4}, {15, 0x1.333332p-3},
        {18, 0x1.70a3d6p-3}, {20, 0x1.999998p-3}, {23, 0x1.d70a3cp-3}, {27, 0x1.147ae0p-2},
        {30, 0x1.333332p-2}, {33, 0x1.51eb84p-2}, {36, 0x1.70a3d6p-2}, {40, 0x1.999998p-2},
        {43, 0x1.b851eap-2}, {46, 0x1.d70a3cp-2}, {49, 0x1.f5c28ep-2}, {53, 0x1.0f5c2ap-1},
        {59, 0x1.2e147cp-1}, {65, 0x1.4ccccep-1}, {78, 0x1.8f5c2ap-1}, {84, 0x1.ae147cp-1}};
    expect_torch(KOLO_THRESHOLDS_TORCH32, recalls, sizeof recalls / sizeof *recalls);
}

/* The same of PyTorch 1.13. */
Test(coco_params, thresholds_are_those_of_an_older_torch_where_asked_for)
{
    static const struct odd_recall recalls[] = {
        {5, 0x1.999998p-5},  {9, 0x1.70a3d6p-4},  {10, 0x1.999998p-4}, {18, 0x1.70a3d6p-3},
        {20, 0x1.999998p-3}, {23, 0x1.d70a3cp-3}, {27, 0x1.147ae0p-2}, {30, 0x1.333332p-2},
        {33, 0x1.51eb84p-2}, {36, 0x1.70a3d6p-2}, {40, 0x1.999998p-2}, {41, 0x1.a3d708p-2},
        {43, 0x1.b851eap-2}, {44, 0x1.c28f5ap-2}, {46, 0x1.d70a3cp-2}, {47, 0x1.e147acp-2},
        {49, 0x1.f5c28ep-2}, {54, 0x1.147ae0p-1}, {66, 0x1.51eb84p-1}, {67, 0x1.570a3cp-1},
        {76, 0x1.851ebap-1}, {77, 0x1.8a3d72p-1}, {78, 0x1.8f5c2ap-1}, {84, 0x1.ae147cp-1},
        {91, 0x1.d1eb84p-1}};
    expect_torch(KOLO_THRESHOLDS_TORCH32_V1, recalls, sizeof recalls / sizeof *recalls);
}

Test(coco_params, an_unknown_mode_or_rule_is_refused)
{
    struct kolo_coco_params params;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = (int64_t[]){1},
                                           .category_count = 1,
                                           .mode = (kolo_detection_mode)(KOLO_DETECTION_FIXED + 1)};
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "create: mode "), "%s", kolo_error_detail());
    config.mode = KOLO_DETECTION_FIXED;
    config.mean_rule = (kolo_mean_rule)(KOLO_MEAN_NUMPY_1 + 1);
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "mean_rule "), "%s", kolo_error_detail());
}

Test(coco_params, an_unknown_threshold_mode_is_refused)
{
    struct kolo_coco_params params;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = (int64_t[]){1},
                                           .category_count = 1,
                                           .threshold_mode = (kolo_threshold_mode)3};
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "threshold_mode 3"), "%s", kolo_error_detail());
}

Test(coco_params, only_the_first_recall_is_reached_by_nothing)
{
    struct kolo_coco_params params;
    const double recalls[] = {-0x1p-1074, 0,
                              0.5}; /* a recall below 0 needs no true detection either */
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = (int64_t[]){1},
                                           .category_count = 1,
                                           .recalls = recalls,
                                           .recall_count = 3};
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_ERR_INVALID);
    config.recalls = recalls + 1;
    config.recall_count = 2;
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_OK);
    kolo_coco_params_free(&params);
}

Test(coco_params, names_a_threshold_that_is_barely_above_one)
{
    struct kolo_coco_params params;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = (int64_t[]){1},
                                           .category_count = 1,
                                           .thresholds = (double[]){0.5, 0x1.0000000000001p0},
                                           .threshold_count = 2};
    cr_assert_eq(kolo_coco_params_make(&params, &config), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "thresholds[1] is 1.0000000000000002;"), "%s",
              kolo_error_detail());
}
