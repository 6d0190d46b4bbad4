// SPDX-License-Identifier: Apache-2.0
// What the parts of COCO's evaluation share: the parameters, the record of a detection, and the
// steps from boxes to numbers. Private to metrics/.
//
//   coco_params   the parameters, with COCO's own as defaults
//   coco_overlap  what is compared: boxes, masks or keypoints   (one image and category)
//   coco_box      boxes and how much they overlap               (one image and category)
//   coco_mask     masks and how much they overlap               (one image and category)
//   coco_oks      keypoints and how similar they are            (one image and category)
//   coco_match    which detection takes which ground truth      (one image and category)
//   coco_lvis     LVIS's rules: what is known of categories     (one image)
//   voc_match     PASCAL VOC's rules and boxes                  (one image and category)
//   voc_average   PASCAL VOC's average precision                (all ranks)
//   coco_images   what this rank keeps of its images
//   coco_state    the same as bytes, and merging that of two metrics
//   coco_sort     sorts the records of a category, best first
//   coco_run      merges the sorted records of several ranks while they are read
//   coco_curve    precision, recall and scores of a category, or of a part of it
//   coco_share    from the images of each rank to results on all ranks  (all ranks; coco_share.h)
//   coco_pieces   assigns the curves of categories to ranks     (all ranks)
//   coco_route    sends records to those ranks                  (all ranks)
//   coco_join     sends curves to all ranks                     (all ranks)
//   coco_mean     averages as NumPy computes them
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
    size_t categories; /* number of categories that boxes may name */
    size_t classes;    /* number of categories in the results: categories, or 1 if any_category */
    double *sigma;     /* of keypoints */
    size_t sigmas;
    kolo_detection_rules rules;
    double slack;     /* added to the number of detections when precision is computed */
    size_t image_cap; /* 0: none */
    int64_t *group;   /* per category */
    bool is_continuous;
};

/** Checks the config and fills in the defaults of its rules. */
kolo_status kolo_coco_params_make(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config) KOLO_NODISCARD;
void kolo_coco_params_free(struct kolo_coco_params *params);
/** Returns the index of a category's id; -1 if there is none. */
int64_t kolo_coco_category(const struct kolo_coco_params *params, int64_t id);
/** Returns a hash of the parameters. */
uint64_t kolo_coco_params_digest(const struct kolo_coco_params *params);

struct kolo_coco_truth {
    double area;
    bool is_crowd, is_ignored;
    bool is_unseen; /* a detection that takes it is not true, as with id 0 in pycocotools */
};

/** Whether a detection is true and whether it is left out, never both: a bit for each area range
 *  and threshold, number area * thresholds + threshold. */
struct kolo_coco_verdict {
    uint64_t is_true, is_ignored;
};

/** Memory for matching one image and category. It grows and is reused. Initially zero. */
struct kolo_coco_scratch {
    double *overlaps;
    struct kolo_coco_verdict *verdicts;
    uint8_t *ignored;  /* per ground truth: whether it is left out in this area range */
    uint32_t *order;   /* of the ground truths: those that are left out come last */
    uint8_t *taken;    /* per ground truth */
    uint32_t *hopeful; /* detections that reach the lowest threshold with some ground truth */
    size_t overlap_room, verdict_room, ignored_room, order_room, taken_room, hopeful_room;
};

/** Makes room for this many detections and ground truths; writes nothing. */
kolo_status kolo_coco_scratch_grow(struct kolo_coco_scratch *scratch, size_t detections,
                                   size_t truths) KOLO_NODISCARD;
void kolo_coco_scratch_free(struct kolo_coco_scratch *scratch);

/** Matches detections, best score first, with ground truths, for all area ranges and thresholds.
 *  Reads scratch->overlaps[detection * truths + truth] and writes scratch->verdicts.
 *  @param areas    of the detections
 *  @param partial  per detection: not 0 if it is left out when it is a miss */
void kolo_coco_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                     const double *areas, const uint8_t *partial, size_t detections,
                     const struct kolo_coco_truth *truth, size_t truths);
/** The same by PASCAL VOC's rules, after the verdicts were set as if all detections were misses. */
void kolo_voc_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                    size_t detections, const struct kolo_coco_truth *truth, size_t truths);
/** Whether the ground truth is left out in this area range. */
bool kolo_coco_is_left_out(const struct kolo_coco_truth *truth, const struct kolo_area_range *area);

enum { KOLO_COCO_FLAG_BYTES = KOLO_DETECTION_FLAGS_MAX / 8 };

/** What is kept of a detection, and sent to the rank that makes the curve of its category. */
struct kolo_coco_record {
    double score;
    uint32_t place;    /* on its own rank: the class; when sent: the image's place among all ids */
    uint16_t position; /* among the detections of the image and class, best first */
    uint8_t is_true[KOLO_COCO_FLAG_BYTES], is_ignored[KOLO_COCO_FLAG_BYTES];
};

static inline uint64_t kolo_coco_flags(const uint8_t bytes[KOLO_COCO_FLAG_BYTES])
{
    uint64_t flags = 0;
    for (size_t i = 0; i < KOLO_COCO_FLAG_BYTES; i++)
        flags |= (uint64_t)bytes[i] << 8 * i;
    return flags;
}

/** What is kept of the ground truth of an image and class. */
struct kolo_coco_tally {
    uint32_t category;
    uint32_t truths;
    uint32_t counted[KOLO_DETECTION_AREAS_MAX]; /* per area range: those not left out */
};

struct kolo_coco_image {
    int64_t id;
    size_t records, tallies; /* where they begin; they end where those of the next image begin */
};

struct kolo_coco_shapes; /* coco_overlap.h */

/** The arguments of an update; truths or found may be NULL. */
struct kolo_coco_update {
    const int64_t *ids; /* per image */
    size_t images;
    const struct kolo_boxes *truths, *found;
};

/** The objects of one image and category in an update. */
struct kolo_coco_group {
    const struct kolo_coco_update *update;
    const uint32_t *found_number, *truth_number; /* indices in the update; detections best first */
    size_t detections, truths;
    const struct kolo_coco_truth *truth;
};

/** Checks all numbers of an update. */
kolo_status kolo_coco_check(const struct kolo_coco_params *params,
                            const struct kolo_coco_update *update) KOLO_NODISCARD;
double kolo_coco_score(const struct kolo_boxes *boxes, size_t i);
/** Returns the area that decides the area range of object @p i. */
double kolo_coco_area(const struct kolo_coco_params *params, const struct kolo_boxes *boxes,
                      size_t i, bool is_found);
/** Whether ground truth @p i has nothing to find, so that it is left out whatever its flags are. */
bool kolo_coco_is_blank(const struct kolo_coco_params *params, const struct kolo_boxes *truths,
                        size_t i);
/** Computes overlaps[detection * truths + truth] with the same operations as pycocotools, in the
 *  same order.
 *  @param shapes  memory that such calls reuse; initially zero */
kolo_status kolo_coco_overlap(const struct kolo_coco_params *params,
                              const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                              double *overlaps) KOLO_NODISCARD;

/** What is known of each category in one image, by LVIS's rules, and how far the lists of an
 *  update have been read. Initially zero. */
struct kolo_coco_lvis {
    uint8_t *notes;
    size_t absent, partial;
};
kolo_status kolo_coco_lvis_check(const struct kolo_boxes *truths, size_t images) KOLO_NODISCARD;
/** Begins an update. */
kolo_status kolo_coco_lvis_begin(struct kolo_coco_lvis *lvis,
                                 const struct kolo_coco_params *params) KOLO_NODISCARD;
/** Called for each image, in order: notes from the lists of an image exist from open to close. */
void kolo_coco_lvis_open(const struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                         const struct kolo_boxes *truths, size_t image);
void kolo_coco_lvis_close(struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                          const struct kolo_boxes *truths, size_t image);
/** Notes that a category has ground truth in the image; must be forgotten before close. */
void kolo_coco_lvis_ask(const struct kolo_coco_lvis *lvis, size_t category);
void kolo_coco_lvis_forget(const struct kolo_coco_lvis *lvis, size_t category);
bool kolo_coco_lvis_is_asked(const struct kolo_coco_lvis *lvis, size_t category);
bool kolo_coco_lvis_is_partial(const struct kolo_coco_lvis *lvis, size_t category);
void kolo_coco_lvis_free(struct kolo_coco_lvis *lvis);

/** The images of a rank, in the order of the updates. */
struct kolo_coco_images {
    struct kolo_coco_image *image;
    struct kolo_coco_record *record;
    struct kolo_coco_tally *tally;
    size_t images, records, tallies;
    size_t image_room, record_room, tally_room;
    struct kolo_coco_desk *desk; /* memory that updates reuse */
};

kolo_status kolo_coco_images_add(struct kolo_coco_images *images,
                                 const struct kolo_coco_params *params,
                                 const struct kolo_coco_update *given) KOLO_NODISCARD;
/** Makes room for this many more of each; writes nothing. */
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
/** Returns the number of bytes that kolo_coco_images_write() writes. */
size_t kolo_coco_images_bytes(const struct kolo_coco_images *images,
                              const struct kolo_coco_params *params);
void kolo_coco_images_write(const struct kolo_coco_images *images,
                            const struct kolo_coco_params *params, struct kolo_writer *writer);
/** Reads images that come from outside into an empty @p images. The caller clears them if it
 *  fails. */
kolo_status kolo_coco_images_read(struct kolo_coco_images *images,
                                  const struct kolo_coco_params *params,
                                  struct kolo_reader *reader) KOLO_NODISCARD;
/** Appends the images of @p from to those of @p into. */
kolo_status kolo_coco_images_append(struct kolo_coco_images *into,
                                    const struct kolo_coco_images *from) KOLO_NODISCARD;

/** All results. precision and scores are [T, R, K, A, M], recall is [T, K, A, M]: thresholds,
 *  recalls, classes, area ranges and caps. */
struct kolo_coco_arrays {
    double *precision, *recall, *scores;
    double *voc_points, *voc_areas; /* of the shape of recall; NULL without VOC's rules */
    size_t points, ends;            /* elements of precision and of scores; of recall */
};

/** Returns the index of an entry in recall; with t * recalls + r for @p t, its index in
 *  precision. */
static inline size_t kolo_coco_at(const struct kolo_coco_params *params, size_t t, size_t k,
                                  size_t a, size_t m)
{
    return ((t * params->classes + k) * params->areas + a) * params->caps + m;
}

/** Sorts the numbers of records: best score first; records of equal scores keep their order. */
kolo_status kolo_coco_sort(const struct kolo_coco_record *records, uint32_t *order,
                           size_t count) KOLO_NODISCARD;
/** Returns a key that is greater for lower scores, and the same for -0 and 0. */
uint64_t kolo_coco_score_key(double score);

/** How many detections of a category come before some detection, for each cap and flag (number
 *  area * thresholds + threshold). All fields are int64, so that they can be added over ranks. */
struct kolo_coco_course {
    int64_t seen[KOLO_DETECTION_CAPS_MAX];
    int64_t is_true[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
    int64_t misses[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
};

/** The number of true detections that reaches each recall. */
struct kolo_coco_needed {
    int64_t count[KOLO_DETECTION_AREAS_MAX][KOLO_DETECTION_RECALLS_MAX];
};
/** Computes it.
 *  @param counted  per area range, the ground truths that are not left out; if there are none,
 *  no number reaches a recall */
void kolo_coco_need(const struct kolo_coco_params *params, const int64_t *counted,
                    struct kolo_coco_needed *needed);

/** The curve of a category, or of detections of it that follow each other: [caps, flags,
 *  recalls]. */
struct kolo_coco_arc {
    double *precision; /* the highest between reaching this recall and reaching the next */
    double *score;     /* of the detection that reaches the recall */
    double highest[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX]; /* highest precision */
};
kolo_status kolo_coco_arc_make(struct kolo_coco_arc *arc,
                               const struct kolo_coco_params *params) KOLO_NODISCARD;
void kolo_coco_arc_free(struct kolo_coco_arc *arc);

/** The records of a category that came from one rank, best first. */
struct kolo_coco_source {
    const struct kolo_coco_record *record;
    const uint32_t *order; /* their numbers, sorted by kolo_coco_sort(); NULL: they are in order */
    const uint32_t *place_of; /* per record: the place of its image; NULL: in the record */
    size_t count;
};

/** A sequence of records of a category, merged from all ranks that have some. It is read from
 *  the first to the last record, any number of times. Initially zero. */
struct kolo_coco_run {
    struct kolo_coco_source *source;
    struct kolo_coco_window *window; /* per source: the reader's position */
    size_t *loser;                   /* the tree of losers, as in coco_run.c */
    size_t sources, count, left;     /* sources; records in total, and not yet taken */
};
enum { KOLO_COCO_TAKEN_MAX = 64 };

/** Makes room for this many sources. */
kolo_status kolo_coco_run_make(struct kolo_coco_run *run, size_t sources) KOLO_NODISCARD;
void kolo_coco_run_free(struct kolo_coco_run *run);
/** Removes all sources. */
void kolo_coco_run_clear(struct kolo_coco_run *run);
/** Adds a source, whose records must be of other images than those of the other sources. */
void kolo_coco_run_add(struct kolo_coco_run *run, const struct kolo_coco_source *source);
/** Goes back to the first record; also needed before the first is taken. */
void kolo_coco_run_rewind(struct kolo_coco_run *run);
/** Takes the next records: best first, equal scores by the places of their images.
 *  @return their number; 0 at the end */
size_t kolo_coco_run_take(struct kolo_coco_run *run,
                          const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX]);

/** Adds the records of a run to a course. */
void kolo_coco_pass(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    struct kolo_coco_course *course);
/** The same, and also writes the arc.
 *  @param course  what comes before the run in the category; afterwards, what comes before its
 *  end */
void kolo_coco_draw(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    const struct kolo_coco_needed *needed, struct kolo_coco_course *course,
                    struct kolo_coco_arc *arc);

/** Fills the arrays, which must be zero, and the counts and stats of the result. Collective.
 *  @param mine  whether this rank could allocate its arrays; every rank must call this, also one
 *  that could not */
kolo_status kolo_coco_share(struct kolo_comm *comm, const struct kolo_coco_params *params,
                            const struct kolo_coco_images *images, kolo_status mine,
                            struct kolo_coco_arrays *arrays, struct kolo_detection_result *result,
                            const struct kolo_opts *opts) KOLO_NODISCARD;

/** Returns what numpy.sum does. */
double kolo_coco_sum(const double *values, size_t count, kolo_mean_rule rule);
/** Returns what numpy.mean does; @p count is at least 1. */
double kolo_coco_mean(const double *values, size_t count, kolo_mean_rule rule);
/** Returns the mean over a slice; -1 if the slice is empty. */
double kolo_coco_average(const struct kolo_coco_params *params,
                         const struct kolo_coco_arrays *arrays,
                         const struct kolo_detection_slice *slice);
/** Which of the numbers a rank computes: number i if i modulo ranks is its rank. */
struct kolo_coco_turn {
    size_t rank, ranks;
};
/** Computes pycocotools' numbers, or those of other rules; stats from *count_out on are -1.
 *  Numbers that other ranks compute are -INFINITY here, so that the maximum over all ranks gives
 *  all of them. */
kolo_status kolo_coco_stats(const struct kolo_coco_params *params,
                            const struct kolo_coco_arrays *arrays,
                            const struct kolo_coco_turn *turn,
                            double stats[KOLO_DETECTION_STATS_MAX],
                            size_t *count_out) KOLO_NODISCARD;
kolo_status kolo_voc_stats(const struct kolo_coco_params *params,
                           const struct kolo_coco_arrays *arrays, double *stats,
                           size_t *count_out) KOLO_NODISCARD;

#endif
