// SPDX-License-Identifier: Apache-2.0
// The file in which rank 0 of a job without a launcher publishes the addresses of its store.
// Private to the rendezvous.
#ifndef KOLO_RUNTIME_RENDEZVOUS_FILE_H
#define KOLO_RUNTIME_RENDEZVOUS_FILE_H

#include <time.h>

#include "runtime/rendezvous.h"

/** The contents of one version of the file, and what distinguishes it from other versions. */
struct kolo_rendezvous_file {
    uint64_t inode;
    struct timespec changed;
    uint64_t job_id; /* not 0 */
    size_t count;    /* number of places, at least 1 */
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
};

/** Reads the file at @p path. Never waits for another process, also if @p path is not a regular
 * file (a FIFO, for example).
 *  @return KOLO_OK; ERR_NOT_FOUND: there is no file yet; ERR_DATA: it is not a rendezvous file;
 *  ERR_TIMEOUT: its file system does not answer by @p deadline; ERR_NO_MEMORY; ERR_SYSTEM. */
kolo_status kolo_rendezvous_file_load(const char *path, kolo_deadline deadline,
                                      struct kolo_rendezvous_file *file_out) KOLO_NODISCARD;
/** Whether the file is now another version than @p seen. False if there is no file, since it may
 * come back, and if that is not known by @p deadline. */
bool kolo_rendezvous_file_has_changed(const char *path, kolo_deadline deadline,
                                      const struct kolo_rendezvous_file *seen);
/** Writes a file with at most KOLO_RENDEZVOUS_PLACES_MAX places, which only this user may read.
 * Readers see either all of it or nothing. ERR_CONFIG: what is at @p path is not a regular file;
 * ERR_TIMEOUT: the file system does not answer by @p deadline, and the file may still be written
 * later; ERR_NO_MEMORY; ERR_SYSTEM. */
kolo_status kolo_rendezvous_file_put(const char *path, kolo_deadline deadline, uint64_t job_id,
                                     const struct kolo_place *places, size_t count) KOLO_NODISCARD;
/** Removes the file, if it is that of @p job_id, and leaves it if that takes longer than until
 * @p deadline. */
void kolo_rendezvous_file_remove(const char *path, kolo_deadline deadline, uint64_t job_id);

#endif
