// SPDX-License-Identifier: Apache-2.0
// base/thread.c: which signals a thread of the library takes, and that its starter's mask stays.
// That the library starts its threads in no other way is checked by tests/checks/banned_calls.sh.
#include "base/thread.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

TestSuite(thread, .timeout = 60);

static void *get_mask(void *argument)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, argument);
    return argument;
}

static sigset_t mask_of_thread(void)
{
    pthread_t thread;
    sigset_t mask;
    void *returned = NULL;
    (void)sigemptyset(&mask);
    cr_assert_eq(kolo_thread_start(&thread, NULL, get_mask, &mask), 0);
    cr_assert_eq(pthread_join(thread, &returned), 0);
    cr_assert_eq(returned, &mask);
    return mask;
}

Test(thread, a_thread_takes_no_signal_but_its_own_faults)
{
    static const int others[] = {SIGHUP,  SIGINT,  SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
                                 SIGCHLD, SIGPIPE, SIGPROF, SIGABRT, SIGQUIT};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    const sigset_t mask = mask_of_thread();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert(sigismember(&mask, others[i]), "signal %d", others[i]);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        cr_assert(sigismember(&mask, signal), "signal %d", signal);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        cr_assert(!sigismember(&mask, faults[i]), "signal %d", faults[i]);
}

static void check_own_mask(void)
{
    sigset_t mask;
    (void)get_mask(&mask);
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (signal < 32 || signal >= SIGRTMIN) /* the C library keeps those between */
            cr_assert_eq(sigismember(&mask, signal), signal == SIGUSR2 || signal == SIGBUS, "%d",
                         signal);
}

Test(thread, the_mask_of_the_starter_stays)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR2);
    (void)sigaddset(&mask, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    (void)mask_of_thread();
    check_own_mask();
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, (size_t)1 << 60);
    cr_assert_neq(kolo_thread_start(&thread, &attributes, get_mask, &mask), 0);
    (void)pthread_attr_destroy(&attributes);
    check_own_mask();
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

static int pipe_ends[2];

static void *wait_for_end(void *argument)
{
    char byte;
    while (read(pipe_ends[0], &byte, 1) < 0)
        continue;
    return argument;
}

/** The kernel gives a signal of the process to any thread that does not block it. */
Test(thread, a_signal_waits_for_the_program)
{
    const struct sigaction action = {.sa_handler = handle};
    pthread_t thread;
    sigset_t mask, pending;
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    cr_assert_eq(pipe(pipe_ends), 0);
    cr_assert_eq(kolo_thread_start(&thread, NULL, wait_for_end, NULL), 0);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
    cr_assert_eq(kill(getpid(), SIGUSR1), 0);
    (void)sigpending(&pending);
    cr_assert(sigismember(&pending, SIGUSR1), "another thread took it");
    cr_assert_eq(write(pipe_ends[1], "", 1), 1);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(handled, 0);
    (void)pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
    cr_assert_eq(handled, 1);
}
