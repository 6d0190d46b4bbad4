// SPDX-License-Identifier: Apache-2.0
// Records to the owners of their pieces, in rounds of what fits a small desk, so that nobody holds a
// second copy of what he sends; what a rank owns itself stays where it is. What comes from one rank
// stands together, piece after piece, each in order as the rank sorted it; who reads a piece merges
// them (coco_run). On one rank nothing moves.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"

/* Records on the desk of a round, for all other ranks together: at most DESK, and one of DESK_PART
 * parts of what a rank has in the mean. */
enum { DESK = 1 << 15, DESK_PART = 8 };
/* Records that are asked for before their turn: they stand anywhere in memory. */
enum { AHEAD = 16 };

/* What this rank has for another, or gets from it. */
struct side {
    size_t left, at;      /* records to come; received: where in `in` the next goes */
    size_t piece, offset; /* sent: the next */
};

struct route {
    struct kolo_coco_share *share;
    size_t most; /* records between two ranks in a round */
    size_t rounds, incoming;
    struct side *to, *from;        /* per rank */
    size_t *start;                 /* per piece: where this rank's records of it begin in order */
    struct kolo_coco_record *desk; /* `most` for each other rank */
    size_t *to_counts, *to_places, *from_counts, *from_places; /* per rank, of a round */
};

/* Records that this rank has for another on a desk. */
static size_t desk_of(const struct kolo_coco_share *share)
{
    size_t sum = 0, others = share->ranks - 1;
    for (size_t p = 0; p < share->pieces; p++)
        sum += (size_t)share->piece[p].total;
    size_t desk = sum / share->ranks / DESK_PART;
    desk = desk < DESK ? desk : DESK;
    return desk / others > 0 ? desk / others : 1;
}

/* The most records that one rank has for another. */
static size_t longest(const struct route *route, size_t *sums)
{
    const struct kolo_coco_share *share = route->share;
    size_t most = 0;
    for (size_t r = 0; r < share->ranks; r++) {
        memset(sums, 0, share->ranks * sizeof *sums);
        for (size_t p = 0; p < share->pieces; p++) {
            size_t *sum = &sums[share->piece[p].owner];
            *sum += share->piece[p].owner != r ? kolo_coco_count_of(share, r, p) : 0;
            most = *sum > most ? *sum : most;
        }
    }
    return most;
}

static void plan(struct route *route)
{
    const struct kolo_coco_share *share = route->share;
    size_t start = 0;
    for (size_t p = 0; p < share->pieces; p++) {
        size_t owner = share->piece[p].owner;
        route->start[p] = start;
        start += kolo_coco_count_of(share, share->rank, p);
        route->to[owner].left +=
            owner != share->rank ? kolo_coco_count_of(share, share->rank, p) : 0;
        for (size_t r = 0; owner == share->rank && r < share->ranks; r++)
            route->from[r].left += r != share->rank ? kolo_coco_count_of(share, r, p) : 0;
    }
    for (size_t r = 0; r < share->ranks; r++) {
        route->from[r].at = route->incoming;
        route->incoming += route->from[r].left;
    }
    route->most = desk_of(share);
    route->rounds = (longest(route, route->to_counts) + route->most - 1) / route->most;
}

static kolo_status allocate_plan(struct route *route)
{
    const struct kolo_coco_share *share = route->share;
    size_t ranks = share->ranks;
    route->to = kolo_calloc(ranks, sizeof *route->to);
    route->from = kolo_calloc(ranks, sizeof *route->from);
    route->start = kolo_calloc(share->pieces, sizeof *route->start);
    route->to_counts = kolo_calloc(ranks, sizeof *route->to_counts);
    route->to_places = kolo_calloc(ranks, sizeof *route->to_places);
    route->from_counts = kolo_calloc(ranks, sizeof *route->from_counts);
    route->from_places = kolo_calloc(ranks, sizeof *route->from_places);
    bool is_there = route->to && route->from && route->start && route->to_counts &&
                    route->to_places && route->from_counts && route->from_places;
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static kolo_status allocate_records(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    share->in = kolo_calloc(route->incoming, sizeof *share->in);
    route->desk = kolo_calloc(route->most * (share->ranks - 1), sizeof *route->desk);
    return share->in && route->desk ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct route *route)
{
    kolo_free_memory(route->to);
    kolo_free_memory(route->from);
    kolo_free_memory(route->start);
    kolo_free_memory(route->to_counts);
    kolo_free_memory(route->to_places);
    kolo_free_memory(route->from_counts);
    kolo_free_memory(route->from_places);
    kolo_free_memory(route->desk);
}

/* ---- the exchange ---- */

static void write_desk(struct route *route, size_t rank)
{
    const struct kolo_coco_share *share = route->share;
    struct side *side = &route->to[rank];
    size_t desk_at = (rank - (rank > share->rank)) * route->most;
    struct kolo_coco_record *desk = route->desk + desk_at;
    size_t count = side->left < route->most ? side->left : route->most;
    for (size_t i = 0; i < count;) {
        size_t here = kolo_coco_count_of(share, share->rank, side->piece);
        if (share->piece[side->piece].owner != rank || side->offset == here) {
            side->piece++;
            side->offset = 0;
            continue;
        }
        for (; i < count && side->offset < here; i++, side->offset++) {
            size_t at = route->start[side->piece] + side->offset;
            uint32_t number = share->order[at];
            if (side->offset + AHEAD < here)
                __builtin_prefetch(&share->images->record[share->order[at + AHEAD]]);
            desk[i] = share->images->record[number];
            desk[i].place = share->place_of[number];
        }
    }
    side->left -= count;
    route->to_counts[rank] = count;
    route->to_places[rank] = rank != share->rank ? desk_at : 0;
}

static kolo_status exchange(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    kolo_status status = KOLO_OK;
    for (size_t round = 0; status == KOLO_OK && round < route->rounds; round++) {
        for (size_t r = 0; r < share->ranks; r++) {
            struct side *from = &route->from[r];
            write_desk(route, r);
            route->from_counts[r] = from->left < route->most ? from->left : route->most;
            route->from_places[r] = from->at;
            from->left -= route->from_counts[r];
            from->at += route->from_counts[r];
        }
        status = kolo_alltoallv(share->comm, route->desk, route->to_counts, route->to_places,
                                share->in, route->from_counts, route->from_places,
                                KOLO_OPAQUE(sizeof *share->in), share->opts, NULL);
    }
    return status;
}

kolo_status kolo_coco_route(struct kolo_coco_share *share)
{
    if (share->ranks == 1)
        return KOLO_OK;
    struct route route = {.share = share};
    kolo_status status;
    KOLO_TRY(kolo_coco_agree(share, allocate_plan(&route)));
    plan(&route);
    KOLO_TRY(kolo_coco_agree(share, allocate_records(&route)));
    KOLO_TRY(exchange(&route));
out:
    release(&route);
    return status;
}
