// SPDX-License-Identifier: Apache-2.0
// kolo_metrics_compute() with a check of how many collectives it makes.
#ifndef KOLO_TESTS_SUPPORT_METRIC_CALLS_H
#define KOLO_TESTS_SUPPORT_METRIC_CALLS_H

#include <kolo/metrics.h>

#include "base/status.h"
#include "runtime/comm.h"

/** kolo_metrics_compute(); also fails if it does not make exactly @p calls collectives. */
static inline kolo_status metric_compute_in(uint32_t calls, struct kolo_comm *comm,
                                            struct kolo_metric *const *metrics, size_t count)
{
    uint32_t before = comm->sequences.collective;
    kolo_status status = kolo_metrics_compute(comm, metrics, count, NULL);
    uint32_t made = comm->sequences.collective - before;
    if (status != KOLO_OK || made == calls)
        return status;
    return kolo_fail(KOLO_ERR_INTERNAL, "rank %d of %d: %u collectives instead of %u",
                     kolo_rank(comm), kolo_size(comm), made, calls);
}

#endif
