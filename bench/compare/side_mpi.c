// SPDX-License-Identifier: Apache-2.0
// An MPI library as a side; compiled separately for each MPI.
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include "bench/compare/compare.h"

static int told(int error, const char *call, char *detail)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (error == MPI_SUCCESS)
        return 0;
    MPI_Error_string(error, text, &length);
    snprintf(detail, GATE_TEXT, "%s: %.120s", call, text);
    return -1;
}

static int start(int rank, int nranks, const char *meet, char *detail)
{
    int is_rank = -1, is_size = -1;
    (void)meet;
    if (told(MPI_Init(NULL, NULL), "MPI_Init", detail) != 0)
        return -1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &is_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &is_size);
    if (is_rank == rank && is_size == nranks)
        return 0;
    snprintf(detail, GATE_TEXT, "this is rank %d of %d, expected was %d of %d", is_rank, is_size,
             rank, nranks);
    return -1;
}

static bool can(enum collective collective, enum memory memory)
{
    (void)collective;
    return memory == MEMORY_USER;
}

static void *allocate(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void release(void *memory)
{
    (void)memory;
}

static int barrier(char *detail)
{
    return told(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", detail);
}

static int play(const struct operation *operation, char *detail)
{
    int count = (int)operation->count, block = (int)operation->block;
    MPI_Comm comm = MPI_COMM_WORLD;
    switch (operation->collective) {
    case ALLREDUCE:
        return told(
            MPI_Allreduce(operation->send, operation->recv, count, MPI_FLOAT, MPI_SUM, comm),
            "MPI_Allreduce", detail);
    case ALLGATHER:
        return told(MPI_Allgather(operation->send, block, MPI_FLOAT, operation->recv, block,
                                  MPI_FLOAT, comm),
                    "MPI_Allgather", detail);
    case BROADCAST:
        return told(MPI_Bcast(operation->recv, count, MPI_FLOAT, operation->root, comm),
                    "MPI_Bcast", detail);
    case REDUCE_SCATTER:
        return told(MPI_Reduce_scatter_block(operation->send, operation->recv, block, MPI_FLOAT,
                                             MPI_SUM, comm),
                    "MPI_Reduce_scatter_block", detail);
    case ALLTOALL:
        return told(MPI_Alltoall(operation->send, block, MPI_FLOAT, operation->recv, block,
                                 MPI_FLOAT, comm),
                    "MPI_Alltoall", detail);
    case COLLECTIVES:
        break;
    }
    snprintf(detail, GATE_TEXT, "no collective %d", (int)operation->collective);
    return -1;
}

static void end(void)
{
    MPI_Finalize();
}

const struct side this_side = {.start = start,
                               .can = can,
                               .allocate = allocate,
                               .release = release,
                               .barrier = barrier,
                               .play = play,
                               .end = end};
