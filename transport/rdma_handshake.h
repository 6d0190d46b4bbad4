// SPDX-License-Identifier: Apache-2.0
// What two ranks tell each other over their proved connection before they use RDMA: a block of
// fixed size in each direction, with either an offer (how to reach our queue pair, and which
// receives are ready there) or the reason why there is none. Pure: no sockets, no device. What
// arrives is hostile: each field is checked against what the fabric allows, and against the
// addresses that the peer had published to all ranks.
//
//   u32 magic, u8 version, u8 kind of address (0: no offer), u8 MTU code, u8 0,
//   u32 queue pair, u32 packet number, u16 LID, u16 0, u32 buffers, u32 bytes of each, 16 bytes
//   GID, reason (u16 length and text; "" in an offer), zeroes up to byte 240; u32 round, u64
//   received, zeroes
//
// The last two, and the byte after the MTU code (1: joined), are used by blocks that replace a
// broken pair (rdma_resume.h), and are 0 before.
#ifndef KOLO_TRANSPORT_RDMA_HANDSHAKE_H
#define KOLO_TRANSPORT_RDMA_HANDSHAKE_H

#include "transport/rdma_gid.h"

enum {
    KOLO_RDMA_HELLO_BYTES = 256,
    KOLO_RDMA_REASON_BYTES = 192, /* including the NUL */
    KOLO_RDMA_BUFFERS_MIN = 8,    /* receives that are ready; a power of two */
    KOLO_RDMA_BUFFERS_MAX = 1024,
    KOLO_RDMA_BUFFER_BYTES_MIN = 2048, /* so that the longest control frame fits */
    KOLO_RDMA_BUFFER_BYTES_MAX = 1 << 20
};

struct kolo_rdma_hello {
    bool offers;
    struct kolo_rdma_gid gid; /* its index is not sent */
    uint8_t mtu;              /* enum ibv_mtu */
    uint32_t pair, packet;    /* 24-bit numbers */
    uint16_t lid;             /* of InfiniBand */
    uint32_t buffers, buffer_bytes;
    char reason[KOLO_RDMA_REASON_BYTES]; /* why there is no offer */
    uint32_t round;                      /* of replacing a broken pair; 0: the first pair */
    uint64_t received;                   /* by the previous pairs */
    bool is_joined;                      /* the pair is joined to the other's */
};

void kolo_rdma_hello_pack(const struct kolo_rdma_hello *hello, uint8_t out[KOLO_RDMA_HELLO_BYTES]);
/** ERR_PROTOCOL, naming the field: it is not a hello of this version, or has a value that nobody
 *  can mean. The address of an offer must be one of @p published; NULL: the block came over a link
 *  that is proved, and any address is accepted. */
kolo_status kolo_rdma_hello_unpack(const uint8_t in[KOLO_RDMA_HELLO_BYTES],
                                   const struct kolo_rdma_gids *published,
                                   struct kolo_rdma_hello *hello_out) KOLO_NODISCARD;

/** The addresses of a port, as they are published: u8 count, then for each u8 kind and 16 bytes. */
enum { KOLO_RDMA_GIDS_BYTES_MAX = 1 + KOLO_RDMA_GIDS_MAX * (1 + KOLO_RDMA_GID_BYTES) };
size_t kolo_rdma_gids_pack(const struct kolo_rdma_gids *gids,
                           uint8_t out[KOLO_RDMA_GIDS_BYTES_MAX]);
/** ERR_DATA. *used_out: how many of the @p bytes bytes they take. */
kolo_status kolo_rdma_gids_unpack(const uint8_t *in, size_t bytes, struct kolo_rdma_gids *gids_out,
                                  size_t *used_out) KOLO_NODISCARD;

#endif
