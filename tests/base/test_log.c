// SPDX-License-Identifier: Apache-2.0
// base/log.c: levels, the format of a line, and sinks.
#include "base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    int lines;
    enum kolo_log_level level;
    char text[4096];
} seen;

static void remember(void *context, enum kolo_log_level level, const char *line)
{
    cr_assert(context == &seen, "the context is handed on");
    errno = EIO; /* a sink may change errno */
    seen.lines++;
    seen.level = level;
    snprintf(seen.text, sizeof seen.text, "%s", line);
}

static void use_sink(void)
{
    kolo_log_set_sink(remember, &seen);
}

Test(log, levels_let_through_what_they_say, .init = use_sink)
{
    for (int limit = KOLO_LOG_NONE; limit < KOLO_LOG_LEVELS; limit++) {
        kolo_log_set_level((enum kolo_log_level)limit);
        for (int level = KOLO_LOG_NONE; level < KOLO_LOG_LEVELS; level++) {
            int before = seen.lines;
            bool expected = level != KOLO_LOG_NONE && level <= limit;
            cr_assert(kolo_log_on((enum kolo_log_level)level) == expected, "%d %d", limit, level);
            kolo_log_write((enum kolo_log_level)level, "x");
            cr_assert(seen.lines == before + expected, "%d %d", limit, level);
        }
    }
}

Test(log, a_level_that_is_none_writes_nothing, .init = use_sink)
{
    kolo_log_set_level((enum kolo_log_level)100);
    kolo_log_write((enum kolo_log_level)50, "x");
    kolo_log_write((enum kolo_log_level) - 1, "x");
    cr_assert(seen.lines == 0, "%d lines", seen.lines);
}

Test(log, the_default_level_is_warn, .init = use_sink)
{
    KOLO_INFO("no");
    cr_assert(seen.lines == 0, "info");
    KOLO_WARN("yes %d", 1);
    cr_assert(seen.lines == 1 && strcmp(seen.text, "yes 1") == 0, "%s", seen.text);
    cr_assert(seen.level == KOLO_LOG_WARN, "%d", seen.level);
}

static int evaluations;

static int evaluate(void)
{
    return ++evaluations;
}

Test(log, arguments_are_not_evaluated_below_the_level, .init = use_sink)
{
    KOLO_DEBUG("%d", evaluate());
    cr_assert(evaluations == 0, "debug is off");
    kolo_log_set_level(KOLO_LOG_DEBUG);
    KOLO_DEBUG("%d", evaluate());
    cr_assert(evaluations == 1, "debug is on");
}

Test(log, parses_the_names_of_levels)
{
    static const char *const names[] = {"none", "error", "warn", "info", "debug"};
    for (int i = 0; i < KOLO_LOG_LEVELS; i++) {
        enum kolo_log_level level = KOLO_LOG_LEVELS;
        cr_assert(kolo_log_level_parse(names[i], &level) == KOLO_OK, "%s", names[i]);
        cr_assert((int)level == i, "%s", names[i]);
    }
    static const char *const bad[] = {"", "Warn", "warning", "3", " warn", "warn "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        enum kolo_log_level level = KOLO_LOG_LEVELS;
        cr_assert(kolo_log_level_parse(bad[i], &level) == KOLO_ERR_CONFIG, "%s", bad[i]);
        cr_assert(level == KOLO_LOG_LEVELS, "%s: the output was touched", bad[i]);
    }
    enum kolo_log_level level;
    cr_assert(kolo_log_level_parse("loud", &level) == KOLO_ERR_CONFIG, "loud");
    cr_assert(strcmp(kolo_error_detail(),
                     "KOLO_LOG=loud: expected none, error, warn, info or debug") == 0,
              "%s", kolo_error_detail());
}

Test(log, a_line_is_one_line_and_errno_stays, .init = use_sink)
{
    errno = EAGAIN;
    KOLO_WARN("a\nb\x1b[0m %s", "c\rd");
    cr_assert(errno == EAGAIN, "errno %d", errno);
    cr_assert(strcmp(seen.text, "a?b?[0m c?d") == 0, "%s", seen.text);
}

/* Runs @p write_lines with standard error in a pipe, and returns the output. */
static void capture(void (*write_lines)(void), char *text, size_t capacity)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    cr_assert(pipe2(ends, O_CLOEXEC) == 0 && saved >= 0, "pipe");
    dup2(ends[1], STDERR_FILENO);
    write_lines();
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    close(saved);
    size_t used = 0;
    for (ssize_t got = 1; got > 0 && used < capacity - 1; used += (size_t)got) {
        got = read(ends[0], text + used, capacity - 1 - used);
        cr_assert(got >= 0, "read");
    }
    text[used] = '\0';
    close(ends[0]);
}

static void write_two(void)
{
    KOLO_WARN("without rank");
    kolo_log_set_rank(7);
    kolo_log_write(KOLO_LOG_ERROR, "with rank");
    kolo_log_set_rank(-1);
}

Test(log, the_default_sink_writes_prefix_level_and_text, .timeout = 120)
{
    char text[256];
    capture(write_two, text, sizeof text);
    cr_assert(strcmp(text, "kolo: warn: without rank\nkolo: [7] error: with rank\n") == 0, "%s",
              text);
}

static void write_long(void)
{
    char text[10000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    kolo_log_set_rank(INT_MAX);
    KOLO_WARN("%s", text);
}

Test(log, a_long_line_is_cut_and_still_ends, .timeout = 120)
{
    char text[16384];
    capture(write_long, text, sizeof text);
    size_t bytes = strlen(text);
    cr_assert(bytes > 2000 && bytes < PIPE_BUF, "%zu bytes", bytes);
    cr_assert(text[bytes - 1] == '\n' && strchr(text, '\n') == text + bytes - 1, "one newline");
}

static void write_to_nobody(void)
{
    close(STDERR_FILENO);
    KOLO_WARN("lost");
}

Test(log, a_closed_standard_error_loses_the_line_only, .timeout = 120)
{
    char text[16];
    capture(write_to_nobody, text, sizeof text);
    cr_assert(*text == '\0', "%s", text);
}

/* While threads write, the sink changes all the time: it must never get the other sink's
 * context. */
static atomic_int mixed, calls, stop;
static int context_a, context_b;

static void sink_a(void *context, enum kolo_log_level level, const char *line)
{
    (void)level, (void)line;
    atomic_fetch_add(&calls, 1);
    if (context != &context_a)
        atomic_fetch_add(&mixed, 1);
}

static void sink_b(void *context, enum kolo_log_level level, const char *line)
{
    (void)level, (void)line;
    atomic_fetch_add(&calls, 1);
    if (context != &context_b)
        atomic_fetch_add(&mixed, 1);
}

static void *log_until_told(void *unused)
{
    while (!atomic_load(&stop))
        KOLO_WARN("line");
    return unused;
}

Test(log, sink_and_context_change_together, .timeout = 60)
{
    pthread_t threads[2];
    kolo_log_set_sink(sink_a, &context_a);
    for (int i = 0; i < 2; i++)
        cr_assert(pthread_create(&threads[i], NULL, log_until_told, NULL) == 0, "thread");
    for (int i = 0; i < 2000 || atomic_load(&calls) < 1000; i++) {
        kolo_log_set_sink(sink_a, &context_a);
        kolo_log_set_sink(sink_b, &context_b);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cr_assert(atomic_load(&mixed) == 0, "%d of %d calls", atomic_load(&mixed), atomic_load(&calls));
}
