// SPDX-License-Identifier: Apache-2.0
// What masks cost: `mask_rate [IMAGES [PER_IMAGE [SET]]]` makes a set like COCO's
// (bench/coco_data.h) whose objects are polygons of 24 corners within the boxes, in images of 480 x
// 640. It prints, for one thread and as medians of rounds, the time in which polygons become masks,
// strings become masks, masks of an image and category are compared, and a detection of masks is
// updated and computed. With SET, all of it is also written there, in the form of
// tests/metrics/oracle/segm.py, for pycocotools.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/detection.h>

#include "bench/coco_data.h"
#include "bench/micro/check.h"

enum {
    ROUNDS = 7,
    CORNERS = COCO_DATA_CORNERS,
    HEIGHT = COCO_DATA_HEIGHT,
    WIDTH = COCO_DATA_WIDTH
};

struct objects { /* image after image, then category after category */
    size_t count;
    size_t *image_counts;
    int64_t *image, *category, *id;
    double *area, *score, *corner;
    uint8_t *crowd;
    struct kolo_mask *mask;
    char **text;
    size_t *length;
};

struct set {
    size_t images;
    int64_t *id;
    struct objects truths, found;
};

static int64_t categories[COCO_DATA_CATEGORIES];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (!memory)
        exit(1);
    return memory;
}

static struct objects make_objects(size_t images, size_t most)
{
    return (struct objects){.image_counts = room(images, sizeof(size_t)),
                            .image = room(most, 8),
                            .category = room(most, 8),
                            .id = room(most, 8),
                            .area = room(most, 8),
                            .score = room(most, 8),
                            .corner = room(most * CORNERS * 2, 8),
                            .crowd = room(most, 1),
                            .mask = room(most, sizeof(struct kolo_mask)),
                            .text = room(most, sizeof(char *)),
                            .length = room(most, sizeof(size_t))};
}

static void add(struct objects *to, size_t image, int64_t category, const double *box)
{
    size_t at = to->count++;
    to->image[at] = (int64_t)image;
    to->category[at] = category;
    to->id[at] = (int64_t)at + 1;
    to->image_counts[image]++;
    coco_data_draw(box, at * 7919 + image, to->corner + at * CORNERS * 2);
}

static void make(struct set *set, size_t images, int per_image)
{
    struct coco_data data = {.seed = 1, .found = per_image};
    size_t most = (size_t)per_image;
    struct coco_image image = {
        .box = room(4 * most, 8), .score = room(most, 8), .category = room(most, 8)};
    *set = (struct set){.images = images,
                        .id = room(images, 8),
                        .truths = make_objects(images, images * COCO_DATA_TRUTHS_MAX),
                        .found = make_objects(images, images * most)};
    for (size_t i = 0; i < images; i++) {
        set->id[i] = (int64_t)i;
        coco_data_make(&data, i, &image);
        for (size_t k = 1; k <= COCO_DATA_CATEGORIES; k++) {
            for (size_t g = 0; g < (size_t)image.truths; g++)
                if (image.truth_category[g] == (int64_t)k) {
                    set->truths.area[set->truths.count] = image.truth_area[g];
                    set->truths.crowd[set->truths.count] = image.truth_crowd[g] != 0;
                    add(&set->truths, i, (int64_t)k, image.truth_box + 4 * g);
                }
            for (size_t d = 0; d < (size_t)image.found; d++)
                if (image.category[d] == (int64_t)k) {
                    set->found.score[set->found.count] = image.score[d];
                    add(&set->found, i, (int64_t)k, image.box + 4 * d);
                }
        }
    }
    free(image.box), free(image.score), free(image.category);
}

static void draw_all(struct objects *objects)
{
    for (size_t i = 0; i < objects->count; i++)
        check(kolo_mask_from_polygon(objects->corner + i * CORNERS * 2, CORNERS, HEIGHT, WIDTH,
                                     &objects->mask[i]),
              NULL);
}

static size_t write_strings(struct objects *objects)
{
    size_t runs = 0;
    for (size_t i = 0; i < objects->count; i++) {
        check(kolo_mask_to_string(&objects->mask[i], NULL, 0, &objects->length[i]), NULL);
        objects->text[i] = room(objects->length[i], 1);
        check(
            kolo_mask_to_string(&objects->mask[i], objects->text[i], objects->length[i] + 1, NULL),
            NULL);
        runs += objects->mask[i].count;
    }
    return runs;
}

static void read_strings(struct objects *objects)
{
    for (size_t i = 0; i < objects->count; i++)
        check(kolo_mask_from_string(objects->text[i], objects->length[i], HEIGHT, WIDTH,
                                    &objects->mask[i]),
              NULL);
}

/* How many objects from `from` on belong to its image and category. */
static size_t group_at(const struct objects *objects, size_t from, int64_t image, int64_t category)
{
    size_t to = from;
    while (to < objects->count && objects->image[to] == image && objects->category[to] == category)
        to++;
    return to - from;
}

/* Compares within every image and category. @return the number of pairs */
static size_t compare(const struct set *set, double *overlaps)
{
    size_t d = 0, g = 0, pairs = 0;
    for (size_t i = 0; i < set->images; i++)
        for (int64_t k = 1; k <= COCO_DATA_CATEGORIES; k++) {
            size_t found = group_at(&set->found, d, (int64_t)i, k);
            size_t truths = group_at(&set->truths, g, (int64_t)i, k);
            if (found > 0 && truths > 0)
                check(kolo_mask_overlaps(set->found.mask + d, found, set->truths.mask + g, truths,
                                         set->truths.crowd + g, overlaps),
                      NULL);
            pairs += found * truths;
            d += found;
            g += truths;
        }
    return pairs;
}

static struct kolo_boxes boxes_of(const struct objects *objects, bool is_truth)
{
    return (struct kolo_boxes){.count = objects->count,
                               .image_counts = objects->image_counts,
                               .dtype = KOLO_FLOAT64,
                               .categories = objects->category,
                               .scores = objects->score,
                               .areas = is_truth ? objects->area : NULL,
                               .crowds = objects->crowd,
                               .ids = objects->id,
                               .masks = objects->mask};
}

static kolo_status evaluate(struct kolo_comm *comm, void *arg)
{
    const struct set *set = arg;
    struct kolo_detection *detection = NULL;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .categories = categories,
                                           .category_count = COCO_DATA_CATEGORIES,
                                           .kind = KOLO_DETECTION_MASKS};
    struct kolo_boxes truths = boxes_of(&set->truths, true), found = boxes_of(&set->found, false);
    struct kolo_detection_result result = {.size = sizeof result};
    double updates[ROUNDS], computes[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        check(kolo_detection_create(&config, &detection), NULL);
        double start = now();
        check(kolo_detection_update(detection, set->id, set->images, &truths, &found), NULL);
        updates[round] = now() - start;
        check(kolo_detection_compute(comm, detection, NULL), NULL);
        computes[round] = now() - start - updates[round];
        check(kolo_detection_result(detection, &result), NULL);
        kolo_detection_destroy(detection);
    }
    qsort(updates, ROUNDS, sizeof *updates, by_value);
    qsort(computes, ROUNDS, sizeof *computes, by_value);
    printf("a detection of %lld: update %.3f s, compute %.3f s, AP %.17g\n",
           (long long)result.detections, updates[ROUNDS / 2], computes[ROUNDS / 2],
           result.stats[0]);
    return KOLO_OK;
}

static void put(FILE *file, const void *values, size_t count)
{
    if (fwrite(values, 8, count, file) != count)
        exit(1);
}

static void put_objects(FILE *file, const struct objects *objects, bool is_truth)
{
    put(file, objects->image, objects->count);
    put(file, objects->category, objects->count);
    put(file, objects->area, objects->count);
    if (!is_truth)
        put(file, objects->score, objects->count);
    for (size_t i = 0; is_truth && i < objects->count; i++)
        put(file, &(int64_t){objects->crowd[i]}, 1);
    if (is_truth)
        put(file, objects->id, objects->count);
    for (size_t i = 0; is_truth && i < objects->count; i++)
        put(file, &(int64_t){0}, 1);
    put(file, objects->length, objects->count);
    for (size_t i = 0; i < objects->count; i++)
        if (fwrite(objects->text[i], 1, objects->length[i], file) != objects->length[i])
            exit(1);
}

/* In the order of segm.py's write_set(). */
static void write_set(const char *path, const struct set *set)
{
    FILE *file = fopen(path, "wb");
    const int64_t head[10] = {(int64_t)set->images,
                              (int64_t)set->truths.count,
                              (int64_t)set->found.count,
                              COCO_DATA_CATEGORIES,
                              0,
                              0,
                              0,
                              1,
                              0,
                              0};
    if (!file)
        exit(1);
    put(file, head, 10);
    put(file, set->id, set->images);
    for (size_t i = 0; i < 2 * set->images; i++)
        put(file, &(int64_t){i < set->images ? HEIGHT : WIDTH}, 1);
    put(file, categories, COCO_DATA_CATEGORIES);
    put_objects(file, &set->truths, true);
    put_objects(file, &set->found, false);
    if (fclose(file))
        exit(1);
}

int main(int argc, char **argv)
{
    size_t images = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 1000;
    int per_image = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 100;
    for (int k = 0; k < COCO_DATA_CATEGORIES; k++)
        categories[k] = k + 1;
    struct set set;
    make(&set, images, per_image);
    double drawn[ROUNDS], read[ROUNDS], compared[ROUNDS];
    double *overlaps = room((size_t)per_image * COCO_DATA_TRUTHS_MAX, 8);
    size_t runs = 0, pairs = 0, masks = set.truths.count + set.found.count;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        draw_all(&set.truths);
        draw_all(&set.found);
        drawn[round] = now() - start;
        if (round == 0)
            runs = write_strings(&set.truths) + write_strings(&set.found);
        start = now();
        read_strings(&set.truths);
        read_strings(&set.found);
        read[round] = now() - start;
        start = now();
        pairs = compare(&set, overlaps);
        compared[round] = now() - start;
    }
    qsort(drawn, ROUNDS, sizeof *drawn, by_value);
    qsort(read, ROUNDS, sizeof *read, by_value);
    qsort(compared, ROUNDS, sizeof *compared, by_value);
    printf(
        "%zu images, %zu masks of %.1f runs: from polygons %.3f s, from strings %.3f s; %zu pairs "
        "compared %.3f s\n",
        images, masks, (double)runs / (double)masks, drawn[ROUNDS / 2], read[ROUNDS / 2], pairs,
        compared[ROUNDS / 2]);
    if (argc > 3)
        write_set(argv[3], &set);
    check(kolo_run_threads(1, NULL, evaluate, &set), NULL);
    return 0;
}
