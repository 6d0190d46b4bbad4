// SPDX-License-Identifier: Apache-2.0
// Evaluates the sets that coco.py writes, for it to compare: coco_eval IN OUT [IN OUT]...
// Each set runs on one rank, then on as many as the set says, its images dealt out as the set says,
// some of them twice; all ranks must have the same bits as the one. Numbers are native int64 and
// float64.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>

enum {
    IMAGES,
    TRUTHS,
    FOUND,
    CATEGORIES,
    MODE, /* and twice the threshold mode */
    RULE,
    ANY,
    RANKS,
    DEAL,
    FORMAT,
    THRESHOLDS,
    RECALLS,
    AREAS,
    CAPS,
    HEADS
};
/* Behind a set, what rules.py writes. */
enum {
    TAG,
    KIND,
    FAMILY,
    IMAGE_CAP,
    CONTINUOUS,
    SIGMAS,
    POINTS,
    POINT_COUNTS,
    ABSENT,
    PARTIAL,
    GROUPS,
    RULES
};
enum { STRIDED, BLOCK, HASHED, ONE_HAS_ALL, BACKWARDS };

struct boxes { /* in the order of the file */
    size_t count;
    int64_t *image, *category, *crowd, *id, *ignored, *point_count;
    double *box, *area, *score, *points;
};

struct set {
    int64_t head[HEADS];
    int64_t *images, *categories, *caps;
    double *thresholds, *recalls, *areas;
    struct boxes truths, found;
    int64_t rules[RULES]; /* 0 where the set has none */
    double *sigmas;
    int64_t *absent_counts, *absent, *partial_counts, *partial,
        *groups; /* per image, per category */
};

struct job {
    const struct set *set;
    const char *out; /* on one rank: where results go */
    struct kolo_detection_result expected;
    double *precision, *recall, *scores, *voc; /* voc: points, then areas */
};

static void die(const char *what)
{
    fprintf(stderr, "coco_eval: %s: %s\n", what, kolo_error_detail());
    exit(1);
}

static void *need(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        die("out of memory");
    return memory;
}

static void *read_array(FILE *file, size_t count)
{
    void *array = need(count, 8);
    if (fread(array, 8, count, file) != count)
        die("the set is too short");
    return array;
}

static void read_boxes(FILE *file, struct boxes *boxes, int64_t count, bool is_truth)
{
    size_t n = boxes->count = (size_t)count;
    boxes->image = read_array(file, n);
    boxes->category = read_array(file, n);
    boxes->box = read_array(file, 4 * n);
    if (!is_truth) {
        boxes->score = read_array(file, n);
        return;
    }
    boxes->area = read_array(file, n);
    boxes->crowd = read_array(file, n);
    boxes->id = read_array(file, n);
    boxes->ignored = read_array(file, n);
}

static void read_rules(FILE *file, struct set *set)
{
    const int64_t *rules = set->rules;
    size_t images = (size_t)set->head[IMAGES], numbers = 3 * (size_t)rules[POINTS];
    set->sigmas = read_array(file, (size_t)rules[SIGMAS]);
    if (rules[KIND] == KOLO_DETECTION_KEYPOINTS) {
        set->truths.point_count = read_array(file, set->truths.count);
        set->truths.points = read_array(file, numbers * set->truths.count);
        set->found.points = read_array(file, numbers * set->found.count);
    }
    set->absent_counts = read_array(file, images);
    set->absent = read_array(file, (size_t)rules[ABSENT]);
    set->partial_counts = read_array(file, images);
    set->partial = read_array(file, (size_t)rules[PARTIAL]);
    set->groups = read_array(file, (size_t)rules[GROUPS]);
}

static void read_set(const char *path, struct set *set)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(set->head, 8, HEADS, file) != HEADS)
        die(path);
    set->images = read_array(file, (size_t)set->head[IMAGES]);
    set->categories = read_array(file, (size_t)set->head[CATEGORIES]);
    set->thresholds = read_array(file, (size_t)set->head[THRESHOLDS]);
    set->recalls = read_array(file, (size_t)set->head[RECALLS]);
    set->areas = read_array(file, 2 * (size_t)set->head[AREAS]);
    set->caps = read_array(file, (size_t)set->head[CAPS]);
    read_boxes(file, &set->truths, set->head[TRUTHS], true);
    read_boxes(file, &set->found, set->head[FOUND], false);
    if (fread(set->rules, 8, RULES, file) == RULES)
        read_rules(file, set);
    fclose(file);
}

static void free_boxes(struct boxes *boxes)
{
    free(boxes->image), free(boxes->category), free(boxes->box), free(boxes->score);
    free(boxes->area), free(boxes->crowd), free(boxes->id), free(boxes->ignored);
    free(boxes->point_count), free(boxes->points);
}

/* The boxes of some images, as the API takes them: float64, or corners where the set says so. */
struct batch {
    struct kolo_boxes boxes;
    size_t *counts;
    double *box, *score, *area, *points;
    int64_t *category, *id, *point_count;
    uint8_t *crowd, *ignored;
    struct lists {
        size_t *counts;
        int64_t *ids;
    } absent, partial;
};

/* A list of categories for each image of a batch. */
static struct lists make_lists(const struct set *set, const int64_t *images, size_t count,
                               const int64_t *counts, const int64_t *ids, int64_t total)
{
    struct lists lists = {.counts = need(count, sizeof *lists.counts),
                          .ids = need(count * (size_t)total, sizeof *lists.ids)};
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t image = 0, first = 0;
        for (; set->images[image] != images[i]; image++)
            first += (size_t)counts[image];
        lists.counts[i] = (size_t)counts[image];
        memcpy(lists.ids + n, ids + first, lists.counts[i] * sizeof *ids);
        n += lists.counts[i];
    }
    return lists;
}

/* What rules.py's sets have beside boxes. */
static void add_rules(const struct set *set, const struct boxes *from, const int64_t *images,
                      size_t count, struct batch *batch)
{
    const int64_t *rules = set->rules;
    size_t numbers = 3 * (size_t)rules[POINTS], n = 0;
    batch->points = need(numbers * from->count, sizeof *batch->points);
    batch->point_count = need(from->count, sizeof *batch->point_count);
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < from->count; b++) {
            if (from->image[b] != images[i])
                continue;
            if (from->points)
                memcpy(batch->points + numbers * n, from->points + numbers * b, numbers * 8);
            if (from->point_count)
                batch->point_count[n] = from->point_count[b];
            n++;
        }
    if (from->points)
        batch->boxes.keypoints = batch->points;
    if (from->points && from->score)
        batch->boxes.boxes = NULL;
    if (from->point_count && rules[POINT_COUNTS])
        batch->boxes.point_counts = batch->point_count;
    if (rules[FAMILY] == KOLO_DETECTION_LVIS && from->area) {
        batch->absent =
            make_lists(set, images, count, set->absent_counts, set->absent, rules[ABSENT]);
        batch->partial =
            make_lists(set, images, count, set->partial_counts, set->partial, rules[PARTIAL]);
        batch->boxes.absent_counts = batch->absent.counts;
        batch->boxes.absent = batch->absent.ids;
        batch->boxes.partial_counts = batch->partial.counts;
        batch->boxes.partial = batch->partial.ids;
    }
}

static void write_box(double *to, const double *from, bool as_corners)
{
    memcpy(to, from, 4 * sizeof *to);
    if (as_corners) {
        to[2] += to[0];
        to[3] += to[1];
    }
}

static void make_batch(const struct set *set, const struct boxes *from, const int64_t *images,
                       size_t count, struct batch *batch)
{
    size_t room = from->count;
    bool as_corners =
        set->head[FORMAT] == KOLO_BOX_XYXY && set->rules[FAMILY] != KOLO_DETECTION_VOC;
    *batch = (struct batch){.counts = need(count, sizeof *batch->counts),
                            .box = need(4 * room, sizeof *batch->box),
                            .score = need(room, sizeof *batch->score),
                            .area = need(room, sizeof *batch->area),
                            .category = need(room, sizeof *batch->category),
                            .id = need(room, sizeof *batch->id),
                            .crowd = need(room, 1),
                            .ignored = need(room, 1)};
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < from->count; b++) {
            if (from->image[b] != images[i])
                continue;
            batch->counts[i]++;
            write_box(batch->box + 4 * n, from->box + 4 * b, as_corners);
            batch->category[n] = from->category[b];
            if (from->score)
                batch->score[n] = from->score[b];
            if (from->area) {
                batch->area[n] = from->area[b];
                batch->id[n] = from->id[b];
                batch->crowd[n] = (uint8_t)from->crowd[b];
                batch->ignored[n] = (uint8_t)from->ignored[b];
            }
            n++;
        }
    batch->boxes = (struct kolo_boxes){.count = n,
                                       .image_counts = batch->counts,
                                       .boxes = batch->box,
                                       .dtype = KOLO_FLOAT64,
                                       .format = (kolo_box_format)set->head[FORMAT],
                                       .categories = batch->category,
                                       .scores = batch->score,
                                       .areas = from->area ? batch->area : NULL,
                                       .crowds = from->area ? batch->crowd : NULL,
                                       .ignored = from->area ? batch->ignored : NULL,
                                       .ids = from->area ? batch->id : NULL};
    add_rules(set, from, images, count, batch);
}

static void free_batch(struct batch *batch)
{
    free(batch->counts), free(batch->box), free(batch->score), free(batch->area);
    free(batch->category), free(batch->id), free(batch->crowd), free(batch->ignored);
    free(batch->points), free(batch->point_count);
    free(batch->absent.counts), free(batch->absent.ids);
    free(batch->partial.counts), free(batch->partial.ids);
}

/* Does this rank have the image? Some images are on two ranks, as padding makes them. */
static bool has(const struct set *set, size_t image, int rank, int ranks)
{
    size_t images = (size_t)set->head[IMAGES], r = (size_t)rank, n = (size_t)ranks;
    size_t padded = image % 5 == 0 ? image + 1 : image;
    switch (set->head[DEAL]) {
    case STRIDED:
        return image % n == r || padded % n == r;
    case BLOCK:
        return image * n / images == r || padded * n / images == r;
    case HASHED:
        return image * 2654435761u % 1009 % n == r;
    case ONE_HAS_ALL:
        return r == n / 2;
    default:
        return (images - 1 - image) % n == r;
    }
}

static kolo_status feed(const struct set *set, struct kolo_detection *detection, int rank,
                        int ranks)
{
    size_t images = (size_t)set->head[IMAGES], count = 0;
    int64_t *mine = need(images, sizeof *mine);
    for (size_t i = 0; i < images; i++) {
        size_t image = set->head[DEAL] == BACKWARDS ? images - 1 - i : i;
        if (has(set, image, rank, ranks))
            mine[count++] = set->images[image];
    }
    kolo_status status = KOLO_OK;
    for (size_t first = 0; status == KOLO_OK && first < count;) { /* in batches of 1, 2, ... */
        size_t some = count - first < first + 1 ? count - first : first + 1;
        struct batch truths, found;
        make_batch(set, &set->truths, mine + first, some, &truths);
        make_batch(set, &set->found, mine + first, some, &found);
        status = kolo_detection_update(detection, mine + first, some, &truths.boxes, &found.boxes);
        free_batch(&truths);
        free_batch(&found);
        first += some;
    }
    free(mine);
    return status;
}

static struct kolo_detection_config config_of(const struct set *set)
{
    const int64_t *head = set->head;
    static _Thread_local int caps[KOLO_DETECTION_CAPS_MAX];
    for (int64_t m = 0; m < head[CAPS]; m++)
        caps[m] = (int)set->caps[m];
    return (struct kolo_detection_config){
        .size = sizeof(struct kolo_detection_config),
        .mode = (kolo_detection_mode)(head[MODE] % 2),
        .threshold_mode = (kolo_threshold_mode)(head[MODE] / 2),
        .mean_rule = (kolo_mean_rule)head[RULE],
        .any_category = head[ANY] != 0,
        .categories = set->categories,
        .category_count = (size_t)head[CATEGORIES],
        .thresholds = head[THRESHOLDS] ? set->thresholds : NULL,
        .threshold_count = (size_t)head[THRESHOLDS],
        .recalls = head[RECALLS] ? set->recalls : NULL,
        .recall_count = (size_t)head[RECALLS],
        .areas = head[AREAS] ? (const struct kolo_area_range *)(const void *)set->areas : NULL,
        .area_count = (size_t)head[AREAS],
        .caps = head[CAPS] ? caps : NULL,
        .cap_count = (size_t)head[CAPS],
        .kind = (kolo_detection_kind)set->rules[KIND],
        .sigmas = set->rules[SIGMAS] ? set->sigmas : NULL,
        .sigma_count = (size_t)set->rules[SIGMAS],
        .rules = (kolo_detection_rules)set->rules[FAMILY],
        .image_cap = (int)set->rules[IMAGE_CAP],
        .groups = set->rules[GROUPS] ? set->groups : NULL,
        .continuous_boxes = set->rules[CONTINUOUS] != 0};
}

static size_t ends_of(const struct kolo_detection_result *result)
{
    return result->thresholds * result->categories * result->areas * result->caps;
}

static void keep(struct job *job, const struct kolo_detection_result *result)
{
    size_t ends = ends_of(result), points = ends * result->recalls;
    size_t voc = result->voc_points ? ends : 0;
    job->expected = *result;
    job->precision = need(points, sizeof(double));
    job->scores = need(points, sizeof(double));
    job->recall = need(ends, sizeof(double));
    memcpy(job->precision, result->precision, points * sizeof(double));
    memcpy(job->scores, result->scores, points * sizeof(double));
    memcpy(job->recall, result->recall, ends * sizeof(double));
    job->voc = need(2 * voc, sizeof(double));
    if (voc > 0) {
        memcpy(job->voc, result->voc_points, voc * sizeof(double));
        memcpy(job->voc + voc, result->voc_areas, voc * sizeof(double));
    }
    FILE *file = fopen(job->out, "wb");
    if (!file || fwrite(job->precision, 8, points, file) != points ||
        fwrite(job->recall, 8, ends, file) != ends ||
        fwrite(job->scores, 8, points, file) != points ||
        fwrite(result->stats, 8, KOLO_DETECTION_STATS_MAX, file) != KOLO_DETECTION_STATS_MAX ||
        fwrite(job->voc, 8, 2 * voc, file) != 2 * voc || fclose(file))
        die(job->out);
}

static void compare(const struct job *job, const struct kolo_detection_result *result)
{
    size_t ends = ends_of(result), points = ends * result->recalls;
    const struct kolo_detection_result *expected = &job->expected;
    size_t voc = result->voc_points ? ends : 0;
    if (memcmp(result->precision, job->precision, points * sizeof(double)) ||
        memcmp(result->scores, job->scores, points * sizeof(double)) ||
        memcmp(result->recall, job->recall, ends * sizeof(double)) ||
        memcmp(result->stats, expected->stats, sizeof result->stats) ||
        (voc && memcmp(result->voc_points, job->voc, voc * sizeof(double))) ||
        (voc && memcmp(result->voc_areas, job->voc + voc, voc * sizeof(double))) ||
        result->images != expected->images || result->truths != expected->truths ||
        result->detections != expected->detections) {
        fprintf(stderr, "coco_eval: %s: %lld ranks (deal %lld) have other results than one\n",
                job->out, (long long)job->set->head[RANKS], (long long)job->set->head[DEAL]);
        exit(1);
    }
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct job *job = arg;
    struct kolo_detection *detection = NULL;
    struct kolo_detection_config config = config_of(job->set);
    struct kolo_detection_result result = {.size = sizeof result};
    kolo_status status = kolo_detection_create(&config, &detection);
    if (status == KOLO_OK)
        status = feed(job->set, detection, kolo_rank(comm), kolo_size(comm));
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK && !job->precision)
        keep(job, &result);
    else if (status == KOLO_OK)
        compare(job, &result);
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
        free(job.precision), free(job.recall), free(job.scores), free(job.voc);
        free(set.images), free(set.categories), free(set.thresholds), free(set.recalls);
        free(set.areas), free(set.caps), free(set.sigmas), free(set.groups);
        free(set.absent_counts), free(set.absent), free(set.partial_counts), free(set.partial);
        free_boxes(&set.truths);
        free_boxes(&set.found);
    }
    return 0;
}
