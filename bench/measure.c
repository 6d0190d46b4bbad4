// SPDX-License-Identifier: Apache-2.0
// Measures one operation at one size. Calls are timed in samples of one call each, or of so many
// that the time of reading the clock does not matter. A sample's time is that of the slowest rank.
// The row has the median over the samples, so that occasional other work of the machine shows only
// in the tail, which the row has too. The check makes one more call for each root, on newly filled
// buffers, outside the timed loop.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/statistics.h"
#include "bench/stream.h"
#include "runtime/choose.h"
#include "runtime/comm.h"

enum {
    SAMPLE_NS = 20000,
    SAMPLES_MIN = 5,
    SAMPLES_MAX = 20000,
    SAMPLES_GIVEN = 20, /* at least this many, if the number of calls is given and allows it */
    CALLS_MAX = 1 << 20,
    GUESS_CALLS = 3
};

/* ---- time ---- */

/* *request_out: what end_call must wait for; NULL: the call is over. */
static kolo_status begin_call(struct bench_call *call, struct kolo_request **request_out)
{
    const bool waits = call->options->pace == BENCH_ASYNC || call->stream;
    *request_out = NULL;
    kolo_status status = call->operation->call(call, waits ? request_out : NULL);
    if (call->options->root == BENCH_ROOT_ROTATES)
        call->root = (call->root + 1) % call->nranks;
    return status;
}

static kolo_status end_call(const struct bench_call *call, struct kolo_request **request)
{
    kolo_status status = call->stream ? bench_stream_finish(call->stream) : KOLO_OK;
    kolo_status waited = *request ? kolo_wait(request, -1) : KOLO_OK;
    return waited != KOLO_OK ? waited : status;
}

kolo_status bench_call_once(struct bench_call *call)
{
    struct kolo_request *request;
    kolo_status status = begin_call(call, &request);
    return status == KOLO_OK ? end_call(call, &request) : status;
}

static kolo_status time_sample(struct bench_call *call, int64_t calls, int64_t *ns_out)
{
    kolo_status status = KOLO_OK;
    if (call->options->barrier)
        status = kolo_barrier(call->comm, NULL, NULL);
    kolo_comm_own(call->comm, false);
    int64_t begun = kolo_now_ns();
    for (int64_t i = 0; status == KOLO_OK && i < calls; i++)
        status = bench_call_once(call);
    *ns_out = kolo_now_ns() - begun;
    kolo_comm_own(call->comm, true);
    return status;
}

/* In pieces that every plan can take: a plan may be forced (--plan), and this is a collective like
 * any other. */
static kolo_status longest(const struct bench_call *call, int64_t *values, size_t count)
{
    enum { PIECE = 4096 };
    kolo_status status = KOLO_OK;
    for (size_t at = 0; at < count && status == KOLO_OK; at += PIECE) {
        const size_t piece = count - at < PIECE ? count - at : PIECE;
        status = kolo_allreduce(call->comm, values + at, values + at, piece, KOLO_INT64, KOLO_MAX,
                                NULL, NULL);
    }
    return status;
}

/* How many calls are timed, and in how many samples; equal on all ranks. */
static kolo_status plan_samples(struct bench_call *call, int64_t *total_out, int64_t *samples_out)
{
    const struct bench_options *o = call->options;
    int64_t ns = 0, calls, samples;
    kolo_status status = kolo_barrier(call->comm, NULL, NULL);
    if (status == KOLO_OK)
        status = time_sample(call, o->warmup > 0 ? o->warmup : 1, &ns);
    if (status == KOLO_OK)
        status = time_sample(call, GUESS_CALLS, &ns);
    if (status == KOLO_OK)
        status = longest(call, &ns, 1);
    if (status != KOLO_OK)
        return status;
    ns = ns / GUESS_CALLS + 1;
    calls = SAMPLE_NS / ns + 1;
    calls = calls > CALLS_MAX ? CALLS_MAX : calls;
    if (o->iterations > 0 && o->iterations < calls * SAMPLES_GIVEN)
        calls = o->iterations / SAMPLES_GIVEN > 0 ? o->iterations / SAMPLES_GIVEN : 1;
    samples = o->iterations > 0 ? o->iterations / calls : o->time_ns / (ns * calls);
    if (o->iterations == 0 && samples < SAMPLES_MIN)
        samples = SAMPLES_MIN;
    *total_out = o->iterations > 0 ? o->iterations : samples * calls;
    *samples_out = samples < SAMPLES_MAX ? samples : SAMPLES_MAX;
    return KOLO_OK;
}

/* The calls of sample @p i: the first ones take one more each if the total is no multiple. */
static int64_t calls_of(int64_t total, int64_t samples, int64_t i)
{
    return total / samples + (i < total % samples);
}

static kolo_status find_slowest(const struct bench_call *call, int64_t total, int *slowest_out,
                                int64_t *total_out)
{
    int64_t *totals = kolo_calloc((size_t)call->nranks, sizeof *totals);
    if (!totals)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_allgather(call->comm, &total, totals, 1, KOLO_INT64, NULL, NULL);
    int slowest = 0;
    for (int rank = 1; rank < call->nranks; rank++)
        if (totals[rank] > totals[slowest])
            slowest = rank;
    *slowest_out = slowest;
    *total_out = totals[slowest];
    kolo_free_memory(totals);
    return status;
}

static void summarize(double *sorted, size_t count, double messages, struct bench_row *row)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] /= 1e3 * messages;
    bench_sort(sorted, count);
    row->time_us = bench_percentile(sorted, count, 50);
    row->min_us = bench_percentile(sorted, count, 0);
    row->p90_us = bench_percentile(sorted, count, 90);
    row->p99_us = bench_percentile(sorted, count, 99);
    row->max_us = bench_percentile(sorted, count, 100);
}

static kolo_status measure_time(struct bench_call *call, struct bench_row *row)
{
    int64_t calls, samples, *ns = NULL, total = 0;
    double *each = NULL;
    int messages = call->operation->messages ? call->operation->messages : 1;
    kolo_status status;
    KOLO_TRY(plan_samples(call, &calls, &samples));
    ns = kolo_calloc((size_t)samples, sizeof *ns);
    each = kolo_calloc((size_t)samples, sizeof *each);
    if (!ns || !each) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    KOLO_TRY(kolo_barrier(call->comm, NULL, NULL));
    for (int64_t i = 0; i < samples; i++) {
        KOLO_TRY(time_sample(call, calls_of(calls, samples, i), &ns[i]));
        total += ns[i];
    }
    KOLO_TRY(find_slowest(call, total, &row->slowest_rank, &total));
    KOLO_TRY(longest(call, ns, (size_t)samples));
    for (int64_t i = 0; i < samples; i++)
        each[i] = (double)ns[i] / (double)calls_of(calls, samples, i);
    row->calls = calls;
    row->samples = samples;
    row->mean_us = (double)total / (double)row->calls / 1e3 / messages;
    summarize(each, (size_t)samples, messages, row);
out:
    kolo_free_memory(ns);
    kolo_free_memory(each);
    return status;
}

/* ---- the check ---- */

/* All ranks learn how much was wrong, and the details of the lowest rank that found something. */
static kolo_status share_mismatch(const struct bench_call *call, struct bench_mismatch *mismatch)
{
    int64_t errors = mismatch->errors, first = errors ? call->rank : INT64_MAX;
    kolo_status status;
    KOLO_TRY(kolo_allreduce(call->comm, &errors, &errors, 1, KOLO_INT64, KOLO_SUM, NULL, NULL));
    KOLO_TRY(kolo_allreduce(call->comm, &first, &first, 1, KOLO_INT64, KOLO_MIN, NULL, NULL));
    if (errors > 0)
        KOLO_TRY(kolo_broadcast(call->comm, mismatch, sizeof *mismatch, KOLO_UINT8, (int)first,
                                NULL, NULL));
    mismatch->errors = errors;
out:
    return status;
}

/* With a stream, the stream's next work takes the result: nothing else waits for the call. */
static kolo_status call_and_check(struct bench_call *call, struct bench_buffers *buffers, int root,
                                  struct bench_mismatch *mismatch_out)
{
    struct kolo_request *request;
    kolo_status status = begin_call(call, &request), ended = KOLO_OK;
    call->root = root;
    if (status == KOLO_OK && !call->stream)
        ended = end_call(call, &request);
    if (status == KOLO_OK && ended == KOLO_OK)
        status = bench_buffers_check(buffers, call, mismatch_out);
    if (request)
        ended = end_call(call, &request);
    return ended != KOLO_OK ? ended : status;
}

static kolo_status check(struct bench_call *call, struct bench_buffers *buffers,
                         struct bench_row *row)
{
    const struct bench_options *o = call->options;
    bool rotates = o->root == BENCH_ROOT_ROTATES && call->operation->has_root;
    kolo_status status = KOLO_OK;
    row->errors = 0;
    row->mismatch.rank = -1;
    for (int turn = 0; turn < (rotates ? call->nranks : 1); turn++) {
        struct bench_mismatch mismatch;
        int root = rotates ? turn : call->root;
        call->root = root;
        call->round++;
        KOLO_TRY(bench_buffers_fill(buffers, call, BENCH_ALL_DIFFER));
        KOLO_TRY(call_and_check(call, buffers, root, &mismatch));
        KOLO_TRY(share_mismatch(call, &mismatch));
        if (mismatch.errors > 0 && row->errors == 0)
            row->mismatch = mismatch;
        row->errors += mismatch.errors;
    }
out:
    return status;
}

/* ---- a call, and its row ---- */

/* The plan of a call, found by making one asynchronously and looking at its request, whose plan
 * never changes. */
static kolo_status find_plan(struct bench_call *call, const char **name_out)
{
    struct kolo_request *request = NULL;
    kolo_status status = call->operation->call(call, &request);
    *name_out = "pairs"; /* of sends and receives */
    if (status != KOLO_OK || !request)
        return status;
    if (request->plan)
        *name_out = request->plan->name;
    return kolo_wait(&request, -1);
}

/* Ranks that are threads share one context: allocating or freeing memory may wait for its streams,
 * and none of these may wait for a rank that does so. */
static kolo_status part_from_streams(const struct bench_call *call)
{
    return call->options->stream ? kolo_barrier(call->comm, NULL, NULL) : KOLO_OK;
}

kolo_status bench_prepare(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_prepared *prepared)
{
    size_t unit = bench_unit_bytes(operation, options, kolo_size(comm));
    kolo_status status;
    *prepared = (struct bench_prepared){.options = *options};
    prepared->options.in_place = options->in_place && operation->in_place;
    prepared->call =
        (struct bench_call){.comm = comm,
                            .options = &prepared->options,
                            .operation = operation,
                            .rank = kolo_rank(comm),
                            .nranks = kolo_size(comm),
                            .root = options->root == BENCH_ROOT_ROTATES ? 0 : options->root,
                            .peer = options->peer < 0 ? kolo_size(comm) - 1 : options->peer,
                            .count = unit ? bytes / unit : 0};
    prepared->bytes = prepared->call.count * unit;
    KOLO_TRY(bench_buffers_make(&prepared->call, &prepared->buffers));
    KOLO_TRY(part_from_streams(&prepared->call));
    KOLO_TRY(bench_buffers_fill(&prepared->buffers, &prepared->call, BENCH_PERIOD));
    KOLO_TRY(find_plan(&prepared->call, &prepared->plan));
out:
    return status;
}

void bench_unprepare(struct bench_prepared *prepared)
{
    if (prepared->call.comm) {
        (void)part_from_streams(&prepared->call); /* it fails only with the communicator */
        bench_buffers_free(&prepared->buffers, &prepared->call);
    }
    *prepared = (struct bench_prepared){.bytes = 0};
}

kolo_status bench_measure(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_row *row_out)
{
    char why[KOLO_DETAIL_MAX];
    struct bench_prepared prepared;
    struct bench_call *call = &prepared.call;
    kolo_status status;
    KOLO_TRY(bench_prepare(comm, options, operation, bytes, &prepared));
    *row_out = (struct bench_row){.collective = operation->name,
                                  .nranks = call->nranks,
                                  .bytes = prepared.bytes,
                                  .count = call->count,
                                  .plan = prepared.plan,
                                  .errors = -1};
    KOLO_TRY(measure_time(call, row_out));
    if (options->check)
        KOLO_TRY(check(call, &prepared.buffers, row_out));
    row_out->algbw_gbps =
        row_out->time_us > 0 ? (double)row_out->bytes / row_out->time_us / 1e3 : 0;
    row_out->busbw_gbps = row_out->algbw_gbps * operation->bus_factor(call->nranks);
out:
    kolo_detail_keep(why);
    if (status != KOLO_OK && options->stream) /* to part from the streams, ranks meet */
        bench_tell(comm, status);
    bench_unprepare(&prepared);
    if (status != KOLO_OK)
        kolo_detail_set(why);
    return status;
}
