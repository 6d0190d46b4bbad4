// SPDX-License-Identifier: Apache-2.0
// How the ranks of a new communicator open it together. Shared by kolo_split, kolo_dup and
// kolo_shrink.
#ifndef KOLO_RUNTIME_SPLIT_H
#define KOLO_RUNTIME_SPLIT_H

#include "runtime/comm.h"

/** This rank's place in a new communicator. */
struct kolo_seat {
    uint32_t number;
    int rank, size;
};

/** Opens @p child, which has been created and its ranks filled in, and waits in a barrier on it
 * until all members have opened it, at most until @p deadline (0: as @p opts say, from now). If @p
 * parent (NULL: none) fails meanwhile, so does this. Takes @p child: on failure it is freed. Not
 * held: lock; kolo_engine_creating() must have been called. */
kolo_status kolo_comm_meet(struct kolo_comm *child, struct kolo_comm *parent,
                           const struct kolo_seat *seat, const char *function,
                           const struct kolo_opts *opts, kolo_deadline deadline) KOLO_NODISCARD;
/** kolo_split() for the nest of @p comm: the new communicator is inner, and its origin is @p
 * origin. */
kolo_status kolo_split_inside(struct kolo_comm *comm, int colour, const char *origin,
                              kolo_deadline deadline, struct kolo_comm **new_out) KOLO_NODISCARD;

#endif
