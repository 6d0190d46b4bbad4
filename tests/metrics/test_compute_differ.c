// SPDX-License-Identifier: Apache-2.0
// Ranks whose lists of metrics differ, or of which one passes an invalid list: all ranks get an
// error that names both sides, and can go on.
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include <kolo/metrics.h>

#include "tests/support/world.h"

enum { RANKS = 4, METRICS = 3, ODD = 2 };

struct difference {
    const char *name;
    kolo_status status;
    const char *words[2]; /* in the text that every rank gets */
};

enum {
    OTHER_SAMPLES,
    OTHER_CONFIGURATION,
    OTHER_KIND,
    SHORTER,
    LONGER,
    IS_NULL,
    BAD_OPTIONS,
    CASES
};
static const struct difference differences[CASES] = {
    [OTHER_SAMPLES] = {"samples",
                       KOLO_ERR_MISMATCH,
                       {"metrics[1] is mean of 10 samples on rank 0 (",
                        "but mean of 12 samples on rank 2 ("}},
    [OTHER_CONFIGURATION] = {"configuration",
                             KOLO_ERR_MISMATCH,
                             {"metrics[1] is accuracy on rank 0 (",
                              "but accuracy with another configuration on rank 2 ("}},
    [OTHER_KIND] = {"kind",
                    KOLO_ERR_MISMATCH,
                    {"metrics[1] is mean on rank 0 (", "but accuracy on rank 2 ("}},
    [SHORTER] = {"a shorter list",
                 KOLO_ERR_MISMATCH,
                 {"metrics[2] is mean on rank 0 (", "but missing (count is 2) on rank 2 ("}},
    [LONGER] = {"a longer list",
                KOLO_ERR_MISMATCH,
                {"metrics[2] is missing (count is 2) on rank 0 (", "but mean on rank 2 ("}},
    [IS_NULL] = {"a metric that is NULL",
                 KOLO_ERR_INVALID,
                 {"kolo_metrics_compute: ", "metrics[1] is NULL"}},
    [BAD_OPTIONS] = {"options that cannot be",
                     KOLO_ERR_INVALID,
                     {"kolo_metrics_compute: ", "opts->flags"}},
};

static kolo_status make(int which, bool is_odd, struct kolo_metric **metric_out)
{
    struct kolo_mean_config mean = {.size = sizeof mean};
    struct kolo_accuracy_config accuracy = {.size = sizeof accuracy, .classes = 10};
    if (which == OTHER_SAMPLES)
        mean.samples = is_odd ? 12 : 10;
    if (which == OTHER_CONFIGURATION)
        accuracy.classes = is_odd ? 11 : 10;
    return which == OTHER_CONFIGURATION || (which == OTHER_KIND && is_odd)
               ? kolo_accuracy_create(&accuracy, metric_out)
               : kolo_mean_create(&mean, metric_out);
}

/** The difference, on one rank only, is in the second of three metrics, or in their number. */
static kolo_status compute(struct kolo_comm *comm, int which)
{
    const bool is_odd = kolo_rank(comm) == ODD;
    const struct kolo_opts good = {.size = sizeof good, .name = "eval"};
    const struct kolo_opts bad = {.size = sizeof bad, .name = "eval", .flags = 0x80};
    struct kolo_metric *metrics[METRICS] = {NULL};
    kolo_status status = KOLO_OK;
    for (int i = 0; i < METRICS && status == KOLO_OK; i++)
        status = make(i == 1 ? which : CASES, is_odd, &metrics[i]);
    if (status != KOLO_OK)
        return status;
    struct kolo_metric *passed[METRICS] = {metrics[0], metrics[1], metrics[2]};
    size_t count = METRICS;
    if ((which == SHORTER && is_odd) || (which == LONGER && !is_odd))
        count = 2;
    if (which == IS_NULL && is_odd)
        passed[1] = NULL;
    status = kolo_metrics_compute(comm, passed, count,
                                  which != BAD_OPTIONS ? NULL
                                  : is_odd             ? &bad
                                                       : &good);
    for (int i = 0; i < METRICS; i++)
        kolo_metric_destroy(metrics[i]);
    return status;
}

static kolo_status all_cases(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int which = 0; which < CASES; which++) {
        const struct difference *want = &differences[which];
        const kolo_status status = compute(comm, which);
        const char *text = kolo_error_detail();
        WORLD_EXPECT(status == want->status && strstr(text, want->words[0]) &&
                         strstr(text, want->words[1]),
                     "%s: %s: %.500s", want->name, kolo_status_name(status), text);
        WORLD_EXPECT(want->status == KOLO_ERR_MISMATCH || kolo_rank(comm) == ODD ||
                         strstr(text, "rank 2 ("),
                     "%s: %.500s", want->name, text);
        WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* the communicator still works */
    }
    return KOLO_OK;
}

Test(compute_differ, all_hear_who_passed_what, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {
            .size = RANKS, .transport = world_transports[t], .settings = {"KOLO_TIMEOUT=20"}};
        WORLD_MUST_RUN(&world, all_cases, NULL);
    }
}

/** One rank computes while another makes another call; the error names the compute as the program
 * knows it. */
static kolo_status one_calls_a_barrier(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    if (kolo_rank(comm) == ODD)
        return kolo_barrier(comm, NULL, NULL);
    return compute(comm, CASES);
}

Test(compute_differ, beside_another_call_it_has_its_name, .timeout = 60)
{
    struct world world = {.size = RANKS, .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, one_calls_a_barrier, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_MISMATCH && strstr(result->text, "metrics_compute()"),
                  "rank %d: %s", rank, result->text);
    }
}
