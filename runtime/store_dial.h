// SPDX-License-Identifier: Apache-2.0
// Dials a store and waits for it. Private to the rendezvous.
#ifndef KOLO_RUNTIME_STORE_DIAL_H
#define KOLO_RUNTIME_STORE_DIAL_H

#include "runtime/store.h"

struct kolo_store_dial_config {
    const struct kolo_place *places;
    size_t count;
    const struct kolo_secret *secret;
    int rank;        /* that dials */
    uint64_t job_id; /* that it must serve; 0: any */
    kolo_deadline deadline;
    /** Asked every now and then whether the places may lead nowhere by now. NULL: never. */
    bool (*is_stale)(void *context);
    void *context; /* is_stale()'s */
};
/** A connection to the first of the places that proves the secret and that it serves this job.
 * Blocks until the deadline.
 *  @return KOLO_OK; KOLO_AGAIN: stale; ERR_CONNECT, ERR_AUTH, ERR_TIMEOUT; ERR_NOT_FOUND: another
 * job serves there. */
kolo_status kolo_store_dial(const struct kolo_store_dial_config *config,
                            int *fd_out) KOLO_NODISCARD;

#endif
