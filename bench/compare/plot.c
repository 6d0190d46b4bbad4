// SPDX-License-Identifier: Apache-2.0
// Draws times over size, both logarithmic, as SVG: one field per collective, channel and number of
// ranks, each with a line for kolo with either memory, for every peer and for the limit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/report.h"

enum { FIELD_W = 330, FIELD_H = 250, LEFT = 56, TOP = 34, RIGHT = 12, BOTTOM = 34, HEAD = 64 };

struct style {
    const char *side;
    bool own;
    const char *text, *colour, *dash;
    double width;
};

static const struct style styles[] = {
    {"bound", true, "limit, kolo_alloc", "#9a9a9a", "2 3", 1.6},
    {"bound", false, "limit, user memory or TCP", "#c4a878", "2 3", 1.6},
    {"gloo", false, "Gloo", "#8c5fb0", "", 1.6},
    {"mpich", false, "MPICH", "#2f8f5b", "", 1.6},
    {"mpich-yield", false, "MPICH, yielding", "#2f8f5b", "5 3", 1.3},
    {"openmpi", false, "Open MPI", "#2b6fb3", "", 1.6},
    {"openmpi-tuned", false, "Open MPI, tuned", "#2b6fb3", "5 3", 1.3},
    {"kolo", false, "kolo, user memory", "#d2452f", "6 3", 2.2},
    {"kolo", true, "kolo, kolo_alloc", "#d2452f", "", 2.2},
};
enum { STYLES = sizeof styles / sizeof styles[0] };

/** A field: where it lies and what its axes span (decimal logarithms). */
struct field {
    double x, y, low_bytes, high_bytes, low_us, high_us;
    const struct point *first;
};

static double x_of(const struct field *field, double bytes)
{
    double share = (log10(bytes) - field->low_bytes) / (field->high_bytes - field->low_bytes);
    return field->x + LEFT + share * (FIELD_W - LEFT - RIGHT);
}

static double y_of(const struct field *field, double us)
{
    double share = (log10(us) - field->low_us) / (field->high_us - field->low_us);
    return field->y + FIELD_H - BOTTOM - share * (FIELD_H - TOP - BOTTOM);
}

static void span(const struct report *report, struct field *field)
{
    double low_bytes = 1e18, high_bytes = 0, low_us = 1e18, high_us = 0;
    for (size_t i = 0; i < report->points_count; i++) {
        const struct point *point = &report->points[i];
        if (!same_series(point, field->first))
            continue;
        low_bytes = fmin(low_bytes, (double)point->bytes);
        high_bytes = fmax(high_bytes, (double)point->bytes);
        for (int k = 0; k < point->times_count; k++)
            if (point->times[k].us > 0) {
                low_us = fmin(low_us, point->times[k].us);
                high_us = fmax(high_us, point->times[k].us);
            }
    }
    field->low_bytes = log10(low_bytes) - 0.05;
    field->high_bytes = log10(high_bytes) + 0.05;
    field->low_us = high_us > 0 ? floor(log10(low_us)) : 0;
    field->high_us = high_us > 0 ? ceil(log10(high_us)) : 1;
    if (field->high_us <= field->low_us)
        field->high_us = field->low_us + 1;
}

static void draw_axes(const struct field *field, FILE *out)
{
    static const char *const units[] = {"0.01 us", "0.1 us", "1 us",  "10 us", "100 us",
                                        "1 ms",    "10 ms",  "0.1 s", "1 s",   "10 s"};
    double right = field->x + FIELD_W - RIGHT, bottom = field->y + FIELD_H - BOTTOM;
    char text[WORD];
    fprintf(out, "<text x='%.1f' y='%.1f' class='t'>%s, %s, %d ranks</text>\n", field->x + LEFT,
            field->y + TOP - 10, field->first->collective, field->first->channel,
            field->first->nranks);
    for (int us = (int)field->low_us; us <= (int)field->high_us; us++) {
        double y = y_of(field, pow(10, us));
        fprintf(out, "<path d='M%.1f %.1fH%.1f' class='g'/>", field->x + LEFT, y, right);
        if (us >= -2 && us <= 7)
            fprintf(out, "<text x='%.1f' y='%.1f' class='l' text-anchor='end'>%s</text>\n",
                    field->x + LEFT - 4, y + 3, units[us + 2]);
    }
    for (size_t bytes = 4; bytes <= (size_t)1 << 32; bytes *= 16) {
        double place = log10((double)bytes);
        if (place < field->low_bytes || place > field->high_bytes)
            continue;
        fprintf(out, "<path d='M%.1f %.1fV%.1f' class='g'/>", x_of(field, (double)bytes), bottom,
                field->y + TOP);
        fprintf(out, "<text x='%.1f' y='%.1f' class='l' text-anchor='middle'>%s</text>\n",
                x_of(field, (double)bytes), bottom + 13, size_text(bytes, text));
    }
}

static void draw_line(const struct report *report, const struct field *field,
                      const struct style *style, FILE *out)
{
    char command = 'M';
    fprintf(out, "<path fill='none' stroke='%s' stroke-width='%.1f' stroke-dasharray='%s' d='",
            style->colour, style->width, style->dash);
    for (size_t i = 0; i < report->points_count; i++) {
        const struct point *point = &report->points[i];
        const struct time *time =
            same_series(point, field->first) ? find_time(point, style->side, style->own) : NULL;
        if (!time || time->us <= 0)
            continue;
        fprintf(out, "%c%.1f %.1f", command, x_of(field, (double)point->bytes),
                y_of(field, time->us));
        command = 'L';
    }
    fprintf(out, "%s'/>\n", command == 'M' ? "M0 0" : "");
}

static bool is_drawn(const struct report *report, const struct style *style)
{
    for (size_t i = 0; i < report->points_count; i++) {
        const struct time *time = find_time(&report->points[i], style->side, style->own);
        if (time && time->us > 0)
            return true;
    }
    return false;
}

static void draw_legend(const struct report *report, FILE *out)
{
    double x = 16;
    for (int i = STYLES - 1; i >= 0; i--) {
        const struct style *style = &styles[i];
        if (!is_drawn(report, style))
            continue;
        fprintf(out,
                "<path d='M%.0f 44h24' stroke='%s' stroke-width='%.1f' stroke-dasharray='%s'/>"
                "<text x='%.0f' y='48' class='k'>%s</text>\n",
                x, style->colour, style->width, style->dash, x + 29, style->text);
        x += 44 + 6.1 * (double)strlen(style->text);
    }
}

static const char *meta_of(const struct report *report, const char *name)
{
    for (int i = 0; i < report->metas_count; i++)
        if (strcmp(report->metas[i][0], name) == 0)
            return report->metas[i][1];
    return "";
}

static bool is_first_of_field(const struct report *report, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_series(&report->points[k], &report->points[i]))
            return false;
    return true;
}

static bool one_collective(const struct report *report)
{
    for (size_t i = 1; i < report->points_count; i++)
        if (strcmp(report->points[i].collective, report->points[0].collective) != 0)
            return false;
    return true;
}

/* Fields of one channel and number of ranks form a row; if there is only one collective, those of
 * one channel do. */
static void place(const struct report *report, size_t i, double *columns, double *rows)
{
    bool alone = one_collective(report);
    double column = 0, row = 0;
    for (size_t k = 1; k <= i; k++) {
        const struct point *before = &report->points[k - 1], *point = &report->points[k];
        if (strcmp(before->channel, point->channel) != 0 ||
            (!alone && before->nranks != point->nranks)) {
            column = 0;
            row++;
        } else if (is_first_of_field(report, k)) {
            column++;
        }
    }
    *columns = column;
    *rows = row;
}

int plot(const struct report *report, FILE *out)
{
    double columns = 0, rows = 0;
    for (size_t i = 0; i < report->points_count; i++) {
        double column, row;
        place(report, i, &column, &row);
        columns = fmax(columns, column);
        rows = fmax(rows, row);
    }
    double width = fmax((columns + 1) * FIELD_W + 16, 1000);
    double height = HEAD + (rows + 1) * FIELD_H;
    fprintf(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
        "viewBox='0 0 %.0f %.0f'>\n<style>text{font-family:sans-serif;fill:#222}"
        ".t{font-size:12px;font-weight:bold}.l{font-size:9px;fill:#555}.k{font-size:11px}"
        ".h{font-size:13px}.g{stroke:#e2e2e2;stroke-width:.7;fill:none}</style>\n"
        "<rect width='100%%' height='100%%' fill='#fff'/>\n"
        "<text x='16' y='24' class='h'>kolo and its peers, time of one operation by size of the "
        "vector (%s, commit %s)</text>\n",
        width, height, width, height, meta_of(report, "machine"), meta_of(report, "commit"));
    draw_legend(report, out);
    for (size_t i = 0; i < report->points_count; i++) {
        struct field field = {.first = &report->points[i]};
        double column, row;
        if (!is_first_of_field(report, i))
            continue;
        place(report, i, &column, &row);
        field.x = column * FIELD_W + 8;
        field.y = HEAD + row * FIELD_H;
        span(report, &field);
        draw_axes(&field, out);
        for (int k = 0; k < STYLES; k++)
            draw_line(report, &field, &styles[k], out);
    }
    fprintf(out, "</svg>\n");
    return ferror(out) ? -1 : 0;
}
