// SPDX-License-Identifier: Apache-2.0
// Measures one operation at one size. Time is that of a loop of calls between two points at which
// all ranks are together, divided by the calls, on the slowest rank. The check compares every
// element of the receive buffer with what must come out, on every rank; it runs one more call on
// freshly filled buffers, outside the timed loop.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "bench/bench.h"
#include "memory/reduce.h"

enum { AUTO_MIN = 3, AUTO_MAX = 10000, AUTO_NS = 200000000 };

/* ---- elements ---- */

static void store_integer(void *at, size_t bytes, int64_t value)
{
    memcpy(at, &value, bytes); /* little-endian */
}

static void store(void *data, kolo_dtype dtype, size_t i, double value)
{
    size_t bytes = kolo_dtype_bytes(dtype);
    uint8_t *at = (uint8_t *)data + i * bytes;
    float narrow = (float)value;
    unsigned short half;
    switch (dtype) {
    case KOLO_FLOAT16:
        half = kolo_float16_from_float(narrow);
        memcpy(at, &half, sizeof half);
        return;
    case KOLO_BFLOAT16:
        half = kolo_bfloat16_from_float(narrow);
        memcpy(at, &half, sizeof half);
        return;
    case KOLO_FLOAT32:
        memcpy(at, &narrow, sizeof narrow);
        return;
    case KOLO_FLOAT64:
        memcpy(at, &value, sizeof value);
        return;
    case KOLO_INT8:
    case KOLO_INT16:
    case KOLO_INT32:
    case KOLO_INT64:
    case KOLO_UINT8:
    case KOLO_DTYPES:
        break;
    }
    store_integer(at, bytes, (int64_t)value);
}

static void fill_send(const struct bench_call *call, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store(call->send, call->options->dtype, i,
              bench_value(call->options, kolo_rank(call->comm), i));
}

/* Bytes that no result has. */
static void fill_recv(const struct bench_call *call, size_t count)
{
    memset(call->recv, 0x5a, count * kolo_dtype_bytes(call->options->dtype));
}

static int64_t count_errors(const struct bench_call *call, const struct bench_operation *operation,
                            size_t count)
{
    size_t bytes = kolo_dtype_bytes(call->options->dtype);
    const uint8_t *recv = call->recv;
    int rank = kolo_rank(call->comm);
    bool is_broadcast_root =
        strcmp(operation->name, "broadcast") == 0 && rank == call->options->root;
    int64_t errors = 0;
    for (size_t i = 0; i < count && !is_broadcast_root; i++) {
        double value;
        uint8_t expected[8];
        if (!operation->expected(call, rank, i, &value))
            break;
        store(expected, call->options->dtype, 0, value);
        errors += memcmp(recv + i * bytes, expected, bytes) != 0;
    }
    return errors;
}

/* ---- buffers ---- */

static kolo_status allocate(const struct bench_call *call, size_t bytes, void **memory_out)
{
    if (!call->options->user_memory)
        return kolo_alloc(call->comm, bytes ? bytes : 1, memory_out);
    *memory_out = kolo_aligned(4096, bytes ? bytes : 1);
    return *memory_out ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(const struct bench_call *call, void *memory)
{
    if (call->options->user_memory)
        kolo_free_memory(memory);
    else if (memory)
        (void)kolo_free(call->comm, memory);
}

/* ---- time ---- */

static kolo_status time_calls(const struct bench_call *call,
                              const struct bench_operation *operation, int64_t calls,
                              int64_t *ns_out)
{
    kolo_status status = kolo_barrier(call->comm, NULL, NULL);
    int64_t begun = kolo_now_ns();
    for (int64_t i = 0; status == KOLO_OK && i < calls; i++)
        status = operation->call(call);
    *ns_out = kolo_now_ns() - begun;
    if (status == KOLO_OK)
        status = kolo_allreduce(call->comm, ns_out, ns_out, 1, KOLO_INT64, KOLO_MAX, NULL, NULL);
    return status;
}

/* The time of a few calls decides how many are timed, equally on all ranks. */
static kolo_status measure_time(const struct bench_call *call,
                                const struct bench_operation *operation, double *time_us_out)
{
    int64_t calls = call->options->iterations, ns = 0;
    int64_t warmup = call->options->warmup > 0 ? call->options->warmup : 1;
    kolo_status status = time_calls(call, operation, warmup, &ns);
    if (status == KOLO_OK && calls == 0) {
        status = time_calls(call, operation, AUTO_MIN, &ns);
        calls = ns > 0 ? AUTO_NS / (ns / AUTO_MIN + 1) : AUTO_MAX;
        calls = calls < AUTO_MIN ? AUTO_MIN : calls > AUTO_MAX ? AUTO_MAX : calls;
    }
    if (status == KOLO_OK)
        status = time_calls(call, operation, calls, &ns);
    *time_us_out = (double)ns / (double)calls / 1e3;
    return status;
}

static kolo_status check(const struct bench_call *call, const struct bench_operation *operation,
                         size_t send, size_t recv, int64_t *errors_out)
{
    fill_recv(call, recv);
    fill_send(call, send);
    kolo_status status = operation->call(call);
    if (status != KOLO_OK)
        return status;
    *errors_out = count_errors(call, operation, recv);
    return kolo_allreduce(call->comm, errors_out, errors_out, 1, KOLO_INT64, KOLO_SUM, NULL, NULL);
}

/* In place, the one buffer is as large as the larger of the two, and the smaller is this rank's
 * block of it. */
static void place_in(struct bench_call *call, size_t send_blocks, size_t recv_blocks)
{
    size_t block =
        call->count * kolo_dtype_bytes(call->options->dtype) * (size_t)kolo_rank(call->comm);
    if (send_blocks < recv_blocks)
        call->send = (uint8_t *)call->recv + block;
    else if (recv_blocks < send_blocks)
        call->recv = (uint8_t *)call->send + block;
    else
        call->recv = call->send;
}

kolo_status bench_measure(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_row *row_out)
{
    int nranks = kolo_size(comm);
    size_t element = kolo_dtype_bytes(options->dtype);
    size_t blocks = operation->size_blocks(nranks);
    struct bench_call call = {
        .comm = comm, .count = blocks ? bytes / element / blocks : 1, .options = options};
    size_t send = operation->send_blocks(nranks), recv = operation->recv_blocks(nranks);
    bool needs_send = !options->in_place || send >= recv,
         needs_recv = !options->in_place || recv > send;
    void *send_memory = NULL, *recv_memory = NULL;
    kolo_status status = KOLO_OK;
    if (needs_send)
        status = allocate(&call, send * call.count * element, &send_memory);
    if (status == KOLO_OK && needs_recv)
        status = allocate(&call, recv * call.count * element, &recv_memory);
    if (status != KOLO_OK)
        goto out;
    call.send = send_memory;
    call.recv = recv_memory;
    if (options->in_place)
        place_in(&call, send, recv);
    fill_recv(&call, recv * call.count);
    fill_send(&call, send * call.count);
    *row_out = (struct bench_row){.collective = operation->name,
                                  .plan = bench_plan_name(comm, operation, options, call.count),
                                  .nranks = nranks,
                                  .bytes = call.count * blocks * element,
                                  .count = blocks ? call.count : 0,
                                  .errors = -1};
    KOLO_TRY(measure_time(&call, operation, &row_out->time_us));
    if (options->check)
        KOLO_TRY(check(&call, operation, send * call.count, recv * call.count, &row_out->errors));
    row_out->algbw_gbps =
        row_out->time_us > 0 ? (double)row_out->bytes / row_out->time_us / 1e3 : 0;
    row_out->busbw_gbps = row_out->algbw_gbps * operation->bus_factor(nranks);
out:
    release(&call, send_memory);
    release(&call, recv_memory);
    return status;
}
