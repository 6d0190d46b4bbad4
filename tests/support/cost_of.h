// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of cost*.c: the cost of a plan that is given by its name, and two layouts of
// ranks.
#ifndef TESTS_SUPPORT_COST_OF_H
#define TESTS_SUPPORT_COST_OF_H

#include <math.h>

#include "runtime/cost.h"

static const struct kolo_layout two = {.size = 2, .cores = 2, .local = KOLO_PATH_LOOPBACK};

/* Two hosts, with ranks 0 to 3 on the first. In a tree, rank 4 is a child of the root, so the edge
 * between them crosses the hosts. */
enum { EIGHT = 8 };
static const int on_two_hosts[EIGHT] = {0, 0, 0, 0, 1, 1, 1, 1};
__attribute__((unused)) static const struct kolo_layout eight = {
    .size = EIGHT, .cores = EIGHT, .local = KOLO_PATH_SHM, .hosts = on_two_hosts, .nhosts = 2};

/** The expected time of plan @p name; elements are of one byte. */
static inline double cost_of(enum kolo_collective collective, const char *name, int size,
                             size_t count, const struct kolo_layout *layout,
                             const struct kolo_figures *figures)
{
    struct kolo_plan_args args = {.size = size, .count = count, .segment = 1 << 18};
    return kolo_plan_cost(kolo_plan_find(collective, name), &args, 1, layout, figures);
}

#endif
