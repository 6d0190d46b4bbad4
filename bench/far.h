// SPDX-License-Identifier: Apache-2.0
// What lies between the NUMA nodes of this machine.
#ifndef KOLO_BENCH_FAR_H
#define KOLO_BENCH_FAR_H

#include "base/status.h"
#include "runtime/cost.h"

/** Measures far_flag and far_byte between the first two nodes whose processors this process may
 * use, in about a second; what cannot be measured (one node; no second core beside the first) keeps
 * its value. *nodes_out: how many such nodes there are, 2 at most. */
kolo_status far_measure(struct kolo_figures *figures, int *nodes_out) KOLO_NODISCARD;

#endif
