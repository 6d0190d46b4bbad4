// SPDX-License-Identifier: Apache-2.0
// Whether this process is the one that something was made in, or a child of it by fork(): that has
// a copy of the memory, but none of the threads, and shares the sockets. Costs no system call.
#ifndef KOLO_BASE_FORKS_H
#define KOLO_BASE_FORKS_H

#include <kolo/status.h>

/** From here on forks are counted. Any number of times, by any thread. ERR_NO_MEMORY. */
kolo_status kolo_forks_watch(void) KOLO_NODISCARD;

/** How many forks lie between the process that watched first and this one: differs from what it was
 * where something was made, if this process is a child of that one. Threads: any. */
unsigned kolo_forks(void);

#endif
