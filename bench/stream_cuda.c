// SPDX-License-Identifier: Apache-2.0
// The stream of --stream: created in the context of the measured memory, with the work that keeps
// it busy and the pages that it has locked. It stands for the program: it calls the driver through
// kolo's table of functions, but uses nothing of kolo's that has to do with streams. Must never
// wait without a bound.
#include "bench/stream.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "memory/cuda_memory.h"

enum {
    FINISH_MS = 60000,
    BUSY_MS = 2,          /* polled with yields for this time, */
    LOOK_NS = 20000,      /* then at this interval: the stream may need this processor */
    BUSY_BYTES = 8 << 20, /* copied within the device as often as takes BUSY_NS, a call */
    BUSY_NS = 200000,     /* being made in 20 us; but at most BUSY_COPIES times, which takes */
    BUSY_COPIES = 32,     /* 0.1 ms at 5 TB/s, as in a cache */
    TIMED_COPIES = 4,     /* of which the shortest of TIMED_ROUNDS tells how long one takes: */
    TIMED_ROUNDS = 3,     /* other processes take turns on the device */
    LOCKED_MAX = 2
};

struct bench_stream {
    struct kolo_cuda_visit visit;
    struct kolo_pointer near, busy; /* memory that it is for; memory that it is kept busy with */
    void *stream;
    int copies; /* that keep it busy */
    struct {
        struct kolo_pin pin;
        void *memory;
    } locked[LOCKED_MAX];
    int nlocked;
};

static kolo_status judge(const struct bench_stream *stream, const char *call, int result)
{
    return result == KOLO_CUDA_SUCCESS
               ? KOLO_OK
               : kolo_cuda_fail(stream->visit.driver, call, stream->visit.ordinal, result);
}

/** In the context. */
static kolo_status begin(struct bench_stream *stream)
{
    const struct kolo_cuda_driver *driver = stream->visit.driver;
    return judge(stream, "cuStreamCreateWithPriority",
                 driver->stream_create(&stream->stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
}

static kolo_status put_copies(struct bench_stream *stream, int copies)
{
    uint8_t *halves = (uint8_t *)(uintptr_t)stream->busy.memory;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < copies && status == KOLO_OK; i++)
        status = bench_stream_copy(stream, halves + BUSY_BYTES, halves, BUSY_BYTES);
    return status;
}

/* Finds out how many copies keep the stream busy for long enough. */
static kolo_status count_copies(struct bench_stream *stream)
{
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < TIMED_ROUNDS; i++) {
        const int64_t begun = kolo_now_ns();
        kolo_status status = put_copies(stream, TIMED_COPIES);
        if (status == KOLO_OK)
            status = bench_stream_finish(stream);
        if (status != KOLO_OK)
            return status;
        const int64_t took = kolo_now_ns() - begun;
        shortest = took < shortest ? took : shortest;
    }
    const int64_t enough = (int64_t)BUSY_NS * TIMED_COPIES / (shortest + 1) + 1;
    stream->copies = enough < BUSY_COPIES ? (int)enough : BUSY_COPIES;
    return KOLO_OK;
}

kolo_status bench_stream_open(const void *memory, struct bench_stream **stream_out)
{
    struct bench_stream *stream = kolo_calloc(1, sizeof *stream);
    kolo_status status;
    *stream_out = stream;
    if (!stream)
        return KOLO_ERR_NO_MEMORY;
    KOLO_TRY(kolo_pointer_look(memory, &stream->near));
    KOLO_TRY(kolo_cuda_visit_primary(&stream->near, &stream->visit));
    KOLO_TRY(kolo_device_alloc(stream->near.device, NULL, 2 * (size_t)BUSY_BYTES, &stream->busy));
    KOLO_TRY(kolo_cuda_enter(&stream->visit));
    status = begin(stream);
    kolo_cuda_leave(&stream->visit);
    if (status == KOLO_OK)
        status = count_copies(stream);
out:
    if (status != KOLO_OK) {
        bench_stream_close(stream);
        *stream_out = NULL;
    }
    return status;
}

void bench_stream_close(struct bench_stream *stream)
{
    if (!stream)
        return;
    if (stream->stream) {
        (void)bench_stream_finish(stream);
        if (kolo_cuda_push(&stream->visit) == KOLO_CUDA_SUCCESS) {
            (void)stream->visit.driver->stream_destroy(stream->stream);
            kolo_cuda_leave(&stream->visit);
        }
    }
    for (int i = 0; i < stream->nlocked; i++)
        kolo_unpin(&stream->locked[i].pin, stream->locked[i].memory);
    if (stream->busy.memory &&
        kolo_device_free(&stream->busy, kolo_deadline_in_ms(FINISH_MS), NULL) != KOLO_AGAIN)
        kolo_device_release(&stream->busy);
    kolo_cuda_release(&stream->visit);
    kolo_free_memory(stream);
}

void *bench_stream_handle(const struct bench_stream *stream)
{
    return stream->stream;
}

kolo_status bench_stream_lock(struct bench_stream *stream, void *memory, size_t bytes)
{
    if (stream->nlocked == LOCKED_MAX)
        return kolo_fail(KOLO_ERR_INTERNAL, "a stream locks %d buffers", LOCKED_MAX);
    kolo_pin(&stream->near, memory, bytes, &stream->locked[stream->nlocked].pin);
    stream->locked[stream->nlocked++].memory = memory;
    return KOLO_OK;
}

kolo_status bench_stream_copy(struct bench_stream *stream, void *to, const void *from, size_t bytes)
{
    kolo_status status = kolo_cuda_enter(&stream->visit);
    if (status != KOLO_OK)
        return status;
    status = judge(stream, "cuMemcpyAsync",
                   stream->visit.driver->copy((kolo_cuda_address)(uintptr_t)to,
                                              (kolo_cuda_address)(uintptr_t)from, bytes,
                                              stream->stream));
    kolo_cuda_leave(&stream->visit);
    return status;
}

kolo_status bench_stream_occupy(struct bench_stream *stream)
{
    return put_copies(stream, stream->copies);
}

kolo_status bench_stream_finish(struct bench_stream *stream)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(FINISH_MS);
    int result;
    kolo_status status = kolo_cuda_enter(&stream->visit);
    if (status != KOLO_OK)
        return status;
    const kolo_deadline busy_until = kolo_deadline_in_ms(BUSY_MS);
    while ((result = stream->visit.driver->stream_query(stream->stream)) == KOLO_CUDA_NOT_READY &&
           !kolo_deadline_passed(deadline))
        if (!kolo_deadline_passed(busy_until))
            (void)sched_yield();
        else
            (void)ppoll(NULL, 0, &(const struct timespec){.tv_nsec = LOOK_NS}, NULL);
    kolo_cuda_leave(&stream->visit);
    if (result == KOLO_CUDA_NOT_READY)
        return kolo_fail(KOLO_ERR_TIMEOUT, "the stream has not done its work within %d s",
                         FINISH_MS / 1000);
    return judge(stream, "cuStreamQuery", result);
}
