// SPDX-License-Identifier: Apache-2.0
// Processes that ranks have left in the background after they ended, found in /proc on their host.
#ifndef KOLO_LAUNCHER_STRAYS_H
#define KOLO_LAUNCHER_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/wire.h"
#include "launcher/ranks.h"

enum { KOLO_STRAY_NAME_MAX = 32, KOLO_STRAY_BYTES = 64 /* upper bound of a frame's body */ };

/** One process of @p rank, which has itself ended. */
struct kolo_stray {
    uint32_t rank, pid;
    bool is_of_kolo; /* it has mapped libkolo.so */
    char name[KOLO_STRAY_NAME_MAX];
};

/** For each of @p ranks, finds one living descendant of @p root,
 * preferably one that uses kolo; pid 0: there is none. */
void kolo_strays_find(pid_t root, const struct kolo_ranks *ranks, struct kolo_stray *strays);
void kolo_stray_write(struct kolo_writer *writer, const struct kolo_stray *stray);
/** ERR_DATA: the bytes are not a stray. */
kolo_status kolo_stray_read(struct kolo_reader *reader, struct kolo_stray *stray_out);

#endif
