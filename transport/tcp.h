// SPDX-License-Identifier: Apache-2.0
// Shared by tcp.c (links), tcp_port.c (listeners, options, watchdog), tcp_address.c (published
// places), tcp_rx.c (incoming data), tcp_tx.c (outgoing data), and the rdma files, whose links
// begin as TCP links.
#ifndef KOLO_TRANSPORT_TCP_H
#define KOLO_TRANSPORT_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/conn_private.h"
#include "transport/link.h"

enum {
    TCP_PLACES_MAX = 16,         /* how many places a rank publishes */
    TCP_RIVALS_MAX = 8,          /* the dialler has given up older ones by then */
    TCP_TX_FRAMES = 16,          /* frames handed to the kernel by one call */
    TCP_TX_BATCH_BYTES = 1 << 20 /* a call that has this many bytes gets no further frame */
};

/** A frame on its way into the socket. */
struct tcp_tx_frame {
    uint8_t header[KOLO_HEADER_BYTES_MAX];
    struct kolo_frame frame;
    uint8_t *copy; /* a copy of the rest of the payload, after a withdrawal; otherwise NULL */
};

struct tcp_tx {
    struct tcp_tx_frame frames[TCP_TX_FRAMES];
    size_t first, count;
    size_t offset;     /* how many bytes of the first frame, including its header, were sent */
    uint64_t passed;   /* bytes of the frames that were sent completely */
    uint64_t ended;    /* the value of `passed` behind the last message whose send has ended */
    bool watches_room; /* EPOLLOUT is requested */
    int error;         /* of a send; reported when everything that had arrived has been read */
};

struct tcp_rx {
    uint8_t *buf;
    size_t head, tail;
    int held; /* for how many looks the early frame with its header in buf has waited; 0: none */
    bool is_in_frame;
    bool is_running;
};

struct tcp_link {
    struct kolo_link base; /* must be first: the core uses this pointer */
    struct tcp_socket {
        struct kolo_watch watch; /* must be first: ready gets this pointer; fd -1: none */
        struct tcp_link *link;
    } socket;
    struct tcp_deadline {
        struct kolo_conn_timer timer; /* must be first: fire gets this pointer */
        struct tcp_link *link;
    } deadline;            /* of CONNECTING: the earliest of the next three */
    kolo_deadline dial_by; /* the deadline, also of each dial of ours */
    kolo_deadline warn_at; /* that the dial takes long; KOLO_NEVER: this was said, or counted */
    kolo_deadline
        rival_at; /* when a rival is welcomed in place of ours; KOLO_NEVER: there is none */
    struct kolo_conn *dial; /* the one under way */
    int64_t pause_ms;       /* before the next one */
    struct kolo_race race;
    /** Connections that the peer proved in addition to the one that was welcomed or is ours, oldest
     *  first. */
    struct tcp_rivals {
        int fds[TCP_RIVALS_MAX];
        int count;
    } rivals;
    unsigned patience;   /* how many rivals were welcomed in place of ours */
    bool is_turned_away; /* a connection that we proved has ended */
    bool is_ours;        /* the connection that there is is one that we dialled */
    bool is_joined; /* it stands, and both sides know it; anything more is for its rider to do */
    struct tcp_tx tx;
    struct tcp_rx rx;
    kolo_deadline stuck_since; /* bytes are unacknowledged and nothing came back since; 0: not so */
    struct tcp_link *next;     /* in the port's list */
    char place[64];            /* "10.0.0.5:4711" */
};

/** A timer of the port. */
struct tcp_port_timer {
    struct kolo_conn_timer timer; /* must be first: fire gets this pointer */
    struct tcp_port *port;
};

/** A transport whose links begin as TCP links and that settles more once the connection stands
 *  (rdma). */
struct tcp_rider {
    size_t link_bytes; /* size of its link struct, which begins with a tcp_link */
    /** How many bytes of a published address precede the places. If that is more than the address
     *  has, the address is invalid. */
    size_t (*prefix)(const struct kolo_address *address);
    /** The connection stands. The rider then calls kolo_tcp_come_up() or set_down, from within this
     *  call or later. */
    void (*joined)(struct tcp_link *tcp);
    /** The connection has something to read, or has ended. */
    void (*ready)(struct tcp_link *tcp);
};

struct tcp_port {
    struct kolo_port base;         /* must be first: the core uses this pointer */
    const struct tcp_rider *rider; /* NULL: none */
    uint8_t purpose;               /* of its greetings */
    struct kolo_listener *listeners[TCP_PLACES_MAX];
    size_t listener_count;
    struct kolo_place places[TCP_PLACES_MAX]; /* as published */
    size_t place_count;
    int turn; /* this rank's number on its host; -1: not counted yet */
    struct tcp_port_timer watchdog, drain;
    struct tcp_link *first;               /* the list of all links */
    kolo_deadline warned_until;           /* until then no other dial is said to take long */
    bool has_warned;                      /* it has warned of the congestion control */
    char congestion[KOLO_CONGESTION_MAX]; /* the system's; "": not known */
};

extern const struct kolo_transport kolo_transport_tcp;

/* tcp_address.c */
kolo_status kolo_tcp_write_places(const struct kolo_place *places, size_t count,
                                  struct kolo_address *address_out) KOLO_NODISCARD;
/** Reads at most TCP_PLACES_MAX places. ERR_DATA. */
kolo_status kolo_tcp_read_places(const uint8_t *data, size_t bytes, struct kolo_place *places_out,
                                 size_t *count_out) KOLO_NODISCARD;
/** As in struct kolo_transport: the first place's speed, and how many are as good. */
struct kolo_line kolo_tcp_line(const struct kolo_address *address);

/* tcp_port.c */
const struct kolo_settings *kolo_tcp_settings(const struct tcp_port *port);
kolo_deadline kolo_tcp_soon(int64_t us);
/** The time between two checks for silent peers. */
int64_t kolo_tcp_watch_us(const struct tcp_port *port);
/** The peer's places. ERR_DATA: what it published is invalid. */
kolo_status kolo_tcp_places_of(const struct tcp_port *port, const struct kolo_peer *peer,
                               struct kolo_place *places_out, size_t *count_out) KOLO_NODISCARD;
/** Fills in a zeroed port and listens. kolo_tcp_fini_port undoes it, and must be called even if it
 *  fails. */
kolo_status kolo_tcp_init_port(struct tcp_port *port, struct kolo_endpoint *endpoint,
                               const struct kolo_transport *transport, uint8_t purpose,
                               struct kolo_address *address_out) KOLO_NODISCARD;
void kolo_tcp_fini_port(struct tcp_port *port);
void kolo_tcp_set_options(struct tcp_port *port, int fd);
kolo_status kolo_tcp_probe(const struct kolo_settings *settings, struct kolo_why *why_out);
kolo_status kolo_tcp_open(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                          struct kolo_address *address_out);
void kolo_tcp_close(struct kolo_port *base);
bool kolo_tcp_reaches(const struct kolo_port *base, const struct kolo_peer *peer,
                      struct kolo_why *why_out);

/* tcp.c, tcp_rx.c, tcp_tx.c: the operations of the same names, and: */
kolo_status kolo_tcp_connect(struct kolo_port *base, int peer, int fd, kolo_deadline deadline,
                             struct kolo_link **link_out);
void kolo_tcp_adopt(struct kolo_link *base, int fd);
bool kolo_tcp_pull(struct kolo_link *base);
bool kolo_tcp_is_drained(const struct kolo_link *base);
bool kolo_tcp_has_undelivered(const struct kolo_link *base);
void kolo_tcp_describe(const struct kolo_link *base, char *text, size_t capacity);
void kolo_tcp_down(struct kolo_link *base);
void kolo_tcp_free_link(struct kolo_link *base);
/** Sets the link UP: frames may be sent. */
void kolo_tcp_come_up(struct tcp_link *tcp);

/** Reads and delivers what has arrived; ends the link at the end of the stream. True: something was
 *  moved. */
bool kolo_tcp_receive(struct tcp_link *tcp);
bool kolo_tcp_push(struct kolo_link *base);
void kolo_tcp_withdraw(struct kolo_link *base, struct kolo_work *work);
/** Sets whether the poller tells when the socket has room. */
void kolo_tcp_watch_room(struct tcp_link *tcp, bool watches_room);
/** Drops all outgoing frames. */
void kolo_tcp_tx_drop(struct tcp_link *tcp);
/** Sets the link down with a detail such as "rank 3 at tcp 10.0.0.5:4711: <what the error means>".
 *  error 0: end of the stream. */
void kolo_tcp_fail(struct tcp_link *tcp, int error);

#endif
