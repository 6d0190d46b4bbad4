// SPDX-License-Identifier: Apache-2.0
// kolobench --limits: the machine's figures, and for each collective and size the times of the bare
// loops that do only its pattern: over memory that all map, over stages for memory that the user
// brought, over TCP, and for allreduce by RDMA writes. The fastest way is the lower bound. It is a
// measurement: it holds for this machine, these ranks, now.
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
enum {
    CANDIDATES_MAX = 12
}; /* four of memory, two each of TCP and RDMA, one of kolo per channel */

struct limit {
    double us; /* 0: none here */
    const char *way;
    double kolo_us; /* kolo's time, timed in turn with it; 0: kolo takes another way */
    const char *plan;
};

struct limits {
    const struct bench_options *options;
    struct bench_machine machine;
    struct bare_world world;
    struct bench_figures figures;
    char rdma[BARE_WHY_BYTES]; /* the port, or why there is none */
    bool rdma_usable;
    size_t sizes;        /* for which a bound was measured */
    const char *only;    /* the transport that is forced; NULL: none */
    json_t *root, *rows; /* rank 0's */
    struct outfile json, plot;
};

/* Whether this way was asked for; all were if no transport is forced. */
static bool is_wanted(const struct limits *limits, const char *transport)
{
    return !limits->only || strcmp(limits->only, transport) == 0;
}

/* ---- the bounds of one size ---- */

/* One of the loops for a size: a bare one, or kolo's call. */
struct candidate {
    const char *way;                /* for kolo's call, its plan */
    struct bench_prepared prepared; /* for kolo's call */
    bool is_for[CHANNELS], is_kolo;
};

struct candidates {
    struct bare_run runs[CANDIDATES_MAX];
    struct candidate list[CANDIDATES_MAX];
    size_t count;
};

static struct bare_run *add(struct candidates *all, const char *way, enum channel channel)
{
    struct candidate *one = &all->list[all->count];
    one->way = way;
    one->is_for[channel] = true;
    return &all->runs[all->count++];
}

/* Adds all ways over common memory; those over stages are valid for both kinds of memory. */
static void add_shm(const struct limits *limits, const struct bare_pattern *pattern, size_t bytes,
                    struct candidates *all)
{
    static const char *const ways[] = {"one-shot", "direct", "direct, streamed", "staged"};
    for (int way = BARE_ONE_SHOT; way <= BARE_STAGED; way++) {
        if (!bare_fits(pattern, (enum bare_way)way, limits->world.nranks, bytes))
            continue;
        bool is_staged = way == BARE_ONE_SHOT || way == BARE_STAGED;
        bare_shm_run(&limits->world, pattern, (enum bare_way)way, bytes,
                     add(all, ways[way], CHANNEL_SHM));
        all->list[all->count - 1].is_for[CHANNEL_USER] = is_staged;
    }
}

static void add_links(const struct limits *limits, const struct bare_pattern *pattern, size_t bytes,
                      struct candidates *all)
{
    static const char *const ways[] = {NULL, "one phase", "two phases"};
    for (int phases = 1; phases <= 2; phases++) {
        if (limits->world.sockets && bare_tcp_fits(pattern, phases))
            bare_tcp_run(&limits->world, pattern, phases, bytes,
                         add(all, ways[phases], CHANNEL_TCP));
        if (limits->world.rdma && bare_rdma_fits(pattern, phases, bytes))
            bare_rdma_run(pattern, phases, bytes, add(all, ways[phases], CHANNEL_RDMA));
    }
}

static bool call_step(struct bare_world *world, void *context)
{
    world->failed = bench_call_once(context);
    return world->failed == KOLO_OK;
}

static kolo_status add_kolo(struct limits *limits, const struct bare_pattern *pattern, size_t bytes,
                            enum channel channel, struct candidates *all)
{
    const struct bench_operation *operation = bench_operation_find(pattern->name);
    struct bare_run *run = add(all, NULL, channel);
    struct candidate *own = &all->list[all->count - 1];
    struct bench_options options = *limits->options; /* the same as the bare loops do */
    bool is_lent = channel == CHANNEL_SHM || channel == CHANNEL_RDMA;
    options.memory = is_lent ? BENCH_KOLO : BENCH_USER;
    options.dtype = KOLO_FLOAT32;
    options.op = KOLO_SUM;
    options.pace = BENCH_BLOCKING;
    options.root = 0;
    options.in_place = false;
    *run =
        (struct bare_run){.name = pattern->name, .step = call_step, .context = &own->prepared.call};
    own->is_kolo = true;
    kolo_status status =
        bench_prepare(limits->world.comm, &options, operation, bytes, &own->prepared);
    own->way = own->prepared.plan;
    return status;
}

/* Adds kolo's calls for the ways that its links take here: there is one way between two ranks. */
static kolo_status add_calls(struct limits *limits, const struct bare_pattern *pattern,
                             size_t bytes, struct candidates *all)
{
    const char *transport = limits->machine.transport;
    bool has_links = strstr(transport, "tcp") || strstr(transport, "rdma");
    kolo_status status = KOLO_OK;
    if (limits->world.nranks > 1 && limits->world.memory && is_wanted(limits, "shm") &&
        !has_links) {
        KOLO_TRY(add_kolo(limits, pattern, bytes, CHANNEL_SHM, all));
        KOLO_TRY(add_kolo(limits, pattern, bytes, CHANNEL_USER, all));
    }
    if (limits->world.sockets && strstr(transport, "tcp"))
        KOLO_TRY(add_kolo(limits, pattern, bytes, CHANNEL_TCP, all));
    if (limits->world.rdma && strstr(transport, "rdma"))
        KOLO_TRY(add_kolo(limits, pattern, bytes, CHANNEL_RDMA, all));
out:
    return status;
}

static void conclude(const struct candidates *all, enum channel channel, struct limit *limit)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct candidate *one = &all->list[i];
        double us = all->runs[i].us;
        if (!one->is_for[channel])
            continue;
        if (one->is_kolo) {
            limit->kolo_us = us;
            limit->plan = one->way;
        } else if (limit->us == 0 || us < limit->us) {
            limit->us = us;
            limit->way = one->way;
        }
    }
}

static kolo_status measure_size(struct limits *limits, const struct bare_pattern *pattern,
                                size_t bytes, struct limit limit[CHANNELS])
{
    struct candidates *all = kolo_calloc(1, sizeof *all);
    kolo_status status = all ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (!all)
        return status;
    if (limits->world.memory && is_wanted(limits, "shm"))
        add_shm(limits, pattern, bytes, all);
    add_links(limits, pattern, bytes, all);
    if (all->count > 0)
        KOLO_TRY(add_calls(limits, pattern, bytes, all));
    KOLO_TRY(
        bare_rdma_explain(&limits->world, bare_time_in_turn(&limits->world, all->runs, all->count,
                                                            limits->options->time_ns)));
    for (enum channel channel = 0; channel < CHANNELS; channel++)
        conclude(all, channel, &limit[channel]);
out:
    for (size_t i = 0; i < all->count; i++)
        bench_unprepare(&all->list[i].prepared);
    kolo_free_memory(all);
    return status;
}

/* ---- what is said ---- */

/* Without RDMA there is no column for it: it would be only dashes. */
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

/* Prints kolo's time, and which part of the bound it reaches. */
static void say_kolo(const struct limits *limits, const char *collective, size_t bytes,
                     const struct limit *limit)
{
    printf("%10s", "kolo");
    for (int channel = 0; channel < channels(limits); channel++) {
        const struct limit *l = &limit[channel];
        char reached[64];
        if (l->kolo_us == 0) {
            printf("  %11s %8s %-17s", "", "", "");
            continue;
        }
        snprintf(reached, sizeof reached, "%3.0f %% %s", 100 * l->us / l->kolo_us, l->plan);
        printf("  %11.2f %8.2f %-17s", l->kolo_us, bus_gbps(limits, collective, bytes, l->kolo_us),
               reached);
    }
    printf("\n");
}

static kolo_status add_row(struct limits *limits, const char *collective, size_t bytes,
                           enum channel channel, const struct limit *l)
{
    json_t *row = json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:s}", "collective", collective,
                            "channel", channel_texts[channel], "np", limits->world.nranks, "bytes",
                            (json_int_t)bytes, "time_us", l->us, "busbw_gbps",
                            bus_gbps(limits, collective, bytes, l->us), "way", l->way);
    if (row && l->kolo_us > 0 &&
        (json_object_set_new(row, "kolo_us", json_real(l->kolo_us)) != 0 ||
         json_object_set_new(row, "plan", json_string(l->plan)) != 0)) {
        json_decref(row);
        row = NULL;
    }
    if (!row || json_array_append_new(limits->rows, row) != 0)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the limits");
    return KOLO_OK;
}

static kolo_status say_row(struct limits *limits, const char *collective, size_t bytes,
                           const struct limit *limit)
{
    char size[32];
    bool has_kolo = false;
    kolo_status status = KOLO_OK;
    printf("%10s", bench_size_text((double)bytes, size, sizeof size));
    for (int channel = 0; channel < channels(limits); channel++) {
        const struct limit *l = &limit[channel];
        has_kolo = has_kolo || l->kolo_us > 0;
        if (l->us == 0) {
            printf("  %11s %8s %-17s", "-", "-", "-");
            continue;
        }
        printf("  %11.2f %8.2f %-17s", l->us, bus_gbps(limits, collective, bytes, l->us), l->way);
        KOLO_TRY(add_row(limits, collective, bytes, (enum channel)channel, l));
    }
    printf("\n");
    if (has_kolo)
        say_kolo(limits, collective, bytes, limit);
    status = streams_flush();
out:
    return status;
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
    if (limits->world.nranks > 1)
        printf(
            "# below each the call of kolo, timed in turn with the loops: what it takes, how much "
            "of the bound that is, and its plan\n");
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
    kolo_status status = measure_size(limits, pattern, bytes, limit);
    limits->sizes++;
    if (status == KOLO_OK && limits->world.rank == 0)
        status = say_row(limits, pattern->name, bytes, limit);
    return status;
}

static kolo_status limits_of(struct limits *limits, const struct bare_pattern *pattern)
{
    size_t ranks = (size_t)limits->world.nranks;
    bool by_rank = pattern->send == BENCH_ALL || pattern->recv == BENCH_ALL;
    struct bench_sizes sizes = {.options = limits->options,
                                .collective = pattern->name,
                                .nranks = limits->world.nranks,
                                .unit = sizeof(float) * (by_rank ? ranks : 1),
                                .speaks = limits->world.rank == 0};
    kolo_status status = KOLO_OK;
    if (limits->world.rank == 0)
        say_heads(limits, pattern->name);
    if (pattern->send == BENCH_NOTHING)
        return limit_of_size(limits, pattern, 0);
    while (status == KOLO_OK && bench_sizes_next(&sizes))
        status = limit_of_size(limits, pattern, sizes.row_bytes);
    return status;
}

static const struct bare_pattern *pattern_of(const char *name)
{
    for (const struct bare_pattern *pattern = bare_patterns; pattern->name; pattern++)
        if (strcmp(pattern->name, name) == 0)
            return pattern;
    return NULL;
}

bool bench_has_limit(const char *collective)
{
    return pattern_of(collective) != NULL;
}

/* The vectors are as long as the longest that was asked for. */
static size_t longest_vector(const struct bench_options *options)
{
    size_t at = 0, longest = sizeof(float);
    for (int64_t bytes = 0; (bytes = bench_next_size(options, bytes, &at)) != 0;)
        longest = (size_t)bytes > longest ? (size_t)bytes : longest;
    return longest;
}

/* What kolo would use: the setting; inside one host reno; else the system's default. */
static const char *congestion(const struct limits *limits, const struct kolo_settings *settings)
{
    if (settings->tcp_congestion[0] || limits->machine.nhosts > 1)
        return settings->tcp_congestion;
    return limits->machine.congestion[0] ? limits->machine.congestion : "reno";
}

/* Opens the ways between ranks, according to kolo's settings. */
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

static kolo_status complete_root(struct limits *limits)
{
    json_t *figures = json_object();
    int failed = 0;
    for (size_t i = 0; i < limits->figures.count; i++) {
        const struct bench_figure *f = &limits->figures.list[i];
        failed |= json_object_set_new(figures, f->key, json_real(f->value));
    }
    failed |= json_object_set_new(limits->root, "machine",
                                  bench_machine_object(limits->world.comm, &limits->machine));
    failed |= json_object_set_new(limits->root, "figures", figures);
    failed |= json_object_set_new(
        limits->root, "rdma",
        json_pack("{s:b, s:s}", "usable", limits->rdma_usable, "text", limits->rdma));
    failed |= json_object_set(limits->root, "limits", limits->rows);
    return failed == 0 ? KOLO_OK : kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the limits");
}

static kolo_status write_outputs(struct limits *limits, bool keep)
{
    kolo_status status = keep ? complete_root(limits) : KOLO_OK, closed;
    if (limits->json.stream && keep && status == KOLO_OK)
        status = bench_write_object(limits->root, &limits->json);
    const bool is_json_whole = status == KOLO_OK;
    if (limits->plot.stream && keep && is_json_whole)
        status = bench_plot_object(limits->root, &limits->machine, limits->plot.stream);
    closed = outfile_close(&limits->plot, keep && status == KOLO_OK);
    status = status == KOLO_OK ? closed : status;
    closed = outfile_close(&limits->json, keep && is_json_whole);
    status = status == KOLO_OK ? closed : status;
    json_decref(limits->rows);
    json_decref(limits->root);
    return status;
}

/* The transport that --transport forces. Threads of one process are connected by the memory that
 * shm stands for. */
static const char *forced(const struct bench_options *options)
{
    static const char name[] = "KOLO_TRANSPORT=";
    const char *only = NULL;
    for (const char *const *setting = options->settings; *setting; setting++)
        if (strncmp(*setting, name, strlen(name)) == 0)
            only = *setting + strlen(name);
    if (only && strcmp(only, "inproc") == 0)
        return "shm";
    return only && strcmp(only, "auto") != 0 ? only : NULL;
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
    if (limits->sizes == 0)
        status = kolo_fail(KOLO_ERR_CONFIG,
                           "nothing was measured: every size is too small for %d rank%s; give a "
                           "larger one with -s",
                           limits->world.nranks, limits->world.nranks == 1 ? "" : "s");
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
