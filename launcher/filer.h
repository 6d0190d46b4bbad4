// SPDX-License-Identifier: Apache-2.0
// A process beside kolorun that makes, writes and closes the files of --output-dir.
#ifndef KOLO_LAUNCHER_FILER_H
#define KOLO_LAUNCHER_FILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/status.h"
#include "launcher/rank_files.h"

struct kolo_filer;

/** Starts the process, which does kolo_rank_files_create; errors as there. ERR_CONFIG also if that
 * takes longer than @p limit_ms. To be called while this process has one thread. */
kolo_status kolo_filer_start(const char *directory, int size, int64_t limit_ms,
                             struct kolo_filer **filer_out) KOLO_NODISCARD;
/** The number of a file of @p rank, for kolo_filer_write. */
int kolo_filer_file(int rank, bool is_error);
/** Writes all of @p parts to a file, and leaves in each what was not written. Blocks until
 * kolo_filer_abandon, and fails with ETIMEDOUT after it. Returns 0, or an error number: EOWNERDEAD
 * if the process is gone. Threads: one at a time. */
int kolo_filer_write(struct kolo_filer *filer, int file, struct iovec *parts, int count);
/** A number that changes whenever a write has come further. Threads: any. */
uint64_t kolo_filer_progress(const struct kolo_filer *filer);
/** Writes the name of the file that is being written, or "". Threads: any. */
void kolo_filer_at(const struct kolo_filer *filer, char name[KOLO_RANK_FILE_NAME_BYTES]);
/** Gives up on the process: a write ends now, and so does each that follows. */
void kolo_filer_abandon(struct kolo_filer *filer);
/** Lets the process do kolo_rank_files_close, and frees @p filer; NULL is allowed. No write may be
 * in progress. ERR_SYSTEM: a file could not be written to its end, or does not answer for
 * @p limit_ms; the process is left behind then. If it was abandoned before: KOLO_OK, at once. */
kolo_status kolo_filer_end(struct kolo_filer *filer, bool keep, int64_t limit_ms);

#endif
