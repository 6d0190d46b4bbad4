// SPDX-License-Identifier: Apache-2.0
// What making a communicator costs: `kolorun -np 2 comm_cost` prints the time of kolo_dup with
// kolo_finalize, of kolo_split with kolo_finalize, and of kolo_dup, one allreduce of 8 bytes on
// the new communicator, and kolo_finalize. Times are rank 0's: the median of rounds in which the
// ways alternate, each with a batch.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kolo/kolo.h>

#include "bench/micro/check.h"

enum { ROUNDS = 15, BATCH = 200, WAYS = 3 };

static void dup(struct kolo_comm *comm)
{
    struct kolo_comm *copy = NULL;
    check(kolo_dup(comm, NULL, &copy), NULL);
    check(kolo_finalize(copy), NULL);
}

static void split(struct kolo_comm *comm)
{
    struct kolo_comm *half = NULL;
    check(kolo_split(comm, kolo_rank(comm) % 2, 0, NULL, &half), NULL);
    check(kolo_finalize(half), NULL);
}

static void dup_and_sum(struct kolo_comm *comm)
{
    struct kolo_comm *copy = NULL;
    double value = 1;
    check(kolo_dup(comm, NULL, &copy), NULL);
    check(kolo_allreduce(copy, &value, &value, 1, KOLO_FLOAT64, KOLO_SUM, NULL, NULL), NULL);
    check(kolo_finalize(copy), NULL);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static void (*const ways[WAYS])(struct kolo_comm *) = {dup, split, dup_and_sum};
    static double times[WAYS][ROUNDS];
    struct kolo_comm *comm;
    check(kolo_init(NULL, &comm), NULL);
    for (int round = -2; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            check(kolo_barrier(comm, NULL, NULL), NULL);
            double start = now_us();
            for (int i = 0; i < BATCH; i++)
                ways[way](comm);
            if (round >= 0)
                times[way][round] = (now_us() - start) / BATCH;
        }
    for (int way = 0; way < WAYS; way++)
        qsort(times[way], ROUNDS, sizeof(double), by_value);
    if (kolo_rank(comm) == 0)
        printf("%d ranks  dup %7.1f  split %7.1f  dup and a sum %7.1f us\n", kolo_size(comm),
               times[0][ROUNDS / 2], times[1][ROUNDS / 2], times[2][ROUNDS / 2]);
    return kolo_finalize(comm) == KOLO_OK ? 0 : 1;
}
