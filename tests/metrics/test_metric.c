// SPDX-License-Identifier: Apache-2.0
// What all kinds of metrics do on one rank: which updates they refuse, and that a refused update
// adds nothing.
#include <criterion/criterion.h>
#include <string.h>

#include <kolo/metrics.h>

#include "base/alloc.h"
#include "metrics/metric.h"
#include "tests/support/world.h"

static struct kolo_metric *mean_of(int64_t samples)
{
    struct kolo_metric *metric = NULL;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = samples};
    cr_assert_eq(kolo_mean_create(&config, &metric), KOLO_OK, "%s", kolo_error_detail());
    return metric;
}

#define refuses(call, words)                                                                       \
    do {                                                                                           \
        cr_assert_eq((call), KOLO_ERR_INVALID);                                                    \
        cr_assert(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());                  \
    } while (0)

Test(metric, refuses_indices_that_it_has_no_samples_for)
{
    const float values[2] = {1, 2};
    const int64_t indices[2] = {0, 10}, negative[1] = {-1};
    struct kolo_metric *plain = mean_of(0), *indexed = mean_of(10);
    refuses(kolo_mean_update_float32(plain, values, 2, indices), "created with samples 0");
    refuses(kolo_mean_update_float32(indexed, values, 2, NULL), "indices is NULL");
    refuses(kolo_mean_update_float32(indexed, values, 2, indices), "indices[1] is 10, not in 0..9");
    refuses(kolo_mean_update_float32(indexed, values, 1, negative), "indices[0] is -1");
    refuses(kolo_mean_update_float32(NULL, values, 1, NULL), "is NULL");
    cr_assert_eq(indexed->record_count, 0);
    cr_assert_eq(plain->direct_count, 0);
    cr_assert_eq(kolo_mean_update_float32(indexed, NULL, 0, NULL), KOLO_OK, "an empty batch");
    kolo_metric_destroy(plain);
    kolo_metric_destroy(indexed);
    struct kolo_metric *none = NULL;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = -1};
    refuses(kolo_mean_create(&config, &none), "samples -1");
    cr_assert_null(none);
}

Test(metric, keeps_the_first_of_a_sample_until_reset)
{
    struct kolo_metric *metric = mean_of(70);
    const double values[3] = {1, 2, 3};
    const int64_t indices[3] = {69, 3, 69};
    cr_assert_eq(kolo_mean_update_float64(metric, values, 3, indices), KOLO_OK);
    cr_assert_eq(metric->record_count, 2);
    cr_assert_eq(metric->local_duplicates, 1);
    size_t bytes;
    double first;
    memcpy(&first, kolo_metric_record(metric, 0, &bytes), sizeof first);
    cr_assert_eq(bytes, sizeof first);
    cr_assert_eq(first, 1);
    kolo_metric_reset(metric);
    cr_assert_eq(kolo_mean_update_float64(metric, values + 2, 1, indices), KOLO_OK);
    cr_assert_eq(metric->record_count, 1);
    cr_assert_eq(metric->local_duplicates, 0);
    kolo_metric_destroy(metric);
    kolo_metric_reset(NULL);
    kolo_metric_destroy(NULL);
}

Test(metric, survives_every_failing_allocation)
{
    const double value = 1;
    const int64_t index = 5;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = 70};
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 50 && !succeeded; nth++) {
        struct kolo_metric *metric = NULL;
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_mean_create(&config, &metric);
        if (status == KOLO_OK)
            status = kolo_mean_update_float64(metric, &value, 1, &index);
        succeeded = status == KOLO_OK;
        cr_assert(succeeded || status == KOLO_ERR_NO_MEMORY);
        cr_assert(!metric || succeeded || metric->record_count == 0);
        kolo_alloc_fail_nth(0);
        kolo_metric_destroy(metric);
    }
    cr_assert(succeeded);
}
