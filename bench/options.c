// SPDX-License-Identifier: Apache-2.0
// The command line of kolobench. Every bad value is one line that names the option, the value and
// what was expected.
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "bench/bench.h"

enum {
    OPT_CHECK = 256,
    OPT_IN_PLACE,
    OPT_JSON,
    OPT_TRANSPORT,
    OPT_PLAN,
    OPT_THREADS,
    OPT_MEMORY,
    OPT_ROOT,
    OPT_VERSION
};

static const struct option table[] = {{"begin", required_argument, NULL, 'b'},
                                      {"end", required_argument, NULL, 'e'},
                                      {"factor", required_argument, NULL, 'f'},
                                      {"dtype", required_argument, NULL, 'd'},
                                      {"op", required_argument, NULL, 'o'},
                                      {"iterations", required_argument, NULL, 'n'},
                                      {"warmup", required_argument, NULL, 'w'},
                                      {"check", no_argument, NULL, OPT_CHECK},
                                      {"in-place", no_argument, NULL, OPT_IN_PLACE},
                                      {"json", required_argument, NULL, OPT_JSON},
                                      {"transport", required_argument, NULL, OPT_TRANSPORT},
                                      {"plan", required_argument, NULL, OPT_PLAN},
                                      {"threads", required_argument, NULL, OPT_THREADS},
                                      {"memory", required_argument, NULL, OPT_MEMORY},
                                      {"root", required_argument, NULL, OPT_ROOT},
                                      {"version", no_argument, NULL, OPT_VERSION},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

bool bench_speaks(void)
{
    const char *rank = kolo_environment("KOLO_RANK");
    return !rank || strcmp(rank, "0") == 0;
}

static int refuse(const char *what, const char *value, const char *expected)
{
    if (bench_speaks())
        fprintf(stderr, "kolobench: %s %s: expected %s; try --help\n", what, value, expected);
    return 2;
}

static int print_help(void)
{
    if (!bench_speaks())
        return 0;
    printf("usage: kolorun -np N kolobench COLLECTIVE... [options]\n"
           "       kolobench COLLECTIVE... --threads N [options]\n"
           "Measures collectives over a range of sizes; prints time, algbw and busbw as nccl-tests "
           "defines them.\n\n"
           "collectives: all");
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        printf(", %s", operation->name);
    printf(
        "\n\n"
        "  -b, --begin SIZE       smallest size in bytes, such as 4, 64K, 1M [4]\n"
        "  -e, --end SIZE         largest size [64M]\n"
        "  -f, --factor N         each size is the one before times N [4]\n"
        "  -d, --dtype TYPE       int8 ... int64, uint8, float16, bfloat16, float32, float64 "
        "[float32]\n"
        "  -o, --op OP            sum, min, max, prod, average [sum]\n"
        "      --root RANK        of rooted collectives [0]\n"
        "  -n, --iterations N     timed calls a size; 0: as many as fit into 0.2 s [0]\n"
        "  -w, --warmup N         calls before [2]\n"
        "      --check            compare every element of one more call with what must come out\n"
        "      --in-place         send and receive in one buffer\n"
        "      --memory KIND      kolo (kolo_alloc) or user (plain memory) [kolo]\n"
        "      --transport NAME   force inproc, shm or tcp for every pair\n"
        "      --plan NAME        force a plan where it fits\n"
        "      --threads N        ranks as threads of this process instead of kolorun's\n"
        "      --json FILE        also write machine facts and rows as JSON\n"
        "      --help, --version\n");
    return 0;
}

static bool parse_integer(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return false;
    *value_out = value;
    return true;
}

static bool parse_dtype(const char *text, kolo_dtype *dtype_out)
{
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        if (strcmp(text, kolo_dtype_text((kolo_dtype)dtype)) == 0) {
            *dtype_out = (kolo_dtype)dtype;
            return true;
        }
    return false;
}

static bool parse_redop(const char *text, kolo_redop *op_out)
{
    for (int op = 0; op < KOLO_REDOPS; op++)
        if (strcmp(text, kolo_redop_text((kolo_redop)op)) == 0) {
            *op_out = (kolo_redop)op;
            return true;
        }
    return false;
}

/* Remembers "NAME=value" for kolo_init, which checks the value. */
static int add_setting(struct bench_options *options, const char *name, const char *value)
{
    size_t at = 0;
    while (options->settings[at])
        at++;
    if (at + 1 >= sizeof options->settings / sizeof *options->settings)
        return refuse(name, value, "each option once");
    size_t bytes = strlen(name) + strlen(value) + 2;
    char *setting = kolo_calloc(bytes, 1);
    if (!setting)
        return refuse(name, value, "enough memory");
    snprintf(setting, bytes, "%s=%s", name, value);
    options->settings[at] = setting;
    return -1;
}

static int parse_number(int option, struct bench_options *o)
{
    int64_t root, threads;
    switch (option) {
    case 'b':
        return kolo_size_parse(optarg, &o->begin_bytes)
                   ? -1
                   : refuse("--begin", optarg, "a size such as 4, 64K or 1M");
    case 'e':
        return kolo_size_parse(optarg, &o->end_bytes)
                   ? -1
                   : refuse("--end", optarg, "a size such as 4, 64K or 1M");
    case 'f':
        return parse_integer(optarg, 2, 1 << 20, &o->factor)
                   ? -1
                   : refuse("--factor", optarg, "an integer from 2");
    case 'n':
        return parse_integer(optarg, 0, 1000000000, &o->iterations)
                   ? -1
                   : refuse("--iterations", optarg, "an integer from 0");
    case 'w':
        return parse_integer(optarg, 0, 1000000000, &o->warmup)
                   ? -1
                   : refuse("--warmup", optarg, "an integer from 0");
    case OPT_ROOT:
        if (!parse_integer(optarg, 0, 1 << 20, &root))
            return refuse("--root", optarg, "a rank");
        o->root = (int)root;
        return -1;
    default:
        if (!parse_integer(optarg, 1, 4096, &threads))
            return refuse("--threads", optarg, "an integer from 1 to 4096");
        o->threads = (int)threads;
        return -1;
    }
}

static int parse_option(int option, char **argv, struct bench_options *o)
{
    switch (option) {
    case 'd':
        return parse_dtype(optarg, &o->dtype)
                   ? -1
                   : refuse("--dtype", optarg, "a type such as float32 or int8");
    case 'o':
        return parse_redop(optarg, &o->op)
                   ? -1
                   : refuse("--op", optarg, "sum, min, max, prod or average");
    case OPT_CHECK:
        o->check = true;
        return -1;
    case OPT_IN_PLACE:
        o->in_place = true;
        return -1;
    case OPT_JSON:
        o->json = optarg;
        return -1;
    case OPT_TRANSPORT:
        return add_setting(o, "KOLO_TRANSPORT", optarg);
    case OPT_PLAN:
        return add_setting(o, "KOLO_PLAN", optarg);
    case OPT_MEMORY:
        o->user_memory = strcmp(optarg, "user") == 0;
        return o->user_memory || strcmp(optarg, "kolo") == 0
                   ? -1
                   : refuse("--memory", optarg, "kolo or user");
    case OPT_VERSION:
        if (bench_speaks())
            printf("kolobench %s\n", kolo_version());
        return 0;
    case 'h':
        return print_help();
    case ':':
        return refuse(argv[optind - 1], "", "a value");
    case '?':
        return refuse("option", argv[optind - 1], "one of kolobench's");
    default:
        return parse_number(option, o);
    }
}

static int add_operations(int argc, char **argv, struct bench_options *options)
{
    size_t known = 0, added = 0;
    while (bench_operations[known].name)
        known++;
    options->operations = kolo_calloc(known + (size_t)argc + 1, sizeof *options->operations);
    if (!options->operations)
        return refuse("memory", "", "more of it");
    for (int i = optind; i < argc; i++) {
        const struct bench_operation *operation = bench_operation_find(argv[i]);
        if (operation)
            options->operations[added++] = operation;
        else if (strcmp(argv[i], "all") != 0)
            return refuse("collective", argv[i], "all, or one that --help lists");
        for (size_t k = 0; !operation && k < known && added < known + (size_t)argc; k++)
            options->operations[added++] = &bench_operations[k];
    }
    return added ? -1 : refuse("collective", "(none)", "at least one, such as allreduce");
}

static int check_ranges(const struct bench_options *options)
{
    char text[64];
    snprintf(text, sizeof text, "%lld", (long long)options->begin_bytes);
    if (options->begin_bytes < 1 || options->begin_bytes > options->end_bytes)
        return refuse("--begin", text, "at least 1 and at most --end");
    return -1;
}

int bench_options_parse(int argc, char **argv, struct bench_options *options)
{
    *options = (struct bench_options){.begin_bytes = 4,
                                      .end_bytes = 64 << 20,
                                      .factor = 4,
                                      .dtype = KOLO_FLOAT32,
                                      .op = KOLO_SUM,
                                      .warmup = 2};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":b:e:f:d:o:n:w:h", table, NULL)) != -1;) {
        int status = parse_option(option, argv, options);
        if (status >= 0)
            return status;
    }
    int status = add_operations(argc, argv, options);
    return status >= 0 ? status : check_ranges(options);
}
