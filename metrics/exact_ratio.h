// SPDX-License-Identifier: Apache-2.0
// Quotients of exact sums that cancel. Owns nothing. Private to metrics/.
#ifndef KOLO_METRICS_EXACT_RATIO_H
#define KOLO_METRICS_EXACT_RATIO_H

#include <kolo/metrics.h>

/** 1 - n * @p residuals / (n * @p squares - @p sum ^2), where 0 <= residuals and n * squares >=
 * sum^2: numerator and denominator exact, each rounded once, divided once. Denominator 0: 1 if the
 * residuals are 0, else 0. */
double kolo_exact_r2(int64_t n, const struct kolo_exact_sum *residuals,
                     const struct kolo_exact_sum *squares, const struct kolo_exact_sum *sum);

#endif
