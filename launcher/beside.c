// SPDX-License-Identifier: Apache-2.0
// The process is a fork without exec, and talks to kolorun over a pair of sockets. Not even the end
// of kolorun waits for the file system then: it would, if kolorun had the files open.
//
// The process must keep none of kolorun's descriptors: whoever reads kolorun's output must not wait
// for a process that was left behind. It ignores the signals of a terminal, and ends when kolorun
// is gone, after what came before that. What hangs before it has begun can often be killed, such as
// opening a pipe that nobody reads; then it is.
#include "launcher/beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 100 };

static struct kolo_beside *all;

bool kolo_beside_receive(int fd, void *data, size_t bytes)
{
    for (uint8_t *to = data; bytes > 0;) {
        const ssize_t got = recv(fd, to, bytes, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        const size_t taken = got > 0 ? (size_t)got : 0;
        to += taken;
        bytes -= taken;
    }
    return true;
}

/* ---- the process ---- */

void kolo_beside_answer(int fd, kolo_status status)
{
    struct kolo_beside_answer answer = {.error = status};
    if (status != KOLO_OK)
        kolo_detail_keep(answer.detail);
    (void)!send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
}

void kolo_beside_begin(int fd)
{
    (void)prctl(PR_SET_PDEATHSIG, 0);
    kolo_beside_answer(fd, KOLO_OK);
}

static void close_between(int above, int below)
{
    const int first = above > STDERR_FILENO ? above + 1 : STDERR_FILENO + 1;
    if (first < below)
        (void)close_range((unsigned)first, (unsigned)below - 1, 0);
}

void kolo_beside_keep_only(int fd, int other)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int low = fd < other || other < 0 ? fd : other, high = fd < other ? other : fd;
    for (int i = 0; i <= STDERR_FILENO && nothing >= 0; i++)
        if (i != low && i != high)
            (void)dup2(nothing, i);
    close_between(STDERR_FILENO, low);
    close_between(low, high);
    close_between(high, INT_MAX);
}

void kolo_beside_shed(int fd)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list) {
        kolo_beside_keep_only(fd, -1);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(list));) {
        const int i = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || i == fd || i == dirfd(list))
            continue;
        const int name = openat(dirfd(list), entry->d_name, O_PATH | O_CLOEXEC);
        if (name >= 0)
            (void)dup3(name, i, O_CLOEXEC);
        (void)close(name >= 0 ? name : i);
    }
    (void)closedir(list);
}

static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP, SIGTTOU,
                                  SIGTTIN, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        (void)signal(ignored[i], SIG_IGN);
}

/* Who has the other end of a socket open does not see that kolorun is gone. */
static void close_others(void)
{
    for (const struct kolo_beside *beside = all; beside; beside = beside->next)
        (void)close(beside->socket);
}

/* ---- kolorun ---- */

/* This machine does not allow another process, or no more open files. */
static kolo_status fail_to_start(int error, const char *what)
{
    (void)kolo_fail_start(error, "cannot start a process for %s", what);
    return KOLO_ERR_UNSUPPORTED;
}

kolo_status kolo_beside_start(struct kolo_beside *beside, const char *what,
                              void (*serve)(int fd, void *context), void *context)
{
    const pid_t kolorun = getpid();
    int ends[2];
    *beside = (struct kolo_beside){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail_to_start(errno, what);
    beside->pid = fork();
    if (beside->pid == 0) {
        (void)prctl(PR_SET_NAME, "kolorun-files");
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != kolorun)
            _exit(0);
        ignore_signals();
        (void)close(ends[0]);
        close_others();
        serve(ends[1], context);
        _exit(0);
    }
    const int error = errno;
    (void)close(ends[1]);
    beside->socket = ends[0];
    if (beside->pid < 0) {
        beside->pid = 0;
        kolo_beside_end(beside, false);
        return fail_to_start(error, what);
    }
    beside->next = all;
    all = beside;
    return KOLO_OK;
}

/* The time is counted in looks, not by the clock, since kolorun itself may be stopped. */
enum kolo_beside_how kolo_beside_await(const struct kolo_beside *beside, int64_t limit_ms,
                                       struct kolo_beside_answer *answer_out)
{
    struct pollfd readable = {.fd = beside->socket, .events = POLLIN};
    for (int64_t waited = 0; poll(&readable, 1, LOOK_MS) <= 0; waited += LOOK_MS)
        if (waited >= limit_ms)
            return KOLO_BESIDE_LATE;
    return kolo_beside_receive(beside->socket, answer_out, sizeof *answer_out)
               ? KOLO_BESIDE_ANSWERED
               : KOLO_BESIDE_GONE;
}

void kolo_beside_abandon(struct kolo_beside *beside)
{
    (void)shutdown(beside->socket, SHUT_RDWR);
    if (beside->pid > 0)
        (void)kill(beside->pid, SIGKILL);
}

static void forget(const struct kolo_beside *beside)
{
    for (struct kolo_beside **link = &all; *link; link = &(*link)->next)
        if (*link == beside) {
            *link = beside->next;
            return;
        }
}

void kolo_beside_end(struct kolo_beside *beside, bool ends_now)
{
    if (beside->socket >= 0)
        (void)close(beside->socket);
    if (ends_now && beside->pid > 0)
        (void)waitpid(beside->pid, NULL, 0);
    forget(beside);
    *beside = (struct kolo_beside){.socket = -1};
}

bool kolo_beside_reaped(pid_t pid)
{
    for (struct kolo_beside *beside = all; beside; beside = beside->next)
        if (beside->pid == pid) {
            beside->pid = 0;
            return true;
        }
    return false;
}
