// SPDX-License-Identifier: Apache-2.0
/** COCO mean average precision of boxes, masks or keypoints, byte-identical to pycocotools' at any
 *  number of ranks.
 *
 *  Each rank gives whole images, ground truth and detections together, in any order and division;
 *  what it needs of them is kept and the boxes are forgotten. All ranks compute together, and each
 *  then has all results:
 *
 *      const struct kolo_detection_config config = {
 *          .size = sizeof config, .categories = ids, .category_count = 80};
 *      kolo_detection_create(&config, &detection);
 *      for (each batch of images)
 *          kolo_detection_update(detection, image_ids, images, &truths, &found);
 *      kolo_detection_compute(comm, detection, NULL);
 *      kolo_detection_result(detection, &result);       (result.stats[0] is the AP)
 *
 *  The order of the images is that of their ids, so it does not matter which rank has which. An
 *  image that several ranks have, as a padding sampler deals them out, counts once: on the lowest
 *  rank that has it, by its first update there. Within an image, detections and ground truths are
 *  taken in the order they are given in (it decides between equal scores and equal overlaps).
 *
 *  Arrays may be in a CUDA device's memory, as metrics.h says of all metrics: the images' ids, and
 *  all of struct kolo_boxes but masks (made of pixels there: kolo_mask_from_pixels()).
 *
 *  Threads: a detection is used by one thread at a time.
 *  Ownership: what is passed in is read before the call returns.
 */
#ifndef KOLO_DETECTION_H
#define KOLO_DETECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>
#include <kolo/mask.h>

KOLO_BEGIN_DECLS

enum {
    KOLO_DETECTION_FLAGS_MAX = 40, /**< IoU thresholds times area ranges */
    KOLO_DETECTION_AREAS_MAX = 8,
    KOLO_DETECTION_CAPS_MAX = 8,
    KOLO_DETECTION_RECALLS_MAX = 1001,
    KOLO_DETECTION_CAP_MAX = 65535,  /**< detections of one image and category */
    KOLO_DETECTION_POINTS_MAX = 256, /**< keypoints of an object */
    KOLO_DETECTION_STATS = 12,       /**< COCO's numbers of boxes and masks */
    KOLO_DETECTION_STATS_MAX = 13,   /**< of any rules */
};

/** What is compared; pycocotools' iouType. */
typedef enum kolo_detection_kind {
    KOLO_DETECTION_BOXES,     /**< intersection over union of boxes */
    KOLO_DETECTION_MASKS,     /**< the same of masks: segm */
    KOLO_DETECTION_KEYPOINTS, /**< object keypoint similarity */
} kolo_detection_kind;

/** Which detections count, and which ground truth each takes. */
typedef enum kolo_detection_rules {
    KOLO_DETECTION_COCO,
    /** As the lvis package: the best 300 detections of an image, of all categories together; of
     *  them those whose category the image has ground truth of, or names in kolo_boxes.absent. A
     *  miss of a category in kolo_boxes.partial is left out. Crowds are not read, `ignored` always
     *  is. With KOLO_DETECTION_COMPAT, objects whose area is 0 are not there, as in the package. */
    KOLO_DETECTION_LVIS,
    /** As PASCAL VOC's development kit: a detection looks at the one ground truth that it overlaps
     *  most, of equals the first, and is a miss where another has taken that; `ignored` is VOC's
     *  difficult, crowds and ids are not read. One overlap (0.5), eleven recalls (0, 0.1, ..., 1),
     *  one area range and no cap, if the config says nothing else (more than KOLO_DETECTION_CAP_MAX
     *  detections of an image and category are ERR_INVALID then); average precision at the recalls
     *  (2007) and under the curve (2010 on). The curve of a category is made by one rank. */
    KOLO_DETECTION_VOC,
} kolo_detection_rules;

/** Whether pycocotools' peculiarities are kept. */
typedef enum kolo_detection_mode {
    /** As pycocotools: a ground truth is ignored where it is a crowd, whatever `ignore` says; and a
     *  detection that is matched to a ground truth with id 0 counts as unmatched. */
    KOLO_DETECTION_COMPAT,
    /** A ground truth is ignored where it is a crowd or `ignore` says so; ids do not matter. */
    KOLO_DETECTION_FIXED,
} kolo_detection_mode;

/** How numpy.mean adds up, which decides the last bit of the twelve numbers. */
typedef enum kolo_mean_rule {
    KOLO_MEAN_NUMPY_2_3, /**< NumPy 2.3 and later: pairwise over the whole */
    KOLO_MEAN_NUMPY_1,   /**< NumPy before 2.3: blocks of 8192 one after the other, each pairwise */
} kolo_mean_rule;

/** The arithmetic of the thresholds and recalls that a config does not give. */
typedef enum kolo_threshold_mode {
    KOLO_THRESHOLDS_NUMPY64, /**< numpy.linspace in float64: pycocotools' */
    /** torch.linspace in float32, then as float64, as TorchMetrics passes them to pycocotools: 0.55
     *  is 0.550000011920929. On a CPU with AVX-512 torch's recalls differ from these in the last
     *  bit at some places (vectors of another length); on others they are the same. */
    KOLO_THRESHOLDS_TORCH32,
} kolo_threshold_mode;

typedef enum kolo_box_format {
    KOLO_BOX_XYWH, /**< left, top, width, height: COCO's */
    KOLO_BOX_XYXY, /**< left, top, right, bottom; turned into width and height by one subtraction
                        in double */
} kolo_box_format;

/** A range of object areas; both ends belong to it. */
struct kolo_area_range {
    double low, high;
};

/** Zero and NULL mean COCO's own: thresholds 0.5, 0.55, ..., 0.95 and recalls 0, 0.01, ..., 1 with
 *  NumPy's rounding; areas all, small, medium, large; caps 1, 10, 100. Of keypoints: areas all,
 *  medium, large; cap 20. With other rules than COCO's what those have. An array and its count are
 *  given both or neither. */
struct kolo_detection_config {
    size_t size; /**< sizeof(struct kolo_detection_config) */
    kolo_detection_mode mode;
    kolo_mean_rule mean_rule;
    /** What boxes and detections may name: different ids, in any order, equal on all ranks. Results
     *  are in ascending order of id. */
    const int64_t *categories;
    size_t category_count;
    /** Boxes match whatever their categories are, as with pycocotools' useCats = 0: one category
     *  remains in the results. For the recall of proposals: with caps 100, 300, 1000 stats[6] to
     *  [8] are AR@100, AR@300 and AR@1000, and [9] to [11] the last of small, medium and large
     *  objects. (Of keypoints, pycocotools matches nothing then; kolo does.) */
    bool any_category;
    const double *thresholds; /**< IoU; ascending, in (0, 1] */
    size_t threshold_count;
    const double *recalls; /**< ascending, in [0, 1] */
    size_t recall_count;
    const struct kolo_area_range *areas; /**< at most KOLO_DETECTION_AREAS_MAX */
    size_t area_count;
    /** Detections counted per image and category, best first; ascending, 1 to
     *  KOLO_DETECTION_CAP_MAX. pycocotools' maxDets. */
    const int *caps;
    size_t cap_count;
    kolo_detection_kind kind;
    /** KOLO_DETECTION_KEYPOINTS: how far each point may be off, in parts of the object's size, more
     *  than 0; pycocotools' kpt_oks_sigmas. NULL: COCO's 17 of persons. Every object has as many
     *  points as there are sigmas, at most KOLO_DETECTION_POINTS_MAX. */
    const double *sigmas;
    size_t sigma_count;
    /** How many different images the data set has; 0: not known. Then results say how many no rank
     *  had, and more of them is an error. */
    int64_t images;
    kolo_detection_rules rules;
    /** Detections of an image, of all categories together, best first and of equal scores the first
     *  given; before anything else is left out. 0: 300 with KOLO_DETECTION_LVIS, else all; -1:
     *  all. */
    int image_cap;
    /** Per category, in the order of `categories`: the group that kolo_detection_slice.group means,
     *  from 1 on; 0: none. LVIS: 1 rare, 2 common, 3 frequent. NULL: all 0. */
    const int64_t *groups;
    /** KOLO_DETECTION_VOC, boxes: they end where the right and bottom edges are, as COCO's. Else
     *  those are pixels inside the box, as in VOC's files, and each side is one longer. */
    bool continuous_boxes;
    kolo_threshold_mode threshold_mode;
};

/** Boxes of the images of one update, image after image; with another kind than
 *  KOLO_DETECTION_BOXES, objects. */
struct kolo_boxes {
    size_t count;
    /** how many are of each image of the update; they add up to count */
    const size_t *image_counts;
    /** count times 4 numbers. KOLO_DETECTION_MASKS: not read; KOLO_DETECTION_KEYPOINTS: read of
     *  ground truth alone. */
    const void *boxes;
    kolo_dtype dtype; /**< KOLO_FLOAT32 or KOLO_FLOAT64, of boxes and scores */
    kolo_box_format format;
    const int64_t *categories; /**< per box */
    const void *scores;        /**< detections: per box; ground truth: not read */
    /** Per box: the area that decides its range, such as COCO's of the mask; NULL: width times
     *  height; KOLO_DETECTION_MASKS: the mask's; KOLO_DETECTION_KEYPOINTS: of detections, that of
     *  the rectangle around the points. */
    const double *areas;
    const uint8_t *crowds; /**< ground truth: per box, not 0 for a crowd; NULL: none is */
    /** Ground truth: per box, KOLO_DETECTION_FIXED, or rules other than COCO's, alone; NULL: none
     * is. */
    const uint8_t *ignored;
    const int64_t *ids; /**< ground truth: per box, KOLO_DETECTION_COMPAT alone; NULL: none is 0 */
    /** KOLO_DETECTION_MASKS: per box, in the host's memory with their runs. All of an image are of
     *  its size, and their runs add up to it. */
    const struct kolo_mask *masks;
    /** KOLO_DETECTION_KEYPOINTS: per box and point, x, y, v: v is more than 0 where ground truth
     *  has the point, and is not read of detections. */
    const double *keypoints;
    /** KOLO_DETECTION_KEYPOINTS, ground truth: per box, COCO's num_keypoints: one with 0 is
     *  ignored; NULL: how many points have a v of more than 0. */
    const int64_t *point_counts;
    /** KOLO_DETECTION_LVIS, ground truth: of each image of the update, how many categories are
     *  known not to be in it, and which (neg_category_ids); NULL: none. */
    const size_t *absent_counts;
    const int64_t *absent;
    /** The same of categories that are not annotated wherever they are
     *  (not_exhaustive_category_ids). */
    const size_t *partial_counts;
    const int64_t *partial;
};

/** What compute made. The arrays are float64 in C order, pycocotools' `eval`, and -1 where a
 *  category has no ground truth in an area range. */
struct kolo_detection_result {
    size_t size;                                         /**< set by the caller */
    size_t thresholds, recalls, categories, areas, caps; /**< T, R, K, A, M */
    const int64_t *category_ids; /**< K, ascending; {-1} with any_category */
    const double *precision;     /**< [T, R, K, A, M] */
    const double *recall;        /**< [T, K, A, M] */
    const double *scores;        /**< [T, R, K, A, M] */
    /** pycocotools' stats: AP, AP50, AP75, AP small, medium, large, AR at the three caps, AR small,
     *  medium, large. Of keypoints, at a cap of 20: AP, AP50, AP75, AP medium, large, AR, AR50,
     *  AR75, AR medium, large. LVIS: AP, AP50, AP75, AP small, medium, large, AP of rare, common,
     *  frequent categories, AR, AR small, medium, large. VOC: the means of voc_points and
     *  voc_areas, at the first area range and the last cap. -1 where nothing is there to average,
     *  where there is no such setting, and from stat_count on. */
    double stats[KOLO_DETECTION_STATS_MAX];
    int64_t images;           /**< different ones, of all ranks */
    int64_t duplicate_images; /**< left out */
    int64_t detections;       /**< counted: not of duplicates, and within the last cap */
    int64_t truths;           /**< not of duplicates, ignored ones too */
    int64_t missing_images;   /**< that no rank had; 0 where the config has no number of images */
    size_t stat_count;
    const double *voc_points; /**< [T, K, A, M]: the average precision at the recalls; VOC alone */
    const double *voc_areas;  /**< the same, under the curve */
};

struct kolo_detection;
struct kolo_metric;

/** @return KOLO_OK; ERR_INVALID (with the field and its value); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_create(
    const struct kolo_detection_config *config, struct kolo_detection **detection_out);

/** Adds @p count images: matches the detections of each with its ground truth. No communication.
 *  An image without boxes may be given, and counts as an image. All or nothing is added.
 *  @param truths  NULL: none
 *  @param detections  NULL: none
 *  @return KOLO_OK; ERR_INVALID (an unknown category, a number that is not finite, a negative width
 *  or height, masks of an image that differ in size or do not fill it, counts that do not add up or
 *  are 2^32 - 1 or more, with the place and the value); ERR_NO_MEMORY; ERR_SYSTEM (of arrays in a
 *  device's memory). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_update(struct kolo_detection *detection,
                                                          const int64_t *images, size_t count,
                                                          const struct kolo_boxes *truths,
                                                          const struct kolo_boxes *detections);

/** The detection as a metric (metrics.h), to be computed together with others, merged, saved and
 *  restored: what kolo_metrics_compute(), kolo_metric_merge(), _save(), _restore() and _reset() do
 *  is done to the detection. Its own: never destroy both.
 *  @return NULL for NULL. */
KOLO_API struct kolo_metric *kolo_detection_metric(struct kolo_detection *detection);

/** Makes the results of all ranks' images, on all ranks alike: kolo_metrics_compute() of this one
 *  alone. Collective: every rank takes part, also one without images, with the same config. The
 *  result holds until the next update; if no rank has had one, another compute only finds that out.
 *  @return KOLO_OK; ERR_INVALID; ERR_MISMATCH (different configs, on all ranks); ERR_DATA (more
 *  images than the config says); ERR_NO_MEMORY (on all ranks); what kolo_allreduce returns. */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_compute(struct kolo_comm *comm,
                                                           struct kolo_detection *detection,
                                                           const struct kolo_opts *opts);

/** The last compute's result. Its pointers are valid until the next update, compute, reset or
 *  destroy.
 *  @return KOLO_OK; ERR_INVALID (not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_result(const struct kolo_detection *detection,
                                                          struct kolo_detection_result *result_out);

/** Which entries of the result an average takes. */
struct kolo_detection_slice {
    size_t size;       /**< sizeof(struct kolo_detection_slice) */
    bool of_recall;    /**< average recall; else average precision */
    int64_t threshold; /**< its place in T; -1: all */
    int64_t category;  /**< its place in K; -1: all */
    size_t area, cap;  /**< their places in A and M */
    int64_t group;     /**< categories of this group alone; 0: of all */
};

/** numpy.mean, by the config's rule, over the entries of a slice that are not -1; -1 where there is
 *  none. The AP of class k is {.threshold = -1, .category = k, .area = 0, .cap = 2}.
 *  @return KOLO_OK; ERR_INVALID (not computed, or a place that is none). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_average(const struct kolo_detection *detection,
                                                           const struct kolo_detection_slice *slice,
                                                           double *average_out);

/** Forgets all images and the result; the config stays. */
KOLO_API void kolo_detection_reset(struct kolo_detection *detection);
/** NULL is fine. */
KOLO_API void kolo_detection_destroy(struct kolo_detection *detection);

KOLO_END_DECLS
#endif
