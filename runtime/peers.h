// SPDX-License-Identifier: Apache-2.0
// The table of all ranks, as the store sends it. It is parsed once per process: ranks that are
// threads of one process get the same bytes, and share the result. Threads: any.
#ifndef KOLO_RUNTIME_PEERS_H
#define KOLO_RUNTIME_PEERS_H

#include "transport/transport.h"

/** Reads the table of @p size ranks in the @p bytes bytes at @p table: a blob for each rank, in
 * order. *peers_out, by rank, is valid until kolo_peers_drop. ERR_DATA, ERR_PROTOCOL: it is not a
 * table; ERR_NO_MEMORY. */
kolo_status kolo_peers_read(const uint8_t *table, size_t bytes, int size,
                            const struct kolo_peer **peers_out) KOLO_NODISCARD;
/** Must be called once for each kolo_peers_read. NULL is allowed. */
void kolo_peers_drop(const struct kolo_peer *peers);

#endif
