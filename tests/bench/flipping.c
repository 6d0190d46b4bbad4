// SPDX-License-Identifier: Apache-2.0
// Replaces the system's sendmsg() in a program that uses the library, and is the wire that loses a
// bit: the process whose RANK is FLIP_RANK changes one bit of each long piece that it sends. Must
// change only a copy, since the sender's memory is right.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LONG_BYTES = 4096, /* longer than anything but payload */
    NTH = 9 /* the pieces before it are right, so calls have succeeded before one fails */
};

static int is_meant(void)
{
    static int count;
    const char *rank = getenv("RANK"), *meant = getenv("FLIP_RANK");
    return rank && meant && strcmp(rank, meant) == 0 && ++count >= NTH;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr changed = *message;
    struct iovec parts[64];
    unsigned char *copy = NULL;
    size_t at = 0;
    while (at < message->msg_iovlen && message->msg_iov[at].iov_len < LONG_BYTES)
        at++;
    if (at < message->msg_iovlen && message->msg_iovlen <= 64 && is_meant()) {
        memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof *parts);
        copy = malloc(parts[at].iov_len);
        if (!copy)
            abort();
        memcpy(copy, parts[at].iov_base, parts[at].iov_len);
        copy[2] ^= 0x10; /* near the start: whatever the kernel takes of it includes the bit */
        parts[at].iov_base = copy;
        changed.msg_iov = parts;
    }
    const long sent = syscall(SYS_sendmsg, fd, &changed, flags);
    free(copy);
    return sent;
}
