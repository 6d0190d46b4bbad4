// SPDX-License-Identifier: Apache-2.0
// The guardian: waits for signals. Uses neither libuv nor threads, so that nothing can fail late.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "launcher/agent.h"
#include "launcher/spawn.h"

enum {
    STATUS_TROUBLE = 1,
    HANGUP_GRACE_MS = 2000, /* time for the worker after the launcher disconnected */
    KILL_MS = 5000,         /* then a process in uninterruptible sleep is given up */
    LOOK_MS = 10
};

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP};
/* They are for kolorun, which may be found by its name: `pkill -QUIT kolorun`. */
static const int ignored[] = {SIGQUIT, SIGUSR1, SIGUSR2};

/* Kills and reaps until there is no child left. As a subreaper the guardian inherits every
 * orphan. */
static void kill_all(void)
{
    kolo_deadline deadline = kolo_deadline_in_ms(KILL_MS);
    while (!kolo_deadline_passed(deadline)) {
        (void)kolo_tree_signal(getpid(), SIGKILL);
        pid_t pid;
        do
            pid = waitpid(-1, NULL, WNOHANG);
        while (pid > 0);
        if (pid < 0 && errno == ECHILD)
            return;
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* Reaps the processes that ended; returns true if the worker is one of them. */
static bool reap(pid_t worker, int *exit_status)
{
    int wait_status;
    bool found = false;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
        if (pid != worker)
            continue;
        found = true;
        *exit_status =
            WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    }
    return found;
}

static void forward(int signals_fd, pid_t worker)
{
    struct signalfd_siginfo info;
    while (read(signals_fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            (void)kill(worker, (int)info.ssi_signo);
}

/* Waits until the worker has ended. Kills a worker that goes on after the launcher disconnected. */
static int guard(pid_t worker, int signals_fd)
{
    kolo_deadline hangup = KOLO_NEVER;
    int exit_status = STATUS_TROUBLE;
    while (!reap(worker, &exit_status)) {
        struct pollfd watched[2] = {{.fd = signals_fd, .events = POLLIN},
                                    {.fd = hangup == KOLO_NEVER ? STDIN_FILENO : -1}};
        if (poll(watched, 2, kolo_deadline_poll_ms(hangup)) < 0 && errno != EINTR)
            break;
        forward(signals_fd, worker);
        if (watched[1].revents & (POLLHUP | POLLERR))
            hangup = kolo_deadline_in_ms(HANGUP_GRACE_MS);
        if (kolo_deadline_passed(hangup)) {
            (void)kill(worker, SIGKILL);
            hangup = KOLO_NEVER - 1;
        }
    }
    return exit_status;
}

static int become_worker(pid_t guardian, const sigset_t *before)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    if (getppid() != guardian)
        return STATUS_TROUBLE;
    int fd_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int fd_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd_in < 0 || fd_out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0) {
        (void)kolo_fail_start(errno, "cannot set up its streams");
        fprintf(stderr, "kolorun: agent: %s\n", kolo_error_detail());
        return STATUS_TROUBLE;
    }
    close(null);
    return kolo_worker_main(fd_in, fd_out, guardian);
}

/* Whether kolorun can be behind stream @p fd: libuv aborts if it is to wait for a file. */
static bool check_stream(int fd, const char *what)
{
    char link[32], target[512] = "not open";
    struct stat file;
    if (fstat(fd, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)))
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length > 0)
        target[length] = '\0';
    kolo_text_clean(target);
    fprintf(stderr,
            "kolorun: agent: its standard %s is %s, not that of ssh: a start-up file of the shell "
            "there (.bashrc) redirects it\n",
            what, target);
    return false;
}

int kolo_agent_main(void)
{
    if (isatty(STDIN_FILENO)) {
        fprintf(stderr, "kolorun: --agent is for kolorun itself; try 'kolorun --help'\n");
        return 2;
    }
    const bool has_input = check_stream(STDIN_FILENO, "input");
    if (!check_stream(STDOUT_FILENO, "output") || !has_input)
        return STATUS_TROUBLE;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        (void)signal(ignored[i], SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        fprintf(stderr, "kolorun: agent: cannot become a subreaper: %s\n", strerror(errno));
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        sigaddset(&mask, forwarded[i]);
    (void)sigprocmask(SIG_BLOCK, &mask, &before);
    int signals_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    pid_t guardian = getpid();
    pid_t worker = signals_fd < 0 ? -1 : fork();
    if (worker < 0) {
        (void)kolo_fail_start(errno, signals_fd < 0 ? "signalfd" : "fork");
        fprintf(stderr, "kolorun: agent: cannot start: %s\n", kolo_error_detail());
        return STATUS_TROUBLE;
    }
    if (worker == 0) {
        close(signals_fd);
        return become_worker(guardian, &before);
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* output ends when the worker does */
    if (null >= 0) {
        (void)dup2(null, STDOUT_FILENO);
        close(null);
    }
    int exit_status = guard(worker, signals_fd);
    kill_all();
    close(signals_fd);
    return exit_status;
}
