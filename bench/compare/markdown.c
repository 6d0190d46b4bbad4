// SPDX-License-Identifier: Apache-2.0
// Writes the ratios as tables for a document: one per collective, a line for each channel, number
// of ranks and memory, a column for each size. A cell is kolo's time divided by that of the best
// peer as installed, and after a bar, from 1 MiB on, by that of the best of all peers.
#include <string.h>

#include "bench/compare/report.h"

enum { COLUMNS_MAX = 32 };

/* Points of one collective with few ranks have sizes that are rounded up. A column is therefore the
 * position in the line, and is named after the first line's size. */
static size_t line_length(const struct report *report, const struct point *first)
{
    size_t length = 0;
    for (size_t i = 0; i < report->points_count; i++)
        length += same_series(&report->points[i], first);
    return length < COLUMNS_MAX ? length : COLUMNS_MAX;
}

static bool is_first(const struct report *report, size_t at, bool of_collective)
{
    for (size_t i = 0; i < at; i++)
        if (of_collective ? strcmp(report->points[i].collective, report->points[at].collective) == 0
                          : same_series(&report->points[i], &report->points[at]))
            return false;
    return true;
}

static void put_cell(const struct point *point, bool own, FILE *out)
{
    const struct time *kolo = find_time(point, "kolo", own);
    const struct time *installed = best_peer(point, false), *tuned = best_peer(point, true);
    if (!kolo || kolo->us <= 0 || !installed) {
        fprintf(out, " - |");
        return;
    }
    fprintf(out, " %.2f", kolo->us / installed->us);
    if (tuned != installed)
        fprintf(out, " / %.2f", kolo->us / tuned->us);
    fprintf(out, " |");
}

static void put_line(const struct report *report, const struct point *first, bool own,
                     size_t columns, FILE *out)
{
    fprintf(out, "| %s, %d ranks, %s |", first->channel, first->nranks,
            own ? "`kolo_alloc`" : "user memory");
    for (size_t i = 0; i < report->points_count; i++)
        if (same_series(&report->points[i], first))
            put_cell(&report->points[i], own, out);
    for (size_t i = line_length(report, first); i < columns; i++)
        fprintf(out, " - |"); /* left out: the time was over */
    fprintf(out, "\n");
}

static void put_head(const struct report *report, const struct point *first, FILE *out)
{
    char size[WORD];
    fprintf(out, "\n| %s |", first->collective);
    for (size_t i = 0; i < report->points_count; i++)
        if (same_series(&report->points[i], first))
            fprintf(out, " %s |", size_text(report->points[i].bytes, size));
    fprintf(out, "\n| --- |");
    for (size_t i = line_length(report, first); i-- > 0;)
        fprintf(out, " --- |");
    fprintf(out, "\n");
}

static bool has_kolo(const struct report *report, const struct point *first, bool own)
{
    for (size_t i = 0; i < report->points_count; i++)
        if (same_series(&report->points[i], first) && find_time(&report->points[i], "kolo", own))
            return true;
    return false;
}

int put_markdown(const struct report *report, FILE *out)
{
    for (int i = 0; i < report->metas_count; i++)
        fprintf(out, "%s%s %s", i ? "; " : "", report->metas[i][0], report->metas[i][1]);
    fprintf(out, ".\n");
    for (size_t i = 0; i < report->points_count; i++) {
        if (!is_first(report, i, true))
            continue;
        put_head(report, &report->points[i], out);
        for (size_t k = i; k < report->points_count; k++) {
            const struct point *point = &report->points[k];
            if (strcmp(point->collective, report->points[i].collective) != 0 ||
                !is_first(report, k, false))
                continue;
            for (int own = 1; own >= 0; own--)
                if (has_kolo(report, point, own))
                    put_line(report, point, own, line_length(report, &report->points[i]), out);
        }
    }
    return ferror(out) ? -1 : 0;
}
