// SPDX-License-Identifier: Apache-2.0
// The standard streams, see streams.h. A closed stream becomes /dev/null; a closed standard output
// becomes a descriptor that cannot be written, so that losing output is a failure, as on a full
// disk. So is reaching the limit on the size of files: its signal, which would end the program
// without a message, is ignored.
#include "tools/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/exit_status.h"

static bool is_told;

static bool are_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            return false;
    return true;
}

kolo_status streams_secure(void)
{
    int fd;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (are_open()) /* there may be no /dev/null, in a sandbox, and it is not needed */
        return KOLO_OK;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd == STDOUT_FILENO) { /* the lowest free number: what is opened now becomes 1 again */
            close(fd);
            fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        if (fd < 0)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                                   "standard input, output or error is closed, and /dev/null, "
                                   "which would take its place, cannot be opened");
        if (fd <= STDERR_FILENO)
            (void)fcntl(fd, F_SETFD, 0);
    } while (fd < STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    return KOLO_OK;
}

kolo_status streams_flush(void)
{
    static const char what[] = "cannot write to standard output";
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return KOLO_OK;
    is_told = true;
    return errno == 0 ? kolo_fail(KOLO_ERR_SYSTEM, "%s", what) /* earlier output, lost */
                      : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s", what);
}

/* Some file systems report what they could not write only when a file is closed. */
static kolo_status close_copy(void)
{
    const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return copy < 0 || close(copy) == 0
               ? KOLO_OK
               : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write to standard output");
}

int streams_end(const char *program, int exit_status)
{
    const bool was_told = is_told;
    if (streams_flush() == KOLO_OK && close_copy() == KOLO_OK)
        return exit_status;
    if (!was_told)
        fprintf(stderr, "%s: %s\n", program, kolo_error_detail());
    return exit_status == 0 ? EXIT_STATUS_FAILED : exit_status;
}
