// SPDX-License-Identifier: Apache-2.0
// tools/streams.c: output that cannot be written is reported and makes the program fail.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/streams.h"

enum { SAYS_NOTHING = 1, ASKS_BEFORE = 2 };

static int late_descriptor; /* a descriptor whose copies report an error on closing; 0: none */

/* Comes before the C library's. */
int close(int fd)
{
    struct stat closed, late;
    const bool is_late = late_descriptor > 0 && fstat(fd, &closed) == 0 &&
                         fstat(late_descriptor, &late) == 0 && closed.st_ino == late.st_ino &&
                         closed.st_dev == late.st_dev;
    const long closing = syscall(SYS_close, fd);
    if (!is_late || closing != 0)
        return (int)closing;
    errno = EDQUOT;
    return -1;
}

/* The exit status of a program that would end with @p exit_status, and its output on standard
 * error. Its standard output is @p output; NULL: closed. */
static int end_of(const char *output, int exit_status, int how, char said[256])
{
    int ends[2], status = 0;
    cr_assert(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(STDOUT_FILENO);
        if (output)
            (void)!open(output, O_WRONLY);
        bool is_there = streams_secure() == KOLO_OK;
        if (!(how & SAYS_NOTHING))
            puts("words");
        if (how & ASKS_BEFORE)
            fprintf(stderr, "before: %d\n", streams_flush() == KOLO_ERR_SYSTEM && is_there);
        int end = streams_end("program", exit_status);
        fflush(stderr);
        _exit(end);
    }
    close(ends[1]);
    cr_assert(child > 0);
    ssize_t got = read(ends[0], said, 255), more = 0;
    while (got > 0 && got < 255 && (more = read(ends[0], said + got, (size_t)(255 - got))) > 0)
        got += more;
    said[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(streams, what_can_be_written_changes_nothing)
{
    char said[256];
    cr_expect_eq(end_of("/dev/null", 0, 0, said), 0);
    cr_expect_eq(end_of("/dev/null", 7, 0, said), 7);
    cr_expect_str_empty(said);
}

Test(streams, what_is_lost_is_said_and_a_failure)
{
    char said[256];
    cr_expect_eq(end_of("/dev/full", 0, 0, said), 1);
    cr_expect_str_eq(said, "program: cannot write to standard output: No space left on device\n");
    cr_expect_eq(end_of("/dev/full", 7, 0, said), 7);
    cr_expect(strstr(said, "cannot write"), "%s", said);
}

Test(streams, a_closed_output_is_one_that_cannot_be_written)
{
    char said[256];
    cr_expect_eq(end_of(NULL, 0, 0, said), 1);
    cr_expect_str_eq(said, "program: cannot write to standard output: Bad file descriptor\n");
    cr_expect_eq(end_of(NULL, 0, SAYS_NOTHING, said), 0, "nothing was lost");
    cr_expect_str_empty(said);
}

Test(streams, it_is_said_once)
{
    char said[256];
    cr_expect_eq(end_of("/dev/full", 0, ASKS_BEFORE, said), 1);
    cr_expect_str_eq(said, "before: 1\n");
}

Test(streams, no_file_gets_the_number_of_one_that_was_closed)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            close(fd);
        bool ok = streams_secure() == KOLO_OK && open("/dev/null", O_RDONLY) > STDERR_FILENO &&
                  read(STDIN_FILENO, &status, 1) == 0 && write(STDOUT_FILENO, "x", 1) < 0 &&
                  write(STDERR_FILENO, "x", 1) == 1 && fcntl(STDOUT_FILENO, F_GETFD) == 0;
        _exit(ok ? 0 : 1);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_expect_eq(status, 0);
}

/* As on a network file system whose disk is full, or a quota used up. */
Test(streams, what_is_lost_on_closing_is_said_and_a_failure)
{
    char said[256] = "";
    int ends[2], status = 0;
    cr_assert(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const int out = memfd_create("kolo-test", MFD_CLOEXEC);
        dup2(ends[1], STDERR_FILENO);
        dup2(out, STDOUT_FILENO);
        late_descriptor = STDOUT_FILENO;
        puts("words");
        _exit(streams_end("program", 0));
    }
    close(ends[1]);
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_assert(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    cr_expect_str_eq(said, "program: cannot write to standard output: Disk quota exceeded\n");
}

/* Ends this process with 0 if streams_secure does what it should where nothing can be opened, with
 * @p is_closed without a standard input. */
static void secure_without_null(bool is_closed)
{
    struct rlimit limit;
    bool ok = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    limit.rlim_cur = 0;
    ok = ok && setrlimit(RLIMIT_NOFILE, &limit) == 0 && open("/dev/null", O_RDONLY) < 0;
    if (is_closed)
        close(STDIN_FILENO);
    const kolo_status status = streams_secure();
    ok = ok && status == (is_closed ? KOLO_ERR_SYSTEM : KOLO_OK);
    _exit(ok && (!is_closed || strstr(kolo_error_detail(), "/dev/null")) ? 0 : 1);
}

Test(streams, a_device_is_needed_only_for_a_stream_that_is_closed)
{
    for (int is_closed = 0; is_closed <= 1; is_closed++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            secure_without_null(is_closed != 0);
        cr_assert(child > 0 && waitpid(child, &status, 0) == child);
        cr_expect_eq(status, 0, "closed: %d", is_closed);
    }
}

/* In a child, because the limit also holds for what the test writes. */
Test(streams, a_limit_of_file_size_is_an_error)
{
    const struct rlimit limit = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool ok = streams_secure() == KOLO_OK && setrlimit(RLIMIT_FSIZE, &limit) == 0;
        int fd = memfd_create("kolo-test", MFD_CLOEXEC);
        ok = ok && fd >= 0 && write(fd, "x", 1) < 0 && errno == EFBIG;
        _exit(ok ? 0 : 1);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_expect_eq(status, 0);
}
