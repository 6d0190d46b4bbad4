// SPDX-License-Identifier: Apache-2.0
// From the images of each rank to results on all. Owns the exchange:
//
//   1. agree that the parameters are the same
//   2. all learn all image ids: an image's place is that of its id among all, whoever has it; one
//      that several ranks have is the lowest rank's
//   3. all learn how many records of each category each rank has, so all know who owns what:
//      the largest category first, to the rank with the least
//   4. records go to the owners of their categories
//   5. owners sort and make their categories' entries; the entries of all are joined by a sum of
//      their bits, of which all but the owner's are 0: no number is rounded
//
// The sequence of collectives is the same on all ranks, also on one without images; what a rank
// cannot allocate is agreed on before the next of them.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

enum { IMAGES, DUPLICATES, TRUTHS, TOTALS };

struct share {
    struct kolo_comm *comm;
    const struct kolo_opts *opts;
    const struct kolo_coco_params *params;
    const struct kolo_coco_images *images;
    size_t ranks, rank;
    size_t *image_counts; /* per rank */
    int64_t *ids;         /* of all ranks' images */
    struct seat *seats;   /* the same, sorted */
    uint32_t *order;      /* this rank's images to count, by id */
    uint32_t *place;      /* of each of them */
    size_t kept;          /* how many */
    int64_t *counts;      /* records per rank and class */
    int64_t *sums;        /* ground truths per class and area range, then totals */
    int64_t *class_total; /* records of all ranks */
    size_t *owner;        /* per class */
    struct kolo_coco_record *out, *in;
    size_t *out_counts, *in_counts; /* per rank */
    size_t *starts;                 /* per class: in out */
    uint32_t *numbers;              /* of records in `in` */
};

/* An image of some rank. */
struct seat {
    int64_t id;
    size_t rank, number;
};

static kolo_status agree(struct share *share, kolo_status mine)
{
    int64_t fine = mine == KOLO_OK;
    kolo_status status =
        kolo_allreduce(share->comm, &fine, &fine, 1, KOLO_INT64, KOLO_MIN, share->opts, NULL);
    if (status != KOLO_OK || mine != KOLO_OK)
        return status != KOLO_OK ? status : mine;
    return fine ? KOLO_OK
                : kolo_fail(KOLO_ERR_NO_MEMORY,
                            "kolo_detection_compute: another rank is out of memory");
}

static kolo_status agree_on_params(struct share *share)
{
    int64_t digest = (int64_t)(kolo_coco_params_digest(share->params) >> 2);
    int64_t facts[2] = {digest, -digest};
    kolo_status status =
        kolo_allreduce(share->comm, facts, facts, 2, KOLO_INT64, KOLO_MIN, share->opts, NULL);
    if (status == KOLO_OK && facts[0] != -facts[1])
        status = kolo_fail(KOLO_ERR_MISMATCH,
                           "kolo_detection_compute: the ranks have different configs; create the "
                           "detection with the same on all");
    return status;
}

static kolo_status allocate_counts(struct share *share)
{
    size_t classes = share->params->classes;
    share->image_counts = kolo_calloc(share->ranks, sizeof *share->image_counts);
    share->out_counts = kolo_calloc(share->ranks, sizeof *share->out_counts);
    share->in_counts = kolo_calloc(share->ranks, sizeof *share->in_counts);
    share->counts = kolo_calloc(share->ranks * classes, sizeof *share->counts);
    share->sums = kolo_calloc(classes * share->params->areas + TOTALS, sizeof *share->sums);
    share->class_total = kolo_calloc(classes, sizeof *share->class_total);
    share->owner = kolo_calloc(classes, sizeof *share->owner);
    share->starts = kolo_calloc(classes, sizeof *share->starts);
    bool is_there = share->image_counts && share->out_counts && share->in_counts && share->counts &&
                    share->sums && share->class_total && share->owner && share->starts;
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct share *share)
{
    kolo_free_memory(share->image_counts);
    kolo_free_memory(share->out_counts);
    kolo_free_memory(share->in_counts);
    kolo_free_memory(share->counts);
    kolo_free_memory(share->sums);
    kolo_free_memory(share->class_total);
    kolo_free_memory(share->owner);
    kolo_free_memory(share->starts);
    kolo_free_memory(share->ids);
    kolo_free_memory(share->seats);
    kolo_free_memory(share->order);
    kolo_free_memory(share->place);
    kolo_free_memory(share->out);
    if (share->ranks > 1)
        kolo_free_memory(share->in);
    kolo_free_memory(share->numbers);
}

/* ---- step 2: places ---- */

static kolo_status gather_ids(struct share *share, size_t *total_out)
{
    int64_t mine = (int64_t)share->images->images;
    int64_t *counts = kolo_calloc(share->ranks, sizeof *counts);
    kolo_status status = agree(share, counts ? KOLO_OK : KOLO_ERR_NO_MEMORY);
    if (status == KOLO_OK)
        status = kolo_allgather(share->comm, &mine, counts, 1, KOLO_INT64, share->opts, NULL);
    size_t total = 0, before = 0;
    for (size_t r = 0; status == KOLO_OK && r < share->ranks; r++) {
        share->image_counts[r] = (size_t)counts[r];
        before += r < share->rank ? (size_t)counts[r] : 0;
        total += (size_t)counts[r];
    }
    kolo_free_memory(counts);
    if (status != KOLO_OK)
        return status;
    if (total >= UINT32_MAX)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "kolo_detection_compute: %zu images; at most 2^32 - 2", total);
    share->ids = kolo_calloc(total, sizeof *share->ids);
    share->seats = kolo_calloc(total, sizeof *share->seats);
    share->order = kolo_calloc((size_t)mine, sizeof *share->order);
    share->place = kolo_calloc((size_t)mine, sizeof *share->place);
    bool is_there = share->ids && share->seats && share->order && share->place;
    status = agree(share, is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY);
    if (status != KOLO_OK)
        return status;
    for (size_t i = 0; i < (size_t)mine; i++)
        share->ids[before + i] = share->images->image[i].id;
    *total_out = total;
    return kolo_allgatherv(share->comm, share->ids + before, share->ids, share->image_counts, NULL,
                           KOLO_INT64, share->opts, NULL);
}

/* By id, then rank, then number: the first of an id counts. */
static int by_seat(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static kolo_status find_places(struct share *share)
{
    size_t total;
    kolo_status status = gather_ids(share, &total);
    if (status != KOLO_OK)
        return status;
    size_t at = 0;
    for (size_t r = 0; r < share->ranks; r++)
        for (size_t i = 0; i < share->image_counts[r]; i++, at++)
            share->seats[at] = (struct seat){.id = share->ids[at], .rank = r, .number = i};
    qsort(share->seats, total, sizeof *share->seats, by_seat);
    uint32_t place = 0;
    for (size_t i = 0; i < total; i++) {
        if (i > 0 && share->seats[i].id == share->seats[i - 1].id)
            continue;
        if (share->seats[i].rank == share->rank) {
            share->order[share->kept] = (uint32_t)share->seats[i].number;
            share->place[share->kept++] = place;
        }
        place++;
    }
    return KOLO_OK;
}

/* ---- step 3: counts and owners ---- */

static size_t records_end(const struct kolo_coco_images *images, size_t image)
{
    return image + 1 < images->images ? images->image[image + 1].records : images->records;
}

static size_t tallies_end(const struct kolo_coco_images *images, size_t image)
{
    return image + 1 < images->images ? images->image[image + 1].tallies : images->tallies;
}

static void count_mine(struct share *share, int64_t *mine)
{
    const struct kolo_coco_images *images = share->images;
    size_t areas = share->params->areas;
    int64_t *totals = share->sums + share->params->classes * areas;
    for (size_t i = 0; i < share->kept; i++) {
        size_t image = share->order[i];
        for (size_t j = images->image[image].records; j < records_end(images, image); j++)
            mine[images->record[j].place]++;
        for (size_t j = images->image[image].tallies; j < tallies_end(images, image); j++) {
            const struct kolo_coco_tally *tally = &images->tally[j];
            totals[TRUTHS] += tally->truths;
            for (size_t a = 0; a < areas; a++)
                share->sums[tally->category * areas + a] += tally->counted[a];
        }
    }
    totals[IMAGES] = (int64_t)share->kept;
    totals[DUPLICATES] = (int64_t)(images->images - share->kept);
}

static kolo_status count_all(struct share *share)
{
    size_t classes = share->params->classes;
    int64_t *mine = share->counts + share->rank * classes;
    count_mine(share, mine);
    kolo_status status =
        kolo_allgather(share->comm, mine, share->counts, classes, KOLO_INT64, share->opts, NULL);
    if (status == KOLO_OK)
        status = kolo_allreduce(share->comm, share->sums, share->sums,
                                classes * share->params->areas + TOTALS, KOLO_INT64, KOLO_SUM,
                                share->opts, NULL);
    for (size_t r = 0; status == KOLO_OK && r < share->ranks; r++)
        for (size_t k = 0; k < classes; k++)
            share->class_total[k] += share->counts[r * classes + k];
    return status;
}

/* The largest class that has no owner yet; -1: all have one. */
static int64_t largest(const struct share *share)
{
    int64_t found = -1;
    for (size_t k = 0; k < share->params->classes; k++)
        if (share->owner[k] == SIZE_MAX &&
            (found < 0 || share->class_total[k] > share->class_total[found]))
            found = (int64_t)k;
    return found;
}

static kolo_status find_owners(struct share *share)
{
    int64_t *load = kolo_calloc(share->ranks, sizeof *load);
    if (!load)
        return KOLO_ERR_NO_MEMORY;
    size_t classes = share->params->classes;
    for (size_t k = 0; k < classes; k++)
        share->owner[k] = SIZE_MAX;
    for (int64_t k = largest(share); k >= 0; k = largest(share)) {
        size_t least = 0;
        for (size_t r = 1; r < share->ranks; r++)
            least = load[r] < load[least] ? r : least;
        share->owner[k] = least;
        load[least] += share->class_total[k];
    }
    kolo_free_memory(load);
    for (size_t k = 0; k < classes; k++) {
        share->out_counts[share->owner[k]] += (size_t)share->counts[share->rank * classes + k];
        for (size_t r = 0; share->owner[k] == share->rank && r < share->ranks; r++)
            share->in_counts[r] += (size_t)share->counts[r * classes + k];
    }
    return KOLO_OK;
}

/* ---- step 4: records to owners ---- */

static size_t sum_of(const size_t *counts, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

static kolo_status allocate_records(struct share *share)
{
    size_t in = sum_of(share->in_counts, share->ranks);
    if (in >= UINT32_MAX)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "kolo_detection_compute: %zu detections for one rank; use more ranks", in);
    share->out = kolo_calloc(sum_of(share->out_counts, share->ranks), sizeof *share->out);
    share->in = share->ranks > 1 ? kolo_calloc(in, sizeof *share->in) : share->out;
    share->numbers = kolo_calloc(in, sizeof *share->numbers);
    return share->out && share->in && share->numbers ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

/* By owner, then class, then place. */
static void write_out(struct share *share)
{
    const struct kolo_coco_images *images = share->images;
    size_t classes = share->params->classes, at = 0;
    for (size_t r = 0; r < share->ranks; r++)
        for (size_t k = 0; k < classes; k++)
            if (share->owner[k] == r) {
                share->starts[k] = at;
                at += (size_t)share->counts[share->rank * classes + k];
            }
    for (size_t i = 0; i < share->kept; i++) {
        size_t image = share->order[i];
        for (size_t j = images->image[image].records; j < records_end(images, image); j++) {
            struct kolo_coco_record *record = &share->out[share->starts[images->record[j].place]++];
            *record = images->record[j];
            record->place = share->place[i];
        }
    }
}

static kolo_status exchange(struct share *share)
{
    kolo_status status = agree(share, find_owners(share));
    if (status != KOLO_OK)
        return status;
    status = agree(share, allocate_records(share));
    if (status != KOLO_OK)
        return status;
    write_out(share);
    if (share->ranks == 1)
        return KOLO_OK;
    return kolo_alltoallv(share->comm, share->out, share->out_counts, NULL, share->in,
                          share->in_counts, NULL, KOLO_OPAQUE(sizeof *share->out), share->opts,
                          NULL);
}

/* ---- step 5: results ---- */

/* Numbers of the class's records: of each rank, its owned classes stand in ascending order. */
static size_t number_class(const struct share *share, size_t class, uint32_t *numbers)
{
    size_t classes = share->params->classes, count = 0, at = 0;
    for (size_t r = 0; r < share->ranks; r++) {
        size_t first = at;
        for (size_t k = 0; k < class; k++)
            if (share->owner[k] == share->rank)
                first += (size_t)share->counts[r * classes + k];
        for (size_t i = 0; i < (size_t)share->counts[r * classes + class]; i++)
            numbers[count++] = (uint32_t)(first + i);
        at += share->in_counts[r];
    }
    return count;
}

static kolo_status make_mine(struct share *share, const struct kolo_coco_arrays *arrays)
{
    kolo_status status = KOLO_OK;
    for (size_t k = 0; status == KOLO_OK && k < share->params->classes; k++) {
        if (share->owner[k] != share->rank || share->class_total[k] == 0)
            continue;
        size_t count = number_class(share, k, share->numbers);
        status = kolo_coco_sort(share->in, share->numbers, count);
        if (status == KOLO_OK)
            status = kolo_coco_curve(share->params, k, share->in, share->numbers, count,
                                     share->sums + k * share->params->areas, arrays);
    }
    return status;
}

static kolo_status join(struct share *share, double *array, size_t count)
{
    if (share->ranks == 1)
        return KOLO_OK;
    return kolo_allreduce(share->comm, array, array, count, KOLO_INT64, KOLO_SUM, share->opts,
                          NULL);
}

/* Where a class has no ground truth in an area range. */
static void mark_absent(const struct share *share, struct kolo_coco_arrays *arrays)
{
    const struct kolo_coco_params *params = share->params;
    for (size_t row = 0; row < params->thresholds * params->recalls; row++)
        for (size_t k = 0; k < params->classes; k++)
            for (size_t a = 0; a < params->areas; a++)
                for (size_t m = 0; share->sums[k * params->areas + a] == 0 && m < params->caps;
                     m++) {
                    size_t at = kolo_coco_at(params, row, k, a, m);
                    arrays->precision[at] = arrays->scores[at] = -1;
                    if (row < params->thresholds)
                        arrays->recall[at] = -1;
                }
}

static kolo_status make_all(struct share *share, struct kolo_coco_arrays *arrays)
{
    kolo_status status = agree(share, make_mine(share, arrays));
    if (status == KOLO_OK)
        status = join(share, arrays->precision, arrays->points);
    if (status == KOLO_OK)
        status = join(share, arrays->scores, arrays->points);
    if (status == KOLO_OK)
        status = join(share, arrays->recall, arrays->ends);
    if (status == KOLO_OK)
        mark_absent(share, arrays);
    return status;
}

kolo_status kolo_coco_share(struct kolo_comm *comm, const struct kolo_coco_params *params,
                            const struct kolo_coco_images *images, kolo_status mine,
                            struct kolo_coco_arrays *arrays, struct kolo_detection_result *result,
                            const struct kolo_opts *opts)
{
    struct share share = {.comm = comm,
                          .opts = opts,
                          .params = params,
                          .images = images,
                          .ranks = (size_t)kolo_size(comm),
                          .rank = (size_t)kolo_rank(comm)};
    kolo_status status;
    KOLO_TRY(agree_on_params(&share));
    KOLO_TRY(agree(&share, mine));
    KOLO_TRY(agree(&share, allocate_counts(&share)));
    KOLO_TRY(find_places(&share));
    KOLO_TRY(count_all(&share));
    KOLO_TRY(exchange(&share));
    KOLO_TRY(make_all(&share, arrays));
    const int64_t *totals = share.sums + params->classes * params->areas;
    result->images = totals[IMAGES];
    result->duplicate_images = totals[DUPLICATES];
    result->truths = totals[TRUTHS];
    result->detections = 0;
    for (size_t k = 0; k < params->classes; k++)
        result->detections += share.class_total[k];
out:
    release(&share);
    return status;
}
