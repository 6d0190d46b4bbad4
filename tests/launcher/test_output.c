// SPDX-License-Identifier: Apache-2.0
// What has been written counts as drained only once the loop has heard how that went: a job that is
// over before it hears of a write error would end with status 0. A write that is stuck does no harm
// when it ends late. tests/launcher/output.sh tests the rest, through kolorun.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/output.h"
#include "launcher/spawn.h"
#include "tests/support/await.h"
#include "tests/support/tasks.h"

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

/** Output to a pipe, of which ends[0] is read. */
static struct kolo_output *open_on_pipe(uv_loop_t *loop, struct heard *heard, int ends[2])
{
    const struct kolo_output_events events = {heard, on_written, on_batch, on_drained, on_broken};
    struct kolo_output *output = NULL;
    cr_assert(uv_loop_init(loop) == 0 && kolo_pipe(ends) == KOLO_OK);
    cr_assert_eq(kolo_output_create(loop, ends[1], &events, &output), KOLO_OK);
    return output;
}

static void close_output(struct kolo_output *output, uv_loop_t *loop)
{
    kolo_output_close(output);
    while (uv_run(loop, UV_RUN_NOWAIT) != 0)
        continue;
    kolo_output_destroy(output);
    cr_assert_eq(uv_loop_close(loop), 0);
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
    cr_assert_eq(kolo_output_lost(output), heard->error ? sizeof line - 1 : 0);
    close_output(output, &loop);
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

/* As kolorun does: everything that is still open. */
static void close_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static int bytes_in(int fd)
{
    int bytes = 0;
    cr_assert_eq(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* Nobody reads, kolorun gives the write up, and then the reader is killed: the thread must not use
 * the loop, whose memory has other contents by then, and frees what it used itself. */
Test(output, a_write_that_ends_after_the_loop_does_no_harm, .timeout = 60)
{
    enum { BYTES = 1 << 20 /* more than fits a pipe */ };
    struct heard heard = {0};
    struct kolo_output_events events = {&heard, on_written, on_batch, on_drained, on_broken};
    struct kolo_output *output = NULL;
    const int before = tasks();
    uv_loop_t *loop = malloc(sizeof *loop);
    char *data = calloc(1, BYTES);
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    cr_assert(loop && data && uv_loop_init(loop) == 0 && kolo_pipe(ends) == KOLO_OK);
    cr_assert_eq(kolo_output_create(loop, ends[1], &events, &output), KOLO_OK);
    const int full = fcntl(ends[1], F_GETPIPE_SZ);
    kolo_output_bytes(output, ends[1], 0, data, BYTES);
    kolo_output_print(output, "waits in the queue");
    cr_assert(AWAIT(bytes_in(ends[0]) == full));
    kolo_output_close(output);
    uv_walk(loop, close_left, NULL);
    while (uv_run(loop, UV_RUN_NOWAIT) != 0)
        continue;
    cr_assert_eq(uv_loop_close(loop), 0);
    kolo_output_destroy(output);
    memset(loop, 0xFF, sizeof *loop);
    free(loop);
    cr_assert_eq(tasks(), before + 1);
    close(ends[0]);
    cr_assert(AWAIT(tasks() == before));
    cr_assert_eq(heard.bytes, (size_t)0);
    close(ends[1]);
    free(data);
}

Test(output, without_a_thread_nothing_is_left, .timeout = 60)
{
    struct kolo_output_events events = {NULL, on_written, on_batch, on_drained, on_broken};
    struct kolo_output *output = NULL;
    struct rlimit limit;
    uv_loop_t loop;
    if (!refuse_threads(&limit))
        cr_skip("the size of stacks is limited here");
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_output_create(&loop, 1, &events, &output), KOLO_ERR_SYSTEM);
    (void)setrlimit(RLIMIT_STACK, &limit);
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle is open");
}

/* One queue for several files: each gets its bytes, in order, and all credit is returned. */
Test(output, bytes_go_to_their_files, .timeout = 60)
{
    enum { FILES = 3, EACH = 100 };
    struct heard heard = {0};
    struct kolo_output_events events = {&heard, on_written, on_batch, on_drained, on_broken};
    struct kolo_output *output = NULL;
    int ends[FILES][2];
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_output_create(&loop, -1, &events, &output), KOLO_OK);
    for (int i = 0; i < FILES; i++)
        cr_assert_eq(kolo_pipe(ends[i]), KOLO_OK);
    for (int i = 0; i < FILES * EACH; i++) {
        const uint8_t byte = (uint8_t)(i / FILES);
        kolo_output_bytes(output, ends[i % FILES][1], 0, &byte, 1);
    }
    while (heard.bytes < FILES * EACH)
        uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < FILES; i++) {
        uint8_t got[EACH + 1];
        cr_assert_eq(read(ends[i][0], got, sizeof got), EACH);
        for (int j = 0; j < EACH; j++)
            cr_assert_eq(got[j], j, "file %d, byte %d", i, j);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    close_output(output, &loop);
}

/* Another process may make a file non-blocking, and with many ranks its number is large. */
Test(output, a_large_number_that_does_not_block_is_waited_for, .timeout = 60)
{
    enum { NUMBER = 3000, BYTES = 1 << 20 /* more than fits a pipe */ };
    struct heard heard = {0};
    struct kolo_output_events events = {&heard, on_written, on_batch, on_drained, on_broken};
    struct kolo_output *output = NULL;
    struct rlimit limit;
    char *data = calloc(1, BYTES);
    size_t got = 0;
    uv_loop_t loop;
    int ends[2];
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max <= NUMBER)
        cr_skip("so many files may not be open here");
    limit.rlim_cur = limit.rlim_cur <= NUMBER ? NUMBER + 1 : limit.rlim_cur;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    cr_assert(data && uv_loop_init(&loop) == 0 && kolo_pipe(ends) == KOLO_OK);
    cr_assert(dup2(ends[1], NUMBER) == NUMBER && fcntl(NUMBER, F_SETFL, O_NONBLOCK) == 0);
    cr_assert_eq(kolo_output_create(&loop, -1, &events, &output), KOLO_OK);
    kolo_output_bytes(output, NUMBER, 0, data, BYTES);
    while (got < BYTES) {
        const ssize_t bytes = read(ends[0], data, BYTES);
        cr_assert(bytes > 0);
        got += (size_t)bytes;
    }
    while (heard.drained == 0)
        uv_run(&loop, UV_RUN_ONCE);
    cr_assert(heard.bytes == BYTES && heard.error == 0);
    close_output(output, &loop);
    close(ends[0]);
    close(ends[1]);
    close(NUMBER);
    free(data);
}

/* A rank's output is passed on as it is; what kolorun says, perhaps with a host's words, is not. */
Test(output, lines_of_kolorun_have_no_control_characters, .timeout = 60)
{
    struct heard heard = {0};
    char text[64] = "";
    uv_loop_t loop;
    int ends[2];
    struct kolo_output *output = open_on_pipe(&loop, &heard, ends);
    kolo_output_print(output, "kolorun: host %s: %s", "a", "\x1b[31mred\nnext");
    kolo_output_no_prefix(output);
    kolo_output_lines(output, 0, 0, "\x1b[0m\n", 5);
    while (heard.drained == 0)
        uv_run(&loop, UV_RUN_ONCE);
    cr_assert(read(ends[0], text, sizeof text - 1) > 0);
    cr_assert_str_eq(text, "kolorun: host a: ?[31mred?next\n\x1b[0m\n");
    close_output(output, &loop);
    close(ends[0]);
    close(ends[1]);
}

/* Reads what is written by @p output until the loop hears that all is. */
static void expect_written(uv_loop_t *loop, struct heard *heard, int fd, const char *expected)
{
    char text[128] = "";
    for (heard->drained = 0; heard->drained == 0;)
        uv_run(loop, UV_RUN_ONCE);
    cr_assert(read(fd, text, sizeof text - 1) > 0);
    cr_assert_str_eq(text, expected);
}

static void expect_lines(uv_loop_t *loop, struct heard *heard, struct kolo_output *output, int fd,
                         int rank, const char *text, const char *expected)
{
    kolo_output_lines(output, 0, rank, text, strlen(text));
    expect_written(loop, heard, fd, expected);
}

/* A person sees the line of a question at once, and nobody else's text in it. Whole lines do not
 * cover the progress bar of another rank. */
Test(output, a_line_without_an_end_goes_on_or_is_ended, .timeout = 60)
{
    struct heard heard = {0};
    uv_loop_t loop;
    int ends[2];
    struct kolo_output *output = open_on_pipe(&loop, &heard, ends);
    const int fd = ends[0];
    expect_lines(&loop, &heard, output, fd, 0, "a", "[0] a\n"); /* it is not kept open */
    kolo_output_keep_open(output);
    expect_lines(&loop, &heard, output, fd, 0, "a\nname? ", "[0] a\n[0] name? ");
    kolo_output_lines(output, 0, 0, "", 0);
    expect_lines(&loop, &heard, output, fd, 0, "really? ", "really? ");
    expect_lines(&loop, &heard, output, fd, 0, "b\n", "b\n");
    expect_lines(&loop, &heard, output, fd, 0, "c", "[0] c");
    expect_lines(&loop, &heard, output, fd, 1, "d", "\n[1] d");
    expect_lines(&loop, &heard, output, fd, 1, "e\r", "e\r");
    expect_lines(&loop, &heard, output, fd, 1, "f\n", "[1] f\n");
    expect_lines(&loop, &heard, output, fd, 2, "80%\r90%\r", "[2] 80%\r[2] 90%\r");
    expect_lines(&loop, &heard, output, fd, 3, "70%\r", "[3] 70%\r");
    expect_lines(&loop, &heard, output, fd, 1, "\rg\n", "\n[1] \r[1] g\n");
    expect_lines(&loop, &heard, output, fd, 3, "75%\r", "[3] 75%\r");
    expect_lines(&loop, &heard, output, fd, 2, "g\r\nh\r", "\n[2] g\r\n[2] h\r");
    kolo_output_print(output, "kolorun: i");
    expect_written(&loop, &heard, fd, "\nkolorun: i\n");
    expect_lines(&loop, &heard, output, fd, 2, "j", "[2] j");
    kolo_output_line_ended(output);
    kolo_output_end_line(output);
    expect_lines(&loop, &heard, output, fd, 2, "k", "[2] k");
    kolo_output_no_prefix(output);
    expect_lines(&loop, &heard, output, fd, 3, "l\nm", "\nl\nm");
    kolo_output_end_line(output);
    expect_written(&loop, &heard, fd, "\n");
    cr_assert_eq(heard.bytes, 54);
    close_output(output, &loop);
    close(ends[0]);
    close(ends[1]);
}

static void put_foldable(struct kolo_output *output, int rank, const char *text)
{
    kolo_output_foldable(output, rank % 2, rank, text, strlen(text));
}

/* What ranks repeat waits for a while, unless kolorun says something itself. Until it is written
 * nothing is drained, and then all credit is returned. Standard output at the same terminal is not
 * folded, and keeps the order of its rank. tests/launcher/test_fold.c tests the rest. */
Test(output, what_ranks_repeat_is_written_once, .timeout = 60)
{
    struct heard heard = {0};
    uv_loop_t loop;
    int ends[2];
    struct kolo_output *output = open_on_pipe(&loop, &heard, ends);
    cr_assert_eq(kolo_output_fold(output, &loop, 8, 2, 1 << 20), KOLO_OK);
    const int fd = ends[0];
    const int64_t begun_ns = kolo_now_ns();
    put_foldable(output, 3, "why\n");
    expect_written(&loop, &heard, fd, "[3] why\n");
    for (int rank = 4; rank < 8; rank++)
        put_foldable(output, rank, "why\n");
    cr_assert_not(kolo_output_is_drained(output));
    expect_written(&loop, &heard, fd, "[4-7] the same\n");
    cr_assert_geq(kolo_now_ns() - begun_ns, 200 * KOLO_NS_PER_MS);
    cr_assert_eq(heard.bytes, 20);
    for (int rank = 3; rank >= 0; rank--)
        put_foldable(output, rank, rank == 3 ? "then\n" : "then\nmore\n");
    kolo_output_print(output, "kolorun: this");
    put_foldable(output, 4, "then\n");
    kolo_output_lines(output, 1, 5, "then\n", 5); /* perhaps a person reads it there */
    kolo_output_lines(output, 0, 4, "out\n", 4);
    expect_written(&loop, &heard, fd,
                   "[3] then\n[0-2] the same\n[0] more\n[1] more\n[2] more\nkolorun: this\n"
                   "[5] then\n[4] then\n[4] out\n");
    cr_assert_eq(heard.bytes, 69);
    put_foldable(output, 4, "then\n");
    cr_assert_not(kolo_output_is_drained(output));
    close_output(output, &loop); /* what waits is dropped, as what was not written is */
    close(ends[0]);
    close(ends[1]);
}
