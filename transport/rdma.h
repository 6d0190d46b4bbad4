// SPDX-License-Identifier: Apache-2.0
// The rdma transport: links by reliable queue pairs. Shared by the files of one link: rdma.c (the
// port), rdma_link.c (a link's life), rdma_write.c, rdma_verify.c, rdma_stripe.c, rdma_rails.c and
// rdma_resume.c.
//
// A link begins as a TCP link (tcp.h, struct tcp_rider), which is found, dialled and proved like
// any other. Over that connection both sides then settle in three stages whether their messages go
// by RDMA. In each stage both send one block (rdma_handshake.h), which agrees or says why not, and
// both read the other's block before they continue:
//
//   HELLO    here is my queue pair, at this address        or: this port, queue or memory cannot be
//                                                              had
//   JOINED   mine is joined to yours and ready to receive  or: the device refused
//   PROBED   my first message has reached you              or: nothing gets through
//
// Unless RDMA is forced, a first message that does not get through is given up long before the
// device gives it up (after half a second, and sooner with each failure in a row: rdma_fallen.h).
// As soon as one side has a reason against RDMA, both know it. The link then comes up as the TCP
// link that it is, with a warning that names the reason; with KOLO_TRANSPORT=rdma it ends with that
// reason instead. If everything is agreed, messages go only by RDMA. The connection stays for what
// TCP does better: it ends when the peer's process does, and its keepalive finds a host that was
// cut off while nothing is sent. What the peer had sent before its end is delivered first.
//
// Out: each frame goes with its header into an eager buffer of the peer's (rdma_queue.h). Usually
// the payload is copied behind the header into one of our buffers, so that the sender's memory is
// free again at once; the payload of a long message in kolo_alloc memory is read by the device in
// place instead. In: the payload is copied or reduced directly from the buffer to which the device
// wrote it. A long message between kolo_alloc memory, for which a copying receive waits, is written
// into the receive's memory by the sender's device (rdma_direct.h). That would save nothing for a
// receive that reduces, since such a buffer serves as its operand anyway.
//
// With checksums (checksum.h) a message that is written directly has one of its own, which a
// control frame tells before the last mark (rdma_direct.h); the receiver sums up its memory when
// all has arrived. The memory of devices, which no processor reads, is then not known to a link.
//
// One completion queue for each device serves all links of a rank. It is polled with every look.
// Before a sleep it is armed, and its channel is in the poller like any descriptor.
#ifndef KOLO_TRANSPORT_RDMA_H
#define KOLO_TRANSPORT_RDMA_H

#include "transport/rdma_direct.h"
#include "transport/rdma_fallen.h"
#include "transport/rdma_number.h"
#include "transport/rdma_queue.h"
#include "transport/rdma_rails.h"
#include "transport/rdma_resume.h"
#include "transport/tcp.h"

enum {
    RDMA_BUFFERS = 32, /* of a queue: must be a power of two */
    RDMA_PAYLOAD_BYTES = 64 << 10,
    RDMA_BUFFER_BYTES = RDMA_PAYLOAD_BYTES + KOLO_HEADER_BYTES, /* without checksums */
    KOLO_RDMA_SUM_FRAME = KOLO_CONTROL_TRANSPORT + 2            /* a type of control frame */
};

struct rdma_nic;
struct rdma_watch {
    struct kolo_watch watch; /* must be first: ready gets this pointer; fd -1: none */
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
    struct kolo_conn_timer timer; /* must be first: fire gets this pointer */
    struct rdma_port *port;
};

struct rdma_port {
    struct tcp_port tcp;     /* must be first: the core uses this pointer */
    struct rdma_nic nic;     /* for the first rail of each link */
    struct rdma_nic *others; /* for further rails */
    int other_count;
    struct rdma_timer looks; /* for first messages and warnings that are due */
    struct kolo_rdma_fallen fallen;
    kolo_deadline tells_at;   /* when to warn; KOLO_NEVER: there is nothing to warn of */
    kolo_deadline watches_at; /* when to check the links that are up; KOLO_NEVER: there is none */
    bool has_broken;          /* there are links whose pair is being replaced */
    bool has_stopping;        /* there are rails that stop */
    bool has_leftovers;       /* there are queues to close, of links that went on by TCP */
};

/* So that all the credit that is ever owed fits into one number. */
_Static_assert(RDMA_BUFFERS <= KOLO_RDMA_CREDIT_CHECKED_MAX + 1, "credit in a number with a check");

enum rdma_stage { RDMA_HELLO, RDMA_JOINED, RDMA_PROBED, RDMA_SETTLED };

/** Messages that were written directly and whose checksums are being verified, in the order in
 *  which they became whole: a ring. */
struct rdma_checks {
    struct rdma_check {
        struct kolo_work *work; /* NULL: was given up */
        uint64_t sum;           /* what it must be, as the peer told */
    } all[KOLO_RDMA_SLOTS];
    unsigned first, count;
    size_t summed; /* bytes of the first one; the sum is in tcp.base.sums->whole */
};

struct rdma_link {
    struct tcp_link tcp; /* must be first: the core uses this pointer */
    enum rdma_stage stage;
    bool has_sent, has_theirs; /* the blocks of this stage */
    bool is_by_rdma;           /* SETTLED: messages go by RDMA */
    bool has_probe;            /* the peer's first message has arrived */
    kolo_deadline probe_until; /* by when our first message must have arrived; KOLO_NEVER: none is
                                * sent */
    char broke[KOLO_RDMA_REASON_BYTES]; /* how the queue broke before SETTLED; "": it did not */
    struct kolo_rdma_queue *queue;
    uint64_t ended; /* the number behind the queue's last send that carries the end of a message
                     * whose send has ended */
    struct kolo_rdma_direct direct;
    struct kolo_rdma_writing *writing; /* the one that is being posted; NULL: none */
    struct kolo_rdma_gids published;   /* published by the peer */
    struct kolo_rdma_gid gid;          /* our address */
    struct kolo_rdma_hello mine, theirs;
    uint8_t block[KOLO_RDMA_HELLO_BYTES]; /* the block that is arriving */
    size_t block_bytes;
    struct rdma_checks checks;
    struct rdma_resume resume;
    struct rdma_rails rails;
    bool has_led;   /* the peer's ports are known, and rails were offered */
    bool has_again; /* there are writings of which a row may have to be written again */
};

static inline struct rdma_port *rdma_port_of(const struct rdma_link *link)
{
    return (struct rdma_port *)link->tcp.base.port;
}

/** The name of the peer's host, for messages. */
static inline const char *kolo_rdma_peer_host(const struct rdma_link *link)
{
    return kolo_endpoint_peer(link->tcp.base.endpoint, link->tcp.base.peer)->identity.host;
}

/** Port @p number of the rank: 0 is the first one, the others follow. */
static inline struct rdma_nic *kolo_rdma_nic_at(struct rdma_port *port, int number)
{
    return number == 0 ? &port->nic : &port->others[number - 1];
}

/* rdma.c */
extern const struct kolo_transport kolo_transport_rdma;
/** Handles everything that has completed, for all links. True: something had. */
bool kolo_rdma_poll(struct kolo_port *base);
/** The addresses of a port that a rank published, and how many bytes of its address lie before
 * those of TCP. False: they are invalid. */
bool kolo_rdma_published(const struct kolo_address *address, struct kolo_rdma_gids *gids_out,
                         size_t *bytes_out);

/** A link uses RDMA now: it is watched from now on. */
void kolo_rdma_watch_links(struct rdma_port *port);
/** Makes the port's timer due at @p at, unless it is due earlier. */
void kolo_rdma_look_at(struct rdma_port *port, kolo_deadline at);
bool kolo_rdma_is_forced(const struct rdma_port *port);
/** For how long a device may say nothing about a message: it is asked to try for KOLO_PEER_TIMEOUT,
 * and a quarter more is for its report. */
int64_t kolo_rdma_silence_ns(const struct rdma_port *port);

/* rdma_link.c: the rider's functions, and the operations of the same names */
void kolo_rdma_joined(struct tcp_link *tcp);
void kolo_rdma_ready(struct tcp_link *tcp);
bool kolo_rdma_push(struct kolo_link *base);
bool kolo_rdma_pull(struct kolo_link *base);
void kolo_rdma_withdraw(struct kolo_link *base, struct kolo_work *work);
void kolo_rdma_describe(const struct kolo_link *base, char *text, size_t capacity);
void kolo_rdma_explain(const struct kolo_link *base, char *text, size_t capacity);
/** Writes "rank 5 on host7". */
void kolo_rdma_describe_peer(const struct rdma_link *link, char *text, size_t capacity);
const char *kolo_rdma_goes_by(const struct kolo_link *base);
bool kolo_rdma_is_drained(const struct kolo_link *base);
bool kolo_rdma_has_undelivered(const struct kolo_link *base);
void kolo_rdma_down(struct kolo_link *base);
void kolo_rdma_free_link(struct kolo_link *base);
/** Gives up a first message whose time has passed. Returns the time of one that is under way;
 *  KOLO_NEVER: none is. */
kolo_deadline kolo_rdma_watch_probe(struct rdma_link *link, kolo_deadline now);
/** Sets what is being posted. */
void kolo_rdma_set_writing(struct rdma_link *link, struct kolo_rdma_writing *writing);
/** To be called when what is being posted or verified has changed. If it is nothing, there is
 *  nothing to look at except the core's frames: pull() finds nothing, and frames that found no room
 *  are still the core's. */
void kolo_rdma_set_signal(struct rdma_link *link);
/** Closes the queue of a link that went on by TCP. Must not be called from within a callback of the
 *  queue. */
void kolo_rdma_drop_leftover(struct rdma_link *link);

/* rdma_write.c: messages that neither side copies, over a link that uses RDMA */
bool kolo_rdma_is_remote(struct kolo_link *base, const struct kolo_work *work);
void kolo_rdma_posted(struct kolo_link *base, struct kolo_work *work);
void kolo_rdma_take_back(struct kolo_link *base, struct kolo_work *work);
/** A device does not release the link's memory, and the link ends: separates from the program
 *  everything that the device could still write. */
void kolo_rdma_cut_off_all(struct kolo_link *base);
void kolo_rdma_span_gone(struct kolo_port *base, uint64_t id);
bool kolo_rdma_know(struct kolo_port *base, const struct kolo_pointer *pointer);
bool kolo_rdma_reaches_devices(const struct kolo_link *base);
void kolo_rdma_device_gone(struct kolo_port *base, const void *memory);
kolo_status kolo_rdma_control(struct kolo_link *base, const struct kolo_header *header,
                              const uint8_t *payload);
/** Whether the next frame may be taken. A frame in device memory can only be sent from where it
 *  is. */
bool kolo_rdma_may_take_frame(const struct rdma_link *link);
/** Sends a frame, whose header is in the next eager buffer, with the payload read in place. False:
 *  it must be copied. */
bool kolo_rdma_send_in_place(struct rdma_link *link, const struct kolo_frame *frame);
void kolo_rdma_withdraw_writing(struct rdma_link *link, const struct kolo_work *work);
/** For the queue's written(). */
void kolo_rdma_written(struct kolo_rdma_queue *queue, uint16_t mark);
/** The peer has written what @p mark says, by any rail. */
void kolo_rdma_take_mark(struct rdma_link *link, uint16_t mark);

/* rdma_verify.c: whether these messages are what was sent; for links with checksums */
/** Message @p work is whole, and its checksum must be @p sum. It ends if that is so; otherwise the
 *  link ends. Both may be later. */
void kolo_rdma_check(struct rdma_link *link, struct kolo_work *work, uint64_t sum);
/** Verifies a piece. False: there is nothing to verify. */
bool kolo_rdma_go_on_checking(struct rdma_link *link);
/** The link may be about to end: verifies everything that has arrived, so that it is delivered
 *  before. The detail stays what it is. */
void kolo_rdma_finish_checks(struct rdma_link *link);
/** Receive @p work is given up. True: its message was being verified. */
bool kolo_rdma_drop_check(struct rdma_link *link, const struct kolo_work *work);

/* rdma_stripe.c: how these messages are written */
/** Begins to write the message of a frame with is_remote. */
void kolo_rdma_begin_writing(struct rdma_link *link, const struct kolo_frame *frame);
/** Posts as much of it as fits. True: everything is posted. */
bool kolo_rdma_go_on_writing(struct rdma_link *link);
/** A row has arrived, so its memory is not read any more. */
void kolo_rdma_row_is_over(struct rdma_link *link, struct kolo_rdma_row *row);
/** Rows may have to be written again. */
void kolo_rdma_wake_writing(struct rdma_link *link);
/** @p work is about to be given up, and then its memory must not be read any more: finishes its
 *  checksum, if that is being made. */
void kolo_rdma_finish_sum(struct rdma_link *link, const struct kolo_work *work);
/** For the queue's has_written(). */
void kolo_rdma_has_written(struct kolo_rdma_queue *queue, void *context);
void kolo_rdma_passed(struct kolo_rdma_queue *queue, size_t bytes);

#endif
