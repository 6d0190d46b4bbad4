// SPDX-License-Identifier: Apache-2.0
// kolorun's standard output and error, which may be one, and the files of ranks. Each has a thread
// that writes, so that a slow reader never blocks the loop, and so that the mode of the file
// descriptor, which others may share, need not be changed.
#ifndef KOLO_LAUNCHER_OUTPUT_H
#define KOLO_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <sys/uio.h>
#include <uv.h>

#include "base/status.h"

struct kolo_output;
struct kolo_output_events {
    void *context;
    /** @p bytes bytes put for @p owner have been written (or discarded). Called on the loop. */
    void (*written)(void *context, int owner, size_t bytes);
    /** Called after a series of `written`. */
    void (*batch)(void *context);
    /** Everything that was put has been written. */
    void (*drained)(void *context);
    /** Nothing can be written any more because of @p error (EPIPE: nobody reads); everything is
     * discarded from now on. Called once. */
    void (*broken)(void *context, int error);
};

/** @p fd -1: only for kolo_output_bytes. */
kolo_status kolo_output_create(uv_loop_t *loop, int fd, const struct kolo_output_events *events,
                               struct kolo_output **output_out) KOLO_NODISCARD;
/** Writes @p parts to @p fd, and leaves in each what was not written. Returns 0, or an error.
 * Called on the thread. */
typedef int kolo_output_write(void *context, int fd, struct iovec *parts, int count);
/** To be called before anything is put: @p write is to be used instead of writev, and the fd of
 * kolo_output_bytes is what it takes for one. */
void kolo_output_write_by(struct kolo_output *output, kolo_output_write *write, void *context);
/** To be called before anything is put: lines get no prefix. */
void kolo_output_no_prefix(struct kolo_output *output);
/** To be called before anything is put: a line may stay without an end for a while, since a person
 * is to see it. It goes on with what its rank writes next, and is ended before anything else is
 * written. */
void kolo_output_keep_open(struct kolo_output *output);
/** To be called before anything is put: lines that several of @p ranks ranks write are shown once
 * (launcher/fold.h), if they are put by kolo_output_foldable. Of each of @p owners owners about
 * @p held_max bytes at most wait until they are put. */
kolo_status kolo_output_fold(struct kolo_output *output, uv_loop_t *loop, int ranks, int owners,
                             size_t held_max) KOLO_NODISCARD;
/** Copies the lines of @p data, each with the prefix "[rank] ", and adds a newline to the last one
 * if it has no end and none is kept open. A carriage return ends a line too (progress bars); a
 * newline is added to it if a whole line of another rank is next, which would cover it. Without
 * prefix and open lines everything is copied as it is. */
void kolo_output_lines(struct kolo_output *output, int owner, int rank, const void *data,
                       size_t bytes);
/** The same, but lines that repeat those of another rank are folded if kolo_output_fold was called,
 * for which they wait up to KOLO_FOLD_HOLD_MS. */
void kolo_output_foldable(struct kolo_output *output, int owner, int rank, const void *data,
                          size_t bytes);
/** Puts what waits there. Whatever kolorun says itself, and the end of a line, does so as well. */
void kolo_output_settle(struct kolo_output *output);
/** Something is shown elsewhere that a person may see between these lines. */
void kolo_output_interrupt(struct kolo_output *output);
/** Copies everything as it is, to @p fd, which must stay open until it is written. */
void kolo_output_bytes(struct kolo_output *output, int fd, int owner, const void *data,
                       size_t bytes);
/** Ends the last line of a rank by a newline, if it has none. */
void kolo_output_end_line(struct kolo_output *output);
/** Somebody else, such as a terminal that shows what is typed, has ended the last line. */
void kolo_output_line_ended(struct kolo_output *output);
/** Prints a line of kolorun's own, without control characters. */
void kolo_output_print(struct kolo_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Whether everything that was put has been written, and reported by the events above. */
bool kolo_output_is_drained(struct kolo_output *output);
/** How many bytes that were put for owners have been discarded, not written. */
uint64_t kolo_output_lost(struct kolo_output *output);
/** How many of them for lack of memory. */
uint64_t kolo_output_unstored(const struct kolo_output *output);
/** Stops the thread, or leaves it behind if it is in a write, which may be stuck. No callback is
 * called afterwards. NULL is allowed, also below. */
void kolo_output_close(struct kolo_output *output);
/** To be called after the loop has run. The memory is freed once no thread is in a write. */
void kolo_output_destroy(struct kolo_output *output);

#endif
