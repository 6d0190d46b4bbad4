// SPDX-License-Identifier: Apache-2.0
// Proves a plan for one set of arguments by running all its ranks on symbols instead of numbers.
//
// It objects when a message has no partner or another length, when ranks wait for each other in a
// circle (a send counts as over only when its receive has been posted: the strictest link), when a
// slice leaves its buffer, when something is read before it was written, when anything is touched
// that a step still in flight is sending or receiving, when SEND is written, when a result misses a
// contribution or has one twice, when two ranks would differ in a bit (operands in another order),
// when an ordered plan does not fold in the order of ranks and at once, when an average would be
// divided twice or not at all, when a rank could end before another has begun (in an open
// broadcast: before its root, and, if notes close it, the root before any), and when a message of
// one broadcast would meet a receive of another.
#ifndef KOLO_RUNTIME_SIMULATE_H
#define KOLO_RUNTIME_SIMULATE_H

#include "base/status.h"
#include "runtime/plan.h"

struct kolo_simulation {
    const struct kolo_plan *plan;
    int size, root;
    const struct kolo_topology *hosts; /* as in kolo_plan_args */
    size_t count;
    const size_t *counts, *displs; /* as in kolo_plan_args */
    /** alltoall with counts: these and the two above have a row for each rank. NULL: not that. */
    const size_t *send_counts, *send_displs;
    size_t segment;
    bool in_place;
    /** Follow about this many elements of RECV instead of all; 0: all. For large worlds. */
    size_t samples;
    /** So many broadcasts of this plan one after another, each with the next rank as root; 0:
     * one. */
    int calls;
    enum kolo_closing closing; /* of a broadcast */
    int closed_every; /* of several broadcasts every so many is closed for all; 0: none is */
    uint64_t seed;    /* of the order in which ranks move; 0: a fixed one */
};

/** What a run cost, for the cost model: the most of any rank. */
struct kolo_simulated {
    size_t steps;
    size_t messages;
    size_t elements_sent;
    size_t elements_reduced;
};

/** Runs the plan and, where it does not close, what closes it after it.
 *  @return KOLO_OK; ERR_INTERNAL with rank, step and objection in the detail; ERR_NO_MEMORY. */
kolo_status kolo_simulate(const struct kolo_simulation *simulation,
                          struct kolo_simulated *simulated_out) KOLO_NODISCARD;

#endif
