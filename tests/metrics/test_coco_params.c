// SPDX-License-Identifier: Apache-2.0
// numpy.linspace's values, bit by bit, where a naive grid has others.
#include <criterion/criterion.h>

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

Test(coco_params, only_the_first_recall_is_reached_by_nothing)
{
    struct kolo_coco_params params;
    const double recalls[] = {-0x1p-1074, 0,
                              0.5}; /* what is below 0 needs no true detection either */
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
