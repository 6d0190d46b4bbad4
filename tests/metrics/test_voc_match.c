// SPDX-License-Identifier: Apache-2.0
// PASCAL VOC's rules on cases known by hand, and the same bits of VOC's results for any number of
// ranks. oracle/rules.py compares more with a simple reference.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>

static const int64_t cats[] = {3, 3, 3}, cat[] = {3};

static struct kolo_boxes objects(const float *boxes, const float *scores, const size_t *count)
{
    return (struct kolo_boxes){.count = *count,
                               .image_counts = count,
                               .boxes = boxes,
                               .dtype = KOLO_FLOAT32,
                               .format = KOLO_BOX_XYXY,
                               .categories = cats,
                               .scores = scores};
}

static kolo_status compute_alone(struct kolo_comm *comm, void *arg)
{
    return kolo_detection_compute(comm, arg, NULL);
}

/* What one rank computes of one image. The result is valid until the detection is destroyed. */
static struct kolo_detection *computed(const struct kolo_detection_config *config,
                                       const struct kolo_boxes *truths,
                                       const struct kolo_boxes *found,
                                       struct kolo_detection_result *result_out)
{
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(config, &detection), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){1}, 1, truths, found), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_detection_result(detection, result_out), KOLO_OK);
    return detection;
}

/* {average at points, area} */
static void evaluate(const struct kolo_boxes *truths, const struct kolo_boxes *found,
                     bool is_continuous, double averages[2])
{
    struct kolo_detection_config config = {.size = sizeof config,
                                           .rules = KOLO_DETECTION_VOC,
                                           .categories = cat,
                                           .category_count = 1,
                                           .continuous_boxes = is_continuous};
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_detection *detection = computed(&config, truths, found, &result);
    cr_assert_eq(result.thresholds, 1);
    cr_assert_eq(result.recalls, 11);
    cr_assert_eq(result.stat_count, 2);
    cr_assert_eq(result.stats[0], result.voc_points[0]);
    cr_assert_eq(result.stats[1], result.voc_areas[0]);
    averages[0] = result.stats[0];
    averages[1] = result.stats[1];
    kolo_detection_destroy(detection);
}

/* Two ground truths; a true detection, a second one of the same object, which is a miss, then a
 * detection of the other. */
static const float truth_boxes[] = {0, 0, 9, 9, 100, 100, 109, 109};
static const float found_boxes[] = {0, 0, 9, 9, 0, 0, 9, 8, 100, 100, 109, 109};
static const float scores[] = {0.9f, 0.8f, 0.7f};
static const size_t two[] = {2}, three[] = {3};

Test(voc_match, the_second_of_a_ground_truth_is_a_miss)
{
    struct kolo_boxes truths = objects(truth_boxes, NULL, two);
    struct kolo_boxes found = objects(found_boxes, scores, three);
    double averages[2];
    evaluate(&truths, &found, false, averages);
    /* precision 1 up to recall 0.5, then 2 / 3 */
    cr_assert_float_eq(averages[0], (6 + 5 * 2. / 3) / 11, 1e-12);
    cr_assert_float_eq(averages[1], 0.5 + 0.5 * 2 / 3, 1e-12);
}

Test(voc_match, difficult_ones_take_any_number)
{
    struct kolo_boxes truths = objects(truth_boxes, NULL, two);
    struct kolo_boxes found = objects(found_boxes, scores, three);
    double averages[2];
    truths.ignored = (uint8_t[]){1, 0};
    evaluate(&truths, &found, false, averages);
    cr_assert_float_eq(averages[0], 1, 1e-12);
    cr_assert_eq(averages[1], 1);
}

Test(voc_match, edges_are_pixels)
{
    static const float square[] = {0, 0, 9, 9}, half[] = {0, 0, 9, 4};
    static const size_t one[] = {1};
    struct kolo_boxes truths = objects(square, NULL, one), found = objects(half, scores, one);
    double averages[2];
    evaluate(&truths, &found, false, averages);
    cr_assert_eq(averages[1], 1, "50 of 100 pixels");
    evaluate(&truths, &found, true, averages);
    cr_assert_eq(averages[1], 0, "36 of 81");
}

Test(voc_match, only_the_nearest_is_looked_at)
{
    /* Both detections overlap the first ground truth most; by COCO's rules the second one would
     * get the other. */
    static const float close[] = {0, 0, 9, 9, 0, 3, 9, 12}, twice[] = {0, 0, 9, 9, 0, 1, 9, 10};
    struct kolo_boxes truths = objects(close, NULL, two), found = objects(twice, scores, two);
    double averages[2];
    evaluate(&truths, &found, false, averages);
    cr_assert_eq(averages[1], 0.5);
}

/* Each threshold has verdicts of its own, and a category without ground truth has no average. */
Test(voc_match, thresholds_and_categories_are_apart)
{
    static const double at[] = {0.5, 0.75, 0.95};
    static const int64_t known[] = {3, 8};
    static const float half[] = {0, 0, 9, 9, 100, 100, 109, 107}; /* IoU 1 and 0.8 */
    struct kolo_detection_config config = {.size = sizeof config,
                                           .rules = KOLO_DETECTION_VOC,
                                           .thresholds = at,
                                           .threshold_count = 3,
                                           .categories = known,
                                           .category_count = 2};
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_boxes truths = objects(truth_boxes, NULL, two), found = objects(half, scores, two);
    struct kolo_detection *detection = computed(&config, &truths, &found, &result);
    const size_t row = result.categories * result.areas * result.caps;
    for (size_t t = 0; t < 3; t++) {
        const double *areas = result.voc_areas + t * row, *points = result.voc_points + t * row;
        cr_expect_eq(areas[0], t < 2 ? 1 : 0.5, "threshold %zu: %g", t, areas[0]);
        cr_expect_eq(points[0] > 0.9, t < 2, "threshold %zu: %g", t, points[0]);
        cr_expect(areas[row - 1] == -1 && points[row - 1] == -1, "threshold %zu", t);
    }
    kolo_detection_destroy(detection);
}

/* So have area ranges and caps. */
Test(voc_match, areas_and_caps_are_apart)
{
    static const struct kolo_area_range ranges[] = {{0, 1e5}, {150, 1e5}};
    static const int caps[] = {1, 3};
    static const float there[] = {0, 0, 9, 9, 100, 100, 119, 109}; /* of 100 and 200 pixels */
    struct kolo_detection_config config = {.size = sizeof config,
                                           .rules = KOLO_DETECTION_VOC,
                                           .areas = ranges,
                                           .area_count = 2,
                                           .caps = caps,
                                           .cap_count = 2,
                                           .categories = cat,
                                           .category_count = 1};
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_boxes truths = objects(there, NULL, two), found = objects(there, scores, two);
    struct kolo_detection *detection = computed(&config, &truths, &found, &result);
    cr_assert(result.areas == 2 && result.caps == 2);
    const double expected[4] = {0.5, 1, 0, 1}; /* the second detection is the large one */
    for (int i = 0; i < 4; i++)
        cr_expect_eq(result.voc_areas[i], expected[i], "%d: %g", i, result.voc_areas[i]);
    kolo_detection_destroy(detection);
}

/* ---- the same bits for any number of ranks ---- */

enum { IMAGES = 40, PER_IMAGE = 9, KINDS = 3 };

/* With a cap the best 65535 are used, without one all. */
static kolo_status add_many(const int *cap, size_t count)
{
    struct kolo_detection_config config = {.size = sizeof config,
                                           .rules = KOLO_DETECTION_VOC,
                                           .categories = cat,
                                           .category_count = 1,
                                           .caps = cap,
                                           .cap_count = cap != NULL};
    struct kolo_detection *detection = NULL;
    float *boxes = calloc(count, 4 * sizeof *boxes), *equal = calloc(count, sizeof *equal);
    int64_t *all = calloc(count, sizeof *all);
    cr_assert(boxes && equal && all);
    for (size_t i = 0; i < count; i++)
        all[i] = cat[0];
    struct kolo_boxes found = objects(boxes, equal, &count);
    found.categories = all;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    kolo_status status = kolo_detection_update(detection, (int64_t[]){1}, 1, NULL, &found);
    kolo_detection_destroy(detection);
    free(boxes);
    free(equal);
    free(all);
    return status;
}

Test(voc_match, leaves_none_out_unasked)
{
    const int cap = KOLO_DETECTION_CAP_MAX - 1;
    cr_expect_eq(add_many(NULL, KOLO_DETECTION_CAP_MAX), KOLO_OK, "%s", kolo_error_detail());
    cr_expect_eq(add_many(&cap, KOLO_DETECTION_CAP_MAX + 1), KOLO_OK, "%s", kolo_error_detail());
    cr_expect_eq(add_many(NULL, KOLO_DETECTION_CAP_MAX + 1), KOLO_ERR_INVALID);
    cr_expect(strstr(kolo_error_detail(), "65536 detections of one image and category"), "%s",
              kolo_error_detail());
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

struct world {
    bool has_result;
    double stats[KOLO_DETECTION_STATS_MAX], areas[KINDS], points[KINDS];
};

static kolo_status add_image(struct kolo_detection *detection, int64_t image)
{
    float boxes[PER_IMAGE * 4], some[PER_IMAGE];
    int64_t kinds[PER_IMAGE];
    uint64_t state = (uint64_t)image;
    for (int i = 0; i < PER_IMAGE; i++) {
        for (int j = 0; j < 4; j++)
            boxes[4 * i + j] = (float)(next_random(&state) % 4 * 4 + (j > 1 ? 30 : 0));
        some[i] = (float)(next_random(&state) % 10) / 10;
        kinds[i] = next_random(&state) % 5 ? 0 : 1 + (int64_t)(next_random(&state) % 2);
    }
    const size_t all[] = {PER_IMAGE}, half[] = {PER_IMAGE / 2};
    struct kolo_boxes found = objects(boxes, some, all);
    found.categories = kinds;
    struct kolo_boxes truths = found;
    truths.count = *half;
    truths.image_counts = half;
    return kolo_detection_update(detection, &image, 1, &truths, &found);
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    static const int64_t kinds[] = {0, 1, 2};
    struct world *world = arg;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .rules = KOLO_DETECTION_VOC,
                                           .categories = kinds,
                                           .category_count = KINDS};
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_detection *detection = NULL;
    kolo_status status = kolo_detection_create(&config, &detection);
    for (int i = 0; status == KOLO_OK && i < IMAGES; i++)
        if (i % kolo_size(comm) == kolo_rank(comm) || i % 7 == kolo_rank(comm))
            status = add_image(detection, i);
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK && !world->has_result) {
        memcpy(world->stats, result.stats, sizeof world->stats);
        memcpy(world->areas, result.voc_areas, sizeof world->areas);
        memcpy(world->points, result.voc_points, sizeof world->points);
        world->has_result = true;
    } else if (status == KOLO_OK) {
        bool is_same = !memcmp(world->stats, result.stats, sizeof world->stats) &&
                       !memcmp(world->areas, result.voc_areas, sizeof world->areas) &&
                       !memcmp(world->points, result.voc_points, sizeof world->points);
        status = is_same ? KOLO_OK : KOLO_ERR_DATA;
    }
    kolo_detection_destroy(detection);
    return status;
}

Test(voc_match, same_bits_on_any_number_of_ranks)
{
    static struct world world;
    static const int sizes[] = {1, 2, 3, 4, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_assert_eq(kolo_run_threads(sizes[i], NULL, rank_main, &world), KOLO_OK, "%d ranks: %s",
                     sizes[i], kolo_error_detail());
    cr_assert(world.stats[0] > 0 && world.stats[0] < 1 && world.stats[1] > 0);
}
