// SPDX-License-Identifier: Apache-2.0
// The addresses (GIDs) of an RDMA port, and which pair of them joins two ports. Pure but for the
// reading of the table.
//
// A port of RoCE has one GID per address of its interface and version of RoCE; only two of one
// version and family reach each other, and the number of an entry means nothing to the other side.
// Both sides choose from the same two lists and come to the same pair, whoever asks.
#ifndef KOLO_TRANSPORT_RDMA_GID_H
#define KOLO_TRANSPORT_RDMA_GID_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "transport/rdma_verbs.h"

/** What carries the packets. The values go over the wire. */
enum kolo_rdma_kind {
    KOLO_RDMA_INFINIBAND = 1,
    KOLO_RDMA_ROCE_V1 = 2, /* Ethernet, one switched network */
    KOLO_RDMA_ROCE_V2 = 3, /* UDP over IP, through routers too */
    KOLO_RDMA_KINDS
};

enum { KOLO_RDMA_GID_BYTES = 16, KOLO_RDMA_GIDS_MAX = 16, KOLO_RDMA_GID_TEXT = 64 };
struct kolo_rdma_gid {
    enum kolo_rdma_kind kind;
    uint8_t index;               /* in the port's table: for its owner alone, as are the next two */
    uint8_t entry;               /* of KOLO_NET that allows it; 0 is the preferred one */
    char interface[IF_NAMESIZE]; /* that it belongs to; "": none, or not to be seen from here */
    uint8_t bytes[KOLO_RDMA_GID_BYTES];
};
struct kolo_rdma_gids {
    struct kolo_rdma_gid all[KOLO_RDMA_GIDS_MAX]; /* best first */
    size_t count;
};

/** Those of @p port that can be used and that @p net (KOLO_NET; "": all) allows, best first; those
 * beyond KOLO_RDMA_GIDS_MAX are left out. ERR_UNSUPPORTED: there is none, or they cannot be read;
 * the detail says so.
 *
 * An address of RoCE is its interface's. One of InfiniBand is no IP address: it is allowed as any
 * address of the interface (IPoIB) of its port is, and by any @p net if there is no such interface,
 * for then no entry can mean it. */
kolo_status kolo_rdma_gids_read(const struct kolo_verbs *verbs, struct ibv_context *context,
                                uint8_t port, const char *net,
                                struct kolo_rdma_gids *gids_out) KOLO_NODISCARD;
/** The pair that joins both, as places in the two lists. False, and *why_out: none does. */
bool kolo_rdma_gids_join(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs,
                         size_t *ours_out, size_t *theirs_out, struct kolo_why *why_out);
/** Was it given by somebody, rather than made by its interface for itself? Such a one is more
 * likely to be reached. */
bool kolo_rdma_gid_is_given(const struct kolo_rdma_gid *gid);
/** "RoCE v2 IPv4", "InfiniBand fe80::": the same for two that can be joined, and for no others. */
void kolo_rdma_gid_network(const struct kolo_rdma_gid *gid, char *text, size_t capacity);
/** "RoCE v2 10.0.0.1". */
void kolo_rdma_gid_format(const struct kolo_rdma_gid *gid, char *text, size_t capacity);

#endif
