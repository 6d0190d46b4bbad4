// SPDX-License-Identifier: Apache-2.0
// Turns the lines of the referee into one table, and into JSON and a picture if asked for.
//
//   compare-report [--json FILE] [--svg FILE] [--markdown FILE] SAMPLES
//
// A figure is the median over the rounds of a side's batches at a point. A ratio is kolo's figure
// divided by another's, so less than one is better. misses() has the targets for the figures.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/report.h"

enum { LINE = 1024, FIELDS = 8, TUNED_FROM = 1 << 20 };

/* ---- reading ---- */

static void copy(char *to, size_t capacity, const char *text)
{
    snprintf(to, capacity, "%s", text);
}

static struct point *point_of(struct report *report, const char *channel, int nranks,
                              const char *collective, size_t bytes)
{
    for (size_t i = report->points_count; i-- > 0;) {
        struct point *point = &report->points[i];
        if (point->bytes == bytes && point->nranks == nranks &&
            strcmp(point->collective, collective) == 0 && strcmp(point->channel, channel) == 0)
            return point;
    }
    if (report->points_count == report->points_capacity) {
        report->points_capacity = report->points_capacity ? 2 * report->points_capacity : 64;
        report->points = realloc(report->points, report->points_capacity * sizeof *report->points);
        if (!report->points)
            exit(1);
    }
    struct point *point = &report->points[report->points_count++];
    memset(point, 0, sizeof *point);
    copy(point->channel, sizeof point->channel, channel);
    copy(point->collective, sizeof point->collective, collective);
    point->nranks = nranks;
    point->bytes = bytes;
    return point;
}

bool same_series(const struct point *a, const struct point *b)
{
    return a->nranks == b->nranks && strcmp(a->channel, b->channel) == 0 &&
           strcmp(a->collective, b->collective) == 0;
}

const struct time *find_time(const struct point *point, const char *side, bool own)
{
    for (int i = 0; i < point->times_count; i++)
        if (point->times[i].own == own && strcmp(point->times[i].side, side) == 0)
            return &point->times[i];
    return NULL;
}

static struct time *time_of(struct point *point, const char *side, const char *memory)
{
    bool own = strcmp(memory, "own") == 0;
    struct time *time = (struct time *)find_time(point, side, own);
    if (time || point->times_count == TIMES_MAX)
        return time ? time : &point->times[0];
    time = &point->times[point->times_count++];
    copy(time->side, sizeof time->side, side);
    time->own = own;
    return time;
}

static void note(struct report *report, const char *text)
{
    for (size_t i = 0; i < report->notes_count; i++)
        if (strcmp(report->notes[i], text) == 0)
            return;
    report->notes = realloc(report->notes, (report->notes_count + 1) * sizeof *report->notes);
    if (!report->notes)
        exit(1);
    copy(report->notes[report->notes_count++], NOTE, text);
}

static int split(char *line, char *fields[FIELDS])
{
    int count = 0;
    char *rest = line;
    line[strcspn(line, "\n")] = 0;
    while (rest && count < FIELDS)
        fields[count++] = strsep(&rest, "\t");
    return count;
}

static void read_line(struct report *report, char *line, char channel[WORD], int *nranks)
{
    char *field[FIELDS];
    int count = split(line, field);
    if (count == 3 && strcmp(field[0], "world") == 0) {
        copy(channel, WORD, field[1]);
        *nranks = (int)strtol(field[2], NULL, 10);
    } else if (count == 3 && strcmp(field[0], "meta") == 0 && report->metas_count < METAS_MAX) {
        copy(report->metas[report->metas_count][0], NOTE, field[1]);
        copy(report->metas[report->metas_count++][1], NOTE, field[2]);
    } else if (count == 2 && strcmp(field[0], "note") == 0) {
        note(report, field[1]);
    } else if (count == 3 && strcmp(field[0], "absent") == 0) {
        char text[NOTE];
        snprintf(text, sizeof text, "%.40s has no %.40s", field[2], field[1]);
        note(report, text);
    } else if (count >= 6) {
        struct point *point =
            point_of(report, channel, *nranks, field[1], (size_t)strtoull(field[2], NULL, 10));
        struct time *time = time_of(point, field[3], field[4]);
        if (strcmp(field[0], "failed") == 0)
            copy(time->failed, sizeof time->failed, field[5]);
        else if (count == 7 && time->samples_count < SAMPLES_MAX)
            time->samples[time->samples_count++] = strtod(field[6], NULL);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void take_medians(struct report *report)
{
    for (size_t i = 0; i < report->points_count; i++)
        for (int k = 0; k < report->points[i].times_count; k++) {
            struct time *time = &report->points[i].times[k];
            int n = time->samples_count;
            qsort(time->samples, (size_t)n, sizeof *time->samples, compare_doubles);
            if (n)
                time->us = (time->samples[(n - 1) / 2] + time->samples[n / 2]) / 2;
        }
}

static int read_all(struct report *report, const char *path)
{
    char line[LINE], channel[WORD] = "";
    int nranks = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "compare: %s: %s\n", path, strerror(errno));
        return -1;
    }
    while (fgets(line, sizeof line, file))
        read_line(report, line, channel, &nranks);
    fclose(file);
    take_medians(report);
    return 0;
}

/* ---- judging ---- */

static bool is_peer(const struct time *time, bool tuned)
{
    bool altered = strchr(time->side, '-') != NULL;
    return strcmp(time->side, "kolo") != 0 && strcmp(time->side, "bound") != 0 &&
           (tuned || !altered);
}

const struct time *best_peer(const struct point *point, bool tuned)
{
    const struct time *best = NULL;
    for (int i = 0; i < point->times_count; i++) {
        const struct time *time = &point->times[i];
        if (time->us > 0 && is_peer(time, tuned) && (!best || time->us < best->us))
            best = time;
    }
    return best;
}

/* Over shared memory there is one limit for each kind of memory. */
static const struct time *limit_of(const struct point *point, const struct time *kolo)
{
    bool shared = strcmp(point->channel, "shm") == 0;
    return find_time(point, "bound", shared && kolo->own);
}

static double ratio(const struct time *time, const struct time *to)
{
    return time && to && time->us > 0 && to->us > 0 ? time->us / to->us : 0;
}

static bool is_allreduce(const struct point *point)
{
    return strcmp(point->collective, "allreduce") == 0;
}

/* Whether kolo and the peers each use the congestion control that they use as installed. */
static bool is_mixed(const struct report *report)
{
    for (int i = 0; i < report->metas_count; i++)
        if (strcmp(report->metas[i][0], "congestion") == 0)
            return strncmp(report->metas[i][1], "system", strlen("system")) == 0;
    return false;
}

/* Whether its ranks communicate by TCP, on one host or on several. */
static bool goes_by_tcp(const struct point *point)
{
    return strcmp(point->channel, "tcp") == 0 || strcmp(point->channel, "net") == 0;
}

/* The targets: P against the best peer as installed, T against the best one tuned (from 1 MiB), L
 * against the limit (from 1 MiB), S over TCP with the system's congestion control (from 1 MiB). */
static void misses(const struct report *report, const struct point *point, const struct time *kolo,
                   char text[WORD])
{
    bool large = point->bytes >= TUNED_FROM, tcp = goes_by_tcp(point);
    double installed = ratio(kolo, best_peer(point, false));
    double tuned = ratio(kolo, best_peer(point, true));
    double limit = ratio(kolo, limit_of(point, kolo));
    double most_tuned = tcp ? 1.0 : kolo->own ? 0.25 : 0.75;
    size_t length = 0;
    if (kolo->failed[0])
        text[length++] = '!';
    if (installed > (is_allreduce(point) ? 1.0 : 1.1))
        text[length++] = 'P';
    if (large && is_allreduce(point) && tcp && is_mixed(report) && installed > 0.6)
        text[length++] = 'S';
    if (large && is_allreduce(point) && tuned > most_tuned)
        text[length++] = 'T';
    if (large && limit > 1 / 0.85)
        text[length++] = 'L';
    text[length] = 0;
}

/* ---- the table ---- */

const char *size_text(size_t bytes, char text[WORD])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(text, WORD, "%zu %s", bytes, units[unit]);
    return text;
}

static void print_us(const struct time *time, int width)
{
    if (!time || time->us <= 0)
        printf(" %*s", width, time && time->failed[0] ? "failed" : "-");
    else
        printf(" %*.*f", width, time->us < 100 ? 2 : time->us < 10000 ? 1 : 0, time->us);
}

static void print_ratio(double value)
{
    if (value > 0)
        printf(" %6.2f", value);
    else
        printf(" %6s", "-");
}

static void print_row(const struct report *report, const struct point *point,
                      const struct time *kolo)
{
    char size[WORD], missed[WORD];
    const struct time *installed = best_peer(point, false);
    const struct time *tuned = point->bytes >= TUNED_FROM ? best_peer(point, true) : NULL;
    const struct time *limit = limit_of(point, kolo);
    misses(report, point, kolo, missed);
    printf("%-4s %2d  %-14s %8s  %-4s", point->channel, point->nranks, point->collective,
           size_text(point->bytes, size), kolo->own ? "kolo" : "user");
    print_us(kolo, 10);
    print_us(installed, 10);
    printf(" %-8s", installed ? installed->side : "none");
    print_ratio(ratio(kolo, installed));
    print_us(tuned, 10);
    print_ratio(ratio(kolo, tuned));
    print_us(limit, 10);
    print_ratio(ratio(kolo, limit));
    printf("  %s\n", missed);
}

static const struct time *next_kolo(const struct point *point, int *at)
{
    while (*at < point->times_count) {
        const struct time *time = &point->times[(*at)++];
        if (strcmp(time->side, "kolo") == 0 && (time->us > 0 || time->failed[0]))
            return time;
    }
    return NULL;
}

static void print_failures(const struct report *report)
{
    char size[WORD];
    for (size_t i = 0; i < report->points_count; i++)
        for (int k = 0; k < report->points[i].times_count; k++) {
            const struct point *point = &report->points[i];
            const struct time *time = &point->times[k];
            if (time->failed[0])
                printf("failed: %s, %s, %s, %d ranks, %s: %s\n", time->side, point->collective,
                       point->channel, point->nranks, size_text(point->bytes, size), time->failed);
        }
}

static void print_table(const struct report *report)
{
    char missed[WORD];
    size_t rows = 0, met = 0;
    for (int i = 0; i < report->metas_count; i++)
        printf("%s: %s\n", report->metas[i][0], report->metas[i][1]);
    printf(
        "\nMicroseconds of one operation; ratios are kolo's time / the other's. Best: fastest peer "
        "as installed;\nbest tuned: fastest of all peers, from 1 MiB. Size: the whole vector. Last "
        "column, targets missed:\nP peer (1.0, other collectives 1.1), T tuned peer (allreduce "
        "from 1 MiB: shm 0.25 with kolo_alloc,\n0.75 with user memory; tcp and net 1.0), S "
        "allreduce over "
        "tcp as the system has it (0.6 from 1 MiB),\nL limit (1.18 "
        "from 1 MiB), ! failed.\n\n");
    printf("%-4s %2s  %-14s %8s  %-4s %10s %10s %-8s %6s %10s %6s %10s %6s  %s\n", "", "np",
           "collective", "size", "mem", "kolo", "best", "", "ratio", "best tuned", "ratio", "limit",
           "ratio", "missed");
    for (size_t i = 0; i < report->points_count; i++) {
        int at = 0;
        const struct time *kolo;
        while ((kolo = next_kolo(&report->points[i], &at)) != NULL) {
            print_row(report, &report->points[i], kolo);
            misses(report, &report->points[i], kolo, missed);
            rows++;
            met += missed[0] == 0;
        }
    }
    printf("\n%zu of %zu figures meet their targets\n", met, rows);
    print_failures(report);
    for (size_t i = 0; i < report->notes_count; i++)
        printf("note: %s\n", report->notes[i]);
}

/* ---- JSON ---- */

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_number(FILE *out, const char *name, double value, int digits)
{
    if (value > 0)
        fprintf(out, ", \"%s\": %.*f", name, digits, value);
    else
        fprintf(out, ", \"%s\": null", name);
}

static void put_row(FILE *out, const struct report *report, const struct point *point,
                    const struct time *kolo)
{
    const struct time *installed = best_peer(point, false), *tuned = best_peer(point, true);
    const struct time *limit = limit_of(point, kolo);
    const char *comma = "";
    char missed[WORD];
    misses(report, point, kolo, missed);
    fprintf(out,
            "{\"collective\": \"%s\", \"channel\": \"%s\", \"np\": %d, \"bytes\": %zu, "
            "\"memory\": \"%s\"",
            point->collective, point->channel, point->nranks, point->bytes,
            kolo->own ? "kolo" : "user");
    put_number(out, "kolo_us", kolo->us, 3);
    fprintf(out, ", \"peers\": {");
    for (int i = 0; i < point->times_count; i++) {
        const struct time *time = &point->times[i];
        if (!is_peer(time, true))
            continue;
        fprintf(out, "%s\"%s\": ", comma, time->side);
        if (time->us > 0)
            fprintf(out, "%.3f", time->us);
        else
            fprintf(out, "null");
        comma = ", ";
    }
    fprintf(out, "}");
    put_number(out, "ratio", ratio(kolo, installed), 4);
    put_number(out, "ratio_tuned", ratio(kolo, tuned), 4);
    put_number(out, "limit_us", limit ? limit->us : 0, 3);
    fprintf(out, ", \"missed\": \"%s\"}", missed);
}

static int put_json(const struct report *report, FILE *out)
{
    const char *comma = "";
    fprintf(out, "{\"meta\": {");
    for (int i = 0; i < report->metas_count; i++) {
        fprintf(out, "%s", comma);
        put_string(out, report->metas[i][0]);
        fprintf(out, ": ");
        put_string(out, report->metas[i][1]);
        comma = ", ";
    }
    fprintf(out, "},\n\"rows\": [");
    comma = "\n";
    for (size_t i = 0; i < report->points_count; i++) {
        int at = 0;
        const struct time *kolo;
        while ((kolo = next_kolo(&report->points[i], &at)) != NULL) {
            fprintf(out, "%s", comma);
            put_row(out, report, &report->points[i], kolo);
            comma = ",\n";
        }
    }
    fprintf(out, "\n],\n\"notes\": [");
    comma = "\n";
    for (size_t i = 0; i < report->notes_count; i++) {
        fprintf(out, "%s", comma);
        put_string(out, report->notes[i]);
        comma = ",\n";
    }
    fprintf(out, "\n]}\n");
    return ferror(out) ? -1 : 0;
}

/* ---- main ---- */

static int write_file(const struct report *report, const char *path,
                      int (*put)(const struct report *, FILE *))
{
    FILE *file = fopen(path, "we");
    int result = file ? put(report, file) : -1;
    if (file && fclose(file) != 0)
        result = -1;
    if (result != 0)
        fprintf(stderr, "compare: %s: %s\n", path, strerror(errno));
    return result;
}

int main(int argc, char **argv)
{
    static struct report report;
    const char *json = NULL, *svg = NULL, *markdown = NULL, *samples = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            svg = argv[++i];
        else if (strcmp(argv[i], "--markdown") == 0 && i + 1 < argc)
            markdown = argv[++i];
        else
            samples = argv[i];
    if (!samples) {
        fprintf(stderr, "usage: %s [--json FILE] [--svg FILE] [--markdown FILE] SAMPLES\n",
                argv[0]);
        return 2;
    }
    if (read_all(&report, samples) != 0)
        return 1;
    print_table(&report);
    int result = 0;
    if (json)
        result |= write_file(&report, json, put_json);
    if (svg)
        result |= write_file(&report, svg, plot);
    if (markdown)
        result |= write_file(&report, markdown, put_markdown);
    free(report.points);
    free(report.notes);
    return result == 0 ? 0 : 1;
}
