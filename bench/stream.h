// SPDX-License-Identifier: Apache-2.0
// A CUDA stream of a program's, as one that trains has it: work before a call, and work behind it.
// stream_cuda.c; stream_none.c in a build without CUDA.
#ifndef KOLO_BENCH_STREAM_H
#define KOLO_BENCH_STREAM_H

#include <stddef.h>

#include <kolo/kolo.h>

struct bench_stream;

/** On the device that @p memory is of. ERR_UNSUPPORTED: there is none, or it has no room for what
 * the stream is kept busy with; ERR_NO_MEMORY; ERR_SYSTEM. */
kolo_status bench_stream_open(const void *memory, struct bench_stream **stream_out);
/** Waits for its work, as bench_stream_finish. NULL is fine. */
void bench_stream_close(struct bench_stream *stream);
/** As struct kolo_opts takes it. */
void *bench_stream_handle(const struct bench_stream *stream);
/** Locks memory of the host, so that copies from and to it are work of the stream's, and not of
 * whoever asks for them; to its end, when the memory must still be there. Where a driver locks
 * none, a warning says so. */
kolo_status bench_stream_lock(struct bench_stream *stream, void *memory, size_t bytes);
/** Work that takes it longer than a thread takes to make a call. */
kolo_status bench_stream_occupy(struct bench_stream *stream);
kolo_status bench_stream_copy(struct bench_stream *stream, void *to, const void *from,
                              size_t bytes);
/** Until all of its work is done. ERR_TIMEOUT. */
kolo_status bench_stream_finish(struct bench_stream *stream);

#endif
