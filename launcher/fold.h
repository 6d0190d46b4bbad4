// SPDX-License-Identifier: Apache-2.0
// Shows once what many ranks write: of a job that fails, each rank says the same, and the reason
// must not drown. Pure: it gets lines and times, and says what to show.
//
// What a rank writes is shown at once, unless it repeats what another rank has written lately. Then
// the rank is held: this line and all that it writes afterwards wait until everything is settled:
// when no rank has written more that is held for KOLO_FOLD_QUIET_MS, KOLO_FOLD_HOLD_MS after the
// first line was held, or earlier. Then
//
//   [0, 2-7] the same                                    the line above, of any rank
//   [0, 2-7] the same 12 lines                           the 12 lines above, all of one rank
//   [0, 2-7] the same as rank 1: Segmentation fault
//   [0, 2-7] the same 12 lines as rank 1: Traceback (most recent call last):
//
// stand for lines of KOLO_FOLD_RANKS_MIN ranks or more; those of fewer are shown as they are. The
// last two mean the latest lines of that rank above, shown as they are, of which the first is this
// one, or begins like this and goes on ("..."); lines of that rank that were folded do not stand
// between them. So what each rank has written, and in which order, can be told from what is shown.
#ifndef KOLO_LAUNCHER_FOLD_H
#define KOLO_LAUNCHER_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KOLO_FOLD_QUIET_MS = 250, KOLO_FOLD_HOLD_MS = 1000, KOLO_FOLD_RANKS_MIN = 3 };

struct kolo_fold_events {
    void *context;
    /** To be shown as they are: one or several lines of @p rank, in the order of the calls. */
    void (*show)(void *context, int owner, int rank, const void *data, size_t bytes);
    /** To be shown instead of lines that are the same: @p line, which a newline ends. */
    void (*same)(void *context, const char *line, size_t bytes);
    /** @p bytes bytes of ranks of @p owner have not been shown, because `same` stands for them. */
    void (*folded)(void *context, int owner, size_t bytes);
};

struct kolo_fold;
/** For @p ranks ranks of @p owners owners, of each of which up to about @p held_max bytes are
 * held. */
kolo_status kolo_fold_create(int ranks, int owners, size_t held_max,
                             const struct kolo_fold_events *events,
                             struct kolo_fold **fold_out) KOLO_NODISCARD;
/** @p rank, which belongs to @p owner, has written this: lines, the last of which may have no end
 * yet. Progress bars, lines without an end and long ones are never held. */
void kolo_fold_add(struct kolo_fold *fold, int owner, int rank, const void *data, size_t bytes,
                   int64_t now_ms);
/** Something that was not added is shown now, or may be: it may stand between lines from now on. */
void kolo_fold_interrupt(struct kolo_fold *fold);
/** The same, of @p rank, and the order of all that it writes is to be kept. */
void kolo_fold_beside(struct kolo_fold *fold, int rank, const void *data, size_t bytes);
/** How many lines are held. */
size_t kolo_fold_held(const struct kolo_fold *fold);
/** Shows everything that is held. */
void kolo_fold_settle(struct kolo_fold *fold);
/** Drops what is held. NULL is allowed. */
void kolo_fold_destroy(struct kolo_fold *fold);

#endif
