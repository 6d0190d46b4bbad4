// SPDX-License-Identifier: Apache-2.0
// Measures an allreduce in a few lines: copy this file, and put your own call in its place.
//
//   cc -O2 bandwidth.c -o bandwidth -lkolo
//   kolorun -np 4 bandwidth [BYTES]     64M, which is 64 MiB, by default
//
// Rank 0 prints the mean time of a call, algbw (bytes over time) and busbw (what each rank has to
// send, over time), as nccl-tests defines them. kolobench measures all collectives, and more.
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/kolo.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static kolo_status measure(struct kolo_comm *comm, float *data, size_t count)
{
    enum { WARM_UP = 5, CALLS = 20 };
    double begin = 0;
    kolo_status status = KOLO_OK;
    for (int call = -WARM_UP; call < CALLS && status == KOLO_OK; call++) {
        begin = call == 0 ? seconds() : begin;
        status = kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    }
    const double each = (seconds() - begin) / (double)CALLS, ranks = kolo_size(comm);
    const double algbw = (double)count * sizeof(float) / each / 1e9;
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        printf("%zu bytes on %g ranks: %.1f us, algbw %.2f GB/s, busbw %.2f GB/s\n",
               count * sizeof(float), ranks, each * 1e6, algbw, algbw * 2 * (ranks - 1) / ranks);
    return status;
}

/* A number of bytes that holds at least one element: 65536, 64K, 64M, 64G or 64KiB, for example. */
static bool parse_bytes(const char *text, size_t *bytes_out)
{
    static const char *const units[] = {"", "K", "M", "G", "", "KiB", "MiB", "GiB"};
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    for (int i = 0; i < 8; i++)
        if (strcmp(end, units[i]) == 0) {
            const int shift = 10 * (i % 4);
            *bytes_out = (size_t)number << shift;
            return end != text && !errno && number > 0 && number <= INT64_MAX >> shift &&
                   *bytes_out >= sizeof(float);
        }
    return false;
}

/* Returns -1 to go on, else the exit status. Only rank 0 complains, once for the job: before
 * kolo_init() the environment tells which rank this is. */
static int parse_arguments(int argc, char **argv, size_t *bytes_out)
{
    const char *rank = getenv("RANK");
    const bool speaks = !rank || strcmp(rank, "0") == 0;
    if (argc < 2 || (argc == 2 && parse_bytes(argv[1], bytes_out)))
        return -1;
    const bool helps = strcmp(argv[1], "--help") == 0;
    if (speaks && helps)
        printf("usage: bandwidth [BYTES]\n"
               "  BYTES  size of the allreduce, such as 100000, 64K, 64M or 1G [64M]\n");
    else if (speaks)
        fprintf(stderr, "bandwidth: '%s': expected one number of bytes from 4, such as 64M\n",
                argc > 2 ? argv[2] : argv[1]);
    return helps ? 0 : 2;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)64 << 20;
    const int usage_status = parse_arguments(argc, argv, &bytes);
    struct kolo_comm *comm = NULL;
    void *data = NULL;
    if (usage_status == 0) /* --help needs no other rank */
        return 0;
    kolo_status status = kolo_init(NULL, &comm);
    if (usage_status > 0) { /* not before kolo_init(): a rank that fails ends the job, and rank 0
                                may not have complained yet */
        kolo_finalize(comm);
        return usage_status;
    }
    if (status == KOLO_OK)
        status = kolo_alloc(comm, bytes, &data); /* zeroed; the host's ranks can read it in place */
    if (status == KOLO_OK)
        status = measure(comm, data, bytes / sizeof(float));
    if (status != KOLO_OK)
        fprintf(stderr, "bandwidth: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    kolo_free(comm, data);
    kolo_finalize(comm);
    if (fflush(stdout) != 0 || ferror(stdout)) { /* on a full disk, for example */
        fprintf(stderr, "bandwidth: cannot write the result to standard output\n");
        return 1;
    }
    return status != KOLO_OK;
}
