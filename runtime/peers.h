// SPDX-License-Identifier: Apache-2.0
// The table of all ranks, as the store sends it: read once per process. Ranks that are threads of
// one process get the same bytes, and share what was made of them. Any thread.
#ifndef KOLO_RUNTIME_PEERS_H
#define KOLO_RUNTIME_PEERS_H

#include "transport/transport.h"

/** The table of @p size ranks that stands in @p bytes bytes at @p table: a blob for each rank, in
 * order. *peers_out, by rank, is good until kolo_peers_drop. ERR_DATA, ERR_PROTOCOL: it is none;
 * ERR_NO_MEMORY. */
kolo_status kolo_peers_read(const uint8_t *table, size_t bytes, int size,
                            const struct kolo_peer **peers_out) KOLO_NODISCARD;
/** Once for each kolo_peers_read; NULL is fine. */
void kolo_peers_drop(const struct kolo_peer *peers);

#endif
