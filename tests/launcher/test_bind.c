// SPDX-License-Identifier: Apache-2.0
// Which rank is bound to which cores, on synthetic machines of hwloc.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/bind.h"

Test(bind, names)
{
    static const char *const names[KOLO_BINDS] = {[KOLO_BIND_AUTO] = "auto",
                                                  [KOLO_BIND_NONE] = "none",
                                                  [KOLO_BIND_CORE] = "core",
                                                  [KOLO_BIND_NUMA] = "numa"};
    enum kolo_bind bind;
    for (int i = 0; i < KOLO_BINDS; i++) {
        cr_assert(kolo_bind_parse(names[i], &bind) == KOLO_OK);
        cr_assert((int)bind == i);
    }
    cr_assert(kolo_bind_parse("socket", &bind) == KOLO_ERR_CONFIG);
}

Test(bind, none_is_none)
{
    cpu_set_t *sets = (cpu_set_t *)&sets;
    cr_assert(kolo_bind_plan(KOLO_BIND_NONE, 1, &sets) == KOLO_OK && !sets);
}

Test(bind, auto_leaves_more_ranks_than_cores_alone)
{
    cpu_set_t *sets = NULL;
    cr_assert(kolo_bind_plan(KOLO_BIND_AUTO, 100000, &sets) == KOLO_OK && !sets);
}

Test(bind, core_refuses_more_ranks_than_cores)
{
    cpu_set_t *sets = NULL;
    cr_assert(kolo_bind_plan(KOLO_BIND_CORE, 100000, &sets) == KOLO_ERR_UNSUPPORTED && !sets);
}

/* The sets of AUTO with as many ranks as cores are disjoint, not empty, and of cores that may be
 * used. */
Test(bind, cores_are_dealt_out_once)
{
    cpu_set_t mine, all, both, *sets = NULL;
    cr_assert(sched_getaffinity(0, sizeof mine, &mine) == 0);
    int ranks = CPU_COUNT(&mine) > 1 ? 2 : 1;
    cr_assert(kolo_bind_plan(KOLO_BIND_AUTO, ranks, &sets) == KOLO_OK);
    if (!sets)
        cr_skip("fewer cores than processors here");
    CPU_ZERO(&all);
    for (int i = 0; i < ranks; i++) {
        cr_assert(CPU_COUNT(&sets[i]) > 0, "rank %d has none", i);
        CPU_AND(&both, &all, &sets[i]);
        cr_assert(CPU_COUNT(&both) == 0, "rank %d shares", i);
        CPU_OR(&all, &all, &sets[i]);
    }
    CPU_AND(&both, &all, &mine);
    cr_assert(CPU_EQUAL(&both, &all), "beyond our own affinity");
    kolo_free_memory(sets);
}

Test(bind, tells_the_node_of_each_set)
{
    static const int processors[][2] = {{0, 1}, {4, 5}, {3, 4}, {7, 7}};
    enum { SETS = sizeof processors / sizeof processors[0] };
    cpu_set_t sets[SETS];
    int nodes[SETS];
    cr_assert(setenv("HWLOC_SYNTHETIC", "numa:2 core:4 pu:1", 1) == 0);
    for (int i = 0; i < SETS; i++) {
        CPU_ZERO(&sets[i]);
        CPU_SET((size_t)processors[i][0], &sets[i]);
        CPU_SET((size_t)processors[i][1], &sets[i]);
    }
    kolo_bind_nodes(sets, SETS, nodes);
    cr_assert(nodes[0] == 0 && nodes[1] == 1 && nodes[2] == -1 && nodes[3] == 1, "%d %d %d %d",
              nodes[0], nodes[1], nodes[2], nodes[3]);
}

static void plan_by_node(int ranks, cpu_set_t **sets)
{
    cr_assert(kolo_bind_plan(KOLO_BIND_NUMA, ranks, sets) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(*sets);
}

static bool is_just(const cpu_set_t *set, size_t cpu)
{
    return CPU_COUNT(set) == 1 && CPU_ISSET(cpu, set);
}

/* In a process with one thread: hwloc takes the processors of all threads together. */
static int plan_on_processor_0(void)
{
    cpu_set_t mine, *sets = NULL;
    CPU_ZERO(&mine);
    CPU_SET(0, &mine);
    if (setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:1 pu:1", 1) != 0 ||
        setenv("HWLOC_THISSYSTEM", "1", 1) != 0)
        return 2;
    if (sched_setaffinity(0, sizeof mine, &mine) != 0)
        return 0; /* this process may not use it */
    if (kolo_bind_plan(KOLO_BIND_NUMA, 2, &sets) != KOLO_OK || !sets)
        return 3;
    const bool is_right = is_just(&sets[0], 0) && is_just(&sets[1], 0);
    kolo_free_memory(sets);
    return is_right ? 0 : 4;
}

/* As a batch system or a container may leave it. */
Test(bind, nodes_without_a_processor_that_may_be_used_are_left_out)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(plan_on_processor_0());
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

/* Memory that shares the processors of other nodes: HBM beside each node, CXL for all of them. */
Test(bind, nodes_of_more_memory_are_no_places_for_ranks)
{
    static const char *const machines[] = {"pack:2 [numa] [numa] core:1 pu:1",
                                           "[numa] pack:2 [numa] core:1 pu:1",
                                           "[numa] pack:2 [numa] [numa] core:1 pu:1"};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        cpu_set_t *sets = NULL;
        int nodes[3];
        cr_assert(setenv("HWLOC_SYNTHETIC", machines[i], 1) == 0);
        plan_by_node(3, &sets);
        cr_assert(is_just(&sets[0], 0) && is_just(&sets[1], 0) && is_just(&sets[2], 1), "%s",
                  machines[i]);
        kolo_bind_nodes(sets, 3, nodes);
        cr_assert(nodes[0] == 0 && nodes[1] == 0 && nodes[2] > 0, "%s: %d %d %d", machines[i],
                  nodes[0], nodes[1], nodes[2]);
        kolo_free_memory(sets);
    }
}

/* The memory of GPUs (GH200) or CXL is a node without processors. */
Test(bind, nodes_without_processors_are_no_places_for_ranks)
{
    char path[] = "/tmp/kolo-topology-XXXXXX";
    cpu_set_t *sets = NULL;
    int nodes[2];
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    cr_assert(file);
    fputs("<?xml version=\"1.0\"?><topology version=\"2.0\">"
          "<object type=\"Machine\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" "
          "nodeset=\"0x7\" complete_nodeset=\"0x7\" allowed_nodeset=\"0x7\">"
          "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x0\" complete_cpuset=\"0x0\" "
          "nodeset=\"0x2\" complete_nodeset=\"0x2\"/>",
          file);
    for (int i = 0; i < 2; i++)
        fprintf(file,
                "<object type=\"Package\" os_index=\"%d\" cpuset=\"0x%d\" complete_cpuset=\"0x%d\" "
                "nodeset=\"0x%d\" complete_nodeset=\"0x%d\"><object type=\"NUMANode\" "
                "os_index=\"%d\" cpuset=\"0x%d\" complete_cpuset=\"0x%d\" nodeset=\"0x%d\" "
                "complete_nodeset=\"0x%d\"/><object type=\"PU\" os_index=\"%d\" cpuset=\"0x%d\" "
                "complete_cpuset=\"0x%d\" nodeset=\"0x%d\" complete_nodeset=\"0x%d\"/></object>",
                i, 1 << i, 1 << i, 1 << 2 * i, 1 << 2 * i, 2 * i, 1 << i, 1 << i, 1 << 2 * i,
                1 << 2 * i, i, 1 << i, 1 << i, 1 << 2 * i, 1 << 2 * i);
    fputs("</object></topology>", file);
    fclose(file);
    cr_assert(setenv("HWLOC_XMLFILE", path, 1) == 0);
    plan_by_node(2, &sets);
    kolo_bind_nodes(sets, 2, nodes);
    unlink(path);
    cr_assert(is_just(&sets[0], 0) && is_just(&sets[1], 1));
    cr_assert(nodes[0] == 0 && nodes[1] == 2, "%d %d", nodes[0], nodes[1]);
    kolo_free_memory(sets);
}
