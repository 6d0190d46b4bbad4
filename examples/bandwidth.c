// SPDX-License-Identifier: Apache-2.0
// Measures an allreduce in a few lines: copy this file, and put your own call in its place.
//
//   cc -O2 bandwidth.c -o bandwidth -lkolo
//   kolorun -np 4 bandwidth [BYTES]     64 MiB by default
//
// Rank 0 prints the mean time of a call, algbw (bytes over time) and busbw (what each rank has to
// send, over time), as nccl-tests defines them. kolobench measures all collectives, and more.
#include <stdio.h>
#include <stdlib.h>
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
    const double each = (seconds() - begin) / CALLS, ranks = kolo_size(comm);
    const double algbw = (double)count * sizeof(float) / each / 1e9;
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        printf("%zu bytes on %g ranks: %.1f us, algbw %.2f GB/s, busbw %.2f GB/s\n",
               count * sizeof(float), ranks, each * 1e6, algbw, algbw * 2 * (ranks - 1) / ranks);
    return status;
}

int main(int argc, char **argv)
{
    const size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : (size_t)64 << 20;
    struct kolo_comm *comm = NULL;
    void *data = NULL;
    kolo_status status = kolo_init(NULL, &comm);
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
