// SPDX-License-Identifier: Apache-2.0
// What an update of a mean costs per value: `mean_rate [VALUES]` (2^20). Exact and fast, of floats
// and of doubles, in updates of 1024; the best of some passes over the values, in nanoseconds.
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include <kolo/metrics.h>

#include "base/clock.h"

enum { PASSES = 15, BATCH = 1024 };

/* The nanoseconds of a pass, or a negative number on failure. */
static double pass(struct kolo_metric *metric, const float *singles, const double *doubles,
                   size_t count)
{
    kolo_status status = KOLO_OK;
    int64_t begun = kolo_now_ns();
    for (size_t i = 0; status == KOLO_OK && i < count; i += BATCH) {
        size_t some = count - i < BATCH ? count - i : BATCH;
        status = singles ? kolo_mean_update_float32(metric, singles + i, some, NULL)
                         : kolo_mean_update_float64(metric, doubles + i, some, NULL);
    }
    return status == KOLO_OK ? (double)(kolo_now_ns() - begun) : -1;
}

static int measure(const char *name, bool fast, const float *singles, const double *doubles,
                   size_t count)
{
    const struct kolo_mean_config config = {.size = sizeof config, .fast = fast};
    struct kolo_metric *metric = NULL;
    if (kolo_mean_create(&config, &metric) != KOLO_OK)
        return EXIT_FAILURE;
    double best = DBL_MAX;
    for (int i = 0; i < PASSES; i++) {
        double ns = pass(metric, singles, doubles, count);
        best = ns < best ? ns : best;
    }
    printf("%-8s %-5s %6.2f ns a value\n", name, fast ? "fast" : "exact", best / (double)count);
    kolo_metric_destroy(metric);
    return best > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "1048576";
    size_t count = (size_t)strtoull(text, NULL, 10);
    float *singles = calloc(count ? count : 1, sizeof *singles);
    double *doubles = calloc(count ? count : 1, sizeof *doubles);
    int failed = !count || !singles || !doubles;
    for (size_t i = 0; !failed && i < count; i++)
        doubles[i] = singles[i] = (float)(i % 1009) / 1009;
    for (int fast = 0; !failed && fast < 2; fast++)
        failed = measure("float32", fast, singles, NULL, count) ||
                 measure("float64", fast, NULL, doubles, count);
    if (failed)
        fprintf(stderr, "mean_rate: %s values: %s\n", text, kolo_error_detail());
    free(singles);
    free(doubles);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
