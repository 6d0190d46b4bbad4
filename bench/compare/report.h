// SPDX-License-Identifier: Apache-2.0
// What report.c reads from the referee's lines and plot.c draws: points (a collective at a size on
// a channel with a number of ranks), and for each point the median time of every side.
#ifndef KOLO_BENCH_COMPARE_REPORT_H
#define KOLO_BENCH_COMPARE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { WORD = 48, TIMES_MAX = 12, SAMPLES_MAX = 64, METAS_MAX = 24, NOTE = 256 };

/** One side with one kind of memory at a point. */
struct time {
    char side[WORD];
    bool own; /* the library's own memory */
    double samples[SAMPLES_MAX];
    int samples_count;
    double us;         /* median; 0: none */
    char failed[NOTE]; /* why it failed, or "" */
};

struct point {
    char channel[WORD], collective[WORD];
    int nranks;
    size_t bytes;
    struct time times[TIMES_MAX];
    int times_count;
};

struct report {
    struct point *points;
    size_t points_count, points_capacity;
    char metas[METAS_MAX][2][NOTE];
    int metas_count;
    char (*notes)[NOTE];
    size_t notes_count;
};

/** Whether two points differ at most in their sizes: they are then in one field of the picture and
 * on one line of the tables. */
bool same_series(const struct point *a, const struct point *b);
/** NULL if the side did not measure this. */
const struct time *find_time(const struct point *point, const char *side, bool own);
/** The fastest of the peers at a point, as installed, or with @p tuned also tuned ones. NULL:
 * none.
 */
const struct time *best_peer(const struct point *point, bool tuned);
/** "4 B", "16 KiB", ... */
const char *size_text(size_t bytes, char text[WORD]);

/** Draws a picture with a field per collective, channel and number of ranks. @return 0, or -1 if @p
 * out cannot be written. */
int plot(const struct report *report, FILE *out);
/** Writes the ratios as tables for a document; returns as plot() does. */
int put_markdown(const struct report *report, FILE *out);

#endif
