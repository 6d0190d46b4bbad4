// SPDX-License-Identifier: Apache-2.0
// What the files of the core share (endpoint.c, choice.c, link.c, tx.c, rx.c, channel.c, sink.c).
// Transports include link.h, not this file.
#ifndef KOLO_TRANSPORT_CORE_H
#define KOLO_TRANSPORT_CORE_H

#include "transport/forgotten.h"
#include "transport/link.h"

/** desc.bytes[0] of the core's control frames. The fields that follow it are little-endian. */
enum kolo_control_type {
    KOLO_CONTROL_CREDIT = 1, /* u32 channel at 4, u64 bytes at 8: how much was consumed */
    KOLO_CONTROL_ABORT,      /* i32 status at 4, u32 subject at 8; payload: the text */
    KOLO_CONTROL_GOODBYE,    /* the last frame of a link */
    KOLO_CONTROL_FINALIZED,  /* u32 subject at 4, u32 sequence at 8 */
    KOLO_CONTROL_RECALL,     /* u64 number of a loan at 4: its owner wants it back */
    KOLO_CONTROL_RETURNED    /* u64 number of a loan at 4: it is not mapped any more */
};

/** A control frame that waits to be sent. */
struct kolo_control {
    struct kolo_control *next;
    struct kolo_header header;
    uint8_t payload[];
};

/** A frame that arrived before its receive was posted. */
struct kolo_stash {
    struct kolo_stash *next;
    struct kolo_desc desc;
    size_t bytes;
    bool is_complete;
    bool is_remote;
    struct kolo_work *turn_of; /* not a frame: holds the place of a message that the peer writes
                                * directly */
    const void *data;          /* if is_remote: the peer's memory */
    uint64_t cookie;
    uint8_t payload[];
};

/** One channel of a link, in both directions. Out: send_first..send_last are the unfinished sends,
 *  in order. send_next is the first one that has not been handed over completely. The channel is in
 *  the link's ready list if and only if the link is up and there is credit for send_next's next
 *  frame. In: except for the frame that is just arriving, frames are in the stash only while no
 *  receive waits, or behind a message that has its turn. */
struct kolo_channel {
    struct kolo_link *link;
    uint32_t id;
    bool is_ready, is_owing;
    uint32_t sends_posted, receives_posted; /* the nth send meets the peer's nth receive */
    kolo_status tx_fault, rx_fault;         /* not OK: the channel is unusable, every new work gets
                                             * this */
    bool is_broken_off; /* the peer took a message back: what follows on the channel is dropped */
    bool is_cut; /* its first receive failed after its turn: the message will never be complete */
    struct kolo_work *send_first, *send_last, *send_next;
    struct kolo_work *recv_first, *recv_last;
    struct kolo_stash *stash_first, *stash_last;
    struct kolo_channel *ready_next, *owing_next;
    uint64_t credit;  /* how much may still be sent */
    uint64_t charged; /* what the peer sent and was not told of as consumed */
    uint64_t owed;    /* the part of `charged` that was consumed */
    uint64_t ahead;   /* credit to return before the bytes arrive, since there is room for them */
    uint64_t prepaid; /* bytes still to come whose credit was returned already, or is in `ahead` */
};

struct kolo_parked {
    struct kolo_port *port;
    struct kolo_greeting greeting;
    int fd;
};

struct kolo_endpoint {
    struct kolo_endpoint_config config;
    struct kolo_poller *poller;
    struct kolo_port *ports[KOLO_TRANSPORTS_MAX]; /* indexed as kolo_transports; NULL: not open */
    struct kolo_address addresses[KOLO_TRANSPORTS_MAX];
    struct kolo_why left_out[KOLO_TRANSPORTS_MAX]; /* why a port is not open; "": not asked for */
    const struct kolo_peer *peers;
    struct kolo_map links;
    struct kolo_link *first_link;
    struct kolo_forgotten forgotten; /* channels; what arrives late on one of them is dropped */
    struct kolo_board *boards;       /* the open ones, */
    struct kolo_map board_ids;       /* and these by their ids */
    struct kolo_parked *parked;      /* dials that came before the table of peers was set */
    size_t parked_count, parked_capacity;
    _Atomic int64_t next_timer;
    uint32_t tick;
    bool is_armed, is_closing;
    struct kolo_why why; /* the text that kolo_endpoint_choice returned last */
};

/** Appends a work to what its owner wants to know of (kolo_work_tell). */
void kolo_work_is_over(struct kolo_work *work);

/** Gives a work its result. Its memory may be in other use as soon as the endpoint is left. */
static inline void kolo_work_end(struct kolo_work *work, kolo_status status)
{
    work->status = status;
    if (work->told)
        kolo_work_is_over(work);
}

static inline size_t kolo_min_bytes(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* choice.c */
/** Index of the transport for @p peer, or -1. *why_out says why, or why not. */
int kolo_endpoint_choose(const struct kolo_endpoint *endpoint, int peer, struct kolo_why *why_out);
kolo_status kolo_endpoint_open_ports(struct kolo_endpoint *endpoint) KOLO_NODISCARD;

/* sink.c */
void kolo_sink_to_work(struct kolo_sink *sink, struct kolo_work *work, size_t bytes);
void kolo_sink_to_stash(struct kolo_sink *sink, struct kolo_stash *stash);
void kolo_sink_to_memory(struct kolo_sink *sink, uint8_t *memory, size_t bytes);
/** Drops the rest of the frame. */
void kolo_sink_drop(struct kolo_sink *sink);

/* channel.c */
/** Finds or makes the channel. NULL with the detail set: no memory, or too many channels. */
struct kolo_channel *kolo_channel_of(struct kolo_link *link, uint32_t id);
void kolo_channel_destroy(struct kolo_channel *channel);
/** Removes channel @p id, which the endpoint has marked as forgotten, from the link, unless it has
 *  works. */
void kolo_channel_forget(struct kolo_link *link, uint32_t id);
/** Fails every work of the channel. */
void kolo_channel_fail(struct kolo_channel *channel, kolo_status why);
void kolo_channel_fail_sends(struct kolo_channel *channel, kolo_status why);
void kolo_channel_fail_receives(struct kolo_channel *channel, kolo_status why);
void kolo_channel_add_send(struct kolo_channel *channel, struct kolo_work *work);
void kolo_channel_remove_send(struct kolo_channel *channel, struct kolo_work *work);
void kolo_channel_add_receive(struct kolo_channel *channel, struct kolo_work *work);
void kolo_channel_remove_receive(struct kolo_channel *channel, struct kolo_work *work);
/** Takes the first early frame; NULL: there is none. */
struct kolo_stash *kolo_channel_take_stash(struct kolo_channel *channel);
/** Drops all early frames, and what is just arriving. */
void kolo_channel_drop_stash(struct kolo_channel *channel);
/** Drops the early frames that lie in the peer's memory, and the one that has not arrived
 *  completely. */
void kolo_channel_drop_unfinished(struct kolo_channel *channel);

/* tx.c */
/** Queues a control frame of any type with a copy of @p payload. ERR_NO_MEMORY. */
kolo_status kolo_link_queue_control(struct kolo_link *link, const struct kolo_desc *desc,
                                    const void *payload, size_t bytes) KOLO_NODISCARD;
/** Puts the channel in the ready list if it belongs there. */
void kolo_channel_wake(struct kolo_channel *channel);
void kolo_channel_unready(struct kolo_channel *channel);
/** The peer returned credit. */
kolo_status kolo_channel_credit(struct kolo_channel *channel, uint64_t bytes) KOLO_NODISCARD;

/* rx.c */
/** @p cost of what was charged has been consumed. */
void kolo_channel_consumed(struct kolo_channel *channel, size_t cost);
/** Matches early frames with receives as long as there are both. */
void kolo_channel_deliver(struct kolo_channel *channel);
/** Tells the event `early` for the first frame that waits, and for the first one of another
 *  message. At least one must wait. */
void kolo_channel_say_stashed(const struct kolo_channel *channel);

/* link.c */
/** Fails all works; the link stays as it is. */
void kolo_link_fail_works(struct kolo_link *link, kolo_status why);
/** The peer said goodbye. */
void kolo_link_left(struct kolo_link *link);
/** As kolo_link_left(), if a goodbye waits for messages that have their turn and none of those is
 *  left. */
void kolo_link_look_left(struct kolo_link *link);
static inline const struct kolo_settings *kolo_link_settings(const struct kolo_link *link)
{
    return link->endpoint->config.settings;
}

#endif
