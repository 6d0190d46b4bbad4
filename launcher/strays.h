// SPDX-License-Identifier: Apache-2.0
// What ranks that have ended left in the background: by /proc, on their host.
#ifndef KOLO_LAUNCHER_STRAYS_H
#define KOLO_LAUNCHER_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/wire.h"

enum { KOLO_STRAY_NAME_MAX = 32, KOLO_STRAY_BYTES = 64 /* at most, of a frame */ };

/** One process of @p rank's, which itself has ended. */
struct kolo_stray {
    uint32_t rank, pid;
    bool is_of_kolo; /* it has libkolo.so in its memory */
    char name[KOLO_STRAY_NAME_MAX];
};

/** Of each of the @p ranks ranks from @p first_rank on one descendant of @p root that lives, rather
 * one of kolo; pid 0: there is none. */
void kolo_strays_find(pid_t root, uint32_t first_rank, uint32_t ranks, struct kolo_stray *strays);
void kolo_stray_write(struct kolo_writer *writer, const struct kolo_stray *stray);
/** ERR_PROTOCOL: it is none. */
kolo_status kolo_stray_read(struct kolo_reader *reader, struct kolo_stray *stray_out);

#endif
