// SPDX-License-Identifier: Apache-2.0
// Which processes of a list descend from one of them.
#ifndef KOLO_LAUNCHER_DESCENDANTS_H
#define KOLO_LAUNCHER_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct kolo_process {
    pid_t pid, parent;
    char name[32], state; /* as in proc(5) */
    bool is_dead, is_ours;
    struct kolo_process *next; /* while they are marked: whose children are to be looked for */
};

/** Says of each whether it is ours: a child of @p root, or of one that is ours; never @p root
 * itself. Afterwards they are in the order of their pids.
 * @return how many of them it looked at, each as often as it did. */
size_t kolo_descendants_mark(struct kolo_process *processes, size_t count, pid_t root);

#endif
