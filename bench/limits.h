// SPDX-License-Identifier: Apache-2.0
// Limits: measures what this machine can do, and derives lower bounds for the time of collectives.
#ifndef KOLO_BENCH_LIMITS_H
#define KOLO_BENCH_LIMITS_H

#include "bench/bare.h"
#include "bench/bench.h"

enum { BENCH_FIGURES_MAX = 32 };

/** One figure of the machine. */
struct bench_figure {
    const char *key;  /* stable; ends in its unit: _us or _gbps */
    const char *text; /* description */
    double value;
};

struct bench_figures {
    struct bench_figure list[BENCH_FIGURES_MAX];
    size_t count;
};

/** Measures the figures; collective. What is not available (memory between hosts, sockets) is left
 * out, and without @p memory also the figures of memory and processors. The figures are the same
 * on all ranks. */
kolo_status bench_figures_measure(struct bare_world *world, bool memory, int64_t time_ns,
                                  struct bench_figures *figures_out);

/** Whether there is a bare loop for this collective's pattern. */
bool bench_has_limit(const char *collective);

/** Runs kolobench --limits on one rank; collective. */
kolo_status bench_limits_run(struct kolo_comm *comm, const struct bench_options *options);

#endif
