// SPDX-License-Identifier: Apache-2.0
// What the different ways of making a call cost: `kolorun -np 2 call_cost` prints, for short
// allreduces, the time of a plain call, of a persistent one (kolo_run; kolo_start and kolo_wait),
// and of 16 calls made one by one, as a group, and as a group that repeats. Times are rank 0's: the
// median of rounds in which the ways alternate, each with a batch.
#include <stdio.h>

#include <kolo/kolo.h>

#include "bench/micro/ways.h"

enum { BATCH = 2000, MANY = 16, WAYS = 6, ELEMENTS = 1024 };

struct bench {
    struct kolo_comm *comm;
    size_t count; /* of each call */
    float *memory;
    struct kolo_request *one, *group;
};

static void sum(struct bench *bench, int i, const struct kolo_opts *opts,
                struct kolo_request **request_out)
{
    float *at = bench->memory + (size_t)i * ELEMENTS;
    check(kolo_allreduce(bench->comm, at, at, bench->count, KOLO_FLOAT32, KOLO_MAX, opts,
                         request_out),
          NULL);
}

static void plain(void *context)
{
    struct bench *bench = context;
    sum(bench, 0, NULL, NULL);
}

static void run(void *context)
{
    struct bench *bench = context;
    check(kolo_run(bench->one), NULL);
}

static void start_and_wait(void *context)
{
    struct bench *bench = context;
    check(kolo_start(bench->one), NULL);
    check(kolo_wait(&bench->one, -1), NULL);
}

static void one_by_one(void *context)
{
    struct bench *bench = context;
    for (int i = 0; i < MANY; i++)
        sum(bench, i, NULL, NULL);
}

static void open_group(struct bench *bench)
{
    check(kolo_group_begin(bench->comm), NULL);
    for (int i = 0; i < MANY; i++)
        sum(bench, i, NULL, NULL);
}

static void grouped(void *context)
{
    struct bench *bench = context;
    open_group(bench);
    check(kolo_group_end(bench->comm, NULL, NULL), NULL);
}

static void group_again(void *context)
{
    struct bench *bench = context;
    check(kolo_run(bench->group), NULL);
}

static void measure(struct bench *bench)
{
    static const struct micro_way ways[WAYS] = {
        {plain, BATCH},          {run, BATCH},
        {start_and_wait, BATCH}, {one_by_one, BATCH / MANY},
        {grouped, BATCH / MANY}, {group_again, BATCH / MANY}};
    double us[WAYS];
    micro_measure(bench->comm, ways, WAYS, bench, us);
    if (kolo_rank(bench->comm) == 0)
        printf("%6zu B  one: plain %7.3f  run %7.3f  start+wait %7.3f us   16: one by one %8.3f  "
               "group %8.3f  group again %8.3f us\n",
               bench->count * sizeof(float), us[0], us[1], us[2], us[3], us[4], us[5]);
}

int main(void)
{
    static const size_t counts[] = {1, 16, 64, 256, ELEMENTS};
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct bench bench = {0};
    void *memory;
    check(kolo_init(NULL, &bench.comm), NULL);
    check(kolo_alloc(bench.comm, MANY * ELEMENTS * sizeof(float), &memory), NULL);
    bench.memory = memory;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        bench.count = counts[i];
        sum(&bench, 0, &again, &bench.one);
        open_group(&bench);
        check(kolo_group_end(bench.comm, &again, &bench.group), NULL);
        measure(&bench);
        check(kolo_request_free(&bench.one), NULL);
        check(kolo_request_free(&bench.group), NULL);
    }
    check(kolo_free(bench.comm, memory), NULL);
    return kolo_finalize(bench.comm) == KOLO_OK ? 0 : 1;
}
