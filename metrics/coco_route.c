// SPDX-License-Identifier: Apache-2.0
// Records to the owners of their pieces, in rounds of what fits a small desk, so that nobody holds a
// second copy of what he sends; what a rank owns itself stays where it is. What comes from one rank
// stands together, piece after piece, each in order as the rank sorted it; the runs of a piece are
// then merged, as numbers. On one rank nothing moves.
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
    size_t most;                    /* records between two ranks in a round */
    size_t rounds, incoming, owned; /* owned: records of this rank's pieces, whoever has them */
    struct side *to, *from;         /* per rank */
    size_t *start;                  /* per piece: where this rank's records of it begin in order */
    struct kolo_coco_record *desk;  /* `most` for each other rank */
    size_t *to_counts, *to_places, *from_counts, *from_places; /* per rank, of a round */
    size_t *read;  /* per other rank: the number of its first record of the next piece */
    size_t *begin; /* per rank, and the end: its run in what is merged */
    uint32_t *spare;
};

static size_t count_of(const struct kolo_coco_share *share, size_t rank, size_t piece)
{
    return (size_t)share->counts[rank * share->pieces + piece];
}

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
            *sum += share->piece[p].owner != r ? count_of(share, r, p) : 0;
            most = *sum > most ? *sum : most;
        }
    }
    return most;
}

static void plan(struct route *route)
{
    const struct kolo_coco_share *share = route->share;
    size_t start = 0, owned = 0;
    for (size_t p = 0; p < share->pieces; p++) {
        size_t owner = share->piece[p].owner;
        route->start[p] = start;
        start += count_of(share, share->rank, p);
        route->to[owner].left += owner != share->rank ? count_of(share, share->rank, p) : 0;
        for (size_t r = 0; owner == share->rank && r < share->ranks; r++)
            route->from[r].left += r != share->rank ? count_of(share, r, p) : 0;
        owned += owner == share->rank ? (size_t)share->piece[p].total : 0;
    }
    for (size_t r = 0; r < share->ranks; r++) {
        route->from[r].at = route->incoming;
        route->read[r] = share->images->records + route->incoming;
        route->incoming += route->from[r].left;
    }
    route->owned = owned;
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
    route->read = kolo_calloc(ranks, sizeof *route->read);
    route->begin = kolo_calloc(ranks + 1, sizeof *route->begin);
    bool is_there = route->to && route->from && route->start && route->to_counts &&
                    route->to_places && route->from_counts && route->from_places && route->read &&
                    route->begin;
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static kolo_status allocate_records(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    size_t sum = share->images->records + route->incoming;
    if (sum >= UINT32_MAX)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "kolo_detection_compute: %zu detections for one rank; use more ranks",
                         sum);
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
    kolo_free_memory(route->read);
    kolo_free_memory(route->begin);
    kolo_free_memory(route->desk);
    kolo_free_memory(route->spare);
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
        size_t here = count_of(share, share->rank, side->piece);
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

/* ---- merging ---- */

static const struct kolo_coco_record *record_of(const struct kolo_coco_share *share,
                                                uint32_t number)
{
    size_t owned = share->images->records;
    return number < owned ? &share->images->record[number] : &share->in[number - owned];
}

/* Of its image, among all. */
static uint32_t place_of(const struct kolo_coco_share *share, uint32_t number)
{
    size_t owned = share->images->records;
    return number < owned ? share->place_of[number] : share->in[number - owned].place;
}

/* Of two ranks, so records of one score are of two images. */
static void merge_two(const struct kolo_coco_share *share, const uint32_t *from, uint32_t *to,
                      size_t middle, size_t count)
{
    size_t left = 0, right = middle, at = 0;
    while (left < middle && right < count) {
        double best = record_of(share, from[left])->score;
        double other = record_of(share, from[right])->score;
        if (left + AHEAD < middle)
            __builtin_prefetch(record_of(share, from[left + AHEAD]));
        if (right + AHEAD < count)
            __builtin_prefetch(record_of(share, from[right + AHEAD]));
        bool take_right = other > best || (other == best && place_of(share, from[right]) <
                                                                place_of(share, from[left]));
        to[at++] = from[take_right ? right++ : left++];
    }
    memcpy(to + at, from + left, (middle - left) * sizeof *to);
    memcpy(to + at + (middle - left), from + right, (count - right) * sizeof *to);
}

/* The runs of all ranks, which stand one after the other in numbers, two by two. */
static void merge_runs(struct route *route, uint32_t *numbers)
{
    const struct kolo_coco_share *share = route->share;
    size_t *begin = route->begin, runs = share->ranks;
    uint32_t *from = numbers, *to = route->spare;
    for (; runs > 1; runs = (runs + 1) / 2) {
        size_t end = begin[runs];
        for (size_t i = 0; i < runs; i += 2) {
            size_t first = begin[i], middle = begin[i + 1];
            size_t last = i + 2 <= runs ? begin[i + 2] : middle;
            merge_two(share, from + first, to + first, middle - first, last - first);
            begin[i / 2] = first;
        }
        begin[(runs + 1) / 2] = end;
        uint32_t *other = from;
        from = to;
        to = other;
    }
    if (from != numbers)
        memcpy(numbers, from, begin[1] * sizeof *numbers);
}

static void merge_pieces(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    uint32_t *numbers = share->merged;
    for (size_t p = 0; p < share->pieces; p++) {
        if (share->piece[p].owner != share->rank)
            continue;
        size_t count = 0;
        for (size_t r = 0; r < share->ranks; r++) {
            size_t here = count_of(share, r, p);
            route->begin[r] = count;
            for (size_t i = 0; i < here; i++)
                numbers[count++] = r == share->rank ? share->order[route->start[p] + i]
                                                    : (uint32_t)route->read[r]++;
        }
        route->begin[share->ranks] = count;
        merge_runs(route, numbers);
        numbers += count;
    }
}

static kolo_status allocate_merge(struct route *route)
{
    struct kolo_coco_share *share = route->share;
    size_t most = 0;
    for (size_t p = 0; p < share->pieces; p++)
        if (share->piece[p].owner == share->rank && (size_t)share->piece[p].total > most)
            most = (size_t)share->piece[p].total;
    kolo_free_memory(route->desk);
    route->desk = NULL;
    share->merged = kolo_calloc(route->owned, sizeof *share->merged);
    route->spare = kolo_calloc(most, sizeof *route->spare);
    return share->merged && route->spare ? KOLO_OK : KOLO_ERR_NO_MEMORY;
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
    KOLO_TRY(kolo_coco_agree(share, allocate_merge(&route)));
    merge_pieces(&route);
    kolo_free_memory(share->order);
    kolo_free_memory(share->place_of);
    share->order = share->place_of = NULL;
out:
    release(&route);
    return status;
}
