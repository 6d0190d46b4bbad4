// SPDX-License-Identifier: Apache-2.0
// Evaluates the sets that coco.py writes, for it to compare: coco_eval IN OUT [IN OUT]...
// Each set runs on one rank, then on as many as the set says, its images dealt out as the set says,
// some of them twice; all ranks must have the same bits as the one.
#include "tests/metrics/oracle/sets.h"

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
    struct outcome outcome;
};

static void read_boxes(FILE *file, struct boxes *boxes, int64_t count, bool is_truth)
{
    size_t n = boxes->count = (size_t)count;
    boxes->image = read_array(file, n, 8);
    boxes->category = read_array(file, n, 8);
    boxes->box = read_array(file, 4 * n, 8);
    if (!is_truth) {
        boxes->score = read_array(file, n, 8);
        return;
    }
    boxes->area = read_array(file, n, 8);
    boxes->crowd = read_array(file, n, 8);
    boxes->id = read_array(file, n, 8);
    boxes->ignored = read_array(file, n, 8);
}

static void read_rules(FILE *file, struct set *set)
{
    const int64_t *rules = set->rules;
    size_t images = (size_t)set->head[IMAGES], numbers = 3 * (size_t)rules[POINTS];
    set->sigmas = read_array(file, (size_t)rules[SIGMAS], 8);
    if (rules[KIND] == KOLO_DETECTION_KEYPOINTS) {
        set->truths.point_count = read_array(file, set->truths.count, 8);
        set->truths.points = read_array(file, numbers * set->truths.count, 8);
        set->found.points = read_array(file, numbers * set->found.count, 8);
    }
    set->absent_counts = read_array(file, images, 8);
    set->absent = read_array(file, (size_t)rules[ABSENT], 8);
    set->partial_counts = read_array(file, images, 8);
    set->partial = read_array(file, (size_t)rules[PARTIAL], 8);
    set->groups = read_array(file, (size_t)rules[GROUPS], 8);
}

static void read_set(const char *path, struct set *set)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(set->head, 8, HEADS, file) != HEADS)
        die(path);
    set->images = read_array(file, (size_t)set->head[IMAGES], 8);
    set->categories = read_array(file, (size_t)set->head[CATEGORIES], 8);
    set->thresholds = read_array(file, (size_t)set->head[THRESHOLDS], 8);
    set->recalls = read_array(file, (size_t)set->head[RECALLS], 8);
    set->areas = read_array(file, 2 * (size_t)set->head[AREAS], 8);
    set->caps = read_array(file, (size_t)set->head[CAPS], 8);
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

static kolo_status feed(const void *from, struct kolo_detection *detection, int rank, int ranks)
{
    const struct set *set = from;
    size_t images = (size_t)set->head[IMAGES], count = 0;
    int64_t *mine = need(images, sizeof *mine);
    for (size_t i = 0; i < images; i++) {
        size_t image = set->head[DEAL] == BACKWARDS ? images - 1 - i : i;
        if (has(set->head[DEAL], image, images, rank, ranks))
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

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    struct job *job = arg;
    const struct kolo_detection_config config = config_of(job->set);
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
        free(set.images), free(set.categories), free(set.thresholds), free(set.recalls);
        free(set.areas), free(set.caps), free(set.sigmas), free(set.groups);
        free(set.absent_counts), free(set.absent), free(set.partial_counts), free(set.partial);
        free_boxes(&set.truths);
        free_boxes(&set.found);
    }
    return 0;
}
