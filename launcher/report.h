// SPDX-License-Identifier: Apache-2.0
// What the ranks of a job do, in a few lines. Pure: no I/O, no clock.
#ifndef KOLO_LAUNCHER_REPORT_H
#define KOLO_LAUNCHER_REPORT_H

#include "launcher/sight.h"
#include "runtime/store.h"

/** One rank. Nothing is owned. */
struct kolo_report_rank {
    const char *host;
    bool has_ended; /* its agent has said so */
    struct kolo_store_view view;
    const struct kolo_sight *sight; /* NULL: nobody has looked, or its host did not answer */
    uint32_t started;               /* the process that its agent started; 0: not known */
};

enum kolo_report_choice {
    KOLO_REPORT_ALL,
    KOLO_REPORT_RUNNING, /* only ranks that still run */
    KOLO_REPORT_MISSING  /* only ranks that still run and are not known to wait in a call */
};

/** Passes each line, without its end, to @p print. Ranks that do the same share a line; of more
 * than a screen of lines, the rest is counted. Returns the number of lines. ERR_NO_MEMORY: -1. */
int kolo_report(const struct kolo_report_rank *ranks, int size, enum kolo_report_choice choice,
                int64_t now_ns, void (*print)(void *context, const char *line), void *context);

/** Whether a rank is known to have waited in a call for @p ms. */
bool kolo_report_has_stall(const struct kolo_report_rank *ranks, int size, int64_t ms,
                           int64_t now_ns);

#endif
