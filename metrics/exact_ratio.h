// SPDX-License-Identifier: Apache-2.0
// Quotients of exact sums whose terms cancel each other, where doubles would lose the result. Owns
// nothing. Private to metrics/.
#ifndef KOLO_METRICS_EXACT_RATIO_H
#define KOLO_METRICS_EXACT_RATIO_H

#include <kolo/metrics.h>

/** Returns 1 - n * @p residuals / (n * @p squares - @p sum ^2), where 0 <= residuals and @p squares
 *  and @p sum are those of n numbers, each square exact or rounded at 2^-1074. Numerator and
 *  denominator are exact; each is rounded once, and they are divided once. If the denominator is 0,
 *  or no more than what rounding made of it, the result is 1 if the residuals are 0, else 0. */
double kolo_exact_r2(int64_t n, const struct kolo_exact_sum *residuals,
                     const struct kolo_exact_sum *squares, const struct kolo_exact_sum *sum);

#endif
