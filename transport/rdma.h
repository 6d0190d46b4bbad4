// SPDX-License-Identifier: Apache-2.0
// The rdma transport: links by reliable queue pairs. Shared by rdma.c (the port) and rdma_link.c (a
// link's life); nobody else includes it.
//
// A link begins as a TCP link (tcp.h, struct tcp_rider): found, dialled and proved like any other.
// Over that connection both sides then settle in three stages whether their messages go by RDMA. In
// each both send one block (rdma_handshake.h), which agrees or says why not, and both read the
// other's before they go on:
//
//   HELLO    here is my queue pair, at this address        or: this port, queue or memory cannot be
//                                                              had
//   JOINED   mine is joined to yours and ready to receive  or: the device refused
//   PROBED   my first message has reached you              or: nothing gets through
//
// A first message that does not get through is given up long before the device does (half a second,
// and less with each that fails in a row: rdma_fallen.h), but where RDMA is forced. As soon as one
// side says why not, both know it and the link comes up as the TCP link that it is, with a warning
// that names the reason; where KOLO_TRANSPORT=rdma forbids that, it ends with it. If all is agreed,
// messages go by RDMA alone, and the connection stays for what TCP is better at: it ends when the
// peer's process does, and its keepalive finds a host that is cut off while nothing is sent. What
// the peer had sent before its end is delivered first.
//
// Out: each frame goes with its header into an eager buffer of the peer's (rdma_queue.h): copied
// behind it into one of ours, so that the sender's memory is its own again at once; or, of a long
// message in memory of kolo_alloc, read by the device where it lies. In: copied or reduced straight
// out of the buffer where the device wrote it. A long message between memory of kolo_alloc, which a
// receive that copies waits for, is written there by the sender's device (rdma_direct.h). A receive
// that reduces has its operand in such buffers anyway: nothing would be saved by another way.
//
// One completion queue serves all links of a rank. It is polled with every look; before a sleep it
// is armed, and its channel is in the poller like any descriptor.
#ifndef KOLO_TRANSPORT_RDMA_H
#define KOLO_TRANSPORT_RDMA_H

#include "transport/rdma_direct.h"
#include "transport/rdma_fallen.h"
#include "transport/rdma_queue.h"
#include "transport/rdma_rails.h"
#include "transport/rdma_resume.h"
#include "transport/tcp.h"

enum {
    RDMA_BUFFERS = 32, /* of a queue: a power of two */
    RDMA_BUFFER_BYTES = (64 << 10) + KOLO_HEADER_BYTES
};

struct rdma_nic;
struct rdma_watch {
    struct kolo_watch watch; /* first: ready gets this; fd -1: none */
    struct rdma_nic *nic;
};

/** A port of a device that the rank uses. */
struct rdma_nic {
    struct rdma_port *port;
    struct kolo_rdma_device *device;
    struct kolo_rdma_completions *completions;
    struct kolo_rdma_regions regions;
    struct rdma_watch channel, news;
    bool tells_next; /* the completion queue is armed */
};

struct rdma_timer {
    struct kolo_conn_timer timer; /* first: fire gets this */
    struct rdma_port *port;
};

struct rdma_port {
    struct tcp_port tcp;     /* first: the core gets this */
    struct rdma_nic nic;     /* of the first rail of each link */
    struct rdma_nic *others; /* of further rails */
    int other_count;
    struct rdma_timer looks; /* at what has its time: first messages, and warnings */
    struct kolo_rdma_fallen fallen;
    kolo_deadline tells_at;   /* of them; KOLO_NEVER: there is nothing to tell */
    kolo_deadline watches_at; /* the links that are up; KOLO_NEVER: there is none */
    bool has_broken;          /* links whose pair is being brought back */
    bool has_stopping;        /* rails that stop */
    bool has_leftovers;       /* queues of links that went on by TCP are to be closed */
};

enum rdma_stage { RDMA_HELLO, RDMA_JOINED, RDMA_PROBED, RDMA_SETTLED };

struct rdma_link {
    struct tcp_link tcp; /* first: the core gets this */
    enum rdma_stage stage;
    bool has_sent, has_theirs; /* the blocks of this stage */
    bool is_by_rdma;           /* SETTLED: so */
    bool has_probe;            /* the peer's first message has come */
    kolo_deadline probe_until; /* ours must have arrived; KOLO_NEVER: it is not on its way */
    char broke[KOLO_RDMA_REASON_BYTES]; /* how the queue broke before that; "": it did not */
    struct kolo_rdma_queue *queue;
    struct kolo_rdma_direct direct;
    struct kolo_rdma_writing *writing; /* that is being posted; NULL: none */
    struct kolo_rdma_gids published;   /* by the peer */
    struct kolo_rdma_gid gid;          /* ours */
    struct kolo_rdma_hello mine, theirs;
    uint8_t block[KOLO_RDMA_HELLO_BYTES]; /* that is arriving */
    size_t block_bytes;
    struct rdma_resume resume;
    struct rdma_rails rails;
    bool has_led;   /* the peer's ports are known, and rails were offered */
    bool has_again; /* writings of which a row may have to be written again */
};

static inline struct rdma_port *rdma_port_of(const struct rdma_link *link)
{
    return (struct rdma_port *)link->tcp.base.port;
}

/** The first, and the others. */
static inline struct rdma_nic *kolo_rdma_nic_at(struct rdma_port *port, int number)
{
    return number == 0 ? &port->nic : &port->others[number - 1];
}

/* rdma.c */
extern const struct kolo_transport kolo_transport_rdma;
/** Takes what has completed, for all links. True: something has. */
bool kolo_rdma_poll(struct kolo_port *base);
/** The addresses that a rank published; false: nonsense. */
bool kolo_rdma_published(const struct kolo_address *address, struct kolo_rdma_gids *gids_out,
                         size_t *bytes_out);

/** A link goes by RDMA: from here on it is watched. */
void kolo_rdma_watch_links(struct rdma_port *port);
/** The timer of the port is due at @p at, if not before. */
void kolo_rdma_look_at(struct rdma_port *port, kolo_deadline at);
bool kolo_rdma_is_forced(const struct rdma_port *port);

/* rdma_link.c: what the rider does, and the operations of the same name */
void kolo_rdma_joined(struct tcp_link *tcp);
void kolo_rdma_ready(struct tcp_link *tcp);
bool kolo_rdma_push(struct kolo_link *base);
bool kolo_rdma_pull(struct kolo_link *base);
void kolo_rdma_withdraw(struct kolo_link *base, struct kolo_work *work);
void kolo_rdma_describe(const struct kolo_link *base, char *text, size_t capacity);
void kolo_rdma_explain(const struct kolo_link *base, char *text, size_t capacity);
const char *kolo_rdma_goes_by(const struct kolo_link *base);
bool kolo_rdma_is_drained(const struct kolo_link *base);
void kolo_rdma_down(struct kolo_link *base);
void kolo_rdma_free_link(struct kolo_link *base);
/** Gives a first message up whose time is over. Gives the time of one that is on its way;
 * KOLO_NEVER: none is. */
kolo_deadline kolo_rdma_watch_probe(struct rdma_link *link, kolo_deadline now);
/** What is being posted; NULL: nothing, and then there is nothing to look at but the core's frames:
 * pull() finds nothing, and frames that found no room stay the core's. */
void kolo_rdma_set_writing(struct rdma_link *link, struct kolo_rdma_writing *writing);
/** Closes the queue of a link that went on by TCP. Not from within a callback of the queue. */
void kolo_rdma_drop_leftover(struct rdma_link *link);

/* rdma_write.c: messages that nobody copies, over a link that goes by RDMA */
bool kolo_rdma_is_remote(struct kolo_link *base, const struct kolo_work *work);
void kolo_rdma_posted(struct kolo_link *base, struct kolo_work *work);
void kolo_rdma_take_back(struct kolo_link *base, struct kolo_work *work);
/** A device does not let go of the link, which ends: what it could still write is the program's no
 * more. */
void kolo_rdma_cut_off_all(struct kolo_link *base);
void kolo_rdma_span_gone(struct kolo_port *base, uint64_t id);
bool kolo_rdma_know(struct kolo_port *base, const struct kolo_pointer *pointer);
bool kolo_rdma_reaches_devices(const struct kolo_link *base);
void kolo_rdma_device_gone(struct kolo_port *base, const void *memory);
kolo_status kolo_rdma_control(struct kolo_link *base, const struct kolo_header *header,
                              const uint8_t *payload);
/** May the next frame be taken? One in a device's memory can only be sent from where it lies. */
bool kolo_rdma_may_take_frame(const struct rdma_link *link);
/** Sends a frame, whose header is in the next eager buffer, from where it lies. False: it must be
 * copied. */
bool kolo_rdma_send_in_place(struct rdma_link *link, const struct kolo_frame *frame);
void kolo_rdma_withdraw_writing(struct rdma_link *link, const struct kolo_work *work);
/** What the queue tells. */
void kolo_rdma_written(struct kolo_rdma_queue *queue, uint16_t mark);
/** The peer has written what @p mark says, by whatever rail. */
void kolo_rdma_take_mark(struct rdma_link *link, uint16_t mark);

/* rdma_stripe.c: how they are written */
/** Begins to write the message of a frame that is_remote. */
void kolo_rdma_begin_writing(struct rdma_link *link, const struct kolo_frame *frame);
/** Posts what fits of it. True: all of it is posted. */
bool kolo_rdma_go_on_writing(struct rdma_link *link);
/** A row has arrived, so that its memory is not read any more. */
void kolo_rdma_row_is_over(struct rdma_link *link, struct kolo_rdma_row *row);
/** Rows may have to be written again. */
void kolo_rdma_wake_writing(struct rdma_link *link);
/** What the queue tells. */
void kolo_rdma_has_written(struct kolo_rdma_queue *queue, void *context);
void kolo_rdma_passed(struct kolo_rdma_queue *queue, size_t bytes);

#endif
