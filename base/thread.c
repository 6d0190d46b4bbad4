// SPDX-License-Identifier: Apache-2.0
// Starts the library's own threads, which all have the same mask of signals. Must never start a
// thread that takes a signal of the program: the program's handler would run where the program does
// not expect it, and a thread that waits for signals (sigwait, signalfd) would miss one.
//
// A fault is different. Blocked, it would end the process without the program's handler, which may
// print a trace (a sanitizer) or mend the fault and go on (a garbage collector, a sandbox).
#include "base/thread.h"

#include <signal.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

int kolo_thread_start(pthread_t *thread_out, const pthread_attr_t *attributes,
                      void *(*run)(void *argument), void *argument)
{
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        (void)sigdelset(&blocked, faults[i]);
    /* the new thread inherits the mask, so that it never has another one */
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(thread_out, attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
