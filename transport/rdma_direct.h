// SPDX-License-Identifier: Apache-2.0
// Long messages that no side copies: who receives one offers the memory of its receive, and who
// sends it writes there. The tables of it, for one link: what we offer, what the peer has offered,
// what of ours is being written. No queue, no link.
//
// Receives and sends of a channel are numbered as they are posted, and the nth message meets the
// nth receive. So an offer names a receive by its number and may be sent as soon as that is posted,
// before anybody knows of the message: where it is there in time the first byte goes straight into
// place, and no message waits for a round trip. A message that begins before the offer comes goes
// through eager buffers, as a short one does; its offer comes to nothing, and both sides know it,
// since one queue pair keeps the order.
//
//   offer    control frame {type, slot, generation, u32 channel, u32 number, u32 key, u64 address},
//            payload {24 bytes description, u64 bytes, u8 further rails by bit, 7 u32 keys of them}
//   message  writes, the last with a mark in its 32-bit number: all that was before by the same
//            queue pair has landed
//
// A mark says which offer (slot, generation) and how many parts beside come by other queue pairs,
// the rails of rdma_rails.h: each ends with a mark of its own, before or after the first one's, for
// there is no order between them. The message has its turn with the first one's mark, and is there
// with the last of all.
//
// The sender compares description and length with its own. If they differ it sends through eager
// buffers, so that the receiver finds the mismatch as it finds any.
//
// A receive that is given up while its offer stands cannot wait for the peer's consent. Its pages
// are cut off instead (kolo_heap_sever): the program gets fresh ones, what still comes goes where
// nobody reads, and the old ones stay registered until it has come or the link is freed. Memory of
// a device has no other pages to take their place: there the link ends. Messages out of it go
// written, or in frames that the device reads where they lie; none of it is ever copied by the
// host. The same is done for a send that is given up while the device reads it. What else is being
// received into the same pages is brought over from the old ones when it is there.
#ifndef KOLO_TRANSPORT_RDMA_DIRECT_H
#define KOLO_TRANSPORT_RDMA_DIRECT_H

#include "transport/link.h"
#include "transport/rdma_pace.h"
#include "transport/rdma_register.h"

enum {
    KOLO_RDMA_SLOTS = 64,
    KOLO_RDMA_GENERATIONS = 64,
    KOLO_RDMA_RAILS_MAX = 8, /* of a link, with its first */
    /* from so many on a message goes by several */
    KOLO_RDMA_STRIPED_BYTES = 2 * KOLO_RDMA_PIECE_BYTES,
    /* description, length, rails by bit, and their keys */
    KOLO_RDMA_OFFER_BYTES = sizeof(struct kolo_desc) + sizeof(uint64_t) + 1 +
                            (KOLO_RDMA_RAILS_MAX - 1) * (int)sizeof(uint32_t)
};

/** Where there is memory of devices, so many entries for what is being written may be promised: the
 * others are for frames. */
enum { KOLO_RDMA_PROMISES = KOLO_RDMA_SLOTS / 2 };

/** What the peer may be writing into. */
struct kolo_rdma_lent {
    struct kolo_work *work; /* NULL: given up, if there is a region; else the slot is free */
    struct kolo_rdma_region *region;
    struct kolo_rdma_region *rails[KOLO_RDMA_RAILS_MAX]; /* the same on others; [0] is not used */
    uint8_t generation;
    bool has_mark;              /* the first rail's, which said how many: */
    uint8_t parts, parts_there; /* by other rails */
};
/** Where the peer wants a message. bytes 0: the slot is free. */
struct kolo_rdma_offer {
    struct kolo_desc desc;
    uint64_t bytes, address;
    uint32_t channel, number, key;
    uint32_t keys[KOLO_RDMA_RAILS_MAX]; /* by other rails; [0] is not used */
    uint8_t generation, rails;          /* those that have a key, by bit */
};
/** What of a message goes by one rail. */
struct kolo_rdma_row {
    enum kolo_rdma_row_state {
        KOLO_RDMA_ROW_NONE, /* nothing, or it is over */
        KOLO_RDMA_ROW_OPEN, /* some pieces; the mark is not posted */
        KOLO_RDMA_ROW_CLOSED,
        KOLO_RDMA_ROW_AGAIN /* the rail is over: all is written and marked again by the first */
    } state;
    uint8_t rail;
    /* the number of the request with its mark, of those that take a receive there */
    uint64_t closes;
};
/** A message of ours that goes into an offer: promised, then begun, until the device has read all
 * of it. Or a frame of one that goes into an eager buffer of the peer's. */
struct kolo_rdma_writing {
    const struct kolo_work *work; /* NULL: given up, if there is a region; else the entry is free */
    struct kolo_rdma_region *region;
    struct kolo_rdma_offer offer;
    struct kolo_frame frame;
    struct kolo_rdma_region *rails[KOLO_RDMA_RAILS_MAX]; /* [0] is not used */
    struct kolo_rdma_row rows[KOLO_RDMA_RAILS_MAX];
    struct kolo_rdma_row *again; /* that is being written again; NULL: none */
    uint8_t parts;               /* rows by other rails than the first */
    uint8_t slot;
    bool is_begun;
    size_t posted; /* bytes */
};

struct kolo_rdma_direct {
    struct kolo_rdma_regions *regions;
    bool is_refused; /* memory could not be registered: no more is tried on this link */
    /* of further rails, that there were; [0] is not used */
    struct kolo_rdma_regions *rails[KOLO_RDMA_RAILS_MAX];
    uint8_t rails_open; /* those that can be used, by bit */
    struct kolo_rdma_lent lent[KOLO_RDMA_SLOTS];
    struct kolo_rdma_offer offers[KOLO_RDMA_SLOTS];
    struct kolo_rdma_writing writings[KOLO_RDMA_SLOTS];
};

void kolo_rdma_direct_init(struct kolo_rdma_direct *direct, struct kolo_rdma_regions *regions);
/** The queue pair is gone, or broken: nobody writes or reads any more. All is let go. */
void kolo_rdma_direct_fini(struct kolo_rdma_direct *direct);

/** Offers the memory of receive @p work: fills in the control frame's description and payload.
 * False: it is no memory of kolo_alloc, cannot be registered, or there is no slot. */
bool kolo_rdma_direct_lend(struct kolo_rdma_direct *direct, struct kolo_work *work, uint8_t type,
                           struct kolo_desc *desc_out, uint8_t payload_out[KOLO_RDMA_OFFER_BYTES]);
/** What a mark tells. */
struct kolo_rdma_told {
    struct kolo_work *work; /* the receive; NULL: it was given up */
    bool has_turn;          /* now */
    bool is_whole;          /* all is there, and the offer is over */
};
/** The peer says by @p mark that a message, or a part of it, has been written. ERR_PROTOCOL:
 * nothing was offered. */
kolo_status kolo_rdma_direct_written(struct kolo_rdma_direct *direct, uint16_t mark,
                                     struct kolo_rdma_told *told_out) KOLO_NODISCARD;
/** The mark of a message, of which @p parts parts go by other rails, or of such a part. */
uint16_t kolo_rdma_direct_mark(const struct kolo_rdma_writing *writing, uint8_t parts);
enum { KOLO_RDMA_PART = 15 };
/** The message that @p row is of. */
struct kolo_rdma_writing *kolo_rdma_direct_of_row(struct kolo_rdma_row *row);
/** Is no row of it out? */
bool kolo_rdma_direct_is_over(const struct kolo_rdma_writing *writing);
/** Receive @p work ends without a write. @p may_come: one may still be on its way. */
void kolo_rdma_direct_reclaim(struct kolo_rdma_direct *direct, const struct kolo_work *work,
                              bool may_come);

/** An offer of the peer's. ERR_PROTOCOL: it is none. *channel_out: whose. */
kolo_status kolo_rdma_direct_heard(struct kolo_rdma_direct *direct, const struct kolo_desc *desc,
                                   const uint8_t *payload, size_t bytes,
                                   uint32_t *channel_out) KOLO_NODISCARD;
/** Will @p work, of which nothing was sent, be written? Only where the peer has offered memory
 * for just this message. */
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
