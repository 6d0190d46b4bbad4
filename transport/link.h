// SPDX-License-Identifier: Apache-2.0
// The interface between the core (endpoint.c, link.c, tx.c, rx.c, channel.c: queues, channels,
// credit, matching, early arrivals) and the transports (inproc, shm, tcp, rdma: bytes and frames).
// Private to transport/.
//
// Out: the core cuts messages into frames, and the transport fetches the next one by
// kolo_link_next_frame(), moves it, and calls kolo_link_frame_done() when the payload is no longer
// needed. In: a transport that carries bytes calls kolo_link_rx_begin() with the header, feeds the
// link's sink, then calls kolo_link_rx_end(). A transport that only names bytes that the peer holds
// (inproc, direct shared memory) calls kolo_link_rx_remote(); the core then calls
// transport->claim() before it reads the bytes, and transport->release() when they have been
// consumed.
//
// Credit bounds what waits on a channel: what has arrived and is not consumed yet may cost at most
// the receiver's settings.credit_bytes, which struct kolo_peer tells the sender. A frame costs
// KOLO_FRAME_COST_BYTES plus its payload; one delivered by kolo_link_rx_remote() costs no payload.
// When half of its credit is used up, the receiver returns credit by a control frame. So an early
// message waits in a bounded stash and never blocks the other channels; a peer that overruns its
// credit breaks the protocol.
//
// A long message whose receive is posted needs no stash. The receiver returns the credit for all of
// it when its first frame arrives; from then on neither credit nor the round trip limits the rate,
// and the sender may use longer frames.
//
// Control frames travel on KOLO_CHANNEL_CONTROL, and desc.bytes[0] is their type. Types below
// KOLO_CONTROL_TRANSPORT are the core's (credit, abort, finalized, loans, goodbye), the others the
// transport's own.
//
// Both sides may dial at once. Then the dial of the lower rank becomes the link, and the other one
// is dropped. A dial that has proved itself may therefore still be dropped, and is not up yet: the
// acceptor's transport first sends something of its own (a byte, its memfd); the dialler answers
// and calls kolo_link_set_up(); the acceptor does so when it has the answer. If the dialler's
// connection ends before that, the link stays CONNECTING until its deadline: the acceptor has kept
// the other dial, which comes to adopt(), or the connection was cut, and one of the two dials again
// (tcp.c has the table; between processes of one host nothing is cut, so shm waits for adopt()).
#ifndef KOLO_TRANSPORT_LINK_H
#define KOLO_TRANSPORT_LINK_H

#include <stdatomic.h>

#include "transport/conn.h"
#include "transport/map.h"
#include "transport/transport.h"

struct kolo_port;
struct kolo_board_ops;

enum {
    KOLO_FRAME_COST_BYTES = 64,    /* what a frame costs of the credit beside its payload */
    KOLO_CONTROL_BYTES_MAX = 1024, /* the longest payload of a control frame */
    KOLO_CONTROL_TRANSPORT = 128,  /* the first type of control frame that is the transport's own */
    KOLO_CHANNELS_MAX = 65536,     /* per link */
    /* with checksums, a header is followed by those of the payload and of the header */
    KOLO_HEADER_BYTES_MAX = KOLO_HEADER_BYTES + 2 * (int)sizeof(uint64_t)
};

struct kolo_header {
    uint32_t channel;
    uint32_t bytes;
    struct kolo_desc desc;
};
void kolo_header_pack(const struct kolo_header *header, uint8_t out[KOLO_HEADER_BYTES]);
void kolo_header_unpack(const uint8_t in[KOLO_HEADER_BYTES], struct kolo_header *header_out);

/** A frame on its way out. The payload stays valid until kolo_link_frame_done. */
struct kolo_frame {
    struct kolo_header header; /* its `bytes` is the length of the payload, or 0 if is_remote */
    const uint8_t *payload;
    size_t bytes;           /* length of the payload, or of the whole message if is_remote */
    bool is_remote;         /* transport->is_remote() was true: the peer delivers it by rx_remote */
    struct kolo_work *work; /* NULL: a control frame */
    struct kolo_control *control; /* used by the core only */
};

/** Where the payload of an arriving frame goes. It belongs to the link, which receives one frame at
 *  a time. */
struct kolo_sink {
    uint8_t *dst; /* NULL: the bytes are dropped */
    const uint8_t *local;
    size_t left;
    kolo_reduce_fn reduce;           /* NULL: copy, or use `own` */
    const struct kolo_operator *own; /* NULL: copy, or use `reduce` */
    kolo_dtype dtype;                /* the type for own */
    size_t element_bytes;
    bool incoming_first;
    struct kolo_work *work;    /* NULL: the payload goes to a stash, or is dropped */
    struct kolo_stash *stash;  /* NULL: the payload goes to a work, or is dropped */
    struct kolo_checksum *sum; /* of what went into the sink; NULL: the link has no checksums */
};

enum kolo_link_state { KOLO_LINK_CONNECTING, KOLO_LINK_UP, KOLO_LINK_DOWN };

/** The common part of a link; each transport's link struct begins with it. The fields below the
 *  line are the core's. */
struct kolo_link {
    struct kolo_endpoint *endpoint;
    struct kolo_port *port;
    const struct kolo_transport *transport;
    int peer;
    enum kolo_link_state state;
    bool said_goodbye, heard_goodbye;
    /** Set by a transport whose pull() finds nothing as long as *signal equals signal_seen, and
     *  whose push() has nothing to do as long as the core has no frames. Looking at such a link is
     *  then a single load. */
    const _Atomic uint64_t *signal; /* NULL: pull() and push() are called each time */
    uint64_t signal_seen;
    struct kolo_sink sink;
    uint64_t bytes_sent, bytes_received;
    struct kolo_sums *sums; /* NULL: the link has no checksums (checksum.h) */
    uint32_t header_bytes;  /* of its frames' headers: KOLO_HEADER_BYTES, or _MAX with checksums */
    /* ---- */
    kolo_status why; /* if DOWN: what ended it */
    char *why_text;  /* the detail of `why`; NULL: none, or no memory for it */
    struct kolo_link *next;
    struct kolo_map channels;
    struct kolo_channel *ready_first, *ready_last;     /* have a frame to send, and credit for it */
    struct kolo_channel *owing_first, *owing_last;     /* are to return credit */
    struct kolo_control *control_first, *control_last; /* control frames to send */
    struct kolo_channel *rx_channel;
    struct kolo_header rx_header;
    uint64_t rx_prepaid; /* how much of its payload costs no credit */
    uint8_t rx_control[KOLO_CONTROL_BYTES_MAX];
    bool owes_goodbye, is_pushing;
    uint64_t credit_bytes; /* credit that the peer grants each channel */
    uint64_t sends;        /* sends posted and not finished */
    uint64_t receives;     /* receives posted and not finished */
    uint64_t turns;        /* receives among them whose message has its turn */
    bool owes_left;        /* the peer has said goodbye, which counts once everything is there */
    bool has_lost; /* if DOWN: the peer, which has not said goodbye, may lack what was sent to it */
};

/** A transport's operations. Each transport is compiled or left out; the build generates
 *  kolo_transports[] of those that were compiled, best first. */
struct kolo_transport {
    const char *name;
    uint8_t purpose; /* the enum kolo_purpose of its greeting; 0: it needs no connection (inproc) */
    /** Whether it can be used on this machine; if not, *why_out says why. */
    kolo_status (*probe)(const struct kolo_settings *settings, struct kolo_why *why_out);
    /** Opens what one endpoint needs (a listener, a doorbell). *address_out is published to the
     *  peers. */
    kolo_status (*open)(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                        struct kolo_address *address_out);
    void (*close)(struct kolo_port *port);
    /** Whether it can join this rank and @p peer. *why_out says why ("same host"), or why not
     *  ("host differs"). */
    bool (*reaches)(const struct kolo_port *port, const struct kolo_peer *peer,
                    struct kolo_why *why_out);
    /** Makes a new link in state CONNECTING. With @p fd >= 0 the peer dialled us and proved itself;
     *  the fd then belongs to the link, even if this call fails. With -1 we dial. The transport
     *  later calls kolo_link_set_up() or kolo_link_set_down(), possibly from within this call. */
    kolo_status (*connect)(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                           struct kolo_link **link_out);
    /** The peer dialled, and proved itself on @p fd, while this link is CONNECTING. Takes the
     *  connection over, replacing our own dial if that gives way, holds it in case that fails, or
     *  closes it. NULL: this transport does not dial. */
    void (*adopt)(struct kolo_link *link, int fd);
    /** What @p address says of the line to its rank. Everyone who has the address gets the same
     *  answer. NULL: addresses of this transport do not say. */
    struct kolo_line (*line)(const struct kolo_address *address);
    /** Looks for peers that want a link, for transports where no file descriptor tells. True: found
     *  one. May be NULL. */
    bool (*poll)(struct kolo_port *port);
    /** Moves as many frames out as fit. Called only by kolo_link_push(), never nested. True:
     *  something was moved. */
    bool (*push)(struct kolo_link *link);
    bool gathers; /* push() hands the kernel several frames in one call */
    /** Moves one data frame out now, behind everything that was moved before. False: it cannot, and
     *  push() will. NULL: it never can. */
    bool (*put)(struct kolo_link *link, const uint8_t header[KOLO_HEADER_BYTES],
                const void *payload, size_t bytes);
    /** Moves the next incoming frame to @p dst, if it is there and has this header. KOLO_AGAIN: no
     *  frame is there. KOLO_ERR_NOT_FOUND: something else is there, which pull() will handle. NULL
     *  if and only if put is NULL. */
    kolo_status (*take)(struct kolo_link *link, const uint8_t header[KOLO_HEADER_BYTES], void *dst,
                        size_t bytes);
    /** Looks once for frames that arrived and for frames that were consumed, without the poller.
     *  True: something was moved. NULL: the poller's callbacks do this. */
    bool (*pull)(struct kolo_link *link);
    /** Messages of at least this many bytes in memory of the heap are copied one time less, by
     *  their sender or by their receiver. NULL: none are, or messages in other memory are too. */
    size_t (*direct_bytes)(const struct kolo_settings *settings);
    /** Whether @p work, whose first frame is due, is to go by rx_remote, as one frame of any
     *  length. NULL: never. */
    bool (*is_remote)(struct kolo_link *link, const struct kolo_work *work);
    /** The bytes named by rx_remote(cookie) are about to be read. False: the sender took them back;
     *  forget them, and do not call release. NULL: they are always there. */
    bool (*claim)(struct kolo_link *link, uint64_t cookie);
    /** The bytes named by rx_remote(cookie) are no longer needed: they were consumed after a claim,
     *  or dropped without one. False: the sender took them back meanwhile, and what was read is
     *  worthless. NULL if rx_remote is not used. */
    bool (*release)(struct kolo_link *link, uint64_t cookie);
    /** Span @p id of the endpoint's heap is about to be freed: peers that mapped it must unmap it.
     *  NULL: nothing to do. */
    void (*span_gone)(struct kolo_link *link, uint64_t id);
    /** The same, called once for the port instead of for each link, for registrations. NULL:
     *  nothing to do. */
    void (*span_gone_port)(struct kolo_port *port, uint64_t id);
    /** As kolo_endpoint_know, kolo_link_reaches_devices (of a link that is UP) and
     *  kolo_endpoint_device_gone. All three NULL: the transport does not reach device memory. */
    bool (*know)(struct kolo_port *port, const struct kolo_pointer *pointer);
    bool (*reaches_devices)(const struct kolo_link *link);
    void (*device_gone)(struct kolo_port *port, const void *memory);
    /** Receive @p work was posted and waits; nothing of its message has arrived. A transport that
     *  lends the receive's memory to the peer sets is_lent, and calls kolo_link_rx_turn() and
     *  kolo_link_rx_whole() when the peer has written the message. NULL: nothing to do. */
    void (*posted)(struct kolo_link *link, struct kolo_work *work);
    /** Receive @p work, which was lent, ends in another way: its message came in frames, or it was
     *  given up. When this returns, nobody writes its memory any more, or the link ends. The link
     *  may be DOWN. NULL if nothing is ever lent. */
    void (*take_back)(struct kolo_link *link, struct kolo_work *work);
    /** Withdraws @p work's frames from the wire, and what is_remote() prepared for it. When this
     *  returns, nobody reads its memory any more, and no kolo_link_frame_done() follows for its
     *  frames. Of a frame that has been moved in part, the transport copies the rest, or ends the
     *  link. The link may be DOWN. NULL: the transport keeps no frame beyond push(). */
    void (*withdraw)(struct kolo_link *link, struct kolo_work *work);
    /** Handles a control frame of one of the transport's own types. Any status but OK ends the
     *  link. NULL: such frames are a protocol error. */
    kolo_status (*control)(struct kolo_link *link, const struct kolo_header *header,
                           const uint8_t *payload);
    /** Writes a text such as "tcp 10.0.0.5:4711". */
    void (*describe)(const struct kolo_link *link, char *text, size_t capacity);
    /** Why a link that is UP takes the path that it takes: its addresses, and why they were chosen.
     *  NULL: reaches() has said everything. */
    void (*explain)(const struct kolo_link *link, char *text, size_t capacity);
    /** The name of the transport that a link that is UP uses, if that can be another one: an rdma
     *  link that went on as the TCP link it began as returns "tcp". NULL: always this transport. */
    const char *(*goes_by)(const struct kolo_link *link);
    /** True when everything handed over has left this process's memory; bytes in the kernel count
     *  as having left. */
    bool (*is_drained)(const struct kolo_link *link);
    /** Whether the peer may lack a part of a message whose send has ended with KOLO_OK. Asked when
     *  a link that was UP goes DOWN, before down(). NULL: such messages are in memory that the peer
     *  reads itself. */
    bool (*has_undelivered)(const struct kolo_link *link);
    /** The endpoint is freed next, and the link is CONNECTING and has no send. If the peer may
     *  still take a connection that was offered to it, brings the link up, which says goodbye
     *  there. NULL: the peer sees only that the connection ends. */
    void (*leave)(struct kolo_link *link);
    /** The link went DOWN: closes what the peer may notice (descriptors, flags), and must not
     *  touch a work. Also called from within the transport's own calls of set_down. NULL:
     *  nothing to do. */
    void (*down)(struct kolo_link *link);
    /** Frees the link, after down(), or when it is only half built. Calls kolo_link_fini(); never
     *  blocks. */
    void (*free_link)(struct kolo_link *link);
    /** Boards, the memory that ranks share (board_private.h). NULL: none. */
    const struct kolo_board_ops *boards;
};
/** NULL-terminated, best first; generated by the build. */
extern const struct kolo_transport *const kolo_transports[];
/** The index of the transport of that name in this build's table (choice.c); -1: it has none. */
int kolo_transport_index(const char *name);

/* ---- what the core offers to transports ---- */

/** The first fields of each transport's port struct; open() need not fill in the first two.
 *  doorbell is a word that peers read after they published something (sequentially consistent on
 *  both sides). 1 means: this rank is about to sleep, write to kolo_poller_event_fd(). The core
 *  sets it in arm and clears it in disarm; a peer that rings may clear it too. NULL: descriptors
 *  wake this rank. */
struct kolo_port {
    struct kolo_endpoint *endpoint;
    const struct kolo_transport *transport;
    _Atomic uint32_t *doorbell;
};
const struct kolo_endpoint_config *kolo_endpoint_config_of(const struct kolo_endpoint *endpoint);
const struct kolo_peer *kolo_endpoint_peer(const struct kolo_endpoint *endpoint, int peer);
/** Whether this rank's thread sleeps or is about to: everything that is to wake it must then be in
 *  the poller. */
bool kolo_endpoint_is_armed(const struct kolo_endpoint *endpoint);
/** For open(): listens at @p place for peers that dial @p port, which becomes a port of @p
 *  endpoint, for @p purpose. Those that prove themselves go to kolo_endpoint_incoming. */
kolo_status kolo_endpoint_listen(struct kolo_endpoint *endpoint, struct kolo_port *port,
                                 uint8_t purpose, const struct kolo_place *place,
                                 struct kolo_listener **listener_out) KOLO_NODISCARD;
/** A peer proved itself on @p fd for this port's transport. If both sides dialled, the core decides
 *  which dial stands; it then calls connect(..., fd, ...) or adopt(), or closes the fd. */
void kolo_endpoint_incoming(struct kolo_port *port, const struct kolo_greeting *theirs, int fd);
/** A peer made a link without dialling (inproc): makes this side's link. */
void kolo_endpoint_attach(struct kolo_port *port, int peer);

/** What @p peer published for the port's transport (choice.c); bytes 0: nothing. */
const struct kolo_address *kolo_port_address_of(const struct kolo_port *port,
                                                const struct kolo_peer *peer);
/** Fills in the common part of a new, zeroed link. */
void kolo_link_init(struct kolo_link *link, struct kolo_port *port, int peer);
/** Whether our dial gives way to one of the peer. The lower rank's dial stands. */
bool kolo_link_gives_way(const struct kolo_link *link);
/** Frees the common part's memory. For free_link. */
void kolo_link_fini(struct kolo_link *link);
void kolo_link_set_up(struct kolo_link *link);
/** Ends the link: all its works get @p why, and the event `down` is told (nothing after a goodbye).
 *  Idempotent. The event's text is this thread's detail. The core calls the transport's down() at
 *  once and its free_link() later. */
void kolo_link_set_down(struct kolo_link *link, kolo_status why);

/** Whether kolo_link_next_frame() would return a frame. (A frame that waits for credit does not
 *  count.) */
bool kolo_link_has_frames(const struct kolo_link *link);
/** The next frame to move, of at most @p max_bytes of payload and at most segment_bytes; a remote
 *  frame is never cut. Control frames come first, and are never cut either, so @p max_bytes must be
 *  at least KOLO_CONTROL_BYTES_MAX for them. False: there is none, or max_bytes is too small for
 *  it. The caller owns the frame until frame_done. */
bool kolo_link_next_frame(struct kolo_link *link, size_t max_bytes, struct kolo_frame *frame_out);
/** As kolo_link_next_frame() while the transport is still moving a message of channel @p id:
 *  returns no frame of that channel, and no remote frame. */
bool kolo_link_next_frame_beside(struct kolo_link *link, uint32_t id, size_t max_bytes,
                                 struct kolo_frame *frame_out);
/** The frame's payload is no longer needed. Ignored once the link is DOWN. True: the frame was the
 *  last one of its message that was under way, and the send has ended with KOLO_OK. */
bool kolo_link_frame_done(struct kolo_link *link, const struct kolo_frame *frame);
/** Queues a control frame of the transport's own type desc->bytes[0], with a copy of @p payload. */
kolo_status kolo_link_send_control(struct kolo_link *link, const struct kolo_desc *desc,
                                   const void *payload, size_t bytes) KOLO_NODISCARD;

/** Whether this frame would now be copied to the stash, because nobody has posted a receive for
 *  it. */
bool kolo_link_is_early(const struct kolo_link *link, const struct kolo_header *header);
/** Begins a frame: sets link->sink. Any status but OK means that the peer broke the protocol; set
 *  the link down with it. */
kolo_status kolo_link_rx_begin(struct kolo_link *link,
                               const struct kolo_header *header) KOLO_NODISCARD;
/** Memory into which the next bytes may be stored directly (call kolo_sink_stored afterwards); NULL
 *  if they must go through kolo_sink_put, since they are combined or dropped. */
uint8_t *kolo_sink_room(struct kolo_sink *sink, size_t *room_out);
void kolo_sink_stored(struct kolo_sink *sink, size_t bytes);
/** Consumes up to @p bytes bytes at @p data, only whole elements when reducing. Returns how many
 *  bytes were consumed. */
size_t kolo_sink_put(struct kolo_sink *sink, const void *data, size_t bytes);
/** To be called after all header->bytes went into the sink. Statuses as for rx_begin; the link may
 *  have gone DOWN meanwhile. */
kolo_status kolo_link_rx_end(struct kolo_link *link) KOLO_NODISCARD;
/** The peer announces, at the message's place in the channel's order, that it writes the message of
 *  @p work, which was lent. What follows on the channel waits until the whole message is there. */
kolo_status kolo_link_rx_turn(struct kolo_link *link, struct kolo_work *work) KOLO_NODISCARD;
/** The whole message of @p work, which had its turn, is there. is_lent must be false again. */
void kolo_link_rx_whole(struct kolo_link *link, struct kolo_work *work);
/** is_remote() may now have another answer for the work that is due on channel @p id. */
void kolo_link_reconsider(struct kolo_link *link, uint32_t id);
/** The peer holds the whole message: @p bytes bytes at @p data, readable until release(cookie).
 *  header->bytes is ignored. */
kolo_status kolo_link_rx_remote(struct kolo_link *link, const struct kolo_header *header,
                                const void *data, size_t bytes, uint64_t cookie) KOLO_NODISCARD;

#endif
