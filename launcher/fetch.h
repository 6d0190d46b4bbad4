// SPDX-License-Identifier: Apache-2.0
// Reads what kolorun needs from a file by a process beside it (beside.h): no wait for the file's
// file system is longer than a deadline.
#ifndef KOLO_LAUNCHER_FETCH_H
#define KOLO_LAUNCHER_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kolo_fetch {
    const char *what; /* as messages name it: "host file 'hosts'" */
    int64_t limit_ms; /* KOLO_START_TIMEOUT */
    /** Called in the process. What it allocates ends with that. */
    kolo_status (*read)(const void *context, void **data_out, size_t *bytes_out);
    const void *context;
};

/** Returns what fetch->read does, its data in memory of the caller's (kolo_free_memory), with a
 * byte of 0 behind them. ERR_INVALID also if it has not ended in time. To be called while this
 * process has one thread. */
kolo_status kolo_fetch(const struct kolo_fetch *fetch, void **data_out,
                       size_t *bytes_out) KOLO_NODISCARD;

#endif
