// SPDX-License-Identifier: Apache-2.0
// Evaluates the sets of masks that segm.py writes, for it to compare: segm_eval IN OUT [IN OUT]...
// Each set runs on one rank, then on as many as the set says, its images dealt out as the set says,
// some of them twice; all ranks must have the same bits as the one. Masks are COCO's
// strings.
#include "tests/metrics/oracle/sets.h"

enum { IMAGES, TRUTHS, FOUND, CATEGORIES, MODE, RULE, ANY, RANKS, DEAL, FOUND_AREAS, HEADS };

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
    struct outcome outcome;
};

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

/* In updates of one image, or of all. */
static kolo_status feed(const void *from, struct kolo_detection *detection, int rank, int ranks)
{
    const struct set *set = from;
    size_t images = (size_t)set->head[IMAGES], *counts = need(2 * images, sizeof *counts);
    kolo_status status = KOLO_OK;
    size_t at_once = ranks == 1 ? images : 1;
    for (size_t i = 0; status == KOLO_OK && i < images; i += at_once) {
        if (!has(set->head[DEAL], i, images, rank, ranks) && ranks > 1)
            continue;
        memset(counts, 0, 2 * images * sizeof *counts);
        struct kolo_boxes truths = some_of(set, &set->truths, i, at_once, counts);
        struct kolo_boxes found = some_of(set, &set->found, i, at_once, counts + images);
        status = kolo_detection_update(detection, set->images + i, at_once, &truths, &found);
    }
    free(counts);
    return status;
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct job *job = arg;
    const int64_t *head = job->set->head;
    const struct kolo_detection_config config = {.size = sizeof config,
                                                 .mode = (kolo_detection_mode)head[MODE],
                                                 .mean_rule = (kolo_mean_rule)head[RULE],
                                                 .any_category = head[ANY] != 0,
                                                 .categories = job->set->categories,
                                                 .category_count = (size_t)head[CATEGORIES],
                                                 .kind = KOLO_DETECTION_MASKS};
    return evaluate(comm, &config, feed, job->set, &job->outcome);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        struct set set = {.head = {0}};
        read_set(argv[i], &set);
        struct job job = {.set = &set, .outcome.out = argv[i + 1]};
        in_worlds(argv[i], set.head[RANKS], rank_main, &job);
        free(job.outcome.values);
        free(set.images), free(set.heights), free(set.widths), free(set.categories);
        free_objects(&set.truths);
        free_objects(&set.found);
    }
    return 0;
}
