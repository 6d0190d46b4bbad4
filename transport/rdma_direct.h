// SPDX-License-Identifier: Apache-2.0
// Long messages that no side copies: who receives one offers the memory of its receive, and who sends it writes there. The
// tables of it, for one link: what we offer, what the peer has offered, what of ours is being written. No queue, no link.
//
// Receives and sends of a channel are numbered as they are posted, and the nth message meets the nth receive. So an offer
// names a receive by its number and may be sent as soon as that is posted, before anybody knows of the message: where it is there
// in time the first byte goes straight into place, and no message waits for a round trip. A message that begins before the
// offer comes goes through places, as a short one does; its offer comes to nothing, and both sides know it, since one queue
// pair keeps the order.
//
//   offer    control frame {type, slot, generation, u32 channel, u32 number, u32 key, u64 address}, payload {24 bytes
//            description, u64 bytes}
//   message  writes, the last with the mark (generation << 8 | slot) in its 32-bit number: all that was before has landed
//
// The sender compares description and length with its own. If they differ it sends through places, so that the receiver
// finds the mismatch as it finds any.
//
// A receive that is given up while its offer stands cannot wait for the peer's consent. Its pages are cut off instead
// (kolo_heap_sever): the program gets fresh ones, what still comes goes where nobody reads, and the old ones stay registered until it
// has come or the link is freed. Memory of a device has no other pages to take their place: there the link ends.
// Messages out of it go written, or in frames that the device reads where they lie; none of it is ever copied by the host. The same is done for a send that is given up while the device reads it. What else is being
// received into the same pages is brought over from the old ones when it is there.
#ifndef KOLO_TRANSPORT_RDMA_DIRECT_H
#define KOLO_TRANSPORT_RDMA_DIRECT_H

#include "transport/link.h"
#include "transport/rdma_register.h"

enum { KOLO_RDMA_SLOTS = 64, KOLO_RDMA_OFFER_BYTES = sizeof(struct kolo_desc) + sizeof(uint64_t) };

/** Where there is memory of devices, so many entries for what is being written may be promised: the others are for frames. */
enum { KOLO_RDMA_PROMISES = KOLO_RDMA_SLOTS / 2 };

/** What the peer may be writing into. */
struct kolo_rdma_lent {
    struct kolo_work *work; /* NULL: given up, if there is a region; else the slot is free */
    struct kolo_rdma_region *region;
    uint8_t generation;
};
/** Where the peer wants a message. bytes 0: the slot is free. */
struct kolo_rdma_offer {
    struct kolo_desc desc;
    uint64_t bytes, address;
    uint32_t channel, number, key;
    uint8_t generation;
};
/** A message of ours that goes into an offer: promised, then begun, until the device has read all of it. Or a frame of one
 * that goes into a place of the peer's. */
struct kolo_rdma_writing {
    const struct kolo_work *work; /* NULL: given up, if there is a region; else the entry is free */
    struct kolo_rdma_region *region;
    struct kolo_rdma_offer offer;
    struct kolo_frame frame;
    uint16_t mark;
    bool is_begun;
    size_t posted; /* bytes */
};

struct kolo_rdma_direct {
    struct kolo_rdma_regions *regions;
    bool is_refused; /* memory could not be registered: no more is tried on this link */
    struct kolo_rdma_lent lent[KOLO_RDMA_SLOTS];
    struct kolo_rdma_offer offers[KOLO_RDMA_SLOTS];
    struct kolo_rdma_writing writings[KOLO_RDMA_SLOTS];
};

void kolo_rdma_direct_init(struct kolo_rdma_direct *direct, struct kolo_rdma_regions *regions);
/** The queue pair is gone, or broken: nobody writes or reads any more. All is let go. */
void kolo_rdma_direct_fini(struct kolo_rdma_direct *direct);

/** Offers the memory of receive @p work: fills in the control frame's description and payload. False: it is no memory of
 * kolo_alloc, cannot be registered, or there is no slot. */
bool kolo_rdma_direct_lend(struct kolo_rdma_direct *direct, struct kolo_work *work, uint8_t type,
                           struct kolo_desc *desc_out, uint8_t payload_out[KOLO_RDMA_OFFER_BYTES]);
/** The peer says by @p mark that a message has been written. *work_out: its receive, whose offer is over; NULL: it was given up.
 * ERR_PROTOCOL: nothing was offered. */
kolo_status kolo_rdma_direct_written(struct kolo_rdma_direct *direct, uint16_t mark,
                                     struct kolo_work **work_out) KOLO_NODISCARD;
/** Receive @p work ends without a write. @p may_come: one may still be on its way. */
void kolo_rdma_direct_reclaim(struct kolo_rdma_direct *direct, const struct kolo_work *work,
                              bool may_come);

/** An offer of the peer's. ERR_PROTOCOL: it is none. *channel_out: whose. */
kolo_status kolo_rdma_direct_heard(struct kolo_rdma_direct *direct, const struct kolo_desc *desc,
                                   const uint8_t *payload, size_t bytes,
                                   uint32_t *channel_out) KOLO_NODISCARD;
/** Will @p work, of which nothing was sent, be written? Only where the peer has offered its place for just this message. */
bool kolo_rdma_direct_promise(struct kolo_rdma_direct *direct, const struct kolo_work *work);
/** An entry, begun, for a frame that is sent from where it lies; NULL: it must be copied. */
struct kolo_rdma_writing *kolo_rdma_direct_frame(struct kolo_rdma_direct *direct,
                                                 const struct kolo_frame *frame);
/** Is there an entry for one more frame? */
bool kolo_rdma_direct_has_entry(const struct kolo_rdma_direct *direct);
/** An entry of @p work; NULL: none. */
struct kolo_rdma_writing *kolo_rdma_direct_find(struct kolo_rdma_direct *direct,
                                                const struct kolo_work *work);
/** The device has read it all, or never will. */
void kolo_rdma_direct_end(struct kolo_rdma_direct *direct, struct kolo_rdma_writing *writing);

#endif
