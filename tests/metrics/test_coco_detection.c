// SPDX-License-Identifier: Apache-2.0
// Cases whose results are known by hand, what is refused, and that the bits do not depend on which
// rank has which images. oracle/coco.py compares all entries with pycocotools.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <kolo/detection.h>

#include "base/alloc.h"
#include "tests/support/metric_calls.h"

enum { CATEGORY = 7, CATEGORIES_MANY = 8, IMAGES = 60, IMAGES_MANY = 20000, PER_IMAGE = 12 };

static struct kolo_detection *make(const struct kolo_detection_config *overrides)
{
    static const int64_t categories[CATEGORIES_MANY] = {9, CATEGORY, 1, 2, 3, 4, 5, 6};
    struct kolo_detection_config config = *overrides;
    struct kolo_detection *detection = NULL;
    config.size = sizeof config;
    config.categories = categories;
    config.category_count = config.category_count ? config.category_count : 2;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    return detection;
}

/* One image with two ground truths, of which the first is found (overlap 1) after a miss. */
static const double truth_boxes[] = {0, 0, 10, 10, 100, 100, 20, 20};
static const double found_boxes[] = {50, 50, 10, 10, 0, 0, 10, 10};
static const double found_scores[] = {0.9, 0.8};
static const int64_t two_categories[] = {CATEGORY, CATEGORY};
static const int64_t truth_ids[] = {0, 1};
static const size_t two_of_one[] = {2};

static struct kolo_boxes truths(void)
{
    return (struct kolo_boxes){.count = 2,
                               .image_counts = two_of_one,
                               .boxes = truth_boxes,
                               .dtype = KOLO_FLOAT64,
                               .categories = two_categories};
}

static struct kolo_boxes found(void)
{
    return (struct kolo_boxes){.count = 2,
                               .image_counts = two_of_one,
                               .boxes = found_boxes,
                               .dtype = KOLO_FLOAT64,
                               .categories = two_categories,
                               .scores = found_scores};
}

static kolo_status compute_alone(struct kolo_comm *comm, void *arg)
{
    return kolo_detection_compute(comm, arg, NULL);
}

static struct kolo_detection_result evaluate(struct kolo_detection *detection,
                                             const struct kolo_boxes *there)
{
    struct kolo_boxes detections = found();
    struct kolo_detection_result result = {.size = sizeof result};
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, there, &detections), KOLO_OK,
                 "%s", kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    return result;
}

Test(coco_detection, half_found_behind_a_miss)
{
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    struct kolo_boxes there = truths();
    struct kolo_detection_result result = evaluate(detection, &there);
    cr_assert_eq(result.categories, 2);
    cr_assert_eq(result.category_ids[0], CATEGORY);
    /* recall 0.5 with precision 1 / 2 up to there: 51 of 101 points */
    cr_assert_float_eq(result.stats[0], 0.5 * 51 / 101, 1e-12);
    cr_assert_eq(result.stats[8], 0.5);
    cr_assert_eq(result.stats[6], 0); /* one detection, which is the miss */
    cr_assert_eq(result.recall[1 * 4 * 3], -1, "a category without ground truth is not there");
    struct kolo_detection_slice slice = {
        .size = sizeof slice, .threshold = -1, .category = 0, .area = 0, .cap = 2};
    double average;
    cr_assert_eq(kolo_detection_average(detection, &slice, &average), KOLO_OK);
    cr_assert_eq(average, result.stats[0]);
    slice.cap = 3;
    cr_assert_eq(kolo_detection_average(detection, &slice, &average), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "slice->cap is 3, not in 0..2"), "%s",
              kolo_error_detail());
    kolo_detection_destroy(detection);
    struct kolo_comm *alone = NULL;
    cr_assert_eq(kolo_init(NULL, &alone), KOLO_OK);
    cr_assert_eq(kolo_detection_compute(alone, NULL, NULL), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kolo_detection_compute: the detection is NULL"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_finalize(alone), KOLO_OK);
}

/** The best miss gives the curve its first score, even below 0; misses after it change nothing. */
Test(coco_detection, nothing_found_with_negative_scores)
{
    static const double far[] = {50, 50, 10, 10, 70, 70, 10, 10}, scores[] = {-0.5, -0.25};
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    struct kolo_boxes there = truths(), detections = found();
    struct kolo_detection_result result = {.size = sizeof result};
    detections.boxes = far;
    detections.scores = scores;
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &there, &detections), KOLO_OK,
                 "%s", kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    cr_assert_eq(result.stats[0], 0);
    cr_assert_eq(result.detections, 2);
    cr_assert_eq(result.scores[0], -0.25, "%g", result.scores[0]);
    kolo_detection_destroy(detection);
}

Test(coco_detection, id_zero_and_ignore_by_mode)
{
    static const uint8_t ignored[] = {0, 1};
    struct kolo_boxes there = truths();
    there.ids = truth_ids;
    there.ignored = ignored;
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    cr_assert_eq(evaluate(detection, &there).stats[8], 0, "matched to id 0 it is a miss");
    kolo_detection_destroy(detection);
    detection = make(&(struct kolo_detection_config){.mode = KOLO_DETECTION_FIXED});
    cr_assert_eq(evaluate(detection, &there).stats[8], 1, "the other one is ignored");
    kolo_detection_destroy(detection);
}

/* The best detection takes the last of two equal ground truths in the order in which they are
 * passed, not in which they are sorted: that is the one without id 0. */
Test(coco_detection, one_list_may_be_both)
{
    static const double boxes[] = {0, 0, 10, 10, 0, 0, 10, 10}, scores[] = {0.5, 0.9};
    struct kolo_boxes all = {.count = 2,
                             .image_counts = two_of_one,
                             .boxes = boxes,
                             .dtype = KOLO_FLOAT64,
                             .categories = two_categories,
                             .scores = scores,
                             .ids = truth_ids};
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    struct kolo_detection_result result = {.size = sizeof result};
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &all, &all), KOLO_OK);
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK);
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    cr_assert_float_eq(result.stats[0], 51. / 101, 1e-12);
    cr_assert_eq(result.stats[6], 0.5, "the best one is a true one");
    kolo_detection_destroy(detection);
}

static void refused(const char *what, const struct kolo_boxes *there,
                    const struct kolo_boxes *detections)
{
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, there, detections),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), what), "%s", kolo_error_detail());
    kolo_detection_destroy(detection);
}

Test(coco_detection, refuses_what_would_be_counted_wrong)
{
    double boxes[8], scores[] = {0.5, NAN};
    int64_t categories[] = {CATEGORY, 8};
    struct kolo_boxes there = truths(), detections = found();
    detections.scores = scores;
    refused("score of box 1", &there, &detections);
    detections = found();
    there.areas = (double[]){1, INFINITY};
    refused("the area of box 1 of truths is inf", &there, &detections);
    there.areas = NULL;
    detections.categories = categories;
    refused("category 8", &there, &detections);
    detections = found();
    memcpy(boxes, found_boxes, sizeof boxes);
    detections.boxes = boxes;
    boxes[6] = -1;
    refused("width -1", &there, &detections);
    boxes[6] = INFINITY;
    refused("not finite", &there, &detections);
    boxes[6] = 1e200, boxes[7] = 1e200;
    refused("too large", &there, &detections);
    detections = found();
    detections.image_counts = (size_t[]){1};
    refused("add up", &there, &detections);
    detections = found();
    detections.dtype = KOLO_INT32;
    refused("dtype", &there, &detections);
}

/* No array has so many elements: for example, a length that was negative. */
Test(coco_detection, refuses_counts_that_no_memory_holds, .timeout = 20)
{
    static const size_t counts[] = {SIZE_MAX, SIZE_MAX / sizeof(int64_t) + 2, UINT32_MAX};
    const int64_t image = 3;
    for (int kind = KOLO_DETECTION_BOXES; kind <= KOLO_DETECTION_KEYPOINTS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct kolo_detection *detection =
                make(&(struct kolo_detection_config){.kind = (kolo_detection_kind)kind});
            cr_expect_eq(kolo_detection_update(detection, &image, counts[i], NULL, NULL),
                         KOLO_ERR_INVALID, "kind %d, %zu images", kind, counts[i]);
            kolo_detection_destroy(detection);
        }
}

Test(coco_detection, refuses_configs)
{
    struct kolo_detection *detection = NULL;
    const int64_t twice[] = {1, 2, 1};
    const double descending[] = {0.9, 0.5};
    const int caps[] = {0};
    struct kolo_detection_config config = {.size = sizeof config};
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    config.categories = twice;
    config.category_count = 3;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "category 1 is given twice"));
    config.category_count = 2;
    config.thresholds = descending;
    config.threshold_count = 2;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    config.thresholds = NULL;
    config.threshold_count = 0;
    config.caps = caps;
    config.cap_count = 1;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    config.caps = NULL;
    config.cap_count = 0;
    config.kind = (kolo_detection_kind)3;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kind 3"));
    config.kind = KOLO_DETECTION_BOXES;
    config.sigmas = descending;
    config.sigma_count = 2;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "2 sigmas"));
}

/* It would be evaluated with other objects than intended. */
Test(coco_detection, refuses_a_count_of_what_is_not_there)
{
    const struct {
        struct kolo_detection_config config;
        const char *what;
    } cases[] = {{{.threshold_count = 2}, "thresholds is NULL, but there are 2"},
                 {{.recall_count = 101}, "recalls is NULL, but there are 101"},
                 {{.area_count = 1}, "areas is NULL, but there are 1"},
                 {{.cap_count = 3}, "caps is NULL, but there are 3"},
                 {{.sigma_count = 17, .kind = KOLO_DETECTION_KEYPOINTS},
                  "sigmas is NULL, but there are 17"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kolo_detection_config config = cases[i].config;
        struct kolo_detection *detection = NULL;
        config.size = sizeof config;
        config.categories = two_categories;
        config.category_count = 1;
        cr_expect_eq(kolo_detection_create(&config, &detection), KOLO_ERR_INVALID, "%s",
                     cases[i].what);
        cr_expect(strstr(kolo_error_detail(), cases[i].what), "%s", kolo_error_detail());
        kolo_detection_destroy(detection);
    }
}

Test(coco_detection, adds_all_or_nothing)
{
    struct kolo_boxes there = truths(), detections = found();
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    kolo_status status = KOLO_ERR_NO_MEMORY;
    for (uint64_t nth = 1; status != KOLO_OK; nth++) {
        kolo_alloc_fail_nth(nth);
        status = kolo_detection_update(detection, (int64_t[]){3}, 1, &there, &detections);
        kolo_alloc_fail_nth(0);
        cr_assert(status == KOLO_OK || status == KOLO_ERR_NO_MEMORY);
    }
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK);
    struct kolo_detection_result result = {.size = sizeof result};
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    cr_assert_eq(result.images, 1);
    cr_assert_eq(result.duplicate_images, 0);
    cr_assert_eq(result.detections, 2);
    kolo_detection_destroy(detection);
}

/* ---- the same bits for any number of ranks ---- */

enum { FORCED_RANKS = 3 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

struct world {
    bool is_large; /* many images of many categories, one of which has two thirds of the boxes */
    bool has_result;
    double stats[KOLO_DETECTION_STATS], precision[10 * 101 * CATEGORIES_MANY * 4 * 3];
    int64_t duplicates;
};

static kolo_status add_image_of(struct kolo_detection *detection, int64_t image, bool is_large)
{
    float boxes[PER_IMAGE * 4], scores[PER_IMAGE];
    int64_t categories[PER_IMAGE];
    size_t count[] = {PER_IMAGE};
    uint64_t state = (uint64_t)image;
    for (int i = 0; i < PER_IMAGE; i++) {
        for (int j = 0; j < 4; j++)
            boxes[4 * i + j] = (float)(next_random(&state) % 8 * 8 + (j > 1 ? 30 : 0));
        scores[i] = (float)(next_random(&state) % 10) / 10;
        categories[i] = next_random(&state) % 3 ? CATEGORY
                        : is_large              ? (int64_t)(1 + next_random(&state) % CATEGORY)
                                                : 9;
    }
    struct kolo_boxes all = {.count = PER_IMAGE,
                             .image_counts = count,
                             .boxes = boxes,
                             .dtype = KOLO_FLOAT32,
                             .categories = categories,
                             .scores = scores};
    struct kolo_boxes some = all;
    some.count = *(some.image_counts = (size_t[]){PER_IMAGE / 2});
    return kolo_detection_update(detection, &image, 1, &some, &all);
}

static kolo_status add_image(struct kolo_detection *detection, int64_t image)
{
    return add_image_of(detection, image, false);
}

static size_t bytes_of(const struct kolo_detection_result *result)
{
    return sizeof *result->precision * result->thresholds * result->recalls * result->categories *
           result->areas * result->caps;
}

/* Ranks pass images in descending order, and each also passes its neighbour's first image. */
static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct world *world = arg;
    struct kolo_detection *detection = make(
        &(struct kolo_detection_config){.category_count = world->is_large ? CATEGORIES_MANY : 0});
    struct kolo_detection_result result = {.size = sizeof result};
    int rank = kolo_rank(comm), ranks = kolo_size(comm);
    int images = world->is_large ? IMAGES_MANY : IMAGES;
    kolo_status status = KOLO_OK;
    for (int i = images - 1; status == KOLO_OK && i >= 0; i--)
        if (i % ranks == rank || (ranks > 1 && i == (rank + 1) % ranks))
            status = add_image_of(detection, 1000 - i, world->is_large);
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK && !world->has_result) {
        memcpy(world->stats, result.stats, sizeof world->stats);
        memcpy(world->precision, result.precision, bytes_of(&result));
        world->has_result = true;
    } else if (status == KOLO_OK) {
        bool is_same = !memcmp(world->stats, result.stats, sizeof world->stats) &&
                       !memcmp(world->precision, result.precision, bytes_of(&result)) &&
                       result.images == images && result.duplicate_images == ranks;
        status = is_same ? KOLO_OK : KOLO_ERR_DATA;
    }
    kolo_detection_destroy(detection);
    return status;
}

Test(coco_detection, same_bits_on_any_number_of_ranks)
{
    static struct world world;
    static const int sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_assert_eq(kolo_run_threads(sizes[i], NULL, rank_main, &world), KOLO_OK, "%d ranks: %s",
                     sizes[i], kolo_error_detail());
    cr_assert(world.stats[0] > 0 && world.stats[0] < 1);
}

/* One image with one object, which is found or missed. */
static kolo_status add_one(struct kolo_detection *detection, int64_t image, bool is_found)
{
    static const float box[] = {0, 0, 10, 10}, beside[] = {50, 50, 10, 10}, score[] = {0.5F};
    static const int64_t category[] = {CATEGORY};
    static const size_t one[] = {1};
    const struct kolo_boxes truth = {.count = 1,
                                     .image_counts = one,
                                     .boxes = box,
                                     .dtype = KOLO_FLOAT32,
                                     .categories = category};
    struct kolo_boxes found = truth;
    found.boxes = is_found ? box : beside;
    found.scores = score;
    return kolo_detection_update(detection, &image, 1, &truth, &found);
}

/* Of each image the lowest rank that has it passes the right one, and that first. */
static kolo_status lowest_main(struct kolo_comm *comm, void *arg)
{
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    struct kolo_detection_result result = {.size = sizeof result};
    const int rank = kolo_rank(comm);
    kolo_status status = KOLO_OK;
    (void)arg;
    for (int64_t lowest = 0; status == KOLO_OK && lowest <= rank; lowest++)
        for (int times = 0; status == KOLO_OK && times < 2; times++)
            status = add_one(detection, 100 - lowest, rank == lowest && times == 0);
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK && (result.images != kolo_size(comm) || !(result.stats[0] > 0.99)))
        status = KOLO_ERR_DATA;
    kolo_detection_destroy(detection);
    return status;
}

Test(coco_detection, an_image_is_that_of_the_lowest_rank_and_its_first_update)
{
    for (int ranks = 1; ranks <= 5; ranks++)
        cr_assert_eq(kolo_run_threads(ranks, NULL, lowest_main, NULL), KOLO_OK, "%d ranks", ranks);
}

/* So many that memory of records is freed while curves are computed. */
Test(coco_detection, same_bits_of_many)
{
    static struct world world = {.is_large = true};
    for (int ranks = 1; ranks <= 5; ranks++)
        cr_assert_eq(kolo_run_threads(ranks, NULL, rank_main, &world), KOLO_OK, "%d ranks: %s",
                     ranks, kolo_error_detail());
}

/* After the compute, the program's own collectives are still refused if they have different
 * counts, by at least one of these plans each. */
static kolo_status by_forced_plan(struct kolo_comm *comm, void *arg)
{
    int32_t word[FORCED_RANKS] = {0}, got[FORCED_RANKS];
    const size_t ones[FORCED_RANKS] = {1, 1, 1}, uneven[FORCED_RANKS] = {1, 0, 1};
    kolo_status status = rank_main(comm, arg);
    if (status != KOLO_OK)
        return status;
    status = kolo_alltoallv(comm, word, ones, NULL, got, ones, NULL, KOLO_INT32, NULL, NULL);
    kolo_status other = kolo_allgatherv(comm, word, got, uneven, NULL, KOLO_INT32, NULL, NULL);
    return status == KOLO_ERR_UNSUPPORTED || other == KOLO_ERR_UNSUPPORTED ? KOLO_OK
                                                                           : KOLO_ERR_INTERNAL;
}

Test(coco_detection, a_forced_plan_bars_no_compute, .timeout = 60)
{
    static const char *const plans[] = {"KOLO_PLAN=doubling", "KOLO_PLAN=bruck",
                                        "KOLO_PLAN=twoshot", "KOLO_PLAN=oneshot"};
    static const char *const transports[] = {"KOLO_TRANSPORT=inproc", "KOLO_TRANSPORT=tcp"};
    static struct world world;
    cr_assert(kolo_run_threads(1, NULL, rank_main, &world) == KOLO_OK);
    for (int i = 0; i < 8; i++) {
        const char *const settings[] = {plans[i / 2], transports[i % 2], NULL};
        const struct kolo_config config = {.size = sizeof config, .settings = settings};
        cr_assert_eq(kolo_run_threads(FORCED_RANKS, &config, by_forced_plan, &world), KOLO_OK,
                     "%s, %s: %s", settings[0], settings[1], kolo_error_detail());
    }
}

/* ---- the number of collectives ---- */

/* As metrics.h documents: those of detection.h, and the two of every compute. */
enum { LOADS = 5, CALLS_MANY = 55 + 2, CALLS_ONE = 19 + 2 };

/* What ranks have: nothing; one image; all images on one rank; each rank some, with two classes or
 * with one (whose curve is then divided). */
static bool is_held(int load, int i, int rank, int ranks)
{
    switch (load) {
    case 0:
        return false;
    case 1:
        return i == 0 && rank == ranks - 1;
    case 2:
        return rank == 0;
    default:
        return i % ranks == rank;
    }
}

static kolo_status count_calls(struct kolo_comm *comm, void *arg)
{
    int rank = kolo_rank(comm), ranks = kolo_size(comm);
    kolo_status status = KOLO_OK;
    (void)arg;
    for (int load = 0; status == KOLO_OK && load < LOADS; load++) {
        struct kolo_detection *detection =
            make(&(struct kolo_detection_config){.any_category = load == LOADS - 1});
        for (int i = 0; status == KOLO_OK && i < IMAGES; i++)
            if (is_held(load, i, rank, ranks))
                status = add_image(detection, i);
        struct kolo_metric *metric = kolo_detection_metric(detection);
        if (status == KOLO_OK)
            status = metric_compute_in(ranks == 1 ? CALLS_ONE : CALLS_MANY, comm, &metric, 1);
        kolo_detection_destroy(detection);
    }
    return status;
}

Test(coco_detection, takes_the_same_number_of_collectives_whatever_ranks_hold)
{
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_assert_eq(kolo_run_threads(sizes[i], NULL, count_calls, NULL), KOLO_OK, "%s",
                     kolo_error_detail());
}

/* ---- memory that runs out ---- */

enum { RANKS = 3 };
static kolo_status came_out[RANKS];

/* The nth allocation of a compute fails on rank 0. */
static kolo_status starved(struct kolo_comm *comm, void *arg)
{
    int rank = kolo_rank(comm);
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    kolo_status status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < IMAGES; i++)
        if (i % RANKS == rank)
            status = add_image(detection, i);
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && rank == 0)
        kolo_alloc_fail_nth(*(uint64_t *)arg);
    came_out[rank] = status == KOLO_OK ? kolo_detection_compute(comm, detection, NULL) : status;
    kolo_alloc_fail_nth(0);
    kolo_detection_destroy(detection);
    return KOLO_OK;
}

Test(coco_detection, all_ranks_hear_that_one_has_no_memory)
{
    size_t failed = 0;
    for (uint64_t nth = 1; nth < 100; nth += 3) {
        kolo_status status = kolo_run_threads(RANKS, NULL, starved, &nth);
        size_t fine = 0;
        for (int r = 0; r < RANKS; r++)
            fine += came_out[r] == KOLO_OK;
        failed += status != KOLO_OK || fine == 0;
        cr_assert(fine == 0 || fine == RANKS, "allocation %d: %zu ranks have a result", (int)nth,
                  fine);
    }
    cr_assert(failed > 5, "%zu", failed);
}

static kolo_status alone_starved(struct kolo_comm *comm, void *arg)
{
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    bool *is_said = arg;
    for (uint64_t nth = 1; !*is_said && nth < 100; nth++) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_detection_compute(comm, detection, NULL);
        kolo_alloc_fail_nth(0);
        *is_said = status == KOLO_ERR_NO_MEMORY &&
                   strstr(kolo_error_detail(), "MiB on each rank: precision and scores of");
    }
    kolo_detection_destroy(detection);
    return KOLO_OK;
}

Test(coco_detection, says_what_takes_so_much_memory)
{
    bool is_said = false;
    cr_assert_eq(kolo_run_threads(1, NULL, alone_starved, &is_said), KOLO_OK);
    cr_expect(is_said, "%s", kolo_error_detail());
}

static kolo_status different_configs(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    struct kolo_detection *detection =
        make(&(struct kolo_detection_config){.any_category = kolo_rank(comm) == 1});
    kolo_status status = kolo_detection_compute(comm, detection, NULL);
    kolo_detection_destroy(detection);
    return status == KOLO_ERR_MISMATCH ? KOLO_OK : KOLO_ERR_DATA;
}

Test(coco_detection, all_ranks_hear_of_different_configs)
{
    cr_assert_eq(kolo_run_threads(3, NULL, different_configs, NULL), KOLO_OK);
}

static kolo_status none_on_one(struct kolo_comm *comm, void *arg)
{
    struct kolo_detection *detection = make(&(struct kolo_detection_config){.size = 0});
    int rank = kolo_rank(comm);
    bool *has_heard = arg;
    kolo_status status = kolo_detection_compute(comm, rank == 1 ? NULL : detection, NULL);
    const char *words = rank == 1 ? "is NULL" : "rank 1 (";
    has_heard[rank] = status == KOLO_ERR_INVALID && strstr(kolo_error_detail(), words);
    status = kolo_detection_compute(comm, detection, NULL);
    kolo_detection_destroy(detection);
    return status;
}

Test(coco_detection, all_ranks_hear_that_one_has_none)
{
    bool has_heard[RANKS] = {false};
    cr_assert_eq(kolo_run_threads(RANKS, NULL, none_on_one, has_heard), KOLO_OK, "%s",
                 kolo_error_detail());
    for (int r = 0; r < RANKS; r++)
        cr_expect(has_heard[r], "rank %d", r);
}

/* ---- masks ---- */

static uint32_t first_half[] = {0, 8, 8}, most_of_it[] = {0, 7, 9}, elsewhere[] = {12, 4};

static struct kolo_boxes objects(const struct kolo_mask *masks)
{
    struct kolo_boxes objects = found();
    objects.boxes = NULL;
    objects.masks = masks;
    return objects;
}

Test(coco_detection, masks)
{
    struct kolo_mask there[] = {{.height = 4, .width = 4, .count = 3, .runs = first_half},
                                {.height = 4, .width = 4, .count = 2, .runs = elsewhere}};
    struct kolo_mask seen[] = {{.height = 4, .width = 4},
                               {.height = 4, .width = 4, .count = 3, .runs = most_of_it}};
    struct kolo_boxes truths = objects(there), detections = objects(seen);
    const struct kolo_detection_config masks = {.kind = KOLO_DETECTION_MASKS};
    struct kolo_detection *detection = make(&masks);
    struct kolo_detection_result result = {.size = sizeof result};
    cr_assert_eq(kolo_detection_update(detection, (int64_t[]){3}, 1, &truths, &detections), KOLO_OK,
                 "%s", kolo_error_detail());
    cr_assert_eq(kolo_run_threads(1, NULL, compute_alone, detection), KOLO_OK);
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK);
    /* one of two is found, with overlap 7/8: at the thresholds up to 0.85 */
    cr_assert_float_eq(result.stats[8], 0.5 * 8 / 10, 1e-12);
    kolo_detection_destroy(detection);
}

Test(coco_detection, refuses_masks_of_another_size)
{
    struct kolo_mask there[] = {{.height = 4, .width = 4, .count = 3, .runs = first_half},
                                {.height = 4, .width = 4, .count = 2, .runs = elsewhere}};
    struct kolo_mask seen[] = {{.height = 4, .width = 4},
                               {.height = 2, .width = 8, .count = 3, .runs = most_of_it}};
    struct kolo_boxes truths = objects(there), detections = objects(seen), none = objects(NULL);
    const struct kolo_detection_config masks = {.kind = KOLO_DETECTION_MASKS};
    struct kolo_detection *detection = make(&masks);
    const int64_t image[] = {3};
    cr_assert_eq(kolo_detection_update(detection, image, 1, &truths, &detections),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the mask of detection 1 is of 2 x 8 pixels; others of "
                                          "image 3 are of 4 x 4"),
              "%s", kolo_error_detail());
    seen[1].height = 4;
    cr_assert_eq(kolo_detection_update(detection, image, 1, &truths, &detections),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "the mask of detection 1 has runs of 16 pixels together; "
                                          "its image has 4 x 8"),
              "%s", kolo_error_detail());
    cr_assert_eq(kolo_detection_update(detection, image, 1, &truths, &none), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "detections.masks is NULL"), "%s", kolo_error_detail());
    kolo_detection_destroy(detection);
}
