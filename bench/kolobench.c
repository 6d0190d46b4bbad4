// SPDX-License-Identifier: Apache-2.0
// kolobench: measures collectives, one row per size, in nccl-tests' columns. Runs under kolorun,
// alone, or with ranks as threads (--threads). This file is the sweep; see bench.h for the parts.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "bench/bench.h"
#include "runtime/plan.h"

kolo_status bench_transport_text(struct kolo_comm *comm, char *text, size_t capacity)
{
    int nranks = kolo_size(comm);
    text[0] = '\0';
    for (int peer = 0; peer < nranks; peer++) {
        struct kolo_peer_info info = {.size = sizeof info};
        kolo_status status = kolo_get_peer_info(comm, peer, &info);
        if (status != KOLO_OK)
            return status;
        if ((peer == kolo_rank(comm) && nranks > 1) || strstr(text, info.transport))
            continue;
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%s", used ? "+" : "", info.transport);
    }
    return KOLO_OK;
}

static enum kolo_collective collective_of(const struct bench_operation *operation)
{
    int collective = 0;
    while (collective < KOLO_COLLECTIVES &&
           strcmp(kolo_collective_text((enum kolo_collective)collective), operation->name) != 0)
        collective++;
    return (enum kolo_collective)collective;
}

const char *bench_plan_name(struct kolo_comm *comm, const struct bench_operation *operation,
                            const struct bench_options *options, size_t count)
{
    enum kolo_collective collective = collective_of(operation);
    struct kolo_settings settings;
    if (collective == KOLO_COLLECTIVES)
        return "pairs";
    kolo_settings_init(&settings);
    if (kolo_settings_load(&settings, NULL, NULL, NULL) != KOLO_OK)
        return "unknown";
    for (const char *const *setting = options->settings; *setting; setting++)
        if (strncmp(*setting, "KOLO_PLAN=", 10) == 0)
            snprintf(settings.plan, sizeof settings.plan, "%s", *setting + 10);
    size_t element = kolo_dtype_bytes(options->dtype);
    struct kolo_plan_args args = {.rank = kolo_rank(comm),
                                  .size = kolo_size(comm),
                                  .root = operation->has_root ? options->root : 0,
                                  .count = count,
                                  .segment = settings.segment_bytes / element,
                                  .in_place = options->in_place};
    size_t bytes = count * operation->size_blocks(args.size) * element;
    return kolo_plan_choose(collective, &args, bytes, settings.small_bytes, settings.plan)->name;
}

static kolo_status measure_row(struct kolo_comm *comm, const struct bench_options *options,
                               const struct bench_operation *operation, size_t bytes,
                               const char *transport, struct bench_report *report, int64_t *errors)
{
    struct bench_row row;
    kolo_status status = bench_measure(comm, options, operation, bytes, &row);
    if (status != KOLO_OK)
        return status;
    row.transport = transport;
    if (row.errors > 0)
        *errors += row.errors;
    return report ? bench_report_row(report, &row) : KOLO_OK;
}

static kolo_status sweep(struct kolo_comm *comm, const struct bench_options *options,
                         const struct bench_operation *operation, const char *transport,
                         struct bench_report *report, int64_t *errors)
{
    size_t least = kolo_dtype_bytes(options->dtype) * operation->size_blocks(kolo_size(comm)),
           last = SIZE_MAX;
    kolo_status status = KOLO_OK;
    if (report)
        bench_report_header(report, operation);
    if (least == 0)
        return measure_row(comm, options, operation, 0, transport, report, errors);
    for (int64_t bytes = options->begin_bytes; status == KOLO_OK && bytes <= options->end_bytes;
         bytes *= options->factor) {
        size_t rounded =
            (size_t)bytes / least * least; /* the nearest size that all ranks share evenly */
        if (rounded == 0 || rounded == last)
            continue;
        last = rounded;
        status = measure_row(comm, options, operation, rounded, transport, report, errors);
    }
    return status;
}

struct run {
    struct bench_options options;
    int64_t errors;
};

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct run *run = arg;
    struct bench_report *report = NULL;
    char transport[BENCH_TEXT_MAX];
    int64_t errors = 0;
    if (run->options.root >= kolo_size(comm))
        return kolo_fail(KOLO_ERR_INVALID, "--root %d: there are %d ranks", run->options.root,
                         kolo_size(comm));
    kolo_status status = bench_transport_text(comm, transport, sizeof transport);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = bench_report_open(&run->options, comm, &report);
    for (const struct bench_operation **operation = run->options.operations;
         status == KOLO_OK && *operation; operation++)
        status = sweep(comm, &run->options, *operation, transport, report, &errors);
    kolo_status closed = bench_report_close(report, status == KOLO_OK);
    if (kolo_rank(comm) == 0)
        run->errors = errors;
    return status == KOLO_OK ? closed : status;
}

static kolo_status run_as_rank(struct run *run)
{
    struct kolo_config config = {.size = sizeof config, .settings = run->options.settings};
    struct kolo_comm *comm = NULL;
    kolo_status status = kolo_init(&config, &comm);
    if (status == KOLO_OK)
        status = rank_main(comm, run);
    if (status != KOLO_OK && bench_speaks())
        fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    (void)kolo_finalize(comm);
    return status;
}

static kolo_status run_as_threads(struct run *run)
{
    struct kolo_config config = {.size = sizeof config, .settings = run->options.settings};
    kolo_status status = kolo_run_threads(run->options.threads, &config, rank_main, run);
    if (status != KOLO_OK)
        fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    return status;
}

static void free_options(struct bench_options *options)
{
    for (const char **setting = options->settings; *setting; setting++)
        kolo_free_memory((void *)(uintptr_t)*setting);
    kolo_free_memory((void *)(uintptr_t)options->operations);
}

int main(int argc, char **argv)
{
    struct run run = {0};
    int exit_status = bench_options_parse(argc, argv, &run.options);
    if (exit_status < 0) {
        kolo_status status = run.options.threads ? run_as_threads(&run) : run_as_rank(&run);
        exit_status = status != KOLO_OK || run.errors > 0;
        if (status == KOLO_OK && run.errors > 0 && bench_speaks())
            fprintf(stderr, "kolobench: %lld wrong elements\n", (long long)run.errors);
    }
    free_options(&run.options);
    return exit_status;
}
