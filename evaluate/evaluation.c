// SPDX-License-Identifier: Apache-2.0
// From files to results, see evaluation.h. The image with index i in the sorted list belongs to
// rank i modulo ranks. That rank passes it as a whole to the library, in batches of images, its
// boxes in the order of the files. Between any two steps that can fail on one rank only, all ranks
// agree.
#include "evaluate/evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/agree.h"
#include "evaluate/progress.h"

enum { BATCH_IMAGES = 256 };

/* A box that is being sorted into the order of its image's file. */
struct slip {
    uint64_t number;
    size_t place; /* index of the box */
    uint32_t image;
};

/* LVIS: what is known about categories in the images of a batch. */
struct notes {
    size_t counts[BATCH_IMAGES];
    int64_t *id;
    size_t count, room;
};

struct boxes { /* of a batch, as the library takes them */
    size_t counts[BATCH_IMAGES];
    size_t count, room, category_room, score_room, area_room, id_room, crowd_room, ignored_room;
    double *box, *score, *area;
    int64_t *category, *id;
    uint8_t *crowd, *ignored;
    struct kolo_mask *mask;
    double *points;
    int64_t *point_count;
    size_t mask_room, points_room, point_count_room, masks; /* masks: number made for this batch */
};

struct feed {
    const struct eval_evaluation *evaluation;
    struct slip *truth, *found; /* of this rank's images, by image, in the order of the file */
    size_t truths, detections;
    struct boxes truth_boxes, found_boxes;
    struct notes absent, partial;
    uint32_t height, width; /* of the current image's first mask; 0: none yet */
    struct eval_bare *bare; /* of this rank's images, which come in the order of their ids */
    uint64_t bad;           /* the place of the error in its file; else EVAL_NO_PLACE */
};

static int in_order(const void *a, const void *b)
{
    const struct slip *x = a, *y = b;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static kolo_status write_slips(struct feed *feed, int rank, int ranks)
{
    const struct eval_truths *truths = &feed->evaluation->truths;
    const struct eval_detections *found = &feed->evaluation->detections;
    feed->truth = kolo_calloc(truths->truths, sizeof *feed->truth);
    feed->found = kolo_calloc(found->count, sizeof *feed->found);
    if (!feed->truth || !feed->found)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < truths->truths; i++) {
        uint32_t image = (uint32_t)eval_image_find(truths, truths->truth[i].image);
        if (image % (unsigned)ranks == (unsigned)rank)
            feed->truth[feed->truths++] = (struct slip){.number = i, .place = i, .image = image};
    }
    for (size_t i = 0; i < found->count; i++)
        feed->found[feed->detections++] = (struct slip){
            .number = found->detection[i].number, .place = i, .image = found->detection[i].image};
    qsort(feed->truth, feed->truths, sizeof *feed->truth, in_order);
    qsort(feed->found, feed->detections, sizeof *feed->found, in_order);
    return KOLO_OK;
}

static kolo_status grow(struct boxes *boxes, size_t count, const struct eval_evaluation *evaluation)
{
    kolo_detection_kind kind = evaluation->options->kind;
    kolo_status status;
    KOLO_TRY(kolo_grow((void **)&boxes->box, &boxes->room, 4 * count, sizeof *boxes->box));
    KOLO_TRY(kolo_grow((void **)&boxes->score, &boxes->score_room, count, sizeof *boxes->score));
    KOLO_TRY(kolo_grow((void **)&boxes->area, &boxes->area_room, count, sizeof *boxes->area));
    KOLO_TRY(kolo_grow((void **)&boxes->category, &boxes->category_room, count,
                       sizeof *boxes->category));
    KOLO_TRY(kolo_grow((void **)&boxes->id, &boxes->id_room, count, sizeof *boxes->id));
    KOLO_TRY(kolo_grow((void **)&boxes->crowd, &boxes->crowd_room, count, sizeof *boxes->crowd));
    KOLO_TRY(
        kolo_grow((void **)&boxes->ignored, &boxes->ignored_room, count, sizeof *boxes->ignored));
    if (kind == KOLO_DETECTION_MASKS)
        KOLO_TRY(kolo_grow((void **)&boxes->mask, &boxes->mask_room, count, sizeof *boxes->mask));
    if (kind == KOLO_DETECTION_KEYPOINTS) {
        KOLO_TRY(kolo_grow((void **)&boxes->points, &boxes->points_room,
                           EVAL_POINT_NUMBERS * evaluation->points * count, sizeof *boxes->points));
        KOLO_TRY(kolo_grow((void **)&boxes->point_count, &boxes->point_count_room, count,
                           sizeof *boxes->point_count));
    }
out:
    return status;
}

static void forget(struct boxes *boxes)
{
    for (size_t i = 0; i < boxes->masks; i++)
        kolo_mask_free(&boxes->mask[i]);
    boxes->count = boxes->masks = 0;
}

static void free_boxes(struct boxes *boxes)
{
    forget(boxes);
    kolo_free_memory(boxes->mask);
    kolo_free_memory(boxes->points);
    kolo_free_memory(boxes->point_count);
    kolo_free_memory(boxes->box);
    kolo_free_memory(boxes->score);
    kolo_free_memory(boxes->area);
    kolo_free_memory(boxes->category);
    kolo_free_memory(boxes->id);
    kolo_free_memory(boxes->crowd);
    kolo_free_memory(boxes->ignored);
}

/* Converts the mask or the points of the next box. */
static kolo_status put_shape(struct boxes *boxes, const struct eval_shapes *shapes,
                             const struct eval_place *place, const struct eval_image *image,
                             const struct eval_evaluation *evaluation)
{
    kolo_detection_kind kind = evaluation->options->kind;
    size_t numbers = EVAL_POINT_NUMBERS * evaluation->points;
    if (kind == KOLO_DETECTION_KEYPOINTS)
        return eval_shapes_points(shapes, place, numbers, boxes->points + numbers * boxes->count);
    if (kind != KOLO_DETECTION_MASKS)
        return KOLO_OK;
    boxes->mask[boxes->count] = (struct kolo_mask){.height = 0};
    boxes->masks = boxes->count + 1;
    return eval_shapes_mask(shapes, place, image->height, image->width, &boxes->mask[boxes->count]);
}

static void put_truth(struct boxes *boxes, const struct eval_truth *truth)
{
    size_t n = boxes->count++;
    if (boxes->point_count)
        boxes->point_count[n] = truth->point_count;
    memcpy(boxes->box + 4 * n, truth->box, sizeof truth->box);
    boxes->category[n] = truth->category;
    boxes->area[n] = truth->area;
    boxes->id[n] = truth->id;
    boxes->crowd[n] = truth->is_crowd;
    boxes->ignored[n] = truth->is_ignored;
}

static void put_detection(struct boxes *boxes, const struct eval_detection *found,
                          const struct eval_truths *truths)
{
    size_t n = boxes->count++;
    memcpy(boxes->box + 4 * n, found->box, sizeof found->box);
    boxes->category[n] = truths->category[found->category].id;
    boxes->score[n] = found->score;
    boxes->area[n] = found->box[2] * found->box[3];
}

/* If the file does not give the image's size, its masks must still have equal sizes. */
static kolo_status check_mask_size(struct feed *feed, const struct boxes *boxes)
{
    if (feed->evaluation->options->kind != KOLO_DETECTION_MASKS)
        return KOLO_OK;
    const struct kolo_mask *mask = &boxes->mask[boxes->count];
    feed->height = feed->height ? feed->height : mask->height;
    feed->width = feed->width ? feed->width : mask->width;
    if (mask->height == feed->height && mask->width == feed->width)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_DATA,
                     "the size of the mask is [%u, %u], but other masks of its image have [%u, %u]",
                     mask->height, mask->width, feed->height, feed->width);
}

/* Adds to the detail which object it is about. */
static kolo_status fail_at(kolo_status status, const char *path, const char *what, int64_t number)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    return kolo_fail(status == KOLO_ERR_INVALID ? KOLO_ERR_DATA : status, "%s: %s %lld: %s", path,
                     what, (long long)number, detail);
}

static kolo_status add_truth(struct feed *feed, size_t place, uint32_t image)
{
    const struct eval_evaluation *evaluation = feed->evaluation;
    const struct eval_truths *truths = &evaluation->truths;
    const struct eval_truth *truth = &truths->truth[place];
    kolo_status status = put_shape(&feed->truth_boxes, &truths->shapes, &truth->shape,
                                   &truths->image[image], evaluation);
    if (status == KOLO_OK)
        status = check_mask_size(feed, &feed->truth_boxes);
    feed->bad = status == KOLO_OK ? EVAL_NO_PLACE : place;
    if (status != KOLO_OK)
        return fail_at(status, evaluation->options->truths, "annotation", truth->id);
    put_truth(&feed->truth_boxes, truth);
    return KOLO_OK;
}

static kolo_status add_detection(struct feed *feed, size_t place, uint32_t image)
{
    const struct eval_evaluation *evaluation = feed->evaluation;
    const struct eval_detections *detections = &evaluation->detections;
    const struct eval_detection *found = &detections->detection[place];
    kolo_status status = put_shape(&feed->found_boxes, &detections->shapes, &found->shape,
                                   &evaluation->truths.image[image], evaluation);
    if (status == KOLO_OK)
        status = check_mask_size(feed, &feed->found_boxes);
    if (status == KOLO_OK && evaluation->by_box && !found->has_box)
        status =
            kolo_fail(KOLO_ERR_DATA,
                      "it has no bbox; the first detection has one, so areas are taken from boxes");
    feed->bad = status == KOLO_OK ? EVAL_NO_PLACE : found->number;
    if (status != KOLO_OK)
        return fail_at(status, evaluation->options->detections, "detection",
                       (int64_t)found->number + 1);
    put_detection(&feed->found_boxes, found, &evaluation->truths);
    return KOLO_OK;
}

static kolo_status add_notes(struct notes *notes, const struct eval_truths *truths,
                             const struct eval_id_list *list, size_t at)
{
    kolo_status status =
        kolo_grow((void **)&notes->id, &notes->room, notes->count + list->count, sizeof *notes->id);
    notes->counts[at] = list->count;
    if (status == KOLO_OK && list->count > 0)
        memcpy(notes->id + notes->count, truths->id + list->at, list->count * sizeof *notes->id);
    notes->count += list->count;
    return status;
}

/* Takes the boxes of one image, which come first among the remaining slips. */
static kolo_status take_image(struct feed *feed, size_t *truth, size_t *found, uint32_t image,
                              size_t at)
{
    const struct eval_evaluation *evaluation = feed->evaluation;
    size_t truths = 0, detections = 0;
    while (*truth + truths < feed->truths && feed->truth[*truth + truths].image == image)
        truths++;
    while (*found + detections < feed->detections &&
           feed->found[*found + detections].image == image)
        detections++;
    const struct eval_image *facts = &evaluation->truths.image[image];
    if (detections == 0 && feed->bare->count++ < EVAL_BARE_NAMED)
        feed->bare->first[feed->bare->count - 1] = facts->id;
    kolo_status status = grow(&feed->truth_boxes, feed->truth_boxes.count + truths, evaluation);
    if (status == KOLO_OK)
        status = grow(&feed->found_boxes, feed->found_boxes.count + detections, evaluation);
    if (status == KOLO_OK)
        status = add_notes(&feed->absent, &evaluation->truths, &facts->absent, at);
    if (status == KOLO_OK)
        status = add_notes(&feed->partial, &evaluation->truths, &facts->partial, at);
    feed->height = feed->width = 0;
    feed->truth_boxes.counts[at] = truths;
    feed->found_boxes.counts[at] = detections;
    for (size_t i = 0; status == KOLO_OK && i < truths; i++)
        status = add_truth(feed, feed->truth[(*truth)++].place, image);
    for (size_t i = 0; status == KOLO_OK && i < detections; i++)
        status = add_detection(feed, feed->found[(*found)++].place, image);
    return status;
}

/* by_box: the area of a detection is that of its box, whatever its mask or points are. */
static struct kolo_boxes describe(const struct boxes *boxes, bool is_truth, bool by_box)
{
    return (struct kolo_boxes){.count = boxes->count,
                               .image_counts = boxes->counts,
                               .boxes = boxes->box,
                               .dtype = KOLO_FLOAT64,
                               .format = KOLO_BOX_XYWH,
                               .categories = boxes->category,
                               .scores = is_truth ? NULL : boxes->score,
                               .areas = is_truth || by_box ? boxes->area : NULL,
                               .crowds = is_truth ? boxes->crowd : NULL,
                               .ignored = is_truth ? boxes->ignored : NULL,
                               .ids = is_truth ? boxes->id : NULL,
                               .masks = boxes->mask,
                               .keypoints = boxes->points,
                               .point_counts = is_truth ? boxes->point_count : NULL};
}

static kolo_status update(struct feed *feed, const int64_t *images, size_t count)
{
    struct kolo_boxes truths = describe(&feed->truth_boxes, true, false);
    struct kolo_boxes found = describe(&feed->found_boxes, false, feed->evaluation->by_box);
    if (feed->absent.count > 0) {
        truths.absent_counts = feed->absent.counts;
        truths.absent = feed->absent.id;
    }
    if (feed->partial.count > 0) {
        truths.partial_counts = feed->partial.counts;
        truths.partial = feed->partial.id;
    }
    bool has_truths = truths.count > 0 || truths.absent || truths.partial;
    kolo_status status =
        kolo_detection_update(feed->evaluation->detection, images, count,
                              has_truths ? &truths : NULL, found.count > 0 ? &found : NULL);
    feed->absent.count = feed->partial.count = 0;
    forget(&feed->truth_boxes);
    forget(&feed->found_boxes);
    return status;
}

static kolo_status feed_images(struct feed *feed, int rank, int ranks)
{
    const struct eval_truths *truths = &feed->evaluation->truths;
    int64_t images[BATCH_IMAGES];
    struct eval_progress progress;
    size_t truth = 0, found = 0, count = 0;
    kolo_status status = write_slips(feed, rank, ranks);
    eval_progress_begin(&progress, "images matched", truths->images);
    for (size_t i = (size_t)rank; status == KOLO_OK && i < truths->images; i += (size_t)ranks) {
        images[count] = truths->image[i].id;
        status = take_image(feed, &truth, &found, (uint32_t)i, count++);
        if (status == KOLO_OK && (count == BATCH_IMAGES || i + (size_t)ranks >= truths->images)) {
            status = update(feed, images, count);
            eval_progress_at(&progress, i);
            count = 0;
        }
    }
    eval_progress_end(&progress);
    return status;
}

static kolo_status feed_all(struct eval_evaluation *evaluation, int rank, int ranks,
                            uint64_t *bad_out)
{
    struct feed *feed = kolo_calloc(1, sizeof *feed);
    if (!feed)
        return KOLO_ERR_NO_MEMORY;
    feed->evaluation = evaluation;
    feed->bad = EVAL_NO_PLACE;
    feed->bare = &evaluation->bare;
    kolo_status status = feed_images(feed, rank, ranks);
    *bad_out = feed->bad;
    free_boxes(&feed->truth_boxes);
    free_boxes(&feed->found_boxes);
    kolo_free_memory(feed->absent.id);
    kolo_free_memory(feed->partial.id);
    kolo_free_memory(feed->truth);
    kolo_free_memory(feed->found);
    kolo_free_memory(feed);
    return status;
}

/* A list that was not given has the default of the rules. */
static struct kolo_detection_config config_of(const struct eval_evaluation *evaluation,
                                              const int64_t *ids, const int64_t *groups)
{
    const struct eval_options *options = evaluation->options;
    const struct eval_truths *truths = &evaluation->truths;
    bool is_lvis = options->rules == KOLO_DETECTION_LVIS;
    return (struct kolo_detection_config){
        .size = sizeof(struct kolo_detection_config),
        .kind = options->kind,
        .rules = options->rules,
        .mode = options->mode,
        .mean_rule = options->mean_rule,
        .threshold_mode = options->threshold_mode,
        .categories = ids,
        .category_count = truths->categories,
        .groups = groups,
        .any_category = options->any_category,
        .caps = options->cap_count > 0 ? options->caps : NULL,
        .cap_count = options->cap_count,
        .image_cap = is_lvis ? options->caps[0] : 0,
        .areas = options->area_count > 0 ? options->areas : NULL,
        .area_count = options->area_count,
        .thresholds = options->threshold_count > 0 ? options->thresholds : NULL,
        .threshold_count = options->threshold_count,
        .sigmas = evaluation->sigmas.count > 0 ? evaluation->sigmas.sigma : NULL,
        .sigma_count = evaluation->sigmas.count,
        .continuous_boxes = !options->pixel_boxes,
        .images = (int64_t)truths->images};
}

static kolo_status create(struct eval_evaluation *evaluation)
{
    const struct eval_truths *truths = &evaluation->truths;
    int64_t *ids = kolo_calloc(truths->categories, sizeof *ids);
    int64_t *groups = kolo_calloc(truths->categories, sizeof *groups);
    kolo_status status = ids && groups ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (size_t k = 0; status == KOLO_OK && k < truths->categories; k++) {
        ids[k] = truths->category[k].id;
        groups[k] = truths->category[k].frequency;
    }
    if (status == KOLO_OK) {
        const struct kolo_detection_config config = config_of(evaluation, ids, groups);
        status = kolo_detection_create(&config, &evaluation->detection);
    }
    kolo_free_memory(ids);
    kolo_free_memory(groups);
    return status;
}

/* If the first detection has a box, pycocotools takes the areas of all detections from their boxes,
 * even if masks or keypoints are compared. */
static kolo_status find_areas(struct eval_evaluation *evaluation, struct kolo_comm *comm)
{
    int32_t mine = evaluation->detections.first_has_box, any = 0;
    kolo_status status =
        eval_called(comm, kolo_allreduce(comm, &mine, &any, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
    evaluation->by_box = any != 0;
    return status;
}

static kolo_status read_files(struct eval_evaluation *evaluation, struct kolo_comm *comm)
{
    const struct eval_options *options = evaluation->options;
    struct eval_truths *truths = &evaluation->truths;
    struct eval_detections *detections = &evaluation->detections;
    kolo_status status;
    const struct eval_division division = {.kind = options->kind,
                                           .skip_unknown = options->skip_unknown,
                                           .rank = kolo_rank(comm),
                                           .ranks = kolo_size(comm)};
    const struct eval_terms terms = {.kind = options->kind,
                                     .rules = options->rules,
                                     .is_lenient = options->mode == KOLO_DETECTION_FIXED,
                                     .skip_unknown = options->skip_unknown,
                                     .is_compared = kolo_size(comm) > 1};
    KOLO_TRY(
        eval_agree(comm, eval_sigmas_read(&evaluation->sigmas, options->sigmas), EVAL_NO_PLACE));
    KOLO_TRY(eval_agree(comm, eval_truths_read(truths, options->truths, &terms), EVAL_NO_PLACE));
    KOLO_TRY(eval_agree_file(comm, options->truths, truths->bytes, truths->sum));
    if (options->kind == KOLO_DETECTION_KEYPOINTS)
        KOLO_TRY(eval_agree(
            comm,
            eval_sigmas_fit(&evaluation->sigmas, truths, options->truths, &evaluation->points),
            EVAL_NO_PLACE));
    KOLO_TRY(
        eval_detections_read_together(detections, options->detections, truths, &division, comm));
    if (options->kind != KOLO_DETECTION_BOXES && options->mode == KOLO_DETECTION_COMPAT)
        KOLO_TRY(find_areas(evaluation, comm));
out:
    return status;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Combines the images without detections of each rank into those of all ranks. */
static kolo_status join_bare(struct eval_bare *bare, struct kolo_comm *comm)
{
    enum { WORDS = sizeof *bare / sizeof(int64_t) };
    size_t ranks = (size_t)kolo_size(comm), named = 0;
    struct eval_bare *all = kolo_calloc(ranks, sizeof *all);
    int64_t *ids = kolo_calloc(ranks * EVAL_BARE_NAMED, sizeof *ids), sum = 0;
    kolo_status status = eval_agree(comm, all && ids ? KOLO_OK : KOLO_ERR_NO_MEMORY, EVAL_NO_PLACE);
    if (status == KOLO_OK)
        status = eval_called(comm, kolo_allgather(comm, bare, all, WORDS, KOLO_INT64, NULL, NULL));
    for (size_t r = 0; status == KOLO_OK && r < ranks; sum += all[r++].count)
        for (size_t i = 0; i < EVAL_BARE_NAMED && (int64_t)i < all[r].count; i++)
            ids[named++] = all[r].first[i];
    if (status == KOLO_OK && named > 0) {
        qsort(ids, named, sizeof *ids, by_number);
        memcpy(bare->first, ids, (named < EVAL_BARE_NAMED ? named : EVAL_BARE_NAMED) * sizeof *ids);
    }
    bare->count = sum;
    kolo_free_memory(all);
    kolo_free_memory(ids);
    return status;
}

kolo_status eval_evaluation_run(struct eval_evaluation *evaluation, struct kolo_comm *comm,
                                const struct eval_options *options)
{
    kolo_status status;
    uint64_t bad = EVAL_NO_PLACE;
    *evaluation = (struct eval_evaluation){
        .options = options, .result = {.size = sizeof(struct kolo_detection_result)}};
    KOLO_TRY(read_files(evaluation, comm));
    KOLO_TRY(eval_detections_deal(&evaluation->detections, comm));
    status = create(evaluation);
    if (status == KOLO_OK)
        status = feed_all(evaluation, kolo_rank(comm), kolo_size(comm), &bad);
    eval_detections_free(&evaluation->detections);
    KOLO_TRY(eval_agree(comm, status, bad));
    KOLO_TRY(join_bare(&evaluation->bare, comm));
    KOLO_TRY(kolo_detection_compute(comm, evaluation->detection, NULL));
    KOLO_TRY(kolo_detection_result(evaluation->detection, &evaluation->result));
out:
    return status;
}

void eval_evaluation_free(struct eval_evaluation *evaluation)
{
    eval_truths_free(&evaluation->truths);
    eval_detections_free(&evaluation->detections);
    kolo_detection_destroy(evaluation->detection);
}
