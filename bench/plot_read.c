// SPDX-License-Identifier: Apache-2.0
// Reads the files that are drawn: JSON of kolobench (rows and limits) and of bench/compare, and CSV
// of kolobench by the names of its columns. Refuses anything else where a number is needed.
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "bench/plot.h"

enum { LINE_MAX_BYTES = 4096, CSV_COLUMNS_MAX = 64 };

/* What a picture can show: the largest vector of a process, from a picosecond to thirty years. */
static const double most_bytes = 0x1p47, least_us = 1e-6, most_us = 1e15;

/** Whether it can be drawn without any scale or position overflowing. */
static bool is_sane(const struct plot_point *point)
{
    return point->bytes <= most_bytes && point->us >= least_us && point->us <= most_us &&
           point->gbps >= 0 && point->gbps <= most_bytes / least_us;
}

static kolo_status add(struct plot *plot, const char *file, const struct plot_point *point)
{
    if (point->bytes <= 0 || point->us <= 0) /* a barrier has no size */
        return KOLO_OK;
    if (!is_sane(point))
        return kolo_fail(KOLO_ERR_DATA,
                         "%s: %s of %g bytes in %g us, %g GB/s: expected at most %g bytes, and "
                         "from %g to %g us",
                         file, point->collective, point->bytes, point->us, point->gbps, most_bytes,
                         least_us, most_us);
    kolo_status status =
        kolo_grow((void **)&plot->points, &plot->capacity, plot->count + 1, sizeof *plot->points);
    if (status == KOLO_OK)
        plot->points[plot->count++] = *point;
    return status;
}

static void put(char *to, const char *text)
{
    snprintf(to, PLOT_NAME_MAX, "%s", text ? text : "");
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static double factor_of(const char *collective, double nranks)
{
    const struct bench_operation *operation = bench_operation_find(collective);
    const bool is_number = nranks >= 1 && nranks <= INT_MAX;
    return operation && is_number ? operation->bus_factor((int)nranks) : 1;
}

static void common(const json_t *row, const char *file, const char *channel,
                   struct plot_point *point)
{
    *point = (struct plot_point){.bytes = number(row, "bytes")};
    put(point->collective, text(row, "collective"));
    put(point->traits[PLOT_FILE], file);
    put(point->traits[PLOT_CHANNEL], text(row, channel));
    snprintf(point->traits[PLOT_RANKS], PLOT_NAME_MAX, "%.0f ranks", number(row, "np"));
    put(point->traits[PLOT_LIBRARY], "kolo");
}

static void set_time(struct plot_point *point, const json_t *row, double us)
{
    double factor = factor_of(point->collective, number(row, "np"));
    point->us = us;
    point->gbps = us > 0 ? point->bytes / us / 1e3 * factor : 0;
}

/* A row of bench/compare: kolo, each peer, and the limit. */
static kolo_status add_compared(struct plot *plot, const json_t *row, const char *file)
{
    struct plot_point point;
    const char *peer;
    json_t *us;
    kolo_status status;
    common(row, file, "channel", &point);
    put(point.traits[PLOT_MEMORY], text(row, "memory"));
    set_time(&point, row, number(row, "kolo_us"));
    KOLO_TRY(add(plot, file, &point));
    json_object_foreach(json_object_get(row, "peers"), peer, us)
    {
        put(point.traits[PLOT_LIBRARY], peer);
        set_time(&point, row, json_number_value(us));
        KOLO_TRY(add(plot, file, &point));
    }
    put(point.traits[PLOT_LIBRARY], "limit");
    point.limit = true;
    set_time(&point, row, number(row, "limit_us"));
    KOLO_TRY(add(plot, file, &point));
out:
    return status;
}

static kolo_status add_row(struct plot *plot, const json_t *row, const char *file)
{
    struct plot_point point;
    if (json_object_get(row, "kolo_us"))
        return add_compared(plot, row, file);
    common(row, file, "transport", &point);
    put(point.traits[PLOT_MEMORY], text(row, "memory"));
    set_time(&point, row, number(row, "time_us"));
    return add(plot, file, &point);
}

/* A row of kolobench --limits: the bound, and kolo's call if it was timed in turn with it. */
static kolo_status add_limit(struct plot *plot, const json_t *row, const char *file)
{
    struct plot_point point;
    kolo_status status = KOLO_OK;
    common(row, file, "channel", &point);
    if (strcmp(point.traits[PLOT_CHANNEL], "shm_user") == 0) {
        put(point.traits[PLOT_CHANNEL], "shm");
        put(point.traits[PLOT_MEMORY], "user");
    } else if (strcmp(point.traits[PLOT_CHANNEL], "shm") == 0) {
        put(point.traits[PLOT_MEMORY], "kolo");
    }
    set_time(&point, row, number(row, "kolo_us"));
    KOLO_TRY(add(plot, file, &point));
    put(point.traits[PLOT_FILE], "");
    put(point.traits[PLOT_LIBRARY], "limit");
    point.limit = true;
    set_time(&point, row, number(row, "time_us"));
    KOLO_TRY(add(plot, file, &point));
out:
    return status;
}

kolo_status plot_add_object(struct plot *plot, const json_t *object, const char *file)
{
    const json_t *rows = json_object_get(object, "rows"),
                 *limits = json_object_get(object, "limits");
    kolo_status status = KOLO_OK;
    if (!json_is_array(rows) && !json_is_array(limits))
        return kolo_fail(KOLO_ERR_DATA,
                         "%s: no array 'rows' or 'limits'; give a file of kolobench --json", file);
    for (size_t i = 0; status == KOLO_OK && i < json_array_size(rows); i++)
        status = add_row(plot, json_array_get(rows, i), file);
    for (size_t i = 0; status == KOLO_OK && i < json_array_size(limits); i++)
        status = add_limit(plot, json_array_get(limits, i), file);
    return status;
}

/* ---- CSV ---- */

struct csv {
    const char *path, *file;
    char names[LINE_MAX_BYTES];
    char *columns[CSV_COLUMNS_MAX];
    size_t ncolumns, line;
};

static size_t split(char *line, char **fields)
{
    size_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at && count < CSV_COLUMNS_MAX;) {
        fields[count++] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return count;
}

static const char *field(const struct csv *csv, char *const *fields, const char *name)
{
    for (size_t i = 0; i < csv->ncolumns; i++)
        if (strcmp(csv->columns[i], name) == 0)
            return fields[i];
    return NULL;
}

static kolo_status csv_number(const struct csv *csv, char *const *fields, const char *name,
                              double *value_out)
{
    const char *word = field(csv, fields, name);
    char *end = NULL;
    *value_out = word ? strtod(word, &end) : 0;
    if (word && end != word && *end == '\0' && isfinite(*value_out))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_DATA, "%s line %zu: %s is '%s', not a finite number", csv->path,
                     csv->line, name, word ? word : "");
}

static kolo_status add_line(struct plot *plot, const struct csv *csv, char *const *fields)
{
    struct plot_point point = {.us = 0};
    double np;
    kolo_status status;
    put(point.collective, field(csv, fields, "collective"));
    put(point.traits[PLOT_FILE], csv->file);
    put(point.traits[PLOT_LIBRARY], "kolo");
    put(point.traits[PLOT_CHANNEL], field(csv, fields, "transport"));
    put(point.traits[PLOT_MEMORY], field(csv, fields, "memory"));
    KOLO_TRY(csv_number(csv, fields, "np", &np));
    KOLO_TRY(csv_number(csv, fields, "bytes", &point.bytes));
    KOLO_TRY(csv_number(csv, fields, "time_us", &point.us));
    const char *busbw = field(csv, fields, "busbw_gbps");
    if (!busbw || *busbw != '\0' || np > 1) /* one rank has none */
        KOLO_TRY(csv_number(csv, fields, "busbw_gbps", &point.gbps));
    snprintf(point.traits[PLOT_RANKS], PLOT_NAME_MAX, "%.0f ranks", np);
    status = add(plot, csv->path, &point);
out:
    return status;
}

static kolo_status add_csv(struct plot *plot, FILE *stream, const char *path, const char *file)
{
    struct csv csv = {.path = path, .file = file, .line = 1};
    char line[LINE_MAX_BYTES], *fields[CSV_COLUMNS_MAX];
    kolo_status status = KOLO_OK;
    if (fgets(csv.names, sizeof csv.names, stream))
        csv.ncolumns = split(csv.names, csv.columns);
    while (status == KOLO_OK && fgets(line, sizeof line, stream)) {
        csv.line++;
        if (split(line, fields) != csv.ncolumns)
            return kolo_fail(KOLO_ERR_DATA, "%s line %zu: not the %zu columns of its first line",
                             path, csv.line, csv.ncolumns);
        status = add_line(plot, &csv, fields);
    }
    return status;
}

/* ---- files ---- */

/* "dir/tcp.json" is called "tcp". */
static void stem(const char *path, char *name)
{
    const char *slash = strrchr(path, '/');
    put(name, slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
}

static kolo_status add_json(struct plot *plot, FILE *stream, const char *path, const char *file)
{
    json_error_t error;
    errno = 0;
    json_t *object = json_loadf(stream, 0, &error);
    if (!object && errno == ENOMEM) /* which jansson takes for a fault of the text */
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: no memory to read it", path);
    if (!object && !ferror(stream))
        return kolo_fail(KOLO_ERR_DATA, "%s line %d: %s", path, error.line, error.text);
    kolo_status status = object ? plot_add_object(plot, object, file) : KOLO_OK;
    json_decref(object);
    return status;
}

kolo_status plot_add_file(struct plot *plot, const char *path)
{
    char name[PLOT_NAME_MAX];
    stem(path, name);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s", path);
    int first = getc(stream);
    ungetc(first, stream);
    kolo_status status =
        first == '{' ? add_json(plot, stream, path, name) : add_csv(plot, stream, path, name);
    if (status == KOLO_OK && ferror(stream)) /* the last that was called */
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s", path);
    fclose(stream);
    return status;
}

void plot_fini(struct plot *plot)
{
    kolo_free_memory(plot->points);
    *plot = (struct plot){0};
}
