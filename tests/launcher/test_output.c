// SPDX-License-Identifier: Apache-2.0
// What has been written counts as drained only once the loop has heard how that went: a job that is
// over before it hears of a write error would end with status 0. tests/launcher/output.sh tests the
// rest, through kolorun.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/output.h"

struct heard {
    size_t bytes;
    int error, drained;
};

static void on_written(void *context, int owner, size_t bytes)
{
    (void)owner;
    ((struct heard *)context)->bytes += bytes;
}

static void on_batch(void *context)
{
    (void)context;
}

static void on_drained(void *context)
{
    ((struct heard *)context)->drained++;
}

static void on_broken(void *context, int error)
{
    ((struct heard *)context)->error = error;
}

/** Puts a line on @p fd, and asks for a while whether it is drained before the loop runs. */
static void put_a_line(int fd, struct heard *heard)
{
    static const char line[] = "a line\n";
    enum { FOR_MS = 100 };
    struct kolo_output *output = NULL;
    struct kolo_output_events events = {heard, on_written, on_batch, on_drained, on_broken};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_output_create(&loop, fd, &events, &output), KOLO_OK);
    cr_assert(kolo_output_is_drained(output));
    kolo_output_lines(output, 3, 0, line, sizeof line - 1);
    for (kolo_deadline end = kolo_deadline_in_ms(FOR_MS); !kolo_deadline_passed(end);)
        cr_assert(!kolo_output_is_drained(output), "the loop has not heard of it yet");
    while (heard->drained == 0)
        uv_run(&loop, UV_RUN_ONCE);
    cr_assert(kolo_output_is_drained(output));
    cr_assert_eq(heard->bytes, sizeof line - 1);
    kolo_output_close(output);
    while (uv_run(&loop, UV_RUN_NOWAIT) != 0)
        continue;
    kolo_output_destroy(output);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

Test(output, is_drained_once_the_loop_has_heard, .timeout = 20)
{
    struct heard heard = {0};
    int fd = open("/dev/null", O_WRONLY);
    put_a_line(fd, &heard);
    cr_assert_eq(heard.error, 0);
    close(fd);
}

Test(output, is_not_drained_before_an_error_is_told, .timeout = 20)
{
    struct heard heard = {0};
    int fd = open("/dev/full", O_WRONLY);
    put_a_line(fd, &heard);
    cr_assert_eq(heard.error, ENOSPC);
    close(fd);
}
