// SPDX-License-Identifier: Apache-2.0
// Draws time and busbw over size, from files that kolobench and bench/compare write.
#ifndef KOLO_BENCH_PLOT_H
#define KOLO_BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

struct json_t;

enum { PLOT_NAME_MAX = 64, PLOT_SERIES_MAX = 24, PLOT_COLLECTIVES_MAX = 32 };

/** What distinguishes one series from another. */
enum plot_trait { PLOT_FILE, PLOT_LIBRARY, PLOT_CHANNEL, PLOT_RANKS, PLOT_MEMORY, PLOT_TRAITS };

struct plot_point {
    char collective[PLOT_NAME_MAX];
    char traits[PLOT_TRAITS][PLOT_NAME_MAX];
    bool limit; /* a lower bound */
    double bytes, us, gbps;
};

/** Must be zeroed first; plot_fini() frees it. */
struct plot {
    struct plot_point *points;
    size_t count, capacity;
};

/** Adds the rows of an object written by kolobench --json (rows, limits) or bench/compare (rows
 * with kolo_us). @p file names it in the legend if there are several. */
kolo_status plot_add_object(struct plot *plot, const struct json_t *object,
                            const char *file) KOLO_NODISCARD;
/** Adds a file of kolobench --json or --csv, or of bench/compare --json. ERR_DATA: it is
 * neither. */
kolo_status plot_add_file(struct plot *plot, const char *path) KOLO_NODISCARD;
/** ERR_DATA: there is nothing to draw. */
kolo_status plot_write(struct plot *plot, const char *title, FILE *out) KOLO_NODISCARD;
void plot_fini(struct plot *plot);

/** Runs `kolobench plot ...`, and returns the exit status. @p argv begins after "plot". */
int plot_main(char *const *argv);

#endif
