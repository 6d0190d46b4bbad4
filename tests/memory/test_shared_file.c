// SPDX-License-Identifier: Apache-2.0
// memory/shared_file.c: files without a name, whose pages are all allocated. Child processes report
// by their exit status.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/shared_file.h"
#include "tests/support/refuse.h"

enum { BYTES = (2 << 20) + 4099 };

static uint64_t bytes_there(int fd)
{
    struct stat facts;
    cr_assert(fstat(fd, &facts) == 0);
    return (uint64_t)facts.st_blocks * 512;
}

Test(shared_file, a_memfd_can_be_sealed)
{
    const int fd = kolo_memfd_create("test");
    cr_assert(fd >= 0);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    (void)close(fd);
}

Test(shared_file, only_who_may_not_is_forbidden)
{
    cr_assert(kolo_memfd_is_forbidden(ENOSYS) && kolo_memfd_is_forbidden(EPERM));
    cr_assert(!kolo_memfd_is_forbidden(EMFILE) && !kolo_memfd_is_forbidden(ENOMEM));
}

static void check_nameless(void)
{
    struct stat facts;
    const int fd = kolo_nameless_file_create();
    cr_assert(fd >= 0, "%s", strerror(errno));
    cr_assert(fstat(fd, &facts) == 0);
    cr_assert(facts.st_nlink == 0, "it has a name");
    cr_assert((facts.st_mode & 0777) == 0600 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    cr_assert(ftruncate(fd, BYTES) == 0 && kolo_shared_file_reserve(fd, 0, BYTES) == 0);
    cr_assert(bytes_there(fd) >= BYTES);
    (void)close(fd);
}

Test(shared_file, another_has_no_name)
{
    check_nameless();
}

/** As on a file system without O_TMPFILE. */
Test(shared_file, nor_where_it_must_have_had_one)
{
    if (!refuse_call(SYS_openat, 2, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, EOPNOTSUPP))
        cr_skip("no system call can be refused here");
    check_nameless();
}

Test(shared_file, pages_are_written_where_they_cannot_be_reserved)
{
    const int fd = kolo_memfd_create("test");
    cr_assert(fd >= 0 && ftruncate(fd, BYTES) == 0 && pwrite(fd, "before", 6, 0) == 6);
    if (!refuse_call(SYS_fallocate, -1, 0, ENOSYS))
        cr_skip("no system call can be refused here");
    cr_assert(kolo_shared_file_reserve(fd, 4096, BYTES - 4096) == 0);
    char bytes[6] = "";
    cr_assert(bytes_there(fd) >= BYTES);
    cr_assert(pread(fd, bytes, sizeof bytes, 0) == 6 && memcmp(bytes, "before", 6) == 0);
    cr_assert(lseek(fd, 0, SEEK_END) == BYTES, "it is longer");
    (void)close(fd);
}

Test(shared_file, what_cannot_be_had_is_an_errno_value)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert(kolo_shared_file_reserve(fd, 0, 4096) != 0);
    (void)close(fd);
}
