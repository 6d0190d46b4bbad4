// SPDX-License-Identifier: Apache-2.0
// Checksums of what a link carries (KOLO_CHECKSUM): every frame that leaves the memory of its host,
// so those of tcp and rdma. Cards, their drivers, switches and memory sometimes change bits; TCP's
// own sum of 16 bits misses some of that, and behind an offloading card it covers only a part of
// the way.
//
// The header of a frame is followed by two checksums. That of the payload is made from the sender's
// memory before the payload leaves. That of the header and of the payload's checksum is verified
// before a field of the header is used, so a wrong length or description is found as what it is.
// The receiver sums up the payload on its way into place, and the frame counts as received only if
// both are equal. Otherwise the link ends with KOLO_ERR_DATA, so no work whose bytes were in that
// frame ever ends with KOLO_OK. If the frame was reduced, the result is wrong, and its call fails.
//
// Messages that a device writes directly have one checksum each (rdma_direct.h), and so do the
// blocks by which two ranks begin RDMA or replace a broken queue pair. The numbers that accompany
// RDMA's messages have a few bits of their own (rdma_number.h).
//
// Not covered: memory that ranks of a host share (inproc, shm and boards), where there is no wire;
// what changes before the checksum is made or after it was verified; and somebody who changes bytes
// on purpose, since anybody can compute a checksum.
#ifndef KOLO_TRANSPORT_CHECKSUM_H
#define KOLO_TRANSPORT_CHECKSUM_H

#include "base/checksum.h"
#include "transport/link.h"

struct kolo_sums {
    struct kolo_checksum in; /* of what has arrived of a frame's payload */
    uint64_t in_sent;        /* what it must be in the end, as the last header said */
    /* used by rdma only: */
    struct kolo_checksum out;   /* of the message that a device is writing */
    struct kolo_checksum whole; /* of what a device has written, as far as it was summed up */
};

/** Gives a new link checksums if KOLO_CHECKSUM says so. ERR_NO_MEMORY. */
kolo_status kolo_sums_open(struct kolo_link *link) KOLO_NODISCARD;

/** Packs a frame's header into link->header_bytes bytes; with checksums, reads its payload. */
void kolo_frame_pack(const struct kolo_link *link, const struct kolo_frame *frame,
                     uint8_t out[KOLO_HEADER_BYTES_MAX]);
/** Unpacks link->header_bytes bytes, the header of the next frame to begin. ERR_DATA: it changed on
 *  its way. */
kolo_status kolo_frame_unpack(struct kolo_link *link, const uint8_t *in,
                              struct kolo_header *header_out) KOLO_NODISCARD;

/** Puts a checksum of 32 bits into the last four of @p bytes bytes, which must be zeros: of a block
 *  with which two ranks agree on their RDMA devices, outside of frames. Without checksums,
 *  nothing. */
void kolo_block_seal(const struct kolo_link *link, uint8_t *block, size_t bytes);
/** Verifies and removes it. ERR_DATA: the block changed on its way. */
kolo_status kolo_block_verify(const struct kolo_link *link, uint8_t *block,
                              size_t bytes) KOLO_NODISCARD;

/* ---- for links with checksums ---- */

/** The frame whose header was unpacked last begins. */
void kolo_sums_begin(struct kolo_link *link);
/** All of it has gone into the sink, which still says where to. ERR_DATA, with the detail. */
kolo_status kolo_sums_verify(const struct kolo_link *link) KOLO_NODISCARD;
/** Verifies a message that a device wrote into place, all of which is in link->sums->whole. */
kolo_status kolo_sums_verify_work(const struct kolo_link *link, const struct kolo_work *work,
                                  uint64_t sent) KOLO_NODISCARD;

#endif
