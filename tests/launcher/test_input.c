// SPDX-License-Identifier: Apache-2.0
// Standard input by a thread: all of it arrives within the window, a read that is stuck does no
// harm when it ends late, and nothing is left of a thread that cannot be made.
// tests/launcher/output.sh tests the rest, through kolorun.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/input.h"
#include "launcher/spawn.h"
#include "tests/support/await.h"
#include "tests/support/tasks.h"

enum { WINDOW = 256 << 10 };

struct heard {
    struct kolo_input *input;
    size_t bytes;
    int ends;
    bool takes; /* tell the input at once that what came was taken */
};

static void nothing(uv_timer_t *timer)
{
    (void)timer;
}

static void on_read(void *context, const void *data, size_t bytes)
{
    struct heard *heard = context;
    (void)data;
    heard->bytes += bytes;
    heard->ends += bytes == 0;
    if (heard->takes && bytes > 0)
        kolo_input_taken(heard->input, bytes);
}

/* A loop with something else to wait for, as kolorun's: standard input alone does not keep it. */
static uv_loop_t *begin(void)
{
    enum { LONG_MS = 1 << 30 };
    uv_loop_t *loop = malloc(sizeof *loop);
    uv_timer_t *job = malloc(sizeof *job);
    cr_assert(loop && job && uv_loop_init(loop) == 0 && uv_timer_init(loop, job) == 0);
    cr_assert_eq(uv_timer_start(job, nothing, LONG_MS, 0), 0);
    loop->data = job;
    return loop;
}

static bool run(uv_loop_t *loop)
{
    (void)uv_run(loop, UV_RUN_NOWAIT);
    return true;
}

/* Ends the loop first; its memory then has other contents. */
static void end(uv_loop_t *loop, struct kolo_input *input)
{
    uv_timer_t *job = loop->data;
    uv_close((uv_handle_t *)job, NULL);
    kolo_input_close(input);
    while (uv_run(loop, UV_RUN_NOWAIT) != 0)
        continue;
    cr_assert_eq(uv_loop_close(loop), 0, "a handle is open");
    free(job);
    kolo_input_destroy(input);
    memset(loop, 0xFF, sizeof *loop);
    free(loop);
}

/** A pipe of which @p bytes bytes can be read, and then its end. */
static int bytes_to_read(size_t bytes)
{
    int ends[2];
    static char data[WINDOW + 4096];
    cr_assert(bytes <= sizeof data && kolo_pipe(ends) == KOLO_OK);
    if (fork() == 0) {
        close(ends[0]);
        _exit(write(ends[1], data, bytes) == (ssize_t)bytes ? 0 : 1);
    }
    close(ends[1]);
    return ends[0];
}

Test(input, all_of_it_and_its_end_arrive, .timeout = 60)
{
    enum { BYTES = WINDOW + 1000 };
    struct heard heard = {.takes = true};
    uv_loop_t *loop = begin();
    const int fd = bytes_to_read(BYTES);
    cr_assert_eq(kolo_input_create(loop, fd, on_read, &heard, &heard.input), KOLO_OK);
    cr_assert(AWAIT(run(loop) && heard.ends > 0));
    cr_assert_eq(heard.bytes, (size_t)BYTES);
    end(loop, heard.input);
    cr_assert_eq(heard.ends, 1);
    close(fd);
}

Test(input, no_more_is_read_than_was_taken, .timeout = 60)
{
    struct heard heard = {.takes = false};
    uv_loop_t *loop = begin();
    const int fd = bytes_to_read(WINDOW + 1000);
    cr_assert_eq(kolo_input_create(loop, fd, on_read, &heard, &heard.input), KOLO_OK);
    cr_assert(AWAIT(run(loop) && heard.bytes == WINDOW));
    kolo_input_taken(heard.input, 10);
    cr_assert(AWAIT(run(loop) && heard.bytes == WINDOW + 10));
    end(loop, heard.input);
    cr_assert_eq(heard.bytes, (size_t)WINDOW + 10);
    close(fd);
}

Test(input, a_read_that_ends_after_the_loop_does_no_harm, .timeout = 60)
{
    struct heard heard = {.takes = true};
    const int before = tasks();
    uv_loop_t *loop = begin();
    int ends[2];
    cr_assert(kolo_pipe(ends) == KOLO_OK);
    cr_assert_eq(write(ends[1], "x", 1), 1);
    cr_assert_eq(kolo_input_create(loop, ends[0], on_read, &heard, &heard.input), KOLO_OK);
    cr_assert(AWAIT(run(loop) && heard.bytes == 1)); /* and now it reads again */
    for (kolo_deadline soon = kolo_deadline_in_ms(50); !kolo_deadline_passed(soon);)
        continue;
    end(loop, heard.input);
    cr_assert_eq(tasks(), before + 1);
    close(ends[1]);
    cr_assert(AWAIT(tasks() == before));
    close(ends[0]);
}

/** Input that ends early is not whole; a closed descriptor is no input. */
Test(input, an_error_is_told_and_no_descriptor_is_none, .timeout = 60)
{
    const int nothing_at_0 = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
              folder = open("/", O_PATH);
    const struct {
        int fd, error;
    } cases[] = {{nothing_at_0, EIO}, {-1, 0}, {folder, 0}};
    if (nothing_at_0 < 0)
        cr_skip_test("there is no /proc/self/mem");
    cr_assert(folder >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct heard heard = {.takes = true};
        uv_loop_t *loop = begin();
        cr_assert_eq(kolo_input_create(loop, cases[i].fd, on_read, &heard, &heard.input), KOLO_OK);
        cr_assert(AWAIT(run(loop) && heard.ends > 0));
        cr_expect_eq(kolo_input_error(heard.input), cases[i].error, "case %zu: %d", i,
                     kolo_input_error(heard.input));
        end(loop, heard.input);
    }
    close(nothing_at_0);
    close(folder);
}

Test(input, without_a_thread_nothing_is_left, .timeout = 60)
{
    struct heard heard = {.takes = true};
    struct rlimit limit;
    uv_loop_t *loop = begin();
    if (!refuse_threads(&limit))
        cr_skip("the size of stacks is limited here");
    cr_assert_eq(kolo_input_create(loop, 0, on_read, &heard, &heard.input), KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "a thread for standard input"), "%s",
              kolo_error_detail());
    (void)setrlimit(RLIMIT_STACK, &limit);
    end(loop, NULL);
}
