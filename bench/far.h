// SPDX-License-Identifier: Apache-2.0
// Measures the distance between the NUMA nodes of this machine.
#ifndef KOLO_BENCH_FAR_H
#define KOLO_BENCH_FAR_H

#include "base/status.h"
#include "runtime/cost.h"

/** Measures far_flag and far_byte between the first two nodes whose processors this process may
 * use, in about a second. A figure that cannot be measured (there is one node, or no second core
 * beside the first) keeps its value. *nodes_out: the number of such nodes, at most 2. */
kolo_status far_measure(struct kolo_figures *figures, int *nodes_out) KOLO_NODISCARD;

#endif
