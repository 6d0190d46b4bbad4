// SPDX-License-Identifier: Apache-2.0
// The order of additions, on values for which each order has a different sum.
#include <criterion/criterion.h>

#include "metrics/coco.h"

/* numpy.mean of these by NumPy 2.4; oracle/coco.py also compares the twelve numbers. */
Test(coco_mean, rules_add_in_their_order)
{
    static double values[20000];
    double plain = 0;
    for (int i = 0; i < 20000; i++)
        plain += values[i] = 1.0 / (i + 1);
    double late = kolo_coco_mean(values, 20000, KOLO_MEAN_NUMPY_2_3);
    double early = kolo_coco_mean(values, 20000, KOLO_MEAN_NUMPY_1);
    cr_assert_float_eq(late, plain / 20000, 1e-15);
    cr_assert_float_eq(early, plain / 20000, 1e-15);
    cr_assert_eq(late, 0x1.12bef9f8f622dp-11, "%a", late);
    cr_assert_eq(early, 0x1.12bef9f8f622ep-11, "%a", early);
    cr_assert_eq(kolo_coco_mean(values, 3, KOLO_MEAN_NUMPY_1), ((1 + 0.5) + 1.0 / 3) / 3);
}

enum { THRESHOLDS = 3, RECALLS = 11, CLASSES = 29, AREAS = 2, CAPS = 2 };

/* The plain mean of what there is at one area range and cap, from @p first to before @p end. */
static double plain_mean(const struct kolo_coco_params *params, const double *array, size_t rows,
                         size_t first, size_t end)
{
    double sum = 0;
    size_t count = 0;
    for (size_t row = first * rows; row < end * rows; row++)
        for (size_t k = 0; k < CLASSES; k++) {
            const double value = array[kolo_coco_at(params, row, k, 1, 0)];
            sum += value > -1 ? value : 0;
            count += value > -1;
        }
    return sum / (double)count;
}

/* More values than a block of the sum has, and blocks that end inside a row. */
Test(coco_mean, slices_have_all_their_entries)
{
    static double precision[THRESHOLDS * RECALLS * CLASSES * AREAS * CAPS],
        recall[THRESHOLDS * CLASSES * AREAS * CAPS];
    const struct kolo_coco_params params = {.thresholds = THRESHOLDS,
                                            .recalls = RECALLS,
                                            .classes = CLASSES,
                                            .categories = CLASSES,
                                            .areas = AREAS,
                                            .caps = CAPS};
    const struct kolo_coco_arrays arrays = {.precision = precision, .recall = recall};
    for (size_t t = 0; t < THRESHOLDS * RECALLS; t++)
        for (size_t i = 0; i < CLASSES * AREAS * CAPS; i++) {
            const bool is_there = i / (AREAS * CAPS) % 7 != 3;
            const size_t at = t * CLASSES * AREAS * CAPS + i;
            precision[at] = is_there ? 1.0 / (double)(at + 1) : -1;
            if (t < THRESHOLDS)
                recall[at] = is_there ? 1.0 / (double)(at + 3) : -1;
        }
    for (int of_recall = 0; of_recall < 2; of_recall++)
        for (int64_t t = -1; t < THRESHOLDS; t++) {
            const struct kolo_detection_slice slice = {.size = sizeof slice,
                                                       .of_recall = of_recall,
                                                       .threshold = t,
                                                       .category = -1,
                                                       .area = 1,
                                                       .cap = 0};
            const double expected =
                plain_mean(&params, of_recall ? recall : precision, of_recall ? 1 : RECALLS,
                           t < 0 ? 0 : (size_t)t, t < 0 ? (size_t)THRESHOLDS : (size_t)t + 1);
            cr_assert_float_eq(kolo_coco_average(&params, &arrays, &slice), expected, 1e-15,
                               "threshold %d, recall %d", (int)t, of_recall);
        }
}
