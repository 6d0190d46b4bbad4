// SPDX-License-Identifier: Apache-2.0
// The system calls in which processes are found waiting, as X(NAME, whether its first argument is a
// descriptor). The one place that knows which of them an architecture lacks.
#ifndef KOLO_LAUNCHER_SYSCALLS_H
#define KOLO_LAUNCHER_SYSCALLS_H

#include <stdbool.h>
#include <sys/syscall.h>

#define KOLO_SYSCALLS_OF_ALL(X)                                                                    \
    X(read, true)                                                                                  \
    X(write, true)                                                                                 \
    X(readv, true)                                                                                 \
    X(writev, true)                                                                                \
    X(pread64, true)                                                                               \
    X(pwrite64, true)                                                                              \
    X(preadv, true)                                                                                \
    X(pwritev, true)                                                                               \
    X(recvfrom, true)                                                                              \
    X(recvmsg, true)                                                                               \
    X(sendto, true)                                                                                \
    X(sendmsg, true)                                                                               \
    X(connect, true)                                                                               \
    X(accept, true)                                                                                \
    X(accept4, true)                                                                               \
    X(fsync, true)                                                                                 \
    X(fdatasync, true)                                                                             \
    X(ftruncate, true)                                                                             \
    X(fallocate, true)                                                                             \
    X(flock, true)                                                                                 \
    X(fcntl, true)                                                                                 \
    X(ioctl, true)                                                                                 \
    X(getdents64, true)                                                                            \
    X(sendfile, true)                                                                              \
    X(splice, true)                                                                                \
    X(close, true)                                                                                 \
    X(openat, false)                                                                               \
    X(newfstatat, false)                                                                           \
    X(statx, false)                                                                                \
    X(statfs, false)                                                                               \
    X(unlinkat, false)                                                                             \
    X(renameat2, false)                                                                            \
    X(execve, false)                                                                               \
    X(mmap, false)                                                                                 \
    X(munmap, false)                                                                               \
    X(msync, false)                                                                                \
    X(madvise, false)                                                                              \
    X(futex, false)                                                                                \
    X(ppoll, false)                                                                                \
    X(pselect6, false)                                                                             \
    X(epoll_pwait, false)                                                                          \
    X(nanosleep, false)                                                                            \
    X(clock_nanosleep, false)                                                                      \
    X(wait4, false)                                                                                \
    X(waitid, false)                                                                               \
    X(rt_sigsuspend, false)                                                                        \
    X(rt_sigtimedwait, false)                                                                      \
    X(restart_syscall, false)                                                                      \
    X(semtimedop, false)                                                                           \
    X(sched_yield, false)

#ifdef SYS_poll
#define KOLO_SYSCALLS_OF_SOME(X)                                                                   \
    X(poll, false)                                                                                 \
    X(select, false)                                                                               \
    X(epoll_wait, false)                                                                           \
    X(pause, false)                                                                                \
    X(open, false)                                                                                 \
    X(stat, false)                                                                                 \
    X(lstat, false)                                                                                \
    X(access, false)                                                                               \
    X(rename, false)                                                                               \
    X(unlink, false)
#else
#define KOLO_SYSCALLS_OF_SOME(X)
#endif

#define KOLO_SYSCALLS(X) KOLO_SYSCALLS_OF_ALL(X) KOLO_SYSCALLS_OF_SOME(X)

#endif
