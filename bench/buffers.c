// SPDX-License-Identifier: Apache-2.0
// The buffers of a measured call, in the kind of memory that --memory names. For buffers on a
// device there is also an image of each in host memory, where data is made and compared. Never
// copies while a call is timed.
//
// With --stream the stream copies the images, and is kept busy before a check. So a call that does
// not wait for the stream's earlier work takes the old contents, and if later work does not wait
// for the call, the result is what it must not be.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/program_memory.h"
#include "bench/stream.h"
#include "memory/lane.h"
#include "runtime/comm.h"

enum { COPY_MS = 60000 };

static const char *const names[] = {
    [BENCH_KOLO] = "kolo",     [BENCH_USER] = "user", [BENCH_PINNED] = "pinned",
    [BENCH_DEVICE] = "device", [BENCH_CUDA] = "cuda", [BENCH_MANAGED] = "managed"};

const char *bench_memory_text(enum bench_memory memory)
{
    return names[memory];
}

/* ---- copies to a device and from it ---- */

static void nobody(void *context)
{
    (void)context;
}

static kolo_status copy(void *device, void *image, size_t bytes, enum kolo_way way)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(COPY_MS);
    struct kolo_pointer pointer;
    struct kolo_lane *lane = NULL;
    uint64_t mark;
    kolo_status status = kolo_pointer_look(device, &pointer);
    if (status == KOLO_OK)
        status = kolo_lane_open(&pointer, nobody, NULL, &lane);
    if (status == KOLO_OK)
        status = kolo_lane_await_device(lane, deadline, NULL);
    if (status == KOLO_OK)
        status = way == KOLO_WAY_OUT ? kolo_lane_copy(lane, way, device, image, bytes)
                                     : kolo_lane_copy(lane, way, image, device, bytes);
    if (status == KOLO_OK)
        status = kolo_lane_mark(lane, way, &mark);
    if (status == KOLO_OK)
        status = kolo_lane_wait(lane, way, mark, deadline);
    (void)kolo_lane_close(lane, deadline);
    if (status == KOLO_AGAIN)
        return kolo_fail(KOLO_ERR_TIMEOUT, "the device has not copied %zu bytes within %d ms",
                         bytes, COPY_MS);
    return status;
}

static kolo_status copy_by(struct bench_stream *stream, void *device, void *image, size_t bytes,
                           enum kolo_way way)
{
    if (!stream)
        return copy(device, image, bytes, way);
    return way == KOLO_WAY_OUT ? bench_stream_copy(stream, device, image, bytes)
                               : bench_stream_copy(stream, image, device, bytes);
}

static kolo_status copy_both(const struct bench_buffers *buffers, struct bench_stream *stream,
                             enum kolo_way way)
{
    kolo_status status = KOLO_OK;
    if (buffers->send_image)
        status = copy_by(stream, buffers->send, buffers->send_image, buffers->send_bytes, way);
    if (status == KOLO_OK && buffers->recv_image)
        status = copy_by(stream, buffers->recv, buffers->recv_image, buffers->recv_bytes, way);
    return status;
}

/* ---- memory ---- */

/** Memory from kolo_alloc in a process that uses a device: it must be locked for the device,
 * otherwise the run would not measure what it names. */
static kolo_status allocate_pinned(struct kolo_comm *comm, size_t bytes, void **memory_out)
{
    void *device = NULL;
    struct kolo_pointer pointer;
    kolo_status status;
    KOLO_TRY(kolo_alloc_device(comm, 1, -1, &device));
    KOLO_TRY(kolo_pointer_look(device, &pointer));
    kolo_heap_pin(comm->engine->heap, &pointer);
    KOLO_TRY(kolo_free(comm, device));
    KOLO_TRY(kolo_alloc(comm, bytes, memory_out));
    KOLO_TRY(kolo_pointer_look(*memory_out, &pointer));
    if (pointer.kind != KOLO_MEMORY_PINNED)
        status =
            kolo_fail(KOLO_ERR_UNSUPPORTED,
                      "--memory pinned: the driver has not locked %zu bytes; see the warning, or "
                      "raise `ulimit -l`",
                      bytes);
out:
    return status;
}

static kolo_status allocate(const struct bench_call *call, size_t bytes, void **memory_out,
                            void **image_out)
{
    enum bench_memory memory = call->options->memory;
    if (bench_is_device(memory) && (*image_out = kolo_aligned(4096, bytes)) == NULL)
        return KOLO_ERR_NO_MEMORY;
    switch (memory) {
    case BENCH_PINNED:
        return allocate_pinned(call->comm, bytes, memory_out);
    case BENCH_DEVICE:
        return kolo_alloc_device(call->comm, bytes, -1, memory_out);
    case BENCH_CUDA:
    case BENCH_MANAGED:
        return bench_program_alloc(call->comm, bytes, memory == BENCH_MANAGED, memory_out);
    case BENCH_USER:
        *memory_out = kolo_aligned(4096, bytes);
        return *memory_out ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    case BENCH_KOLO:
    case BENCH_MEMORIES:
        break;
    }
    return kolo_alloc(call->comm, bytes, memory_out);
}

static void release(const struct bench_call *call, void *memory)
{
    if (call->options->memory == BENCH_USER)
        kolo_free_memory(memory);
    else if (call->options->memory > BENCH_DEVICE)
        bench_program_free(memory);
    else
        (void)kolo_free(call->comm, memory);
}

/* Divides the vector: three or six arrays with an entry per rank, in one allocation. */
static kolo_status divide(struct bench_call *call)
{
    size_t n = (size_t)call->nranks;
    bool transposed = call->operation->result == BENCH_TRANSPOSED;
    size_t *array = kolo_calloc(5 * n, sizeof *array);
    if (!array)
        return KOLO_ERR_NO_MEMORY;
    call->counts = array;
    call->displs = array + n;
    for (size_t i = 0; i < n; i++) {
        call->counts[i] = bench_pair_count(call, call->rank, (int)i);
        call->displs[i] = i ? call->displs[i - 1] + call->counts[i - 1] : 0;
    }
    if (!transposed)
        return KOLO_OK;
    call->from_counts = array + 2 * n;
    call->from_displs = array + 3 * n;
    call->from_places = array + 4 * n;
    for (size_t i = 0; i < n; i++) {
        call->from_counts[i] = bench_pair_count(call, (int)i, call->rank);
        call->from_displs[i] = i ? call->from_displs[i - 1] + call->from_counts[i - 1] : 0;
        for (int to = 0; to < call->rank; to++)
            call->from_places[i] += bench_pair_count(call, (int)i, to);
    }
    return KOLO_OK;
}

/* In place, the single buffer is as large as the larger of the two, and the smaller one is this
 * rank's block of it. */
static kolo_status place(struct bench_call *call, struct bench_buffers *buffers)
{
    size_t element = kolo_dtype_bytes(call->options->dtype);
    size_t send = bench_call_send_count(call), recv = bench_call_recv_count(call);
    bool together = call->options->in_place && call->operation->send != BENCH_NOTHING;
    kolo_status status;
    buffers->send_bytes = (send > recv || !together ? send : recv) * element + BENCH_CANARY_BYTES;
    KOLO_TRY(allocate(call, buffers->send_bytes, &buffers->send, &buffers->send_image));
    call->send = call->recv = buffers->send;
    if (!together) {
        buffers->recv_bytes = recv * element + BENCH_CANARY_BYTES;
        KOLO_TRY(allocate(call, buffers->recv_bytes, &buffers->recv, &buffers->recv_image));
        call->recv = buffers->recv;
        return KOLO_OK;
    }
    size_t block = call->displs[call->rank] * element;
    if (call->operation->send == BENCH_OWN)
        call->send = (uint8_t *)call->recv + block;
    else if (call->operation->recv == BENCH_OWN)
        call->recv = (uint8_t *)call->send + block;
out:
    return status;
}

static kolo_status open_stream(struct bench_call *call, const struct bench_buffers *buffers)
{
    kolo_status status;
    KOLO_TRY(bench_stream_open(buffers->send, &call->stream));
    KOLO_TRY(bench_stream_lock(call->stream, buffers->send_image, buffers->send_bytes));
    if (buffers->recv_image)
        KOLO_TRY(bench_stream_lock(call->stream, buffers->recv_image, buffers->recv_bytes));
out:
    return status;
}

static void make_opts(struct bench_call *call)
{
    const struct bench_options *o = call->options;
    const bool scales =
        call->operation->reduces && (bench_scales(o->prescale) || bench_scales(o->postscale));
    call->own_opts = (struct kolo_opts){.size = sizeof call->own_opts};
    if (call->stream)
        call->own_opts.stream = bench_stream_handle(call->stream);
    if (scales) {
        call->own_opts.prescale = o->prescale;
        call->own_opts.postscale = o->postscale;
    }
    call->opts = call->stream || scales ? &call->own_opts : NULL;
}

kolo_status bench_buffers_make(struct bench_call *call, struct bench_buffers *buffers)
{
    kolo_status status;
    KOLO_TRY(divide(call));
    KOLO_TRY(place(call, buffers));
    if (call->options->stream)
        KOLO_TRY(open_stream(call, buffers));
    make_opts(call);
out:
    return status;
}

void bench_buffers_free(struct bench_buffers *buffers, struct bench_call *call)
{
    bench_stream_close(call->stream);
    kolo_free_memory(call->counts);
    release(call, buffers->send);
    release(call, buffers->recv);
    kolo_free_memory(buffers->send_image);
    kolo_free_memory(buffers->recv_image);
    /* If ranks are threads, no stream may wait for a call while another rank still frees. If the
     * barrier fails, so does the next call. */
    const kolo_status status = call->stream ? kolo_barrier(call->comm, NULL, NULL) : KOLO_OK;
    (void)status;
}

/* ---- data ---- */

/** The call, with the images of its buffers. */
static struct bench_call on_images(const struct bench_buffers *buffers,
                                   const struct bench_call *call)
{
    struct bench_call on = *call;
    if (!buffers->send_image)
        return on;
    uint8_t *send = buffers->send_image;
    on.send = send + ((uint8_t *)call->send - (uint8_t *)buffers->send);
    if (buffers->recv_image)
        on.recv = buffers->recv_image;
    else
        on.recv = send + ((uint8_t *)call->recv - (uint8_t *)buffers->send);
    return on;
}

kolo_status bench_buffers_fill(struct bench_buffers *buffers, const struct bench_call *call,
                               size_t period)
{
    const struct bench_call on = on_images(buffers, call);
    kolo_status status;
    bench_data_fill(&on, period);
    if (call->stream && period == BENCH_ALL_DIFFER) /* the result will be checked */
        KOLO_TRY(bench_stream_occupy(call->stream));
    status = copy_both(buffers, call->stream, KOLO_WAY_OUT);
out:
    return status;
}

kolo_status bench_buffers_check(struct bench_buffers *buffers, const struct bench_call *call,
                                struct bench_mismatch *mismatch_out)
{
    const struct bench_call on = on_images(buffers, call);
    kolo_status status;
    KOLO_TRY(copy_both(buffers, call->stream, KOLO_WAY_IN));
    if (call->stream)
        KOLO_TRY(bench_stream_finish(call->stream));
    bench_data_check(&on, mismatch_out);
out:
    return status;
}
