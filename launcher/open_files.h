// SPDX-License-Identifier: Apache-2.0
// The limit of open files (ulimit -n), which kolorun and its agents raise for themselves as far as
// the hard limit allows, and what a job needs of it.
#ifndef KOLO_LAUNCHER_OPEN_FILES_H
#define KOLO_LAUNCHER_OPEN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** How many files kolorun has open while @p ranks ranks run on @p hosts hosts. */
size_t kolo_open_files_of_job(int ranks, size_t hosts);
/** How many the agent of a host with @p ranks ranks may have open. */
size_t kolo_open_files_of_agent(int ranks);

/** Raises the soft limit, if it is lower, to @p needed files and, if the hard one allows them,
 * @p spare more. False: the hard limit is below @p needed; *most_out is how many there may be. */
bool kolo_open_files_allow(size_t needed, size_t spare, uintmax_t *most_out);
/** Allows what kolorun needs for a job. ERR_CONFIG: the hard limit is too low. */
kolo_status kolo_open_files_allow_job(int ranks, size_t hosts) KOLO_NODISCARD;
/** Allows what an agent of @p ranks ranks needs. ERR_SYSTEM: the hard limit is too low. */
kolo_status kolo_open_files_allow_agent(int ranks) KOLO_NODISCARD;
/** In a child: the soft limit from before kolo_open_files_allow. Programs that use select() may
 * rely on it, and it is the user's to choose. Async-signal-safe. */
void kolo_open_files_give_back(void);

#endif
