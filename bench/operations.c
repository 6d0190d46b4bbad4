// SPDX-License-Identifier: Apache-2.0
// The table of operations: how each is called, its bandwidth factors, and what must come out of it.
// busbw is algbw times the share of the data that must cross a rank's link however clever the
// algorithm is (nccl-tests defines the factors), so it can be held against the hardware whatever
// the number of ranks.
#include <string.h>

#include "bench/bench.h"
#include "memory/reduce.h"

static size_t no_block(int nranks)
{
    (void)nranks;
    return 0;
}

static size_t one_block(int nranks)
{
    (void)nranks;
    return 1;
}
static size_t all_blocks(int nranks)
{
    return (size_t)nranks;
}
static double factor_one(int nranks)
{
    (void)nranks;
    return 1;
}
static double factor_once(int nranks)
{
    return (double)(nranks - 1) / nranks;
}
static double factor_twice(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

/* ---- data ---- */

double bench_value(const struct bench_options *options, int rank, size_t i)
{
    if (options->op == KOLO_PROD) /* one rank holds 2, the others 1 */
        return (size_t)rank == i % 3 ? 2 : 1;
    return (double)((i * 5 + (size_t)rank * 3) % 4);
}

/* Integers wrap around as the type does; floats are rounded as it does. */
static double stored(kolo_dtype dtype, double value)
{
    switch (dtype) {
    case KOLO_INT8:
        return (int8_t)(uint8_t)(int64_t)value;
    case KOLO_INT16:
        return (int16_t)(uint16_t)(int64_t)value;
    case KOLO_INT32:
        return (int32_t)(uint32_t)(int64_t)value;
    case KOLO_INT64:
        return (double)(int64_t)value;
    case KOLO_UINT8:
        return (uint8_t)(int64_t)value;
    case KOLO_FLOAT16:
        return (double)kolo_float16_to_float(kolo_float16_from_float((float)value));
    case KOLO_BFLOAT16:
        return (double)kolo_bfloat16_to_float(kolo_bfloat16_from_float((float)value));
    case KOLO_FLOAT32:
        return (double)(float)value;
    case KOLO_FLOAT64:
    case KOLO_DTYPES:
        break;
    }
    return value;
}

double bench_reduced(const struct bench_options *options, int nranks, size_t i)
{
    double result = bench_value(options, 0, i);
    for (int rank = 1; rank < nranks; rank++) {
        double value = bench_value(options, rank, i);
        if (options->op == KOLO_MIN)
            result = value < result ? value : result;
        else if (options->op == KOLO_MAX)
            result = value > result ? value : result;
        else if (options->op == KOLO_PROD)
            result *= value;
        else
            result = stored(options->dtype, result + value);
    }
    if (options->op == KOLO_AVERAGE)
        result /= nranks;
    return stored(options->dtype, result);
}

/* ---- what must come out ---- */

static bool expect_reduced(const struct bench_call *call, int rank, size_t i, double *value_out)
{
    (void)rank;
    *value_out = bench_reduced(call->options, kolo_size(call->comm), i);
    return true;
}

static bool expect_reduced_on_root(const struct bench_call *call, int rank, size_t i,
                                   double *value_out)
{
    return rank == call->options->root && expect_reduced(call, rank, i, value_out);
}

static bool expect_reduced_block(const struct bench_call *call, int rank, size_t i,
                                 double *value_out)
{
    return expect_reduced(call, rank, (size_t)rank * call->count + i, value_out);
}

static bool expect_roots(const struct bench_call *call, int rank, size_t i, double *value_out)
{
    (void)rank;
    *value_out = bench_value(call->options, call->options->root, i);
    return true;
}

static bool expect_gathered(const struct bench_call *call, int rank, size_t i, double *value_out)
{
    (void)rank;
    *value_out = bench_value(call->options, (int)(i / call->count), i % call->count);
    return true;
}

static bool expect_gathered_on_root(const struct bench_call *call, int rank, size_t i,
                                    double *value_out)
{
    return rank == call->options->root && expect_gathered(call, rank, i, value_out);
}

static bool expect_scattered(const struct bench_call *call, int rank, size_t i, double *value_out)
{
    *value_out = bench_value(call->options, call->options->root, (size_t)rank * call->count + i);
    return true;
}

static bool expect_left_neighbours(const struct bench_call *call, int rank, size_t i,
                                   double *value_out)
{
    int nranks = kolo_size(call->comm);
    *value_out = bench_value(call->options, (rank + nranks - 1) % nranks, i);
    return true;
}

static bool expect_nothing(const struct bench_call *call, int rank, size_t i, double *value_out)
{
    (void)call, (void)rank, (void)i, (void)value_out;
    return false;
}

/* ---- calls ---- */

static kolo_status call_allreduce(const struct bench_call *c)
{
    return kolo_allreduce(c->comm, c->send, c->recv, c->count, c->options->dtype, c->options->op,
                          NULL, NULL);
}
static kolo_status call_reduce(const struct bench_call *c)
{
    return kolo_reduce(c->comm, c->send, c->recv, c->count, c->options->dtype, c->options->op,
                       c->options->root, NULL, NULL);
}
static kolo_status call_broadcast(const struct bench_call *c)
{
    void *buffer = kolo_rank(c->comm) == c->options->root ? c->send : c->recv;
    return kolo_broadcast(c->comm, buffer, c->count, c->options->dtype, c->options->root, NULL,
                          NULL);
}
static kolo_status call_allgather(const struct bench_call *c)
{
    return kolo_allgather(c->comm, c->send, c->recv, c->count, c->options->dtype, NULL, NULL);
}
static kolo_status call_reduce_scatter(const struct bench_call *c)
{
    return kolo_reduce_scatter(c->comm, c->send, c->recv, c->count, c->options->dtype,
                               c->options->op, NULL, NULL);
}
static kolo_status call_gather(const struct bench_call *c)
{
    return kolo_gather(c->comm, c->send, c->recv, c->count, c->options->dtype, c->options->root,
                       NULL, NULL);
}
static kolo_status call_scatter(const struct bench_call *c)
{
    return kolo_scatter(c->comm, c->send, c->recv, c->count, c->options->dtype, c->options->root,
                        NULL, NULL);
}
static kolo_status call_barrier(const struct bench_call *c)
{
    return kolo_barrier(c->comm, NULL, NULL);
}

/* Everybody sends to the right and receives from the left. */
static kolo_status call_sendrecv(const struct bench_call *c)
{
    int nranks = kolo_size(c->comm), rank = kolo_rank(c->comm);
    struct kolo_request *request = NULL;
    if (nranks == 1) { /* its own neighbour */
        memmove(c->recv, c->send, c->count * kolo_dtype_bytes(c->options->dtype));
        return KOLO_OK;
    }
    kolo_status status = kolo_recv(c->comm, c->recv, c->count, c->options->dtype,
                                   (rank + nranks - 1) % nranks, NULL, &request);
    if (status == KOLO_OK)
        status = kolo_send(c->comm, c->send, c->count, c->options->dtype, (rank + 1) % nranks, NULL,
                           NULL);
    kolo_status received = kolo_wait(&request, -1);
    return status == KOLO_OK ? received : status;
}

const struct bench_operation bench_operations[] = {
    {"allreduce", true, false, one_block, one_block, one_block, factor_twice, call_allreduce,
     expect_reduced},
    {"reduce", true, true, one_block, one_block, one_block, factor_one, call_reduce,
     expect_reduced_on_root},
    {"broadcast", false, true, one_block, one_block, one_block, factor_one, call_broadcast,
     expect_roots},
    {"allgather", false, false, one_block, all_blocks, all_blocks, factor_once, call_allgather,
     expect_gathered},
    {"reduce_scatter", true, false, all_blocks, one_block, all_blocks, factor_once,
     call_reduce_scatter, expect_reduced_block},
    {"gather", false, true, one_block, all_blocks, all_blocks, factor_once, call_gather,
     expect_gathered_on_root},
    {"scatter", false, true, all_blocks, one_block, all_blocks, factor_once, call_scatter,
     expect_scattered},
    {"sendrecv", false, false, one_block, one_block, one_block, factor_one, call_sendrecv,
     expect_left_neighbours},
    {"barrier", false, false, one_block, one_block, no_block, factor_one, call_barrier,
     expect_nothing},
    {0},
};

const struct bench_operation *bench_operation_find(const char *name)
{
    for (const struct bench_operation *operation = bench_operations; operation->name; operation++)
        if (strcmp(operation->name, name) == 0)
            return operation;
    return NULL;
}
