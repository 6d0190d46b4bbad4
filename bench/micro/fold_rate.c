// SPDX-License-Identifier: Apache-2.0
// How long a fold takes that several processes share, as in an allreduce over directly mapped
// memory: `fold_rate [PROCESSES [TYPE [VECTORS]]]`. Each of VECTORS ranks (default 2, 4, 8) has an
// input and an output in shared mappings; every process (default 2) folds its part of all inputs
// into all outputs. Prints a line per size: the best time of a round with plain stores, in which
// the outputs are the inputs of the next round, with streams, and of 2 * VECTORS copies instead, in
// GB/s of the streams. Meaningful only if every process has its own core.
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/fold.h"

enum { PROCESSES_MAX = 64, VECTORS_MAX = 32, ROUNDS = 15, SIZES = 5 };
static const size_t sizes[SIZES] = {4u << 10, 64u << 10, 1u << 20, 16u << 20, 64u << 20};

/** In a shared mapping. */
struct shared {
    atomic_uint arrived, round;
};

struct bench {
    int processes, rank;
    kolo_dtype dtype;
    size_t vectors;
    struct shared *shared;
    uint8_t *in[VECTORS_MAX], *out[VECTORS_MAX];
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("fold_rate: mmap");
        exit(EXIT_FAILURE);
    }
    memset(at, 0, bytes);
    return at;
}

static void barrier(const struct bench *bench)
{
    const unsigned round = atomic_load(&bench->shared->round);
    if (atomic_fetch_add(&bench->shared->arrived, 1) + 1 == (unsigned)bench->processes) {
        atomic_store(&bench->shared->arrived, 0);
        atomic_store(&bench->shared->round, round + 1);
    }
    for (unsigned i = 1; atomic_load(&bench->shared->round) == round; i++)
        if (i % 4096 == 0)
            sched_yield();
}

/** This process's part of one round: [from, to) of every vector. */
static void round_run(const struct bench *bench, size_t bytes, int copies, enum kolo_store_how how)
{
    const size_t size = kolo_dtype_bytes(bench->dtype), elements = bytes / size;
    const size_t part = (elements / (size_t)bench->processes + 15) / 16 * 16;
    const size_t first =
        (size_t)bench->rank * part < elements ? (size_t)bench->rank * part : elements;
    const size_t count = elements - first < part ? elements - first : part;
    const void *in[VECTORS_MAX];
    void *out[VECTORS_MAX];
    for (size_t k = 0; k < bench->vectors; k++) {
        in[k] = bench->in[k] + first * size;
        out[k] = bench->out[k] + first * size;
    }
    if (copies)
        for (size_t k = 0; k < bench->vectors; k++)
            kolo_copy(out[k], in[k], count * size, how);
    else
        kolo_fold(&(struct kolo_fold){.dtype = bench->dtype, .op = KOLO_SUM}, out, bench->vectors,
                  in, bench->vectors, count, how);
}

/** The best time of a round, in rank 0. */
static double measure(const struct bench *bench, size_t bytes, int copies, enum kolo_store_how how)
{
    const int repeats = bytes >= 1u << 20 ? 1 : (int)((1u << 20) / bytes);
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        barrier(bench);
        const double start = now_ns();
        for (int i = 0; i < repeats; i++) {
            round_run(bench, bytes, copies, how);
            barrier(bench);
        }
        const double ns = (now_ns() - start) / repeats;
        best = ns < best ? ns : best;
    }
    return best;
}

static void run(const struct bench *bench)
{
    for (int i = 0; i < SIZES; i++) {
        const double bytes = 2.0 * (double)bench->vectors * (double)sizes[i];
        const double cached = measure(bench, sizes[i], 0, KOLO_STORE_CACHED);
        const double stream = measure(bench, sizes[i], 0, KOLO_STORE_STREAM);
        const double copied = measure(bench, sizes[i], 1, KOLO_STORE_CACHED);
        const double copied_stream = measure(bench, sizes[i], 1, KOLO_STORE_STREAM);
        if (bench->rank == 0)
            printf("%8zu %8zu %10.2f %10.2f %10.2f %10.2f   %6.1f %6.1f %6.1f %6.1f\n",
                   bench->vectors, sizes[i], cached * 1e-3, stream * 1e-3, copied * 1e-3,
                   copied_stream * 1e-3, bytes / cached, bytes / stream, bytes / copied,
                   bytes / copied_stream);
        fflush(stdout);
    }
}

static void pin(int rank)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(rank % (int)sysconf(_SC_NPROCESSORS_ONLN)), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/** All processes of one number of vectors; the parent waits. */
static void run_all(struct bench *bench)
{
    for (size_t k = 0; k < bench->vectors; k++) {
        bench->in[k] = map(sizes[SIZES - 1]);
        bench->out[k] = map(sizes[SIZES - 1]);
    }
    fflush(stdout);
    for (bench->rank = 0; bench->rank < bench->processes; bench->rank++)
        if (fork() == 0) {
            pin(bench->rank);
            run(bench);
            exit(EXIT_SUCCESS);
        }
    while (wait(NULL) > 0)
        ;
    for (size_t k = 0; k < bench->vectors; k++) {
        munmap(bench->in[k], sizes[SIZES - 1]);
        munmap(bench->out[k], sizes[SIZES - 1]);
    }
}

static kolo_dtype type_of(const char *text)
{
    for (int i = 0; i < KOLO_DTYPES; i++)
        if (strcmp(text, kolo_dtype_text((kolo_dtype)i)) == 0)
            return (kolo_dtype)i;
    fprintf(stderr, "fold_rate: no type '%s'\n", text);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct bench bench = {.processes = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2,
                          .dtype = argc > 2 ? type_of(argv[2]) : KOLO_FLOAT32,
                          .shared = map(sizeof(struct shared))};
    const size_t wanted = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (bench.processes < 1 || bench.processes > PROCESSES_MAX || wanted > VECTORS_MAX) {
        fprintf(stderr, "fold_rate: 1 to %d processes, 1 to %d vectors\n", PROCESSES_MAX,
                VECTORS_MAX);
        return EXIT_FAILURE;
    }
    printf("%8s %8s %10s %10s %10s %10s   GB/s of each\n%8s %8s %10s %10s %10s %10s\n", "vectors",
           "bytes", "fold us", "stream us", "copies us", "stream us", "", "each", "", "", "", "");
    for (size_t vectors = 2; vectors <= 8; vectors *= 2)
        if (wanted == 0 || wanted == vectors) {
            bench.vectors = vectors;
            run_all(&bench);
        }
    return EXIT_SUCCESS;
}
