// SPDX-License-Identifier: Apache-2.0
// Owns this process's one look at the machine's topology. Loading takes tens of milliseconds, so it
// happens at the first question and never again.
#include "runtime/local.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kolo_local_cpus(void)
{
    enum { CPUS_MAX = 1 << 16 };
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) {
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        int count = 0, error = 0;
        if (sched_getaffinity(0, bytes, set) == 0)
            count = CPU_COUNT_S(bytes, set);
        else
            error = errno;
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (error != EINVAL) /* EINVAL: the kernel's masks are longer */
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static struct kolo_local facts;
static pthread_once_t facts_once = PTHREAD_ONCE_INIT;

/** Objects of @p type that @p set touches. */
static int count_touched(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int count = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)))
        count += object->cpuset && hwloc_bitmap_intersects(object->cpuset, set);
    return count;
}

static void look_at_binding(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    hwloc_obj_t node = NULL;
    int cores = count_touched(topology, set, HWLOC_OBJ_CORE);
    int cpus = count_touched(topology, set, HWLOC_OBJ_PU);
    int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    facts.cpus = cpus > 0 ? cpus : facts.cpus;
    facts.cores = cores > 0 ? cores : facts.cpus;
    facts.numa_nodes = nodes > 0 ? nodes : 1;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (node->cpuset && hwloc_bitmap_isincluded(set, node->cpuset)) {
            facts.numa_node = (int)node->os_index;
            break;
        }
}

static void load_facts(void)
{
    hwloc_topology_t topology;
    facts = (struct kolo_local){.cpus = kolo_local_cpus(), .numa_node = -1, .numa_nodes = 1};
    facts.cores = facts.cpus;
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

/** The node of a machine that has processors on one alone; -1: on several, or the kernel does not
 * say. */
static int only_node(void)
{
    char text[32] = "", *end;
    int fd = open("/sys/devices/system/node/has_cpu", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0 || !isdigit((unsigned char)text[0]))
        return -1;
    long node = strtol(text, &end, 10);
    return (*end == '\n' || *end == '\0') && node < INT_MAX ? (int)node : -1;
}

int kolo_local_numa(void)
{
    int node = only_node();
    if (node >= 0)
        return node;
    if (kolo_local_cpus() >= sysconf(_SC_NPROCESSORS_ONLN)) /* not bound: it spans the machine */
        return -1;
    return kolo_local_facts()->numa_node;
}
