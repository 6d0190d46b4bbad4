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
