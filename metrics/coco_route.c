// SPDX-License-Identifier: Apache-2.0
// Sends records to the owners of their pieces, in ROUNDS rounds with a part of the records each, so
// that no rank holds a second copy of all that it sends. Records of a rank's own pieces stay where
// they are.
//
// Records from one rank are adjacent, piece after piece, each in the order in which that rank
// sorted them; whoever reads a piece merges them (coco_run.c). With one rank nothing is sent. Owns
// the send buffer; the records received belong to the share.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"

/* The same for every evaluation, so that the number of collectives is fixed. */
enum { ROUNDS = 16 };
/* How many records ahead to prefetch: they may be anywhere in memory. */
enum { AHEAD = 16 };

/* What this rank sends to another, or receives from it. */
struct side {
    size_t total, at;     /* number of records; if received, where the next goes in `in` */
    size_t piece, offset; /* of the next record to send */
};

struct route {
    struct kolo_coco_share *share;
    size_t incoming;
    struct side *to, *from;        /* per rank */
    size_t *start;                 /* per piece: where this rank's records begin in `order` */
    struct kolo_coco_record *desk; /* the records that are sent in a round */
    size_t desk_records;
    size_t *to_counts, *to_places, *from_counts, *from_places; /* per rank, in a round */
};

/* Returns how many of @p total records are sent in a round. */
static size_t part_of(size_t total, size_t round)
{
    return total * (round + 1) / ROUNDS - total * round / ROUNDS;
}

static void plan(struct route *route)
{
    const struct kolo_coco_share *share = route->share;
    size_t start = 0;
    for (size_t p = 0; p < share->pieces; p++) {
        size_t owner = share->piece[p].owner;
        route->start[p] = start;
        start += kolo_coco_count_of(share, share->rank, p);
        route->to[owner].total +=
            owner != share->rank ? kolo_coco_count_of(share, share->rank, p) : 0;
        for (size_t r = 0; owner == share->rank && r < share->ranks; r++)
            route->from[r].total += r != share->rank ? kolo_coco_count_of(share, r, p) : 0;
    }
    for (size_t r = 0; r < share->ranks; r++) {
        route->from[r].at = route->incoming;
        route->incoming += route->from[r].total;
        route->desk_records += (route->to[r].total + ROUNDS - 1) / ROUNDS;
    }
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
    route->desk = kolo_calloc(route->desk_records, sizeof *route->desk);
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

/* Copies the next records for a rank to the send buffer. */
static void write_desk(struct route *route, size_t rank, struct kolo_coco_record *desk,
                       size_t count)
{
    const struct kolo_coco_share *share = route->share;
    struct side *side = &route->to[rank];
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
}

static void prepare(struct route *route, size_t round)
{
    size_t at = 0;
    for (size_t r = 0; r < route->share->ranks; r++) {
        struct side *from = &route->from[r];
        route->to_places[r] = at;
        route->to_counts[r] = part_of(route->to[r].total, round);
        write_desk(route, r, route->desk + at, route->to_counts[r]);
        at += route->to_counts[r];
        route->from_places[r] = from->at;
        route->from_counts[r] = part_of(from->total, round);
        from->at += route->from_counts[r];
    }
}

static kolo_status exchange(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    kolo_status status = KOLO_OK;
    for (size_t round = 0; status == KOLO_OK && round < ROUNDS; round++) {
        prepare(route, round);
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
