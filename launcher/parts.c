// SPDX-License-Identifier: Apache-2.0
// A write may take a part of what it is given, or nothing for now.
#include "launcher/parts.h"

#include <errno.h>
#include <poll.h>

struct iovec *kolo_parts_advance(struct iovec *parts, int *count, size_t bytes)
{
    while (*count > 0 && bytes >= parts->iov_len) {
        bytes -= parts->iov_len;
        parts++->iov_len = 0;
        --*count;
    }
    if (*count > 0) {
        parts->iov_base = (char *)parts->iov_base + bytes;
        parts->iov_len -= bytes;
    }
    return parts;
}

int kolo_parts_write(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        const ssize_t sent = writev(fd, parts, count);
        if (sent < 0 && errno == EAGAIN) { /* another process made it non-blocking */
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
        }
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        parts = kolo_parts_advance(parts, &count, sent > 0 ? (size_t)sent : 0);
    }
    return 0;
}
