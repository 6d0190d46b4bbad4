// SPDX-License-Identifier: Apache-2.0
// The file in which rank 0 of a job without a launcher says where its store is. Private to the
// rendezvous.
#ifndef KOLO_RUNTIME_RENDEZVOUS_FILE_H
#define KOLO_RUNTIME_RENDEZVOUS_FILE_H

#include <time.h>

#include "runtime/rendezvous.h"

/** One version of the file. */
struct kolo_rendezvous_file {
    uint64_t inode;
    struct timespec changed;
    uint64_t job_id; /* not 0 */
    size_t count;    /* of places, at least 1 */
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
};

/** Reads the file at @p path. Never blocks on what is no file.
 *  @return KOLO_OK; ERR_NOT_FOUND: there is none yet; ERR_DATA: it is no rendezvous file;
 * ERR_SYSTEM. */
kolo_status kolo_rendezvous_file_load(const char *path,
                                      struct kolo_rendezvous_file *file_out) KOLO_NODISCARD;
/** Is another version there than @p seen? One that is gone may come back: false. */
bool kolo_rendezvous_file_has_changed(const char *path, const struct kolo_rendezvous_file *seen);
/** Puts a file with at most KOLO_RENDEZVOUS_PLACES_MAX places there, complete or not at all, for
 * this user alone. ERR_CONFIG: what is there is no file; ERR_SYSTEM. */
kolo_status kolo_rendezvous_file_put(const char *path, uint64_t job_id,
                                     const struct kolo_place *places, size_t count) KOLO_NODISCARD;

#endif
