// SPDX-License-Identifier: Apache-2.0
// Shows the progress of something long on a terminal: one line of standard error that is
// overwritten, and removed at the end. If standard error is not a terminal (for example under
// kolorun), nothing is written.
#ifndef KOLO_EVALUATE_PROGRESS_H
#define KOLO_EVALUATE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct eval_progress {
    const char *what; /* a file's path, or words */
    uint64_t total;   /* 0: not known */
    int64_t next_ns;  /* time of the next update */
    bool is_on, is_shown;
};

/** @p what must stay valid until the end. Nothing is shown if it does not take long. */
void eval_progress_begin(struct eval_progress *progress, const char *what, uint64_t total);
void eval_progress_at(struct eval_progress *progress, uint64_t done);
/** Removes the line. A progress that never began (zero) is allowed. */
void eval_progress_end(struct eval_progress *progress);

#endif
