// SPDX-License-Identifier: Apache-2.0
// How a link whose queue pair broke is recovered while its peer lives, for example after a cable
// was out or an interface went down and up.
//
// The connection that the link began with still stands, and is proved. Over it both sides agree, in
// rounds, on a fresh pair:
//
//   (broken)  each stops its pair, so that nothing of it can arrive any more, and delivers what
//             had arrived
//   OFFER     round, how many messages have arrived here in all, and a fresh pair
//             then: what the peer has is over; the pair is joined to the peer's
//   JOINED    mine is joined to yours
//             then: all else is posted again
//
// Why each message arrives exactly once: a side counts after its pair has stopped, and posts again
// after it has the peer's count. Messages of a pair arrive in order, so a count says which ones
// arrived. What is posted again is still in memory, since nobody was told that it is over. A write
// that may have arrived is written again: the same bytes, into memory that the peer was not told of
// yet.
//
// A side that sees its pair break waits a little, longer after each try, and for as long as its own
// port is down; then it begins a round. A side that hears of a round takes part at once. If a round
// fails, another one follows; blocks of older rounds are dropped, which is possible because the
// connection keeps their order. The link ends, with the error of the break, if no round has joined
// within KOLO_PEER_TIMEOUT after the first break, or if TRIES rounds failed. Tries are counted
// until what was posted again has arrived.
#ifndef KOLO_TRANSPORT_RDMA_RESUME_H
#define KOLO_TRANSPORT_RDMA_RESUME_H

#include "transport/rdma_queue.h"

enum kolo_rdma_resume_step {
    RESUME_NONE,    /* the pair works, as far as is known */
    RESUME_WAITS,   /* until it begins a round */
    RESUME_DRAINS,  /* in a round, until what had arrived is delivered */
    RESUME_OFFERED, /* our offer is sent, until theirs arrives */
    RESUME_JOINED   /* our pair is joined, until theirs is */
};

struct rdma_link;
struct rdma_resume {
    enum kolo_rdma_resume_step step;
    bool is_unproved; /* NONE: nothing has arrived by the pair since the last round */
    bool has_theirs;  /* their offer of this round has arrived */
    uint32_t round, tries;
    uint64_t proves; /* if is_unproved: the send whose end shows that the pair works */
    unsigned replayed;
    kolo_deadline begun, until, begins_at; /* begun, until: of the first break; begins_at: of the
                                            * next round */
    struct kolo_rdma_hello theirs;
    char *why;       /* what broke it; NULL: no memory for it */
    bool is_hearsay; /* the peer said so: a cause of our own is more specific */
    char *failed;    /* why the last round failed here; NULL: it did not */
};

/** For the queue's broke(). */
bool kolo_rdma_resume_broke(struct kolo_rdma_queue *queue);
/** A block arrived over the connection of a link that uses RDMA. May end the link. */
void kolo_rdma_resume_heard(struct rdma_link *link, const struct kolo_rdma_hello *theirs);
/** Continues as far as possible. Must not be called from within a callback of the queue. Returns
 *  when to call again; KOLO_NEVER: nothing is to be done. */
kolo_deadline kolo_rdma_resume_step(struct rdma_link *link);
/** Something arrived by the pair. */
void kolo_rdma_resume_proved(struct rdma_link *link);
/** The link is down. */
void kolo_rdma_resume_end(struct rdma_resume *resume);

#endif
