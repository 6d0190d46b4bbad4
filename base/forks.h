// SPDX-License-Identifier: Apache-2.0
// Tells whether this process is the one in which something was made, or a child of it made by
// fork(), and whether there may be such a child. It has a copy of the memory and none of the
// threads, and shares the sockets and the memory of MAP_SHARED. Costs no system call.
#ifndef KOLO_BASE_FORKS_H
#define KOLO_BASE_FORKS_H

#include <stdint.h>

#include <kolo/status.h>

/** Counts forks from now on. May be called any number of times, by any thread. ERR_NO_MEMORY. */
kolo_status kolo_forks_watch(void) KOLO_NODISCARD;

/** How many forks lie between this process and the one that watched first. If the number differs
 *  from the one when something was made, this process is a child of the one that made it. Threads:
 *  any. */
unsigned kolo_forks(void);

/** Tells whether this process has forked: if the number is the same at two times and not 0, no
 *  child was made in between. 0: one is being made. Children that do not run the handlers of
 *  pthread_atfork (vfork, posix_spawn, _Fork) do not count. Threads: any. */
uint64_t kolo_forks_stamp(void);

#endif
