// SPDX-License-Identifier: Apache-2.0
// Every collective by one call, for tests that hold the same call with different memory, plans or
// transports against each other.
#ifndef KOLO_TESTS_ANY_COLLECTIVE_H
#define KOLO_TESTS_ANY_COLLECTIVE_H

#include <kolo/kolo.h>

enum any_collective {
    ANY_ALLREDUCE,
    ANY_REDUCE,
    ANY_BROADCAST, /* of recv */
    ANY_ALLGATHER,
    ANY_ALLGATHERV,
    ANY_REDUCE_SCATTER,
    ANY_REDUCE_SCATTERV,
    ANY_GATHER,
    ANY_GATHERV,
    ANY_SCATTER,
    ANY_SCATTERV,
    ANY_ALLTOALL,
    ANY_ALLTOALLV,
    ANY_COLLECTIVES
};
enum { ANY_RANKS_MAX = 64 };

struct any_call {
    enum any_collective which;
    kolo_dtype dtype;
    kolo_redop op;
    size_t count; /* elements of a block; of those that differ, of rank r's: less r times `less` */
    size_t less,
        apart; /* blocks that differ begin so many elements apart; not of reduce_scatterv */
    const struct kolo_opts *opts;
};

/** The root is the rank in the middle. ERR_INTERNAL: there is no such collective. */
kolo_status any_collective(struct kolo_comm *comm, const struct any_call *call, const void *send,
                           void *recv);

#endif
