// SPDX-License-Identifier: Apache-2.0
// Which processors each rank of a host gets.
#ifndef KOLO_LAUNCHER_BIND_H
#define KOLO_LAUNCHER_BIND_H

#include <sched.h>

#include "launcher/frames.h"

/** Splits what this process may use among @p ranks ranks: cores in equal blocks, or NUMA nodes in
 * turn. *sets_out is one set a rank (kolo_free_memory), or NULL where nothing is to be bound: NONE,
 * AUTO with more ranks than cores.
 *  @return KOLO_OK; ERR_UNSUPPORTED says why CORE or NUMA cannot be had here. */
kolo_status kolo_bind_plan(enum kolo_bind bind, int ranks, cpu_set_t **sets_out) KOLO_NODISCARD;

/** The NUMA node (its OS index) that each of @p ranks sets lies in, into @p nodes_out; -1: in
 * several, or hwloc cannot say. */
void kolo_bind_nodes(const cpu_set_t *sets, int ranks, int *nodes_out);

/** "auto", "none", "core" or "numa"; ERR_CONFIG names the others. */
kolo_status kolo_bind_parse(const char *text, enum kolo_bind *bind_out) KOLO_NODISCARD;
const char *kolo_bind_text(enum kolo_bind bind);

#endif
