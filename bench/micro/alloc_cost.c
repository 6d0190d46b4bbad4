// SPDX-License-Identifier: Apache-2.0
// What kolo_alloc and kolo_free cost: `kolorun -np N alloc_cost` prints, for several lengths, the
// time to allocate memory, write a byte to each of its pages and free it: from malloc, from
// kolo_alloc, and from kolo_alloc with an allreduce of all of it before it is freed, beside that
// allreduce alone. Times are rank 0's: the median of rounds in which the ways alternate, each with
// a batch, during which all ranks do the same.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <kolo/kolo.h>

#include "bench/micro/check.h"

enum { ROUNDS = 15, WAYS = 4, BATCH_MAX = 1000, BATCH_BYTES = 64 << 20 };

struct bench {
    struct kolo_comm *comm;
    size_t bytes;
    void *memory; /* of this length, for the allreduce alone */
};

static void touch(void *memory, size_t bytes)
{
    static size_t page;
    volatile char *at = memory;
    if (page == 0)
        page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < bytes; i += page)
        at[i] = 1;
}

static void sum(const struct bench *bench, void *memory)
{
    check(kolo_allreduce(bench->comm, memory, memory, bench->bytes / sizeof(float), KOLO_FLOAT32,
                         KOLO_MAX, NULL, NULL),
          NULL);
}

static void from_malloc(const struct bench *bench)
{
    void *memory = malloc(bench->bytes);
    if (!memory)
        abort();
    touch(memory, bench->bytes);
    free(memory);
}

static void use_memory(const struct bench *bench, void (*use)(const struct bench *, void *))
{
    void *memory;
    check(kolo_alloc(bench->comm, bench->bytes, &memory), NULL);
    touch(memory, bench->bytes);
    if (use)
        use(bench, memory);
    check(kolo_free(bench->comm, memory), NULL);
}

static void from_kolo(const struct bench *bench)
{
    use_memory(bench, NULL);
}

static void with_a_sum(const struct bench *bench)
{
    use_memory(bench, sum);
}

static void sum_alone(const struct bench *bench)
{
    sum(bench, bench->memory);
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

static void measure(struct bench *bench)
{
    static void (*const ways[WAYS])(const struct bench *) = {from_malloc, from_kolo, with_a_sum,
                                                             sum_alone};
    static double times[WAYS][ROUNDS];
    const size_t many = BATCH_BYTES / bench->bytes;
    const int batch = many > BATCH_MAX ? BATCH_MAX : (int)many;
    for (int round = -1; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            check(kolo_barrier(bench->comm, NULL, NULL), NULL);
            const double start = now_us();
            for (int i = 0; i < batch; i++)
                ways[way](bench);
            if (round >= 0)
                times[way][round] = (now_us() - start) / batch;
        }
    for (int way = 0; way < WAYS; way++)
        qsort(times[way], ROUNDS, sizeof(double), by_value);
    if (kolo_rank(bench->comm) == 0)
        printf("%9zu B  malloc %9.2f  kolo_alloc %9.2f  with an allreduce %9.2f  that alone %9.2f "
               "us\n",
               bench->bytes, times[0][ROUNDS / 2], times[1][ROUNDS / 2], times[2][ROUNDS / 2],
               times[3][ROUNDS / 2]);
}

int main(void)
{
    static const size_t lengths[] = {64, 4096, 65536, 1 << 20, 64 << 20};
    struct bench bench = {0};
    check(kolo_init(NULL, &bench.comm), NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bench.bytes = lengths[i];
        check(kolo_alloc(bench.comm, bench.bytes, &bench.memory), NULL);
        measure(&bench);
        check(kolo_free(bench.comm, bench.memory), NULL);
    }
    return kolo_finalize(bench.comm) == KOLO_OK ? 0 : 1;
}
