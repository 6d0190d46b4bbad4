// SPDX-License-Identifier: Apache-2.0
// Reads short files. Keeps no descriptor open. Must never take a part of what a file contains for
// its number.
#include "base/short_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

ssize_t kolo_short_file_read(const char *path, char *text, size_t capacity)
{
    size_t used = 0;
    ssize_t got = 0;
    text[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (used < capacity - 1) {
        got = read(fd, text + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    (void)close(fd);
    text[used] = '\0';
    return got < 0 && used == 0 ? -1 : (ssize_t)used;
}

int64_t kolo_short_file_number(const char *path)
{
    char text[24], *end; /* with room for more than the longest number and its newline */
    const ssize_t bytes = kolo_short_file_read(path, text, sizeof text);
    if (bytes <= 0 || bytes == sizeof text - 1 || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end + (*end == '\n') != text + bytes)
        return -1;
    return number;
}
