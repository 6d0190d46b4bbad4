// SPDX-License-Identifier: Apache-2.0
// --timeline FILE: the timelines of all ranks come in here, and leave as one trace.
#ifndef KOLO_LAUNCHER_GATHER_H
#define KOLO_LAUNCHER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kolo_gather;

/** Opens @p path, so that a place that cannot be written is refused before anything is started. Of
 * @p size ranks with @p calls calls each. ERR_CONFIG says what to do. */
kolo_status kolo_gather_create(const char *path, int size, uint32_t calls,
                               struct kolo_gather **gather_out) KOLO_NODISCARD;
/** The next bytes of rank @p rank. ERR_PROTOCOL: more than there can be. */
kolo_status kolo_gather_take(struct kolo_gather *gather, int rank, const void *data,
                             size_t bytes) KOLO_NODISCARD;
/** The job has ended, with @p verdict ("": well): writes the trace, and says on standard error,
 * unless @p is_quiet, what it shows. ERR_SYSTEM, ERR_NO_MEMORY: it could not be written, and
 * nothing has its name. */
kolo_status kolo_gather_finish(struct kolo_gather *gather, const char *verdict, bool is_quiet);
/** NULL is fine. */
void kolo_gather_destroy(struct kolo_gather *gather);

#endif
