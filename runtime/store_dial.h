// SPDX-License-Identifier: Apache-2.0
// Dials a store and waits for it. Private to the client and the rendezvous.
#ifndef KOLO_RUNTIME_STORE_DIAL_H
#define KOLO_RUNTIME_STORE_DIAL_H

#include "runtime/store.h"

/** A connection to the first of @p places that proves the secret and, unless @p job_id is 0, that
 * it serves this job. Blocks until the deadline. @p is_stale (may be NULL) is asked every now and
 * then whether it makes sense to go on.
 *  @return KOLO_OK; KOLO_AGAIN: stale; ERR_CONNECT, ERR_AUTH, ERR_TIMEOUT; ERR_NOT_FOUND: another
 * job serves there. */
kolo_status kolo_store_dial(const struct kolo_place *places, size_t count,
                            const struct kolo_secret *secret, int rank, uint64_t job_id,
                            kolo_deadline deadline, bool (*is_stale)(void *context), void *context,
                            int *fd_out) KOLO_NODISCARD;

#endif
