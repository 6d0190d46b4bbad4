// SPDX-License-Identifier: Apache-2.0
// Functions of the C library that make a thread's earlier stores visible: others may learn through
// them that the stores were made (the kernel orders what was stored before a system call), or they
// give memory away in which a store might still be made.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/delays/delays.h"

/** Replaces @p name, of this type and with these parameters; @p args passes them on. */
#define SHOWS(type, name, params, args)                                                            \
    type name params                                                                               \
    {                                                                                              \
        static type(*next) params;                                                                 \
        if (!next)                                                                                 \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        delays_flush();                                                                            \
        return next args;                                                                          \
    }

SHOWS(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
SHOWS(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
SHOWS(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n))
SHOWS(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
SHOWS(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
SHOWS(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SHOWS(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
SHOWS(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
SHOWS(int, ppoll,
      (struct pollfd * fds, nfds_t n, const struct timespec *time, const sigset_t *mask),
      (fds, n, time, mask))
SHOWS(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
SHOWS(int, epoll_pwait2,
      (int fd, struct epoll_event *events, int n, const struct timespec *time,
       const sigset_t *mask),
      (fd, events, n, time, mask))
SHOWS(ssize_t, process_vm_readv,
      (pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from,
       unsigned long m, unsigned long flags),
      (pid, to, n, from, m, flags))
SHOWS(int, munmap, (void *at, size_t n), (at, n))
SHOWS(void *, mmap, (void *at, size_t n, int access, int flags, int fd, off_t offset),
      (at, n, access, flags, fd, offset))
SHOWS(int, close, (int fd), (fd))
SHOWS(int, kill, (pid_t pid, int signal), (pid, signal))
SHOWS(int, raise, (int signal), (signal))
SHOWS(int, sched_yield, (void), ())
SHOWS(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
SHOWS(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
SHOWS(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
SHOWS(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
SHOWS(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
SHOWS(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
SHOWS(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))
SHOWS(int, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))
SHOWS(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))
SHOWS(int, pthread_barrier_wait, (pthread_barrier_t * barrier), (barrier))
SHOWS(int, sem_post, (sem_t * semaphore), (semaphore))
SHOWS(int, sem_wait, (sem_t * semaphore), (semaphore))
SHOWS(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), (cond, mutex))
SHOWS(int, pthread_cond_timedwait,
      (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *time),
      (cond, mutex, time))
SHOWS(int, pthread_cond_signal, (pthread_cond_t * cond), (cond))
SHOWS(int, pthread_cond_broadcast, (pthread_cond_t * cond), (cond))
SHOWS(int, pthread_join, (pthread_t thread, void **result), (thread, result))
SHOWS(int, pthread_create,
      (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument),
      (thread, attr, run, argument))
SHOWS(void *, realloc, (void *memory, size_t bytes), (memory, bytes))

void free(void *memory)
{
    static void (*next)(void *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "free");
    delays_flush();
    next(memory);
}

static __thread void (*initialise)(void);

/** Those that wait for the initialisation see what it has stored. */
static void initialise_and_show(void)
{
    initialise();
    delays_flush();
}

int pthread_once(pthread_once_t *control, void (*function)(void))
{
    static int (*next)(pthread_once_t *, void (*)(void));
    void (*const outer)(void) = initialise;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_once");
    initialise = function;
    const int error = next(control, initialise_and_show);
    initialise = outer;
    return error;
}

void _exit(int status)
{
    delays_flush();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}
