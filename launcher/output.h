// SPDX-License-Identifier: Apache-2.0
// kolorun's standard output and error: each has a thread that writes, so that a slow reader never
// holds up the loop, and the file descriptor keeps the mode that others who share it expect.
#ifndef KOLO_LAUNCHER_OUTPUT_H
#define KOLO_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <uv.h>

#include "base/status.h"

struct kolo_output;
struct kolo_output_events {
    void *context;
    /** @p bytes that were put for @p owner have been written (or thrown away). On the loop. */
    void (*written)(void *context, int owner, size_t bytes);
    /** After a series of `written`. */
    void (*batch)(void *context);
    /** All that was put has been written. */
    void (*drained)(void *context);
    /** Nothing can be written any more, for @p error (EPIPE: nobody reads); from here on everything
     * is thrown away. Once. */
    void (*broken)(void *context, int error);
};

kolo_status kolo_output_create(uv_loop_t *loop, int fd, const struct kolo_output_events *events,
                               struct kolo_output **output_out) KOLO_NODISCARD;
/** Copies the lines of @p data, each with "[rank] " before it, a last one without its newline with
 * that; all as it is if @p rank is negative. */
void kolo_output_lines(struct kolo_output *output, int owner, int rank, const void *data,
                       size_t bytes);
/** A line of kolorun's own. */
void kolo_output_print(struct kolo_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Whether nothing waits to be written. */
bool kolo_output_is_drained(struct kolo_output *output);
/** Stops the thread after what it is writing; a thread stuck in a write is left behind. The memory
 * is freed once the loop ran, unless the thread is stuck. */
void kolo_output_close(struct kolo_output *output);
void kolo_output_destroy(struct kolo_output *output);

#endif
