// SPDX-License-Identifier: Apache-2.0
// A command that hangs where it executes a file, as on a file system that does not answer: hanging
// FILE SECONDS COMMAND [ARGUMENT...]. Whatever COMMAND starts waits so long in execve of FILE. It
// can be killed there. Ends as COMMAND does, and passes SIGTERM and SIGINT on to it.
//
// The kernel asks this process about each execve of the others (seccomp's notifications).
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAITING_MAX = 64, LOOK_MS = 20 };

static struct {
    uint64_t id; /* 0: free */
    double until;
} waiting[WAITING_MAX];
static volatile sig_atomic_t command;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Returns the descriptor of the notifications, or -1. */
static int ask_about_execve(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static int is_of(const struct seccomp_notif *question, const char *file)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof path, "/proc/%d/mem", (int)question->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)!pread(fd, text, strlen(file) + 1, (off_t)question->data.args[0]);
    close(fd);
    return strcmp(text, file) == 0;
}

static void let_go(int fd, uint64_t id)
{
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* it may have been killed */
}

static void hear(int fd, const char *file, double seconds)
{
    struct seccomp_notif question = {.id = 0};
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0)
        return;
    size_t i = 0;
    if (is_of(&question, file))
        while (i < WAITING_MAX && waiting[i].id != 0)
            i++;
    else
        i = WAITING_MAX;
    if (i == WAITING_MAX) {
        let_go(fd, question.id);
        return;
    }
    waiting[i].id = question.id;
    waiting[i].until = now() + seconds;
}

static int supervise(int fd, const char *file, double seconds)
{
    int status = 0;
    while (waitpid((pid_t)command, &status, WNOHANG) == 0) {
        struct pollfd asked = {.fd = fd, .events = POLLIN};
        if (poll(&asked, 1, LOOK_MS) > 0 && asked.revents & POLLIN)
            hear(fd, file, seconds);
        for (size_t i = 0; i < WAITING_MAX; i++)
            if (waiting[i].id != 0 && now() > waiting[i].until) {
                let_go(fd, waiting[i].id);
                waiting[i].id = 0;
            }
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void pass_on(int number)
{
    (void)kill((pid_t)command, number);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: hanging FILE SECONDS COMMAND...\n");
        return 2;
    }
    int fd = ask_about_execve();
    if (fd < 0) {
        fprintf(stderr, "hanging: seccomp: %s\n", strerror(errno));
        return 77;
    }
    command = fork();
    if (command == 0) {
        (void)execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    (void)signal(SIGTERM, pass_on);
    (void)signal(SIGINT, pass_on);
    return supervise(fd, argv[1], atof(argv[2]));
}
