// SPDX-License-Identifier: Apache-2.0
// Ports and pairs of inproc: how threads of one process find each other, and what lies between two
// of them. Private to the inproc files.
#ifndef KOLO_TRANSPORT_INPROC_PAIR_H
#define KOLO_TRANSPORT_INPROC_PAIR_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/link.h"

enum { KOLO_LINE_BYTES = 64 };

enum loan_state { LOAN_PENDING, LOAN_TAKEN, LOAN_DONE, LOAN_WITHDRAWN };

struct kolo_inproc_loan {
    _Atomic int state;
    struct kolo_frame frame;
    struct kolo_inproc_loan *next;
};

struct kolo_inproc_node {
    struct kolo_inproc_node *_Atomic next;
    struct kolo_header header;
    struct kolo_inproc_loan *loan; /* NULL: the payload is in the node */
    uint8_t payload[];
};

/* `head` is the node that was consumed last (initially an empty one); its `next` is the first one
 * to consume. */
struct kolo_inproc_queue {
    struct kolo_inproc_node *head; /* used by the consumer only */
    uint8_t apart[KOLO_LINE_BYTES];
    struct kolo_inproc_node *tail; /* used by the producer only */
    uint8_t apart_too[KOLO_LINE_BYTES];
};

/** One member's segment of a board (inproc_board.c). */
struct kolo_inproc_segment {
    struct kolo_inproc_segment *next; /* in its owner's list */
    atomic_int refs;
    uint32_t board;
    uint64_t taken; /* bit i: member i has it; protected by the owner's mutex */
    size_t bytes;
    uint8_t *memory;
};

struct kolo_inproc_port {
    struct kolo_port base;
    struct kolo_inproc_port *next; /* in the registry */
    uint64_t cookie;
    int rank;
    atomic_int refs;
    _Atomic uint32_t bell;
    atomic_bool has_incoming;
    atomic_bool has_news; /* another rank opened a board */
    pthread_mutex_t mutex;
    bool is_closed;                       /* protected by mutex */
    int event_fd;                         /* protected by mutex */
    struct kolo_inproc_pair *incoming;    /* protected by mutex */
    struct kolo_inproc_segment *segments; /* protected by mutex: of boards that are open here */
    struct kolo_inproc_pair *offered;     /* used by the owner only: what poll passes to connect */
};

struct kolo_inproc_pair {
    atomic_int refs;
    struct kolo_inproc_port *ports[2];
    atomic_bool is_closed[2];
    struct kolo_inproc_queue queues[2]; /* queues[i]: toward side i */
    struct kolo_inproc_pair *next;      /* in a list of incoming pairs */
};

/** Drops a reference; @p port may be NULL. */
void kolo_inproc_port_unref(struct kolo_inproc_port *port);
void kolo_inproc_register(struct kolo_inproc_port *port);
void kolo_inproc_unregister(struct kolo_inproc_port *port);
/** The live port of @p cookie, with a reference for the caller; NULL: there is none. */
struct kolo_inproc_port *kolo_inproc_find(uint64_t cookie);
/** Wakes the rank of @p port if it sleeps. To be called after something was published for it. */
void kolo_inproc_ring(struct kolo_inproc_port *port);

/** The port of the rank at the other end of an inproc link (inproc.c). */
struct kolo_inproc_port *kolo_inproc_peer(struct kolo_link *link);

/** Drops a reference; @p pair may be NULL. */
void kolo_inproc_pair_unref(struct kolo_inproc_pair *pair);
int kolo_inproc_side(const struct kolo_inproc_pair *pair, const struct kolo_inproc_port *port);
/** Tells the other side that nothing moves on our side any more. */
void kolo_inproc_pair_close(struct kolo_inproc_pair *pair, int side);
/** Takes the pair that rank @p peer made, even if that rank has closed since; NULL: it made
 *  none. */
struct kolo_inproc_pair *kolo_inproc_take(struct kolo_inproc_port *ours, int peer);
/** Takes the pair that @p theirs made, or makes one and puts it into their list. Returns NULL with
 *  *status_out set on failure. */
struct kolo_inproc_pair *kolo_inproc_join(struct kolo_inproc_port *ours,
                                          struct kolo_inproc_port *theirs, kolo_status *status_out);

#endif
