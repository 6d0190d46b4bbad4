// SPDX-License-Identifier: Apache-2.0
// LVIS's rules on cases known by hand, and what is refused. oracle/rules.py compares all entries
// with the lvis package.
#include <criterion/criterion.h>
#include <string.h>

#include <kolo/detection.h>

enum { MUG = 4, OWL = 7, KAYAK = 9, FOUND = 4 };

static const int64_t categories[] = {KAYAK, MUG, OWL};
static const int64_t groups[] = {1, 3, 2};

/* One image with a mug that is found, after a miss of each category. */
static const double truth_box[] = {0, 0, 10, 10};
static const double boxes[4 * FOUND] = {50, 50, 10, 10, 60, 60, 10, 10,
                                        70, 70, 10, 10, 0,  0,  10, 10};
static const double scores[FOUND] = {0.9, 0.8, 0.7, 0.6};
static const int64_t found_categories[FOUND] = {OWL, MUG, KAYAK, MUG}, mug[] = {MUG}, owl[] = {OWL};
static const size_t one[] = {1}, all[] = {FOUND};

static struct kolo_detection_config config_of(void)
{
    return (struct kolo_detection_config){.size = sizeof(struct kolo_detection_config),
                                          .rules = KOLO_DETECTION_LVIS,
                                          .categories = categories,
                                          .category_count = 3,
                                          .groups = groups};
}

static struct kolo_boxes truths(void)
{
    return (struct kolo_boxes){.count = 1,
                               .image_counts = one,
                               .boxes = truth_box,
                               .dtype = KOLO_FLOAT64,
                               .categories = mug};
}

static kolo_status compute_alone(struct kolo_comm *comm, void *arg)
{
    return kolo_detection_compute(comm, arg, NULL);
}

static struct kolo_detection *evaluate(const struct kolo_detection_config *config,
                                       const struct kolo_boxes *there,
                                       struct kolo_detection_result *result)
{
    struct kolo_boxes found = {.count = FOUND,
                               .image_counts = all,
                               .boxes = boxes,
                               .dtype = KOLO_FLOAT64,
                               .categories = found_categories,
                               .scores = scores};
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(config, &detection), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, there, &found), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK, "%s",
                 kolo_error_detail());
    *result = (struct kolo_detection_result){.size = sizeof *result};
    cr_assert_eq(kolo_detection_result(detection, result), KOLO_OK);
    return detection;
}

static struct kolo_detection_result results(const struct kolo_detection_config *config,
                                            const struct kolo_boxes *there)
{
    struct kolo_detection_result result;
    kolo_detection_destroy(evaluate(config, there, &result));
    return result;
}

Test(coco_lvis, detections_of_categories_not_asked_for_are_not_there)
{
    struct kolo_detection_config config = config_of();
    struct kolo_boxes there = truths();
    struct kolo_detection_result result = results(&config, &there);
    cr_assert_eq(result.detections, 2, "the mugs");
    cr_assert_eq(result.stat_count, 13);
    cr_assert_float_eq(result.stats[0], 0.5, 1e-12, "one of two");
    there.absent_counts = one;
    there.absent = owl;
    cr_assert_eq(results(&config, &there).detections, 3, "and the owl that is not there");
    cr_assert_eq(results(&config, NULL).detections, 0);
}

Test(coco_lvis, misses_of_partial_categories_are_left_out)
{
    struct kolo_detection_config config = config_of();
    struct kolo_boxes there = truths();
    there.partial_counts = one;
    there.partial = mug;
    cr_assert_float_eq(results(&config, &there).stats[0], 1, 1e-12);
    there.partial = owl;
    cr_assert_float_eq(results(&config, &there).stats[0], 0.5, 1e-12);
}

Test(coco_lvis, an_image_has_its_best_detections)
{
    struct kolo_detection_config config = config_of();
    struct kolo_boxes there = truths();
    config.image_cap = 3;
    struct kolo_detection_result result = results(&config, &there);
    cr_assert_eq(result.detections, 1);
    cr_assert_eq(result.stats[0], 0, "the one that is right is the fourth");
    config.rules = KOLO_DETECTION_COCO;
    cr_assert_eq(results(&config, &there).detections, 3);
}

Test(coco_lvis, groups_have_their_averages)
{
    struct kolo_detection_config config = config_of();
    struct kolo_boxes there = truths();
    struct kolo_detection_result result;
    struct kolo_detection *detection = evaluate(&config, &there, &result);
    cr_assert_eq(result.stats[6], -1, "no kayak");
    cr_assert_eq(result.stats[7], -1, "no owl");
    cr_assert_float_eq(result.stats[8], 0.5, 1e-12, "mugs are frequent");
    struct kolo_detection_slice slice = {
        .size = sizeof slice, .threshold = -1, .category = -1, .group = 3};
    double average;
    cr_assert_eq(kolo_detection_average(detection, &slice, &average), KOLO_OK);
    cr_assert_eq(average, result.stats[8]);
    slice.group = -1;
    cr_assert_eq(kolo_detection_average(detection, &slice, &average), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "slice->group is -1, not in 0.."), "%s",
              kolo_error_detail());
    kolo_detection_destroy(detection);
}

Test(coco_lvis, nothing_of_an_image_is_left_for_the_next)
{
    const size_t counts[] = {1, 0}, found_counts[] = {0, 1};
    struct kolo_detection_config config = config_of();
    struct kolo_boxes there = truths();
    there.image_counts = there.absent_counts = there.partial_counts = counts;
    there.absent = owl;
    there.partial = owl;
    struct kolo_boxes found = {.count = 1,
                               .image_counts = found_counts,
                               .boxes = boxes,
                               .dtype = KOLO_FLOAT64,
                               .scores = scores};
    for (int i = 0; i < 2; i++) {
        struct kolo_detection_result result = {.size = sizeof result};
        struct kolo_detection *detection = NULL;
        found.categories = i ? owl : mug;
        cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK);
        cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3, 4}, 2, &there, &found),
                     KOLO_OK, "%s", kolo_error_detail());
        cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK);
        cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
        cr_assert_eq(result.detections, 0);
        kolo_detection_destroy(detection);
    }
}

Test(coco_lvis, refuses_lists_that_do_not_fit)
{
    struct kolo_detection_config config = config_of();
    struct kolo_detection *detection = NULL;
    struct kolo_boxes there = truths();
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK);
    there.absent_counts = one;
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &there, NULL),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "truths.absent is NULL"), "%s", kolo_error_detail());
    there = truths();
    there.partial = owl;
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &there, NULL),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "truths.partial_counts is NULL"));
    there.partial_counts = (size_t[]){SIZE_MAX, 2};
    there.image_counts = (size_t[]){1, 0};
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3, 4}, 2, &there, NULL),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "partial_counts[1]"), "%s", kolo_error_detail());
    kolo_detection_destroy(detection);
    config.image_cap = -2;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    config.image_cap = 0;
    config.rules = (kolo_detection_rules)7;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "rules 7"), "%s", kolo_error_detail());
    config.rules = KOLO_DETECTION_LVIS;
    config.groups = (int64_t[]){1, -1, 0};
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "groups[1] is -1"), "%s", kolo_error_detail());
}
