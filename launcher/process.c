// SPDX-License-Identifier: Apache-2.0
// Reads /proc/PID/stat, and what the main thread of a process is blocked in: /proc/PID/syscall has
// the number and the arguments of the call, and /proc/PID/wchan the function of the kernel, for
// those who may not read the former. Must never read environ, cmdline or maps: these wait for a
// lock of the process's memory, which a process that is stuck in a page fault may hold.
#include "launcher/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_stat.h"
#include "base/text.h"
#include "launcher/syscalls.h"

bool kolo_process_stat(pid_t pid, struct kolo_process_stat *stat_out)
{
    char text[1024];
    const char *after = kolo_process_read_stat((int)pid, text, sizeof text);
    if (!after)
        return false;
    const char *name = strchr(text, '(');
    char state = 0;
    int parent = 0;
    uint64_t user = 0, system = 0, threads = 0;
    if (!name || sscanf(after + 1,
                        " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                        " %*d %*d %*d %*d %" SCNu64,
                        &state, &parent, &user, &system, &threads) != 5)
        return false;
    const long ticks = sysconf(_SC_CLK_TCK);
    *stat_out = (struct kolo_process_stat){.parent = parent,
                                           .state = state,
                                           .threads = (uint32_t)threads,
                                           .cpu_ms = (user + system) * 1000 / (uint64_t)ticks};
    snprintf(stat_out->name, sizeof stat_out->name, "%.*s", (int)(after - name - 1), name + 1);
    kolo_text_clean(stat_out->name); /* a process may call itself anything */
    return true;
}

struct call {
    long number;
    const char *name;
    bool has_descriptor;
};

static const struct call *find_call(long number)
{
#define CALL(name_, has_descriptor_) {SYS_##name_, #name_, has_descriptor_},
    static const struct call calls[] = {KOLO_SYSCALLS(CALL)};
#undef CALL
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* Appends " of /data/a.bin", " of a socket" or " of descriptor 3". */
static void say_descriptor(pid_t pid, unsigned int descriptor, char *text, size_t capacity)
{
    char path[64], target[256];
    const size_t used = strlen(text);
    snprintf(path, sizeof path, "/proc/%d/fd/%u", (int)pid, descriptor);
    ssize_t got = readlink(path, target, sizeof target - 1);
    target[got > 0 ? got : 0] = '\0';
    kolo_text_clean(target);
    if (target[0] == '/')
        snprintf(text + used, capacity - used, " of %s", target);
    else if (strncmp(target, "socket:", 7) == 0)
        snprintf(text + used, capacity - used, " of a socket");
    else if (strncmp(target, "pipe:", 5) == 0)
        snprintf(text + used, capacity - used, " of a pipe");
    else
        snprintf(text + used, capacity - used, " of descriptor %u", descriptor);
}

/* The call in which the main thread is, and its first two arguments; false: in none, or it may not
 * be read. */
static bool read_call(pid_t pid, long *number_out, unsigned long arguments_out[2])
{
    char text[256];
    return kolo_process_read_fact((int)pid, "syscall", text, sizeof text) > 0 &&
           text[0] != 'r' && /* "running" */
           sscanf(text, "%ld %lx %lx", number_out, &arguments_out[0], &arguments_out[1]) == 3;
}

/* The function of the kernel in which it is. */
static void say_place(pid_t pid, char *text, size_t capacity)
{
    char place[64];
    if (kolo_process_read_fact((int)pid, "wchan", place, sizeof place) > 0 &&
        strcmp(place, "0") != 0)
        snprintf(text, capacity, "%s (in the kernel)", place);
}

void kolo_process_blocked(pid_t pid, char *text, size_t capacity)
{
    long number = 0;
    unsigned long arguments[2];
    text[0] = '\0';
    /* After SIGCONT a call that goes on has the name of no call. */
    if (!read_call(pid, &number, arguments) || number == SYS_restart_syscall) {
        say_place(pid, text, capacity);
        return;
    }
    const struct call *call = find_call(number);
    if (number < 0)
        snprintf(text, capacity, "a page fault");
    else if (!call)
        snprintf(text, capacity, "system call %ld", number);
    else
        snprintf(text, capacity, "%s", call->name);
    if (call && call->has_descriptor)
        say_descriptor(pid, (unsigned int)arguments[0], text, capacity);
}

static pid_t first_living_child(pid_t pid)
{
    char fact[64], text[1024], *end = text;
    snprintf(fact, sizeof fact, "task/%d/children", (int)pid);
    if (kolo_process_read_fact((int)pid, fact, text, sizeof text) <= 0)
        return 0;
    for (long child; (child = strtol(end, &end, 10)) > 0;) {
        struct kolo_process_stat stat;
        if (kolo_process_stat((pid_t)child, &stat) && stat.state != 'Z')
            return (pid_t)child;
    }
    return 0;
}

pid_t kolo_process_awaited(pid_t pid)
{
    long number = 0;
    unsigned long arguments[2];
    if (!read_call(pid, &number, arguments) || (number != SYS_wait4 && number != SYS_waitid))
        return 0;
    const pid_t named = number == SYS_wait4     ? (pid_t)arguments[0]
                        : arguments[0] == P_PID ? (pid_t)arguments[1]
                                                : 0;
    return named > 0 ? named : first_living_child(pid);
}

bool kolo_process_is_there(pid_t pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}
