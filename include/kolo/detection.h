// SPDX-License-Identifier: Apache-2.0
/** COCO's mean average precision of boxes, masks or keypoints, byte-identical to that of
 *  pycocotools for any number of ranks.
 *
 *  Each rank passes whole images, each with its ground truth and its detections, in any order and
 *  distribution; the metric keeps only what it needs of them. All ranks compute together, and each
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
 *  Images are ordered by their ids, so it does not matter which rank has which. An image that
 *  several ranks have, because a sampler padded their shares, counts once: on the lowest rank that
 *  has it, by its first update there. Within an image, detections and ground truths keep the order
 *  in which they are passed, which decides between equal scores and equal overlaps.
 *
 *  CUDA: arrays may be in device memory, as metrics.h says of all metrics: the ids of the images,
 *  and everything in struct kolo_boxes but masks (make those from device pixels with
 *  kolo_mask_from_pixels()).
 *
 *  Threads: a detection may be used by only one thread at a time.
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
    KOLO_DETECTION_STATS = 12,       /**< the number of COCO's statistics of boxes and masks */
    KOLO_DETECTION_STATS_MAX = 13,   /**< the largest number of statistics of any rules */
};

/** What is compared; iouType in pycocotools. */
typedef enum kolo_detection_kind {
    KOLO_DETECTION_BOXES,     /**< boxes, by intersection over union: "bbox" */
    KOLO_DETECTION_MASKS,     /**< masks, by intersection over union: "segm" */
    KOLO_DETECTION_KEYPOINTS, /**< keypoints, by object keypoint similarity */
} kolo_detection_kind;

/** Which detections count, and which ground truth each of them is matched with. */
typedef enum kolo_detection_rules {
    KOLO_DETECTION_COCO,
    /** As the lvis package. Of an image the 300 best detections of all categories together are
     *  taken; of these, the ones whose category the image has ground truth of or names in
     *  kolo_boxes.absent. A false positive of a category in kolo_boxes.partial is left out. Crowds
     *  are not read, `ignored` always is. With KOLO_DETECTION_COMPAT, objects whose area is 0 are
     *  left out, as in the package. */
    KOLO_DETECTION_LVIS,
    /** As PASCAL VOC's development kit. A detection is compared with the one ground truth that it
     *  overlaps most (the first of equal ones), and is a false positive if another detection has
     *  already matched that. `ignored` is VOC's "difficult"; crowds and ids are not read. Defaults:
     *  one overlap (0.5), eleven recalls (0, 0.1, ..., 1), one area range and no cap (more than
     *  KOLO_DETECTION_CAP_MAX detections of an image and category are then ERR_INVALID). Results
     *  are the average precision at the recalls (2007) and under the curve (from 2010 on). One rank
     *  computes the whole curve of a category. */
    KOLO_DETECTION_VOC,
} kolo_detection_rules;

/** Whether pycocotools' peculiarities are reproduced. */
typedef enum kolo_detection_mode {
    /** As pycocotools: a ground truth is ignored if it is a crowd, whatever `ignored` says; and a
     *  detection that is matched with a ground truth of id 0 counts as unmatched. */
    KOLO_DETECTION_COMPAT,
    /** A ground truth is ignored if it is a crowd or if `ignored` says so; ids do not matter. */
    KOLO_DETECTION_FIXED,
} kolo_detection_mode;

/** The order of additions in numpy.mean, which decides the last bit of the statistics. */
typedef enum kolo_mean_rule {
    KOLO_MEAN_NUMPY_2_3, /**< NumPy 2.3 and later: pairwise over all elements */
    KOLO_MEAN_NUMPY_1,   /**< NumPy before 2.3: pairwise in blocks of 8192, in sequence */
} kolo_mean_rule;

/** How default thresholds and recalls are computed. */
typedef enum kolo_threshold_mode {
    KOLO_THRESHOLDS_NUMPY64, /**< numpy.linspace in float64, as in pycocotools */
    /** torch.linspace of PyTorch 2 in float32, converted to float64, as TorchMetrics passes them to
     *  pycocotools: 0.55 is 0.550000011920929. Each value is the nearer end plus a multiple of the
     *  step, rounded once, as torch has them on CPUs with fused multiplication and addition. */
    KOLO_THRESHOLDS_TORCH32,
    /** The same of PyTorch before 2.0, which made vectors of eight values (of sixteen on a CPU with
     *  AVX-512, where some recalls differ from these in the last bit). */
    KOLO_THRESHOLDS_TORCH32_V1,
} kolo_threshold_mode;

typedef enum kolo_box_format {
    KOLO_BOX_XYWH, /**< left, top, width, height, as in COCO */
    KOLO_BOX_XYXY, /**< left, top, right, bottom; width and height by one subtraction in double */
} kolo_box_format;

/** A range of object areas, in square pixels; both ends belong to it. */
struct kolo_area_range {
    double low, high;
};

/** Configuration. Zero and NULL select COCO's defaults: thresholds 0.5, 0.55, ..., 0.95 and recalls
 *  0, 0.01, ..., 1 with NumPy's rounding; areas all, small, medium, large; caps 1, 10, 100. For
 *  keypoints: areas all, medium, large; cap 20. With other rules than COCO's, the defaults of those
 *  rules. Give both an array and its count, or neither. */
struct kolo_detection_config {
    size_t size; /**< sizeof(struct kolo_detection_config) */
    kolo_detection_mode mode;
    kolo_mean_rule mean_rule;
    /** The ids of the categories: different, in any order, equal on all ranks. Results are in
     *  ascending order of id. */
    const int64_t *categories;
    size_t category_count;
    /** Match boxes whatever their categories are, as pycocotools does with useCats = 0. Results
     *  then have one category. For the recall of proposals use caps 100, 300, 1000: stats[6] to [8]
     *  are then AR@100, AR@300 and AR@1000, and [9] to [11] are AR@1000 of small, medium and large
     *  objects. (For keypoints, pycocotools then matches nothing; kolo does.) */
    bool any_category;
    const double *thresholds; /**< of IoU; ascending, in (0, 1] */
    size_t threshold_count;
    const double *recalls; /**< ascending, in [0, 1] */
    size_t recall_count;
    const struct kolo_area_range *areas; /**< at most KOLO_DETECTION_AREAS_MAX */
    size_t area_count;
    /** How many detections count per image and category, best first; ascending, 1 to
     *  KOLO_DETECTION_CAP_MAX. maxDets in pycocotools. */
    const int *caps;
    size_t cap_count;
    kolo_detection_kind kind;
    /** KOLO_DETECTION_KEYPOINTS: the tolerance of each point as a fraction of the object's size,
     *  more than 0; kpt_oks_sigmas in pycocotools. NULL: COCO's 17 of persons. Every object has as
     *  many points as there are sigmas, at most KOLO_DETECTION_POINTS_MAX. */
    const double *sigmas;
    size_t sigma_count;
    /** The number of different images in the data set; 0: not known. If it is known, the result has
     *  the number of images that no rank had, and more images than this are an error. */
    int64_t images;
    kolo_detection_rules rules;
    /** How many detections count per image, of all categories together, best first and of equal
     *  scores the first passed; it applies before anything else is left out. 0: 300 with
     *  KOLO_DETECTION_LVIS, else all; -1: all. */
    int image_cap;
    /** The group of each category, in the order of `categories`, for kolo_detection_slice.group:
     *  from 1 on; 0: none. LVIS: 1 rare, 2 common, 3 frequent. NULL: all 0. */
    const int64_t *groups;
    /** KOLO_DETECTION_VOC, boxes: right and bottom are the edges of a box, as in COCO. Otherwise
     *  they are pixels inside the box, as in VOC's files, and each side is one longer. */
    bool continuous_boxes;
    kolo_threshold_mode threshold_mode;
};

/** The boxes of all images of one update, image after image. With another kind than
 *  KOLO_DETECTION_BOXES these are masks or keypoints; "box" then means object. Each array has one
 *  entry per box unless its comment says otherwise. */
struct kolo_boxes {
    size_t count; /**< boxes */
    /** per image of the update: its number of boxes; they add up to count */
    const size_t *image_counts;
    /** 4 numbers per box. Not read for KOLO_DETECTION_MASKS; for KOLO_DETECTION_KEYPOINTS read only
     *  for ground truth. */
    const void *boxes;
    kolo_dtype
        dtype; /**< of boxes and scores: KOLO_FLOAT32 or KOLO_FLOAT64; also if none is read */
    kolo_box_format format;
    const int64_t *categories;
    const void *scores; /**< detections only */
    /** The area that decides the area range of a box, such as COCO's area of the mask. NULL: width
     *  times height; KOLO_DETECTION_MASKS: the area of the mask; KOLO_DETECTION_KEYPOINTS: for
     *  detections, the area of the rectangle around the points. */
    const double *areas;
    const uint8_t *crowds; /**< ground truth: not 0 for a crowd; NULL: there are none */
    /** Ground truth, only with KOLO_DETECTION_FIXED or other rules than COCO's: not 0 for a box
     *  that is ignored; NULL: there are none. */
    const uint8_t *ignored;
    const int64_t *ids; /**< ground truth, KOLO_DETECTION_COMPAT only; NULL: none is 0 */
    /** KOLO_DETECTION_MASKS: the masks, in host memory with their runs. All masks of an image have
     *  its size, and their runs add up to it. */
    const struct kolo_mask *masks;
    /** KOLO_DETECTION_KEYPOINTS: x, y, v of each point of each box. For ground truth v is more than
     *  0 if the point is labelled; for detections it is not read. */
    const double *keypoints;
    /** KOLO_DETECTION_KEYPOINTS, ground truth: COCO's num_keypoints; a box with 0 is ignored. NULL:
     *  the number of points whose v is more than 0. */
    const int64_t *point_counts;
    /** KOLO_DETECTION_LVIS, ground truth: for each image of the update, the number of categories
     *  that are known not to be in it, and these categories, image after image (neg_category_ids);
     *  NULL: none. */
    const size_t *absent_counts;
    const int64_t *absent;
    /** The same for categories that are not annotated exhaustively
     *  (not_exhaustive_category_ids). */
    const size_t *partial_counts;
    const int64_t *partial;
};

/** The results. The arrays are float64 in C order, as `eval` in pycocotools, and -1 where a
 *  category has no ground truth in an area range. */
struct kolo_detection_result {
    size_t size; /**< set to sizeof(struct kolo_detection_result) by the caller */
    size_t thresholds, recalls, categories, areas, caps; /**< T, R, K, A, M */
    const int64_t *category_ids; /**< K, ascending; {-1} with any_category */
    const double *precision;     /**< [T, R, K, A, M] */
    const double *recall;        /**< [T, K, A, M] */
    const double *scores;        /**< [T, R, K, A, M] */
    /** The statistics, `stats` in pycocotools.
     *    - COCO: AP, AP50, AP75, AP small, medium, large, AR at the three caps, AR small, medium,
     *      large.
     *    - COCO, keypoints, at a cap of 20: AP, AP50, AP75, AP medium, large, AR, AR50, AR75, AR
     *      medium, large.
     *    - LVIS: AP, AP50, AP75, AP small, medium, large, AP of rare, common, frequent categories,
     *      AR, AR small, medium, large.
     *    - VOC: the means of voc_points and voc_areas, at the first area range and the last cap.
     *  -1 if there is nothing to average, if the config has no such threshold, area or cap, and
     *  from stat_count on. */
    double stats[KOLO_DETECTION_STATS_MAX];
    int64_t images;           /**< different images on all ranks */
    int64_t duplicate_images; /**< images left out because another rank or update had them */
    int64_t detections;       /**< those within the last cap, without duplicate images */
    int64_t truths;           /**< ignored ones included, without duplicate images */
    int64_t missing_images;   /**< images that no rank had; 0 if config.images is 0 */
    size_t stat_count;        /**< the number of statistics in stats */
    const double *voc_points; /**< [T, K, A, M]: average precision at the recalls; VOC only */
    const double *voc_areas;  /**< the same, under the curve */
};

struct kolo_detection;
struct kolo_metric;

/** Creates a detection metric.
 *  @return KOLO_OK; ERR_INVALID (the detail has the field and its value); ERR_NO_MEMORY.
 *  Ownership: *detection_out is the caller's until kolo_detection_destroy(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_create(
    const struct kolo_detection_config *config, struct kolo_detection **detection_out);

/** Adds @p count images, and matches the detections of each with its ground truth. No
 *  communication. An image without boxes may be passed, and counts as an image. On failure nothing
 *  is added.
 *  @param images      the ids of the images
 *  @param truths      the ground truth; NULL: none
 *  @param detections  NULL: none
 *  @return KOLO_OK; ERR_INVALID (an unknown category, a number that is not finite, a negative width
 *  or height, masks of an image that differ in size or do not fill it, counts that do not add up or
 *  are 2^32 - 1 or more; the detail has the place and the value); ERR_NO_MEMORY; ERR_SYSTEM,
 *  ERR_TIMEOUT or ERR_UNSUPPORTED (a device array could not be copied, see metrics.h). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_update(struct kolo_detection *detection,
                                                          const int64_t *images, size_t count,
                                                          const struct kolo_boxes *truths,
                                                          const struct kolo_boxes *detections);

/** Returns the detection as a metric (metrics.h), to be computed together with others, merged,
 *  saved, restored or reset by the functions of all metrics, which then act on the detection.
 *  @return the metric, or NULL for NULL. Ownership: it belongs to the detection; do not destroy
 *  it. */
KOLO_API struct kolo_metric *kolo_detection_metric(struct kolo_detection *detection);

/** Computes the results over all ranks' images, the same on all ranks: kolo_metrics_compute() for
 *  this metric only. Collective: every rank must call it with the same config, also one without
 *  images. The results are valid until the next update. If no rank has updated since, computing
 *  again only finds that out.
 *  @return KOLO_OK; ERR_INVALID; ERR_MISMATCH (different configs; the communicator stays usable);
 *  ERR_DATA (more images than the config says); ERR_NO_MEMORY; the last three on all ranks; else as
 *  kolo_allreduce(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_compute(struct kolo_comm *comm,
                                                           struct kolo_detection *detection,
                                                           const struct kolo_opts *opts);

/** The results of the last compute. Their pointers are valid until the next update, compute, reset
 *  or destroy.
 *  @return KOLO_OK; ERR_INVALID (not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_result(const struct kolo_detection *detection,
                                                          struct kolo_detection_result *result_out);

/** Which entries of the result kolo_detection_average() averages. */
struct kolo_detection_slice {
    size_t size;       /**< sizeof(struct kolo_detection_slice) */
    bool of_recall;    /**< average recall; else average precision */
    int64_t threshold; /**< index in T; -1: all */
    int64_t category;  /**< index in K; -1: all */
    size_t area, cap;  /**< indices in A and M */
    int64_t group;     /**< only categories of this group; 0: all */
};

/** Averages the entries of a slice that are not -1, as numpy.mean does under the config's
 *  mean_rule; -1 if there are none. The AP of category k is {.threshold = -1, .category = k, .area
 *  = 0, .cap = 2}.
 *  @return KOLO_OK; ERR_INVALID (not computed, or an index is out of range). */
KOLO_API KOLO_NODISCARD kolo_status kolo_detection_average(const struct kolo_detection *detection,
                                                           const struct kolo_detection_slice *slice,
                                                           double *average_out);

/** Discards all images and the result; the config stays. */
KOLO_API void kolo_detection_reset(struct kolo_detection *detection);
/** Frees a detection. NULL is allowed. */
KOLO_API void kolo_detection_destroy(struct kolo_detection *detection);

KOLO_END_DECLS
#endif
