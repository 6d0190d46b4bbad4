// SPDX-License-Identifier: Apache-2.0
// base/process_stat.c: children that live, end, or execute another program.
#include <criterion/criterion.h>

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_stat.h"

/** How a child goes on once it is told to. */
enum way { EXITS, IS_KILLED, EXECUTES, CLOSES };

/** Starts a child with a socket that it closes by going on in this way; waits for the socket's end.
 * Its name is one that could mislead. */
static pid_t go_on(enum way way)
{
    int pair[2];
    char byte = 'x';
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, "a) Z 1 (b");
        (void)close(pair[0]);
        if (read(pair[1], &byte, 1) == 1 && way == EXECUTES)
            (void)execlp("sleep", "sleep", "600", NULL);
        if (way == EXITS)
            _exit(0);
        if (way == CLOSES)
            (void)close(pair[1]);
        for (;;)
            (void)pause();
    }
    (void)close(pair[1]);
    if (way == IS_KILLED)
        cr_assert(kill(pid, SIGKILL) == 0);
    else
        cr_assert(write(pair[0], &byte, 1) == 1);
    cr_assert(read(pair[0], &byte, 1) <= 0);
    (void)close(pair[0]);
    return pid;
}

Test(process_stat, the_name_of_a_process_may_have_anything, .timeout = 60)
{
    char text[256];
    const pid_t pid = go_on(CLOSES);
    char *end = kolo_process_read_stat(pid, text, sizeof text);
    cr_assert(end && end[1] == ' ' && strchr("SRD", end[2]), "%s", text);
    *end = '\0';
    cr_assert(strcmp(strchr(text, '(') + 1, "a) Z 1 (b") == 0, "%s", text);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    cr_assert(kolo_process_read_stat(pid, text, sizeof text) == NULL);
}

Test(process_stat, who_lives_when_a_socket_has_ended, .timeout = 60)
{
    static const struct {
        enum way way;
        const char *program; /* the end of its path; NULL: it does not live */
    } cases[] = {
        {EXITS, NULL}, {IS_KILLED, NULL}, {EXECUTES, "sleep"}, {CLOSES, "test-base-process_stat"}};
    for (int turn = 0; turn < 20; turn++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char program[256];
            const pid_t pid = go_on(cases[i].way);
            const bool lives = kolo_process_lives(pid, kolo_boot_ns(), program, sizeof program);
            cr_assert(lives == (cases[i].program != NULL), "way %d", (int)cases[i].way);
            if (lives) {
                const size_t length = strlen(program), least = strlen(cases[i].program);
                cr_assert(length >= least &&
                              strcmp(program + length - least, cases[i].program) == 0,
                          "%s", program);
            }
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, 0);
            cr_assert(!kolo_process_lives(pid, kolo_boot_ns(), program, sizeof program));
        }
}

Test(process_stat, a_process_that_is_younger_is_another_one)
{
    char program[8];
    const int self = (int)getpid();
    cr_assert(kolo_process_lives(self, kolo_boot_ns(), program, sizeof program));
    cr_assert(strlen(program) == sizeof program - 1);
    cr_assert(!kolo_process_lives(self, 1, program, sizeof program));
    cr_assert(!kolo_process_lives(0, kolo_boot_ns(), program, sizeof program));
    cr_assert(!kolo_process_lives(-1, kolo_boot_ns(), program, sizeof program));
}
