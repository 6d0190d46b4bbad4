// SPDX-License-Identifier: Apache-2.0
// Long messages that neither side copies: the receiver offers the memory of its receive, and the
// sender's device writes there. This file has the tables of one link for that: what we have
// offered, what the peer has offered, which of our messages are being written. It knows no queue
// and no link.
//
// Receives and sends of a channel are numbered as they are posted, and the nth message meets the
// nth receive. So an offer names a receive by its number, and may be sent as soon as the receive is
// posted, before anybody knows of the message. If it arrives in time, the message goes directly
// into place, and no message waits for a round trip. A message that begins before the offer arrives
// goes through eager buffers, like a short one; its offer is then void, and both sides know it,
// since one queue pair keeps the order.
//
//   offer    control frame {type, slot, generation, u32 channel, u32 number, u32 key, u64 address},
//            payload {24 bytes description, u64 bytes, u8 further rails by bit, 7 u32 keys of them}
//   message  writes, the last with a mark in its 32-bit number: all that was before by the same
//            queue pair has landed
//   sum      only with checksums: control frame {type, slot, generation, u8 0, u64 checksum of the
//            message} by the first queue pair before the message's mark there
//
// A message may go in parts by several queue pairs, the rails of rdma_rails.h, and each part ends
// with a mark. Every mark says which offer it belongs to (slot, generation); that of the first rail
// also says how many parts come by other rails. Their marks may arrive before or after it, since
// there is no order between queue pairs. With the first rail's mark the message has its place in
// the channel; with the last of all marks it is complete.
//
// The sender compares description and length with its own. If they differ, it sends through eager
// buffers, so that the receiver finds the mismatch in the usual way.
//
// A receive that is given up while its offer stands cannot wait until the peer agrees. Instead its
// pages are separated from the program (kolo_heap_sever): the program gets fresh ones, and what
// still arrives goes to the old pages, which nobody reads and which stay registered until it has
// arrived or the link is freed. The same is done for a send that is given up while the device reads
// it. If other data is being received into the same pages, it is copied out of the old ones when it
// has arrived. Device memory cannot be given other pages; there the link ends instead.
//
// Messages out of device memory are written, or sent in frames that the device reads in place; the
// host never copies them.
#ifndef KOLO_TRANSPORT_RDMA_DIRECT_H
#define KOLO_TRANSPORT_RDMA_DIRECT_H

#include "transport/link.h"
#include "transport/rdma_pace.h"
#include "transport/rdma_register.h"

enum {
    KOLO_RDMA_SLOTS = 64,
    KOLO_RDMA_GENERATIONS = 64,
    KOLO_RDMA_RAILS_MAX = 8, /* of a link, including its first */
    /* messages of at least this size use several rails */
    KOLO_RDMA_STRIPED_BYTES = 2 * KOLO_RDMA_PIECE_BYTES,
    /* description, length, rails by bit, and their keys */
    KOLO_RDMA_OFFER_BYTES = sizeof(struct kolo_desc) + sizeof(uint64_t) + 1 +
                            (KOLO_RDMA_RAILS_MAX - 1) * (int)sizeof(uint32_t)
};

/** How many entries may be promised to messages that will be written, if there is device memory;
 *  the others are for frames. */
enum { KOLO_RDMA_PROMISES = KOLO_RDMA_SLOTS / 2 };

/** Memory that the peer may be writing to. */
struct kolo_rdma_lent {
    struct kolo_work *work; /* NULL: given up if there is a region, otherwise the slot is free */
    struct kolo_rdma_region *region;
    struct kolo_rdma_region *rails[KOLO_RDMA_RAILS_MAX]; /* the same on other rails; [0] is not
                                                          * used */
    uint8_t generation;
    bool has_sum; /* the peer has told the message's checksum: */
    uint64_t sum;
    bool has_mark;              /* of the first rail, which said how many parts there are: */
    uint8_t parts, parts_there; /* those that come by other rails */
};
/** Where the peer wants a message. bytes 0: the slot is free. */
struct kolo_rdma_offer {
    struct kolo_desc desc;
    uint64_t bytes, address;
    uint32_t channel, number, key;
    uint32_t keys[KOLO_RDMA_RAILS_MAX]; /* for the other rails; [0] is not used */
    uint8_t generation, rails;          /* rails: those that have a key, by bit */
};
/** The part of a message that goes by one rail. */
struct kolo_rdma_row {
    enum kolo_rdma_row_state {
        KOLO_RDMA_ROW_NONE, /* nothing, or finished */
        KOLO_RDMA_ROW_OPEN, /* some pieces were posted, the mark was not */
        KOLO_RDMA_ROW_CLOSED,
        KOLO_RDMA_ROW_AGAIN /* the rail is over: the first rail writes and marks everything again */
    } state;
    uint8_t rail;
    /* the number of the request with its mark, counting those that use a receive of the peer's */
    uint64_t closes;
};
/** One of our messages that goes into an offer: promised, then begun, until the device has read all
 *  of it. Or a frame that goes into an eager buffer of the peer's and is read in place. */
struct kolo_rdma_writing {
    const struct kolo_work *work; /* NULL: given up if there is a region, otherwise free */
    struct kolo_rdma_region *region;
    struct kolo_rdma_offer offer;
    struct kolo_frame frame;
    struct kolo_rdma_region *rails[KOLO_RDMA_RAILS_MAX]; /* [0] is not used */
    struct kolo_rdma_row rows[KOLO_RDMA_RAILS_MAX];
    struct kolo_rdma_row *again; /* the row that is being written again; NULL: none */
    uint8_t parts;               /* rows by rails other than the first */
    uint8_t slot;
    bool is_begun;
    bool has_told_sum; /* or there are no checksums */
    size_t posted;     /* in bytes */
    size_t summed;     /* in bytes; with checksums */
};

struct kolo_rdma_direct {
    struct kolo_rdma_regions *regions;
    bool is_refused; /* memory could not be registered: it is not tried again on this link */
    /* for all further rails that ever existed; [0] is not used */
    struct kolo_rdma_regions *rails[KOLO_RDMA_RAILS_MAX];
    uint8_t rails_open; /* those that can be used, by bit */
    struct kolo_rdma_lent lent[KOLO_RDMA_SLOTS];
    struct kolo_rdma_offer offers[KOLO_RDMA_SLOTS];
    struct kolo_rdma_writing writings[KOLO_RDMA_SLOTS];
};

void kolo_rdma_direct_init(struct kolo_rdma_direct *direct, struct kolo_rdma_regions *regions);
/** The queue pair is gone or broken, so nobody writes or reads any more: releases everything. */
void kolo_rdma_direct_fini(struct kolo_rdma_direct *direct);

/** Offers the memory of receive @p work: fills in the control frame's description and payload.
 *  False: it is not kolo_alloc memory, cannot be registered, or there is no slot. */
bool kolo_rdma_direct_lend(struct kolo_rdma_direct *direct, struct kolo_work *work, uint8_t type,
                           struct kolo_desc *desc_out, uint8_t payload_out[KOLO_RDMA_OFFER_BYTES]);
/** The meaning of a mark. */
struct kolo_rdma_told {
    struct kolo_work *work; /* the receive; NULL: it was given up */
    bool has_turn;          /* it has its turn with this mark */
    bool is_whole;          /* it is complete, and the offer is over */
    bool has_sum;           /* the peer has told its checksum: */
    uint64_t sum;
};
/** The peer says by @p mark that a message, or a part of one, was written. ERR_PROTOCOL: nothing
 *  was offered. */
kolo_status kolo_rdma_direct_written(struct kolo_rdma_direct *direct, uint16_t mark,
                                     struct kolo_rdma_told *told_out) KOLO_NODISCARD;
/** The mark of a message of which @p parts parts go by other rails, or of such a part. */
uint16_t kolo_rdma_direct_mark(const struct kolo_rdma_writing *writing, uint8_t parts);
enum { KOLO_RDMA_PART = 15 };
/** Fills in the control frame that tells the checksum of a message. */
void kolo_rdma_direct_tell_sum(const struct kolo_rdma_writing *writing, uint8_t type, uint64_t sum,
                               struct kolo_desc *desc_out);
/** Handles such a frame of the peer's. ERR_PROTOCOL: nothing is offered there, or it was told
 *  before. */
kolo_status kolo_rdma_direct_heard_sum(struct kolo_rdma_direct *direct,
                                       const struct kolo_desc *desc) KOLO_NODISCARD;
/** The message to which @p row belongs. */
struct kolo_rdma_writing *kolo_rdma_direct_of_row(struct kolo_rdma_row *row);
/** Whether all of its rows are finished. */
bool kolo_rdma_direct_is_over(const struct kolo_rdma_writing *writing);
/** Receive @p work ends without a write. @p may_come: one may still be under way. */
void kolo_rdma_direct_reclaim(struct kolo_rdma_direct *direct, const struct kolo_work *work,
                              bool may_come);

/** Handles an offer of the peer's; *channel_out: which channel it is for. ERR_PROTOCOL: it is
 *  invalid. */
kolo_status kolo_rdma_direct_heard(struct kolo_rdma_direct *direct, const struct kolo_desc *desc,
                                   const uint8_t *payload, size_t bytes,
                                   uint32_t *channel_out) KOLO_NODISCARD;
/** Whether @p work, of which nothing was sent yet, will be written: only if the peer has offered
 *  memory for this very message. */
bool kolo_rdma_direct_promise(struct kolo_rdma_direct *direct, const struct kolo_work *work);
/** An entry, already begun, for a frame that is sent in place; NULL: it must be copied. */
struct kolo_rdma_writing *kolo_rdma_direct_frame(struct kolo_rdma_direct *direct,
                                                 const struct kolo_frame *frame);
/** Whether there is an entry for one more frame. */
bool kolo_rdma_direct_has_entry(const struct kolo_rdma_direct *direct);
/** An entry of @p work; NULL: there is none. */
struct kolo_rdma_writing *kolo_rdma_direct_find(struct kolo_rdma_direct *direct,
                                                const struct kolo_work *work);
/** The device has read all of it, or never will. */
void kolo_rdma_direct_end(struct kolo_rdma_direct *direct, struct kolo_rdma_writing *writing);

#endif
