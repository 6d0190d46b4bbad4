// SPDX-License-Identifier: Apache-2.0
// --timeline FILE: collects the timelines of all ranks and writes them as one trace.
#ifndef KOLO_LAUNCHER_GATHER_H
#define KOLO_LAUNCHER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "launcher/scribe.h"

struct kolo_gather;

/** Opens @p place at once, so that one that cannot be written is refused before anything is
 * started. @p size is the number of ranks, @p calls the number of calls that each keeps. ERR_CONFIG
 * says what to do. To be called while this process has one thread. */
kolo_status kolo_gather_create(const struct kolo_scribe_place *place, int size, uint32_t calls,
                               struct kolo_gather **gather_out) KOLO_NODISCARD;
/** Takes the next bytes of rank @p rank. ERR_PROTOCOL: more than there can be. */
kolo_status kolo_gather_take(struct kolo_gather *gather, int rank, const void *data,
                             size_t bytes) KOLO_NODISCARD;
/** Called when the job has ended, with @p verdict ("" for success): writes the trace, and unless @p
 * is_quiet a summary to standard error. ERR_SYSTEM, ERR_NO_MEMORY: it could not be written, and
 * there is no file of its name. */
kolo_status kolo_gather_finish(struct kolo_gather *gather, const char *verdict, bool is_quiet);
/** NULL is allowed. */
void kolo_gather_destroy(struct kolo_gather *gather);

#endif
