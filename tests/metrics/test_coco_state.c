// SPDX-License-Identifier: Apache-2.0
// A detection is a metric like the others: merged, saved, restored or computed together with
// others, it has the results of a single set of updates. Bytes from outside are accepted or
// refused, and do nothing else.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>
#include <kolo/metrics.h>

#include "metrics/metric.h"
#include "tests/support/metric_state.h"

enum { PER_IMAGE = 6, CATEGORIES = 3, IMAGES = 12 };
enum { POINTS = 10 * 101 * CATEGORIES * 4 * 3 };

static struct kolo_detection *make_by(kolo_detection_rules rules, int64_t images)
{
    static const int64_t categories[CATEGORIES] = {9, 7, 8};
    const struct kolo_detection_config config = {.size = sizeof config,
                                                 .categories = categories,
                                                 .category_count = CATEGORIES,
                                                 .rules = rules,
                                                 .images = images};
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    return detection;
}

static struct kolo_detection *make(int64_t images)
{
    return make_by(KOLO_DETECTION_COCO, images);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void add_image(struct kolo_detection *detection, int64_t image)
{
    float boxes[PER_IMAGE * 4], scores[PER_IMAGE];
    int64_t categories[PER_IMAGE];
    uint64_t state = (uint64_t)image;
    for (int i = 0; i < PER_IMAGE; i++) {
        for (int j = 0; j < 4; j++)
            boxes[4 * i + j] = (float)(next_random(&state) % 8 * 8 + (j > 1 ? 30 : 0));
        scores[i] = (float)(next_random(&state) % 10) / 10;
        categories[i] = 7 + (int64_t)(next_random(&state) % CATEGORIES);
    }
    struct kolo_boxes found = {.count = PER_IMAGE,
                               .image_counts = (size_t[]){PER_IMAGE},
                               .boxes = boxes,
                               .dtype = KOLO_FLOAT32,
                               .categories = categories,
                               .scores = scores};
    struct kolo_boxes truths = found;
    truths.count = *(truths.image_counts = (size_t[]){PER_IMAGE / 2});
    cr_assert_eq(kolo_detection_update(detection, &image, 1, &truths, &found), KOLO_OK, "%s",
                 kolo_error_detail());
}

static void feed(struct kolo_detection *detection, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        add_image(detection, i);
}

static kolo_status compute(struct kolo_comm *comm, void *arg)
{
    return kolo_detection_compute(comm, arg, NULL);
}

/* Computed in a world of one. */
static struct kolo_detection_result result_of(struct kolo_detection *detection)
{
    struct kolo_detection_result result = {.size = sizeof result};
    cr_assert_eq(kolo_run_threads(1, NULL, compute, detection), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_detection_result(detection, &result), KOLO_OK, "%s", kolo_error_detail());
    return result;
}

static void expect_equal(struct kolo_detection *a, struct kolo_detection *b)
{
    struct kolo_detection_result x = result_of(a), y = result_of(b);
    cr_assert_arr_eq(x.precision, y.precision, POINTS * sizeof *x.precision);
    cr_assert_arr_eq(x.scores, y.scores, POINTS * sizeof *x.scores);
    cr_assert_arr_eq(x.recall, y.recall, POINTS / 101 * sizeof *x.recall);
    cr_assert_arr_eq(x.stats, y.stats, sizeof x.stats);
    cr_assert(x.stats[0] > 0 && x.stats[0] < 1);
    cr_assert_eq(x.images, y.images);
    cr_assert_eq(x.duplicate_images, y.duplicate_images);
    cr_assert_eq(x.detections, y.detections);
    cr_assert_eq(x.truths, y.truths);
}

static size_t saved(struct kolo_detection *detection, uint8_t bytes[ROOM])
{
    return state_saved(kolo_detection_metric(detection), bytes);
}

static kolo_status restored(struct kolo_detection *detection, const uint8_t *bytes, size_t size)
{
    return kolo_metric_restore(kolo_detection_metric(detection), bytes, size);
}

Test(coco_state, merges_into_what_one_would_have_counted)
{
    struct kolo_detection *one = make(0), *a = make(0), *b = make(0), *other = make(IMAGES);
    feed(one, 0, 8);
    feed(one, 5, IMAGES);
    feed(a, 0, 8);
    feed(b, 5, IMAGES); /* three images that both have */
    cr_assert_eq(kolo_metric_merge(kolo_detection_metric(a), kolo_detection_metric(other)),
                 KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metric_merge(kolo_detection_metric(a), kolo_detection_metric(b)), KOLO_OK,
                 "%s", kolo_error_detail());
    expect_equal(a, one);
    cr_assert_eq(result_of(a).duplicate_images, 3);
    cr_assert_eq(result_of(b).images, IMAGES - 5, "what it counts stays");
    kolo_detection_destroy(one);
    kolo_detection_destroy(a);
    kolo_detection_destroy(b);
    kolo_detection_destroy(other);
}

Test(coco_state, goes_on_after_restoring_as_if_nothing_had_been)
{
    uint8_t bytes[ROOM];
    struct kolo_detection *one = make(0), *two = make(0), *other = make(IMAGES);
    struct kolo_metric *mean = NULL;
    const struct kolo_mean_config config = {.size = sizeof config};
    size_t empty = saved(one, bytes);
    cr_assert_eq(restored(two, bytes, empty), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_mean_create(&config, &mean), KOLO_OK);
    feed(one, 0, 6);
    size_t size = saved(one, bytes);
    feed(two, 4, 9); /* which restoring discards */
    cr_assert_eq(restored(two, bytes, size), KOLO_OK, "%s", kolo_error_detail());
    expect_equal(two, one);
    feed(one, 5, 9);
    feed(two, 5, 9);
    expect_equal(two, one);
    cr_assert_eq(restored(other, bytes, size), KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "another configuration"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_metric_restore(mean, bytes, size), KOLO_ERR_DATA);
    kolo_metric_destroy(mean);
    kolo_detection_destroy(one);
    kolo_detection_destroy(two);
    kolo_detection_destroy(other);
}

Test(coco_state, is_restored_under_all_rules)
{
    uint8_t bytes[ROOM];
    for (int rules = KOLO_DETECTION_COCO; rules <= KOLO_DETECTION_VOC; rules++) {
        struct kolo_detection *one = make_by((kolo_detection_rules)rules, 0);
        struct kolo_detection *two = make_by((kolo_detection_rules)rules, 0);
        feed(one, 0, IMAGES);
        size_t size = saved(one, bytes);
        cr_assert_eq(restored(two, bytes, size), KOLO_OK, "rules %d: %s", rules,
                     kolo_error_detail());
        struct kolo_detection_result x = result_of(one), y = result_of(two);
        cr_assert_arr_eq(x.stats, y.stats, sizeof x.stats);
        cr_assert(x.stats[0] > 0 && x.stats[0] < 1, "rules %d: %g", rules, x.stats[0]);
        cr_assert_eq(x.truths, y.truths);
        kolo_detection_destroy(one);
        kolo_detection_destroy(two);
    }
}

Test(coco_state, forgets_all_when_reset)
{
    struct kolo_detection *one = make(0), *two = make(0);
    struct kolo_detection_result result = {.size = sizeof result};
    feed(one, 0, 4);
    feed(two, 6, 9);
    result_of(two);
    kolo_metric_reset(kolo_detection_metric(two));
    cr_assert_eq(kolo_detection_result(two, &result), KOLO_ERR_INVALID);
    feed(two, 0, 4);
    expect_equal(two, one);
    kolo_detection_destroy(one);
    kolo_detection_destroy(two);
}

Test(coco_state, reports_images_that_nobody_had)
{
    struct kolo_detection *detection = make(IMAGES);
    feed(detection, 0, 9);
    feed(detection, 3, 5);
    struct kolo_detection_result result = result_of(detection);
    cr_assert_eq(result.images, 9);
    cr_assert_eq(result.duplicate_images, 2);
    cr_assert_eq(result.missing_images, IMAGES - 9);
    feed(detection, 9, IMAGES);
    cr_assert_eq(result_of(detection).missing_images, 0);
    feed(detection, IMAGES, IMAGES + 1);
    cr_assert_eq(kolo_run_threads(1, NULL, compute, detection), KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(),
                     "detection: 13 different images were given, but images is 12 in the config"),
              "%s", kolo_error_detail());
    kolo_detection_destroy(detection);
    cr_assert_eq(kolo_detection_create(
                     &(struct kolo_detection_config){.size = sizeof(struct kolo_detection_config),
                                                     .categories = (int64_t[]){1},
                                                     .category_count = 1,
                                                     .images = -1},
                     &detection),
                 KOLO_ERR_INVALID);
}

/* ---- together with others, on several ranks ---- */

struct fused {
    double precision[POINTS], mean;
};

static kolo_status fused_main(struct kolo_comm *comm, void *arg)
{
    struct fused *fused = arg;
    const struct kolo_mean_config config = {.size = sizeof config, .samples = IMAGES};
    struct kolo_detection *detection = make(IMAGES);
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_mean_result mean = {.size = sizeof mean};
    struct kolo_metric *list[] = {NULL, kolo_detection_metric(detection)};
    kolo_status status;
    KOLO_TRY(kolo_mean_create(&config, &list[0]));
    for (int64_t i = kolo_rank(comm); i < IMAGES; i += kolo_size(comm)) {
        double loss = 0.1 * (double)i;
        KOLO_TRY(kolo_mean_update_float64(list[0], &loss, 1, &i));
        add_image(detection, i);
    }
    KOLO_TRY(kolo_metrics_compute(comm, list, 2, NULL));
    KOLO_TRY(kolo_detection_result(detection, &result));
    KOLO_TRY(kolo_mean_result(list[0], &mean));
    int64_t before = list[1]->computed_by;
    KOLO_TRY(kolo_metrics_compute(comm, list, 2, NULL));
    bool is_right = list[1]->computed_by == before && mean.mean == fused->mean &&
                    mean.samples.counted == IMAGES && result.images == IMAGES &&
                    result.missing_images == 0 &&
                    !memcmp(result.precision, fused->precision, sizeof fused->precision);
    if (kolo_rank(comm) == 0)
        add_image(detection, 1); /* only a duplicate, but all results are computed again */
    KOLO_TRY(kolo_metrics_compute(comm, list, 2, NULL));
    KOLO_TRY(kolo_detection_result(detection, &result));
    is_right = is_right && list[1]->computed_by != before && result.duplicate_images == 1 &&
               !memcmp(result.precision, fused->precision, sizeof fused->precision);
    status = is_right ? KOLO_OK : kolo_fail(KOLO_ERR_DATA, "other results than alone");
out:
    kolo_metric_destroy(list[0]);
    kolo_detection_destroy(detection);
    return status;
}

Test(coco_state, is_computed_together_with_others)
{
    static struct fused fused;
    static const int sizes[] = {1, 2, 3, 5};
    struct kolo_detection *alone = make(IMAGES);
    struct kolo_exact_sum sum;
    feed(alone, 0, IMAGES);
    memcpy(fused.precision, result_of(alone).precision, sizeof fused.precision);
    kolo_exact_sum_init(&sum);
    for (int i = 0; i < IMAGES; i++)
        kolo_exact_sum_add(&sum, 0.1 * i);
    fused.mean = kolo_exact_sum_value(&sum) / IMAGES;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_assert_eq(kolo_run_threads(sizes[i], NULL, fused_main, &fused), KOLO_OK, "%d ranks: %s",
                     sizes[i], kolo_error_detail());
    kolo_detection_destroy(alone);
}

/* ---- hostile states ---- */

Test(coco_state, refuses_every_changed_byte_and_every_length)
{
    uint8_t bytes[ROOM];
    struct kolo_detection *detection = make(0);
    feed(detection, 0, 4);
    size_t size = saved(detection, bytes);
    for (size_t i = 0; i < size; i++) {
        cr_assert_eq(restored(detection, bytes, i), KOLO_ERR_DATA, "%zu bytes", i);
        bytes[i] ^= 0x10;
        cr_assert_eq(restored(detection, bytes, size), KOLO_ERR_DATA, "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    cr_assert_eq(result_of(detection).images, 4, "the state is as before");
    kolo_detection_destroy(detection);
}

static void compute_alone(void *detection)
{
    result_of(detection);
}

Test(coco_state, survives_contents_under_a_right_checksum, .timeout = 120)
{
    struct state_verdicts verdicts = {0};
    struct kolo_detection *detection = make(0);
    feed(detection, 0, 4);
    state_survives(kolo_detection_metric(detection), compute_alone, detection, &verdicts);
    cr_assert(verdicts.accepted > 0 && verdicts.refused > verdicts.accepted,
              "%d accepted, %d refused", verdicts.accepted, verdicts.refused);
    kolo_detection_destroy(detection);
}

/* A state of one image with two detections and one ground truth, of one class; then the positions
 * of its parts. */
static size_t small_state(uint8_t bytes[ROOM])
{
    static const double boxes[] = {0, 0, 10, 10, 20, 20, 10, 10}, scores[] = {0.75, 0.5};
    static const int64_t categories[] = {8, 8}, image[] = {5};
    struct kolo_detection *detection = make(0);
    struct kolo_boxes found = {.count = 2,
                               .image_counts = (size_t[]){2},
                               .boxes = boxes,
                               .dtype = KOLO_FLOAT64,
                               .categories = categories,
                               .scores = scores};
    struct kolo_boxes truths = found;
    truths.count = *(truths.image_counts = (size_t[]){1});
    cr_assert_eq(kolo_detection_update(detection, image, 1, &truths, &found), KOLO_OK);
    size_t size = saved(detection, bytes);
    kolo_detection_destroy(detection);
    return size;
}

Test(coco_state, refuses_what_matching_does_not_make)
{
    enum { RECORD = 4 + 8 + 5 + 5, TALLY = 4 * (2 + 4), IMAGE = 8 + 8 + 8 };
    static const struct {
        size_t from_end; /* within the body, counted from its end */
        uint8_t value;
        const char *text;
    } bad[] = {
        {TALLY, 3, "tally 0 of the ground truth of image 5"}, /* the classes are 0 to 2 */
        {TALLY - 4, 0, "tally 0"},                            /* no ground truth */
        {TALLY - 8, 2, "tally 0"},                            /* more counted than there are */
        {TALLY + RECORD, 0, "detection 1 of image 5"},        /* classes must ascend */
        {TALLY + RECORD, 3, "detection 1 of image 5"},        /* no such class */
        /* a score greater than the one before it */
        {TALLY + RECORD - 4 - 6, 0xf0, "detection 1 of image 5"},
        {TALLY + RECORD - 4 - 7, 0x7f, "detection 1 of image 5"},   /* NaN or similar */
        {TALLY + 2 * RECORD - 12 - 5, 1, "detection 0 of image 5"}, /* true and ignored */
        /* both detections */
        {TALLY + RECORD - 12, 1, "image 5 has more true detections than ground truths"},
        /* the only ground truth is not counted */
        {TALLY - 8, 0, "image 5 has more true detections"},
        {TALLY + 2 * RECORD + 8, 9, "9 tallies of image number 0"},
        {TALLY + 2 * RECORD + 16, 9, "9 detections and 1 tallies of image number 0"},
        {TALLY + 2 * RECORD + IMAGE + 8, 9, "9 images cannot be"},
    };
    uint8_t bytes[ROOM], changed[ROOM];
    size_t size = small_state(bytes), body = size - HASH_BYTES;
    struct kolo_detection *detection = make(0);
    cr_assert_eq(restored(detection, bytes, size), KOLO_OK, "%s", kolo_error_detail());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(changed, bytes, size);
        changed[body - bad[i].from_end] = bad[i].value;
        if (bad[i].value == 0x7f)
            changed[body - bad[i].from_end - 1] = 0xf0;
        state_sign(changed, body);
        cr_assert_eq(restored(detection, changed, size), KOLO_ERR_DATA, "case %zu", i);
        cr_assert(strstr(kolo_error_detail(), bad[i].text), "case %zu: %s", i, kolo_error_detail());
    }
    kolo_detection_destroy(detection);
}

/* 2^40, which sums over ranks do not overflow. */
Test(coco_state, refuses_more_ground_truths_than_a_metric_counts)
{
    enum { COUNT = 257, TALLY = 4 * (2 + 4), IMAGE = 8 + 8 + 8, TEXT = 512 };
    static uint8_t bytes[COUNT * (TALLY + IMAGE) + TEXT];
    static const double box[] = {0, 0, 10, 10}, score[] = {1};
    static const int64_t category[] = {8};
    struct kolo_detection *detection = make(0);
    const struct kolo_boxes found = {.image_counts = (size_t[]){0}, .dtype = KOLO_FLOAT64};
    const struct kolo_boxes truths = {.count = 1,
                                      .image_counts = (size_t[]){1},
                                      .boxes = box,
                                      .dtype = KOLO_FLOAT64,
                                      .categories = category,
                                      .scores = score};
    for (int64_t image = 0; image < COUNT; image++)
        cr_assert_eq(kolo_detection_update(detection, &image, 1, &truths, &found), KOLO_OK, "%s",
                     kolo_error_detail());
    size_t size;
    cr_assert_eq(kolo_metric_save(kolo_detection_metric(detection), bytes, sizeof bytes, &size),
                 KOLO_OK);
    const size_t body = size - HASH_BYTES;
    for (size_t i = 0; i < COUNT; i++) { /* 2^32 - 1 of each image */
        memset(bytes + body - i * (TALLY + IMAGE) - TALLY + 4, 0xff, 4);
        if (i < COUNT - 2)
            continue;
        state_sign(bytes, body);
        cr_expect_eq(restored(detection, bytes, size), i < COUNT - 1 ? KOLO_OK : KOLO_ERR_DATA,
                     "%zu images: %s", i + 1, kolo_error_detail());
    }
    cr_expect(strstr(kolo_error_detail(), "1103806594815 ground truths are more than"), "%s",
              kolo_error_detail());
    kolo_detection_destroy(detection);
}
