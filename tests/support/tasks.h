// SPDX-License-Identifier: Apache-2.0
// Counts the threads of this process, and keeps it from having more.
#ifndef KOLO_TESTS_SUPPORT_TASKS_H
#define KOLO_TESTS_SUPPORT_TASKS_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/resource.h>

static inline int tasks(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = -2; /* . and .. */
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/** From now on uv_thread_create fails: it makes stacks as large as the limit allows. Returns false
 * if this is not possible here. */
static inline bool refuse_threads(struct rlimit *before_out)
{
    enum { STACK_BITS = 47 /* no process has as much memory to map */ };
    if (getrlimit(RLIMIT_STACK, before_out) != 0)
        return false;
    const struct rlimit huge = {(rlim_t)1 << STACK_BITS, before_out->rlim_max};
    return setrlimit(RLIMIT_STACK, &huge) == 0;
}

#endif
