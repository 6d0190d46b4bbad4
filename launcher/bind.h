// SPDX-License-Identifier: Apache-2.0
// Decides which processors each rank of a host gets.
#ifndef KOLO_LAUNCHER_BIND_H
#define KOLO_LAUNCHER_BIND_H

#include <sched.h>

#include "launcher/frames.h"

/** Divides the processors that this process may use among @p ranks ranks: cores in equal blocks, or
 * NUMA nodes in turn. *sets_out has one set per rank (kolo_free_memory), or is NULL if nothing is
 * to be bound: for NONE, and for AUTO with more ranks than cores.
 *  @return KOLO_OK; ERR_UNSUPPORTED says why CORE or NUMA is not possible here. */
kolo_status kolo_bind_plan(enum kolo_bind bind, int ranks, cpu_set_t **sets_out) KOLO_NODISCARD;

/** Writes the NUMA node (its OS index) of each of the @p ranks sets into @p nodes_out; -1 if a set
 * lies in several nodes, or hwloc cannot say. */
void kolo_bind_nodes(const cpu_set_t *sets, int ranks, int *nodes_out);

/** Parses "auto", "none", "core" or "numa"; for other texts ERR_CONFIG lists these. */
kolo_status kolo_bind_parse(const char *text, enum kolo_bind *bind_out) KOLO_NODISCARD;

#endif
