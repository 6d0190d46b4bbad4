// SPDX-License-Identifier: Apache-2.0
// Proves a plan for one set of arguments by running all of its ranks on symbols instead of numbers.
// It reports an error if
//
//   - a message has no partner, or one that expects another length
//   - ranks wait for each other in a circle (a send counts as over only when its receive has been
//     posted, as on the strictest link)
//   - a slice leaves its buffer
//   - something is read before it was written
//   - a step touches what another step that is still in flight sends or receives
//   - SEND is written
//   - a result lacks a contribution, or has one twice
//   - two ranks would differ in a bit (operands in another order)
//   - an ordered plan does not fold all contributions in the order of ranks and at once
//   - an average would be divided twice or not at all
//   - a rank could end before another has begun (in an open broadcast: before its root; and if
//     notes close it, the root before any other)
//   - a message of one broadcast would meet a receive of another
#ifndef KOLO_TESTS_SUPPORT_SIMULATE_H
#define KOLO_TESTS_SUPPORT_SIMULATE_H

#include "base/status.h"
#include "runtime/plan.h"

struct kolo_simulation {
    const struct kolo_plan *plan;
    int size, root;
    const struct kolo_topology *hosts; /* as in kolo_plan_args */
    size_t count;
    const size_t *counts, *displs; /* as in kolo_plan_args */
    /** For alltoallv: these two and the two above have a row for each rank. NULL: another call. */
    const size_t *send_counts, *send_displs;
    size_t segment;
    bool in_place;
    /** Follow about this many elements of RECV instead of all of them, for large worlds; 0: all. */
    size_t samples;
    /** The number of broadcasts of this plan that follow each other, each with the next rank as
     * root; 0: one. */
    int calls;
    enum kolo_closing closing; /* how a broadcast is closed */
    int closed_every; /* of several broadcasts, every Nth is closed for all ranks; 0: none is */
    uint64_t seed;    /* seed of the order in which ranks move; 0: a fixed order */
};

/** What a run needed: each is the maximum of all ranks. */
struct kolo_simulated {
    size_t steps;
    size_t messages;
    size_t elements_sent;
    size_t elements_reduced;
};

/** Runs the plan and then, if the plan does not close by itself, the plan that closes it.
 *  @return KOLO_OK; ERR_INTERNAL (the detail names the rank, the step and the error);
 *  ERR_NO_MEMORY. */
kolo_status kolo_simulate(const struct kolo_simulation *simulation,
                          struct kolo_simulated *simulated_out) KOLO_NODISCARD;

#endif
