// SPDX-License-Identifier: Apache-2.0
// Keypoints whose similarity is known by hand, and what is refused. oracle/rules.py compares all
// entries with pycocotools.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/detection.h>

enum { POINTS = 2, NUMBERS = 3 * POINTS };

static const double sigmas[POINTS] = {0.05, 0.1};
static const int64_t person[] = {1};
static const size_t one[] = {1};

static struct kolo_detection_config config_of(void)
{
    return (struct kolo_detection_config){.size = sizeof(struct kolo_detection_config),
                                          .kind = KOLO_DETECTION_KEYPOINTS,
                                          .categories = person,
                                          .category_count = 1,
                                          .sigmas = sigmas,
                                          .sigma_count = POINTS};
}

static struct kolo_boxes object(const double *box, const double *points, const double *score)
{
    return (struct kolo_boxes){.count = 1,
                               .image_counts = one,
                               .boxes = box,
                               .dtype = KOLO_FLOAT64,
                               .categories = person,
                               .scores = score,
                               .keypoints = points};
}

static kolo_status compute_alone(struct kolo_comm *comm, void *arg)
{
    return kolo_detection_compute(comm, arg, NULL);
}

static const double truth_box[] = {0, 0, 100, 100}, score[] = {0.5};

/* The result for one ground truth and one detection. */
static struct kolo_detection_result evaluate(struct kolo_detection **detection_out,
                                             const double *truth_points, const double *found_points)
{
    struct kolo_detection_config config = config_of();
    struct kolo_boxes truths = object(truth_box, truth_points, NULL);
    struct kolo_boxes found = object(NULL, found_points, score);
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &truths, &found), KOLO_OK,
                 "%s", kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    *detection_out = detection;
    return result;
}

/* The number of the ten thresholds at which the detection is true. */
static int reached(const double *truth_points, const double *found_points)
{
    struct kolo_detection *detection;
    struct kolo_detection_result result = evaluate(&detection, truth_points, found_points);
    cr_assert_eq(result.thresholds, 10);
    cr_assert_eq(result.areas, 3, "there are no small ones");
    cr_assert_eq(result.caps, 1);
    cr_assert_eq(result.stat_count, 10);
    int count = 0;
    for (size_t t = 0; t < 10; t++)
        count += result.recall[t * 3] > 0;
    cr_assert_float_eq(result.stats[0], count / 10., 1e-12);
    cr_assert_eq(result.stats[5], count / 10.);
    kolo_detection_destroy(detection);
    return count;
}

/* The similarity of a point at distance d, with sigma s, of an object of area 10000 is exp(-d^2 /
 * (8 s^2 10000)). */
static double distance(double sigma, double similarity)
{
    return sqrt(-log(similarity) * 8 * sigma * sigma * 10000);
}

Test(coco_oks, each_point_by_its_sigma)
{
    const double truth[NUMBERS] = {10, 10, 2, 50, 50, 1};
    double found[NUMBERS] = {10, 10, 0, 50, 50, 0};
    cr_assert_eq(reached(truth, found), 10);
    /* (0.24 + 1) / 2 = 0.62: thresholds 0.5, 0.55, 0.6 */
    found[0] = 10 + distance(sigmas[0], 0.24);
    cr_assert_eq(reached(truth, found), 3);
    found[0] = 10;
    found[4] = 50 + distance(sigmas[1], 0.24);
    cr_assert_eq(reached(truth, found), 3);
}

Test(coco_oks, points_that_nobody_saw_do_not_count)
{
    const double truth[NUMBERS] = {10, 10, 2, 0, 0, 0};
    const double found[NUMBERS] = {10, 10, 1, 90, 90, 1};
    cr_assert_eq(reached(truth, found), 10);
}

Test(coco_oks, without_points_the_ground_truth_is_left_out_and_takes_what_is_near)
{
    const double truth[NUMBERS] = {0}, near[NUMBERS] = {-90, -90, 1, 190, 190, 1};
    const double far[NUMBERS] = {-1000, -1000, 1, 2000, 2000, 1};
    struct kolo_detection *detection;
    cr_assert_eq(evaluate(&detection, truth, near).recall[0], -1, "nothing to find");
    kolo_detection_destroy(detection);
    struct kolo_detection_config config = config_of();
    const double both[2 * NUMBERS] = {0, 0, 0, 0, 0, 0, 500, 500, 2, 520, 500, 2};
    const double boxes[] = {0, 0, 100, 100, 480, 480, 100, 100};
    const double *third[] = {near, far};
    for (int i = 0; i < 2; i++) { /* with a miss before the true one, or without */
        double found[2 * NUMBERS], scores[] = {0.9, 0.8};
        memcpy(found, third[i], NUMBERS * sizeof(double));
        memcpy(found + NUMBERS, both + NUMBERS, NUMBERS * sizeof(double));
        struct kolo_boxes truths = object(boxes, both, NULL),
                          detections = object(NULL, found, scores);
        truths.count = detections.count = 2;
        truths.image_counts = detections.image_counts = (size_t[]){2};
        truths.categories = detections.categories = (int64_t[]){1, 1};
        struct kolo_detection_result result = {.size = sizeof result};
        cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK);
        cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &truths, &detections),
                     KOLO_OK);
        cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK);
        cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
        cr_assert_float_eq(result.precision[0], i == 0 ? 1 : 0.5, 1e-12);
        kolo_detection_destroy(detection);
    }
}

static void refused(const char *what, const struct kolo_boxes *truths,
                    const struct kolo_boxes *found)
{
    struct kolo_detection_config config = config_of();
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK);
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, truths, found),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), what), "%s", kolo_error_detail());
    kolo_detection_destroy(detection);
}

Test(coco_oks, refuses_points_that_are_none)
{
    const double right[NUMBERS] = {10, 10, 2, 50, 50, 1};
    double wrong[NUMBERS] = {10, 10, 2, 50, NAN, 1};
    struct kolo_boxes truths = object(truth_box, right, NULL), found = object(NULL, wrong, score);
    refused("keypoint 1 of object 0 of detections", &truths, &found);
    wrong[4] = 1e200;
    wrong[3] = 1e200;
    refused("too far", &truths, &found);
    found.keypoints = NULL;
    refused("detections.keypoints is NULL", &truths, &found);
    found.keypoints = right;
    truths.boxes = NULL;
    refused("truths.boxes", &truths, &found);
}

static void refused_config(struct kolo_detection_config config, const char *what)
{
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), what), "%s", kolo_error_detail());
}

Test(coco_oks, refuses_sigmas)
{
    static const double wrong[] = {0.1, 0}, tiny[] = {1e-300, 0.1};
    struct kolo_detection_config config = config_of();
    config.sigmas = wrong;
    refused_config(config, "sigmas[1] is 0");
    config.sigmas = tiny;
    refused_config(config, "sigmas[0]");
    config.sigma_count = KOLO_DETECTION_POINTS_MAX + 1;
    refused_config(config, "257 sigmas");
    config = config_of();
    config.kind = KOLO_DETECTION_BOXES;
    refused_config(config, "only keypoints have sigmas");
    config = config_of();
    config.rules = KOLO_DETECTION_VOC;
    refused_config(config, "rules 2 are for boxes and masks; keypoints need KOLO_DETECTION_COCO");
}
