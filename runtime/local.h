// SPDX-License-Identifier: Apache-2.0
// What this process may use of its machine. Found at most once per process, when first asked for.
#ifndef KOLO_RUNTIME_LOCAL_H
#define KOLO_RUNTIME_LOCAL_H

#include <stdbool.h>

/** Processors the calling thread may run on (its binding). Cheap: one system call; at least 1. */
int kolo_local_cpus(void);

/** Whether each of these processes of this host (0: the calling thread) can have a processor to
 * itself, by their bindings. False: one of them is not to be seen here. One system call each. */
bool kolo_local_has_cores(const int *pids, int count, bool *has_cores_out);

/** Is process @p pid of this host stopped, by SIGSTOP or a debugger? False: also if it is not to be
 * seen here. Reads one file of /proc. Threads: any. */
bool kolo_local_is_stopped(int pid);

/** The NUMA node that holds the whole binding (its OS index), as kolo_local_facts() says; -1:
 * several, or not known. Loads hwloc only where the machine has several nodes and the binding is a
 * part of it: a rank asks this at its start. */
int kolo_local_numa(void);

struct kolo_local {
    int cpus;      /* hardware threads of the binding, at least 1 */
    int cores;     /* cores of the binding, at least 1 */
    int numa_node; /* the NUMA node that holds the whole binding (its OS index); -1: several, or not
                      known */
    int numa_nodes;  /* of the machine, at least 1 */
    char error[128]; /* "" or why hwloc could not tell; then the figures are those of the system */
};
/** Loads hwloc's view at the first call (tens of milliseconds); the same object ever after.
 * Threads: any. */
const struct kolo_local *kolo_local_facts(void);

#endif
