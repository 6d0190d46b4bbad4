// SPDX-License-Identifier: Apache-2.0
// Evaluates a detector as COCO does: copy this file, and put your data set and your model in the
// place of scene_make().
//
//   cc -O2 detect-eval.c scenes.c -o detect-eval -lkolo
//   kolorun -np 4 detect-eval [--images N] [--seed N] [--pad] [--categories]
//
// Each rank takes its images from a sampler, detects in batches, and passes the boxes to kolo. All
// ranks compute the result together, and rank 0 prints pycocotools' twelve lines and how many
// objects are found per image (with a score of at least 0.5). The output is the same to the last
// bit for any number of ranks and hosts, even if the sampler pads: an image that two ranks have
// counts once.
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>
#include <kolo/kolo.h>
#include <kolo/metrics.h>

#include "scenes.h"

enum { BATCH = 16, FOUND_MAX = BATCH * SCENE_FOUND_MAX, TRUTHS_MAX = BATCH * SCENE_TRUTHS_MAX };

struct options {
    int64_t images;
    uint64_t seed;
    bool pad, categories;
};

/* Images one after the other, as kolo_detection_update() takes them. */
struct batch {
    size_t images, truths, found;
    int64_t ids[BATCH];
    size_t truth_counts[BATCH], found_counts[BATCH];
    double truth_boxes[TRUTHS_MAX][4];
    int64_t truth_categories[TRUTHS_MAX];
    uint8_t truth_crowds[TRUTHS_MAX];
    float boxes[FOUND_MAX][4], scores[FOUND_MAX];
    int64_t categories[FOUND_MAX];
    double sure[BATCH]; /* number of detections of at least 0.5 */
};

struct evaluation {
    struct kolo_comm *comm;
    struct options options;
    struct kolo_sampler *sampler;
    struct kolo_detection *detection;
    struct kolo_metric *sure;
    struct batch batch;
};

/* Lets only rank 0 print, once for the job. Before kolo_init() the environment tells which rank
 * this is. */
static FILE *speaker(FILE *stream)
{
    const char *rank = getenv("RANK");
    FILE *nowhere = rank && strcmp(rank, "0") != 0 ? fopen("/dev/null", "w") : NULL;
    return nowhere ? nowhere : stream;
}

static int usage(void)
{
    fprintf(speaker(stdout),
            "usage: detect-eval [--images N] [--seed N] [--pad] [--categories]\n"
            "  --images N    number of images [500]\n"
            "  --seed N      seed of the generated images [1]\n"
            "  --pad         give all ranks equally many images by repeating some\n"
            "  --categories  also print the average precision of each category\n");
    return 0;
}

static int bad_usage(const char *argument, const char *why)
{
    fprintf(speaker(stderr), "detect-eval: %s: %s; try --help\n", argument, why);
    return 2;
}

static bool parse_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && !errno && value >= least && value <= most;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {
        {"images", required_argument, NULL, 'i'}, {"seed", required_argument, NULL, 's'},
        {"pad", no_argument, NULL, 'p'},          {"categories", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int64_t seed = 1;
    for (int option; (option = getopt_long(argc, argv, ":", table, NULL)) != -1;) {
        if (option == 'i' && !parse_number(optarg, 1, INT32_MAX, &options->images))
            return bad_usage(optarg, "--images takes a number from 1 to 2147483647");
        if (option == 's' && !parse_number(optarg, 0, INT64_MAX, &seed))
            return bad_usage(optarg, "--seed takes a number from 0 on");
        if (option == 'h')
            return usage();
        if (option == ':' || option == '?')
            return bad_usage(argv[optind - 1],
                             option == ':' ? "its value is missing" : "no such option");
        options->pad = options->pad || option == 'p';
        options->categories = options->categories || option == 'c';
    }
    options->seed = (uint64_t)seed;
    return optind < argc ? bad_usage(argv[optind], "unexpected argument") : -1;
}

static kolo_status prepare(struct evaluation *evaluation)
{
    int64_t images = evaluation->options.images, categories[SCENE_CATEGORIES];
    for (int i = 0; i < SCENE_CATEGORIES; i++)
        categories[i] = i + 1;
    const struct kolo_sampler_config sampler = {
        .size = sizeof sampler,
        .samples = images,
        .rank = kolo_rank(evaluation->comm),
        .nranks = kolo_size(evaluation->comm),
        .tail = evaluation->options.pad ? KOLO_SAMPLER_PAD : KOLO_SAMPLER_UNPADDED};
    const struct kolo_detection_config detection = {.size = sizeof detection,
                                                    .categories = categories,
                                                    .category_count = SCENE_CATEGORIES,
                                                    .images = images};
    const struct kolo_mean_config sure = {.size = sizeof sure, .samples = images};
    kolo_status status = kolo_sampler_create(&sampler, &evaluation->sampler);
    if (status == KOLO_OK)
        status = kolo_detection_create(&detection, &evaluation->detection);
    if (status == KOLO_OK)
        status = kolo_mean_create(&sure, &evaluation->sure);
    return status;
}

static void add_scene(struct batch *batch, int64_t image, const struct scene *scene)
{
    size_t number = batch->images++;
    batch->ids[number] = image;
    batch->truth_counts[number] = scene->truths;
    batch->found_counts[number] = scene->found;
    batch->sure[number] = 0;
    for (size_t i = 0; i < scene->truths; i++, batch->truths++) {
        for (int j = 0; j < 4; j++)
            batch->truth_boxes[batch->truths][j] = scene->truth_box[i][j];
        batch->truth_categories[batch->truths] = scene->truth_category[i];
        batch->truth_crowds[batch->truths] = scene->truth_crowd[i];
    }
    for (size_t i = 0; i < scene->found; i++, batch->found++) {
        for (int j = 0; j < 4; j++)
            batch->boxes[batch->found][j] = scene->box[i][j];
        batch->categories[batch->found] = scene->category[i];
        batch->scores[batch->found] = scene->score[i];
        batch->sure[number] += scene->score[i] >= 0.5F;
    }
}

static kolo_status update(struct evaluation *evaluation)
{
    const struct batch *batch = &evaluation->batch;
    const struct kolo_boxes truths = {.count = batch->truths,
                                      .image_counts = batch->truth_counts,
                                      .boxes = batch->truth_boxes,
                                      .dtype = KOLO_FLOAT64,
                                      .format = KOLO_BOX_XYWH,
                                      .categories = batch->truth_categories,
                                      .crowds = batch->truth_crowds};
    const struct kolo_boxes found = {.count = batch->found,
                                     .image_counts = batch->found_counts,
                                     .boxes = batch->boxes,
                                     .dtype = KOLO_FLOAT32,
                                     .format = KOLO_BOX_XYXY,
                                     .categories = batch->categories,
                                     .scores = batch->scores};
    kolo_status status =
        kolo_detection_update(evaluation->detection, batch->ids, batch->images, &truths, &found);
    if (status == KOLO_OK)
        status = kolo_mean_update_float64(evaluation->sure, batch->sure, batch->images, batch->ids);
    return status;
}

static kolo_status evaluate(struct evaluation *evaluation)
{
    struct batch *batch = &evaluation->batch;
    const int64_t *mine = kolo_sampler_indices(evaluation->sampler);
    int64_t all = kolo_sampler_count(evaluation->sampler);
    kolo_status status = KOLO_OK;
    for (int64_t i = 0; status == KOLO_OK && i < all; i++) {
        struct scene scene;
        scene_make(evaluation->options.seed, mine[i], &scene); /* your image, your model */
        add_scene(batch, mine[i], &scene);
        if (batch->images < BATCH && i + 1 < all)
            continue;
        status = update(evaluation);
        batch->images = batch->truths = batch->found = 0;
    }
    return status;
}

static void print_lines(const struct kolo_detection_result *result)
{
    static const struct {
        const char *name, *threshold, *area;
        int cap;
    } line[KOLO_DETECTION_STATS] = {
        {"Average Precision", "(AP)", "0.50:0.95 | area=   all", 100},
        {"Average Precision", "(AP)", "0.50      | area=   all", 100},
        {"Average Precision", "(AP)", "0.75      | area=   all", 100},
        {"Average Precision", "(AP)", "0.50:0.95 | area= small", 100},
        {"Average Precision", "(AP)", "0.50:0.95 | area=medium", 100},
        {"Average Precision", "(AP)", "0.50:0.95 | area= large", 100},
        {"Average Recall", "(AR)", "0.50:0.95 | area=   all", 1},
        {"Average Recall", "(AR)", "0.50:0.95 | area=   all", 10},
        {"Average Recall", "(AR)", "0.50:0.95 | area=   all", 100},
        {"Average Recall", "(AR)", "0.50:0.95 | area= small", 100},
        {"Average Recall", "(AR)", "0.50:0.95 | area=medium", 100},
        {"Average Recall", "(AR)", "0.50:0.95 | area= large", 100},
    };
    for (int i = 0; i < KOLO_DETECTION_STATS; i++)
        printf(" %-18s %s @[ IoU=%s | maxDets=%3d ] = %0.3f (%a)\n", line[i].name,
               line[i].threshold, line[i].area, line[i].cap, result->stats[i], result->stats[i]);
}

static kolo_status print_categories(const struct evaluation *evaluation,
                                    const struct kolo_detection_result *result)
{
    kolo_status status = KOLO_OK;
    struct kolo_detection_slice slice = {
        .size = sizeof slice, .threshold = -1, .cap = result->caps - 1};
    for (size_t k = 0; status == KOLO_OK && k < result->categories; k++) {
        double average;
        slice.category = (int64_t)k;
        status = kolo_detection_average(evaluation->detection, &slice, &average);
        if (status == KOLO_OK)
            printf("category %" PRId64 ": AP %0.3f\n", result->category_ids[k], average);
    }
    return status;
}

/* All ranks have the results; rank 0 prints them. */
static kolo_status report(const struct evaluation *evaluation)
{
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_mean_result sure = {.size = sizeof sure};
    kolo_status status = kolo_detection_result(evaluation->detection, &result);
    if (status == KOLO_OK)
        status = kolo_mean_result(evaluation->sure, &sure);
    if (status != KOLO_OK || kolo_rank(evaluation->comm) != 0)
        return status;
    print_lines(&result);
    printf("%" PRId64 " images (%" PRId64 " missing), %" PRId64 " objects, %" PRId64
           " detections, %.6f sure ones per image\n",
           result.images, result.missing_images, result.truths, result.detections, sure.mean);
    if (result.duplicate_images > 0)
        fprintf(stderr, "detect-eval: images that two ranks had were counted once: %" PRId64 "\n",
                result.duplicate_images);
    return evaluation->options.categories ? print_categories(evaluation, &result) : KOLO_OK;
}

static kolo_status run(struct evaluation *evaluation)
{
    kolo_status status = prepare(evaluation);
    if (status == KOLO_OK)
        status = evaluate(evaluation);
    if (status != KOLO_OK)
        return status;
    struct kolo_metric *const metrics[] = {kolo_detection_metric(evaluation->detection),
                                           evaluation->sure};
    status = kolo_metrics_compute(evaluation->comm, metrics, 2, NULL);
    return status == KOLO_OK ? report(evaluation) : status;
}

int main(int argc, char **argv)
{
    static struct evaluation evaluation = {.options = {.images = 500}};
    int usage_status = parse_options(argc, argv, &evaluation.options);
    if (usage_status == 0) /* --help needs no other rank */
        return 0;
    kolo_status status = kolo_init(NULL, &evaluation.comm);
    if (usage_status > 0) { /* not before kolo_init(): a rank that fails ends the job, and rank 0
                                may not have complained yet */
        (void)kolo_finalize(evaluation.comm);
        return usage_status;
    }
    if (status == KOLO_OK)
        status = run(&evaluation);
    if (status != KOLO_OK)
        fprintf(stderr, "detect-eval: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    kolo_metric_destroy(evaluation.sure);
    kolo_detection_destroy(evaluation.detection);
    kolo_sampler_destroy(evaluation.sampler);
    (void)kolo_finalize(evaluation.comm);
    if (fflush(stdout) != 0 || ferror(stdout)) { /* on a full disk, for example */
        fprintf(stderr, "detect-eval: cannot write the results to standard output\n");
        return 1;
    }
    return status == KOLO_OK ? 0 : 1;
}
