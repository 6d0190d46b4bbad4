// SPDX-License-Identifier: Apache-2.0
// A program's CUDA stream, as in training: work before a call, and work after it. stream_cuda.c;
// stream_none.c in a build without CUDA.
#ifndef KOLO_BENCH_STREAM_H
#define KOLO_BENCH_STREAM_H

#include <stddef.h>

#include <kolo/kolo.h>

struct bench_stream;

/** Opens a stream on the device of @p memory. ERR_UNSUPPORTED: there is none, or it has no room for
 * the work that keeps the stream busy; ERR_NO_MEMORY; ERR_SYSTEM. */
kolo_status bench_stream_open(const void *memory, struct bench_stream **stream_out);
/** Waits for its work, as bench_stream_finish does. NULL is allowed. */
void bench_stream_close(struct bench_stream *stream);
/** For struct kolo_opts. */
void *bench_stream_handle(const struct bench_stream *stream);
/** Locks host memory until the stream is closed, so that copies from and to it are done by the
 * stream and not by the calling thread. The memory must stay until then. If the driver cannot lock
 * it, a warning says so. */
kolo_status bench_stream_lock(struct bench_stream *stream, void *memory, size_t bytes);
/** Queues work that takes longer than a thread takes to make a call. */
kolo_status bench_stream_occupy(struct bench_stream *stream);
kolo_status bench_stream_copy(struct bench_stream *stream, void *to, const void *from,
                              size_t bytes);
/** Waits until all of its work is done. ERR_TIMEOUT. */
kolo_status bench_stream_finish(struct bench_stream *stream);

#endif
