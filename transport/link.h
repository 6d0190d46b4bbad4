// SPDX-License-Identifier: Apache-2.0
// Between the core (endpoint.c, link.c: queues, channels, credits, matching, early arrivals) and
// the transports (inproc, shm, tcp: bytes and frames). Private to transport/.
//
// Out: the core cuts messages into frames and offers the next one by kolo_link_next_frame(); the
// transport moves it and says kolo_link_frame_done() when the payload is no longer needed. In: a
// transport that carries bytes calls kolo_link_rx_begin() with the header, feeds the link's sink,
// then kolo_link_rx_end(). One that only names bytes the peer holds (inproc, direct shared memory)
// calls kolo_link_rx_remote(), and gets ops->release() when they have been consumed.
//
// Credits: at most settings.credit_bytes of payload per channel may be on their way beyond what the
// receiver consumed; the receiver returns credit by a control frame when half of it is used up.
// Frames by rx_remote need no credit. So an early message waits in a bounded stash and never blocks
// the other channels.
#ifndef KOLO_TRANSPORT_LINK_H
#define KOLO_TRANSPORT_LINK_H

#include "transport/transport.h"

struct kolo_port;

struct kolo_header {
    uint32_t channel;
    uint32_t bytes;
    struct kolo_desc desc;
};
void kolo_header_pack(const struct kolo_header *header, uint8_t out[KOLO_HEADER_BYTES]);
void kolo_header_unpack(const uint8_t in[KOLO_HEADER_BYTES], struct kolo_header *header_out);

/** A frame on its way out. payload stays valid until kolo_link_frame_done. */
struct kolo_frame {
    struct kolo_header header;
    const uint8_t *payload;
    struct kolo_work *work; /* NULL: a control frame */
};

/** Where arriving payload goes; belongs to the link, one frame at a time. */
struct kolo_sink {
    uint8_t *dst;
    const uint8_t *local;
    size_t left;
    kolo_reduce_fn reduce; /* NULL: copy */
    size_t element_bytes;
    bool incoming_first;
    struct kolo_work *work;   /* NULL: stash or discard */
    struct kolo_stash *stash; /* NULL: work or discard */
};

enum kolo_link_state { KOLO_LINK_CONNECTING, KOLO_LINK_UP, KOLO_LINK_DOWN };

/** The common part of a link; each transport's link struct begins with it. */
struct kolo_link {
    struct kolo_endpoint *endpoint;
    const struct kolo_transport *transport;
    int peer;
    enum kolo_link_state state;
    kolo_status why; /* DOWN: what ended it */
    bool said_goodbye, heard_goodbye;
    struct kolo_sink sink;
    struct kolo_channel *channels;      /* the core's */
    struct kolo_control *control_queue; /* the core's: control frames not yet sent */
    struct kolo_link *next;             /* the endpoint's list of links */
    uint64_t bytes_sent, bytes_received;
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
     * fd is the link's), with -1 we dial. Ends in kolo_link_set_up() or kolo_link_set_down(). */
    kolo_status (*connect)(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                           struct kolo_link **link_out);
    /** Moves frames out, as many as fit. Called when there is something to send and from progress.
     * True: moved. */
    bool (*push)(struct kolo_link *link);
    /** Looks for arrived frames where no file descriptor tells (shared memory). True: moved. May be
     * NULL. */
    bool (*pull)(struct kolo_link *link);
    /** The bytes named by kolo_link_rx_remote(cookie) have been consumed. NULL where rx_remote is
     * not used. */
    void (*release)(struct kolo_link *link, uint64_t cookie);
    /** Withdraws @p work from the wire: on return its memory is not read by a peer thread. NULL:
     * nothing to do. */
    void (*withdraw)(struct kolo_link *link, struct kolo_work *work);
    /** "tcp 10.0.0.5:4711" */
    void (*describe)(const struct kolo_link *link, char *text, size_t capacity);
    /** True when everything handed over has left this process's memory (bytes in the kernel count
     * as left). */
    bool (*is_drained)(const struct kolo_link *link);
    /** Frees the link; never blocks. */
    void (*free_link)(struct kolo_link *link);
};
/** NULL-terminated, best first; generated by the build. */
extern const struct kolo_transport *const kolo_transports[];

/* ---- what the core offers to transports ---- */

/** The first fields of each transport's port struct. */
struct kolo_port {
    struct kolo_endpoint *endpoint;
    const struct kolo_transport *transport;
};
const struct kolo_endpoint_config *kolo_endpoint_config_of(const struct kolo_endpoint *endpoint);
const struct kolo_peer *kolo_endpoint_peer(const struct kolo_endpoint *endpoint, int peer);
/** A peer proved itself on @p fd for @p transport: the core settles who dials when both did (the
 * dial of the lower rank stands), then calls connect(..., fd, ...), or closes the fd. */
void kolo_endpoint_incoming(struct kolo_port *port, const struct kolo_greeting *theirs, int fd);

/** Fills in a new link's common part. */
void kolo_link_init(struct kolo_link *link, struct kolo_port *port, int peer);
/** Fails what is queued, frees the common part's memory. For free_link. */
void kolo_link_fini(struct kolo_link *link);
void kolo_link_set_up(struct kolo_link *link);
/** Ends the link: all its works get @p why, the event `down` (or nothing after a goodbye) is told.
 * Idempotent. Takes the text from this thread's detail. The transport's free_link comes later, from
 * the core. */
void kolo_link_set_down(struct kolo_link *link, kolo_status why);

/** The next frame to move, at most @p max_bytes of payload (and segment_bytes); false: nothing, or
 * no credit. needs_credit false: a transport that will deliver it by rx_remote. The caller owns the
 * frame until frame_done. */
bool kolo_link_next_frame(struct kolo_link *link, size_t max_bytes, bool needs_credit,
                          struct kolo_frame *frame_out);
/** Looks at what next_frame would give without taking it: payload pointer and full remaining
 * length. */
bool kolo_link_peek_frame(const struct kolo_link *link, const uint8_t **payload_out,
                          size_t *bytes_out);
void kolo_link_frame_done(struct kolo_link *link, const struct kolo_frame *frame);

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
void kolo_link_rx_end(struct kolo_link *link);
/** The peer holds @p header->bytes... or, for long ones, @p bytes bytes at @p data, readable until
 * release(cookie). */
kolo_status kolo_link_rx_remote(struct kolo_link *link, const struct kolo_header *header,
                                const void *data, size_t bytes, uint64_t cookie) KOLO_NODISCARD;

#endif
