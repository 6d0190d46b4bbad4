// SPDX-License-Identifier: Apache-2.0
// What kolo_alloc and kolo_free cost: `kolorun -np N alloc_cost` prints, for several lengths, the
// time to allocate memory, write a byte to each of its pages and free it: from malloc, from
// kolo_alloc, and from kolo_alloc with an allreduce of all of it before it is freed, beside that
// allreduce alone. Times are rank 0's: the median of rounds in which the ways alternate, each with
// a batch, during which all ranks do the same.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <kolo/kolo.h>

#include "bench/micro/ways.h"

enum { WAYS = 4, BATCH_MAX = 1000, BATCH_BYTES = 64 << 20 };

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

static void from_malloc(void *context)
{
    const struct bench *bench = context;
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

static void from_kolo(void *context)
{
    const struct bench *bench = context;
    use_memory(bench, NULL);
}

static void with_a_sum(void *context)
{
    const struct bench *bench = context;
    use_memory(bench, sum);
}

static void sum_alone(void *context)
{
    const struct bench *bench = context;
    sum(bench, bench->memory);
}

static void measure(struct bench *bench)
{
    const size_t many = BATCH_BYTES / bench->bytes;
    const int batch = many > BATCH_MAX ? BATCH_MAX : (int)many;
    const struct micro_way ways[WAYS] = {
        {from_malloc, batch}, {from_kolo, batch}, {with_a_sum, batch}, {sum_alone, batch}};
    double us[WAYS];
    micro_measure(bench->comm, ways, WAYS, bench, us);
    if (kolo_rank(bench->comm) == 0)
        printf("%9zu B  malloc %9.2f  kolo_alloc %9.2f  with an allreduce %9.2f  that alone %9.2f "
               "us\n",
               bench->bytes, us[0], us[1], us[2], us[3]);
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
