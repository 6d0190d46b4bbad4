// SPDX-License-Identifier: Apache-2.0
// --output-dir DIR: two files for each rank, for its standard output and its standard error.
#ifndef KOLO_LAUNCHER_RANK_FILES_H
#define KOLO_LAUNCHER_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct kolo_rank_files;
enum { KOLO_RANK_FILE_NAME_BYTES = 32 };

/** The name of a file in the directory of a job of @p size ranks. */
void kolo_rank_files_name(int size, int rank, bool is_error, char name[KOLO_RANK_FILE_NAME_BYTES]);
/** Makes @p directory if it is missing, and in it DIR/rank.N.out and DIR/rank.N.err for ranks 0 to
 * @p size - 1, N with as many digits as the last rank has. All are opened now, so that a place that
 * cannot be written is refused before anything is started. @p others is the number of other files
 * that this process has open. ERR_CONFIG: it cannot be, there would be too many open files, or an
 * earlier job's files are there; nothing is changed then. */
kolo_status kolo_rank_files_create(const char *directory, int size, size_t others,
                                   struct kolo_rank_files **files_out) KOLO_NODISCARD;
/** Whether @p path, which need not exist, is that of a file in @p directory with a name of a rank's
 * file. Links in place of the file are not followed. */
bool kolo_rank_files_claim(const char *directory, const char *path);
/** The descriptor of the file of @p rank, which stays open until the files are closed. */
int kolo_rank_files_fd(const struct kolo_rank_files *files, int rank, bool is_error);
/** Closes the file of @p rank. That may take as long as writing what the system has kept back.
 * ERR_SYSTEM: it could not be written to its end. */
kolo_status kolo_rank_files_end(struct kolo_rank_files *files, int rank, bool is_error);
/** Closes the files that are still open, and frees @p files; NULL is allowed. With @p keep false
 * the files, and the directories that were made, are removed. ERR_SYSTEM: one could not be written
 * to its end, which some file systems report only now. */
kolo_status kolo_rank_files_close(struct kolo_rank_files *files, bool keep);

#endif
