// SPDX-License-Identifier: Apache-2.0
// Threads of the library's own, in which no signal handler of the program runs.
#ifndef KOLO_BASE_THREAD_H
#define KOLO_BASE_THREAD_H

#include <pthread.h>

/** Like pthread_create, but the new thread has all signals blocked except those by which the system
 *  reports a fault of the thread itself (SIGSEGV and the like). The caller's mask is afterwards as
 *  before. @p attributes may be NULL. Returns 0 or an errno. Threads: any. */
int kolo_thread_start(pthread_t *thread_out, const pthread_attr_t *attributes,
                      void *(*run)(void *argument), void *argument);

#endif
