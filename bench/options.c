// SPDX-License-Identifier: Apache-2.0
// The command line of a measuring run, as one table that is also the help. Every bad value is
// reported in one line that names the option, the value, what is allowed, and what was probably
// meant.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "bench/limits.h"
#include "tools/job.h"

static const int64_t warmup_calls = 2; /* unless --warmup is given */

/* ---- names ---- */

enum { NAMES_MAX = 64 };

/* The texts of a numbered list: joined for messages, and searched for the nearest one. */
struct names {
    const char *list[NAMES_MAX];
    char joined[1024];
};

static void add_name(struct names *names, const char *name)
{
    size_t at = 0, used = strlen(names->joined);
    while (names->list[at])
        at++;
    if (at + 1 >= NAMES_MAX)
        return;
    names->list[at] = name;
    snprintf(names->joined + used, sizeof names->joined - used, "%s%s", used ? ", " : "", name);
}

static void dtype_names(struct names *names)
{
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        add_name(names, kolo_dtype_text((kolo_dtype)dtype));
}

static void redop_names(struct names *names)
{
    for (int op = 0; op < KOLO_REDOPS; op++)
        add_name(names, kolo_redop_text((kolo_redop)op));
}

static void collective_names(struct names *names)
{
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        add_name(names, operation->name);
}

static void operation_names(struct names *names)
{
    add_name(names, "all");
    collective_names(names);
}

/* The index of @p value in the list; or -1, after printing a line. */
static int choose(const char *what, const char *value, void (*fill)(struct names *))
{
    struct names names = {{NULL}, ""};
    fill(&names);
    for (int i = 0; names.list[i]; i++)
        if (strcmp(names.list[i], value) == 0)
            return i;
    char expected[sizeof names.joined + 16];
    snprintf(expected, sizeof expected, "one of %s", names.joined);
    (void)bench_refuse(what, value, expected, bench_nearest(value, names.list));
    return -1;
}

/* ---- one option each ---- */

#define TAKE(name)                                                                                 \
    static int take_##name(const struct bench_flag *flag, const char *value, void *target)
#define OPTIONS                                                                                    \
    struct bench_options *o = target;                                                              \
    (void)flag, (void)value

static int bad(const struct bench_flag *flag, const char *value, const char *expected)
{
    char option[64];
    snprintf(option, sizeof option, "--%s", flag->name);
    return bench_refuse(option, value, expected, NULL);
}

static int take_size(const struct bench_flag *flag, const char *value, int64_t *size_out)
{
    if (kolo_size_parse(value, size_out) && *size_out >= 1)
        return BENCH_GO_ON;
    return bad(flag, value, "a size in bytes, or with K, M or G, such as 4, 64K or 1M");
}

TAKE(begin)
{
    OPTIONS;
    return take_size(flag, value, &o->begin_bytes);
}

TAKE(end)
{
    OPTIONS;
    return take_size(flag, value, &o->end_bytes);
}

TAKE(factor)
{
    OPTIONS;
    return bench_parse_integer(value, 2, 1 << 20, &o->factor)
               ? BENCH_GO_ON
               : bad(flag, value, "an integer from 2 to 1048576");
}

TAKE(sizes)
{
    OPTIONS;
    return bench_parse_sizes(value, o->sizes, &o->nsizes)
               ? BENCH_GO_ON
               : bad(flag, value,
                     "up to 1024 sizes, in bytes or with K, M or G, such as 4,64K,1M or 4:64M:x4 "
                     "or 1M:4M:+1M");
}

int bench_take_dtype(const char *value, kolo_dtype *dtype_out)
{
    int dtype = choose("--dtype", value, dtype_names);
    *dtype_out = (kolo_dtype)dtype;
    return dtype < 0 ? 2 : BENCH_GO_ON;
}

int bench_take_redop(const char *value, kolo_redop *op_out)
{
    int op = choose("--op", value, redop_names);
    *op_out = (kolo_redop)op;
    return op < 0 ? 2 : BENCH_GO_ON;
}

/* An operation whose calls are the same on all ranks, so that one answer holds for all of them. */
static bool has_plans(const struct bench_operation *operation)
{
    return bench_collective_of(operation) != KOLO_COLLECTIVES && !operation->uneven;
}

static void planned_names(struct names *names)
{
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        if (has_plans(operation))
            add_name(names, operation->name);
}

int bench_take_planned(const char *word, const struct bench_operation **operation_out)
{
    if (choose("plan", word, planned_names) < 0)
        return 2;
    *operation_out = bench_operations;
    while (strcmp((*operation_out)->name, word) != 0)
        ++*operation_out;
    return BENCH_GO_ON;
}

static void add_plans(struct names *names, enum kolo_collective collective)
{
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        if (plan->collective == collective)
            add_name(names, plan->name);
}

int bench_check_plan(const struct bench_operation *operation, const char *plan)
{
    struct names names = {{NULL}, ""};
    enum kolo_collective collective = bench_collective_of(operation);
    char expected[sizeof names.joined + 64];
    add_name(&names, "auto");
    if (collective != KOLO_COLLECTIVES)
        add_plans(&names, collective);
    for (int i = 0; names.list[i]; i++)
        if (strcmp(names.list[i], plan) == 0)
            return BENCH_GO_ON;
    snprintf(expected, sizeof expected, "one that %s has: %s", operation->name, names.joined);
    return bench_refuse("--plan", plan, expected, bench_nearest(plan, names.list));
}

TAKE(dtype)
{
    OPTIONS;
    return bench_take_dtype(value, &o->dtype);
}

TAKE(op)
{
    OPTIONS;
    return bench_take_redop(value, &o->op);
}

static int take_power(const struct bench_flag *flag, const char *value, double *factor_out)
{
    static const double powers[] = {0.0625, 0.125, 0.25, 0.5, 1, 2, 4};
    char *end;
    *factor_out = strtod(value, &end);
    for (size_t i = 0; *end == '\0' && i < sizeof powers / sizeof *powers; i++)
        if (*factor_out >= powers[i] && *factor_out <= powers[i])
            return BENCH_GO_ON;
    return bad(flag, value,
               "0.0625, 0.125, 0.25, 0.5, 2 or 4: with a power of two --check is exact");
}

TAKE(prescale)
{
    OPTIONS;
    return take_power(flag, value, &o->prescale);
}

TAKE(postscale)
{
    OPTIONS;
    return take_power(flag, value, &o->postscale);
}

TAKE(root)
{
    OPTIONS;
    int64_t root = BENCH_ROOT_ROTATES;
    if (strcmp(value, "rotate") != 0 && !bench_parse_integer(value, 0, 1 << 20, &root))
        return bad(flag, value, "a rank, or rotate");
    o->root = (int)root;
    return BENCH_GO_ON;
}

TAKE(peer)
{
    OPTIONS;
    int64_t peer;
    if (!bench_parse_integer(value, 1, 1 << 20, &peer))
        return bad(flag, value, "a rank from 1");
    o->peer = (int)peer;
    return BENCH_GO_ON;
}

TAKE(iterations)
{
    OPTIONS;
    return bench_parse_integer(value, 0, 1000000000, &o->iterations)
               ? BENCH_GO_ON
               : bad(flag, value, "an integer from 0 to 1000000000");
}

TAKE(time)
{
    OPTIONS;
    return bench_parse_time(value, &o->time_ns) ? BENCH_GO_ON
                                                : bad(flag, value, "a time such as 0.2s or 50ms");
}

TAKE(warmup)
{
    OPTIONS;
    return bench_parse_integer(value, 0, 1000000000, &o->warmup)
               ? BENCH_GO_ON
               : bad(flag, value, "an integer from 0 to 1000000000");
}

TAKE(threads)
{
    OPTIONS;
    int64_t threads;
    if (!bench_parse_integer(value, 1, 4096, &threads))
        return bad(flag, value, "an integer from 1 to 4096");
    o->threads = (int)threads;
    return BENCH_GO_ON;
}

TAKE(check)
{
    OPTIONS;
    o->check = true;
    return BENCH_GO_ON;
}

TAKE(in_place)
{
    OPTIONS;
    o->in_place = true;
    return BENCH_GO_ON;
}

TAKE(barrier)
{
    OPTIONS;
    o->barrier = true;
    return BENCH_GO_ON;
}

TAKE(async)
{
    OPTIONS;
    o->pace = BENCH_ASYNC;
    return BENCH_GO_ON;
}

TAKE(stream)
{
    OPTIONS;
    o->stream = true;
    return BENCH_GO_ON;
}

TAKE(quiet)
{
    OPTIONS;
    o->quiet = true;
    return BENCH_GO_ON;
}

static void memory_names(struct names *names)
{
    for (int memory = BENCH_KOLO; memory < BENCH_MEMORIES; memory++)
        add_name(names, bench_memory_text((enum bench_memory)memory));
}

TAKE(memory)
{
    OPTIONS;
    int kind = choose("--memory", value, memory_names);
    o->memory = (enum bench_memory)kind;
    return kind < 0 ? 2 : BENCH_GO_ON;
}

TAKE(json)
{
    OPTIONS;
    return bench_take_file(flag, value, &o->json);
}

TAKE(plot)
{
    OPTIONS;
    return bench_take_file(flag, value, &o->plot);
}

TAKE(limits)
{
    OPTIONS;
    o->limits = true;
    return BENCH_GO_ON;
}

TAKE(save_profile)
{
    OPTIONS;
    (void)o;
    return bad(flag, value, "kolobench profile -o FILE, which measures all of these figures");
}

TAKE(csv)
{
    OPTIONS;
    return bench_take_file(flag, value, &o->csv);
}

/* Stores "NAME=value" for kolo_init, which checks the value. */
static int add_setting(const struct bench_flag *flag, struct bench_options *options,
                       const char *name, const char *value)
{
    size_t at = 0;
    while (options->settings[at])
        at++;
    if (at + 1 >= BENCH_SETTINGS_MAX)
        return bad(flag, value, "each option once");
    size_t bytes = strlen(name) + strlen(value) + 2;
    char *setting = kolo_calloc(bytes, 1);
    if (!setting)
        return bad(flag, value, "enough memory");
    snprintf(setting, bytes, "%s=%s", name, value);
    options->settings[at] = setting;
    return BENCH_GO_ON;
}

TAKE(transport)
{
    OPTIONS;
    return add_setting(flag, o, "KOLO_TRANSPORT", value);
}

TAKE(plan)
{
    OPTIONS;
    o->plan = value;
    return add_setting(flag, o, "KOLO_PLAN", value);
}

TAKE(deterministic)
{
    OPTIONS;
    return add_setting(flag, o, "KOLO_DETERMINISTIC", "1");
}

TAKE(version)
{
    OPTIONS;
    (void)o;
    if (job_speaks())
        printf("kolobench %s\n", kolo_version());
    return 0;
}

TAKE(help);

static const struct bench_flag flags[] = {
    {'b', "begin", "SIZE", "smallest size in bytes, such as 4, 64K, 1M [4]", take_begin},
    {'e', "end", "SIZE", "largest size [64M]", take_end},
    {'f', "factor", "N", "factor between sizes [4]", take_factor},
    {'s', "sizes", "LIST", "these sizes instead, such as 4,64K,1M or 4:64M:x4 or 1M:4M:+1M",
     take_sizes},
    {'d', "dtype", "TYPE",
     "int8 ... int64, uint8 ... uint64, float16, bfloat16, float32, float64 [float32]", take_dtype},
    {'o', "op", "OP", "sum, min, max, prod, average, band, bor, bxor, land, lor, lxor [sum]",
     take_op},
    {0, "prescale", "F", "multiply the input of reductions of floats by F, such as 0.5 [1]",
     take_prescale},
    {0, "postscale", "F", "multiply their result by F [1]", take_postscale},
    {0, "root", "RANK", "root of rooted collectives; rotate: another one in each call [0]",
     take_root},
    {0, "peer", "RANK", "the rank that pingpong and bandwidth use beside rank 0 [the last]",
     take_peer},
    {'n', "iterations", "N", "timed calls per size; 0: as many as fit into --time [0]",
     take_iterations},
    {'t', "time", "TIME", "how long each size is measured [0.2s]", take_time},
    {'w', "warmup", "N", "untimed calls before each size [2]", take_warmup},
    {0, "barrier", NULL, "call a barrier before each sample", take_barrier},
    {'c', "check", NULL, "compare every element of one more call with a reference", take_check},
    {0, "in-place", NULL, "use one buffer to send and receive, where the collective supports it",
     take_in_place},
    {0, "memory", "KIND",
     "kolo (kolo_alloc), user (plain), pinned (kolo_alloc, locked for CUDA), device "
     "(kolo_alloc_device), cuda (cuMemAlloc) or managed (cuMemAllocManaged) [kolo]",
     take_memory},
    {0, "async", NULL, "start each call and wait for its request", take_async},
    {0, "stream", NULL, "pass a CUDA stream to each call (needs --memory device, cuda or managed)",
     take_stream},
    {0, "transport", "NAME", "use only inproc, shm, rdma or tcp", take_transport},
    {0, "plan", "NAME", "use only this plan; kolobench plan lists those of a collective",
     take_plan},
    {0, "deterministic", NULL, "combine operands in the order of ranks (KOLO_DETERMINISTIC=1)",
     take_deterministic},
    {0, "threads", "N", "run N ranks as threads of this process, without kolorun", take_threads},
    {0, "limits", NULL,
     "measure the machine, lower bounds of the collectives [allreduce], and kolo beside them",
     take_limits},
    {0, "save-profile", "FILE", NULL, take_save_profile},
    {0, "json", "FILE", "also write machine facts and rows as JSON", take_json},
    {0, "csv", "FILE", "also write the rows as CSV", take_csv},
    {0, "plot", "FILE", "also draw time and busbw over size, as SVG", take_plot},
    {'q', "quiet", NULL, "print no progress line on a terminal", take_quiet},
    {'h', "help", NULL, "print this text", take_help},
    {0, "version", NULL, "print the version", take_version},
    {0},
};

static int take_help(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag, (void)value, (void)target;
    if (!job_speaks())
        return 0;
    printf(
        "usage: kolorun -np N kolobench COLLECTIVE... [options]\n"
        "       kolobench COLLECTIVE... --threads N [options]\n"
        "       kolorun -np N kolobench --limits [COLLECTIVE...] [options]\n"
        "       kolorun -np N kolobench diagnose [options]\n"
        "       kolobench plot FILE... -o FILE.svg\n"
        "       kolobench plan COLLECTIVE -np N --size SIZE\n"
        "       kolobench profile\n"
        "Measures collectives over a range of sizes, and prints time, algbw and busbw as "
        "nccl-tests defines\nthem. diagnose finds slow hosts and links, plot draws results, plan "
        "shows which algorithm a call\nuses, profile measures the figures by which it is chosen; "
        "each has a --help.\n\n"
        "collectives: all");
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        printf(", %s", operation->name);
    printf("\n\n");
    bench_flags_help(flags, stdout);
    return 0;
}

/* ---- all of it ---- */

static kolo_status append(struct bench_options *options, const struct bench_operation *operation)
{
    const struct bench_operation **grown =
        kolo_calloc(options->noperations + 2, sizeof *options->operations);
    if (!grown)
        return KOLO_ERR_NO_MEMORY;
    if (options->noperations)
        memcpy(grown, options->operations, options->noperations * sizeof *grown);
    grown[options->noperations++] = operation;
    kolo_free_memory((void *)(uintptr_t)options->operations);
    options->operations = grown;
    return KOLO_OK;
}

static int take_word(const char *word, void *target)
{
    struct bench_options *options = target;
    int place = choose("collective", word, operation_names);
    if (place < 0)
        return 2;
    options->has_all |= place == 0;
    for (int i = 0; bench_operations[i].name; i++)
        if ((place == 0 || place == i + 1) && append(options, &bench_operations[i]) != KOLO_OK)
            return bench_refuse("collective", word, "more memory", NULL);
    return BENCH_GO_ON;
}

static bool has_reduction(const struct bench_options *options)
{
    for (size_t i = 0; i < options->noperations; i++)
        if (options->operations[i]->reduces)
            return true;
    return false;
}

/* "all" scales its reductions. */
static int check_scaling(const struct bench_options *options)
{
    const char *option = bench_scales(options->prescale) ? "--prescale" : "--postscale";
    char what[64];
    if (!bench_scales(options->prescale) && !bench_scales(options->postscale))
        return BENCH_GO_ON;
    if (!bench_is_float(options->dtype)) {
        snprintf(what, sizeof what, "%s with --dtype", option);
        return bench_refuse(what, kolo_dtype_text(options->dtype), "a type of floats", NULL);
    }
    if (options->op == KOLO_PROD) {
        snprintf(what, sizeof what, "%s with --op", option);
        return bench_refuse(what, kolo_redop_text(options->op), "sum, average, min or max", NULL);
    }
    return options->limits || has_reduction(options)
               ? BENCH_GO_ON
               : bench_refuse(option, options->operations[0]->name,
                              "a reduction, such as allreduce", NULL);
}

int bench_check_redop(kolo_dtype dtype, kolo_redop op)
{
    return !bench_is_float(dtype) || op <= KOLO_AVERAGE
               ? BENCH_GO_ON
               : bench_refuse("--op", kolo_redop_text(op),
                              "an operator that floats have, or --dtype with an integer type",
                              NULL);
}

static int check_ranges(const struct bench_options *options)
{
    char text[64];
    snprintf(text, sizeof text, "%lld", (long long)options->begin_bytes);
    if (!options->noperations && !options->limits)
        return bench_refuse("collective", "(none)", "at least one, such as allreduce", NULL);
    if (bench_check_redop(options->dtype, options->op) != BENCH_GO_ON)
        return 2;
    if (options->begin_bytes > options->end_bytes)
        return bench_refuse("--begin", text, "at least 1 and at most --end", NULL);
    for (size_t i = 0; options->plan && !options->has_all && i < options->noperations; i++)
        if (bench_check_plan(options->operations[i], options->plan) != BENCH_GO_ON)
            return 2;
    return check_scaling(options);
}

/* --limits always measures the same things: it takes no option that would change them, and has no
 * rows for a CSV. */
static int check_limits(const struct bench_options *o)
{
    const struct {
        const char *option;
        bool is_set;
    } others[] = {
        {"--dtype", o->dtype != KOLO_FLOAT32},
        {"--op", o->op != KOLO_SUM},
        {"--prescale", bench_scales(o->prescale)},
        {"--postscale", bench_scales(o->postscale)},
        {"--root", o->root != 0},
        {"--peer", o->peer >= 0},
        {"--iterations", o->iterations != 0},
        {"--warmup", o->warmup != warmup_calls},
        {"--barrier", o->barrier},
        {"--check", o->check},
        {"--in-place", o->in_place},
        {"--memory", o->memory != BENCH_KOLO},
        {"--async", o->pace == BENCH_ASYNC},
        {"--stream", o->stream},
    };
    if (o->csv)
        return bench_refuse("--csv", o->csv, "--json or --plot, which --limits writes", NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_set)
            return bench_refuse(others[i].option, "",
                                "to be left out with --limits, which times blocking float32 sums, "
                                "out of place, over both kinds of memory",
                                NULL);
    for (size_t i = 0; !o->has_all && i < o->noperations; i++)
        if (!bench_has_limit(o->operations[i]->name))
            return bench_refuse("--limits", o->operations[i]->name,
                                "a collective with a bare loop: one of all ranks, and not a v form",
                                NULL);
    return BENCH_GO_ON;
}

/* Messages take no place in a stream: "all" means all but them. */
static int check_stream(struct bench_options *o)
{
    size_t kept = 0;
    if (!bench_is_device(o->memory))
        return bench_refuse("--stream with --memory", bench_memory_text(o->memory),
                            "--memory device, cuda or managed, whose buffers the stream fills",
                            NULL);
    for (size_t i = 0; i < o->noperations; i++) {
        if (bench_collective_of(o->operations[i]) != KOLO_COLLECTIVES)
            o->operations[kept++] = o->operations[i];
        else if (!o->has_all)
            return bench_refuse("--stream", o->operations[i]->name,
                                "a collective, which is a call of all ranks", NULL);
    }
    o->noperations = kept;
    o->operations[kept] = NULL;
    return BENCH_GO_ON;
}

int bench_options_parse(char *const *argv, struct bench_options *options)
{
    *options = (struct bench_options){.begin_bytes = 4,
                                      .end_bytes = 64 << 20,
                                      .factor = 4,
                                      .dtype = KOLO_FLOAT32,
                                      .op = KOLO_SUM,
                                      .prescale = 1,
                                      .postscale = 1,
                                      .peer = -1,
                                      .time_ns = 200000000,
                                      .warmup = warmup_calls};
    int status = bench_flags_parse(flags, argv, options, take_word);
    if (status == BENCH_GO_ON)
        status = check_ranges(options);
    if (status == BENCH_GO_ON && options->limits)
        status = check_limits(options);
    else if (status == BENCH_GO_ON && options->stream)
        status = check_stream(options);
    if (status == BENCH_GO_ON && options->limits && !options->noperations &&
        append(options, bench_operation_find("allreduce")) != KOLO_OK)
        status = bench_refuse("--limits", "", "more memory", NULL);
    return status;
}

int64_t bench_next_size(const struct bench_options *options, int64_t bytes, size_t *at)
{
    if (options->nsizes)
        return *at < options->nsizes ? options->sizes[(*at)++] : 0;
    if (bytes == 0)
        return options->begin_bytes;
    return bytes > options->end_bytes / options->factor ? 0 : bytes * options->factor;
}

void bench_options_fini(struct bench_options *options)
{
    for (const char **setting = options->settings; *setting; setting++)
        kolo_free_memory((void *)(uintptr_t)*setting);
    kolo_free_memory((void *)(uintptr_t)options->operations);
}
