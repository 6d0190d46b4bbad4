// SPDX-License-Identifier: Apache-2.0
// kolo as a side, using only its public interface.
#include <stdio.h>

#include <kolo/kolo.h>

#include "bench/compare/compare.h"

/* An older library, given by --kolo, may not have it. */
extern kolo_status kolo_alltoall(struct kolo_comm *, const void *, void *, size_t, kolo_dtype,
                                 const struct kolo_opts *, struct kolo_request **)
    __attribute__((weak));

static struct kolo_comm *comm;

static int told(kolo_status status, const char *call, char *detail)
{
    if (status == KOLO_OK)
        return 0;
    snprintf(detail, GATE_TEXT, "%s: %.120s", call, kolo_error_detail());
    return -1;
}

static int start(int rank, int nranks, const char *meet, char *detail)
{
    (void)meet;
    if (told(kolo_init(NULL, &comm), "kolo_init", detail) != 0)
        return -1;
    if (kolo_rank(comm) == rank && kolo_size(comm) == nranks)
        return 0;
    snprintf(detail, GATE_TEXT, "this is rank %d of %d, expected was %d of %d", kolo_rank(comm),
             kolo_size(comm), rank, nranks);
    return -1;
}

static bool can(enum collective collective, enum memory memory)
{
    (void)memory;
    return collective != ALLTOALL || kolo_alltoall;
}

static void *allocate(size_t bytes)
{
    void *memory;
    return kolo_alloc(comm, bytes, &memory) == KOLO_OK ? memory : NULL;
}

static void release(void *memory)
{
    (void)kolo_free(comm, memory);
}

static int barrier(char *detail)
{
    return told(kolo_barrier(comm, NULL, NULL), "kolo_barrier", detail);
}

static int play(const struct operation *operation, char *detail)
{
    void *send = operation->send, *recv = operation->recv;
    switch (operation->collective) {
    case ALLREDUCE:
        return told(
            kolo_allreduce(comm, send, recv, operation->count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL),
            "kolo_allreduce", detail);
    case ALLGATHER:
        return told(kolo_allgather(comm, send, recv, operation->block, KOLO_FLOAT32, NULL, NULL),
                    "kolo_allgather", detail);
    case BROADCAST:
        return told(
            kolo_broadcast(comm, recv, operation->count, KOLO_FLOAT32, operation->root, NULL, NULL),
            "kolo_broadcast", detail);
    case REDUCE_SCATTER:
        return told(kolo_reduce_scatter(comm, send, recv, operation->block, KOLO_FLOAT32, KOLO_SUM,
                                        NULL, NULL),
                    "kolo_reduce_scatter", detail);
    case ALLTOALL:
        return told(kolo_alltoall(comm, send, recv, operation->block, KOLO_FLOAT32, NULL, NULL),
                    "kolo_alltoall", detail);
    case COLLECTIVES:
        break;
    }
    snprintf(detail, GATE_TEXT, "no collective %d", (int)operation->collective);
    return -1;
}

static void end(void)
{
    kolo_finalize(comm);
}

const struct side this_side = {.start = start,
                               .can = can,
                               .allocate = allocate,
                               .release = release,
                               .barrier = barrier,
                               .play = play,
                               .end = end};
