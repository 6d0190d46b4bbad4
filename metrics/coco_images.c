// SPDX-License-Identifier: Apache-2.0
// Owns what a rank keeps of its images: 24 bytes for a detection, and a tally for each category of
// ground truth. An update takes one image at a time, sorts its boxes by category and each category
// by score (both stable), and matches them. It must never keep a box, nor know what kind of object
// it is.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/merge_sort.h"
#include "metrics/coco_overlap.h"

/* What is sorted of a box. */
struct slip {
    double score;
    uint32_t category, number;
};

/* Memory that updates reuse. */
struct kolo_coco_desk {
    struct slip *found, *truth, *spare; /* of one image */
    size_t found_room, truth_room, spare_room;
    uint32_t *found_number, *truth_number; /* of one image and category */
    double *areas;
    uint8_t *partial; /* per detection, as areas: whether it is left out if it is a miss */
    struct kolo_coco_truth *judged;
    size_t found_number_room, truth_number_room, areas_room, partial_room, judged_room;
    struct kolo_coco_lvis lvis;
    struct kolo_coco_shapes shapes;
    struct kolo_coco_scratch scratch;
};

struct update {
    struct kolo_coco_images *images;
    const struct kolo_coco_params *params;
    const struct kolo_coco_update *given;
    struct kolo_coco_desk *desk;
};

static inline bool by_category_then_score(const struct slip *a, const struct slip *b)
{
    if (a->category != b->category)
        return a->category < b->category;
    return a->score > b->score;
}

/* For an evaluation in which categories do not matter. */
static inline bool by_score_then_category(const struct slip *a, const struct slip *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->category < b->category;
}

KOLO_DEFINE_MERGE_SORT(sort_by_category, struct slip, by_category_then_score)
KOLO_DEFINE_MERGE_SORT(sort_by_score, struct slip, by_score_then_category)

static int by_score(const void *a, const void *b)
{
    const struct slip *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Keeps only the best detections of an image, in the order in which they were given, and returns
 * their number. */
static size_t cap_image(const struct update *update, struct slip *slips, size_t count)
{
    size_t cap = update->params->image_cap, kept = 0;
    if (cap == 0 || count <= cap)
        return count;
    memcpy(update->desk->spare, slips, count * sizeof *slips);
    qsort(update->desk->spare, count, sizeof *slips, by_score);
    const struct slip *last = &update->desk->spare[cap - 1];
    for (size_t i = 0; i < count; i++)
        if (by_score(&slips[i], last) <= 0)
            slips[kept++] = slips[i];
    return kept;
}

/* Whether the lvis package does not look at this ground truth or detection. */
static bool is_dropped(const struct update *update, const struct slip *slip, bool is_found)
{
    const struct kolo_coco_params *params = update->params;
    const struct kolo_boxes *boxes = is_found ? update->given->found : update->given->truths;
    if (params->mode == KOLO_DETECTION_COMPAT &&
        !(kolo_coco_area(params, boxes, slip->number, is_found) > 0))
        return true;
    return is_found && !kolo_coco_lvis_is_asked(&update->desk->lvis, slip->category);
}

static size_t drop(const struct update *update, struct slip *slips, size_t count, bool is_found)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_dropped(update, &slips[i], is_found))
            slips[kept++] = slips[i];
    return kept;
}

/* Writes the slips of an image in order, and returns how many remain after caps and rules. */
static size_t write_slips(const struct update *update, bool is_found, size_t first, size_t count,
                          struct slip *slips)
{
    const struct kolo_boxes *boxes = is_found ? update->given->found : update->given->truths;
    for (size_t i = 0; i < count; i++)
        slips[i] = (struct slip){
            .score = is_found ? kolo_coco_score(boxes, first + i) : 0,
            .category = (uint32_t)kolo_coco_category(update->params, boxes->categories[first + i]),
            .number = (uint32_t)(first + i)};
    if (is_found)
        count = cap_image(update, slips, count);
    if (update->params->rules == KOLO_DETECTION_LVIS)
        count = drop(update, slips, count, is_found);
    if (is_found && update->params->any_category)
        sort_by_score(slips, update->desk->spare, count);
    else
        sort_by_category(slips, update->desk->spare, count);
    return count;
}

static struct kolo_coco_truth judge(const struct update *update, size_t i)
{
    const struct kolo_boxes *truths = update->given->truths;
    bool is_coco = update->params->rules == KOLO_DETECTION_COCO;
    bool is_compatible = update->params->mode == KOLO_DETECTION_COMPAT;
    bool is_crowd = is_coco && truths->crowds && truths->crowds[i];
    bool is_ignored = (!is_coco || !is_compatible) && truths->ignored && truths->ignored[i];
    bool is_blank = kolo_coco_is_blank(update->params, truths, i);
    return (struct kolo_coco_truth){.area = kolo_coco_area(update->params, truths, i, false),
                                    .is_crowd = is_crowd,
                                    .is_ignored = is_crowd || is_ignored || is_blank,
                                    .is_unseen =
                                        is_compatible && truths->ids && truths->ids[i] == 0};
}

static void keep_records(struct kolo_coco_images *images, const struct kolo_coco_scratch *scratch,
                         uint32_t class, const struct slip *found, size_t count)
{
    for (size_t d = 0; d < count; d++) {
        struct kolo_coco_record *record = &images->record[images->records++];
        uint64_t is_true = scratch->verdicts[d].is_true;
        uint64_t is_ignored = scratch->verdicts[d].is_ignored;
        record->score = found[d].score;
        record->place = class;
        record->position = (uint16_t)d;
        for (size_t i = 0; i < KOLO_COCO_FLAG_BYTES; i++) {
            record->is_true[i] = (uint8_t)(is_true >> 8 * i);
            record->is_ignored[i] = (uint8_t)(is_ignored >> 8 * i);
        }
    }
}

static void keep_tally(struct kolo_coco_images *images, const struct kolo_coco_params *params,
                       uint32_t class, const struct kolo_coco_truth *truth, size_t truths)
{
    struct kolo_coco_tally *tally = &images->tally[images->tallies++];
    *tally = (struct kolo_coco_tally){.category = class, .truths = (uint32_t)truths};
    for (size_t a = 0; a < params->areas; a++)
        for (size_t g = 0; g < truths; g++)
            tally->counted[a] += !kolo_coco_is_left_out(&truth[g], &params->area[a]);
}

static void mark_partial(const struct update *update, const struct slip *found, size_t detections)
{
    struct kolo_coco_desk *desk = update->desk;
    if (detections > 0)
        memset(desk->partial, 0, detections);
    if (update->params->rules == KOLO_DETECTION_LVIS)
        for (size_t d = 0; d < detections; d++)
            desk->partial[d] = kolo_coco_lvis_is_partial(&desk->lvis, found[d].category);
}

/* PASCAL VOC's rules count all detections of an image, but positions end at
 * KOLO_DETECTION_CAP_MAX. More detections are refused, unless the program set a cap, which
 * leaves them out. */
static kolo_status check_places(const struct kolo_coco_params *params, size_t detections)
{
    size_t most = KOLO_DETECTION_CAP_MAX;
    bool has_cap = params->rules != KOLO_DETECTION_VOC || params->cap[params->caps - 1] < (int)most;
    if (has_cap || detections <= most)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID,
                     "kolo_detection_update: %zu detections of one image and category; VOC's rules "
                     "take at most %zu without a cap: set a lower cap, or pass only the best",
                     detections, most);
}

/* Matches one image and category, and keeps the records and the tally. */
static kolo_status match_group(struct update *update, uint32_t class, const struct slip *found,
                               size_t detections, const struct slip *truth, size_t truths)
{
    struct kolo_coco_desk *desk = update->desk;
    size_t cap = (size_t)update->params->cap[update->params->caps - 1];
    kolo_status status = check_places(update->params, detections);
    if (status != KOLO_OK)
        return status;
    detections = detections < cap ? detections : cap;
    status = kolo_coco_scratch_grow(&desk->scratch, detections, truths);
    if (status != KOLO_OK)
        return status;
    for (size_t d = 0; d < detections; d++) {
        desk->found_number[d] = found[d].number;
        desk->areas[d] =
            kolo_coco_area(update->params, update->given->found, found[d].number, true);
    }
    mark_partial(update, found, detections);
    for (size_t g = 0; g < truths; g++) {
        desk->truth_number[g] = truth[g].number;
        desk->judged[g] = judge(update, truth[g].number);
    }
    const struct kolo_coco_group group = {.update = update->given,
                                          .found_number = desk->found_number,
                                          .truth_number = desk->truth_number,
                                          .detections = detections,
                                          .truths = truths,
                                          .truth = desk->judged};
    status = kolo_coco_overlap(update->params, &group, &desk->shapes, desk->scratch.overlaps);
    if (status != KOLO_OK)
        return status;
    kolo_coco_match(&desk->scratch, update->params, desk->areas, desk->partial, detections,
                    desk->judged, truths);
    keep_records(update->images, &desk->scratch, class, found, detections);
    if (truths > 0)
        keep_tally(update->images, update->params, class, desk->judged, truths);
    return KOLO_OK;
}

/* Returns how many slips from here on are of a category. */
static size_t run_of(const struct slip *slips, size_t count, uint32_t category)
{
    size_t length = 0;
    while (length < count && slips[length].category == category)
        length++;
    return length;
}

/* Returns the slips after the first ones; NULL if there are none at all. */
static const struct slip *after(const struct slip *slips, size_t count)
{
    return count > 0 ? slips + count : slips;
}

static kolo_status match_image(struct update *update, size_t detections, size_t truths)
{
    const struct slip *found = update->desk->found, *truth = update->desk->truth;
    if (update->params->any_category)
        return detections + truths > 0 ? match_group(update, 0, found, detections, truth, truths)
                                       : KOLO_OK;
    kolo_status status = KOLO_OK;
    while (status == KOLO_OK && detections + truths > 0) {
        uint32_t class = detections > 0 ? found->category : truth->category;
        if (truths > 0 && truth->category < class)
            class = truth->category;
        size_t ours = run_of(found, detections, class), theirs = run_of(truth, truths, class);
        status = match_group(update, class, found, ours, truth, theirs);
        found = after(found, ours);
        detections -= ours;
        truth = after(truth, theirs);
        truths -= theirs;
    }
    return status;
}

/* Grows by an eighth instead of doubling, because most of the memory is records. */
static kolo_status grow_records(struct kolo_coco_images *images, size_t need)
{
    enum { PART = 8, FIRST = 64 };
    if (need <= images->record_room)
        return KOLO_OK;
    size_t room = images->record_room + images->record_room / PART + FIRST;
    room = room < need ? need : room;
    struct kolo_coco_record *grown = kolo_pages(room, sizeof *grown);
    if (!grown)
        return KOLO_ERR_NO_MEMORY;
    if (images->records > 0)
        memcpy(grown, images->record, images->records * sizeof *grown);
    kolo_pages_free(images->record, images->record_room, sizeof *images->record);
    images->record = grown;
    images->record_room = room;
    return KOLO_OK;
}

kolo_status kolo_coco_images_room(struct kolo_coco_images *images, size_t more_images,
                                  size_t more_records, size_t more_tallies)
{
    kolo_status status;
    KOLO_TRY(grow_records(images, images->records + more_records));
    KOLO_TRY(kolo_grow((void **)&images->tally, &images->tally_room, images->tallies + more_tallies,
                       sizeof *images->tally));
    KOLO_TRY(kolo_grow((void **)&images->image, &images->image_room, images->images + more_images,
                       sizeof *images->image));
out:
    return status;
}

static kolo_status grow_for_image(struct update *update, size_t detections, size_t truths)
{
    struct kolo_coco_desk *desk = update->desk;
    struct kolo_coco_images *images = update->images;
    size_t more = detections > truths ? detections : truths;
    kolo_status status;
    KOLO_TRY(kolo_grow((void **)&desk->found, &desk->found_room, detections, sizeof *desk->found));
    KOLO_TRY(kolo_grow((void **)&desk->truth, &desk->truth_room, truths, sizeof *desk->truth));
    KOLO_TRY(kolo_grow((void **)&desk->spare, &desk->spare_room, more, sizeof *desk->spare));
    KOLO_TRY(kolo_grow((void **)&desk->found_number, &desk->found_number_room, detections,
                       sizeof *desk->found_number));
    KOLO_TRY(kolo_grow((void **)&desk->truth_number, &desk->truth_number_room, truths,
                       sizeof *desk->truth_number));
    KOLO_TRY(kolo_grow((void **)&desk->areas, &desk->areas_room, detections, sizeof *desk->areas));
    KOLO_TRY(kolo_grow((void **)&desk->partial, &desk->partial_room, detections, 1));
    KOLO_TRY(kolo_grow((void **)&desk->judged, &desk->judged_room, truths, sizeof *desk->judged));
    KOLO_TRY(kolo_coco_images_room(images, 1, detections, truths));
out:
    return status;
}

/* Where the objects of an image begin in an update, and their numbers. */
struct place {
    size_t image, first_found, found, first_truth, truths;
};

static void open_notes(const struct update *update, size_t image, size_t truths)
{
    struct kolo_coco_desk *desk = update->desk;
    kolo_coco_lvis_open(&desk->lvis, update->params, update->given->truths, image);
    for (size_t g = 0; g < truths; g++)
        kolo_coco_lvis_ask(&desk->lvis, desk->truth[g].category);
}

static void close_notes(const struct update *update, size_t image, size_t truths)
{
    struct kolo_coco_desk *desk = update->desk;
    for (size_t g = 0; g < truths; g++)
        kolo_coco_lvis_forget(&desk->lvis, desk->truth[g].category);
    kolo_coco_lvis_close(&desk->lvis, update->params, update->given->truths, image);
}

static kolo_status add_image(struct update *update, const struct place *place)
{
    struct kolo_coco_images *images = update->images;
    struct kolo_coco_desk *desk = update->desk;
    const struct kolo_coco_update *given = update->given;
    bool has_notes = update->params->rules == KOLO_DETECTION_LVIS;
    kolo_status status = grow_for_image(update, place->found, place->truths);
    if (status != KOLO_OK)
        return status;
    images->image[images->images++] = (struct kolo_coco_image){
        .id = given->ids[place->image], .records = images->records, .tallies = images->tallies};
    size_t found = 0, truths = 0;
    if (place->truths > 0)
        truths = write_slips(update, false, place->first_truth, place->truths, desk->truth);
    if (has_notes)
        open_notes(update, place->image, truths);
    if (place->found > 0)
        found = write_slips(update, true, place->first_found, place->found, desk->found);
    status = match_image(update, found, truths);
    if (has_notes)
        close_notes(update, place->image, truths);
    return status;
}

static kolo_status add_images(struct update *update)
{
    const struct kolo_coco_update *given = update->given;
    struct place place = {.image = 0};
    kolo_status status = grow_records(update->images, update->images->records +
                                                          (given->found ? given->found->count : 0));
    if (status == KOLO_OK && update->params->rules == KOLO_DETECTION_LVIS)
        status = kolo_coco_lvis_begin(&update->desk->lvis, update->params);
    for (; status == KOLO_OK && place.image < given->images; place.image++) {
        place.found = given->found ? given->found->image_counts[place.image] : 0;
        place.truths = given->truths ? given->truths->image_counts[place.image] : 0;
        status = add_image(update, &place);
        place.first_found += place.found;
        place.first_truth += place.truths;
    }
    return status;
}

kolo_status kolo_coco_images_add(struct kolo_coco_images *images,
                                 const struct kolo_coco_params *params,
                                 const struct kolo_coco_update *given)
{
    if (!images->desk)
        images->desk = kolo_calloc(1, sizeof *images->desk);
    if (!images->desk)
        return KOLO_ERR_NO_MEMORY;
    struct kolo_coco_images before = *images;
    struct update update = {
        .images = images, .params = params, .given = given, .desk = images->desk};
    kolo_status status = add_images(&update);
    if (status != KOLO_OK) { /* all or nothing */
        images->images = before.images;
        images->records = before.records;
        images->tallies = before.tallies;
    }
    return status;
}

void kolo_coco_images_clear(struct kolo_coco_images *images)
{
    images->images = images->records = images->tallies = 0;
}

void kolo_coco_images_free(struct kolo_coco_images *images)
{
    struct kolo_coco_desk *desk = images->desk;
    if (desk) {
        kolo_free_memory(desk->found);
        kolo_free_memory(desk->truth);
        kolo_free_memory(desk->spare);
        kolo_free_memory(desk->found_number);
        kolo_free_memory(desk->truth_number);
        kolo_free_memory(desk->areas);
        kolo_free_memory(desk->partial);
        kolo_coco_lvis_free(&desk->lvis);
        kolo_free_memory(desk->judged);
        kolo_coco_shapes_free(&desk->shapes);
        kolo_coco_scratch_free(&desk->scratch);
    }
    kolo_free_memory(desk);
    kolo_free_memory(images->image);
    kolo_pages_free(images->record, images->record_room, sizeof *images->record);
    kolo_free_memory(images->tally);
    *images = (struct kolo_coco_images){.image = NULL};
}
