// SPDX-License-Identifier: Apache-2.0
// Prints the table and the findings, and writes both as JSON.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <jansson.h>

#include <kolo/version.h>

#include "launcher/doctor.h"

enum { NAMES_SHOWN = 4, HOSTS_SHOWN = 64, SHORT_BYTES = 24 };

/* ---- the table ---- */

static void print_size(int64_t bytes, char *text, size_t capacity)
{
    double gib = (double)bytes / (1 << 30);
    if (bytes < 0)
        snprintf(text, capacity, "-");
    else
        snprintf(text, capacity, gib < 10 ? "%.1fG" : "%.0fG", gib);
}

static void print_clock(const struct kolo_checkup *host, char *text, size_t capacity)
{
    double ms = (double)host->clock_offset_ns / 1e6;
    if (!host->has_clock)
        snprintf(text, capacity, "-");
    else if (host->is_here || host->is_launcher)
        snprintf(text, capacity, "this");
    else if (fabs(ms) * 1e6 <= (double)host->clock_doubt_ns)
        snprintf(text, capacity, "same");
    else if (fabs(ms) < 1000)
        snprintf(text, capacity, "%+.0f ms", ms);
    else
        snprintf(text, capacity, "%+.1f s", ms / 1000);
}

/* The backends that work, as far as users care: "shm tcp rdma cuda". */
static void print_backends(const struct kolo_checkup *host, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < host->facts.backend_count && used < capacity; i++) {
        const struct kolo_fact_backend *backend = &host->facts.backends[i];
        bool is_shown =
            backend->works &&
            ((strcmp(backend->kind, "transport") == 0 && strcmp(backend->name, "inproc") != 0) ||
             (strcmp(backend->kind, "memory") == 0 &&
              (strcmp(backend->name, "cma") == 0 || strcmp(backend->name, "cuda") == 0)));
        int put = is_shown ? snprintf(text + used, capacity - used, "%s%s", used ? " " : "",
                                      backend->name)
                           : 0;
        used += put > 0 ? (size_t)put : 0;
    }
}

static void print_row(const struct kolo_checkup *host, int width, FILE *out)
{
    char memory[16], clock[24], what[96], ssh[16], cpus[32], load[16];
    const int64_t *number = host->facts.number;
    int64_t quota = number[KOLO_FACT_quota_milli];
    print_size(number[KOLO_FACT_available_bytes], memory, sizeof memory);
    print_clock(host, clock, sizeof clock);
    print_backends(host, what, sizeof what);
    snprintf(ssh, sizeof ssh, host->is_here || host->is_launcher ? "-" : "%.0f ms", host->reach_ms);
    snprintf(cpus, sizeof cpus,
             number[KOLO_FACT_cpus] < 0 ? "-"
             : quota > 0                ? "%" PRId64 " (%.2g)"
                                        : "%" PRId64,
             number[KOLO_FACT_cpus], (double)quota / 1000);
    snprintf(load, sizeof load, number[KOLO_FACT_load_milli] < 0 ? "-" : "%.1f",
             (double)number[KOLO_FACT_load_milli] / 1000);
    if (host->has_facts)
        fprintf(out, "%-*s %5d %8s %9s %9s %5s %6s %4" PRId64 " %6zu  %s\n", width, host->name,
                host->ranks, ssh, clock, cpus, load, memory,
                number[KOLO_FACT_gpus] > 0 ? number[KOLO_FACT_gpus] : 0, host->facts.place_count,
                what);
    else
        fprintf(out, "%-*s %5d %s\n", width, host->name, host->ranks,
                host->unreached[0] ? "not reached" : "not examined");
}

static void print_table(const struct kolo_diagnosis *diagnosis, FILE *out)
{
    int width = 4;
    for (size_t i = 0; i < diagnosis->count; i++)
        if ((int)strlen(diagnosis->hosts[i].name) > width)
            width = (int)strlen(diagnosis->hosts[i].name);
    fprintf(out, "%-*s %5s %8s %9s %9s %5s %6s %4s %6s  %s\n", width, "host", "ranks", "ssh",
            "clock", "cpus", "load", "free", "gpus", "addrs", "works");
    for (size_t i = 0; i < diagnosis->count; i++)
        if (i < HOSTS_SHOWN || !diagnosis->hosts[i].has_facts)
            print_row(&diagnosis->hosts[i], width, out);
    if (diagnosis->count > HOSTS_SHOWN)
        fprintf(out, "(%d of %zu hosts, and those that were not examined; --json has all)\n",
                HOSTS_SHOWN, diagnosis->count);
}

/* Whether this is the transport rdma, or that the host's build left it out. */
static bool is_rdma(const struct kolo_fact_backend *backend)
{
    return strcmp(backend->name, "rdma") == 0 &&
           (strcmp(backend->kind, "transport") == 0 || strcmp(backend->kind, "left") == 0);
}

/* Prints "b: mlx5_0:1 (RoCE v2 10.0.0.2), mlx5_1:1 (...)", or why there is none. */
static void print_ports_of(const struct kolo_checkup *host, FILE *out)
{
    const char *separator = "";
    fprintf(out, "  %s: ", host->name);
    for (size_t i = 0; i < host->facts.backend_count; i++) {
        const struct kolo_fact_backend *backend = &host->facts.backends[i];
        if (strcmp(backend->kind, "port") == 0)
            fprintf(out, "%s%s (%s)", separator, backend->name, backend->why);
        else if (is_rdma(backend) && !backend->works)
            fprintf(out, "none: %s", backend->why);
        else
            continue;
        separator = ", ";
    }
    fprintf(out, "\n");
}

/* Prints the RDMA ports that ranks would take, if any host has one. */
static void print_ports(const struct kolo_diagnosis *diagnosis, FILE *out)
{
    bool has_any = false;
    for (size_t i = 0; i < diagnosis->count; i++)
        for (size_t j = 0; j < diagnosis->hosts[i].facts.backend_count; j++)
            has_any = has_any || (is_rdma(&diagnosis->hosts[i].facts.backends[j]) &&
                                  diagnosis->hosts[i].facts.backends[j].works);
    if (!has_any)
        return;
    fprintf(out, "RDMA ports that ranks would take (by their addresses; nothing is sent over "
                 "them):\n");
    for (size_t i = 0; i < diagnosis->count && i < HOSTS_SHOWN; i++)
        if (diagnosis->hosts[i].has_facts && !diagnosis->hosts[i].is_launcher)
            print_ports_of(&diagnosis->hosts[i], out);
}

/* ---- findings ---- */

static void print_finding(const struct kolo_diagnosis *diagnosis,
                          const struct kolo_finding *finding, FILE *out)
{
    fprintf(out, "%s: ", kolo_severity_name(finding->severity));
    for (size_t i = 0; i < finding->host_count && i < NAMES_SHOWN; i++)
        fprintf(out, "%s%s", i ? ", " : "", diagnosis->hosts[finding->hosts[i]].name);
    if (finding->host_count > NAMES_SHOWN)
        fprintf(out, " and %zu more", finding->host_count - NAMES_SHOWN);
    fprintf(out, "%s%s\n", finding->host_count ? ": " : "", finding->text);
}

static size_t count_of(const struct kolo_findings *findings, enum kolo_severity severity)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->at[i].severity == severity;
    return count;
}

static size_t fine_paths(const struct kolo_fact_paths *paths)
{
    size_t count = 0;
    for (size_t i = 0; i < paths->count; i++)
        count += paths->at[i].end == KOLO_FACT_PATH_FINE;
    return count;
}

static size_t hosts_of_ranks(const struct kolo_diagnosis *diagnosis)
{
    size_t count = 0;
    for (size_t i = 0; i < diagnosis->count; i++)
        count += !diagnosis->hosts[i].is_launcher;
    return count;
}

void kolo_diagnosis_print(const struct kolo_diagnosis *diagnosis, FILE *out)
{
    const struct kolo_findings *findings = diagnosis->findings;
    size_t errors = count_of(findings, KOLO_SEVERITY_ERROR);
    size_t warnings = count_of(findings, KOLO_SEVERITY_WARNING);
    size_t hosts = hosts_of_ranks(diagnosis);
    char paths[96] = "";
    print_table(diagnosis, out);
    print_ports(diagnosis, out);
    for (size_t i = 0; i < findings->count; i++)
        print_finding(diagnosis, &findings->at[i], out);
    if (diagnosis->paths->count > 0)
        snprintf(paths, sizeof paths, ", %zu of %zu paths between them work",
                 fine_paths(diagnosis->paths), diagnosis->paths->count);
    fprintf(out, "%d rank%s on %zu host%s%s: ", diagnosis->size, diagnosis->size == 1 ? "" : "s",
            hosts, hosts == 1 ? "" : "s", paths);
    if (errors + warnings == 0)
        fprintf(out, "nothing to mend (%.1f s)\n", diagnosis->seconds);
    else
        fprintf(out, "%zu error%s, %zu warning%s (%.1f s)\n", errors, errors == 1 ? "" : "s",
                warnings, warnings == 1 ? "" : "s", diagnosis->seconds);
}

/* ---- JSON ---- */

/* Text from another host may be invalid UTF-8, which JSON does not allow: then each byte outside
 * ASCII becomes '?'. */
static json_t *words(const char *text)
{
    json_t *value = json_string(text);
    char copy[1280];
    if (value)
        return value;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(copy);
}

/* The object, unless anything in it is missing, for want of memory. */
static json_t *whole(json_t *object, int failed)
{
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *facts_object(const struct kolo_facts *facts)
{
    json_t *object = json_object(), *backends = json_array(), *places = json_array(),
           *others = json_array();
    int failed = 0;
    for (int i = 0; i < KOLO_FACT_NUMBERS_COUNT; i++)
        failed |= json_object_set_new(object, kolo_fact_number_name((enum kolo_fact_number)i),
                                      facts->number[i] < 0 ? json_null()
                                                           : json_integer(facts->number[i]));
    for (int i = 0; i < KOLO_FACT_TEXTS_COUNT; i++)
        failed |= json_object_set_new(object, kolo_fact_text_name((enum kolo_fact_text)i),
                                      words(facts->text[i]));
    for (size_t i = 0; i < facts->backend_count; i++) {
        const struct kolo_fact_backend *at = &facts->backends[i];
        failed |= json_array_append_new(
            backends, json_pack("{s:o, s:o, s:b, s:o}", "kind", words(at->kind), "name",
                                words(at->name), "works", (int)at->works, "why", words(at->why)));
    }
    for (size_t i = 0; i < facts->place_count; i++) {
        const struct kolo_fact_place *at = &facts->places[i];
        failed |= json_array_append_new(
            places,
            json_pack("{s:o, s:o, s:b, s:I, s:I}", "address", words(at->address), "interface",
                      words(at->interface), "hardware", (int)at->is_hardware, "speed_mbit",
                      (json_int_t)at->speed_mbit, "mtu", (json_int_t)at->mtu));
    }
    for (size_t i = 0; i < facts->other_count; i++) {
        const struct kolo_fact_other *at = &facts->others[i];
        failed |= json_array_append_new(
            others, json_pack("{s:I, s:b, s:o, s:o}", "pid", (json_int_t)at->pid, "watched",
                              (int)at->has_launcher, "age_s",
                              at->age_s < 0 ? json_null() : json_integer(at->age_s), "program",
                              words(at->program)));
    }
    failed |= json_object_set_new(object, "backends", backends);
    failed |= json_object_set_new(object, "places", places);
    failed |= json_object_set_new(object, "other_processes", others);
    return whole(object, failed);
}

static json_t *host_object(const struct kolo_checkup *host)
{
    json_t *object =
        json_pack("{s:o, s:i, s:b, s:b, s:b, s:f}", "name", words(host->name), "ranks", host->ranks,
                  "is_here", (int)host->is_here, "is_kolorun", (int)host->is_launcher,
                  "is_examined", (int)host->has_facts, "reach_ms", host->reach_ms);
    int failed = json_object_set_new(
        object, "clock_offset_ms",
        host->has_clock ? json_real((double)host->clock_offset_ns / 1e6) : json_null());
    failed |= json_object_set_new(object, "clock_doubt_ms",
                                  host->has_clock ? json_real((double)host->clock_doubt_ns / 1e6)
                                                  : json_null());
    failed |= json_object_set_new(object, "facts",
                                  host->has_facts ? facts_object(&host->facts) : json_null());
    return whole(object, failed);
}

static json_t *path_object(const struct kolo_fact_path *path, const struct kolo_checkup *hosts)
{
    const struct kolo_facts *there = &hosts[path->to].facts;
    const char *address =
        (size_t)path->place < there->place_count ? there->places[path->place].address : "";
    return json_pack("{s:o, s:o, s:o, s:s, s:I, s:o}", "from", words(hosts[path->from].name), "to",
                     words(hosts[path->to].name), "address", words(address), "end",
                     kolo_fact_path_end_name(path->end), "round_trip_us", (json_int_t)path->rtt_us,
                     "words", words(path->words));
}

static json_t *finding_object(const struct kolo_finding *finding, const struct kolo_checkup *hosts)
{
    json_t *names = json_array();
    int failed = 0;
    for (size_t i = 0; i < finding->host_count; i++)
        failed |= json_array_append_new(names, words(hosts[finding->hosts[i]].name));
    return whole(json_pack("{s:s, s:s, s:o, s:o}", "severity",
                           kolo_severity_name(finding->severity), "kind", finding->kind, "hosts",
                           names, "text", words(finding->text)),
                 failed);
}

kolo_status kolo_diagnosis_write(const struct kolo_diagnosis *diagnosis, FILE *out)
{
    json_t *hosts = json_array(), *paths = json_array(), *findings = json_array();
    int failed = 0;
    for (size_t i = 0; i < diagnosis->count; i++)
        failed |= json_array_append_new(hosts, host_object(&diagnosis->hosts[i]));
    for (size_t i = 0; i < diagnosis->paths->count; i++)
        if ((size_t)diagnosis->paths->at[i].to < diagnosis->count)
            failed |= json_array_append_new(
                paths, path_object(&diagnosis->paths->at[i], diagnosis->hosts));
    for (size_t i = 0; i < diagnosis->findings->count; i++)
        failed |= json_array_append_new(
            findings, finding_object(&diagnosis->findings->at[i], diagnosis->hosts));
    json_t *object =
        whole(json_pack("{s:s, s:i, s:o, s:o, s:o}", "kolorun", KOLO_VERSION, "ranks",
                        diagnosis->size, "hosts", hosts, "paths", paths, "findings", findings),
              failed);
    if (!object)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "--json: no memory for the report");
    errno = 0;
    bool is_written = json_dumpf(object, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
                      fputc('\n', out) != EOF && ferror(out) == 0;
    const int error = errno;
    json_decref(object);
    if (is_written)
        return KOLO_OK;
    return error == 0 ? kolo_fail(KOLO_ERR_SYSTEM, "--json could not be written")
                      : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "--json could not be written");
}
