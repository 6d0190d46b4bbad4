// SPDX-License-Identifier: Apache-2.0
// Starting processes, finding programs, and finding the processes that descend from others
// (tree.c).
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/open_files.h"
#include "launcher/spawn.h"
#include "tests/support/await.h"

static kolo_status start(const char *path, const char *cwd, const char *script, int out, pid_t *pid,
                         int *error)
{
    static char sh[] = "sh", dash_c[] = "-c", text[256];
    strncpy(text, script, sizeof text - 1);
    char *argv[] = {sh, dash_c, text, NULL};
    struct kolo_spawn spawn = {.path = path,
                               .argv = argv,
                               .env = environ,
                               .cwd = cwd,
                               .fds = {-1, out, -1},
                               .death_signal = SIGKILL};
    return kolo_spawn(&spawn, pid, error);
}

static int status_of(pid_t pid)
{
    int status = 0;
    cr_assert(waitpid(pid, &status, 0) == pid);
    return status;
}

Test(spawn, runs_with_clean_signals_and_streams, .timeout = 120)
{
    int ends[2], error;
    pid_t pid;
    char text[64] = "";
    (void)signal(SIGPIPE, SIG_IGN);
    cr_assert(kolo_pipe(ends) == KOLO_OK);
    cr_assert(start("/bin/sh", "/", "pwd; ls /proc/self/fd | wc -l; kill -PIPE $$; echo no",
                    ends[1], &pid, &error) == KOLO_OK);
    close(ends[1]);
    int status = status_of(pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "SIGPIPE was ignored");
    ssize_t got = read(ends[0], text, sizeof text - 1);
    /* 0, 1, 2 and the one that ls opens */
    cr_assert(got > 0 && strcmp(text, "/\n4\n") == 0, "'%s'", text);
    close(ends[0]);
}

Test(spawn, says_what_failed, .timeout = 120)
{
    pid_t pid;
    int error;
    cr_assert(start("/no/such/program", NULL, "", -1, &pid, &error) == KOLO_ERR_SYSTEM);
    cr_assert(error == ENOENT && strstr(kolo_error_detail(), "/no/such/program"), "%s",
              kolo_error_detail());
    cr_assert(start("/bin/sh", "/no/folder", "", -1, &pid, &error) == KOLO_ERR_SYSTEM);
    cr_assert(error == ENOENT && strstr(kolo_error_detail(), "/no/folder"), "%s",
              kolo_error_detail());
    cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child was left");
}

/** Starts @p spawn without waiting. Returns its report. */
static int begin(const struct kolo_spawn *spawn, pid_t *pid)
{
    int report = -1, error = 0;
    cr_assert(kolo_spawn_begin(spawn, pid, &report, &error) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kill(-*pid, 0) == 0, "it has no group yet, and would miss a signal");
    cr_assert(fcntl(report, F_SETFL, O_NONBLOCK) == 0);
    return report;
}

Test(spawn, tells_later_how_it_went, .timeout = 120)
{
    char sh[] = "sh", dash_c[] = "-c", text[] = "exit 3";
    char *argv[] = {sh, dash_c, text, NULL};
    struct kolo_spawn spawn = {
        .path = "/bin/sh", .argv = argv, .env = environ, .fds = {-1, -1, -1}};
    kolo_status status = KOLO_OK;
    pid_t pid = -1;
    int error = 0, report = begin(&spawn, &pid);
    cr_assert(AWAIT((status = kolo_spawn_end(&spawn, report, &error)) != KOLO_AGAIN));
    cr_assert(status == KOLO_OK && error == 0);
    close(report);
    int ended = status_of(pid);
    cr_assert(WIFEXITED(ended) && WEXITSTATUS(ended) == 3);

    spawn.cwd = "/no/folder";
    report = begin(&spawn, &pid);
    cr_assert(AWAIT((status = kolo_spawn_end(&spawn, report, &error)) != KOLO_AGAIN));
    cr_assert(status == KOLO_ERR_SYSTEM && error == ENOENT);
    cr_assert(strcmp(kolo_error_detail(),
                     "cannot enter the directory of /bin/sh, /no/folder: No such file or "
                     "directory") == 0,
              "%s", kolo_error_detail());
    close(report);
    (void)status_of(pid);
}

Test(spawn, what_is_not_executed_yet_is_not_waited_for)
{
    const struct kolo_spawn spawn = {.path = "/bin/sh"};
    int ends[2], error = 0; /* as of a process whose exec hangs */
    cr_assert(kolo_pipe(ends) == KOLO_OK && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    cr_assert(kolo_spawn_end(&spawn, ends[0], &error) == KOLO_AGAIN);
    close(ends[1]);
    cr_assert(kolo_spawn_end(&spawn, ends[0], &error) == KOLO_OK);
    close(ends[0]);
}

static void expect_refused(const char *content, int error_wanted, const char *words)
{
    char path[] = "/tmp/kolo-spawn-XXXXXX";
    pid_t pid;
    int error = 0, fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    cr_assert(fchmod(fd, 0700) == 0 && close(fd) == 0);
    cr_assert(start(path, NULL, "", -1, &pid, &error) == KOLO_ERR_SYSTEM && error == error_wanted);
    cr_assert(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());
    unlink(path);
}

/* A file that exists and cannot be executed: "No such file" would mislead its owner. */
Test(spawn, what_a_script_lacks_is_said, .timeout = 120)
{
    pid_t pid;
    int error = 0;
    expect_refused("#!/no/such/shell\n", ENOENT,
                   ", whose interpreter (the first line of a script) or loader is not there: No "
                   "such file or directory");
    expect_refused("#!/bin/sh\r\nexit 0\r\n", ENOENT, ", a script with the line ends of Windows");
    expect_refused("#!/bin/sh\r", ENOENT, ", whose interpreter");
    expect_refused("exit 0\n", ENOEXEC, ", or a script without #! on its first line: Exec format");
    cr_assert(start("/no/such/program", NULL, "", -1, &pid, &error) == KOLO_ERR_SYSTEM);
    cr_assert(!strstr(kolo_error_detail(), "interpreter"), "%s", kolo_error_detail());
}

/* Every system refuses an empty set of processors; some sandboxes refuse any set. */
Test(spawn, binding_that_is_refused_may_be_left_out, .timeout = 120)
{
    char name[] = "true";
    char *argv[] = {name, NULL};
    cpu_set_t none;
    CPU_ZERO(&none);
    struct kolo_spawn spawn = {.path = "/bin/true",
                               .argv = argv,
                               .env = environ,
                               .fds = {-1, -1, -1},
                               .death_signal = SIGKILL,
                               .cpus = &none};
    pid_t pid;
    int error;
    cr_assert(kolo_spawn(&spawn, &pid, &error) == KOLO_ERR_SYSTEM && error == EINVAL);
    cr_assert(strcmp(kolo_error_detail(),
                     "cannot bind /bin/true (--bind none does without): Invalid argument") == 0,
              "%s", kolo_error_detail());
    spawn.may_be_unbound = true;
    cr_assert(kolo_spawn(&spawn, &pid, &error) == KOLO_OK, "%s", kolo_error_detail());
    int status = status_of(pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A limit that leaves room for the pipe of the report, but not for /dev/null. */
Test(spawn, too_few_files_are_named, .timeout = 120)
{
    struct rlimit limit;
    int ends[2], error = 0;
    pid_t pid;
    cr_assert(kolo_pipe(ends) == KOLO_OK && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)(ends[0] > ends[1] ? ends[0] : ends[1]) + 1;
    close(ends[0]);
    close(ends[1]);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    cr_assert(start("/bin/sh", NULL, "", -1, &pid, &error) == KOLO_ERR_SYSTEM);
    cr_assert(error == EMFILE && strstr(kolo_error_detail(), "raise `ulimit -n`"), "%s",
              kolo_error_detail());
}

/* kolorun raises its own. */
Test(spawn, a_child_has_the_limit_of_files_from_before, .timeout = 120)
{
    struct rlimit limit;
    uintmax_t most = 0;
    int error = 0;
    pid_t pid;
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 100;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    cr_assert(kolo_open_files_allow(200, 0, &most));
    cr_assert(start("/bin/sh", "/", "[ $(ulimit -n) = 100 ]", -1, &pid, &error) == KOLO_OK);
    const int status = status_of(pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 200);
}

Test(spawn, finds_programs)
{
    char found[256];
    int error = 0;
    cr_assert(kolo_program_find("sh", "/", "/nowhere:/bin", found, sizeof found, &error) ==
              KOLO_OK);
    cr_assert(strcmp(found, "/bin/sh") == 0, "%s", found);
    cr_assert(kolo_program_find("sh", "/", "nowhere:bin", found, sizeof found, &error) == KOLO_OK);
    cr_assert(strcmp(found, "//bin/sh") == 0, "%s", found);
    cr_assert(kolo_program_find("sh", "/bin", "nowhere:", found, sizeof found, &error) == KOLO_OK);
    cr_assert(strcmp(found, "/bin/sh") == 0, "%s", found);
    cr_assert(kolo_program_find("bin/sh", "/", "", found, sizeof found, &error) == KOLO_OK);
    cr_assert(kolo_program_find("/bin/sh", "/nowhere", "", found, sizeof found, &error) == KOLO_OK);
    cr_assert(strcmp(found, "/bin/sh") == 0, "%s", found);
    cr_assert(kolo_program_find("no-such", "/", "/bin", found, sizeof found, &error) < 0);
    cr_assert(error == ENOENT);
    cr_assert(kolo_program_find("/etc/passwd", "/", "/bin", found, sizeof found, &error) < 0);
    cr_assert(error == EACCES);
    cr_assert(kolo_program_find("/etc", "/", "/bin", found, sizeof found, &error) < 0);
    cr_assert(error == EISDIR);
}

/* Before that there are fewer processes, or a shell that has yet to execute setsid and sleep. */
static bool is_told_of(const char *words, char *text, size_t capacity)
{
    kolo_tree_describe(getpid(), text, capacity);
    return strstr(text, words) != NULL;
}

static void count_one(void *context, pid_t pid, const char *name)
{
    cr_expect(pid > 1 && pid != getpid() && name[0] != '\0', "%d (%s)", (int)pid, name);
    ++*(int *)context;
}

Test(spawn, the_tree_finds_orphans_in_their_own_sessions, .timeout = 120)
{
    pid_t pid;
    int error;
    cr_assert(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    cr_assert(start("/bin/sh", NULL, "setsid sleep 60 & (setsid sleep 60 &) ; sleep 60 & exit 0",
                    -1, &pid, &error) == KOLO_OK);
    (void)status_of(pid);
    char text[200] = "";
    cr_assert(AWAIT(is_told_of(" (sleep) and 2 more outlive SIGKILL", text, sizeof text)), "%s",
              text);
    cr_assert(strncmp(text, "process ", 8) == 0, "%s", text);
    int visited = 0;
    kolo_tree_visit(getpid(), count_one, &visited);
    cr_assert_eq(visited, 3, "and none that is not of this process");
    cr_assert(kolo_tree_signal(getpid(), SIGKILL) == 3);
    for (int i = 0; i < 3; i++)
        cr_assert(waitpid(-1, NULL, 0) > 0);
    cr_assert(kolo_tree_signal(getpid(), 0) == 0);
    kolo_tree_describe(getpid(), text, sizeof text);
    cr_assert(strcmp(text, "a process that /proc does not show outlives SIGKILL") == 0, "%s", text);
}
