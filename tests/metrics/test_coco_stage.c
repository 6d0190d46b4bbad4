// SPDX-License-Identifier: Apache-2.0
// metrics/coco_stage.c: the state of a detection has the same bytes whether its arrays are in host
// or in device memory, for each kind of object, set of rules and mode. Arrays that are not needed
// are not read.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

#include <kolo/detection.h>

#include "memory/cuda_driver.h"
#include "tests/support/metric_state.h"
#include "tests/support/mock_cuda.h"

enum { IMAGES = 5, PER_IMAGE = 6, OBJECTS = IMAGES * PER_IMAGE, POINTS = 2, SIDE = 40 };

static const int64_t categories[] = {3, 8};
static int64_t images[IMAGES], box_categories[OBJECTS], ids[OBJECTS], point_counts[OBJECTS];
static size_t image_counts[IMAGES], list_counts[IMAGES];
static int64_t lists[2 * IMAGES];
static double boxes[2][OBJECTS * 4], scores[OBJECTS], areas[OBJECTS], points[OBJECTS * POINTS * 3];
static float boxes32[2][OBJECTS * 4], scores32[OBJECTS];
static uint8_t flags[OBJECTS];
static struct kolo_mask masks[OBJECTS];
static uint32_t runs[OBJECTS][3];

static void make_box(int i, int found, double *box)
{
    box[0] = i * 7 % 13 + found;
    box[1] = i * 5 % 11;
    box[2] = 4 + i % 5;
    box[3] = 5 + i % 3;
}

static void make_data(void)
{
    for (int i = 0; i < IMAGES; i++) {
        images[i] = 100 - i;
        image_counts[i] = PER_IMAGE;
        list_counts[i] = (size_t)(i % 3);
    }
    for (int i = 0; i < 2 * IMAGES; i++)
        lists[i] = categories[i % 2];
    for (int i = 0; i < OBJECTS; i++) {
        box_categories[i] = categories[i % 2];
        ids[i] = i;
        point_counts[i] = i % 3;
        scores[i] = (double)(scores32[i] = (float)(i * 17 % 32) / 32);
        areas[i] = 1000 + i * 37 % 99;
        flags[i] = i % 7 == 0;
        for (int found = 0; found < 2; found++) {
            make_box(i, found, boxes[found] + (size_t)i * 4);
            for (int n = 0; n < 4; n++)
                boxes32[found][i * 4 + n] = (float)boxes[found][i * 4 + n];
        }
        for (int n = 0; n < POINTS * 3; n++)
            points[i * POINTS * 3 + n] = (i + n) * 3 % 17;
        runs[i][0] = (uint32_t)(i * 3);
        runs[i][1] = (uint32_t)(10 + i);
        runs[i][2] = SIDE * SIDE - runs[i][0] - runs[i][1];
        masks[i] = (struct kolo_mask){.height = SIDE, .width = SIDE, .count = 3, .runs = runs[i]};
    }
}

struct scene {
    kolo_detection_kind kind;
    kolo_detection_rules rules;
    kolo_detection_mode mode;
    kolo_dtype dtype;
};

static struct kolo_detection *create(const struct scene *scene)
{
    static const double sigmas[POINTS] = {0.1, 0.2};
    const struct kolo_detection_config config = {
        .size = sizeof config,
        .kind = scene->kind,
        .rules = scene->rules,
        .mode = scene->mode,
        .categories = categories,
        .category_count = 2,
        .sigmas = scene->kind == KOLO_DETECTION_KEYPOINTS ? sigmas : NULL,
        .sigma_count = scene->kind == KOLO_DETECTION_KEYPOINTS ? POINTS : 0};
    struct kolo_detection *detection = NULL;
    cr_assert_eq(kolo_detection_create(&config, &detection), KOLO_OK, "%s", kolo_error_detail());
    return detection;
}

/* An update that contains only the arrays that the scene reads. */
static void make_update(const struct scene *scene, struct kolo_boxes *truths,
                        struct kolo_boxes *found)
{
    const bool is_masks = scene->kind == KOLO_DETECTION_MASKS;
    const bool is_points = scene->kind == KOLO_DETECTION_KEYPOINTS;
    const bool is_coco = scene->rules == KOLO_DETECTION_COCO;
    const bool is_compatible = scene->mode == KOLO_DETECTION_COMPAT;
    const bool is_lvis = scene->rules == KOLO_DETECTION_LVIS;
    const struct kolo_boxes both = {.count = OBJECTS,
                                    .image_counts = image_counts,
                                    .dtype = scene->dtype,
                                    .format = KOLO_BOX_XYWH,
                                    .categories = box_categories,
                                    .areas = areas,
                                    .masks = is_masks ? masks : NULL,
                                    .keypoints = is_points ? points : NULL};
    const bool is32 = scene->dtype == KOLO_FLOAT32;
    const void *given[2];
    for (int i = 0; i < 2; i++)
        given[i] = is32 ? (const void *)boxes32[i] : boxes[i];
    *truths = *found = both;
    truths->boxes = is_masks ? NULL : given[0];
    truths->crowds = is_coco ? flags : NULL;
    truths->ignored = !is_coco || !is_compatible ? flags : NULL;
    truths->ids = is_compatible ? ids : NULL;
    truths->point_counts = is_points ? point_counts : NULL;
    if (is_lvis) {
        truths->absent_counts = truths->partial_counts = list_counts;
        truths->absent = truths->partial = lists;
    }
    found->boxes = is_masks || is_points ? NULL : given[1];
    found->scores = is32 ? (const void *)scores32 : scores;
}

static size_t lists_bytes(void)
{
    size_t sum = 0;
    for (int i = 0; i < IMAGES; i++)
        sum += list_counts[i];
    return sum * sizeof *lists;
}

/* The same update with every array on a device. */
static void send(const struct mock_cuda *mock, enum mock_kind where, const struct scene *scene,
                 struct kolo_boxes *of)
{
    const size_t number = scene->dtype == KOLO_FLOAT32 ? sizeof(float) : sizeof(double);
#define SEND(member, bytes)                                                                        \
    if (of->member)                                                                                \
    of->member = mock_cuda_copy(mock, where, 1, of->member, bytes)
    SEND(image_counts, sizeof image_counts);
    SEND(boxes, OBJECTS * 4 * number);
    SEND(categories, sizeof box_categories);
    SEND(scores, OBJECTS * number);
    SEND(areas, sizeof areas);
    SEND(crowds, sizeof flags);
    SEND(ignored, sizeof flags);
    SEND(ids, sizeof ids);
    SEND(keypoints, sizeof points);
    SEND(point_counts, sizeof point_counts);
    SEND(absent_counts, sizeof list_counts);
    SEND(absent, lists_bytes());
    SEND(partial_counts, sizeof list_counts);
    SEND(partial, lists_bytes());
#undef SEND
}

static size_t saved(struct kolo_detection *detection, uint8_t bytes[ROOM])
{
    return state_saved(kolo_detection_metric(detection), bytes);
}

static struct scene scenes[32];

ParameterizedTestParameters(coco_stage, states_are_those_of_the_hosts_arrays)
{
    size_t count = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int rules = 0; rules < 3; rules++)
            for (int mode = 0; mode < 2; mode++) {
                if (kind == KOLO_DETECTION_KEYPOINTS && rules != KOLO_DETECTION_COCO)
                    continue;
                if (kind == KOLO_DETECTION_MASKS && rules == KOLO_DETECTION_VOC)
                    continue;
                scenes[count] = (struct scene){
                    (kolo_detection_kind)kind, (kolo_detection_rules)rules,
                    (kolo_detection_mode)mode, count % 2 ? KOLO_FLOAT32 : KOLO_FLOAT64};
                count++;
            }
    return cr_make_param_array(struct scene, scenes, count);
}

ParameterizedTest(struct scene *scene, coco_stage, states_are_those_of_the_hosts_arrays)
{
    uint8_t expected[ROOM], bytes[ROOM];
    struct kolo_boxes truths, found;
    make_data();
    make_update(scene, &truths, &found);
    struct kolo_detection *detection = create(scene);
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, &truths, &found), KOLO_OK, "%s",
                 kolo_error_detail());
    const size_t size = saved(detection, expected);
    kolo_detection_destroy(detection);
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    for (int where = 0; where < MOCK_PINNED; where++) {
        struct kolo_boxes there = truths, ours = found;
        const int64_t *which =
            mock_cuda_copy(mock, (enum mock_kind)where, 1, images, sizeof images);
        send(mock, (enum mock_kind)where, scene, &there);
        send(mock, (enum mock_kind)where, scene, &ours);
        detection = create(scene);
        cr_assert_eq(kolo_detection_update(detection, which, IMAGES, &there, &ours), KOLO_OK, "%s",
                     kolo_error_detail());
        cr_assert_eq(saved(detection, bytes), size);
        cr_assert_arr_eq(bytes, expected, size);
        kolo_detection_destroy(detection);
    }
}

Test(coco_stage, what_is_not_read_is_not_looked_at)
{
    const struct scene plain = {KOLO_DETECTION_BOXES, KOLO_DETECTION_COCO, KOLO_DETECTION_COMPAT,
                                KOLO_FLOAT64};
    struct kolo_boxes truths, found;
    make_data();
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    make_update(&plain, &truths, &found);
    /* device memory that is much too short */
    const void *stale = mock->alloc(MOCK_DEVICE, 0, 1);
    truths.scores = truths.ignored = stale;
    truths.point_counts = truths.absent = truths.partial = found.ids = found.point_counts = stale;
    truths.keypoints = found.keypoints = stale;
    truths.absent_counts = truths.partial_counts = stale;
    found.crowds = found.ignored = stale;
    struct kolo_detection *detection = create(&plain);
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, &truths, &found), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(mock->calls("cuMemcpyDtoH_v2"), 0);
    kolo_detection_destroy(detection);
}

Test(coco_stage, a_failure_names_the_array_and_adds_nothing)
{
    const struct scene scene = {KOLO_DETECTION_BOXES, KOLO_DETECTION_LVIS, KOLO_DETECTION_FIXED,
                                KOLO_FLOAT32};
    /* and how often it is called per array */
    static const struct {
        const char *name;
        int times;
    } functions[] = {{"cuPointerGetAttributes", 1},
                     {"cuCtxPushCurrent_v2", 2},
                     {"cuCtxRecordEvent", 1},
                     {"cuMemcpyDtoH_v2", 1}};
    uint8_t empty[ROOM], bytes[ROOM];
    struct kolo_boxes truths, found;
    make_data();
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    make_update(&scene, &truths, &found);
    send(mock, MOCK_DEVICE, &scene, &truths);
    send(mock, MOCK_DEVICE, &scene, &found);
    struct kolo_detection *detection = create(&scene);
    const size_t size = saved(detection, empty);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        int nth = 1, in_truths = 0, in_detections = 0;
        for (;; nth++) {
            mock->fail(functions[f].name, nth, KOLO_CUDA_LAUNCH_FAILED);
            const kolo_status status =
                kolo_detection_update(detection, images, IMAGES, &truths, &found);
            mock->fail("", 0, 0);
            if (status == KOLO_OK)
                break;
            cr_assert_eq(status, KOLO_ERR_SYSTEM);
            cr_assert_not_null(strstr(kolo_error_detail(), "kolo_detection_update: "), "%s",
                               kolo_error_detail());
            in_truths += strstr(kolo_error_detail(), ": truths.") != NULL;
            in_detections += strstr(kolo_error_detail(), ": detections.") != NULL;
            cr_assert_eq(saved(detection, bytes), size);
            cr_assert_arr_eq(bytes, empty, size);
        }
        cr_assert_geq(in_truths, 9);
        cr_assert_eq(in_detections,
                     5 * functions[f].times); /* image_counts, boxes, categories, areas, scores */
        kolo_detection_reset(detection);
    }
    kolo_detection_destroy(detection);
}

Test(coco_stage, what_is_refused_of_the_host_is_refused_of_a_device)
{
    const struct scene scene = {KOLO_DETECTION_BOXES, KOLO_DETECTION_COCO, KOLO_DETECTION_COMPAT,
                                KOLO_FLOAT64};
    struct kolo_boxes truths, found;
    make_data();
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    make_update(&scene, &truths, &found);
    send(mock, MOCK_DEVICE, &scene, &found);
    struct kolo_detection *detection = create(&scene);
    const struct kolo_boxes right = found;
    found.dtype = KOLO_INT32;
    found.boxes = found.scores =
        mock->alloc(MOCK_DEVICE, 0, 1); /* not read, so its length does not matter */
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, NULL, &found), KOLO_ERR_INVALID);
    cr_assert_not_null(strstr(kolo_error_detail(), "detections.dtype"), "%s", kolo_error_detail());
    found = right;
    found.count--;
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, NULL, &found), KOLO_ERR_INVALID);
    cr_assert_not_null(strstr(kolo_error_detail(), "add up to more than count"), "%s",
                       kolo_error_detail());
    found.count++;
    image_counts[0]--;
    found.image_counts = mock_cuda_copy(mock, MOCK_DEVICE, 1, image_counts, sizeof image_counts);
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, NULL, &found), KOLO_ERR_INVALID);
    cr_assert_not_null(strstr(kolo_error_detail(), ", but count is "), "%s", kolo_error_detail());
    found = right;
    cr_assert_eq(kolo_detection_update(detection, images, 0, NULL, &found), KOLO_ERR_INVALID);
    boxes[1][5] = NAN;
    found.boxes = mock_cuda_copy(mock, MOCK_DEVICE, 0, boxes[1], sizeof boxes[1]);
    cr_assert_eq(kolo_detection_update(detection, images, IMAGES, NULL, &found), KOLO_ERR_INVALID);
    cr_assert_not_null(strstr(kolo_error_detail(), "box 1 of detections is not finite"), "%s",
                       kolo_error_detail());
    kolo_detection_destroy(detection);
}
