// SPDX-License-Identifier: Apache-2.0
// base/short_file.c on files of /proc and on files that the test writes.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/short_file.h"

static const char *file_with(const char *bytes, size_t count)
{
    static char path[] = "/tmp/kolo-test-short-file-XXXXXX";
    static int fd = -1;
    if (fd < 0)
        cr_assert((fd = mkostemp(path, O_CLOEXEC)) >= 0);
    cr_assert(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, count, 0) == (ssize_t)count);
    return path;
}

static int64_t number_if(const char *text)
{
    return kolo_short_file_number(file_with(text, strlen(text)));
}

Test(short_file, a_text_is_all_of_the_file_or_as_much_as_there_is_room_for)
{
    char text[8];
    const char *path = file_with("four\n", 5);
    cr_expect_eq(kolo_short_file_read(path, text, sizeof text), 5);
    cr_expect_str_eq(text, "four\n");
    cr_expect_eq(kolo_short_file_read(path, text, 6), 5);
    cr_expect_eq(kolo_short_file_read(path, text, 4), 3);
    cr_expect_str_eq(text, "fou");
    cr_expect_eq(kolo_short_file_read(path, text, 1), 0);
    cr_expect_str_eq(text, "");
    cr_expect_eq(kolo_short_file_read(file_with("a\0b", 3), text, sizeof text), 3);
    cr_expect(memcmp(text, "a\0b", 4) == 0);
    cr_assert(unlink(path) == 0);
}

Test(short_file, without_a_file_the_text_is_empty)
{
    char text[8] = "before";
    cr_expect_eq(kolo_short_file_read("/proc/no such file", text, sizeof text), -1);
    cr_expect_str_eq(text, "");
    text[0] = 'b';
    cr_expect_eq(kolo_short_file_read("/proc", text, sizeof text), -1, "it is a directory");
    cr_expect_str_eq(text, "");
    const char *path = file_with("", 0);
    cr_expect_eq(kolo_short_file_read(path, text, sizeof text), 0);
    cr_expect_str_eq(text, "");
    cr_assert(unlink(path) == 0);
}

/** The kernel gives out the mappings of a process, for example, a page at a time. */
Test(short_file, a_file_that_comes_in_pieces_is_read_to_its_end)
{
    enum { BYTES = 1 << 20 };
    static char text[BYTES], line[BYTES];
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    cr_assert_not_null(file);
    while (fgets(line, BYTES, file))
        bytes += strlen(line);
    (void)fclose(file);
    const ssize_t got = kolo_short_file_read("/proc/self/maps", text, sizeof text);
    cr_expect(got > 4096 && (size_t)got == strlen(text), "%zd", got);
    cr_expect(text[got - 1] == '\n');
    errno = EINTR; /* whatever it was before */
    cr_expect_eq(kolo_short_file_read("/proc/self/maps", text, 4096 + 64), 4096 + 63);
    cr_expect_eq(strlen(text), 4096 + 63, "no more than there is room for");
    (void)kolo_short_file_read("/proc/self/maps", text, sizeof text);
    cr_expect(strstr(text, "[stack]") != NULL, "it is near the end: %zd of %zu bytes", got, bytes);
}

Test(short_file, a_number_is_the_whole_of_its_file)
{
    cr_expect_eq(number_if("0\n"), 0);
    cr_expect_eq(number_if("17\n"), 17);
    cr_expect_eq(number_if("17"), 17);
    cr_expect_eq(number_if("9223372036854775807\n"), INT64_MAX);
    cr_expect_eq(number_if("9223372036854775808\n"), -1);
    cr_expect_eq(number_if("000000000000000000000179\n"), -1, "there is no room for all of it");
    cr_expect_eq(number_if("99999999999999999999999999\n"), -1);
    cr_expect_eq(number_if("-1\n"), -1);
    cr_expect_eq(number_if("max\n"), -1);
    cr_expect_eq(number_if("0-3\n"), -1);
    cr_expect_eq(number_if("17 18\n"), -1);
    cr_expect_eq(number_if("17\n\n"), -1);
    cr_expect_eq(number_if(" 17\n"), -1);
    cr_expect_eq(number_if("\n"), -1);
    cr_expect_eq(number_if(""), -1);
    cr_expect_eq(kolo_short_file_number(file_with("1\0002", 3)), -1);
    cr_assert(unlink(file_with("", 0)) == 0);
    cr_expect_eq(kolo_short_file_number("/proc/no such file"), -1);
}

static int lowest_free_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && close(fd) == 0);
    return fd;
}

Test(short_file, keeps_no_descriptor_open)
{
    char text[8];
    const char *path = file_with("123456789\n", 10);
    const int before = lowest_free_descriptor();
    cr_expect_eq(kolo_short_file_read(path, text, sizeof text), 7);
    cr_expect_eq(kolo_short_file_read("/proc", text, sizeof text), -1);
    cr_expect_eq(kolo_short_file_number(path), 123456789);
    cr_expect_eq(lowest_free_descriptor(), before);
    cr_assert(unlink(path) == 0);
}
