// SPDX-License-Identifier: Apache-2.0
// The shm transport's internal structures: its port (shm.c), how its links come up and end
// (shm_link.c), and the frames in the ring (shm_frames.c).
#ifndef KOLO_TRANSPORT_SHM_H
#define KOLO_TRANSPORT_SHM_H

#include "transport/link.h"
#include "transport/shm_direct.h"
#include "transport/shm_fds.h"
#include "transport/shm_ring.h"

struct kolo_shm_port {
    struct kolo_port base; /* its doorbell is in `page` */
    struct kolo_listener *listener;
    void *page;
    int page_fd;
};

/** The state of a link; shm_link.c has the table of transitions. */
enum kolo_shm_state {
    KOLO_SHM_CLOSED,       /* new, or ended */
    KOLO_SHM_DIALING,      /* dialler: no connection yet */
    KOLO_SHM_AWAIT_OFFER,  /* dialler: connected and proved */
    KOLO_SHM_ANSWERING,    /* dialler: the memory is mapped, our answer is not sent yet */
    KOLO_SHM_AWAIT_ADOPT,  /* dialler: the peer's own dial stands and will arrive */
    KOLO_SHM_AWAIT_ANSWER, /* acceptor: our offer is made, and sent if `first` is empty */
    KOLO_SHM_OPEN,
    KOLO_SHM_STATES
};

/** A value of link.signal_seen that no record's word ever has, so the link is always looked at. */
#define KOLO_SHM_ALWAYS_LOOK UINT64_MAX

/** Kinds of record in the ring. */
enum kolo_shm_record_kind {
    KOLO_SHM_RECORD_FRAME = 1, /* the core's 32-byte header, payload */
    KOLO_SHM_RECORD_LOAN       /* the core's 32-byte header, descriptor (shm_direct.h) */
};

/** A peer's segment of a board that is not open here yet. */
struct kolo_shm_segment {
    uint32_t board;
    void *base;
    size_t bytes;
};
/** A link's messages and segments of boards. Messages wait until the link is up, or until
 *  they can be sent; their descriptors belong to the boards. */
struct kolo_shm_boards {
    struct kolo_shm_message *waiting;
    size_t waiting_count, waiting_capacity;
    struct kolo_shm_segment *early;
    size_t early_count, early_capacity;
};

struct kolo_shm_link {
    struct kolo_link base;
    enum kolo_shm_state state;
    kolo_deadline deadline;  /* for coming up */
    int64_t up_ns;           /* when it came up, by kolo_boot_ns */
    struct kolo_conn *conn;  /* if DIALING */
    struct kolo_watch watch; /* on the Unix socket; fd -1: none */
    struct kolo_watch timer; /* the deadline while it comes up; fd -1: none */
    struct kolo_watch retry; /* a timer, while messages could not be sent; fd -1: none */
    struct kolo_shm_inbox inbox;
    void *memory; /* both rings and both slot tables; NULL: none yet */
    size_t memory_bytes;
    struct kolo_shm_writer writer;
    struct kolo_shm_reader reader;
    struct kolo_shm_bell bell; /* the peer's doorbell */
    struct kolo_shm_lender lender;
    struct kolo_shm_borrower borrower;
    struct kolo_shm_boards boards;
    struct kolo_shm_message first; /* OFFER or ANSWER that could not be sent yet; kind 0: none */
    int first_fd;                  /* the memory of an OFFER in `first`; -1: none */
};

static inline struct kolo_shm_link *kolo_shm_link_of(struct kolo_link *link)
{
    return (struct kolo_shm_link *)(void *)link;
}

/* shm_link.c: the operations of the same names, and: */
kolo_status kolo_shm_connect(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                             struct kolo_link **link_out) KOLO_NODISCARD;
void kolo_shm_adopt(struct kolo_link *base, int fd);
void kolo_shm_down(struct kolo_link *base);
void kolo_shm_free(struct kolo_link *base);
void kolo_shm_describe(const struct kolo_link *base, char *text, size_t capacity);
/** Handles all messages that have arrived on the Unix socket. */
kolo_status kolo_shm_read_socket(struct kolo_shm_link *link) KOLO_NODISCARD;
/** Sends what waits: OFFER or ANSWER, then the messages of boards. If something cannot be sent now,
 *  this is called again soon. */
kolo_status kolo_shm_send_waiting(struct kolo_shm_link *link) KOLO_NODISCARD;
/** Ends the link; the detail becomes "rank R, shm HOST pid N: detail". */
void kolo_shm_end(struct kolo_shm_link *link, kolo_status why);

/* shm_board.c */
/** Sends waiting messages. KOLO_AGAIN: not all of them can be sent now. */
kolo_status kolo_shm_boards_flush(struct kolo_shm_link *link) KOLO_NODISCARD;
/** Handle the messages SEGMENT and CLOSED_BOARD. */
kolo_status kolo_shm_boards_segment(struct kolo_shm_link *link,
                                    struct kolo_shm_message *message) KOLO_NODISCARD;
kolo_status kolo_shm_boards_closed(struct kolo_shm_link *link,
                                   struct kolo_shm_message *message) KOLO_NODISCARD;
void kolo_shm_boards_fini(struct kolo_shm_boards *boards);

/* shm_frames.c */
bool kolo_shm_push(struct kolo_link *base);
bool kolo_shm_put(struct kolo_link *base, const uint8_t header[KOLO_HEADER_BYTES],
                  const void *payload, size_t bytes);
kolo_status kolo_shm_take(struct kolo_link *base, const uint8_t header[KOLO_HEADER_BYTES],
                          void *dst, size_t bytes);
bool kolo_shm_pull(struct kolo_link *base);
/** Delivers everything that is in the ring, when the peer writes no more. */
void kolo_shm_drain(struct kolo_shm_link *link);
bool kolo_shm_is_remote(struct kolo_link *base, const struct kolo_work *work);
bool kolo_shm_claim(struct kolo_link *base, uint64_t cookie);
bool kolo_shm_release(struct kolo_link *base, uint64_t cookie);
void kolo_shm_withdraw(struct kolo_link *base, struct kolo_work *work);
void kolo_shm_span_gone(struct kolo_link *base, uint64_t id);

#endif
