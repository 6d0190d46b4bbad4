// SPDX-License-Identifier: Apache-2.0
// How long each of several ways takes to do something that all ranks do together. The ways take
// turns, so that what changes on the machine meanwhile changes for all of them.
#ifndef KOLO_BENCH_MICRO_WAYS_H
#define KOLO_BENCH_MICRO_WAYS_H

#include <stdlib.h>
#include <time.h>

#include <kolo/kolo.h>

#include "bench/micro/check.h"

enum {
    MICRO_ROUNDS = 15,
    MICRO_WARMUPS = 2, /* rounds before them, which do not count */
    MICRO_WAYS_MAX = 8
};

struct micro_way {
    void (*run)(void *context);
    int batch; /* runs in a row; the same on all ranks */
};

static inline double micro_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static inline int micro_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Of each of @p count ways (at most MICRO_WAYS_MAX) the time of a run on this rank, in
 * microseconds: the median of rounds, in which a batch of each way follows a barrier. */
static inline void micro_measure(struct kolo_comm *comm, const struct micro_way *ways, int count,
                                 void *context, double us_out[])
{
    double times[MICRO_WAYS_MAX][MICRO_ROUNDS];
    for (int round = -MICRO_WARMUPS; round < MICRO_ROUNDS; round++)
        for (int way = 0; way < count; way++) {
            check(kolo_barrier(comm, NULL, NULL), NULL);
            const double start = micro_now_us();
            for (int i = 0; i < ways[way].batch; i++)
                ways[way].run(context);
            if (round >= 0)
                times[way][round] = (micro_now_us() - start) / ways[way].batch;
        }
    for (int way = 0; way < count; way++) {
        qsort(times[way], MICRO_ROUNDS, sizeof(double), micro_by_value);
        us_out[way] = times[way][MICRO_ROUNDS / 2];
    }
}

#endif
