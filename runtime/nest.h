// SPDX-License-Identifier: Apache-2.0
// A nest: two communicators inside another one, by which its collectives can be carried out as
// collectives of their own (nested.h). Private to runtime/.
#ifndef KOLO_RUNTIME_NEST_H
#define KOLO_RUNTIME_NEST_H

#include "runtime/comm.h"

/** The communicators inside another one. Constant. */
struct kolo_nest {
    struct kolo_comm *host;   /* its members on this host; there this rank is its local_rank */
    struct kolo_comm *across; /* of each host the member with this rank's number there */
};

/** Makes the nest of @p comm if the settings want one (KOLO_NESTED_BYTES) and its members are on
 * several hosts, the same number on each, two or more; else does nothing. All members call it,
 * after @p comm was opened and before anything is called on it. On failure there is no nest. Not
 * held: lock; kolo_engine_creating() must have been called. */
kolo_status kolo_nest_open(struct kolo_comm *comm, kolo_deadline deadline) KOLO_NODISCARD;
/** Closes and frees the nest, if there is one. No request of @p comm is left. Held: lock. */
void kolo_nest_close(struct kolo_comm *comm);

#endif
