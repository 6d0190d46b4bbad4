// SPDX-License-Identifier: Apache-2.0
// How a link whose queue pair broke, while its peer lives, is brought back: a cable that was out,
// an interface that went down and up.
//
// The connection that the link began as still stands, and is proved. Over it both sides agree, in
// rounds, on a fresh pair:
//
//   (broken)  each stops its pair, so that nothing of it can arrive any more, and delivers what
//             had arrived
//   OFFER     round, how many messages have arrived here in all, and a fresh pair
//             then: what the peer has is over; the pair is joined to the peer's
//   JOINED    mine is joined to yours
//             then: all else is posted again
//
// Why each message arrives once: a side counts after its pair has stopped, and posts again after it
// has the peer's count. Messages of a pair arrive in order, so a count says which. What is posted
// again lies where it lay, since nobody was told that it is over. A write that may have arrived is
// written again: the same bytes, into memory that the peer has not been told of.
//
// Whoever sees its pair break waits a little, more after each try, and as long as its own port is
// down; then it begins a round. Who hears of a round takes part at once. A round that fails is
// followed by another; blocks of older ones are dropped: the connection keeps their order. The
// last may be joined KOLO_PEER_TIMEOUT after the first break, and as the TRIES-th; else the link
// ends with the error that it broke with. Tries are counted until what was posted again has
// arrived.
#ifndef KOLO_TRANSPORT_RDMA_RESUME_H
#define KOLO_TRANSPORT_RDMA_RESUME_H

#include "transport/rdma_queue.h"

enum kolo_rdma_resume_step {
    RESUME_NONE,    /* the pair works, as far as is known */
    RESUME_WAITS,   /* to begin a round */
    RESUME_DRAINS,  /* in a round: until what had arrived is delivered */
    RESUME_OFFERED, /* our offer is out; until theirs is here */
    RESUME_JOINED   /* our pair is joined; until theirs is */
};

struct rdma_link;
struct rdma_resume {
    enum kolo_rdma_resume_step step;
    bool is_unproved; /* NONE: since the last round no word has come by the pair */
    bool has_theirs;  /* their offer of this round */
    uint32_t round, tries;
    uint64_t proves; /* is_unproved: the send with whose end the pair has shown that it works */
    unsigned replayed;
    kolo_deadline begun, until, begins_at; /* of the first break; begins_at: of the next round */
    struct kolo_rdma_hello theirs;
    char *why;       /* what broke it; NULL: no memory for it */
    bool is_hearsay; /* it broke there: a cause of our own says more */
};

/** For the queue's broke(). */
bool kolo_rdma_resume_broke(struct kolo_rdma_queue *queue);
/** A block came over the connection of a link that goes by RDMA. May end the link. */
void kolo_rdma_resume_heard(struct rdma_link *link, const struct kolo_rdma_hello *theirs);
/** Goes on, as far as it can. Not from within a callback of the queue. Gives when to look again;
 * KOLO_NEVER: all is well. */
kolo_deadline kolo_rdma_resume_step(struct rdma_link *link);
/** Something came by the pair. */
void kolo_rdma_resume_proved(struct rdma_link *link);
/** The link is down. */
void kolo_rdma_resume_end(struct rdma_resume *resume);

#endif
