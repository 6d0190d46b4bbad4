// SPDX-License-Identifier: Apache-2.0
// Goes from the images of each rank to the results on all ranks. Owns the first two steps, and
// calls the files with the others:
//
//   1. All ranks learn all image ids. The place of an image is that of its id among all ids,
//      whichever rank has it; an image that several ranks have belongs to the lowest of them.
//   2. All ranks learn the lowest score of a true detection of each class; misses below it change
//      no curve and are left out from here on. They also learn how many records and ground
//      truths each class has. Each rank sorts its own records, so that sorting is done where the
//      images are.
//   3. Curves are assigned to ranks (coco_pieces), records are sent there (coco_route), and the
//      curves are sent to all ranks (coco_join).
//
// compute.c has checked before that all ranks have the same parameters. The sequence of collectives
// is the same on all ranks and in every evaluation, whatever data they hold: a step without work
// calls its collectives with empty messages. If a rank cannot allocate memory, all ranks agree on
// that before the next collective.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"
#include "metrics/metric.h"

enum { IMAGES, DUPLICATES, TRUTHS, DETECTIONS, TOTALS };

/* An image of a rank. */
struct seat {
    int64_t id;
    size_t rank, number;
};

kolo_status kolo_coco_agree(const struct kolo_coco_share *share, kolo_status mine)
{
    return kolo_metric_agree(share->comm, mine, share->opts);
}

static kolo_status allocate_counts(struct kolo_coco_share *share)
{
    size_t classes = share->params->classes, sums = classes * share->params->areas;
    share->image_counts = kolo_calloc(share->ranks, sizeof *share->image_counts);
    share->sums = kolo_calloc(sums + 2 * classes + TOTALS, sizeof *share->sums);
    share->class_start = kolo_calloc(classes + 1, sizeof *share->class_start);
    share->cutoff = kolo_calloc(2 * classes, sizeof *share->cutoff);
    bool is_there = share->image_counts && share->sums && share->class_start && share->cutoff;
    if (is_there) {
        share->class_total = share->sums + sums;
        share->class_true = share->class_total + classes;
        share->totals = share->class_true + classes;
    }
    return is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct kolo_coco_share *share)
{
    kolo_free_memory(share->image_counts);
    kolo_free_memory(share->sums);
    kolo_free_memory(share->class_start);
    kolo_free_memory(share->cutoff);
    kolo_free_memory(share->ids);
    kolo_free_memory(share->chosen);
    kolo_free_memory(share->place);
    kolo_free_memory(share->order);
    kolo_free_memory(share->place_of);
    kolo_free_memory(share->piece);
    kolo_free_memory(share->counts);
    kolo_free_memory(share->in);
}

/* ---- step 1: places ---- */

static kolo_status gather_ids(struct kolo_coco_share *share, size_t *total_out)
{
    int64_t mine = (int64_t)share->images->images;
    int64_t *counts = kolo_calloc(share->ranks, sizeof *counts);
    kolo_status status = kolo_coco_agree(share, counts ? KOLO_OK : KOLO_ERR_NO_MEMORY);
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
                         "kolo_detection_compute: %zu images are too many; give at most 2^32 - 2",
                         total);
    share->ids = kolo_calloc(total, sizeof *share->ids);
    share->chosen = kolo_calloc((size_t)mine, sizeof *share->chosen);
    share->place = kolo_calloc((size_t)mine, sizeof *share->place);
    bool is_there = share->ids && share->chosen && share->place;
    status = kolo_coco_agree(share, is_there ? KOLO_OK : KOLO_ERR_NO_MEMORY);
    if (status != KOLO_OK)
        return status;
    for (size_t i = 0; i < (size_t)mine; i++)
        share->ids[before + i] = share->images->image[i].id;
    *total_out = total;
    return kolo_allgatherv(share->comm, share->ids + before, share->ids, share->image_counts, NULL,
                           KOLO_INT64, share->opts, NULL);
}

/* Orders by id, then rank, then number: the first of each id counts. */
static int by_seat(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void choose_images(struct kolo_coco_share *share, struct seat *seats, size_t total)
{
    size_t at = 0;
    for (size_t r = 0; r < share->ranks; r++)
        for (size_t i = 0; i < share->image_counts[r]; i++, at++)
            seats[at] = (struct seat){.id = share->ids[at], .rank = r, .number = i};
    qsort(seats, total, sizeof *seats, by_seat);
    uint32_t place = 0;
    for (size_t i = 0; i < total; i++) {
        if (i > 0 && seats[i].id == seats[i - 1].id)
            continue;
        if (seats[i].rank == share->rank) {
            share->chosen[share->kept] = (uint32_t)seats[i].number;
            share->place[share->kept++] = place;
        }
        place++;
    }
}

static kolo_status find_places(struct kolo_coco_share *share)
{
    size_t total = 0;
    kolo_status status = gather_ids(share, &total);
    if (status != KOLO_OK)
        return status;
    struct seat *seats = kolo_calloc(total, sizeof *seats);
    status = kolo_coco_agree(share, seats ? KOLO_OK : KOLO_ERR_NO_MEMORY);
    if (status == KOLO_OK)
        choose_images(share, seats, total);
    kolo_free_memory(seats);
    kolo_free_memory(share->ids);
    share->ids = NULL;
    return status;
}

/* ---- step 2: counts, and records in order ---- */

/* A curve has its points at true detections, so records after the last one of a class, on all
 * ranks, change no point. But the first record of a class counts whether or not it is true, so
 * each rank keeps its own best. */
static kolo_status find_cutoffs(struct kolo_coco_share *share)
{
    const struct kolo_coco_images *images = share->images;
    size_t classes = share->params->classes;
    double *lowest = share->cutoff, *best = share->cutoff + classes;
    for (size_t k = 0; k < classes; k++) {
        lowest[k] = INFINITY;
        best[k] = -INFINITY;
    }
    for (size_t i = 0; i < share->kept; i++)
        for (size_t j = images->image[share->chosen[i]].records;
             j < kolo_coco_records_end(images, share->chosen[i]); j++) {
            const struct kolo_coco_record *record = &images->record[j];
            size_t k = record->place;
            bool is_true = kolo_coco_flags(record->is_true) != 0;
            best[k] = record->score > best[k] ? record->score : best[k];
            lowest[k] = is_true && record->score < lowest[k] ? record->score : lowest[k];
        }
    kolo_status status = kolo_allreduce(share->comm, lowest, lowest, classes, KOLO_FLOAT64,
                                        KOLO_MIN, share->opts, NULL);
    for (size_t k = 0; k < classes; k++)
        share->cutoff[k] = best[k] < lowest[k] ? best[k] : lowest[k];
    return status;
}

static bool is_counted(const struct kolo_coco_share *share, const struct kolo_coco_record *record)
{
    return record->score >= share->cutoff[record->place];
}

static void count_mine(struct kolo_coco_share *share)
{
    const struct kolo_coco_images *images = share->images;
    size_t areas = share->params->areas, classes = share->params->classes;
    int64_t *totals = share->totals;
    for (size_t i = 0; i < share->kept; i++) {
        size_t image = share->chosen[i];
        for (size_t j = images->image[image].records; j < kolo_coco_records_end(images, image);
             j++) {
            const struct kolo_coco_record *record = &images->record[j];
            share->class_total[record->place] += is_counted(share, record);
            share->class_true[record->place] += kolo_coco_flags(record->is_true) != 0;
        }
        totals[DETECTIONS] +=
            (int64_t)(kolo_coco_records_end(images, image) - images->image[image].records);
        for (size_t j = images->image[image].tallies; j < kolo_coco_tallies_end(images, image);
             j++) {
            const struct kolo_coco_tally *tally = &images->tally[j];
            totals[TRUTHS] += tally->truths;
            for (size_t a = 0; a < areas; a++)
                share->sums[tally->category * areas + a] += tally->counted[a];
        }
    }
    totals[IMAGES] = (int64_t)share->kept;
    totals[DUPLICATES] = (int64_t)(images->images - share->kept);
    for (size_t k = 0; k < classes; k++)
        share->class_start[k + 1] = share->class_start[k] + (size_t)share->class_total[k];
}

/* Orders records by class; within a class by image, then by position. */
static void order_by_class(struct kolo_coco_share *share)
{
    const struct kolo_coco_images *images = share->images;
    size_t *start = share->class_start;
    for (size_t i = 0; i < share->kept; i++) {
        size_t image = share->chosen[i];
        for (size_t j = images->image[image].records; j < kolo_coco_records_end(images, image);
             j++) {
            if (!is_counted(share, &images->record[j]))
                continue;
            share->order[start[images->record[j].place]++] = (uint32_t)j;
            if (share->place_of)
                share->place_of[j] = share->place[i];
        }
    }
    for (size_t k = share->params->classes; k > 0; k--)
        start[k] = start[k - 1];
    start[0] = 0;
}

static kolo_status order_mine(struct kolo_coco_share *share)
{
    const struct kolo_coco_images *images = share->images;
    if (images->records >= UINT32_MAX)
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "kolo_detection_compute: %zu detections on one rank are too many; use more ranks",
            images->records);
    size_t *start = share->class_start;
    share->order = kolo_calloc(start[share->params->classes], sizeof *share->order);
    if (share->ranks > 1)
        share->place_of = kolo_calloc(images->records, sizeof *share->place_of);
    if (!share->order || (share->ranks > 1 && !share->place_of))
        return KOLO_ERR_NO_MEMORY;
    order_by_class(share);
    kolo_status status = KOLO_OK;
    for (size_t k = 0; status == KOLO_OK && k < share->params->classes; k++)
        status = kolo_coco_sort(images->record, share->order + start[k], start[k + 1] - start[k]);
    return status;
}

static kolo_status count_all(struct kolo_coco_share *share)
{
    size_t classes = share->params->classes;
    kolo_status status = find_cutoffs(share);
    if (status != KOLO_OK)
        return status;
    count_mine(share);
    status = kolo_coco_agree(share, order_mine(share));
    if (status != KOLO_OK)
        return status;
    return kolo_allreduce(share->comm, share->sums, share->sums,
                          classes * share->params->areas + 2 * classes + TOTALS, KOLO_INT64,
                          KOLO_SUM, share->opts, NULL);
}

/* Every rank has all arrays, so each rank computes some of the numbers. */
static kolo_status make_stats(const struct kolo_coco_share *share,
                              const struct kolo_coco_arrays *arrays,
                              struct kolo_detection_result *result)
{
    const struct kolo_coco_turn turn = {.rank = share->rank, .ranks = share->ranks};
    kolo_status status = kolo_coco_agree(
        share, kolo_coco_stats(share->params, arrays, &turn, result->stats, &result->stat_count));
    if (status != KOLO_OK)
        return status;
    return kolo_allreduce(share->comm, result->stats, result->stats, KOLO_DETECTION_STATS_MAX,
                          KOLO_FLOAT64, KOLO_MAX, share->opts, NULL);
}

kolo_status kolo_coco_share(struct kolo_comm *comm, const struct kolo_coco_params *params,
                            const struct kolo_coco_images *images, kolo_status mine,
                            struct kolo_coco_arrays *arrays, struct kolo_detection_result *result,
                            const struct kolo_opts *opts)
{
    struct kolo_coco_share share = {.comm = comm,
                                    .opts = opts,
                                    .params = params,
                                    .images = images,
                                    .ranks = (size_t)kolo_size(comm),
                                    .rank = (size_t)kolo_rank(comm)};
    kolo_status status;
    KOLO_TRY(kolo_coco_agree(&share, mine == KOLO_OK ? allocate_counts(&share) : mine));
    KOLO_TRY(find_places(&share));
    KOLO_TRY(count_all(&share));
    KOLO_TRY(kolo_coco_deal(&share));
    KOLO_TRY(kolo_coco_route(&share));
    KOLO_TRY(kolo_coco_join(&share, arrays));
    KOLO_TRY(make_stats(&share, arrays, result));
    result->images = share.totals[IMAGES];
    result->duplicate_images = share.totals[DUPLICATES];
    result->truths = share.totals[TRUTHS];
    result->detections = share.totals[DETECTIONS];
out:
    release(&share);
    return status;
}
