// SPDX-License-Identifier: Apache-2.0
// The job's key-value store, as the library itself uses it.
#ifndef KOLO_RUNTIME_KV_H
#define KOLO_RUNTIME_KV_H

#include "runtime/comm.h"

/** A key of the store, and the words for it. */
struct kolo_kv_key {
    const char *function; /* on whose behalf it is asked for */
    const char *shown;    /* what messages call the key */
    const char *key;
};

/** Gives the *bytes bytes of @p value on rank 0 to all ranks (capacity and length in *bytes there),
 * under a key of the library's own. A rank that is lost meanwhile does not matter to the others,
 * unless it is rank 0 and had set nothing. */
kolo_status kolo_kv_share(struct kolo_comm *comm, const struct kolo_kv_key *key, void *value,
                          size_t *bytes, kolo_deadline deadline) KOLO_NODISCARD;
/** Reserves @p count numbers of communicators for the caller alone; *last_out is the highest. */
kolo_status kolo_kv_take(struct kolo_comm *comm, const char *function, int count, int timeout_ms,
                         int64_t *last_out) KOLO_NODISCARD;

#endif
