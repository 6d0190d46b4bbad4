// SPDX-License-Identifier: Apache-2.0
// Further queue pairs of a link (rails): of other ports, or several of one. The link's own pair is
// the first rail and carries all that has an order: frames, offers, marks. The others carry pieces
// of long messages that are written in place (rdma_stripe.c), and nothing else.
//
// They come up after the link is up, by control frames of it, while it works; who has the lower
// rank leads:
//
//   HAVE    (the other side says it) my ports and their addresses, and how many rails I want
//   OFFER   (the leader chooses pairs of ports) rail n: here is my queue pair, for your port k
//   ANSWER  here is mine, joined to yours
//   READY   mine is joined to yours; then both send a first message, and use the rail when it is
//           known to have arrived
//   OVER    rail n: nothing of it moves here any more, and so many requests of yours had arrived
//
// A rail that breaks, wherever it stands, is stopped, what had arrived by it is delivered, and OVER
// says how much that was; the other side does the same. What of a message the count does not cover
// is then written again by the first rail: before both have stopped something of the rail could
// still land, in memory that is the program's again. The link goes on, unless the device does not
// destroy the rail's pair: what that may still write is cut off with the link's end. A rail that is
// over does not come back; the first comes back by itself (rdma_resume.h), or ends the link.
#ifndef KOLO_TRANSPORT_RDMA_RAILS_H
#define KOLO_TRANSPORT_RDMA_RAILS_H

#include "transport/rdma_direct.h"
#include "transport/rdma_queue.h"

struct rdma_link;
struct rdma_nic;
struct rdma_port;

enum rdma_rail_step {
    RAIL_NONE,    /* there is no rail of that number */
    RAIL_OFFERED, /* until the peer answers */
    RAIL_JOINED,  /* until the peer is ready */
    RAIL_PROVES,  /* until our first message is known to have arrived */
    RAIL_GOES,
    RAIL_STOPS, /* until what had arrived is delivered */
    RAIL_OVER   /* the peer was told; what it had of ours is known when it says the same */
};

struct rdma_rail {
    struct rdma_link *link;
    struct rdma_nic *nic;
    struct kolo_rdma_queue *queue;
    struct kolo_rdma_gid gid, theirs;
    enum rdma_rail_step step;
    uint8_t number;
    kolo_deadline stops_until; /* STOPS: then what has not come does not count */
    uint64_t arrived;          /* our requests of which the device has told: up to this one */
    bool heard_over;           /* and so many had arrived there: */
    uint64_t received;
};

struct rdma_rails {
    struct rdma_rail all[KOLO_RDMA_RAILS_MAX];        /* by number; [0] is not used */
    struct kolo_rdma_pace paces[KOLO_RDMA_RAILS_MAX]; /* [0]: of the first */
};

/** Which ports make a rail: numbers of ours, and of the peer's. */
struct rdma_rail_pair {
    int ours, theirs;
};
/** Chooses @p wanted pairs, the first, {0, 0}, among them; 0: as many as there are ports on both
 * sides that reach each other, each used once. More than these begin anew. Gives how many there
 * are. Pure. */
int kolo_rdma_rails_choose(const struct kolo_rdma_gids *ours, int our_count,
                           const struct kolo_rdma_gids *theirs, int their_count, int wanted,
                           struct rdma_rail_pair pairs_out[KOLO_RDMA_RAILS_MAX]);

/** The link is up by RDMA: rails begin, if there shall be any. */
void kolo_rdma_rails_begin(struct rdma_link *link);
/** A control frame about them. Any status but OK ends the link. */
kolo_status kolo_rdma_rails_heard(struct rdma_link *link, const struct kolo_header *header,
                                  const uint8_t *payload) KOLO_NODISCARD;
enum { KOLO_RDMA_RAIL_FRAME = KOLO_CONTROL_TRANSPORT + 1 };
/** Goes on with those that stop. Not from within a callback of a queue. True: there are some
 * yet. */
bool kolo_rdma_rails_step(struct rdma_link *link);
/** The device of @p nic is of no use any more, for the reason in the detail. */
void kolo_rdma_rails_lost(struct rdma_nic *nic);
/** The link is down: from here on nobody touches memory by them. False: some device does not let
 * go. */
bool kolo_rdma_rails_stop(struct rdma_link *link);
void kolo_rdma_rails_close(struct rdma_link *link);
/** Adds ", rxe1 port 1 to RoCE v2 10.0.0.2" for each that goes. */
void kolo_rdma_rails_describe(const struct rdma_link *link, char *text, size_t capacity);

#endif
