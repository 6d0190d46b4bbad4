// SPDX-License-Identifier: Apache-2.0
// Which process of a rank is looked at, what is said of it, and that what comes over the wire is
// not trusted.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/sight.h"
#include "launcher/spawn.h"
#include "tests/support/await.h"

static pid_t start(const char *script)
{
    static char sh[] = "sh", dash_c[] = "-c";
    char text[256];
    snprintf(text, sizeof text, "%s", script);
    char *argv[] = {sh, dash_c, text, NULL};
    struct kolo_spawn spawn = {.path = "/bin/sh",
                               .argv = argv,
                               .env = environ,
                               .fds = {-1, -1, -1},
                               .death_signal = SIGKILL};
    pid_t pid;
    int error;
    cr_assert(kolo_spawn(&spawn, &pid, &error) == KOLO_OK);
    return pid;
}

/** Ends @p pid and what it started. */
static void end(pid_t pid)
{
    (void)kolo_tree_signal(pid, SIGKILL);
    cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void look(struct kolo_sight *sight, pid_t child, pid_t said)
{
    enum { MS = 50 };
    kolo_sight_begin(sight, 7, child, said);
    (void)nanosleep(&(struct timespec){.tv_nsec = MS * KOLO_NS_PER_MS}, NULL);
    kolo_sight_end(sight, MS);
}

static bool finds(struct kolo_sight *sight, pid_t child, const char *name)
{
    kolo_sight_begin(sight, 7, child, 0);
    kolo_sight_end(sight, 1);
    return strcmp(sight->name, name) == 0;
}

Test(sight, goes_behind_scripts, .timeout = 120)
{
    struct kolo_sight sight;
    char text[KOLO_SIGHT_TEXT_MAX];
    const pid_t pid = start("sh -c 'sleep 3600; true'; true");
    cr_assert(AWAIT(finds(&sight, pid, "sleep")));
    cr_assert(sight.rank == 7 && sight.pid != (uint32_t)pid);
    cr_assert(AWAIT((look(&sight, pid, 0), sight.permille < 100)));
    kolo_sight_text(&sight, text, sizeof text);
    cr_assert_str_eq(text, "blocked in clock_nanosleep (it sleeps)");
    end(pid);
}

Test(sight, believes_a_process_that_says_it_is_the_rank_only_if_it_descends_from_it, .timeout = 120)
{
    struct kolo_sight sight;
    const pid_t pid = start("sh -c 'sleep 3600; true'; true");
    cr_assert(AWAIT(finds(&sight, pid, "sleep")));
    const pid_t middle = kolo_process_awaited(pid);
    look(&sight, pid, middle);
    cr_assert(sight.pid == (uint32_t)middle && strcmp(sight.name, "sh") == 0);
    look(&sight, pid, pid);
    cr_assert(sight.pid == (uint32_t)pid);
    look(&sight, pid, getpid());
    cr_assert(strcmp(sight.name, "sleep") == 0, "%s", sight.name);
    look(&sight, pid, 1);
    cr_assert(strcmp(sight.name, "sleep") == 0, "%s", sight.name);
    end(pid);
}

Test(sight, tells_work_from_waiting, .timeout = 120)
{
    struct kolo_sight sight;
    char text[KOLO_SIGHT_TEXT_MAX];
    pid_t pid = start("while :; do :; done");
    cr_assert(AWAIT((look(&sight, pid, 0), sight.permille >= 100)));
    kolo_sight_text(&sight, text, sizeof text);
    cr_assert(strncmp(text, "busy (", 6) == 0, "%s", text);
    cr_assert(kill(pid, SIGSTOP) == 0);
    cr_assert(AWAIT((look(&sight, pid, 0), sight.state == 'T')));
    kolo_sight_text(&sight, text, sizeof text);
    cr_assert_str_eq(text, "stopped by a signal (SIGCONT continues it)");
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(AWAIT((look(&sight, pid, 0), sight.state == 'Z')));
    kolo_sight_text(&sight, text, sizeof text);
    cr_assert_str_eq(text, "its process has ended");
    cr_assert(waitpid(pid, NULL, 0) == pid);
    look(&sight, pid, 0);
    cr_assert(sight.pid == 0);
}

Test(sight, has_words_for_what_it_sees)
{
    static const struct {
        struct kolo_sight sight;
        const char *text;
    } cases[] = {
        {{.pid = 1, .state = 'S', .permille = 0, .blocked = "read of /a"}, "blocked in read of /a"},
        {{.pid = 1, .state = 'S', .permille = 0}, "blocked in something that is not shown"},
        {{.pid = 1, .state = 'D', .blocked = "a page fault"},
         "stuck within the kernel (state D) in a page fault"},
        {{.pid = 1, .state = 'D', .permille = 400}, "busy (40 % of a processor)"},
        {{.pid = 1, .state = 'R', .permille = 0}, "ready to run, but it gets 0 % of a processor"},
        {{.pid = 1, .state = 'S', .permille = 996}, "busy (100 % of a processor)"},
        {{.pid = 1, .state = 'S', .permille = 7950}, "busy (8.0 processors)"},
        {{.pid = 1, .state = 't'}, "stopped by a debugger"},
        {{.pid = 1, .state = '?'}, "what it does is not shown (its user may not see it in /proc)"},
        {{.pid = 1, .state = 'Z', .threads = 2},
         "its main thread has ended, and other threads go on"},
        {{.pid = 1, .state = 'Z', .threads = 2, .permille = 990}, "busy (99 % of a processor)"},
        {{.pid = 1, .state = 'Z', .threads = 1}, "its process has ended"},
        {{.pid = 0}, "its process has ended"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[KOLO_SIGHT_TEXT_MAX];
        kolo_sight_text(&cases[i].sight, text, sizeof text);
        cr_assert_str_eq(text, cases[i].text);
    }
}

Test(sight, comes_over_the_wire_as_it_was)
{
    struct kolo_sight sight = {.rank = 5,
                               .pid = 812,
                               .name = "train",
                               .state = 'D',
                               .threads = 12,
                               .permille = 42,
                               .cpu_ms = UINT64_C(1) << 40,
                               .blocked = "read of /data"},
                      got;
    uint8_t body[KOLO_SIGHT_BYTES];
    size_t bytes = 0;
    memset(sight.name, 'n', sizeof sight.name - 1);
    memset(sight.blocked, 'b', sizeof sight.blocked - 1);
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_sight_write(&writer, &sight);
    cr_assert(kolo_writer_finish(&writer, body, &bytes) == KOLO_OK, "the longest one fits");
    struct kolo_reader reader = kolo_reader_over(body, bytes);
    cr_assert(kolo_sight_read(&reader, &got) == KOLO_OK);
    cr_assert(got.rank == 5 && got.pid == 812 && got.state == 'D' && got.threads == 12 &&
              got.permille == 42 && got.cpu_ms == sight.cpu_ms);
    cr_assert_str_eq(got.name, sight.name);
    cr_assert_str_eq(got.blocked, sight.blocked);
    for (size_t cut = 0; cut < bytes; cut++) {
        reader = kolo_reader_over(body, cut);
        cr_assert(kolo_sight_read(&reader, &got) != KOLO_OK, "%zu bytes", cut);
    }
}

Test(sight, of_another_host_cannot_control_a_terminal)
{
    const struct kolo_sight sight = {
        .name = "a\x1b[2J", .permille = UINT32_MAX, .blocked = "read of /\n\x1b]0;x\x07"};
    struct kolo_sight got;
    uint8_t body[KOLO_SIGHT_BYTES];
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_sight_write(&writer, &sight);
    cr_assert(kolo_writer_finish(&writer, body, &bytes) == KOLO_OK);
    struct kolo_reader reader = kolo_reader_over(body, bytes);
    cr_assert(kolo_sight_read(&reader, &got) == KOLO_OK);
    cr_assert(got.permille < UINT32_MAX / 2, "a sum of it does not wrap");
    cr_assert_str_eq(got.name, "a?[2J");
    cr_assert_str_eq(got.blocked, "read of /??]0;x?");
}
