// SPDX-License-Identifier: Apache-2.0
// kolobench: measures collectives, one row per size, in nccl-tests' columns. Runs under kolorun,
// alone, or with ranks as threads (--threads). This file is the sweep; see bench.h for the parts.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "bench/bench.h"
#include "bench/diagnose.h"
#include "bench/explain.h"
#include "bench/limits.h"
#include "bench/plot.h"
#include "bench/profile.h"
#include "runtime/choose.h"
#include "tools/exit_status.h"
#include "tools/job.h"
#include "tools/streams.h"

struct run {
    struct bench_options options;
    int64_t errors; /* rank 0's */
};

/* What one rank needs during the sweep; report is NULL except on rank 0. */
struct sweep {
    struct kolo_comm *comm;
    const struct bench_options *options;
    const struct bench_machine *machine;
    struct bench_report *report;
    int64_t errors;
    size_t rows, least_bytes; /* least: the smallest size of those without a row */
};

static kolo_status measure_row(struct sweep *sweep, const struct bench_operation *operation,
                               size_t bytes)
{
    struct bench_row row;
    if (sweep->report)
        bench_report_progress(sweep->report, operation, bytes);
    kolo_status status = bench_measure(sweep->comm, sweep->options, operation, bytes, &row);
    if (status != KOLO_OK)
        return status;
    row.transport = sweep->machine->transport;
    sweep->rows++;
    if (row.errors > 0)
        sweep->errors += row.errors;
    return sweep->report ? bench_report_row(sweep->report, &row) : KOLO_OK;
}

/** Reports that there is no size for @p operation, whose smallest one is @p unit. */
static void note_none(struct sweep *sweep, const struct bench_operation *operation, size_t unit)
{
    if (sweep->report)
        bench_report_none(sweep->report, operation, unit);
    if (sweep->least_bytes == 0 || unit < sweep->least_bytes)
        sweep->least_bytes = unit;
}

static kolo_status sweep_sizes(struct sweep *sweep, const struct bench_operation *operation)
{
    size_t unit = bench_unit_bytes(operation, sweep->options, kolo_size(sweep->comm));
    struct bench_sizes sizes = {.options = sweep->options,
                                .collective = operation->name,
                                .nranks = kolo_size(sweep->comm),
                                .unit = unit,
                                .speaks = sweep->report != NULL};
    kolo_status status = KOLO_OK;
    if (sweep->report)
        bench_report_header(sweep->report, operation);
    if (unit == 0)
        return measure_row(sweep, operation, 0);
    while (status == KOLO_OK && bench_sizes_next(&sizes))
        status = measure_row(sweep, operation, sizes.row_bytes);
    if (status == KOLO_OK && sizes.row_bytes == 0)
        note_none(sweep, operation, unit);
    return status;
}

static kolo_status check_ranks(const struct bench_options *options, int nranks)
{
    if (options->root >= nranks)
        return kolo_fail(KOLO_ERR_CONFIG, "--root %d: there are %d ranks", options->root, nranks);
    if (options->peer >= nranks)
        return kolo_fail(KOLO_ERR_CONFIG, "--peer %d: there are %d ranks", options->peer, nranks);
    return KOLO_OK;
}

/** Who forgot kolorun would take copies inside one process for what its links give. */
static void warn_alone(int nranks)
{
    if (nranks == 1)
        fprintf(stderr, "kolobench: one rank alone: nothing crosses a link, and there is no busbw; "
                        "start several with kolorun -np N, or with --threads N\n");
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct run *run = arg;
    if (run->options.limits)
        return bench_limits_run(comm, &run->options);
    struct bench_machine machine;
    struct sweep sweep = {.comm = comm, .options = &run->options, .machine = &machine};
    kolo_comm_own(comm, true); /* a forced plan applies to what is measured, and nothing else */
    kolo_status status = check_ranks(&run->options, kolo_size(comm));
    if (status == KOLO_OK)
        status = bench_machine_look(comm, &machine);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = bench_report_open(&run->options, comm, &machine, &sweep.report);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        warn_alone(kolo_size(comm));
    for (const struct bench_operation **operation = run->options.operations;
         status == KOLO_OK && *operation; operation++)
        status = sweep_sizes(&sweep, *operation);
    if (status == KOLO_OK && sweep.rows == 0)
        status = kolo_fail(KOLO_ERR_CONFIG,
                           "nothing was measured: every size is below %zu bytes, the least for %d "
                           "ranks; give a larger one with -s",
                           sweep.least_bytes, kolo_size(comm));
    kolo_status closed = bench_report_close(sweep.report, status == KOLO_OK);
    if (kolo_rank(comm) == 0)
        run->errors = sweep.errors;
    return status == KOLO_OK ? closed : status;
}

static int bench_main(char *const *argv)
{
    struct run run = {0};
    int exit_status = bench_options_parse(argv, &run.options);
    if (exit_status == BENCH_GO_ON) {
        if (run.options.limits)
            run.options.threads = bench_company(run.options.threads);
        kolo_status status =
            bench_run_ranks(run.options.threads, run.options.settings, rank_main, &run);
        exit_status = run.errors > 0 ? EXIT_STATUS_FAILED : exit_status_of(status);
        if (status == KOLO_OK && run.errors > 0 && job_speaks())
            fprintf(stderr, "kolobench: %" PRId64 " wrong elements\n", run.errors);
    }
    bench_options_fini(&run.options);
    return exit_status;
}

static const struct {
    const char *name;
    int (*main)(char *const *argv);
} commands[] = {{"diagnose", diagnose_main},
                {"plot", plot_main},
                {"plan", explain_main},
                {"profile", profile_main}};

static int perform(char *const *argv)
{
    for (size_t i = 0; argv[0] && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].main(argv + 1);
    return bench_main(argv);
}

int main(int argc, char **argv)
{
    if (streams_secure() != KOLO_OK) {
        fprintf(stderr, "kolobench: %s\n", kolo_error_detail());
        return EXIT_STATUS_FAILED;
    }
    const int exit_status = perform(argv + (argc > 0));
    if (exit_status != 0)
        job_leave();
    return streams_end("kolobench", exit_status);
}
