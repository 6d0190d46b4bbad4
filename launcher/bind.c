// SPDX-License-Identifier: Apache-2.0
// Binds by means of hwloc. Only processors of this process's own affinity are given out, so that
// the limits of a batch system hold.
#include <errno.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/bind.h"
#include "runtime/local.h"

static const char *const texts[KOLO_BINDS] = {[KOLO_BIND_AUTO] = "auto",
                                              [KOLO_BIND_NONE] = "none",
                                              [KOLO_BIND_CORE] = "core",
                                              [KOLO_BIND_NUMA] = "numa"};

kolo_status kolo_bind_parse(const char *text, enum kolo_bind *bind_out)
{
    for (unsigned i = 0; i < KOLO_BINDS; i++) {
        if (strcmp(text, texts[i]) != 0)
            continue;
        *bind_out = (enum kolo_bind)i;
        return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_CONFIG, "'%s' is not a binding; use auto, none, core or numa", text);
}

static bool add_object(hwloc_topology_t topology, hwloc_obj_t object, cpu_set_t *set)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (hwloc_cpuset_to_glibc_sched_affinity(topology, object->cpuset, &cpus, sizeof cpus) != 0)
        return false;
    CPU_OR(set, set, &cpus);
    return true;
}

/* What is given out: cores, or NUMA nodes that processors belong to. */
struct objects {
    hwloc_obj_t *at;
    int count;
};

static kolo_status list_objects(hwloc_topology_t topology, hwloc_obj_type_t type,
                                struct objects *objects)
{
    const int most = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_obj_t object = NULL;
    objects->at = kolo_calloc(most > 0 ? (size_t)most : 1, sizeof(hwloc_obj_t));
    if (!objects->at)
        return KOLO_ERR_NO_MEMORY;
    while (objects->count < most &&
           (object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL)
        if (type != HWLOC_OBJ_NUMANODE || kolo_local_is_home(topology, object))
            objects->at[objects->count++] = object;
    return KOLO_OK;
}

/* The block of rank @p rank, one of @p ranks, among @p objects: at least one object, shared if
 * there are fewer than ranks. */
static bool fill_set(hwloc_topology_t topology, const struct objects *objects, int ranks, int rank,
                     cpu_set_t *set)
{
    long long first = (long long)rank * objects->count / ranks;
    long long past = (long long)(rank + 1) * objects->count / ranks;
    CPU_ZERO(set);
    for (long long i = first; i < (past > first ? past : first + 1); i++)
        if (!add_object(topology, objects->at[i], set))
            return false;
    return CPU_COUNT(set) > 0;
}

static kolo_status deal(hwloc_topology_t topology, const struct objects *objects,
                        enum kolo_bind bind, int ranks, cpu_set_t *sets, bool *is_bound)
{
    if (objects->count < 1)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "hwloc sees no %s here", texts[bind]);
    if (bind != KOLO_BIND_NUMA && ranks > objects->count) {
        if (bind == KOLO_BIND_AUTO)
            return KOLO_OK;
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "--bind core: %d ranks do not fit on %d core%s: start fewer here, or take "
                         "--bind auto",
                         ranks, objects->count, objects->count == 1 ? "" : "s");
    }
    for (int i = 0; i < ranks; i++)
        if (!fill_set(topology, objects, ranks, i, &sets[i]))
            return kolo_fail(KOLO_ERR_UNSUPPORTED, "hwloc gave no processors for a set of rank %d",
                             i);
    *is_bound = true;
    return KOLO_OK;
}

static kolo_status split(hwloc_topology_t topology, enum kolo_bind bind, int ranks, cpu_set_t *sets,
                         bool *is_bound)
{
    struct objects objects = {.at = NULL};
    kolo_status status = list_objects(
        topology, bind == KOLO_BIND_NUMA ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_CORE, &objects);
    if (status == KOLO_OK)
        status = deal(topology, &objects, bind, ranks, sets, is_bound);
    kolo_free_memory(objects.at);
    return status;
}

static kolo_status load(hwloc_topology_t topology)
{
    if (!kolo_local_may_look())
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno,
                               "the processors of this process cannot be found: sched_getaffinity");
    return hwloc_topology_load(topology) == 0
               ? KOLO_OK
               : kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "hwloc");
}

kolo_status kolo_bind_plan(enum kolo_bind bind, int ranks, cpu_set_t **sets_out)
{
    *sets_out = NULL;
    cpu_set_t mine;
    if (bind == KOLO_BIND_NONE)
        return KOLO_OK;
    if (bind == KOLO_BIND_AUTO &&
        (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < ranks))
        return KOLO_OK; /* saves the cost of hwloc */
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "hwloc");
    bool is_bound = false;
    cpu_set_t *sets = kolo_calloc((size_t)ranks, sizeof *sets);
    kolo_status status = load(topology);
    hwloc_obj_t root = status == KOLO_OK ? hwloc_get_root_obj(topology) : NULL;
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    if (root && own && hwloc_get_cpubind(topology, own, HWLOC_CPUBIND_PROCESS) == 0)
        (void)hwloc_topology_restrict(topology, own, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS);
    hwloc_bitmap_free(own);
    if (status == KOLO_OK)
        status = sets ? split(topology, bind, ranks, sets, &is_bound) : KOLO_ERR_NO_MEMORY;
    hwloc_topology_destroy(topology);
    if (status == KOLO_OK && is_bound)
        *sets_out = sets;
    else
        kolo_free_memory(sets);
    return status;
}

static int node_of(hwloc_topology_t topology, const cpu_set_t *set, hwloc_bitmap_t cpus)
{
    hwloc_obj_t node = NULL;
    int found = -1, count = 0;
    if (hwloc_cpuset_from_glibc_sched_affinity(topology, cpus, set, sizeof *set) != 0)
        return -1;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (kolo_local_is_home(topology, node) && hwloc_bitmap_intersects(node->cpuset, cpus)) {
            found = (int)node->os_index;
            count++;
        }
    return count == 1 ? found : -1;
}

void kolo_bind_nodes(const cpu_set_t *sets, int ranks, int *nodes_out)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    const bool is_there = hwloc_topology_init(&topology) == 0;
    const bool knows = is_there && cpus && load(topology) == KOLO_OK;
    for (int i = 0; i < ranks; i++)
        nodes_out[i] = knows ? node_of(topology, &sets[i], cpus) : -1;
    if (is_there)
        hwloc_topology_destroy(topology);
    hwloc_bitmap_free(cpus);
}
