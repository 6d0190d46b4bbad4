// SPDX-License-Identifier: Apache-2.0
// Makes files in memory, and allocates their pages. Owns nothing: the descriptor is the caller's.
// Must never leave a name in a file system for longer than a call.
//
// A sandbox may forbid memfd_create with a filter of system calls. Then a file without a name is
// used; in /dev/shm that is the same memory. If a sandbox does not support fallocate, the pages are
// written with the zeros that they contain.
#include "memory/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptor.h"

enum {
    MEMFD_NOEXEC_SEAL = 8, /* MFD_NOEXEC_SEAL of Linux 6.3, which older headers lack */
    /* a signal makes fallocate start again, so a step must fit between two signals */
    STEP = 1 << 20,
    ZEROS = 1 << 16
};

/* Kernels that require memfds to be non-executable know the flag; others may refuse it. */
int kolo_memfd_create(const char *name)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int fd = memfd_create(name, flags | MEMFD_NOEXEC_SEAL);
    return kolo_descriptor_keep(fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd);
}

int kolo_memfd_is_forbidden(int error)
{
    return error == ENOSYS || error == EPERM || error == EACCES;
}

/** Makes a file without a name. Not every file system supports O_TMPFILE. */
static int create_in(const char *folder)
{
    char path[32];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0)
        return fd;
    (void)snprintf(path, sizeof path, "%s/kolo-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

int kolo_nameless_file_create(void)
{
    const int fd = create_in("/dev/shm");
    return kolo_descriptor_keep(fd >= 0 ? fd : create_in("/tmp"));
}

static int write_zeros(int fd, size_t at, size_t bytes)
{
    static const char zeros[ZEROS];
    while (bytes > 0) {
        const ssize_t put = pwrite(fd, zeros, bytes < ZEROS ? bytes : ZEROS, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : ENOSPC;
        at += (size_t)put;
        bytes -= (size_t)put;
    }
    return 0;
}

/** Moves *at and *bytes past what is allocated. */
static int allocate(int fd, size_t *at, size_t *bytes)
{
    while (*bytes > 0) {
        const size_t step = *bytes < STEP ? *bytes : STEP;
        if (fallocate(fd, 0, (off_t)*at, (off_t)step) == 0) {
            *at += step;
            *bytes -= step;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int kolo_shared_file_allocate(int fd, size_t at, size_t bytes)
{
    return allocate(fd, &at, &bytes);
}

int kolo_shared_file_reserve(int fd, size_t at, size_t bytes)
{
    const int error = allocate(fd, &at, &bytes);
    if (error == ENOSYS || error == EPERM || error == EOPNOTSUPP)
        return write_zeros(fd, at, bytes);
    return error;
}
