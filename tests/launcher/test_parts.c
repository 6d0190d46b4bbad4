// SPDX-License-Identifier: Apache-2.0
// What is left of a list of buffers after each number of bytes, and that all of it is written
// through a pipe that takes little at a time.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/parts.h"

enum { PARTS = 3, BYTES = 7 };

static void fill(char text[BYTES + 1], struct iovec parts[PARTS])
{
    strcpy(text, "abcdefg");
    parts[0] = (struct iovec){.iov_base = text, .iov_len = 3};
    parts[1] = (struct iovec){.iov_base = text + 3, .iov_len = 0};
    parts[2] = (struct iovec){.iov_base = text + 3, .iov_len = 4};
}

Test(parts, what_is_left_after_each_number_of_bytes)
{
    for (size_t bytes = 0; bytes <= BYTES; bytes++) {
        char text[BYTES + 1];
        struct iovec parts[PARTS];
        int count = PARTS;
        fill(text, parts);
        const struct iovec *next = kolo_parts_advance(parts, &count, bytes);
        cr_assert_eq(count, bytes < 3 ? 3 : bytes < BYTES ? 1 : 0, "%zu", bytes);
        cr_assert_eq(next - parts, PARTS - count);
        cr_assert_eq(parts[0].iov_len + parts[1].iov_len + parts[2].iov_len, BYTES - bytes);
        if (count > 0)
            cr_assert_eq(*(char *)next->iov_base, text[bytes], "%zu", bytes);
    }
}

Test(parts, all_is_written_or_the_rest_is_left)
{
    char text[BYTES + 1], got[BYTES];
    struct iovec parts[PARTS];
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    (void)signal(SIGPIPE, SIG_IGN);
    fill(text, parts);
    cr_assert_eq(kolo_parts_write(ends[1], parts, PARTS), 0);
    cr_assert_eq(read(ends[0], got, sizeof got), BYTES);
    cr_assert_arr_eq(got, text, BYTES);
    close(ends[0]);
    fill(text, parts);
    cr_assert_eq(kolo_parts_write(ends[1], parts, PARTS), EPIPE);
    cr_assert_eq(parts[0].iov_len, 3);
    cr_assert_eq(parts[2].iov_len, 4);
    close(ends[1]);
}

/** Somebody else has made the descriptor non-blocking. */
Test(parts, a_full_pipe_is_waited_for, .timeout = 60)
{
    enum { MUCH = 1 << 20 };
    static char much[MUCH], piece[4096];
    int ends[2];
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    const pid_t reader = fork();
    if (reader == 0) {
        size_t taken = 0;
        (void)fcntl(ends[0], F_SETFL, 0);
        while (taken < MUCH)
            taken += (size_t)read(ends[0], piece, sizeof piece);
        _exit(taken == MUCH);
    }
    struct iovec part = {.iov_base = much, .iov_len = MUCH};
    int wait_status;
    cr_assert_eq(kolo_parts_write(ends[1], &part, 1), 0);
    cr_assert_eq(part.iov_len, 0);
    cr_assert_eq(waitpid(reader, &wait_status, 0), reader);
    cr_assert(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 1);
}
