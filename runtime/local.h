// SPDX-License-Identifier: Apache-2.0
// What this process may use of its machine: processors, cores, NUMA nodes. What hwloc says is
// determined once per process, when first asked for.
#ifndef KOLO_RUNTIME_LOCAL_H
#define KOLO_RUNTIME_LOCAL_H

#include <stdbool.h>

/* The name of the process of kolorun from which the ranks of a host descend (15 bytes at most). */
#define KOLO_LOCAL_AGENT "kolorun-agent"

/** The number of processors that the calling thread may run on (its binding), at least 1. Cheap:
 * one system call. */
int kolo_local_cpus(void);

/** Whether each of these processes of this host (0: the calling thread) can have a processor to
 * itself, by their bindings. Returns false if one of them cannot be seen from here. One system call
 * each. */
bool kolo_local_has_cores(const int *pids, int count, bool *has_cores_out);

/** Whether process @p pid of this host is stopped by SIGSTOP or a debugger. False also if it cannot
 * be seen from here. Reads one file of /proc. Threads: any. */
bool kolo_local_is_stopped(int pid);

/** The nearest process of the name @p name that this one descends from; 0: none can be seen. Reads
 * one file of /proc for each generation. */
int kolo_local_ancestor(const char *name);

/** Whether hwloc can look at this machine. If a sandbox refuses this process's mask of processors,
 * hwloc would ask for it with ever larger masks, without end. False: errno is set. */
bool kolo_local_may_look(void);
/** The NUMA node (its OS index) that contains the whole binding, as in kolo_local_facts(); -1:
 * several, or unknown. Loads hwloc only if the machine has several nodes and the binding is a part
 * of it, since every rank asks this at its start. */
int kolo_local_numa(void);

struct hwloc_topology;
struct hwloc_obj;
/** Whether the NUMA node @p node is one that processors belong to. Memory may be a node without
 * processors (that of a GPU, or CXL), or with those of another node (HBM), or of several: the node
 * with the fewest processors counts, of equal ones the first. */
bool kolo_local_is_home(struct hwloc_topology *topology, const struct hwloc_obj *node);

struct kolo_local {
    int cpus;        /* hardware threads of the binding, at least 1 */
    int cores;       /* cores of the binding, at least 1 */
    int numa_node;   /* as kolo_local_numa() */
    int numa_nodes;  /* of the machine, with processors of their own; at least 1 */
    char error[128]; /* "", or why hwloc failed; then the figures are the system's */
};
/** Loads hwloc's view in the first call (tens of milliseconds); always returns the same object.
 * Threads: any. */
const struct kolo_local *kolo_local_facts(void);

#endif
