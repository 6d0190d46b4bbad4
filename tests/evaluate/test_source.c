// SPDX-License-Identifier: Apache-2.0
// evaluate/source.c: a file that is written to while it is read is an error, also if what was read
// of it looks right; positions in files are tested by positions.py.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "evaluate/source.h"

enum { BYTES = 3 << 20 }; /* several pieces */

static char name[] = "/tmp/kolo-source-XXXXXX", other[] = "/tmp/kolo-source-XXXXXX";

/* A file of blanks that was written in 1970. */
static int make(char *path)
{
    static char text[BYTES];
    const struct timespec then[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    const int fd = mkstemp(path);
    memset(text, ' ', sizeof text);
    cr_assert(fd >= 0 && write(fd, text, sizeof text) == sizeof text && futimens(fd, then) == 0);
    return fd;
}

static void read_all(struct eval_source *source)
{
    do
        cr_assert(eval_source_next(source) == KOLO_OK, "%s", kolo_error_detail());
    while (source->bytes > 0);
}

static void nothing(int fd)
{
    cr_assert(access(name, F_OK) == 0 && fcntl(fd, F_GETFD) >= 0);
}

static void overwrite(int fd)
{
    cr_assert(pwrite(fd, "x", 1, BYTES - 1) == 1);
}

static void lengthen(int fd)
{
    cr_assert(pwrite(fd, "x", 1, BYTES) == 1);
}

static void cut(int fd)
{
    cr_assert(ftruncate(fd, 1) == 0);
}

static void make_readable(int fd)
{
    cr_assert(fchmod(fd, 0444) == 0);
}

static void replace(int fd)
{
    const int new = make(other);
    cr_assert(pwrite(new, "x", 1, 0) == 1 && close(new) == 0 && rename(other, name) == 0);
    nothing(fd);
}

static const struct {
    void (*change)(int fd);
    bool is_told;
} changes[] = {{nothing, false},  {make_readable, false}, {replace, false},
               {overwrite, true}, {lengthen, true},       {cut, true}};

Test(source, a_file_that_is_written_to_meanwhile_is_an_error)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct eval_source source;
        memcpy(name + sizeof name - 7, "XXXXXX", 6);
        const int fd = make(name);
        cr_assert(eval_source_open(&source, name, true) == KOLO_OK, "%s", kolo_error_detail());
        cr_assert(eval_source_next(&source) == KOLO_OK);
        changes[i].change(fd);
        read_all(&source);
        cr_expect_eq(eval_source_judge(&source, KOLO_OK),
                     changes[i].is_told ? KOLO_ERR_DATA : KOLO_OK, "change %zu", i);
        cr_expect(!changes[i].is_told || strstr(kolo_error_detail(), "while it was read"), "%s",
                  kolo_error_detail());
        cr_expect_eq(eval_source_judge(&source, KOLO_ERR_NO_MEMORY), KOLO_ERR_NO_MEMORY);
        eval_source_close(&source);
        cr_assert(close(fd) == 0 && unlink(name) == 0);
    }
}

Test(source, a_pipe_cannot_change)
{
    int ends[2];
    char path[32];
    struct eval_source source;
    cr_assert(pipe(ends) == 0 && write(ends[1], "[]", 2) == 2 && close(ends[1]) == 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    cr_assert(eval_source_open(&source, path, false) == KOLO_OK, "%s", kolo_error_detail());
    read_all(&source);
    cr_expect_eq(source.before, 2);
    cr_expect_eq(eval_source_judge(&source, KOLO_OK), KOLO_OK);
    eval_source_close(&source);
    close(ends[0]);
}
