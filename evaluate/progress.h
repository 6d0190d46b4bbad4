// SPDX-License-Identifier: Apache-2.0
// How far something long is, on a terminal: one line of standard error that is overwritten, and
// gone at the end. Where standard error is no terminal, under kolorun say, nothing is written.
#ifndef KOLO_EVALUATE_PROGRESS_H
#define KOLO_EVALUATE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct eval_progress {
    const char *what; /* a file's path, or words */
    uint64_t total;   /* 0: not known */
    int64_t next_ns;  /* when it is time for another look */
    bool is_on, is_shown;
};

/** @p what lives until the end. Nothing is shown of what does not take long. */
void eval_progress_begin(struct eval_progress *progress, const char *what, uint64_t total);
void eval_progress_at(struct eval_progress *progress, uint64_t done);
/** Wipes the line. One that never began (zero) is fine. */
void eval_progress_end(struct eval_progress *progress);

#endif
