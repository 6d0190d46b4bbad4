// SPDX-License-Identifier: Apache-2.0
// Ranks whose calls are known, for tests of the timeline: COUNT allreduces of 100 float32, a
// broadcast of 10 int32 from rank 1, an asynchronous allreduce called "grad/1", and 7 float64 from
// rank 0 to rank 1.
//
//   calls COUNT             that
//   calls COUNT die VICTIM  VICTIM kills itself before its allreduce number COUNT / 2
//   calls COUNT late RANK   RANK comes 20 ms after the others to each allreduce
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/kolo.h>

enum { FLOATS = 100, LATE_NS = 20000000 };

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void compute(void)
{
    for (const long long end = now_ns() + LATE_NS; now_ns() < end;)
        ;
}

static kolo_status reduce(struct kolo_comm *comm, int count, const char *mode, int who)
{
    static float data[FLOATS];
    kolo_status status = KOLO_OK;
    for (int i = 0; i < count && status == KOLO_OK; i++) {
        if (strcmp(mode, "die") == 0 && kolo_rank(comm) == who && i == count / 2)
            raise(SIGKILL);
        if (strcmp(mode, "late") == 0 && kolo_rank(comm) == who)
            compute();
        status = kolo_allreduce(comm, data, data, FLOATS, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    }
    return status;
}

static kolo_status rest(struct kolo_comm *comm)
{
    static const struct kolo_opts named = {.size = sizeof named, .name = "grad/1"};
    static float data[FLOATS];
    static double message[7];
    struct kolo_request *request = NULL;
    kolo_status status = kolo_broadcast(comm, data, 10, KOLO_INT32, 1, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, data, data, FLOATS, KOLO_FLOAT32, KOLO_MAX, &named, &request);
    if (status == KOLO_OK)
        status = kolo_wait(&request, -1);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = kolo_send(comm, message, 7, KOLO_FLOAT64, 1, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 1)
        status = kolo_recv(comm, message, 7, KOLO_FLOAT64, 0, NULL, NULL);
    return status;
}

int main(int argc, char **argv)
{
    struct kolo_comm *comm = NULL;
    const int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    const char *mode = argc > 3 ? argv[2] : "";
    const int who = argc > 3 ? (int)strtol(argv[3], NULL, 10) : -1;
    kolo_status status = kolo_init(NULL, &comm);
    if (status == KOLO_OK)
        status = reduce(comm, count, mode, who);
    if (status == KOLO_OK)
        status = rest(comm);
    if (status != KOLO_OK)
        fprintf(stderr, "%s: %s\n", kolo_status_text(status), kolo_error_detail());
    kolo_finalize(comm);
    return status != KOLO_OK;
}
