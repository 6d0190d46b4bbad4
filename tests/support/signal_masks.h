// SPDX-License-Identifier: Apache-2.0
// Which threads of this process a signal may come to.
#ifndef KOLO_TESTS_SUPPORT_SIGNAL_MASKS_H
#define KOLO_TESTS_SUPPORT_SIGNAL_MASKS_H

#include <dirent.h>
#include <stdio.h>

struct signal_masks {
    int threads, taking; /* all threads; those that do not block the signal */
};

/** Reads the masks of all threads; one that ends meanwhile does not count. */
static inline struct signal_masks signal_masks_of(int signal)
{
    struct signal_masks masks = {0};
    char path[300], line[256];
    unsigned long long blocked;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) {
                masks.threads++;
                masks.taking += (blocked >> (signal - 1) & 1) == 0;
            }
        if (file)
            (void)fclose(file);
    }
    if (tasks)
        (void)closedir(tasks);
    return masks;
}

#endif
