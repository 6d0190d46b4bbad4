// SPDX-License-Identifier: Apache-2.0
// The addresses (GIDs) of an RDMA port, and which pair of them joins two ports. Pure, except for
// reading the table.
//
// A RoCE port has one GID for each address of its interface and each version of RoCE. Two GIDs
// reach each other only if version and family are the same, and the index of an entry means nothing
// to the other side. Both sides choose from the same two lists and get the same pair.
#ifndef KOLO_TRANSPORT_RDMA_GID_H
#define KOLO_TRANSPORT_RDMA_GID_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "transport/rdma_verbs.h"

/** What carries the packets. The values are sent over the wire. */
enum kolo_rdma_kind {
    KOLO_RDMA_INFINIBAND = 1,
    KOLO_RDMA_ROCE_V1 = 2, /* Ethernet, one switched network */
    KOLO_RDMA_ROCE_V2 = 3, /* UDP over IP, also through routers */
    KOLO_RDMA_KINDS
};

enum { KOLO_RDMA_GID_BYTES = 16, KOLO_RDMA_GIDS_MAX = 16, KOLO_RDMA_GID_TEXT = 64 };
struct kolo_rdma_gid {
    enum kolo_rdma_kind kind;
    uint8_t index;               /* in the port's table: for its owner only, as the next two
                                  * fields */
    uint8_t entry;               /* the entry of KOLO_NET that allows it; 0 is the preferred one */
    char interface[IF_NAMESIZE]; /* that it belongs to; "": none, or not visible from here */
    uint8_t bytes[KOLO_RDMA_GID_BYTES];
};
struct kolo_rdma_gids {
    struct kolo_rdma_gid all[KOLO_RDMA_GIDS_MAX]; /* best first */
    size_t count;
};

/** The addresses of @p port that can be used and that @p net allows (KOLO_NET; "": all), best
 *  first; those beyond KOLO_RDMA_GIDS_MAX are left out. ERR_UNSUPPORTED: there is none, or they
 *  cannot be read; the detail says which.
 *
 *  A RoCE address belongs to its interface. An InfiniBand address is not an IP address: it is
 *  allowed if any address of its port's interface (IPoIB) is, and by any @p net if there is no such
 *  interface, since no entry can then refer to it. */
kolo_status kolo_rdma_gids_read(const struct kolo_verbs *verbs, struct ibv_context *context,
                                uint8_t port, const char *net,
                                struct kolo_rdma_gids *gids_out) KOLO_NODISCARD;
/** The pair that joins both, as indices into the two lists. False, with *why_out: none does. */
bool kolo_rdma_gids_join(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs,
                         size_t *ours_out, size_t *theirs_out, struct kolo_why *why_out);
/** How many bits are the same at the beginning of both. The more, the likelier it is that they are
 *  in one network. */
size_t kolo_rdma_gid_common_bits(const struct kolo_rdma_gid *one,
                                 const struct kolo_rdma_gid *other);
/** Whether it was assigned by somebody, instead of being derived by its interface. An assigned
 *  address is more likely to be reachable. */
bool kolo_rdma_gid_is_given(const struct kolo_rdma_gid *gid);
/** Writes the network: "RoCE v2 IPv4", "InfiniBand fe80::". It is the same for two addresses if and
 *  only if they can be joined. */
void kolo_rdma_gid_network(const struct kolo_rdma_gid *gid, char *text, size_t capacity);
/** Writes "RoCE v2 10.0.0.1". */
void kolo_rdma_gid_format(const struct kolo_rdma_gid *gid, char *text, size_t capacity);

#endif
