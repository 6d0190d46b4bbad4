// SPDX-License-Identifier: Apache-2.0
// A command that hangs where it executes a file, as on a file system that does not answer: hanging
// FILE SECONDS COMMAND [ARGUMENT...]. Whatever COMMAND starts waits so long in execve of FILE. It
// can be killed there. With open:NAME it waits in openat of exactly this name, with write:FILE in
// writev to the file of this absolute path, with close:FILE in close of it, and with link:NAME in
// linkat to this name; with group:COMM where a process of this name (as in /proc/PID/comm) sets the
// group of another by setpgid. A * at the end stands for the rest of a name. Ends as COMMAND does,
// and passes SIGTERM and SIGINT on to it.
//
// The kernel asks this process about each such call of the others (seccomp's notifications).
#include <errno.h>
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
#include <sys/uio.h>
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

static const struct call {
    const char *prefix;
    unsigned number;
    int argument; /* that says which file, */
    enum { NAME, DESCRIPTOR, OTHER } kind;
} calls[] = {{"open:", SYS_openat, 1, NAME},       {"write:", SYS_writev, 0, DESCRIPTOR},
             {"close:", SYS_close, 0, DESCRIPTOR}, {"link:", SYS_linkat, 3, NAME},
             {"group:", SYS_setpgid, 0, OTHER},    {"", SYS_execve, 0, NAME}};

static const struct call *find_call(const char **file)
{
    const struct call *call = calls;
    while (strncmp(*file, call->prefix, strlen(call->prefix)) != 0)
        call++;
    *file += strlen(call->prefix);
    return call;
}

/* Returns the descriptor of the notifications, or -1. */
static int ask_about(unsigned number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* Not by a file in /proc: the calls that this process asks about are its own too. */
static void read_name(pid_t pid, uint64_t at, size_t bytes, char *text)
{
    const struct iovec to = {.iov_base = text, .iov_len = bytes};
    const struct iovec from = {.iov_base = (void *)(uintptr_t)at, .iov_len = bytes};
    (void)!process_vm_readv(pid, &to, 1, &from, 1, 0);
}

static void read_comm(pid_t pid, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(text, (int)capacity, file))
        text[strcspn(text, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

static int is_of(const struct seccomp_notif *question, const struct call *call, const char *file)
{
    char path[64], text[4096] = "";
    const uint64_t value = question->data.args[call->argument];
    if (file[0] == '\0' || strlen(file) + 1 >= sizeof text)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)question->pid, (int)value);
    if (call->kind == DESCRIPTOR)
        (void)!readlink(path, text, sizeof text - 1);
    else if (call->kind == NAME)
        read_name((pid_t)question->pid, value, strlen(file) + 1, text);
    else if (value != 0)
        read_comm((pid_t)question->pid, text, sizeof text);
    const size_t length = strlen(file);
    if (file[length - 1] == '*')
        return strncmp(text, file, length - 1) == 0;
    return strcmp(text, file) == 0;
}

static void let_go(int fd, uint64_t id)
{
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* it may have been killed */
}

static void hear(int fd, const struct call *call, const char *file, double seconds)
{
    struct seccomp_notif question = {.id = 0};
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0)
        return;
    size_t i = 0;
    if (is_of(&question, call, file))
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

static int supervise(int fd, const struct call *call, const char *file, double seconds)
{
    int status = 0;
    while (waitpid((pid_t)command, &status, WNOHANG) == 0) {
        struct pollfd asked = {.fd = fd, .events = POLLIN};
        if (poll(&asked, 1, LOOK_MS) > 0 && asked.revents & POLLIN)
            hear(fd, call, file, seconds);
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
    const char *file = argv[1];
    const struct call *call = find_call(&file);
    int fd = ask_about(call->number);
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
    /* without what exit() does: a sanitizer makes calls then that nobody would answer any more */
    _exit(supervise(fd, call, file, atof(argv[2])));
}
