// SPDX-License-Identifier: Apache-2.0
// A queue pair of verbs: made, joined to the peer's, cut, destroyed. Knows neither messages nor
// credit (rdma_queue.h).
//
// Threads: as rdma_queue.h. A pair is the caller's from kolo_rdma_pair_make() on.
#ifndef KOLO_TRANSPORT_RDMA_PAIR_H
#define KOLO_TRANSPORT_RDMA_PAIR_H

#include "transport/rdma_complete.h"
#include "transport/rdma_handshake.h"

/** A reliable pair for @p requests requests a way, of up to @p parts parts (SGEs) each, whose ends
 * come to @p completions. *inline_bytes_out: a message of so many bytes at most can be handed to
 * the device itself instead of where it lies. ERR_SYSTEM, and why. */
kolo_status kolo_rdma_pair_make(const struct kolo_rdma_completions *completions, uint32_t requests,
                                uint32_t parts, struct ibv_qp **pair_out,
                                uint32_t *inline_bytes_out) KOLO_NODISCARD;
/** Receives may be posted from here on, and the peer write where it is allowed to once it is
 * joined. ERR_LINK. */
kolo_status kolo_rdma_pair_prepare(const struct kolo_rdma_device *device,
                                   struct ibv_qp *pair) KOLO_NODISCARD;
/** Joins it, at our address @p gid, to the peer's, which said @p theirs; our packets are numbered
 * from @p packet on. ERR_LINK. */
kolo_status kolo_rdma_pair_join(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                                uint32_t packet, const struct kolo_rdma_gid *gid,
                                const struct kolo_rdma_hello *theirs) KOLO_NODISCARD;
/** Nothing goes in or out any more; what was posted comes back flushed. ERR_LINK: it cannot be
 * had. */
kolo_status kolo_rdma_pair_cut(const struct kolo_rdma_device *device,
                               struct ibv_qp *pair) KOLO_NODISCARD;
/** From here on the device touches nothing for it. False: the device refuses, which is logged, and
 * may go on. NULL is fine. */
bool kolo_rdma_pair_destroy(const struct kolo_rdma_device *device, struct ibv_qp *pair);

#endif
