// SPDX-License-Identifier: Apache-2.0
// Every collective behind one function, for tests that compare the same call with different memory,
// plans or transports.
#ifndef KOLO_TESTS_ANY_COLLECTIVE_H
#define KOLO_TESTS_ANY_COLLECTIVE_H

#include <kolo/kolo.h>

enum any_collective {
    ANY_ALLREDUCE,
    ANY_REDUCE,
    ANY_BROADCAST, /* the data is in recv */
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
    /** elements of a block; if the blocks differ, rank r's has `less` * r fewer */
    size_t count;
    /** if the blocks differ, the distance between their starts, in elements; not of
     * reduce_scatterv */
    size_t less, apart;
    const struct kolo_opts *opts;
};

/** The root is the rank in the middle. Returns ERR_INTERNAL if there is no such collective. */
kolo_status any_collective(struct kolo_comm *comm, const struct any_call *call, const void *send,
                           void *recv);

#endif
