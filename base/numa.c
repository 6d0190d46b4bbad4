// SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int kolo_numa_node_of(const char *directory)
{
    char path[PATH_MAX], text[24] = "";
    const int length = snprintf(path, sizeof path, "%s/numa_node", directory);
    const int fd = length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return -1;
    const ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (got <= 0 || text[0] < '0' || text[0] > '9') /* -1: the firmware does not say */
        return -1;
    const long node = strtol(text, NULL, 10);
    return node <= INT_MAX ? (int)node : -1;
}
