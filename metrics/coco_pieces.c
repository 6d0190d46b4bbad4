// SPDX-License-Identifier: Apache-2.0
// Decides which rank makes the curve of which class. A class with many more records than a rank's
// share is cut into pieces, so that no rank owns most of all records. Pieces are assigned in the
// order of their cost, the highest first, each to the rank with the least to do so far. Owns the
// cuts; moves no record.
//
// Where a class is cut: every rank offers the keys of records at regular positions of its own
// records, each weighted by the number of records that the rank has of the class. Among all keys
// offered, those at equal parts of the total weight begin the pieces. A key is the position of a
// record in the order of the whole class, so records of the same score are divided evenly too, and
// no record belongs to two pieces. Any cut gives the same results; it only decides the balance.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"

/* The number of keys that a rank offers for all cut classes together, besides one more for each. */
enum { OFFERS = 256, OFFER_WORDS = 3 };
/* The cost of a piece, in records: besides one for each of its records, its number of entries /
 * ENTRIES_PER, and TRUE_COST more for each true detection. */
enum { ENTRIES_PER = 4, TRUE_COST = 25 };
/* A class is cut if it has more than HEAVY / HEAVY_PER of a rank's share of all records. */
enum { HEAVY = 5, HEAVY_PER = 4 };

/* The position of a record in its class, best first: by score, then image and position in it. */
struct key {
    uint64_t score, place;
};

struct offer {
    struct key key;
    int64_t weight;
};
_Static_assert(sizeof(struct offer) == OFFER_WORDS * sizeof(int64_t), "an offer is three int64");

struct cuts {
    struct kolo_coco_share *share;
    size_t *parts;                  /* per class: number of pieces; 0: it has no records */
    size_t *first;                  /* per class, then the end: its first piece */
    size_t cut_parts;               /* number of pieces of all cut classes */
    size_t offers;                  /* number of offers of a rank */
    struct offer *mine, *all, *one; /* of this rank, of all ranks, of one class */
    struct key *begin;              /* per piece; not read for the first piece of a class */
};

static bool comes_before(const struct key *a, const struct key *b)
{
    return a->score != b->score ? a->score < b->score : a->place < b->place;
}

static int by_key(const void *a, const void *b)
{
    const struct offer *x = a, *y = b;
    return comes_before(&x->key, &y->key) ? -1 : comes_before(&y->key, &x->key);
}

/* Returns the key of one of this rank's records. */
static struct key key_of(const struct kolo_coco_share *share, uint32_t number)
{
    const struct kolo_coco_record *record = &share->images->record[number];
    return (struct key){.score = kolo_coco_score_key(record->score),
                        .place = (uint64_t)share->place_of[number] << 16 | record->position};
}

/* ---- how many pieces ---- */

static size_t parts_of(const struct kolo_coco_share *share, int64_t total, int64_t sum)
{
    int64_t ranks = (int64_t)share->ranks;
    if (total == 0)
        return 0;
    if (total * ranks * HEAVY_PER <= sum * HEAVY || share->params->rules == KOLO_DETECTION_VOC)
        return 1; /* VOC's area under a curve is one sum, so the class must not be cut */
    return (size_t)((total * ranks + sum - 1) / sum);
}

static kolo_status count_parts(struct cuts *cuts)
{
    struct kolo_coco_share *share = cuts->share;
    size_t classes = share->params->classes, cut_classes = 0;
    int64_t sum = 0;
    cuts->parts = kolo_calloc(classes, sizeof *cuts->parts);
    cuts->first = kolo_calloc(classes + 1, sizeof *cuts->first);
    if (!cuts->parts || !cuts->first)
        return KOLO_ERR_NO_MEMORY;
    for (size_t k = 0; k < classes; k++)
        sum += share->class_total[k];
    for (size_t k = 0; k < classes; k++) {
        size_t parts = cuts->parts[k] = parts_of(share, share->class_total[k], sum);
        cuts->first[k + 1] = cuts->first[k] + parts;
        cuts->cut_parts += parts > 1 ? parts : 0;
        cut_classes += parts > 1;
    }
    share->pieces = cuts->first[classes];
    share->cut_pieces = cuts->cut_parts;
    cuts->offers = cuts->cut_parts ? OFFERS + cut_classes : 0;
    return KOLO_OK;
}

/* Returns the number of offers of a cut class, in proportion to its pieces. */
static size_t offers_of(const struct cuts *cuts, size_t class)
{
    return OFFERS * cuts->parts[class] / cuts->cut_parts + 1;
}

/* ---- where they begin ---- */

static void make_offers(const struct cuts *cuts)
{
    const struct kolo_coco_share *share = cuts->share;
    struct offer *offer = cuts->mine;
    for (size_t k = 0; k < share->params->classes; k++) {
        if (cuts->parts[k] < 2)
            continue;
        size_t start = share->class_start[k], count = share->class_start[k + 1] - start;
        size_t offers = offers_of(cuts, k);
        for (size_t i = 0; i < offers; i++, offer++)
            if (count > 0)
                *offer = (struct offer){
                    .key = key_of(share, share->order[start + (2 * i + 1) * count / (2 * offers)]),
                    .weight = (int64_t)count};
    }
}

static void place_begins(const struct cuts *cuts, size_t class, size_t count)
{
    size_t parts = cuts->parts[class], part = 1;
    int64_t sum = 0, passed = 0;
    qsort(cuts->one, count, sizeof *cuts->one, by_key);
    for (size_t i = 0; i < count; i++)
        sum += cuts->one[i].weight;
    for (size_t i = 0; i < count; i++) {
        for (; part < parts && passed >= (int64_t)part * (sum / (int64_t)parts); part++)
            cuts->begin[cuts->first[class] + part] = cuts->one[i].key;
        passed += cuts->one[i].weight;
    }
    for (; part < parts; part++)
        cuts->begin[cuts->first[class] + part] = cuts->one[count - 1].key;
}

static void read_offers(const struct cuts *cuts)
{
    const struct kolo_coco_share *share = cuts->share;
    size_t before = 0;
    for (size_t k = 0; k < share->params->classes; k++) {
        if (cuts->parts[k] < 2)
            continue;
        size_t offers = offers_of(cuts, k), count = 0;
        for (size_t r = 0; r < share->ranks; r++)
            for (size_t i = 0; i < offers; i++) {
                const struct offer *offer = &cuts->all[r * cuts->offers + before + i];
                if (offer->weight > 0) /* a rank without records of the class offers none */
                    cuts->one[count++] = *offer;
            }
        place_begins(cuts, k, count);
        before += offers;
    }
}

static kolo_status allocate_cuts(struct cuts *cuts)
{
    struct kolo_coco_share *share = cuts->share;
    size_t all = cuts->offers * share->ranks;
    cuts->mine = kolo_calloc(cuts->offers, sizeof *cuts->mine);
    cuts->all = kolo_calloc(all, sizeof *cuts->all);
    cuts->one = kolo_calloc(all, sizeof *cuts->one);
    cuts->begin = kolo_calloc(share->pieces, sizeof *cuts->begin);
    share->piece = kolo_calloc(share->pieces, sizeof *share->piece);
    share->counts = kolo_calloc(share->ranks * share->pieces, sizeof *share->counts);
    bool is_there =
        cuts->mine && cuts->all && cuts->one && cuts->begin && share->piece && share->counts;
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static kolo_status find_begins(struct cuts *cuts)
{
    struct kolo_coco_share *share = cuts->share;
    make_offers(cuts);
    kolo_status status = kolo_allgather(share->comm, cuts->mine, cuts->all,
                                        cuts->offers * OFFER_WORDS, KOLO_INT64, share->opts, NULL);
    if (status == KOLO_OK)
        read_offers(cuts);
    return status;
}

/* ---- how many records each has, and its owner ---- */

/* Returns where a piece that is not the first of its class begins in `order`. */
static size_t place_in_order(const struct cuts *cuts, size_t class, const struct key *begin)
{
    const struct kolo_coco_share *share = cuts->share;
    size_t low = share->class_start[class], high = share->class_start[class + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct key key = key_of(share, share->order[middle]);
        if (comes_before(&key, begin))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void describe(const struct cuts *cuts)
{
    struct kolo_coco_share *share = cuts->share;
    int64_t number = 0, *mine = share->counts + share->rank * share->pieces;
    for (size_t k = 0; k < share->params->classes; k++) {
        size_t start = share->class_start[k];
        for (size_t p = cuts->first[k]; p < cuts->first[k + 1]; p++) {
            bool is_last = p + 1 == cuts->first[k + 1];
            size_t end =
                is_last ? share->class_start[k + 1] : place_in_order(cuts, k, &cuts->begin[p + 1]);
            share->piece[p] =
                (struct kolo_coco_piece){.class = k, .number = cuts->parts[k] > 1 ? number++ : -1};
            mine[p] = (int64_t)(end - start);
            start = end;
        }
    }
}

static int by_work(const void *a, const void *b)
{
    const struct kolo_coco_piece *x = *(struct kolo_coco_piece *const *)a;
    const struct kolo_coco_piece *y = *(struct kolo_coco_piece *const *)b;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return (x > y) - (x < y);
}

/* Assumes that the true detections of a cut class are distributed over its pieces like its
 * records. */
static int64_t work_of(const struct kolo_coco_share *share, const struct kolo_coco_piece *piece)
{
    const struct kolo_coco_params *params = share->params;
    double part = (double)piece->total / (double)share->class_total[piece->class];
    int64_t entries =
        (int64_t)(params->caps * params->areas * params->thresholds * params->recalls);
    return piece->total +
           (int64_t)((double)TRUE_COST * part * (double)share->class_true[piece->class]) +
           entries / ENTRIES_PER;
}

static kolo_status choose_owners(struct kolo_coco_share *share)
{
    int64_t *load = kolo_calloc(share->ranks, sizeof *load);
    struct kolo_coco_piece **sorted = kolo_calloc(share->pieces, sizeof(struct kolo_coco_piece *));
    bool is_there = load && sorted;
    for (size_t p = 0; is_there && p < share->pieces; p++) {
        sorted[p] = &share->piece[p];
        for (size_t r = 0; r < share->ranks; r++)
            sorted[p]->total += share->counts[r * share->pieces + p];
        sorted[p]->work = work_of(share, sorted[p]);
    }
    if (is_there)
        qsort(sorted, share->pieces, sizeof *sorted, by_work);
    for (size_t p = 0; is_there && p < share->pieces; p++) {
        size_t least = 0;
        for (size_t r = 1; r < share->ranks; r++)
            least = load[r] < load[least] ? r : least;
        sorted[p]->owner = least;
        load[least] += sorted[p]->work;
    }
    kolo_free_memory(load);
    kolo_free_memory(sorted);
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

kolo_status kolo_coco_deal(struct kolo_coco_share *share)
{
    struct cuts cuts = {.share = share};
    kolo_status status;
    status = count_parts(&cuts);
    KOLO_TRY(kolo_coco_agree(share, status == KOLO_OK ? allocate_cuts(&cuts) : status));
    KOLO_TRY(find_begins(&cuts));
    describe(&cuts);
    KOLO_TRY(kolo_allgather(share->comm, share->counts + share->rank * share->pieces, share->counts,
                            share->pieces, KOLO_INT64, share->opts, NULL));
    KOLO_TRY(kolo_coco_agree(share, choose_owners(share)));
out:
    kolo_free_memory(cuts.parts);
    kolo_free_memory(cuts.first);
    kolo_free_memory(cuts.mine);
    kolo_free_memory(cuts.all);
    kolo_free_memory(cuts.one);
    kolo_free_memory(cuts.begin);
    return status;
}
