// SPDX-License-Identifier: Apache-2.0
// Further queue pairs of a link (rails), on other ports or several on one port. The link's own pair
// is the first rail and carries everything that has an order: frames, offers, marks. The others
// carry only pieces of long messages that are written in place (rdma_stripe.c).
//
// They come up while the link is already working, by control frames of the link. The side with the
// lower rank leads:
//
//   HAVE    (the other side says it) my ports and their addresses, and how many rails I want
//   OFFER   (the leader chooses pairs of ports) rail n: here is my queue pair, for your port k
//   ANSWER  here is mine, joined to yours
//   READY   mine is joined to yours; then both send a first message, and use the rail when it is
//           known to have arrived
//   OVER    rail n: nothing of it moves here any more, and so many requests of yours had arrived
//
// A rail that breaks, in whatever state, is stopped on both sides. Each delivers what had arrived
// by it, and says in OVER how much that was. When both have stopped, the first rail writes again
// what the other side's count does not cover. Not before: until then writes of the broken rail
// could still land in memory that belongs to the program again. The link goes on, unless the device
// does not destroy the rail's pair: then the link ends, and the memory that the pair may still
// write is cut off. A rail that is over does not come back. The first rail is replaced
// (rdma_resume.h), or ends the link.
#ifndef KOLO_TRANSPORT_RDMA_RAILS_H
#define KOLO_TRANSPORT_RDMA_RAILS_H

#include "transport/rdma_direct.h"
#include "transport/rdma_queue.h"

struct rdma_link;
struct rdma_nic;
struct rdma_port;

enum rdma_rail_step {
    RAIL_NONE,    /* there is no rail with that number */
    RAIL_OFFERED, /* until the peer answers */
    RAIL_JOINED,  /* until the peer is ready */
    RAIL_PROVES,  /* until our first message is known to have arrived */
    RAIL_GOES,
    RAIL_STOPS, /* until what had arrived is delivered */
    RAIL_OVER   /* the peer was told; how much of ours it has is known when it says the same */
};

struct rdma_rail {
    struct rdma_link *link;
    struct rdma_nic *nic;
    struct kolo_rdma_queue *queue;
    struct kolo_rdma_gid gid, theirs;
    enum rdma_rail_step step;
    uint8_t number;
    kolo_deadline stops_until; /* STOPS: what has not arrived by then does not count */
    uint64_t arrived;          /* the highest number of ours that the device reported as arrived */
    bool heard_over;           /* the peer has said OVER, and how many had arrived there: */
    uint64_t received;
};

struct rdma_rails {
    struct rdma_rail all[KOLO_RDMA_RAILS_MAX];        /* indexed by number; [0] is not used */
    struct kolo_rdma_pace paces[KOLO_RDMA_RAILS_MAX]; /* [0]: the first rail's */
};

/** The two ports that a rail joins: numbers of ours, and of the peer's. */
struct rdma_rail_pair {
    int ours, theirs;
};
/** Chooses @p wanted pairs including the first, {0, 0}. 0: as many as there are ports on both sides
 *  that reach each other, each used once. If more are wanted, ports are used again from the
 *  beginning. Returns how many there are. Pure. */
int kolo_rdma_rails_choose(const struct kolo_rdma_gids *ours, int our_count,
                           const struct kolo_rdma_gids *theirs, int their_count, int wanted,
                           struct rdma_rail_pair pairs_out[KOLO_RDMA_RAILS_MAX]);

/** The link is up by RDMA: begins to make rails, if any are wanted. */
void kolo_rdma_rails_begin(struct rdma_link *link);
/** Handles a control frame about rails. Any status but OK ends the link. */
kolo_status kolo_rdma_rails_heard(struct rdma_link *link, const struct kolo_header *header,
                                  const uint8_t *payload) KOLO_NODISCARD;
enum { KOLO_RDMA_RAIL_FRAME = KOLO_CONTROL_TRANSPORT + 1 };
/** Continues stopping those that stop. Must not be called from within a callback of a queue. True:
 *  there are still some. */
bool kolo_rdma_rails_step(struct rdma_link *link);
/** The device of @p nic cannot be used any more, for the reason in the detail. */
void kolo_rdma_rails_lost(struct rdma_nic *nic);
/** The link is down: when this returns true, nobody touches memory by its rails any more. False:
 *  some device does not release it. */
bool kolo_rdma_rails_stop(struct rdma_link *link);
void kolo_rdma_rails_close(struct rdma_link *link);
/** Appends ", rxe1 port 1 to RoCE v2 10.0.0.2" for each rail that works. */
void kolo_rdma_rails_describe(const struct rdma_link *link, char *text, size_t capacity);

#endif
