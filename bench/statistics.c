// SPDX-License-Identifier: Apache-2.0
// Percentiles, medians and median absolute deviations; all by sorting.
#include "bench/statistics.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof *values, ascending);
}

double bench_percentile(const double *sorted, size_t count, double percent)
{
    if (count == 0)
        return 0;
    size_t nth = (size_t)ceil(percent / 100 * (double)count);
    return sorted[nth > 0 ? nth - 1 : 0];
}

double bench_median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    bench_sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double bench_mad(const double *values, size_t count, double median, double *scratch)
{
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(values[i] - median);
    return bench_median(scratch, count);
}
