// SPDX-License-Identifier: Apache-2.0
// Between the core (endpoint.c, link.c: queues, channels, credits, matching, early arrivals) and
// the transports (inproc, shm, tcp: bytes and frames). Private to transport/.
//
// Out: the core cuts messages into frames and offers the next one by kolo_link_next_frame(); the
// transport moves it and says kolo_link_frame_done() when the payload is no longer needed. In: a
// transport that carries bytes calls kolo_link_rx_begin() with the header, feeds the link's sink,
// then kolo_link_rx_end(). One that only names bytes the peer holds (inproc, direct shared memory)
// calls kolo_link_rx_remote(); the core asks ops->claim() before it reads them, and says
// ops->release() when they have been consumed.
//
// Credits: what arrived on a channel and was not consumed yet costs at most the receiver's
// settings.credit_bytes (struct kolo_peer tells the sender); a frame costs KOLO_FRAME_COST_BYTES
// plus its payload, one by rx_remote no payload. The receiver returns credit by a control frame
// when half of it is used up. What is left of a long message whose receive is posted has its place:
// its credit is returned when its first frame comes, so that neither the credit nor the round trip
// bounds its rate, and the sender may use longer frames. So an early message waits in a bounded
// stash and never blocks the other channels, and a peer that overruns it breaks the protocol.
//
// Control frames travel on KOLO_CHANNEL_CONTROL, desc.bytes[0] says which: below
// KOLO_CONTROL_TRANSPORT the core's (credit, abort, finalized, loans, goodbye), from there on the
// transport's own.
//
// Who dials: both may at once; the dial of the lower rank stands. So a dial that proved itself is
// not up yet: the acceptor's transport sends something of its own at once (a byte, its memfd),
// which the dialler answers, and calls kolo_link_set_up() then; the acceptor does when it has the
// answer. For the dialler the end before that means that the other side's dial stands: the link
// stays CONNECTING and waits for adopt(), until its deadline.
#ifndef KOLO_TRANSPORT_LINK_H
#define KOLO_TRANSPORT_LINK_H

#include <stdatomic.h>

#include "transport/map.h"
#include "transport/transport.h"

struct kolo_port;
struct kolo_board_ops;

enum {
    KOLO_FRAME_COST_BYTES = 64,    /* of credit, beside the payload */
    KOLO_CONTROL_BYTES_MAX = 1024, /* payload of a control frame */
    KOLO_CONTROL_TRANSPORT = 128,  /* the first type of control frame that is the transport's own */
    KOLO_CHANNELS_MAX = 65536      /* per link */
};

struct kolo_header {
    uint32_t channel;
    uint32_t bytes;
    struct kolo_desc desc;
};
void kolo_header_pack(const struct kolo_header *header, uint8_t out[KOLO_HEADER_BYTES]);
void kolo_header_unpack(const uint8_t in[KOLO_HEADER_BYTES], struct kolo_header *header_out);

/** A frame on its way out. payload stays valid until kolo_link_frame_done. */
struct kolo_frame {
    struct kolo_header header; /* header.bytes: of the payload; 0 if is_remote */
    const uint8_t *payload;
    size_t bytes;                 /* of the payload; if is_remote of the whole message */
    bool is_remote;               /* ops->is_remote() was for it: to be delivered by rx_remote */
    struct kolo_work *work;       /* NULL: a control frame */
    struct kolo_control *control; /* the core's */
};

/** Where arriving payload goes; belongs to the link, one frame at a time. */
struct kolo_sink {
    uint8_t *dst; /* NULL: the bytes are dropped */
    const uint8_t *local;
    size_t left;
    kolo_reduce_fn reduce;           /* NULL: copy, or `own` */
    const struct kolo_operator *own; /* NULL: copy, or `reduce` */
    kolo_dtype dtype;                /* of own */
    size_t element_bytes;
    bool incoming_first;
    struct kolo_work *work;   /* NULL: stash or discard */
    struct kolo_stash *stash; /* NULL: work or discard */
};

enum kolo_link_state { KOLO_LINK_CONNECTING, KOLO_LINK_UP, KOLO_LINK_DOWN };

/** The common part of a link; each transport's link struct begins with it. Below the line: the
 * core's. */
struct kolo_link {
    struct kolo_endpoint *endpoint;
    struct kolo_port *port;
    const struct kolo_transport *transport;
    int peer;
    enum kolo_link_state state;
    bool said_goodbye, heard_goodbye;
    /** Set by a transport whose pull() finds nothing as long as *signal is still signal_seen, and
     * whose push() has nothing to do without frames of the core: a look is then one load. */
    const _Atomic uint64_t *signal; /* NULL: pull() and push() are asked each time */
    uint64_t signal_seen;
    struct kolo_sink sink;
    uint64_t bytes_sent, bytes_received;
    /* ---- */
    kolo_status why; /* DOWN: what ended it */
    char *why_text;  /* its detail; NULL: none, or no memory */
    struct kolo_link *next;
    struct kolo_map channels;
    struct kolo_channel *ready_first, *ready_last;     /* have a frame to send and credit for it */
    struct kolo_channel *owing_first, *owing_last;     /* shall return credit */
    struct kolo_control *control_first, *control_last; /* control frames */
    struct kolo_channel *rx_channel;
    struct kolo_header rx_header;
    uint64_t rx_prepaid; /* so much of its payload costs nothing */
    uint8_t *rx_control;
    bool owes_goodbye, is_pushing;
    bool has_forgotten;    /* channels: credit for one that is not there is no offence */
    uint64_t credit_bytes; /* that the peer grants a channel */
    uint64_t sends;        /* works posted and not finished */
    uint64_t receives;     /* the same */
    uint64_t turns;        /* of them: have their turn */
    bool owes_left;        /* the peer has said goodbye; it counts when all is there */
};

/** A transport. Compiled or not; the build generates kolo_transports[] of those that are, best
 * first. */
struct kolo_transport {
    const char *name;
    uint8_t purpose; /* enum kolo_purpose of its greeting; 0: it needs no connection (inproc) */
    /** Usable on this machine? else why not. */
    kolo_status (*probe)(const struct kolo_settings *settings, struct kolo_why *why_out);
    /** Opens what one endpoint needs (listener, doorbell); *address_out is published to the peers.
     */
    kolo_status (*open)(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                        struct kolo_address *address_out);
    void (*close)(struct kolo_port *port);
    /** Can it join us and @p peer? *why_out: why ("same host"), or why not ("host differs"). */
    bool (*reaches)(const struct kolo_port *port, const struct kolo_peer *peer,
                    struct kolo_why *why_out);
    /** A new link in state CONNECTING; with @p fd >= 0 the peer dialled us and proved itself (the
     * fd is the link's, also if this fails), with -1 we dial. Ends in kolo_link_set_up() or
     * kolo_link_set_down(), from here or later. */
    kolo_status (*connect)(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                           struct kolo_link **link_out);
    /** The peer dialled, and proved itself on @p fd, while this link is CONNECTING: takes it over
     * (where ours gives way, it replaces what there is), or closes it. NULL where there is no
     * dialling. */
    void (*adopt)(struct kolo_link *link, int fd);
    /** Mbit/s of the card that @p address names first, 0: it is none, or its speed is not known;
     * and how many as good as that it names. All who have the address come to the same answer.
     * NULL: no address says so. */
    uint32_t (*line_mbit)(const struct kolo_address *address, size_t *cards_out);
    /** Looks for peers that want a link where no file descriptor tells. True: found. May be NULL.
     */
    bool (*poll)(struct kolo_port *port);
    /** Moves frames out, as many as fit. Only called by kolo_link_push(), never nested. True:
     * moved. */
    bool (*push)(struct kolo_link *link);
    /** Moves one frame of data out now, behind what was moved before; false: it cannot, and push()
     * will. NULL: never. */
    bool (*put)(struct kolo_link *link, const uint8_t header[KOLO_HEADER_BYTES],
                const void *payload, size_t bytes);
    /** Moves the frame that is next to come to @p dst if it is there and has this header.
     * KOLO_AGAIN: none is there. KOLO_ERR_NOT_FOUND: there is something else for pull(). NULL where
     * put is. */
    kolo_status (*take)(struct kolo_link *link, const uint8_t header[KOLO_HEADER_BYTES], void *dst,
                        size_t bytes);
    /** One look for arrived and for consumed frames, without the poller. True: moved. NULL: the
     * poller's callbacks do it. */
    bool (*pull)(struct kolo_link *link);
    /** Messages in memory of the heap from so many bytes on are spared a copy, by who sends them or
     * who receives them. NULL: none are, or those in other memory are too. */
    size_t (*direct_bytes)(const struct kolo_settings *settings);
    /** Shall @p work, whose first frame is due, go by rx_remote as one frame of any length? NULL:
     * never. */
    bool (*is_remote)(struct kolo_link *link, const struct kolo_work *work);
    /** The bytes named by rx_remote(cookie) are about to be read. False: the sender took them back,
     * forget them (no release follows). NULL: they are always there. */
    bool (*claim)(struct kolo_link *link, uint64_t cookie);
    /** The bytes named by rx_remote(cookie) are needed no more: consumed after a claim, or dropped
     * without one. False: the sender took them back meanwhile, and what was read is worthless. NULL
     * where rx_remote is not used. */
    bool (*release)(struct kolo_link *link, uint64_t cookie);
    /** Span @p id of the endpoint's heap is about to be freed: peers that mapped it must let it go.
     * NULL: nothing to do. */
    void (*span_gone)(struct kolo_link *link, uint64_t id);
    /** The same, once for the port, whatever its links: registrations. NULL: nothing to do. */
    void (*span_gone_port)(struct kolo_port *port, uint64_t id);
    /** As kolo_endpoint_know, kolo_link_reaches_devices (of a link that is UP) and
     * kolo_endpoint_device_gone. NULL, all three: the transport reads by the host alone. */
    bool (*know)(struct kolo_port *port, const struct kolo_pointer *pointer);
    bool (*reaches_devices)(const struct kolo_link *link);
    void (*device_gone)(struct kolo_port *port, const void *memory);
    /** Receive @p work was posted and waits; nothing of its message has come. A transport that
     * lends its memory to the peer sets is_lent, and says kolo_link_rx_turn() and
     * kolo_link_rx_whole() when the message is there. NULL: nothing to do. */
    void (*posted)(struct kolo_link *link, struct kolo_work *work);
    /** Receive @p work, which was lent, ends otherwise: by frames, or it was given up. On return
     * its memory is written by nobody any more, or the link ends. The link may be DOWN. NULL where
     * nothing is lent. */
    void (*take_back)(struct kolo_link *link, struct kolo_work *work);
    /** Withdraws @p work's frames from the wire, and what is_remote() prepared for it: on return
     * its memory is not read any more, by nobody, and no frame_done() comes for them. Of a frame
     * that is half moved the transport makes a copy, or ends the link. The link may be DOWN. NULL:
     * the transport keeps no frame beyond push(). */
    void (*withdraw)(struct kolo_link *link, struct kolo_work *work);
    /** A control frame of the transport's own types. Any status but OK ends the link. NULL: such
     * frames are a protocol error. */
    kolo_status (*control)(struct kolo_link *link, const struct kolo_header *header,
                           const uint8_t *payload);
    /** "tcp 10.0.0.5:4711" */
    void (*describe)(const struct kolo_link *link, char *text, size_t capacity);
    /** Why a link that is UP goes as it goes: its addresses, and what spoke for them. NULL: there
     * is nothing to say beyond reaches(). */
    void (*explain)(const struct kolo_link *link, char *text, size_t capacity);
    /** The name of the transport that a link that is UP goes by, where it may be another's: one of
     * rdma that went on as the TCP link it began as is "tcp". NULL: always this one. */
    const char *(*goes_by)(const struct kolo_link *link);
    /** True when everything handed over has left this process's memory (bytes in the kernel count
     * as left). */
    bool (*is_drained)(const struct kolo_link *link);
    /** The link went DOWN: close what the peer may notice (descriptors, flags), touch no work. Also
     * called from within the transport's own calls of set_down. NULL: nothing to do. */
    void (*down)(struct kolo_link *link);
    /** Frees the link, after down() or half built; calls kolo_link_fini(); never blocks. */
    void (*free_link)(struct kolo_link *link);
    /** Memory that its ranks have in common (board_private.h). NULL: none. */
    const struct kolo_board_ops *boards;
};
/** NULL-terminated, best first; generated by the build. */
extern const struct kolo_transport *const kolo_transports[];

/* ---- what the core offers to transports ---- */

/** The first fields of each transport's port struct; open() need not fill in the first two.
 * doorbell: a word that peers read after they published something (seq_cst on both sides); 1: we
 * are about to sleep, write to kolo_poller_event_fd(). The core sets it in arm and clears it in
 * disarm; a peer that rings may clear it. NULL: descriptors wake us. */
struct kolo_port {
    struct kolo_endpoint *endpoint;
    const struct kolo_transport *transport;
    _Atomic uint32_t *doorbell;
};
const struct kolo_endpoint_config *kolo_endpoint_config_of(const struct kolo_endpoint *endpoint);
const struct kolo_peer *kolo_endpoint_peer(const struct kolo_endpoint *endpoint, int peer);
/** Somebody sleeps, or is about to: what shall wake it must be in the poller. */
bool kolo_endpoint_is_armed(const struct kolo_endpoint *endpoint);
/** A peer proved itself on @p fd for this port's transport: the core settles who dials when both
 * did, then calls connect(..., fd, ...) or adopt(), or closes the fd. */
void kolo_endpoint_incoming(struct kolo_port *port, const struct kolo_greeting *theirs, int fd);
/** A peer made a link that needs no dialling (inproc): makes ours. */
void kolo_endpoint_attach(struct kolo_port *port, int peer);

/** Fills in a new, zeroed link's common part. ERR_NO_MEMORY: call fini all the same. */
kolo_status kolo_link_init(struct kolo_link *link, struct kolo_port *port, int peer) KOLO_NODISCARD;
/** Does a dial of ours give way to one of the peer? The lower rank's stands. */
bool kolo_link_gives_way(const struct kolo_link *link);
/** Frees the common part's memory. For free_link. */
void kolo_link_fini(struct kolo_link *link);
void kolo_link_set_up(struct kolo_link *link);
/** Ends the link: all its works get @p why, the event `down` (or nothing after a goodbye) is told.
 * Idempotent. Takes the text from this thread's detail. The transport's down() comes at once, its
 * free_link() later, both from the core. */
void kolo_link_set_down(struct kolo_link *link, kolo_status why);

/** Runs ops->push() unless it is running, or the link is not UP. What the core itself uses; for a
 * transport that learns it can move frames again. True: moved. */
bool kolo_link_push(struct kolo_link *link);
/** Would next_frame() give something? (A frame that waits for credit does not count.) */
bool kolo_link_has_frames(const struct kolo_link *link);
/** The next frame to move, at most @p max_bytes of payload (and segment_bytes; a remote one is
 * never cut); control frames first (their payload is never cut either: at least
 * KOLO_CONTROL_BYTES_MAX must fit). False: nothing, or max_bytes is too little for it. The caller
 * owns the frame until frame_done. */
bool kolo_link_next_frame(struct kolo_link *link, size_t max_bytes, struct kolo_frame *frame_out);
/** The same while the transport is still moving a message of channel @p id: nothing of that
 * channel, and no remote frame. */
bool kolo_link_next_frame_beside(struct kolo_link *link, uint32_t id, size_t max_bytes,
                                 struct kolo_frame *frame_out);
/** Ignored once the link is DOWN. */
void kolo_link_frame_done(struct kolo_link *link, const struct kolo_frame *frame);
/** Queues a control frame of the transport's own type desc->bytes[0] with a copy of @p payload. */
kolo_status kolo_link_send_control(struct kolo_link *link, const struct kolo_desc *desc,
                                   const void *payload, size_t bytes) KOLO_NODISCARD;

/** Would this frame be copied aside now, because nobody has posted a receive for it? */
bool kolo_link_is_early(const struct kolo_link *link, const struct kolo_header *header);
/** Begins a frame: sets link->sink. Any status but OK: the peer broke the protocol; set the link
 * down with it. */
kolo_status kolo_link_rx_begin(struct kolo_link *link,
                               const struct kolo_header *header) KOLO_NODISCARD;
/** Memory into which the next bytes may be stored directly (then kolo_sink_stored), or NULL if they
 * must go through kolo_sink_put because they are combined or dropped. */
uint8_t *kolo_sink_room(struct kolo_sink *sink, size_t *room_out);
void kolo_sink_stored(struct kolo_sink *sink, size_t bytes);
/** Consumes up to @p bytes at @p data: whole elements only when reducing. Returns how many were
 * consumed. */
size_t kolo_sink_put(struct kolo_sink *sink, const void *data, size_t bytes);
/** After all header->bytes went into the sink. Status as of rx_begin; the link may have gone DOWN
 * meanwhile. */
kolo_status kolo_link_rx_end(struct kolo_link *link) KOLO_NODISCARD;
/** The peer says in its turn that it writes the message of @p work, which was lent: what follows on
 * the channel is behind it, and waits until all of it is there. */
kolo_status kolo_link_rx_turn(struct kolo_link *link, struct kolo_work *work) KOLO_NODISCARD;
/** All of the message of @p work is there, which had its turn (is_lent is false again). */
void kolo_link_rx_whole(struct kolo_link *link, struct kolo_work *work);
/** is_remote() may have another answer now for what is due on channel @p id. */
void kolo_link_reconsider(struct kolo_link *link, uint32_t id);
/** The peer holds the whole message: @p bytes bytes at @p data, readable until release(cookie).
 * header->bytes is not looked at. */
kolo_status kolo_link_rx_remote(struct kolo_link *link, const struct kolo_header *header,
                                const void *data, size_t bytes, uint64_t cookie) KOLO_NODISCARD;

#endif
