// SPDX-License-Identifier: Apache-2.0
// kolobench diagnose: the command line, the run, the matrices, and the verdict in plain words.
#include "bench/diagnose.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "bench/bench.h"
#include "tools/exit_status.h"
#include "tools/job.h"
#include "tools/outfile.h"
#include "tools/streams.h"

enum { COLUMNS_MAX = 16 }; /* of a matrix on the screen; the JSON has all */

struct run {
    struct diagnose_options options;
    bool slow; /* rank 0's */
};

/* ---- options ---- */

#define TAKE(name)                                                                                 \
    static int take_##name(const struct bench_flag *flag, const char *value, void *target)
#define OPTIONS                                                                                    \
    struct diagnose_options *o = target;                                                           \
    (void)flag, (void)value

TAKE(time)
{
    OPTIONS;
    return bench_parse_time(value, &o->time_ns)
               ? BENCH_GO_ON
               : bench_refuse("--time", value, "a time such as 20ms", NULL);
}

TAKE(size)
{
    OPTIONS;
    return kolo_size_parse(value, &o->bytes) && o->bytes >= 65536 && o->bytes <= 1 << 30
               ? BENCH_GO_ON
               : bench_refuse("--size", value, "a size from 64K to 1G", NULL);
}

TAKE(rounds)
{
    OPTIONS;
    return bench_parse_integer(value, 1, 1000, &o->rounds)
               ? BENCH_GO_ON
               : bench_refuse("--rounds", value, "an integer from 1 to 1000", NULL);
}

TAKE(factor)
{
    OPTIONS;
    char *end;
    o->factor = strtod(value, &end);
    return end != value && *end == '\0' && o->factor > 1 && o->factor <= 1000
               ? BENCH_GO_ON
               : bench_refuse("--factor", value, "a number above 1, at most 1000", NULL);
}

TAKE(exhaustive)
{
    OPTIONS;
    o->exhaustive = true;
    return BENCH_GO_ON;
}

TAKE(quiet)
{
    OPTIONS;
    o->quiet = true;
    return BENCH_GO_ON;
}

TAKE(threads)
{
    OPTIONS;
    int64_t threads;
    if (!bench_parse_integer(value, 1, DIAGNOSE_RANKS_MAX, &threads))
        return bench_refuse("--threads", value, "an integer from 1 to 256", NULL);
    o->threads = (int)threads;
    return BENCH_GO_ON;
}

TAKE(json)
{
    OPTIONS;
    return bench_take_file(flag, value, &o->json);
}

TAKE(transport)
{
    static char setting[BENCH_TEXT_MAX];
    OPTIONS;
    snprintf(setting, sizeof setting, "KOLO_TRANSPORT=%s", value);
    o->settings[0] = setting;
    return BENCH_GO_ON;
}

TAKE(help);

static const struct bench_flag flags[] = {
    {'t', "time", "TIME", "how long each figure is measured in each round [20ms]", take_time},
    {'r', "rounds", "N", "how often all pairs are measured; the best figure of a link counts [3]",
     take_rounds},
    {'s', "size", "SIZE", "size of the messages that measure bandwidth [1M]", take_size},
    {0, "factor", "N", "how many times worse than its siblings a slow one is [2]", take_factor},
    {0, "exhaustive", NULL, "measure one pair at a time, whatever hosts they are on",
     take_exhaustive},
    {0, "transport", "NAME", "use only inproc, shm, rdma or tcp", take_transport},
    {0, "threads", "N", "run N ranks as threads of this process, without kolorun", take_threads},
    {0, "json", "FILE", "also write everything as JSON", take_json},
    {'q', "quiet", NULL, "print no progress line on a terminal", take_quiet},
    {'h', "help", NULL, "print this text", take_help},
    {0},
};

static int take_help(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag, (void)value, (void)target;
    if (!job_speaks())
        return 0;
    printf(
        "usage: kolorun -H HOSTS kolobench diagnose [options]\n"
        "Measures every pair of ranks, and names the hosts, ranks and links that are slow compared "
        "with their\nsiblings. Exit status: 0 nothing is slow, 1 something is, 2 invalid "
        "options.\n\n");
    bench_flags_help(flags, stdout);
    return 0;
}

static int take_word(const char *word, void *target)
{
    (void)target;
    return bench_refuse("diagnose", word, "options alone", NULL);
}

/* ---- what is said ---- */

static void print_matrix(const struct diagnosis *d, const double *values, const char *title)
{
    int n = d->nranks;
    printf("# %s\n#%9s", title, "from \\ to");
    for (int to = 0; to < n && to < COLUMNS_MAX; to++)
        printf(" %8d", to);
    printf("%s\n", n > COLUMNS_MAX ? " ..." : "");
    for (int from = 0; from < n && from < COLUMNS_MAX; from++) {
        printf("%10d", from);
        for (int to = 0; to < n && to < COLUMNS_MAX; to++)
            if (from == to)
                printf(" %8s", "-");
            else
                printf(" %8.3g", values[from * n + to]);
        printf("%s\n", n > COLUMNS_MAX ? " ..." : "");
    }
    if (n > COLUMNS_MAX)
        printf("# ... %d ranks in all; --json FILE has them\n", n);
}

static void print_all(const struct diagnosis *d)
{
    printf("# each rank by itself\n#%9s %-24s %8s %12s %12s\n", "rank", "host", "pid", "sum GB/s",
           "copy GB/s");
    for (int rank = 0; rank < d->nranks; rank++)
        printf("%10d %-24s %8" PRId64 " %12.2f %12.2f\n", rank, d->ranks[rank].host,
               d->ranks[rank].pid, d->ranks[rank].reduce_gbps, d->ranks[rank].copy_gbps);
    print_matrix(d, d->latency_us, "latency of 8 bytes, one way, us");
    print_matrix(d, d->gbps, "bandwidth, GB/s");
    for (size_t i = 0; i < d->nfindings; i++) {
        char text[512];
        diagnose_say(&d->findings[i], text, sizeof text);
        printf("%s\n", text);
    }
    if (d->nfindings == 0 && d->nranks < 3)
        printf("nothing to compare with: %d rank%s\n", d->nranks, d->nranks == 1 ? "" : "s");
    else if (d->nfindings == 0)
        printf("nothing is slow compared with its siblings (by a factor of %g)\n", d->factor);
}

static json_t *finding_object(const struct diagnose_finding *f)
{
    static const char *const kinds[] = {"host", "rank", "link"};
    char text[512];
    diagnose_say(f, text, sizeof text);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:s}", "kind", kinds[f->kind],
                     "measure", f->measure, "who", f->who, "rank", f->rank, "peer", f->peer,
                     "value", f->value, "siblings", f->siblings, "times", f->times, "text", text);
}

static json_t *diagnosis_object(const struct diagnosis *d, json_t *machine)
{
    json_t *ranks = json_array(), *links = json_array(), *findings = json_array();
    int failed = 0;
    for (int rank = 0; rank < d->nranks; rank++)
        failed |= json_array_append_new(
            ranks, json_pack("{s:i, s:s, s:I, s:f, s:f}", "rank", rank, "host", d->ranks[rank].host,
                             "pid", (json_int_t)d->ranks[rank].pid, "reduce_gbps",
                             d->ranks[rank].reduce_gbps, "copy_gbps", d->ranks[rank].copy_gbps));
    for (int at = 0; at < d->nranks * d->nranks; at++)
        if (at / d->nranks != at % d->nranks)
            failed |= json_array_append_new(links, json_pack("{s:i, s:i, s:f, s:f}", "from",
                                                             at / d->nranks, "to", at % d->nranks,
                                                             "latency_us", d->latency_us[at],
                                                             "gbps", d->gbps[at]));
    for (size_t i = 0; i < d->nfindings; i++)
        failed |= json_array_append_new(findings, finding_object(&d->findings[i]));
    json_t *object = json_pack("{s:o, s:f, s:o, s:o, s:o}", "machine", machine, "factor", d->factor,
                               "ranks", ranks, "links", links, "findings", findings);
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}

static kolo_status write_json(const struct diagnosis *d, struct kolo_comm *comm,
                              const struct bench_machine *machine, struct outfile *file)
{
    json_t *object = diagnosis_object(d, bench_machine_object(comm, machine));
    bool has_memory = object != NULL;
    if (object && json_dumpf(object, file->stream, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        has_memory = ferror(file->stream) != 0; /* it could not be written, as closing says */
    fputc('\n', file->stream);
    json_decref(object);
    kolo_status status = outfile_close(file, has_memory);
    return has_memory ? status : kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON");
}

/* ---- the run ---- */

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct run *run = arg;
    struct bench_machine machine;
    struct outfile file = {.path = NULL};
    struct diagnosis *d = kolo_calloc(1, sizeof *d);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!d)
        return status;
    if (kolo_size(comm) > DIAGNOSE_RANKS_MAX) {
        status = kolo_fail(KOLO_ERR_CONFIG, "diagnose: %d ranks; at most %d", kolo_size(comm),
                           DIAGNOSE_RANKS_MAX);
        goto out;
    }
    KOLO_TRY(bench_machine_look(comm, &machine));
    if (kolo_rank(comm) == 0 && run->options.json)
        KOLO_TRY(outfile_open(&file, "--json", run->options.json));
    if (kolo_rank(comm) == 0)
        bench_machine_print(&machine);
    KOLO_TRY(diagnose_measure(comm, &run->options, d));
    KOLO_TRY(diagnose_judge(d));
    if (kolo_rank(comm) != 0)
        goto out;
    run->slow = d->nfindings > 0;
    print_all(d);
    KOLO_TRY(streams_flush());
    if (file.stream)
        status = write_json(d, comm, &machine, &file);
out:
    (void)outfile_close(&file, false);
    kolo_free_memory(d->ranks);
    kolo_free_memory(d->latency_us);
    kolo_free_memory(d->gbps);
    kolo_free_memory(d);
    return status;
}

int diagnose_main(char *const *argv)
{
    struct run run = {.options = {.time_ns = 20000000, .bytes = 1 << 20, .rounds = 3, .factor = 2}};
    int exit_status = bench_flags_parse(flags, argv, &run.options, take_word);
    if (exit_status != BENCH_GO_ON)
        return exit_status;
    kolo_status status =
        bench_run_ranks(run.options.threads, run.options.settings, rank_main, &run);
    return run.slow ? EXIT_STATUS_FAILED : exit_status_of(status);
}
