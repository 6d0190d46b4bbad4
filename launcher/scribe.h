// SPDX-License-Identifier: Apache-2.0
// A file that kolorun itself writes (--timeline, --json), as tools/outfile.h does it, but by a
// process beside kolorun (beside.h): no wait for its file system is longer than a deadline.
#ifndef KOLO_LAUNCHER_SCRIBE_H
#define KOLO_LAUNCHER_SCRIBE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct kolo_scribe;

struct kolo_scribe_place {
    const char *option, *path; /* as outfile_open has them */
    const char *output_dir;    /* NULL, or where the path must not be a rank's file */
    const char *input;         /* NULL, or a file that it must not be */
    const char *open_limit;    /* what messages call it; NULL: --start-timeout */
    int64_t open_limit_ms;     /* KOLO_START_TIMEOUT */
    int64_t write_limit_ms;    /* KOLO_EXIT_TIMEOUT: as long as nothing is written */
};

/** Starts the process, which does outfile_open; errors as there. ERR_CONFIG: that did not end
 * within its time. To be called while this process has one thread. */
kolo_status kolo_scribe_open(const struct kolo_scribe_place *place,
                             struct kolo_scribe **scribe_out) KOLO_NODISCARD;
/** Does outfile_probe, and leaves no process. Errors as kolo_scribe_open. */
kolo_status kolo_scribe_probe(const struct kolo_scribe_place *place) KOLO_NODISCARD;
/** What is written to this stream goes to the file. */
FILE *kolo_scribe_stream(const struct kolo_scribe *scribe);
/** Waits until what was written to the stream is in the file. ERR_SYSTEM: it cannot be. */
kolo_status kolo_scribe_sync(struct kolo_scribe *scribe) KOLO_NODISCARD;
/** Does outfile_close, and frees @p scribe; NULL is allowed. ERR_SYSTEM: the file is not complete,
 * or its file system did not answer within its time; the process is left behind then. */
kolo_status kolo_scribe_close(struct kolo_scribe *scribe, bool keep);

#endif
