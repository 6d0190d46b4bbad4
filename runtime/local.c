// SPDX-License-Identifier: Apache-2.0
// Owns what this process knows of its machine. Loading the topology takes tens of milliseconds, so
// it happens when first needed, and only once.
#include "runtime/local.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/process_stat.h"
#include "base/short_file.h"

/** The processors on which a process (0: the calling thread) may run. */
struct binding {
    size_t bytes; /* of `set` */
    cpu_set_t *set;
    int count;
};

/** Returns false if there is no such process, or no memory. */
static bool find_binding(int pid, struct binding *binding_out)
{
    enum { CPUS_MAX = 1 << 16 };
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) {
        const size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            return false;
        if (sched_getaffinity(pid, bytes, set) == 0) {
            *binding_out = (struct binding){bytes, set, CPU_COUNT_S(bytes, set)};
            return true;
        }
        const int error = errno;
        CPU_FREE(set);
        if (error != EINVAL) /* EINVAL: the kernel's masks are longer */
            return false;
    }
    return false;
}

int kolo_local_cpus(void)
{
    struct binding binding;
    if (find_binding(0, &binding)) {
        CPU_FREE(binding.set);
        if (binding.count > 0)
            return binding.count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* ---- a processor for each process ---- */

/** A matching of processes to processors, by augmenting paths. */
struct match {
    const struct binding *bindings;
    int *owners;   /* by processor: a process, or -1 */
    bool *is_seen; /* by processor, in this attempt */
    size_t cpus;
};

static bool may_run_on(const struct match *match, int process, size_t cpu)
{
    const struct binding *binding = &match->bindings[process];
    return cpu < 8 * binding->bytes && CPU_ISSET_S(cpu, binding->bytes, binding->set);
}

/** Gives @p process a processor: a free one, or one whose owner can have another. */
static bool give_one(struct match *match, int process)
{
    for (size_t cpu = 0; cpu < match->cpus; cpu++)
        if (match->owners[cpu] < 0 && may_run_on(match, process, cpu)) {
            match->owners[cpu] = process;
            return true;
        }
    for (size_t cpu = 0; cpu < match->cpus; cpu++) {
        if (match->is_seen[cpu] || !may_run_on(match, process, cpu))
            continue;
        match->is_seen[cpu] = true;
        if (give_one(match, match->owners[cpu])) {
            match->owners[cpu] = process;
            return true;
        }
    }
    return false;
}

/** Returns whether each process can have one. */
static bool match_all(const struct binding *bindings, int count)
{
    struct match match = {.bindings = bindings};
    bool is_matched = true;
    for (int i = 0; i < count; i++)
        if (8 * bindings[i].bytes > match.cpus)
            match.cpus = 8 * bindings[i].bytes;
    match.owners = kolo_calloc(match.cpus, sizeof *match.owners);
    match.is_seen = kolo_calloc(match.cpus, sizeof *match.is_seen);
    if (!match.owners || !match.is_seen)
        is_matched = false;
    for (size_t cpu = 0; is_matched && cpu < match.cpus; cpu++)
        match.owners[cpu] = -1;
    for (int i = 0; is_matched && i < count; i++) {
        memset(match.is_seen, 0, match.cpus * sizeof *match.is_seen);
        is_matched = give_one(&match, i);
    }
    kolo_free_memory(match.owners);
    kolo_free_memory(match.is_seen);
    return is_matched;
}

bool kolo_local_has_cores(const int *pids, int count, bool *has_cores_out)
{
    struct binding *bindings = kolo_calloc((size_t)count, sizeof *bindings);
    int known = 0;
    if (!bindings)
        return false;
    while (known < count && find_binding(pids[known], &bindings[known]))
        known++;
    *has_cores_out = known == count && match_all(bindings, count);
    for (int i = 0; i < known; i++)
        CPU_FREE(bindings[i].set);
    kolo_free_memory(bindings);
    return known == count;
}

/* ---- a process's state ---- */

bool kolo_local_is_stopped(int pid)
{
    char text[256];
    const char *name_end = kolo_process_read_stat(pid, text, sizeof text);
    return name_end && (name_end[2] == 'T' || name_end[2] == 't');
}

int kolo_local_ancestor(const char *name)
{
    enum { GENERATIONS_MAX = 64 };
    int pid = (int)getppid();
    for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
        char text[256], state;
        int parent;
        char *name_end = kolo_process_read_stat(pid, text, sizeof text);
        const char *name_begin = strchr(text, '(');
        if (!name_end || !name_begin || sscanf(name_end + 1, " %c %d", &state, &parent) != 2)
            return 0;
        *name_end = '\0';
        if (strcmp(name_begin + 1, name) == 0)
            return pid;
        pid = parent;
    }
    return 0;
}

/* ---- what hwloc says ---- */

static struct kolo_local facts;
static pthread_once_t facts_once = PTHREAD_ONCE_INIT;

/** The number of objects of @p type that intersect @p set. */
static int count_touched(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int count = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)))
        count += object->cpuset && hwloc_bitmap_intersects(object->cpuset, set);
    return count;
}

bool kolo_local_is_home(struct hwloc_topology *topology, const struct hwloc_obj *node)
{
    hwloc_obj_t other = NULL;
    if (!node->cpuset || hwloc_bitmap_iszero(node->cpuset))
        return false;
    while ((other = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, other))) {
        if (other == node || !other->cpuset || hwloc_bitmap_iszero(other->cpuset) ||
            !hwloc_bitmap_isincluded(other->cpuset, node->cpuset))
            continue;
        if (!hwloc_bitmap_isequal(other->cpuset, node->cpuset) ||
            other->logical_index < node->logical_index)
            return false;
    }
    return true;
}

static void look_at_binding(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    hwloc_obj_t node = NULL;
    int cores = count_touched(topology, set, HWLOC_OBJ_CORE);
    int cpus = count_touched(topology, set, HWLOC_OBJ_PU);
    int nodes = 0;
    facts.cpus = cpus > 0 ? cpus : facts.cpus;
    facts.cores = cores > 0 ? cores : facts.cpus;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
        if (!kolo_local_is_home(topology, node))
            continue;
        nodes++;
        if (facts.numa_node < 0 && hwloc_bitmap_isincluded(set, node->cpuset))
            facts.numa_node = (int)node->os_index;
    }
    facts.numa_nodes = nodes > 0 ? nodes : 1;
}

bool kolo_local_may_look(void)
{
    cpu_set_t mine;
    return sched_getaffinity(0, sizeof mine, &mine) == 0 || errno == EINVAL; /* a larger one */
}

static void load_facts(void)
{
    hwloc_topology_t topology;
    facts = (struct kolo_local){.cpus = kolo_local_cpus(), .numa_node = -1, .numa_nodes = 1};
    facts.cores = facts.cpus;
    if (!kolo_local_may_look()) {
        snprintf(facts.error, sizeof facts.error,
                 "sched_getaffinity is refused, so hwloc cannot look at this machine");
        return;
    }
    if (hwloc_topology_init(&topology) < 0) {
        snprintf(facts.error, sizeof facts.error, "hwloc cannot start");
        return;
    }
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set || hwloc_topology_load(topology) < 0)
        snprintf(facts.error, sizeof facts.error, "hwloc cannot load this machine's topology");
    else if (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) == 0)
        look_at_binding(topology, set);
    else
        look_at_binding(topology, hwloc_topology_get_topology_cpuset(topology));
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
}

const struct kolo_local *kolo_local_facts(void)
{
    pthread_once(&facts_once, load_facts);
    return &facts;
}

/** The node of a machine with processors on a single node; -1: on several, or unknown to the
 * kernel. */
static int only_node(void)
{
    /* That of several nodes is a list, such as 0-1, and not a number. */
    const int64_t node = kolo_short_file_number("/sys/devices/system/node/has_cpu");
    return node < INT_MAX ? (int)node : -1;
}

int kolo_local_numa(void)
{
    int node = only_node();
    if (node >= 0)
        return node;
    if (kolo_local_cpus() >= sysconf(_SC_NPROCESSORS_ONLN)) /* not bound, so it spans the machine */
        return -1;
    return kolo_local_facts()->numa_node;
}
