// SPDX-License-Identifier: Apache-2.0
// fork and exec. Between them only async-signal-safe calls are made; an error there is reported
// through a pipe that a successful exec closes.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/open_files.h"
#include "launcher/spawn.h"

enum stage { STAGE_NONE, STAGE_DIRECTORY, STAGE_STREAMS, STAGE_BIND, STAGE_EXEC, STAGES };
static const char *const stage_texts[STAGES] = {[STAGE_NONE] = "start",
                                                [STAGE_DIRECTORY] = "enter the directory of",
                                                [STAGE_STREAMS] = "set up the streams of",
                                                [STAGE_BIND] = "bind",
                                                [STAGE_EXEC] = "execute"};

struct report {
    enum stage stage;
    int error;
};

kolo_status kolo_pipe(int ends_out[2])
{
    if (pipe2(ends_out, O_CLOEXEC) != 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot make a pipe to a process");
    return KOLO_OK;
}

static void default_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &action, NULL); /* fails for KILL, STOP and libc's own */
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool set_streams(const int fds[3])
{
    int null = -1;
    for (int i = 0; i < 3; i++) {
        int fd = fds[i];
        if (fd < 0 && null < 0)
            null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 && null < 0) /* open sets errno to the reason; dup2 would not */
            return false;
        if (dup2(fd < 0 ? null : fd, i) < 0)
            return false;
    }
    return true;
}

/* In the child. Sources of the streams are above 2 (streams_secure), so none is overwritten. */
static enum stage become(const struct kolo_spawn *spawn, pid_t parent)
{
    /* Ranks stay in one session: the scheduler makes a group of each session (autogroup), and
     * sched_yield gives way only within a group. */
    if (spawn->has_own_session)
        (void)setsid();
    else
        (void)setpgid(0, 0);
    if (spawn->death_signal)
        (void)prctl(PR_SET_PDEATHSIG, spawn->death_signal);
    if (getppid() != parent)
        _exit(1); /* the parent died before the line above: no signal would come */
    default_signals();
    if (!set_streams(spawn->fds))
        return STAGE_STREAMS;
    if (spawn->cwd && chdir(spawn->cwd) != 0)
        return STAGE_DIRECTORY;
    if (spawn->cpus && sched_setaffinity(0, sizeof *spawn->cpus, spawn->cpus) != 0 &&
        !spawn->may_be_unbound)
        return STAGE_BIND;
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (spawn->kept_fd > STDERR_FILENO)
        (void)fcntl(spawn->kept_fd, F_SETFD, 0);
    kolo_open_files_give_back();
    execve(spawn->path, spawn->argv, spawn->env);
    return STAGE_EXEC;
}

static void child_main(const struct kolo_spawn *spawn, pid_t parent, int report_fd)
{
    struct report report = {.stage = become(spawn, parent)};
    report.error = errno;
    ssize_t sent = write(report_fd, &report, sizeof report);
    _exit(sent == sizeof report ? 127 : 126);
}

static ssize_t read_report(int fd, struct report *report)
{
    ssize_t got;
    do
        got = read(fd, report, sizeof *report);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Whether its first line ends as in a file that was written on Windows: the name of its interpreter
 * then ends with a carriage return. */
static bool has_carriage_return(const char *path)
{
    char line[257] = ""; /* as much as the kernel looks at */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    if (fd >= 0)
        close(fd);
    const size_t end = strcspn(line, "\n");
    return got > 2 && memcmp(line, "#!", 2) == 0 && line[end] == '\n' && line[end - 1] == '\r';
}

/* What the text of the errno does not tell about a file that exists. */
static const char *why_not_executed(const struct kolo_spawn *spawn, int error)
{
    if (error == ENOEXEC)
        return ", which is not a program for this machine, or a script without #! on its first "
               "line";
    if (error == ENOENT && has_carriage_return(spawn->path))
        return ", a script with the line ends of Windows, where Linux takes the carriage return "
               "for "
               "a part of the interpreter's name; convert it, with dos2unix for example";
    if (error == ENOENT && access(spawn->path, F_OK) == 0)
        return ", whose interpreter (the first line of a script) or loader is not there";
    return "";
}

kolo_status kolo_spawn_begin(const struct kolo_spawn *spawn, pid_t *pid_out, int *report_out,
                             int *error_out)
{
    int ends[2];
    *error_out = 0;
    kolo_status status = kolo_pipe(ends);
    if (status != KOLO_OK)
        return status;
    pid_t parent = getpid();
    sigset_t all, before; /* none of our handlers may run in the child: libuv's write to our pipe */
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    if (pid == 0)
        child_main(spawn, parent, ends[1]);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        *error_out = error;
        return kolo_fail_start(error, "cannot start %s", spawn->what ? spawn->what : spawn->path);
    }
    if (!spawn->has_own_session) /* as the child does: a signal may be sent to its group before */
        (void)setpgid(pid, pid);
    *pid_out = pid;
    *report_out = ends[0];
    return KOLO_OK;
}

kolo_status kolo_spawn_end(const struct kolo_spawn *spawn, int report_fd, int *error_out)
{
    struct report report = {.stage = STAGE_NONE};
    ssize_t got = read_report(report_fd, &report);
    *error_out = 0;
    if (got < 0 && errno == EAGAIN)
        return KOLO_AGAIN;
    if (got == 0)
        return KOLO_OK;
    *error_out = report.error;
    if (got != sizeof report || report.stage >= STAGES)
        report.stage = STAGE_NONE;
    return kolo_fail_errno(KOLO_ERR_SYSTEM, report.error, "cannot %s %s%s%s",
                           stage_texts[report.stage], spawn->path,
                           report.stage == STAGE_DIRECTORY ? ", " : "",
                           report.stage == STAGE_DIRECTORY ? spawn->cwd
                           : report.stage == STAGE_BIND    ? " (--bind none does without)"
                           : report.stage == STAGE_EXEC    ? why_not_executed(spawn, report.error)
                                                           : "");
}

kolo_status kolo_spawn(const struct kolo_spawn *spawn, pid_t *pid_out, int *error_out)
{
    int report = -1;
    pid_t pid = -1;
    kolo_status status = kolo_spawn_begin(spawn, &pid, &report, error_out);
    if (status != KOLO_OK)
        return status;
    status = kolo_spawn_end(spawn, report, error_out);
    close(report);
    if (status == KOLO_OK)
        *pid_out = pid;
    else
        (void)waitpid(pid, NULL, 0);
    return status;
}

/* Returns 0, or why @p file cannot be executed. */
static int executable(const char *file)
{
    struct stat facts;
    if (stat(file, &facts) != 0)
        return errno;
    if (S_ISDIR(facts.st_mode))
        return EISDIR;
    if (!S_ISREG(facts.st_mode))
        return EACCES;
    return access(file, X_OK) == 0 ? 0 : errno;
}

/* Says where it was looked for, and whether it is what the user may have meant. The name may be a
 * whole command line in quotes, and the reason must fit behind it. */
static kolo_status cannot_find(const char *name, const char *cwd, int error)
{
    char here[PATH_MAX];
    if (name[0] == '/')
        return kolo_fail_errno(KOLO_ERR_NOT_FOUND, error, "program '%.512s'", name);
    if (strchr(name, '/'))
        return kolo_fail_errno(KOLO_ERR_NOT_FOUND, error, "program '%.512s' in %.256s", name, cwd);
    const int written = snprintf(here, sizeof here, "%s/%s", cwd, name);
    if (written < (int)sizeof here && executable(here) == 0)
        return kolo_fail_errno(KOLO_ERR_NOT_FOUND, error,
                               "program '%.255s' in PATH (but there is ./%.255s)", name, name);
    return kolo_fail_errno(KOLO_ERR_NOT_FOUND, error, "program '%.512s' in PATH", name);
}

/* Writes the path of @p name in the first @p len bytes of @p folder, an entry of PATH: below @p cwd
 * unless it is absolute, since the program is executed there. Returns false if it is too long. */
static bool place_in(const char *cwd, const char *folder, size_t len, const char *name,
                     char file[PATH_MAX])
{
    const bool is_absolute = folder[0] == '/';
    const int written = len == 0 ? snprintf(file, PATH_MAX, "%s/%s", cwd, name)
                                 : snprintf(file, PATH_MAX, "%s%s%.*s/%s", is_absolute ? "" : cwd,
                                            is_absolute ? "" : "/", (int)len, folder, name);
    return written < PATH_MAX;
}

kolo_status kolo_program_find(const char *name, const char *cwd, const char *path, char *found_out,
                              size_t capacity, int *error_out)
{
    char file[PATH_MAX];
    const bool is_searched = strchr(name, '/') == NULL;
    *error_out = ENOENT;
    for (const char *folder = is_searched ? path : ""; folder;) {
        const size_t len = strcspn(folder, ":");
        const bool fits = name[0] == '/' ? snprintf(file, sizeof file, "%s", name) < PATH_MAX
                                         : place_in(cwd, folder, len, name, file);
        const int error = fits ? executable(file) : ENAMETOOLONG;
        if (error == 0 && strlen(file) < capacity) {
            memcpy(found_out, file, strlen(file) + 1);
            return KOLO_OK;
        }
        if (error == EACCES || *error_out == ENOENT)
            *error_out = error;
        folder = folder[len] ? folder + len + 1 : NULL;
    }
    return cannot_find(name, cwd, *error_out);
}
