// SPDX-License-Identifier: Apache-2.0
// Replaces stream_cuda.c in a build without CUDA, where no memory is on a device: none opens.
#include "base/status.h"
#include "bench/stream.h"

kolo_status bench_stream_open(const void *memory, struct bench_stream **stream_out)
{
    (void)memory;
    *stream_out = NULL;
    return kolo_fail(KOLO_ERR_UNSUPPORTED, "--stream: this build has no CUDA (KOLO_CUDA=OFF)");
}

void bench_stream_close(struct bench_stream *stream)
{
    (void)stream;
}

void *bench_stream_handle(const struct bench_stream *stream)
{
    (void)stream;
    return NULL;
}

kolo_status bench_stream_lock(struct bench_stream *stream, void *memory, size_t bytes)
{
    (void)stream, (void)memory, (void)bytes;
    return KOLO_ERR_UNSUPPORTED;
}

kolo_status bench_stream_occupy(struct bench_stream *stream)
{
    (void)stream;
    return KOLO_ERR_UNSUPPORTED;
}

kolo_status bench_stream_copy(struct bench_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream, (void)to, (void)from, (void)bytes;
    return KOLO_ERR_UNSUPPORTED;
}

kolo_status bench_stream_finish(struct bench_stream *stream)
{
    (void)stream;
    return KOLO_ERR_UNSUPPORTED;
}
