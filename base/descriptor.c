// SPDX-License-Identifier: Apache-2.0
// Sets flags of file descriptors and moves them away from the standard streams. Owns none. Must
// never change another flag.
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool kolo_descriptor_set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

int kolo_descriptor_keep(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    close(fd);
    errno = error;
    return kept;
}
