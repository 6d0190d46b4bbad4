// SPDX-License-Identifier: Apache-2.0
// Which rank is bound to which cores, on synthetic machines of hwloc.
#include <stdlib.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/bind.h"

Test(bind, names)
{
    enum kolo_bind bind;
    for (int i = 0; i < KOLO_BINDS; i++) {
        cr_assert(kolo_bind_parse(kolo_bind_text((enum kolo_bind)i), &bind) == KOLO_OK);
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
