// SPDX-License-Identifier: Apache-2.0
// See any_collective.h: one switch over all collectives.
#include "tests/support/any_collective.h"

/** The collectives whose blocks differ by rank. */
static kolo_status uneven(struct kolo_comm *comm, const struct any_call *call, const void *send,
                          void *recv)
{
    const int size = kolo_size(comm), root = size / 2;
    const kolo_dtype dtype = call->dtype;
    size_t counts[ANY_RANKS_MAX], displs[ANY_RANKS_MAX], own[ANY_RANKS_MAX];
    for (int i = 0; i < size; i++) {
        counts[i] = call->count - call->less * (size_t)i;
        own[i] = call->count - call->less * (size_t)kolo_rank(comm);
        displs[i] = call->apart * (size_t)i;
    }
    if (call->which == ANY_ALLGATHERV)
        return kolo_allgatherv(comm, send, recv, counts, displs, dtype, call->opts, NULL);
    if (call->which == ANY_REDUCE_SCATTERV)
        return kolo_reduce_scatterv(comm, send, recv, counts, dtype, call->op, call->opts, NULL);
    if (call->which == ANY_GATHERV)
        return kolo_gatherv(comm, send, recv, counts, displs, dtype, root, call->opts, NULL);
    if (call->which == ANY_SCATTERV)
        return kolo_scatterv(comm, send, counts, displs, recv, dtype, root, call->opts, NULL);
    return kolo_alltoallv(comm, send, counts, displs, recv, own, displs, dtype, call->opts, NULL);
}

kolo_status any_collective(struct kolo_comm *comm, const struct any_call *call, const void *send,
                           void *recv)
{
    const int root = kolo_size(comm) / 2;
    const size_t count = call->count;
    const kolo_dtype dtype = call->dtype;
    switch (call->which) {
    case ANY_ALLREDUCE:
        return kolo_allreduce(comm, send, recv, count, dtype, call->op, call->opts, NULL);
    case ANY_REDUCE:
        return kolo_reduce(comm, send, recv, count, dtype, call->op, root, call->opts, NULL);
    case ANY_BROADCAST:
        return kolo_broadcast(comm, recv, count, dtype, root, call->opts, NULL);
    case ANY_ALLGATHER:
        return kolo_allgather(comm, send, recv, count, dtype, call->opts, NULL);
    case ANY_REDUCE_SCATTER:
        return kolo_reduce_scatter(comm, send, recv, count, dtype, call->op, call->opts, NULL);
    case ANY_GATHER:
        return kolo_gather(comm, send, recv, count, dtype, root, call->opts, NULL);
    case ANY_SCATTER:
        return kolo_scatter(comm, send, recv, count, dtype, root, call->opts, NULL);
    case ANY_ALLTOALL:
        return kolo_alltoall(comm, send, recv, count, dtype, call->opts, NULL);
    case ANY_ALLGATHERV:
    case ANY_REDUCE_SCATTERV:
    case ANY_GATHERV:
    case ANY_SCATTERV:
    case ANY_ALLTOALLV:
        return uneven(comm, call, send, recv);
    case ANY_COLLECTIVES:
        break;
    }
    return KOLO_ERR_INTERNAL;
}
