// SPDX-License-Identifier: Apache-2.0
// Robust statistics: a few disturbed measurements do not change them.
#ifndef KOLO_BENCH_STATISTICS_H
#define KOLO_BENCH_STATISTICS_H

#include <stddef.h>

/** Sorts in ascending order. */
void bench_sort(double *values, size_t count);
/** The value at @p percent of @p sorted by nearest rank; 0 if there are no values. */
double bench_percentile(const double *sorted, size_t count, double percent);
/** The middle value, or the mean of the two middle ones; 0 if there are no values. Reorders @p
 * values. */
double bench_median(double *values, size_t count);
/** The median of the distances from @p median (MAD). @p scratch has room for @p count values. */
double bench_mad(const double *values, size_t count, double median, double *scratch);

#endif
