// SPDX-License-Identifier: Apache-2.0
// Determines which processes of a list descend from a given one.
#ifndef KOLO_LAUNCHER_DESCENDANTS_H
#define KOLO_LAUNCHER_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launcher/process.h"

struct kolo_process {
    pid_t pid, parent;
    char name[KOLO_PROCESS_NAME_MAX], state; /* as in proc(5) */
    bool is_dead, is_ours;
    struct kolo_process *next; /* during marking: list of those whose children are to be found */
};

/** Marks each process that is a descendant of @p root; never @p root itself. Sorts the list by
 * process id.
 *  @return how many processes were looked at, counting repetitions. */
size_t kolo_descendants_mark(struct kolo_process *processes, size_t count, pid_t root);

#endif
