// SPDX-License-Identifier: Apache-2.0
// Draws for each collective a row of two fields, time and busbw over size, with logarithmic axes;
// one colour for each series in all of them, limits as dashed grey lines, one legend above. A
// series is named only by what distinguishes it from the others.
#include "bench/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/words.h"
#include "tools/exit_status.h"
#include "tools/outfile.h"
#include "tools/svg.h"

enum {
    WIDTH = 960,
    FIELD_WIDTH = 390,
    FIELD_HEIGHT = 270,
    LEFT = 66,
    GAP = 84, /* between the fields, for the right one's numbers */
    TITLE_HEIGHT = 34,
    LEGEND_LINE = 20,
    ROW_HEAD = 34,
    ROW_FOOT = 34,
    SIZE_LABELS = 8, /* at most, on an axis of sizes */
    LABEL_MAX = PLOT_NAME_MAX * 2
};
static const double small = 11, normal = 12.5, large = 16;
static const char ink[] = "#222222", faint[] = "#e4e4e4", frame[] = "#9a9a9a";

/* Also distinguishable with colour blindness. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                      "#56b4e9", "#8c564b", "#5d5d9c", "#7f9f1f", "#b03060"};
static const char *const limit_dashes[] = {"6 4", "2 3", "9 3 2 3", "12 4"};

struct series {
    char label[LABEL_MAX];
    bool limit;
    const char *colour, *dash;
};

struct figure {
    const struct plot *plot;
    bool differs[2][PLOT_TRAITS]; /* among measured series; among limits */
    struct series series[PLOT_SERIES_MAX];
    size_t nseries;
    size_t *series_of; /* of each point */
    const char *collectives[PLOT_COLLECTIVES_MAX];
    size_t ncollectives;
};

/* ---- which series there are ---- */

static bool same_but_file(const struct plot_point *a, const struct plot_point *b)
{
    for (int trait = 0; trait < PLOT_TRAITS; trait++)
        if (trait != PLOT_FILE && strcmp(a->traits[trait], b->traits[trait]) != 0)
            return false;
    return strcmp(a->collective, b->collective) == 0 && !a->limit && !b->limit;
}

/* A file is named only if nothing else distinguishes its series from another file's. */
static bool files_differ(const struct plot *plot)
{
    for (size_t i = 0; i < plot->count; i++)
        for (size_t k = 0; k < i; k++)
            if (same_but_file(&plot->points[i], &plot->points[k]) &&
                strcmp(plot->points[i].traits[PLOT_FILE], plot->points[k].traits[PLOT_FILE]) != 0)
                return true;
    return false;
}

static void find_differences(struct figure *figure)
{
    const char *seen[2][PLOT_TRAITS] = {{NULL}};
    bool any[2] = {false, true};
    for (size_t i = 0; i < figure->plot->count; i++) {
        const struct plot_point *point = &figure->plot->points[i];
        for (int trait = 0; trait < PLOT_TRAITS; trait++) {
            const char *text = point->traits[trait], **before = &seen[point->limit][trait];
            if (text[0] && *before && strcmp(*before, text) != 0)
                figure->differs[point->limit][trait] = true;
            if (text[0])
                *before = text;
        }
    }
    figure->differs[false][PLOT_FILE] = files_differ(figure->plot);
    figure->differs[true][PLOT_FILE] = figure->differs[true][PLOT_LIBRARY] = false;
    for (int trait = 0; trait < PLOT_TRAITS; trait++)
        any[false] = any[false] || figure->differs[false][trait];
    if (!any[false]) /* a series always has some name */
        figure->differs[false][PLOT_CHANNEL] = true;
}

static void label_of(const struct figure *figure, const struct plot_point *point, char *label)
{
    size_t used = 0;
    label[0] = '\0';
    if (point->limit)
        used = (size_t)snprintf(label, LABEL_MAX, "limit");
    for (int trait = 0; trait < PLOT_TRAITS; trait++) {
        const char *text = point->traits[trait];
        if (!figure->differs[point->limit][trait] || !*text || used >= LABEL_MAX)
            continue;
        int put = snprintf(label + used, LABEL_MAX - used, "%s%s%s", used ? ", " : "", text,
                           trait == PLOT_MEMORY ? " memory" : "");
        used += put > 0 ? (size_t)put : 0;
    }
}

static kolo_status find_series(struct figure *figure)
{
    size_t ncolours = 0, nlimits = 0;
    find_differences(figure);
    for (size_t i = 0; i < figure->plot->count; i++) {
        char label[LABEL_MAX];
        size_t at = 0;
        label_of(figure, &figure->plot->points[i], label);
        while (at < figure->nseries && strcmp(figure->series[at].label, label) != 0)
            at++;
        figure->series_of[i] = at;
        if (at < figure->nseries)
            continue;
        if (at == PLOT_SERIES_MAX)
            return kolo_fail(KOLO_ERR_DATA, "more than %d series; draw fewer files at once",
                             PLOT_SERIES_MAX);
        struct series *series = &figure->series[figure->nseries++];
        snprintf(series->label, sizeof series->label, "%s", label);
        series->limit = figure->plot->points[i].limit;
        if (series->limit) {
            series->colour = "#777777";
            series->dash = limit_dashes[nlimits++ % (sizeof limit_dashes / sizeof *limit_dashes)];
        } else {
            size_t of = sizeof colours / sizeof *colours;
            series->colour = colours[ncolours % of];
            series->dash = ncolours++ < of ? "" : "7 3";
        }
    }
    return KOLO_OK;
}

static kolo_status find_collectives(struct figure *figure)
{
    for (size_t i = 0; i < figure->plot->count; i++) {
        const char *name = figure->plot->points[i].collective;
        size_t at = 0;
        while (at < figure->ncollectives && strcmp(figure->collectives[at], name) != 0)
            at++;
        if (at < figure->ncollectives)
            continue;
        if (at == PLOT_COLLECTIVES_MAX)
            return kolo_fail(KOLO_ERR_DATA, "more than %d collectives; draw fewer files at once",
                             PLOT_COLLECTIVES_MAX);
        figure->collectives[figure->ncollectives++] = name;
    }
    return KOLO_OK;
}

/* ---- a field ---- */

struct field {
    double x, y, low_bytes, high_bytes, low, high; /* the values at the ends of the axes */
    bool is_time;
};

static double value_of(const struct field *field, const struct plot_point *point)
{
    return field->is_time ? point->us : point->gbps;
}

static double across(const struct field *field, double bytes)
{
    return field->x + log(bytes / field->low_bytes) / log(field->high_bytes / field->low_bytes) *
                          (double)FIELD_WIDTH;
}

static double down(const struct field *field, double value)
{
    return field->y + (double)FIELD_HEIGHT -
           log(value / field->low) / log(field->high / field->low) * (double)FIELD_HEIGHT;
}

static bool belongs(const struct plot_point *point, const char *name)
{
    return strcmp(point->collective, name) == 0;
}

/* The ends of the axes: sizes by powers of two around the data, values by a little more than it. */
static void span(const struct figure *figure, const char *collective, struct field *field)
{
    double low_bytes = 1e300, high_bytes = 0, low = 1e300, high = 0;
    for (size_t i = 0; i < figure->plot->count; i++) {
        const struct plot_point *point = &figure->plot->points[i];
        double value = value_of(field, point);
        if (!belongs(point, collective) || value <= 0)
            continue;
        low_bytes = fmin(low_bytes, point->bytes);
        high_bytes = fmax(high_bytes, point->bytes);
        low = fmin(low, value);
        high = fmax(high, value);
    }
    field->low_bytes = low_bytes / 1.4;
    field->high_bytes = fmax(high_bytes, low_bytes) * 1.4;
    field->low = low / 1.5;
    field->high = fmax(high, low * 4) * 1.5;
}

static void value_text(const struct field *field, double value, char *text, size_t capacity)
{
    if (!field->is_time)
        snprintf(text, capacity, "%g", value);
    else if (value < 1e3)
        snprintf(text, capacity, "%g us", value);
    else if (value < 1e6)
        snprintf(text, capacity, "%g ms", value / 1e3);
    else
        snprintf(text, capacity, "%g s", value / 1e6);
}

static void draw_values(FILE *out, const struct field *field)
{
    bool dense = field->high / field->low < 500; /* then 2 and 5 get numbers too */
    for (double decade = pow(10, floor(log10(field->low))); decade <= field->high; decade *= 10)
        for (int step = 0; step < 3; step++) {
            double value = decade * (double[]){1, 2, 5}[step];
            char text[32];
            if (value < field->low || value > field->high || (step > 0 && !dense))
                continue;
            svg_line(out, field->x, down(field, value), field->x + (double)FIELD_WIDTH,
                     down(field, value), faint, 1, "");
            value_text(field, value, text, sizeof text);
            svg_text(out, field->x - 6, down(field, value) + small * 0.35, small, SVG_END, ink,
                     text);
        }
}

static void draw_sizes(FILE *out, const struct field *field)
{
    double first = exp2(ceil(log2(field->low_bytes))), factor = 2;
    while (log(field->high_bytes / first) / log(factor) >= (double)SIZE_LABELS)
        factor *= factor < 4 ? 2 : 4; /* 2, 4, 16, 64: 4 B, 64 B, 1 KiB, 16 KiB ... */
    for (double bytes = first; bytes <= field->high_bytes; bytes *= factor) {
        char text[32];
        double x = across(field, bytes);
        svg_line(out, x, field->y, x, field->y + (double)FIELD_HEIGHT, faint, 1, "");
        bench_size_text(bytes, text, sizeof text);
        svg_text(out, x, field->y + (double)FIELD_HEIGHT + 16, small, SVG_MIDDLE, ink, text);
    }
}

static int by_bytes(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void draw_series(FILE *out, const struct figure *figure, size_t series,
                        const char *collective, const struct field *field, double *scratch)
{
    const struct series *style = &figure->series[series];
    size_t count = 0;
    for (size_t i = 0; i < figure->plot->count; i++) {
        const struct plot_point *point = &figure->plot->points[i];
        double value = value_of(field, point);
        if (figure->series_of[i] != series || !belongs(point, collective) || value <= 0)
            continue;
        scratch[2 * count] = across(field, point->bytes);
        scratch[2 * count++ + 1] = down(field, value);
    }
    if (count == 0)
        return;
    qsort(scratch, count, 2 * sizeof *scratch, by_bytes);
    svg_path(out, scratch, count, style->colour, style->limit ? 1.4 : 2, style->dash);
    for (size_t i = 0; !style->limit && i < count; i++)
        svg_dot(out, scratch[2 * i], scratch[2 * i + 1], 2.6, style->colour);
}

static void draw_field(FILE *out, const struct figure *figure, const char *collective,
                       struct field *field, double *scratch)
{
    char head[2 * PLOT_NAME_MAX];
    span(figure, collective, field);
    if (field->high <= 0)
        return;
    draw_values(out, field);
    draw_sizes(out, field);
    svg_rectangle(out, field->x, field->y, FIELD_WIDTH, FIELD_HEIGHT, frame);
    snprintf(head, sizeof head, "%s: %s", collective, field->is_time ? "time" : "busbw, GB/s");
    svg_text(out, field->x, field->y - 9, normal, SVG_START, ink, head);
    for (int limits = 1; limits >= 0; limits--) /* limits first, below the rest */
        for (size_t i = 0; i < figure->nseries; i++)
            if (figure->series[i].limit == limits)
                draw_series(out, figure, i, collective, field, scratch);
}

/* ---- the figure ---- */

/* Draws the legend, or (out NULL) only returns its height. */
static double legend(FILE *out, const struct figure *figure, double top)
{
    double x = LEFT, y = top;
    for (size_t i = 0; i < figure->nseries; i++) {
        const struct series *series = &figure->series[i];
        double width = 34 + svg_text_width(normal, series->label) + 18;
        if (x > (double)LEFT && x + width > (double)WIDTH) {
            x = LEFT;
            y += (double)LEGEND_LINE;
        }
        if (out) {
            svg_line(out, x, y, x + 26, y, series->colour, series->limit ? 1.4 : 2, series->dash);
            if (!series->limit)
                svg_dot(out, x + 13, y, 2.6, series->colour);
            svg_text(out, x + 32, y + normal * 0.35, normal, SVG_START, ink, series->label);
        }
        x += width;
    }
    return y + (double)LEGEND_LINE - top;
}

static void draw(FILE *out, const struct figure *figure, const char *title, double *scratch)
{
    double head = (double)TITLE_HEIGHT + legend(NULL, figure, 0);
    double row = ROW_HEAD + FIELD_HEIGHT + ROW_FOOT;
    svg_begin(out, WIDTH, head + row * (double)figure->ncollectives + 6);
    svg_text(out, LEFT, 23, large, SVG_START, ink, title);
    legend(out, figure, TITLE_HEIGHT + 8);
    for (size_t i = 0; i < figure->ncollectives; i++) {
        struct field field = {
            .x = LEFT, .y = head + row * (double)i + (double)ROW_HEAD, .is_time = true};
        draw_field(out, figure, figure->collectives[i], &field, scratch);
        field = (struct field){.x = LEFT + FIELD_WIDTH + GAP, .y = field.y};
        draw_field(out, figure, figure->collectives[i], &field, scratch);
    }
    svg_end(out);
}

kolo_status plot_write(struct plot *plot, const char *title, FILE *out)
{
    struct figure *figure = NULL;
    double *scratch = NULL;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (plot->count == 0)
        return kolo_fail(KOLO_ERR_DATA, "nothing to draw: no row has a size and a time");
    figure = kolo_calloc(1, sizeof *figure);
    scratch = kolo_calloc(2 * plot->count, sizeof *scratch);
    if (!figure || !scratch)
        goto out;
    figure->plot = plot;
    figure->series_of = kolo_calloc(plot->count, sizeof *figure->series_of);
    if (!figure->series_of)
        goto out;
    KOLO_TRY(find_series(figure));
    KOLO_TRY(find_collectives(figure));
    draw(out, figure, title, scratch);
out:
    if (figure)
        kolo_free_memory(figure->series_of);
    kolo_free_memory(figure);
    kolo_free_memory(scratch);
    return status;
}

/* ---- kolobench plot ---- */

struct command {
    const char *files[PLOT_SERIES_MAX + 1], *out, *title;
    size_t nfiles;
};

static int take_out(const struct bench_flag *flag, const char *value, void *target)
{
    return bench_take_file(flag, value, &((struct command *)target)->out);
}

static int take_title(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag;
    ((struct command *)target)->title = value;
    return BENCH_GO_ON;
}

static int take_help(const struct bench_flag *flag, const char *value, void *target);

static const struct bench_flag flags[] = {
    {'o', "output", "FILE", "the SVG to write", take_out},
    {0, "title", "TEXT", "the heading [time and busbw over size]", take_title},
    {'h', "help", NULL, "print this text", take_help},
    {0},
};

static int take_help(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag, (void)value, (void)target;
    printf(
        "usage: kolobench plot FILE... -o FILE.svg [options]\n"
        "Draws time and busbw over size, from files of kolobench --json, --csv and --limits --json "
        "and of bench/compare.\n\n");
    bench_flags_help(flags, stdout);
    return 0;
}

static int take_file(const char *word, void *target)
{
    struct command *command = target;
    if (command->nfiles == PLOT_SERIES_MAX)
        return bench_refuse("plot", word, "at most 24 files", NULL);
    command->files[command->nfiles++] = word;
    return BENCH_GO_ON;
}

int plot_main(char *const *argv)
{
    struct command command = {.title = "time and busbw over size"};
    struct outfile file = {.path = NULL};
    struct plot plot = {0};
    int exit_status = bench_flags_parse(flags, argv, &command, take_file);
    if (exit_status != BENCH_GO_ON)
        return exit_status;
    if (command.nfiles == 0)
        return bench_refuse("plot", "(no file)", "at least one file of --json or --csv", NULL);
    if (!command.out)
        return bench_refuse("plot", command.files[0], "-o FILE.svg behind it", NULL);
    kolo_status status;
    KOLO_TRY(outfile_spares("--output", command.out, command.files, command.nfiles));
    for (size_t i = 0; i < command.nfiles; i++)
        KOLO_TRY(plot_add_file(&plot, command.files[i]));
    KOLO_TRY(outfile_open(&file, "--output", command.out));
    status = plot_write(&plot, command.title, file.stream);
    kolo_status closed = outfile_close(&file, status == KOLO_OK);
    status = status == KOLO_OK ? closed : status;
out:
    if (status != KOLO_OK)
        fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    plot_fini(&plot);
    return exit_status_of(status);
}
