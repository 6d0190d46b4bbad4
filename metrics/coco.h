// SPDX-License-Identifier: Apache-2.0
// What the parts of COCO's evaluation share: the parameters, a detection's record, and the steps
// from boxes to numbers. Private to metrics/.
//
//   coco_overlap  what is compared: boxes, masks or keypoints       (one image and category)
//   coco_box    boxes and how much they overlap                     (one image and category)
//   coco_oks    keypoints and how similar they are                  (one image and category)
//   coco_match  which detection takes which ground truth            (one image and category)
//   coco_lvis   LVIS's rules: what is known of categories           (one image)
//   voc_match   PASCAL VOC's rules and boxes                        (one image and category)
//   voc_average its average precision                               (all ranks)
//   coco_images what is kept of the images of this rank
//   coco_state  that as bytes, and that of two ranks as one
//   coco_sort   the records of a category, best first
//   coco_run    those of several ranks, merged as they are read
//   coco_curve  precision, recall and scores of a category, or of a part of it
//   coco_share  from the images of each rank to results on all      (all ranks; coco_share.h)
//   coco_pieces which rank makes which category's curve
//   coco_route  records to those ranks
//   coco_join   curves to all ranks
//   coco_mean   averages as NumPy makes them
//   coco_params the parameters, with COCO's own as default
#ifndef KOLO_METRICS_COCO_H
#define KOLO_METRICS_COCO_H

#include <kolo/detection.h>

#include "base/status.h"

struct kolo_coco_params {
    kolo_detection_kind kind;
    kolo_detection_mode mode;
    kolo_mean_rule mean_rule;
    bool any_category;
    size_t thresholds, recalls, areas, caps;
    double threshold[KOLO_DETECTION_FLAGS_MAX];
    double recall[KOLO_DETECTION_RECALLS_MAX];
    struct kolo_area_range area[KOLO_DETECTION_AREAS_MAX];
    int cap[KOLO_DETECTION_CAPS_MAX];
    int64_t *category; /* ascending */
    size_t categories; /* that boxes may name */
    size_t classes;    /* of the results: categories, or 1 with any_category */
    double *sigma;     /* of keypoints */
    size_t sigmas;
    kolo_detection_rules rules;
    double slack;     /* what a divisor of precision has more than detections */
    size_t image_cap; /* 0: none */
    int64_t *group;   /* per category */
    bool is_continuous;
};

/** Checks the config and fills in COCO's own where it says nothing. */
kolo_status kolo_coco_params_make(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config) KOLO_NODISCARD;
void kolo_coco_params_free(struct kolo_coco_params *params);
/** The place of a category's id; -1 where there is none. */
int64_t kolo_coco_category(const struct kolo_coco_params *params, int64_t id);
/** A number that differs between different parameters. */
uint64_t kolo_coco_params_digest(const struct kolo_coco_params *params);

struct kolo_coco_truth {
    double area;
    bool is_crowd, is_ignored;
    bool is_unseen; /* matched, it does not make a detection a true one: id 0 in pycocotools */
};

/** A bit per area range and threshold, area * thresholds + threshold: whether a detection is a true
 *  one, and whether it is left out. Never both. */
struct kolo_coco_verdict {
    uint64_t is_true, is_ignored;
};

/** Memory for the matching of one image and category; grows. Zero at first. */
struct kolo_coco_scratch {
    double *overlaps;
    struct kolo_coco_verdict *verdicts;
    uint8_t *ignored;  /* per ground truth: in this area range */
    uint32_t *order;   /* of the ground truths: ignored ones last */
    uint8_t *taken;    /* per ground truth */
    uint32_t *hopeful; /* detections that reach the lowest threshold somewhere */
    size_t overlap_room, verdict_room, ignored_room, order_room, taken_room, hopeful_room;
};

/** Room for so many; writes nothing. */
kolo_status kolo_coco_scratch_grow(struct kolo_coco_scratch *scratch, size_t detections,
                                   size_t truths) KOLO_NODISCARD;
void kolo_coco_scratch_free(struct kolo_coco_scratch *scratch);

/** Matches detections, best score first, with ground truths, for all area ranges and thresholds.
 *  Reads scratch->overlaps[detection * truths + truth], writes scratch->verdicts.
 *  @param areas    of the detections
 *  @param partial  per detection: not 0 where it is left out if it is a miss */
void kolo_coco_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                     const double *areas, const uint8_t *partial, size_t detections,
                     const struct kolo_coco_truth *truth, size_t truths);
/** By PASCAL VOC's rules, where verdicts are those of misses. */
void kolo_voc_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                    size_t detections, const struct kolo_coco_truth *truth, size_t truths);
/** Is the ground truth left out in this area range? */
bool kolo_coco_is_left_out(const struct kolo_coco_truth *truth, const struct kolo_area_range *area);

enum { KOLO_COCO_FLAG_BYTES = KOLO_DETECTION_FLAGS_MAX / 8 };

/** What is kept of a detection, and sent to the rank that owns its category. */
struct kolo_coco_record {
    double score;
    uint32_t place;    /* on its rank: the category; sent: the image's place among all ids */
    uint16_t position; /* among the image's and category's, best first */
    uint8_t is_true[KOLO_COCO_FLAG_BYTES], is_ignored[KOLO_COCO_FLAG_BYTES];
};

static inline uint64_t kolo_coco_flags(const uint8_t bytes[KOLO_COCO_FLAG_BYTES])
{
    uint64_t flags = 0;
    for (size_t i = 0; i < KOLO_COCO_FLAG_BYTES; i++)
        flags |= (uint64_t)bytes[i] << 8 * i;
    return flags;
}

/** What is kept of the ground truth of an image and category. */
struct kolo_coco_tally {
    uint32_t category;
    uint32_t truths;
    uint32_t counted[KOLO_DETECTION_AREAS_MAX]; /* not left out */
};

struct kolo_coco_image {
    int64_t id;
    size_t records, tallies; /* where its own begin; they end where the next image's begin */
};

struct kolo_coco_shapes; /* coco_overlap.h */

/** What an update is given; either of truths and found may be NULL. */
struct kolo_coco_update {
    const int64_t *ids; /* of the images */
    size_t images;
    const struct kolo_boxes *truths, *found;
};

/** Objects of one image and category, as an update has them. */
struct kolo_coco_group {
    const struct kolo_coco_update *update;
    const uint32_t *found_number, *truth_number; /* which of them; detections best first */
    size_t detections, truths;
    const struct kolo_coco_truth *truth;
};

/** Checks every number of an update. */
kolo_status kolo_coco_check(const struct kolo_coco_params *params,
                            const struct kolo_coco_update *update) KOLO_NODISCARD;
double kolo_coco_score(const struct kolo_boxes *boxes, size_t i);
/** The area that decides the range of object @p i. */
double kolo_coco_area(const struct kolo_coco_params *params, const struct kolo_boxes *boxes,
                      size_t i, bool is_found);
/** Is ground truth @p i left out whatever the flags say: has it nothing to find? */
bool kolo_coco_is_blank(const struct kolo_coco_params *params, const struct kolo_boxes *truths,
                        size_t i);
/** overlaps[detection * truths + truth] as pycocotools computes it, operation by operation.
 *  @param shapes  memory of such calls; zero at first */
kolo_status kolo_coco_overlap(const struct kolo_coco_params *params,
                              const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                              double *overlaps) KOLO_NODISCARD;

/** What is known of each category in one image, by LVIS's rules; and how far an update's lists are
 *  read. Zero at first. */
struct kolo_coco_lvis {
    uint8_t *notes;
    size_t absent, partial;
};
kolo_status kolo_coco_lvis_check(const struct kolo_boxes *truths, size_t images) KOLO_NODISCARD;
/** An update begins. */
kolo_status kolo_coco_lvis_begin(struct kolo_coco_lvis *lvis,
                                 const struct kolo_coco_params *params) KOLO_NODISCARD;
/** Image by image, in their order: notes of an image's lists are there from open to close. */
void kolo_coco_lvis_open(const struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                         const struct kolo_boxes *truths, size_t image);
void kolo_coco_lvis_close(struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                          const struct kolo_boxes *truths, size_t image);
/** Of the category of a ground truth: to forget before close. */
void kolo_coco_lvis_ask(const struct kolo_coco_lvis *lvis, size_t category);
void kolo_coco_lvis_forget(const struct kolo_coco_lvis *lvis, size_t category);
bool kolo_coco_lvis_is_asked(const struct kolo_coco_lvis *lvis, size_t category);
bool kolo_coco_lvis_is_partial(const struct kolo_coco_lvis *lvis, size_t category);
void kolo_coco_lvis_free(struct kolo_coco_lvis *lvis);

/** The images of a rank in the order of their updates. */
struct kolo_coco_images {
    struct kolo_coco_image *image;
    struct kolo_coco_record *record;
    struct kolo_coco_tally *tally;
    size_t images, records, tallies;
    size_t image_room, record_room, tally_room;
    struct kolo_coco_desk *desk; /* memory of updates */
};

kolo_status kolo_coco_images_add(struct kolo_coco_images *images,
                                 const struct kolo_coco_params *params,
                                 const struct kolo_coco_update *given) KOLO_NODISCARD;
/** Room for so many more of each; writes nothing. */
kolo_status kolo_coco_images_room(struct kolo_coco_images *images, size_t more_images,
                                  size_t more_records, size_t more_tallies) KOLO_NODISCARD;
static inline size_t kolo_coco_records_end(const struct kolo_coco_images *images, size_t image)
{
    return image + 1 < images->images ? images->image[image + 1].records : images->records;
}
static inline size_t kolo_coco_tallies_end(const struct kolo_coco_images *images, size_t image)
{
    return image + 1 < images->images ? images->image[image + 1].tallies : images->tallies;
}
void kolo_coco_images_clear(struct kolo_coco_images *images);
void kolo_coco_images_free(struct kolo_coco_images *images);

struct kolo_reader;
struct kolo_writer;
/** How many bytes kolo_coco_images_write() writes. */
size_t kolo_coco_images_bytes(const struct kolo_coco_images *images,
                              const struct kolo_coco_params *params);
void kolo_coco_images_write(const struct kolo_coco_images *images,
                            const struct kolo_coco_params *params, struct kolo_writer *writer);
/** Reads images that come from outside into none. Clear them where it fails. */
kolo_status kolo_coco_images_read(struct kolo_coco_images *images,
                                  const struct kolo_coco_params *params,
                                  struct kolo_reader *reader) KOLO_NODISCARD;
/** The images of @p from behind those of @p into. */
kolo_status kolo_coco_images_append(struct kolo_coco_images *into,
                                    const struct kolo_coco_images *from) KOLO_NODISCARD;

/** All results; precision and scores as [T, R, K, A, M], recall as [T, K, A, M]. */
struct kolo_coco_arrays {
    double *precision, *recall, *scores;
    double *voc_points, *voc_areas; /* as recall; NULL without VOC's rules */
    size_t points, ends;            /* elements of precision and scores, of recall */
};

/** Where an entry is in recall; in precision it is with @p t * recalls + @p r for @p t. */
static inline size_t kolo_coco_at(const struct kolo_coco_params *params, size_t t, size_t k,
                                  size_t a, size_t m)
{
    return ((t * params->classes + k) * params->areas + a) * params->caps + m;
}

/** Sorts the numbers of records: best score first, equal scores as they stand. */
kolo_status kolo_coco_sort(const struct kolo_coco_record *records, uint32_t *order,
                           size_t count) KOLO_NODISCARD;
/** Greater for lower scores; -0 and 0 have the same. */
uint64_t kolo_coco_score_key(double score);

/** What stands before some detection of a category, for each cap and, area * thresholds +
 *  threshold, flag. int64 alone, so that it adds up over ranks. */
struct kolo_coco_course {
    int64_t seen[KOLO_DETECTION_CAPS_MAX];
    int64_t is_true[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
    int64_t misses[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
};

/** How many true detections reach a recall. */
struct kolo_coco_needed {
    int64_t count[KOLO_DETECTION_AREAS_MAX][KOLO_DETECTION_RECALLS_MAX];
};
/** @param counted per area range: the ground truths that are not left out; where there are none, no
 *  number is enough */
void kolo_coco_need(const struct kolo_coco_params *params, const int64_t *counted,
                    struct kolo_coco_needed *needed);

/** The detections of a category, or some of them that follow each other: [caps, flags, recalls]. */
struct kolo_coco_arc {
    double *precision; /* the highest from where this recall is reached to where the next is */
    double *score;     /* of the detection that reaches the recall */
    double highest[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX]; /* of precision */
};
kolo_status kolo_coco_arc_make(struct kolo_coco_arc *arc,
                               const struct kolo_coco_params *params) KOLO_NODISCARD;
void kolo_coco_arc_free(struct kolo_coco_arc *arc);

/** Records of a category that one rank had, best first. */
struct kolo_coco_source {
    const struct kolo_coco_record *record;
    const uint32_t *order; /* their numbers, as kolo_coco_sort leaves them; NULL: as they stand */
    const uint32_t *place_of; /* per record: its image's place; NULL: it says so itself */
    size_t count;
};

/** The records that follow each other in a category, from all ranks that had some; read from the
 *  first to the last, as often as wanted. Zero at first. */
struct kolo_coco_run {
    struct kolo_coco_source *source;
    struct kolo_coco_window *window; /* per source: where the reader stands */
    size_t *loser;                   /* a tree */
    size_t sources, count, left;     /* records: of all, and not yet taken */
};
enum { KOLO_COCO_TAKEN_MAX = 64 };

/** Room for so many sources. */
kolo_status kolo_coco_run_make(struct kolo_coco_run *run, size_t sources) KOLO_NODISCARD;
void kolo_coco_run_free(struct kolo_coco_run *run);
/** No source any more. */
void kolo_coco_run_clear(struct kolo_coco_run *run);
/** One more; its records are of other images than those of the others. */
void kolo_coco_run_add(struct kolo_coco_run *run, const struct kolo_coco_source *source);
/** Before the first is taken. */
void kolo_coco_run_rewind(struct kolo_coco_run *run);
/** The next records, best first, equal scores by their images' places. @return how many; 0 at the
 * end */
size_t kolo_coco_run_take(struct kolo_coco_run *run,
                          const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX]);

/** Adds what is in a run to a course. */
void kolo_coco_pass(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    struct kolo_coco_course *course);
/** The same, and writes the arc.
 *  @param course  what stands before the run in the category; then what stands before its end */
void kolo_coco_draw(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    const struct kolo_coco_needed *needed, struct kolo_coco_course *course,
                    struct kolo_coco_arc *arc);

/** Fills the arrays, which are zero, and the result's counts and stats. Collective.
 *  @param mine  whether this rank has arrays: every rank must come here */
kolo_status kolo_coco_share(struct kolo_comm *comm, const struct kolo_coco_params *params,
                            const struct kolo_coco_images *images, kolo_status mine,
                            struct kolo_coco_arrays *arrays, struct kolo_detection_result *result,
                            const struct kolo_opts *opts) KOLO_NODISCARD;

/** numpy.sum */
double kolo_coco_sum(const double *values, size_t count, kolo_mean_rule rule);
/** numpy.mean of values that are not empty. */
double kolo_coco_mean(const double *values, size_t count, kolo_mean_rule rule);
/** The mean over a slice; -1 where nothing is in it. */
double kolo_coco_average(const struct kolo_coco_params *params,
                         const struct kolo_coco_arrays *arrays,
                         const struct kolo_detection_slice *slice);
/** Which of the numbers a rank makes: those whose place modulo ranks is its own. */
struct kolo_coco_turn {
    size_t rank, ranks;
};
/** pycocotools' numbers, or those of other rules; -1 from @p count_out on. Of each the highest of
 *  all ranks is it: those that others make are -INFINITY. */
kolo_status kolo_coco_stats(const struct kolo_coco_params *params,
                            const struct kolo_coco_arrays *arrays,
                            const struct kolo_coco_turn *turn,
                            double stats[KOLO_DETECTION_STATS_MAX],
                            size_t *count_out) KOLO_NODISCARD;
kolo_status kolo_voc_stats(const struct kolo_coco_params *params,
                           const struct kolo_coco_arrays *arrays, double *stats,
                           size_t *count_out) KOLO_NODISCARD;

#endif
