// SPDX-License-Identifier: Apache-2.0
// Connects to a store, waiting for it if necessary. Private to the rendezvous.
#ifndef KOLO_RUNTIME_STORE_DIAL_H
#define KOLO_RUNTIME_STORE_DIAL_H

#include "runtime/store.h"

struct kolo_store_dial_config {
    const struct kolo_place *places;
    size_t count;
    const struct kolo_secret *secret;
    int rank;        /* this rank */
    uint64_t job_id; /* the job that the store must serve; 0: any */
    kolo_deadline deadline;
    /** Called now and then: whether the places may be out of date. NULL: never. */
    bool (*is_stale)(void *context);
    void *context; /* passed to is_stale() */
};
/** Opens a connection to the first of the places that proves that it knows the secret and serves
 * this job. Blocks until the deadline at most.
 *  @return KOLO_OK; KOLO_AGAIN: the places are stale; ERR_CONNECT, ERR_AUTH, ERR_TIMEOUT;
 *  ERR_NOT_FOUND: another job is served there. */
kolo_status kolo_store_dial(const struct kolo_store_dial_config *config,
                            int *fd_out) KOLO_NODISCARD;

#endif
