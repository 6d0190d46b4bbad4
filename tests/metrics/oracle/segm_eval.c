// SPDX-License-Identifier: Apache-2.0
// Evaluates the sets of masks that segm.py writes, for it to compare: segm_eval IN OUT [IN OUT]...
// Each set runs on one rank, then on as many as the set says, its images dealt out as the set says,
// some of them twice; all ranks must have the same bits as the one. Numbers are native int64 and
// float64, masks COCO's strings.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>

enum { IMAGES, TRUTHS, FOUND, CATEGORIES, MODE, RULE, ANY, RANKS, DEAL, FOUND_AREAS, HEADS };
enum { STRIDED, BLOCK, ONE_HAS_ALL };

struct objects { /* sorted by image */
    size_t count;
    int64_t *image, *category, *crowd, *id, *ignored, *length; /* image: its place */
    double *area, *score;
    uint8_t *crowd_flags, *ignored_flags;
    struct kolo_mask *mask;
};

struct set {
    int64_t head[HEADS];
    int64_t *images, *heights, *widths, *categories;
    struct objects truths, found;
};

struct job {
    const struct set *set;
    const char *out; /* on one rank: where results go */
    size_t points, ends;
    double *values; /* precision, recall, scores, stats */
};

static void die(const char *what)
{
    fprintf(stderr, "segm_eval: %s: %s\n", what, kolo_error_detail());
    exit(1);
}

static void *need(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        die("out of memory");
    return memory;
}

static void *read_array(FILE *file, size_t count, size_t bytes)
{
    void *array = need(count, bytes);
    if (fread(array, bytes, count, file) != count)
        die("the set is too short");
    return array;
}

static uint8_t *flags_of(const int64_t *values, size_t count)
{
    uint8_t *flags = need(count, 1);
    for (size_t i = 0; i < count; i++)
        flags[i] = values[i] != 0;
    return flags;
}

static void read_masks(FILE *file, const struct set *set, struct objects *objects)
{
    objects->mask = need(objects->count, sizeof *objects->mask);
    for (size_t i = 0; i < objects->count; i++) {
        size_t length = (size_t)objects->length[i], image = (size_t)objects->image[i];
        char *text = read_array(file, length, 1);
        if (kolo_mask_from_string(text, length, (uint32_t)set->heights[image],
                                  (uint32_t)set->widths[image], &objects->mask[i]) != KOLO_OK)
            die("a mask");
        free(text);
    }
}

static void read_objects(FILE *file, const struct set *set, struct objects *objects, int64_t count,
                         bool is_truth)
{
    size_t n = objects->count = (size_t)count;
    objects->image = read_array(file, n, 8);
    objects->category = read_array(file, n, 8);
    objects->area = read_array(file, n, 8);
    if (is_truth) {
        objects->crowd = read_array(file, n, 8);
        objects->id = read_array(file, n, 8);
        objects->ignored = read_array(file, n, 8);
        objects->crowd_flags = flags_of(objects->crowd, n);
        objects->ignored_flags = flags_of(objects->ignored, n);
    } else {
        objects->score = read_array(file, n, 8);
    }
    objects->length = read_array(file, n, 8);
    read_masks(file, set, objects);
}

static void read_set(const char *path, struct set *set)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(set->head, 8, HEADS, file) != HEADS)
        die(path);
    set->images = read_array(file, (size_t)set->head[IMAGES], 8);
    set->heights = read_array(file, (size_t)set->head[IMAGES], 8);
    set->widths = read_array(file, (size_t)set->head[IMAGES], 8);
    set->categories = read_array(file, (size_t)set->head[CATEGORIES], 8);
    read_objects(file, set, &set->truths, set->head[TRUTHS], true);
    read_objects(file, set, &set->found, set->head[FOUND], false);
    fclose(file);
}

static void free_objects(struct objects *objects)
{
    for (size_t i = 0; i < objects->count; i++)
        kolo_mask_free(&objects->mask[i]);
    free(objects->image), free(objects->category), free(objects->crowd), free(objects->id);
    free(objects->ignored), free(objects->length), free(objects->area), free(objects->score);
    free(objects->crowd_flags), free(objects->ignored_flags), free(objects->mask);
}

/* The objects of images that follow each other. */
static struct kolo_boxes some_of(const struct set *set, const struct objects *objects, size_t image,
                                 size_t images, size_t *counts)
{
    size_t first = 0, count = 0;
    while (first < objects->count && objects->image[first] < (int64_t)image)
        first++;
    for (size_t i = first; i < objects->count && objects->image[i] < (int64_t)(image + images);
         i++) {
        counts[(size_t)objects->image[i] - image]++;
        count++;
    }
    bool is_truth = objects->crowd != NULL, has_areas = is_truth || set->head[FOUND_AREAS];
    return (struct kolo_boxes){.count = count,
                               .image_counts = counts,
                               .dtype = KOLO_FLOAT64,
                               .categories = objects->category + first,
                               .scores = is_truth ? NULL : objects->score + first,
                               .areas = has_areas ? objects->area + first : NULL,
                               .crowds = is_truth ? objects->crowd_flags + first : NULL,
                               .ignored = is_truth ? objects->ignored_flags + first : NULL,
                               .ids = is_truth ? objects->id + first : NULL,
                               .masks = objects->mask + first};
}

/* Does this rank have the image? Some images are on two ranks, as padding makes them. */
static bool has(const struct set *set, size_t image, size_t rank, size_t ranks)
{
    size_t images = (size_t)set->head[IMAGES], padded = image % 4 == 0 ? image + 1 : image;
    switch (set->head[DEAL]) {
    case STRIDED:
        return image % ranks == rank || padded % ranks == rank;
    case BLOCK:
        return image * ranks / images == rank;
    default:
        return rank == ranks / 2;
    }
}

/* In updates of one image, or of all. */
static kolo_status feed(const struct set *set, struct kolo_detection *detection, size_t rank,
                        size_t ranks)
{
    size_t images = (size_t)set->head[IMAGES], *counts = need(2 * images, sizeof *counts);
    kolo_status status = KOLO_OK;
    size_t at_once = ranks == 1 ? images : 1;
    for (size_t i = 0; status == KOLO_OK && i < images; i += at_once) {
        if (!has(set, i, rank, ranks) && ranks > 1)
            continue;
        memset(counts, 0, 2 * images * sizeof *counts);
        struct kolo_boxes truths = some_of(set, &set->truths, i, at_once, counts);
        struct kolo_boxes found = some_of(set, &set->found, i, at_once, counts + images);
        status = kolo_detection_update(detection, set->images + i, at_once, &truths, &found);
    }
    free(counts);
    return status;
}

static void copy(double *values, const struct kolo_detection_result *result, size_t points,
                 size_t ends)
{
    memcpy(values, result->precision, points * sizeof *values);
    memcpy(values + points, result->recall, ends * sizeof *values);
    memcpy(values + points + ends, result->scores, points * sizeof *values);
    memcpy(values + 2 * points + ends, result->stats, KOLO_DETECTION_STATS * sizeof *values);
}

/* Keeps the first result, compares others with it. */
static kolo_status look(struct job *job, const struct kolo_detection_result *result)
{
    size_t ends = result->thresholds * result->categories * result->areas * result->caps;
    size_t points = ends * result->recalls, count = 2 * points + ends + KOLO_DETECTION_STATS;
    double *values = need(count, sizeof *values);
    copy(values, result, points, ends);
    if (!job->values) {
        FILE *file = fopen(job->out, "wb");
        if (!file || fwrite(values, 8, count, file) != count || fclose(file))
            die(job->out);
        job->values = values;
        return KOLO_OK;
    }
    bool is_same = memcmp(values, job->values, count * sizeof *values) == 0;
    free(values);
    if (!is_same)
        fprintf(stderr, "segm_eval: %s: %lld ranks have other results than one\n", job->out,
                (long long)job->set->head[RANKS]);
    return is_same ? KOLO_OK : KOLO_ERR_DATA;
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct job *job = arg;
    const int64_t *head = job->set->head;
    struct kolo_detection *detection = NULL;
    struct kolo_detection_config config = {.size = sizeof config,
                                           .mode = (kolo_detection_mode)head[MODE],
                                           .mean_rule = (kolo_mean_rule)head[RULE],
                                           .any_category = head[ANY] != 0,
                                           .categories = job->set->categories,
                                           .category_count = (size_t)head[CATEGORIES],
                                           .kind = KOLO_DETECTION_MASKS};
    struct kolo_detection_result result = {.size = sizeof result};
    kolo_status status = kolo_detection_create(&config, &detection);
    if (status == KOLO_OK)
        status = feed(job->set, detection, (size_t)kolo_rank(comm), (size_t)kolo_size(comm));
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK)
        status = look(job, &result);
    kolo_detection_destroy(detection);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        struct set set = {.head = {0}};
        read_set(argv[i], &set);
        struct job job = {.set = &set, .out = argv[i + 1]};
        if (kolo_run_threads(1, NULL, rank_main, &job) != KOLO_OK)
            die(argv[i]);
        if (set.head[RANKS] > 1 &&
            kolo_run_threads((int)set.head[RANKS], NULL, rank_main, &job) != KOLO_OK)
            die(argv[i]);
        free(job.values);
        free(set.images), free(set.heights), free(set.widths), free(set.categories);
        free_objects(&set.truths);
        free_objects(&set.found);
    }
    return 0;
}
