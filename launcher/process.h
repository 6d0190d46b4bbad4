// SPDX-License-Identifier: Apache-2.0
// What /proc says of one process of this host. Reading these files does not wait for the process,
// whatever it is stuck in, unless a function says so.
#ifndef KOLO_LAUNCHER_PROCESS_H
#define KOLO_LAUNCHER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { KOLO_PROCESS_NAME_MAX = 32 };

/** From /proc/PID/stat, as in proc(5). */
struct kolo_process_stat {
    pid_t parent;
    char name[KOLO_PROCESS_NAME_MAX]; /* unprintable characters are replaced */
    char state;
    uint32_t threads;
    uint64_t cpu_ms; /* processor time, of all its threads */
};

/** False: there is no such process, or it may not be read. */
bool kolo_process_stat(pid_t pid, struct kolo_process_stat *stat_out);

/** Writes what the main thread of the process is blocked in: "read of /data/a.bin", "futex", "a
 * page fault"; "" if it is not blocked, or if the system does not say. Waits while the process
 * executes another program, which a thread of it that is stuck in the kernel delays for as long. */
void kolo_process_blocked(pid_t pid, char *text, size_t capacity);

/** The child for which the main thread of the process is blocked waiting; of any, the first that
 * has not ended. 0: it does not wait for a child. Waits as above. */
pid_t kolo_process_awaited(pid_t pid);

/** Whether there is a process of that number, also one that /proc does not show to this user. */
bool kolo_process_is_there(pid_t pid);

#endif
