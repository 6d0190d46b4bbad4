// SPDX-License-Identifier: Apache-2.0
// kolobench --limits: the machine's figures, and for each collective and size the times of the bare
// loops that do its pattern and nothing else: over memory that all map, over stages for memory that
// the user brought, over TCP, and of allreduce by RDMA writes. The best way is the lower bound, and a measurement: of this machine,
// these ranks, now.
#include "bench/limits.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "tools/outfile.h"
#include "tools/streams.h"

enum channel { CHANNEL_SHM, CHANNEL_USER, CHANNEL_TCP, CHANNEL_RDMA, CHANNELS };
static const char *const channel_texts[] = {"shm", "shm_user", "tcp", "rdma"};

struct limit {
    double us; /* 0: none here */
    const char *way;
};

struct limits {
    const struct bench_options *options;
    struct bench_machine machine;
    struct bare_world world;
    struct bench_figures figures;
    char rdma[BARE_WHY_BYTES]; /* the port, or why there is none */
    bool rdma_usable;
    const char *only;    /* the transport that is forced; NULL: none */
    json_t *root, *rows; /* rank 0's */
    struct outfile json, plot;
};

/* Is this way asked for? All are, where no transport is forced. */
static bool is_wanted(const struct limits *limits, const char *transport)
{
    return !limits->only || strcmp(limits->only, transport) == 0;
}

/* ---- one bound ---- */

static void better(struct limit *limit, double us, const char *way)
{
    if (limit->us == 0 || us < limit->us)
        *limit = (struct limit){us, way};
}

/* All ways of common memory; what goes over stages is good for both kinds of memory. */
static kolo_status shm_limits(struct limits *limits, const struct bare_pattern *pattern,
                              size_t bytes, struct limit *limit)
{
    static const char *const ways[] = {"one-shot", "direct", "direct, streamed", "staged"};
    for (int way = BARE_ONE_SHOT; way <= BARE_STAGED; way++) {
        double us;
        if (!bare_fits(pattern, (enum bare_way)way, limits->world.nranks, bytes))
            continue;
        kolo_status status = bare_shm_time(&limits->world, pattern, (enum bare_way)way, bytes,
                                           limits->options->time_ns, &us);
        if (status != KOLO_OK)
            return status;
        better(&limit[CHANNEL_SHM], us, ways[way]);
        if (way == BARE_ONE_SHOT || way == BARE_STAGED)
            better(&limit[CHANNEL_USER], us, ways[way]);
    }
    return KOLO_OK;
}

static kolo_status tcp_limits(struct limits *limits, const struct bare_pattern *pattern,
                              size_t bytes, struct limit *limit)
{
    for (int phases = 1; phases <= 2; phases++) {
        double us;
        if (!bare_tcp_fits(pattern, phases))
            continue;
        kolo_status status =
            bare_tcp_time(&limits->world, pattern, phases, bytes, limits->options->time_ns, &us);
        if (status != KOLO_OK)
            return status;
        better(&limit[CHANNEL_TCP], us, phases == 1 ? "one phase" : "two phases");
    }
    return KOLO_OK;
}

static kolo_status rdma_limits(struct limits *limits, const struct bare_pattern *pattern,
                               size_t bytes, struct limit *limit)
{
    for (int phases = 1; phases <= 2; phases++) {
        double us;
        if (!bare_rdma_fits(pattern, phases, bytes))
            continue;
        kolo_status status =
            bare_rdma_time(&limits->world, pattern, phases, bytes, limits->options->time_ns, &us);
        if (status != KOLO_OK)
            return status;
        better(&limit[CHANNEL_RDMA], us, phases == 1 ? "one phase" : "two phases");
    }
    return KOLO_OK;
}

/* ---- what is said ---- */

/* A column of dashes would say nothing where there is no RDMA. */
static int channels(const struct limits *limits)
{
    return limits->world.rdma ? CHANNELS : CHANNEL_RDMA;
}

static double bus_gbps(const struct limits *limits, const char *collective, size_t bytes, double us)
{
    const struct bench_operation *operation = bench_operation_find(collective);
    double factor = operation ? operation->bus_factor(limits->world.nranks) : 1;
    return us > 0 ? (double)bytes / us / 1e3 * factor : 0;
}

static kolo_status say_row(struct limits *limits, const char *collective, size_t bytes,
                           const struct limit *limit)
{
    char size[32];
    printf("%10s", bench_size_text((double)bytes, size, sizeof size));
    for (int channel = 0; channel < channels(limits); channel++) {
        const struct limit *l = &limit[channel];
        if (l->us == 0)
            printf("  %11s %8s %-17s", "-", "-", "-");
        else
            printf("  %11.2f %8.2f %-17s", l->us, bus_gbps(limits, collective, bytes, l->us),
                   l->way);
        if (l->us == 0)
            continue;
        json_t *row = json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:s}", "collective", collective,
                                "channel", channel_texts[channel], "np", limits->world.nranks,
                                "bytes", (json_int_t)bytes, "time_us", l->us, "busbw_gbps",
                                bus_gbps(limits, collective, bytes, l->us), "way", l->way);
        if (!row || json_array_append_new(limits->rows, row) != 0)
            return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the limits");
    }
    printf("\n");
    return streams_flush();
}

static void say_figures(const struct limits *limits)
{
    for (size_t i = 0; i < limits->figures.count; i++) {
        const struct bench_figure *f = &limits->figures.list[i];
        bool is_time = strcmp(f->key + strlen(f->key) - 3, "_us") == 0;
        printf("# %-20s %9.3f %s  %s\n", f->key, f->value, is_time ? "us  " : "GB/s", f->text);
    }
    fflush(stdout);
}

static void say_rdma(const struct limits *limits)
{
    if (limits->world.nranks > 1)
        printf("# %s: %s\n", limits->world.rdma ? "RDMA by" : "no RDMA", limits->rdma);
}

static void say_heads(const struct limits *limits, const char *collective)
{
    printf("# lower bounds of %s%s: bare loops over memory that all ranks map, over stages for "
           "memory the user brought,\n# and over TCP%s%s%s%s; medians of the slowest rank; busbw "
           "beside\n",
           collective, strcmp(collective, "barrier") == 0 ? "" : " (float32)",
           limits->world.sockets ? " (congestion control " : "", limits->world.congestion,
           limits->world.sockets ? ")" : "", limits->world.rdma ? ", by RDMA writes" : "");
    printf("#%9s", "size");
    for (int channel = 0; channel < channels(limits); channel++)
        printf("  %8s us %8s %-17s", channel_texts[channel], "GB/s", "way");
    printf("\n");
}

/* ---- the run ---- */

static kolo_status limit_of_size(struct limits *limits, const struct bare_pattern *pattern,
                                 size_t bytes)
{
    struct limit limit[CHANNELS] = {{0}};
    kolo_status status = KOLO_OK;
    if (limits->world.memory && is_wanted(limits, "shm"))
        KOLO_TRY(shm_limits(limits, pattern, bytes, limit));
    if (limits->world.sockets)
        KOLO_TRY(tcp_limits(limits, pattern, bytes, limit));
    if (limits->world.rdma)
        KOLO_TRY(rdma_limits(limits, pattern, bytes, limit));
    if (limits->world.rank == 0)
        KOLO_TRY(say_row(limits, pattern->name, bytes, limit));
out:
    return status;
}

static kolo_status limits_of(struct limits *limits, const struct bare_pattern *pattern)
{
    size_t ranks = (size_t)limits->world.nranks, last = 0, at = 0;
    bool by_rank = pattern->send == BENCH_ALL || pattern->recv == BENCH_ALL;
    size_t unit = sizeof(float) * (by_rank ? ranks : 1);
    kolo_status status = KOLO_OK;
    if (limits->world.rank == 0)
        say_heads(limits, pattern->name);
    if (pattern->send == BENCH_NOTHING)
        return limit_of_size(limits, pattern, 0);
    for (int64_t bytes = 0;
         status == KOLO_OK && (bytes = bench_next_size(limits->options, bytes, &at)) != 0;) {
        size_t rounded = (size_t)bytes / unit * unit;
        if (rounded == last)
            continue;
        last = rounded;
        status = limit_of_size(limits, pattern, rounded);
    }
    return status;
}

static const struct bare_pattern *pattern_of(const char *name)
{
    for (const struct bare_pattern *pattern = bare_patterns; pattern->name; pattern++)
        if (strcmp(pattern->name, name) == 0)
            return pattern;
    return NULL;
}

/* The vectors are as long as the longest that is asked for. */
static size_t longest_vector(const struct bench_options *options)
{
    size_t at = 0, longest = sizeof(float);
    for (int64_t bytes = 0; (bytes = bench_next_size(options, bytes, &at)) != 0;)
        longest = (size_t)bytes > longest ? (size_t)bytes : longest;
    return longest;
}

/* What kolo would take: the setting, inside one host reno, else the system's. */
static const char *congestion(const struct limits *limits, const struct kolo_settings *settings)
{
    if (settings->tcp_congestion[0] || limits->machine.nhosts > 1)
        return settings->tcp_congestion;
    return limits->machine.congestion[0] ? limits->machine.congestion : "reno";
}

/* The ways between ranks, as kolo's settings have them. */
static kolo_status open_ways(struct limits *limits)
{
    struct kolo_settings settings;
    kolo_status status;
    kolo_settings_init(&settings);
    KOLO_TRY(kolo_settings_load(&settings, NULL, NULL, NULL));
    if (is_wanted(limits, "tcp"))
        KOLO_TRY(bare_tcp_open(&limits->world, congestion(limits, &settings)));
    if (is_wanted(limits, "rdma"))
        KOLO_TRY(bare_rdma_open(&limits->world, &settings, limits->rdma));
    limits->rdma_usable = limits->world.rdma != NULL;
out:
    return status;
}

static kolo_status open_outputs(struct limits *limits)
{
    const struct bench_options *o = limits->options;
    const struct outfile_place places[] = {{"--json", o->json}, {"--plot", o->plot}};
    kolo_status status;
    limits->root = json_object();
    limits->rows = json_array();
    KOLO_TRY(outfile_distinct(places, sizeof places / sizeof *places));
    if (o->json)
        KOLO_TRY(outfile_open(&limits->json, "--json", o->json));
    if (o->plot)
        KOLO_TRY(outfile_open(&limits->plot, "--plot", o->plot));
out:
    return status;
}

static kolo_status write_outputs(struct limits *limits, bool keep)
{
    json_t *figures = json_object();
    for (size_t i = 0; i < limits->figures.count; i++) {
        const struct bench_figure *f = &limits->figures.list[i];
        (void)json_object_set_new(figures, f->key, json_real(f->value));
    }
    (void)json_object_set_new(limits->root, "machine",
                              bench_machine_object(limits->world.comm, &limits->machine));
    (void)json_object_set_new(limits->root, "figures", figures);
    (void)json_object_set_new(
        limits->root, "rdma",
        json_pack("{s:b, s:s}", "usable", limits->rdma_usable, "text", limits->rdma));
    (void)json_object_set(limits->root, "limits", limits->rows);
    if (limits->json.stream && keep) {
        json_dumpf(limits->root, limits->json.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        fputc('\n', limits->json.stream);
    }
    kolo_status status = KOLO_OK, closed;
    if (limits->plot.stream && keep)
        status = bench_plot_object(limits->root, &limits->machine, limits->plot.stream);
    closed = outfile_close(&limits->plot, keep && status == KOLO_OK);
    status = status == KOLO_OK ? closed : status;
    closed = outfile_close(&limits->json, keep);
    status = status == KOLO_OK ? closed : status;
    json_decref(limits->rows);
    json_decref(limits->root);
    return status;
}

/* What --transport forces. */
static const char *forced(const struct bench_options *options)
{
    static const char name[] = "KOLO_TRANSPORT=";
    for (const char *const *setting = options->settings; *setting; setting++)
        if (strncmp(*setting, name, strlen(name)) == 0)
            return *setting + strlen(name);
    return NULL;
}

static kolo_status measure(struct limits *limits, struct kolo_comm *comm)
{
    kolo_status status;
    KOLO_TRY(bare_open(&limits->world, comm, longest_vector(limits->options)));
    snprintf(limits->rdma, sizeof limits->rdma,
             limits->world.nranks > 1 ? "not asked for" : "one rank alone");
    if (limits->world.nranks > 1)
        KOLO_TRY(open_ways(limits));
    KOLO_TRY(bench_figures_measure(&limits->world, is_wanted(limits, "shm"),
                                   limits->options->time_ns, &limits->figures));
    if (limits->world.rank == 0) {
        say_figures(limits);
        say_rdma(limits);
    }
    for (const struct bench_operation **operation = limits->options->operations; *operation;
         operation++) {
        const struct bare_pattern *pattern = pattern_of((*operation)->name);
        if (pattern)
            KOLO_TRY(limits_of(limits, pattern));
    }
out:
    return status;
}

kolo_status bench_limits_run(struct kolo_comm *comm, const struct bench_options *options)
{
    struct limits *limits = kolo_calloc(1, sizeof *limits);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!limits)
        return status;
    limits->options = options;
    limits->only = forced(options);
    limits->world.comm = comm;
    KOLO_TRY(bench_machine_look(comm, &limits->machine));
    if (kolo_rank(comm) == 0) {
        bench_machine_print(&limits->machine);
        KOLO_TRY(open_outputs(limits));
    }
    status = measure(limits, comm);
out:
    if (limits->root) {
        limits->world.comm = comm;
        kolo_status written = write_outputs(limits, status == KOLO_OK);
        status = status == KOLO_OK ? written : status;
    }
    bare_close(&limits->world);
    kolo_free_memory(limits);
    return status;
}
