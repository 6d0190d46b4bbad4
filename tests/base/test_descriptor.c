// SPDX-License-Identifier: Apache-2.0
// base/descriptor.c: a descriptor that does not block keeps its other flags, and those that
// are kept are none of the standard streams.
#include "base/descriptor.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

Test(descriptor, a_read_of_nothing_returns_at_once, .timeout = 60)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert(kolo_descriptor_set_nonblocking(ends[0]));
    cr_assert_eq(read(ends[0], &byte, 1), -1);
    cr_assert_eq(errno, EAGAIN);
    close(ends[0]);
    close(ends[1]);
}

Test(descriptor, other_flags_stay)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(fcntl(ends[1], F_SETFL, O_APPEND), 0);
    cr_assert(kolo_descriptor_set_nonblocking(ends[1]));
    cr_assert(kolo_descriptor_set_nonblocking(ends[1]), "once more");
    const int flags = fcntl(ends[1], F_GETFL);
    cr_assert_eq(flags & (O_APPEND | O_NONBLOCK), O_APPEND | O_NONBLOCK, "%x", (unsigned)flags);
    close(ends[0]);
    close(ends[1]);
}

Test(descriptor, one_that_is_closed_is_refused)
{
    cr_assert_not(kolo_descriptor_set_nonblocking(-1));
    cr_assert_eq(errno, EBADF);
}

Test(descriptor, what_is_kept_is_no_standard_stream)
{
    int ends[2];
    char byte = 0;
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert(ends[0] == STDIN_FILENO && ends[1] == STDERR_FILENO);
    for (int i = 0; i < 2; i++)
        ends[i] = kolo_descriptor_keep(ends[i]);
    cr_assert(ends[0] > STDERR_FILENO && ends[1] > STDERR_FILENO);
    cr_assert(fcntl(STDIN_FILENO, F_GETFD) == -1 && fcntl(STDERR_FILENO, F_GETFD) == -1);
    cr_assert_eq(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
    cr_assert(write(ends[1], "k", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'k');
    cr_assert_eq(kolo_descriptor_keep(ends[0]), ends[0], "it has a good number");
    cr_assert_eq(kolo_descriptor_keep(-1), -1);
    close(ends[0]);
    close(ends[1]);
}
