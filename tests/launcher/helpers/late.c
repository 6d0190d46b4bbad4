// SPDX-License-Identifier: Apache-2.0
// To be preloaded: the process whose name (as in /proc/PID/comm) is LATE_NAME is held up
// LATE_BEFORE seconds before it first learns that a child has ended, and LATE_AFTER seconds when it
// has; and LATE_POLL seconds each time that its loop has learnt of something.
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_begun, has_found, is_over;

static void hold_up(const char *setting)
{
    const char *seconds = getenv(setting);
    if (seconds)
        (void)poll(NULL, 0, (int)(atof(seconds) * 1000));
}

static bool is_meant(void)
{
    const char *name = getenv("LATE_NAME");
    char own[16] = "";
    (void)prctl(PR_GET_NAME, own);
    return name && strcmp(name, own) == 0;
}

__attribute__((visibility("default"))) pid_t waitpid(pid_t pid, int *status, int options)
{
    const bool counts = pid == -1 && !is_over && is_meant();
    if (counts && !has_begun)
        hold_up("LATE_BEFORE");
    has_begun = has_begun || counts;
    const pid_t found = (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
    has_found = has_found || (counts && found > 0);
    if (counts && has_found && found <= 0) {
        is_over = true;
        hold_up("LATE_AFTER");
    }
    return found;
}

__attribute__((visibility("default"))) int
epoll_pwait(int fd, struct epoll_event *events, int capacity, int timeout_ms, const sigset_t *mask)
{
    const int count =
        (int)syscall(SYS_epoll_pwait, fd, events, capacity, timeout_ms, mask, (size_t)_NSIG / 8);
    if (count > 0 && is_meant())
        hold_up("LATE_POLL");
    return count;
}

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events,
                                                      int capacity, int timeout_ms)
{
    return epoll_pwait(fd, events, capacity, timeout_ms, NULL);
}
