// SPDX-License-Identifier: Apache-2.0
// A queue pair of verbs: making it, joining it to the peer's, cutting it, destroying it. It knows
// neither messages nor credit (rdma_queue.h).
//
// Threads: as for rdma_queue.h. The caller owns the pair from kolo_rdma_pair_make() on.
#ifndef KOLO_TRANSPORT_RDMA_PAIR_H
#define KOLO_TRANSPORT_RDMA_PAIR_H

#include "transport/rdma_complete.h"
#include "transport/rdma_handshake.h"

/** Makes a reliable pair for @p requests requests in each direction, of up to @p parts parts (SGEs)
 *  each, whose completions go to @p completions. *inline_bytes_out: messages up to this size can be
 *  passed to the device by value instead of by address. ERR_SYSTEM, with the reason. */
kolo_status kolo_rdma_pair_make(const struct kolo_rdma_completions *completions, uint32_t requests,
                                uint32_t parts, struct ibv_qp **pair_out,
                                uint32_t *inline_bytes_out) KOLO_NODISCARD;
/** Receives may be posted from now on, and once the pair is joined, the peer may write where it is
 *  allowed to. ERR_LINK. */
kolo_status kolo_rdma_pair_prepare(const struct kolo_rdma_device *device,
                                   struct ibv_qp *pair) KOLO_NODISCARD;
/** Joins it, at our address @p gid, to the peer's pair, as described by @p theirs. Our packets are
 *  numbered from @p packet on. ERR_LINK. */
kolo_status kolo_rdma_pair_join(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                                uint32_t packet, const struct kolo_rdma_gid *gid,
                                const struct kolo_rdma_hello *theirs) KOLO_NODISCARD;
/** Stops everything in both directions; what was posted comes back flushed. ERR_LINK: the device
 *  refuses. */
kolo_status kolo_rdma_pair_cut(const struct kolo_rdma_device *device,
                               struct ibv_qp *pair) KOLO_NODISCARD;
/** When this returns true, the device touches nothing for the pair any more. False: the device
 *  refuses, which is logged, and may continue. @p pair may be NULL. */
bool kolo_rdma_pair_destroy(const struct kolo_rdma_device *device, struct ibv_qp *pair);

#endif
