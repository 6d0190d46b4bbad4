// SPDX-License-Identifier: Apache-2.0
// A command that the kernel refuses some system calls, as a sandbox does, or a kernel that lacks
// them: refusing ERRNO CALL[:ARGUMENT=VALUE][,...] COMMAND [ARGUMENT...]. With ARGUMENT=VALUE only
// where that argument (0 to 5) has the value. All that the command starts is refused them, too.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/refuse.h"

static const struct {
    const char *name;
    int number;
} calls[] = {
#define CALL(name)                                                                                 \
    {                                                                                              \
#name, SYS_##name                                                                          \
    }
    CALL(memfd_create),
    CALL(fallocate),
    CALL(fcntl),
    CALL(process_vm_readv),
    CALL(signalfd4),
    CALL(timerfd_create),
    CALL(eventfd2),
    CALL(prctl),
    CALL(close_range),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(socket),
    CALL(socketpair),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(mbind),
    CALL(get_mempolicy),
    CALL(set_mempolicy),
    CALL(madvise),
    CALL(sysinfo),
    CALL(prlimit64),
    CALL(getrandom),
    CALL(clone),
    CALL(clone3),
    CALL(rseq),
    CALL(set_robust_list),
    CALL(setsid),
    CALL(setpgid),
    CALL(getdents64),
    CALL(uname),
    CALL(mremap),
    CALL(mlock),
    CALL(membarrier),
    CALL(sched_yield),
    CALL(statx),
    CALL(newfstatat),
    CALL(pidfd_open),
    CALL(ioctl),
    CALL(readlinkat),
    CALL(perf_event_open),
    CALL(kcmp),
    CALL(move_pages),
    CALL(ftruncate),
    CALL(fstatfs),
    CALL(waitid),
    CALL(pidfd_send_signal),
    CALL(pidfd_getfd),
    CALL(timerfd_settime),
    CALL(getsockname),
    CALL(getpeername),
    CALL(unshare),
    CALL(sched_setscheduler),
    CALL(swapon),
    CALL(openat2),
    CALL(faccessat2),
    CALL(io_uring_setup),
#undef CALL
};

static int number_of(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    return -1;
}

static bool refuse(char *words, int error)
{
    int argument = -1;
    unsigned value = 0;
    char *colon = strchr(words, ':');
    if (colon) {
        *colon = '\0';
        if (sscanf(colon + 1, "%d=%i", &argument, (int *)&value) != 2)
            return false;
    }
    const int number = number_of(words);
    if (number < 0) {
        errno = EINVAL;
        return false;
    }
    return refuse_call(number, argument, value, error);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: refusing ERRNO CALL[:ARGUMENT=VALUE][,...] COMMAND...\n");
        return 2;
    }
    char *rest = argv[2];
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ","))
        if (!refuse(word, atoi(argv[1]))) {
            fprintf(stderr, "refusing: %s: %s\n", word, strerror(errno));
            return 77;
        }
    (void)execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
