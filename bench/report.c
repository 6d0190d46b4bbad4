// SPDX-License-Identifier: Apache-2.0
// What rank 0 says: the table in nccl-tests' columns, and one JSON object with the machine's facts
// and the rows. The JSON file is written beside its name and renamed, so it is whole or not there.
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "bench/bench.h"
#include "memory/reduce.h"

struct bench_report {
    const struct bench_options *options;
    json_t *root, *rows;
    FILE *json; /* NULL: not asked for */
    char beside[4096];
};

/* The rest of the first line of @p path that begins with @p key, after its colon. */
static void read_fact(const char *path, const char *key, char *text, size_t capacity)
{
    char line[512];
    snprintf(text, capacity, "unknown");
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || (*key && !colon))
            continue;
        const char *value = *key ? colon + 1 : line;
        value += strspn(value, " \t");
        snprintf(text, capacity, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file)
        fclose(file);
}

static json_t *machine_facts(struct kolo_comm *comm)
{
    char cpu[BENCH_TEXT_MAX], memory[BENCH_TEXT_MAX], congestion[BENCH_TEXT_MAX], now[32];
    struct kolo_info info = {.size = sizeof info};
    struct utsname name;
    time_t seconds = time(NULL);
    struct tm utc;
    if (uname(&name) != 0 || kolo_get_info(comm, &info) != KOLO_OK)
        return json_object();
    read_fact("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    read_fact("/proc/meminfo", "MemTotal", memory, sizeof memory);
    read_fact("/proc/sys/net/ipv4/tcp_congestion_control", "", congestion, sizeof congestion);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i}", "date", now, "host",
        info.host, "cpu", cpu, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory", memory,
        "kernel", name.release, "architecture", name.machine, "kolo", kolo_version(), "reduction",
        kolo_reduce_variant(0), "tcp_congestion_control", congestion, "transports", info.transports,
        "ranks", info.nranks, "ranks_on_this_host", info.local_nranks);
}

/* Before anything is measured, so that an unwritable place costs no measurement. */
static kolo_status open_json(struct bench_report *report)
{
    const char *path = report->options->json;
    if (!path)
        return KOLO_OK;
    int length =
        snprintf(report->beside, sizeof report->beside, "%s.tmp-%ld", path, (long)getpid());
    if (length >= (int)sizeof report->beside)
        return kolo_fail(KOLO_ERR_INVALID, "--json %s: the path is too long", path);
    report->json = fopen(report->beside, "wxe");
    if (!report->json)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "--json %s", path);
    return KOLO_OK;
}

kolo_status bench_report_open(const struct bench_options *options, struct kolo_comm *comm,
                              struct bench_report **report_out)
{
    struct bench_report *report = kolo_calloc(1, sizeof *report);
    if (!report)
        return KOLO_ERR_NO_MEMORY;
    report->options = options;
    report->root = json_object();
    report->rows = json_array();
    if (json_object_set_new(report->root, "machine", machine_facts(comm)) != 0 ||
        json_object_set_new(report->root, "rows", report->rows) != 0) {
        (void)bench_report_close(report, false);
        return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON report");
    }
    kolo_status status = open_json(report);
    if (status != KOLO_OK) {
        json_decref(report->root);
        kolo_free_memory(report);
        return status;
    }
    *report_out = report;
    return KOLO_OK;
}

void bench_report_header(struct bench_report *report, const struct bench_operation *operation)
{
    const struct bench_options *o = report->options;
    printf("# %s %s %s memory%s\n", operation->name, o->in_place ? "in place," : "out of place,",
           o->user_memory ? "user" : "kolo_alloc", o->check ? ", every element checked" : "");
    printf("#%11s %12s %9s %8s %6s %10s %8s %8s %6s  %s\n", "size", "count", "type", "redop",
           "root", "time", "algbw", "busbw", "errors", "transport/plan");
    printf("#%11s %12s %9s %8s %6s %10s %8s %8s %6s\n", "(B)", "(elements)", "", "", "", "(us)",
           "(GB/s)", "(GB/s)", "");
    fflush(stdout);
}

static void print_row(const struct bench_options *options, const struct bench_row *row)
{
    const struct bench_operation *operation = bench_operation_find(row->collective);
    char root[16] = "-", errors[24] = "-";
    if (operation->has_root)
        snprintf(root, sizeof root, "%d", options->root);
    if (row->errors >= 0)
        snprintf(errors, sizeof errors, "%lld", (long long)row->errors);
    printf("%12zu %12zu %9s %8s %6s %10.2f %8.2f %8.2f %6s  %s/%s\n", row->bytes, row->count,
           kolo_dtype_text(options->dtype), operation->reduces ? kolo_redop_text(options->op) : "-",
           root, row->time_us, row->algbw_gbps, row->busbw_gbps, errors, row->transport, row->plan);
    fflush(stdout);
}

kolo_status bench_report_row(struct bench_report *report, const struct bench_row *row)
{
    print_row(report->options, row);
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:o}", "collective",
        row->collective, "transport", row->transport, "plan", row->plan, "np", row->nranks, "bytes",
        (json_int_t)row->bytes, "count", (json_int_t)row->count, "dtype",
        kolo_dtype_text(report->options->dtype), "op", kolo_redop_text(report->options->op),
        "time_us", row->time_us, "algbw_gbps", row->algbw_gbps, "busbw_gbps", row->busbw_gbps,
        "errors", row->errors < 0 ? json_null() : json_integer(row->errors));
    if (!object || json_array_append_new(report->rows, object) != 0)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON report");
    return KOLO_OK;
}

/* Moves the finished file to its name; without @p keep, or where that fails, leaves nothing. */
static kolo_status finish_json(struct bench_report *report, bool keep)
{
    errno = 0;
    bool ok =
        keep &&
        json_dumpf(report->root, report->json, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) == 0 &&
        fputc('\n', report->json) != EOF;
    ok = fclose(report->json) == 0 && ok;
    if (ok && rename(report->beside, report->options->json) == 0)
        return KOLO_OK;
    int cause = errno;
    unlink(report->beside);
    return keep ? kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "--json %s", report->options->json)
                : KOLO_OK;
}

kolo_status bench_report_close(struct bench_report *report, bool keep)
{
    if (!report)
        return KOLO_OK;
    kolo_status status = report->json ? finish_json(report, keep) : KOLO_OK;
    json_decref(report->root);
    kolo_free_memory(report);
    return status;
}
