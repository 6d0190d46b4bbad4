// SPDX-License-Identifier: Apache-2.0
// The table of operations: what each takes and gives, how it is called, and its bandwidth factor.
// busbw is algbw times the share of the data that must cross a rank's link whatever the algorithm
// (nccl-tests defines the factors), so it can be compared with the hardware at any number of ranks.
#include <string.h>

#include "bench/bench.h"

enum { WINDOW = 32 }; /* messages of `bandwidth` in flight at once */

static double factor_one(int nranks)
{
    return nranks > 1 ? 1 : 0;
}
static double factor_once(int nranks)
{
    return (double)(nranks - 1) / nranks;
}
static double factor_twice(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

/* ---- collectives ---- */

#define DATA(c) (c)->options->dtype
#define REDUCTION(c) (c)->options->dtype, (c)->options->op

static kolo_status call_allreduce(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_allreduce(c->comm, c->send, c->recv, c->count, REDUCTION(c), c->opts, request);
}
static kolo_status call_reduce(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_reduce(c->comm, c->send, c->recv, c->count, REDUCTION(c), c->root, c->opts,
                       request);
}
static kolo_status call_broadcast(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_broadcast(c->comm, c->recv, c->count, DATA(c), c->root, c->opts, request);
}
static kolo_status call_allgather(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_allgather(c->comm, c->send, c->recv, c->count, DATA(c), c->opts, request);
}
static kolo_status call_allgatherv(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_allgatherv(c->comm, c->send, c->recv, c->counts, c->displs, DATA(c), c->opts,
                           request);
}
static kolo_status call_reduce_scatter(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_reduce_scatter(c->comm, c->send, c->recv, c->count, REDUCTION(c), c->opts, request);
}
static kolo_status call_gather(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_gather(c->comm, c->send, c->recv, c->count, DATA(c), c->root, c->opts, request);
}
static kolo_status call_gatherv(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_gatherv(c->comm, c->send, c->recv, c->counts, c->displs, DATA(c), c->root, c->opts,
                        request);
}
static kolo_status call_scatter(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_scatter(c->comm, c->send, c->recv, c->count, DATA(c), c->root, c->opts, request);
}
static kolo_status call_scatterv(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_scatterv(c->comm, c->send, c->counts, c->displs, c->recv, DATA(c), c->root, c->opts,
                         request);
}
static kolo_status call_reduce_scatterv(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_reduce_scatterv(c->comm, c->send, c->recv, c->counts, REDUCTION(c), c->opts,
                                request);
}
static kolo_status call_alltoall(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_alltoall(c->comm, c->send, c->recv, c->count, DATA(c), c->opts, request);
}
static kolo_status call_alltoallv(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_alltoallv(c->comm, c->send, c->counts, c->displs, c->recv, c->from_counts,
                          c->from_displs, DATA(c), c->opts, request);
}
static kolo_status call_barrier(const struct bench_call *c, struct kolo_request **request)
{
    return kolo_barrier(c->comm, c->opts, request);
}

/* ---- between two ranks ---- */

static kolo_status to_itself(const struct bench_call *c)
{
    if (bench_is_device(c->options->memory)) /* the host cannot access it: a collective of one */
        return kolo_allgather(c->comm, c->send, c->recv, c->count, DATA(c), NULL, NULL);
    memmove(c->recv, c->send, c->count * kolo_dtype_bytes(DATA(c)));
    return KOLO_OK;
}

static kolo_status send_to(const struct bench_call *c, int peer, struct kolo_request **request)
{
    return kolo_send(c->comm, c->send, c->count, DATA(c), peer, NULL, request);
}

static kolo_status receive_from(const struct bench_call *c, int peer, struct kolo_request **request)
{
    return kolo_recv(c->comm, c->recv, c->count, DATA(c), peer, NULL, request);
}

/* Every rank sends to the right and receives from the left. */
static kolo_status call_sendrecv(const struct bench_call *c, struct kolo_request **request)
{
    struct kolo_request *receiving = NULL;
    (void)request;
    if (c->nranks == 1)
        return to_itself(c);
    kolo_status status = receive_from(c, (c->rank + c->nranks - 1) % c->nranks, &receiving);
    if (status == KOLO_OK)
        status = send_to(c, (c->rank + 1) % c->nranks, NULL);
    kolo_status received = kolo_wait(&receiving, -1);
    return status == KOLO_OK ? received : status;
}

/* There and back: two messages. The other ranks do nothing. */
static kolo_status call_pingpong(const struct bench_call *c, struct kolo_request **request)
{
    (void)request;
    if (c->nranks == 1)
        return to_itself(c);
    if (c->rank != 0 && c->rank != c->peer)
        return KOLO_OK;
    int other = c->rank == 0 ? c->peer : 0;
    kolo_status status = c->rank == 0 ? send_to(c, other, NULL) : receive_from(c, other, NULL);
    if (status != KOLO_OK)
        return status;
    return c->rank == 0 ? receive_from(c, other, NULL) : send_to(c, other, NULL);
}

/* WINDOW messages one way, then one element back, which confirms that they have come. */
static kolo_status call_bandwidth(const struct bench_call *c, struct kolo_request **request)
{
    struct kolo_request *requests[WINDOW] = {NULL};
    kolo_status status = KOLO_OK;
    (void)request;
    if (c->nranks == 1)
        return to_itself(c);
    if (c->rank != 0 && c->rank != c->peer)
        return KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < WINDOW; i++)
        status =
            c->rank == 0 ? send_to(c, c->peer, &requests[i]) : receive_from(c, 0, &requests[i]);
    for (int i = 0; i < WINDOW; i++) {
        kolo_status ended = kolo_wait(&requests[i], -1);
        status = status == KOLO_OK ? ended : status;
    }
    if (status != KOLO_OK)
        return status;
    return c->rank == 0 ? kolo_recv(c->comm, c->recv, 1, DATA(c), c->peer, NULL, NULL)
                        : kolo_send(c->comm, c->send, 1, DATA(c), 0, NULL, NULL);
}

const struct bench_operation bench_operations[] = {
    {.name = "allreduce",
     .reduces = true,
     .in_place = true,
     .send = BENCH_ONE,
     .recv = BENCH_ONE,
     .result = BENCH_REDUCED,
     .bus_factor = factor_twice,
     .call = call_allreduce},
    {.name = "reduce",
     .reduces = true,
     .has_root = true,
     .in_place = true,
     .send = BENCH_ONE,
     .recv = BENCH_ONE,
     .result = BENCH_REDUCED,
     .on_root = true,
     .bus_factor = factor_one,
     .call = call_reduce},
    {.name = "broadcast",
     .has_root = true,
     .in_place = true,
     .send = BENCH_NOTHING,
     .recv = BENCH_ONE,
     .result = BENCH_ROOTS,
     .bus_factor = factor_one,
     .call = call_broadcast},
    {.name = "allgather",
     .in_place = true,
     .send = BENCH_OWN,
     .recv = BENCH_ALL,
     .result = BENCH_GATHERED,
     .bus_factor = factor_once,
     .call = call_allgather},
    {.name = "allgatherv",
     .in_place = true,
     .uneven = true,
     .send = BENCH_OWN,
     .recv = BENCH_ALL,
     .result = BENCH_GATHERED,
     .bus_factor = factor_once,
     .call = call_allgatherv},
    {.name = "reduce_scatter",
     .reduces = true,
     .in_place = true,
     .send = BENCH_ALL,
     .recv = BENCH_OWN,
     .result = BENCH_REDUCED,
     .bus_factor = factor_once,
     .call = call_reduce_scatter},
    {.name = "reduce_scatterv",
     .reduces = true,
     .in_place = true,
     .uneven = true,
     .send = BENCH_ALL,
     .recv = BENCH_OWN,
     .result = BENCH_REDUCED,
     .bus_factor = factor_once,
     .call = call_reduce_scatterv},
    {.name = "gather",
     .has_root = true,
     .in_place = true,
     .send = BENCH_OWN,
     .recv = BENCH_ALL,
     .result = BENCH_GATHERED,
     .on_root = true,
     .bus_factor = factor_once,
     .call = call_gather},
    {.name = "gatherv",
     .has_root = true,
     .in_place = true,
     .uneven = true,
     .send = BENCH_OWN,
     .recv = BENCH_ALL,
     .result = BENCH_GATHERED,
     .on_root = true,
     .bus_factor = factor_once,
     .call = call_gatherv},
    {.name = "scatter",
     .has_root = true,
     .in_place = true,
     .send = BENCH_ALL,
     .recv = BENCH_OWN,
     .result = BENCH_ROOTS,
     .bus_factor = factor_once,
     .call = call_scatter},
    {.name = "scatterv",
     .has_root = true,
     .in_place = true,
     .uneven = true,
     .send = BENCH_ALL,
     .recv = BENCH_OWN,
     .result = BENCH_ROOTS,
     .bus_factor = factor_once,
     .call = call_scatterv},
    {.name = "alltoall",
     .send = BENCH_ALL,
     .recv = BENCH_ALL,
     .result = BENCH_TRANSPOSED,
     .bus_factor = factor_once,
     .call = call_alltoall},
    {.name = "alltoallv",
     .uneven = true,
     .send = BENCH_ALL,
     .recv = BENCH_ALL,
     .result = BENCH_TRANSPOSED,
     .bus_factor = factor_once,
     .call = call_alltoallv},
    {.name = "sendrecv",
     .send = BENCH_ONE,
     .recv = BENCH_ONE,
     .result = BENCH_NEIGHBOURS,
     .bus_factor = factor_one,
     .call = call_sendrecv},
    {.name = "pingpong",
     .send = BENCH_ONE,
     .recv = BENCH_ONE,
     .result = BENCH_PEERS,
     .bus_factor = factor_one,
     .messages = 2,
     .call = call_pingpong},
    {.name = "bandwidth",
     .send = BENCH_ONE,
     .recv = BENCH_ONE,
     .result = BENCH_FROM_FIRST,
     .bus_factor = factor_one,
     .messages = WINDOW,
     .call = call_bandwidth},
    {.name = "barrier", .bus_factor = factor_one, .call = call_barrier},
    {0},
};

const struct bench_operation *bench_operation_find(const char *name)
{
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        if (strcmp(operation->name, name) == 0)
            return operation;
    return NULL;
}

enum kolo_collective bench_collective_of(const struct bench_operation *operation)
{
    size_t length = strlen(operation->name) - operation->uneven; /* without the v */
    int collective = 0;
    for (; collective < KOLO_COLLECTIVES; collective++) {
        const char *text = kolo_collective_text((enum kolo_collective)collective);
        if (strlen(text) == length && strncmp(text, operation->name, length) == 0)
            break;
    }
    return (enum kolo_collective)collective;
}

/* ---- sizes ---- */

size_t bench_unit_bytes(const struct bench_operation *operation,
                        const struct bench_options *options, int nranks)
{
    size_t element = kolo_dtype_bytes(options->dtype);
    if (operation->recv == BENCH_NOTHING && operation->send == BENCH_NOTHING)
        return 0;
    bool by_rank = operation->send == BENCH_ALL || operation->recv == BENCH_ALL;
    return by_rank ? element * (size_t)nranks : element;
}

/* Uneven blocks: of two neighbours one block is half as long again, the other half as long, so that
 * the vector is as long as with even ones. */
size_t bench_pair_count(const struct bench_call *call, int from, int to)
{
    bool transposed = call->operation->result == BENCH_TRANSPOSED;
    int place = transposed ? (from + to) % call->nranks : to;
    if (!call->operation->uneven || (place == call->nranks - 1 && call->nranks % 2 == 1))
        return call->count;
    return place % 2 == 0 ? call->count + call->count / 2 : call->count - call->count / 2;
}

static size_t elements(const struct bench_call *call, enum bench_shape shape, bool sends)
{
    const size_t *counts = sends || !call->from_counts ? call->counts : call->from_counts;
    size_t all = 0;
    switch (shape) {
    case BENCH_NOTHING:
        return 0;
    case BENCH_ONE:
        return call->count;
    case BENCH_OWN:
        return call->counts[call->rank];
    case BENCH_ALL:
        break;
    }
    for (int rank = 0; rank < call->nranks; rank++)
        all += counts[rank];
    return all;
}

size_t bench_call_send_count(const struct bench_call *call)
{
    return elements(call, call->operation->send, true);
}

size_t bench_call_recv_count(const struct bench_call *call)
{
    return elements(call, call->operation->recv, false);
}
