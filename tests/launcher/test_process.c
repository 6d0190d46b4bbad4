// SPDX-License-Identifier: Apache-2.0
// What /proc says of a process: children of this one that are known to wait for something, to
// compute, or to have ended.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/process.h"
#include "tests/support/await.h"

/** A child that runs @p act, and ends with this process. */
static pid_t child(void (*act)(void))
{
    const pid_t parent = getpid();
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it has ended before that */
        _exit(0);
    act();
    _exit(0);
}

static void end(pid_t pid)
{
    cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static bool is_blocked_in(pid_t pid, const char *expected)
{
    char text[160];
    kolo_process_blocked(pid, text, sizeof text);
    return strcmp(text, expected) == 0;
}

static void expect_blocked_in(void (*act)(void), const char *expected)
{
    const pid_t pid = child(act);
    struct kolo_process_stat stat;
    char text[160];
    const bool came = AWAIT(is_blocked_in(pid, expected));
    kolo_process_blocked(pid, text, sizeof text);
    cr_assert(came, "'%s' instead of '%s'", text, expected);
    cr_assert(kolo_process_stat(pid, &stat) && stat.state == 'S' && stat.parent == getpid());
    end(pid);
}

static char path[] = "/tmp/kolo-process-XXXXXX";
static int file, pipe_ends[2];

static void sleep_long(void)
{
    const struct timespec long_time = {.tv_sec = 3600};
    (void)nanosleep(&long_time, NULL);
}
static void read_pipe(void)
{
    char byte;
    (void)!read(pipe_ends[0], &byte, 1);
}
static void lock_file(void)
{
    (void)flock(open(path, O_RDONLY), LOCK_EX); /* the parent has it */
}
static void await_child(void)
{
    const pid_t pid = child(sleep_long);
    (void)waitpid(pid, NULL, 0);
}
static void wait_for_a_signal(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigsuspend(&none);
}
static void compute(void)
{
    for (volatile unsigned int turns = 0;; turns++)
        (void)turns; /* of gcc 16, which counts no increment as a use */
}

Test(process, says_what_a_process_is_blocked_in, .timeout = 120)
{
    char expected[160];
    cr_assert(pipe(pipe_ends) == 0);
    file = mkstemp(path);
    cr_assert(file >= 0 && flock(file, LOCK_EX) == 0);
    expect_blocked_in(read_pipe, "read of a pipe");
    snprintf(expected, sizeof expected, "flock of %s", path);
    expect_blocked_in(lock_file, expected);
    expect_blocked_in(sleep_long, "clock_nanosleep");
    expect_blocked_in(wait_for_a_signal, "rt_sigsuspend");
    expect_blocked_in(await_child, "wait4");
    cr_assert(unlink(path) == 0);
}

Test(process, a_text_is_cut_where_its_room_ends, .timeout = 120)
{
    char text[32];
    cr_assert(pipe(pipe_ends) == 0);
    const pid_t pid = child(read_pipe);
    cr_assert(AWAIT(is_blocked_in(pid, "read of a pipe")));
    memset(text, '?', sizeof text);
    kolo_process_blocked(pid, text, sizeof "read of");
    cr_expect_str_eq(text, "read of");
    for (size_t i = sizeof "read of"; i < sizeof text; i++)
        cr_expect_eq(text[i], '?');
    end(pid);
}

Test(process, a_name_of_a_file_cannot_control_a_terminal, .timeout = 120)
{
    static char odd[] = "/tmp/kolo-\x1b[31m-XXXXXX";
    file = mkstemp(odd);
    cr_assert(file >= 0 && flock(file, LOCK_EX) == 0);
    snprintf(path, sizeof path, "%s", odd);
    const pid_t pid = child(lock_file);
    char text[160] = "";
    cr_assert(
        AWAIT((kolo_process_blocked(pid, text, sizeof text), strstr(text, "flock of") != NULL)));
    cr_assert(!strchr(text, '\x1b') && strstr(text, "kolo-?[31m-"), "%s", text);
    end(pid);
    cr_assert(unlink(odd) == 0);
}

static bool has_computed(pid_t pid, uint64_t ms)
{
    struct kolo_process_stat stat;
    return kolo_process_stat(pid, &stat) && stat.cpu_ms >= ms;
}

Test(process, counts_processor_time, .timeout = 120)
{
    const pid_t pid = child(compute);
    struct kolo_process_stat stat;
    char text[160];
    cr_assert(AWAIT(has_computed(pid, 50)));
    cr_assert(kolo_process_stat(pid, &stat) && stat.threads == 1);
    cr_assert(stat.state == 'R', "%c", stat.state);
    kolo_process_blocked(pid, text, sizeof text);
    cr_assert_str_empty(text);
    end(pid);
}

Test(process, finds_the_child_that_a_process_waits_for, .timeout = 120)
{
    const pid_t pid = child(await_child);
    struct kolo_process_stat stat;
    cr_assert(AWAIT(kolo_process_awaited(pid) > 0));
    const pid_t grandchild = kolo_process_awaited(pid);
    cr_assert(kolo_process_stat(grandchild, &stat) && stat.parent == pid);
    cr_assert(AWAIT(is_blocked_in(grandchild, "clock_nanosleep")));
    cr_assert(kolo_process_awaited(grandchild) == 0);
    (void)kill(grandchild, SIGKILL);
    end(pid);
}

static void await_any_but_the_dead(void)
{
    const pid_t dead = fork(); /* nobody waits for it */
    if (dead == 0)
        _exit(0);
    siginfo_t info;
    (void)waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT);
    (void)child(sleep_long);
    (void)waitid(P_ALL, 0, &info, WSTOPPED);
}

Test(process, of_several_children_one_that_lives_is_waited_for, .timeout = 120)
{
    const pid_t pid = child(await_any_but_the_dead);
    cr_assert(AWAIT(is_blocked_in(kolo_process_awaited(pid), "clock_nanosleep")));
    (void)kill(kolo_process_awaited(pid), SIGKILL);
    end(pid);
}

Test(process, is_there_or_not)
{
    const pid_t pid = child(sleep_long);
    cr_assert(kolo_process_is_there(pid) && kolo_process_is_there(1));
    end(pid);
    cr_assert(!kolo_process_is_there(pid) && !kolo_process_is_there(0));
}

Test(process, of_one_that_is_gone_nothing_is_said, .timeout = 120)
{
    struct kolo_process_stat stat;
    const pid_t pid = child(sleep_long);
    char text[160] = "x";
    end(pid);
    cr_assert(!kolo_process_stat(pid, &stat));
    kolo_process_blocked(pid, text, sizeof text);
    cr_assert_str_empty(text);
    cr_assert(kolo_process_awaited(pid) == 0);
}

Test(process, a_name_may_look_like_the_rest_of_the_line, .timeout = 120)
{
    struct kolo_process_stat stat;
    cr_assert(prctl(PR_SET_NAME, "a) R 1 (\n") == 0);
    cr_assert(kolo_process_stat(getpid(), &stat));
    cr_assert(stat.parent == getppid() && strcmp(stat.name, "a) R 1 (?") == 0, "%s", stat.name);
}
