// SPDX-License-Identifier: Apache-2.0
// What COCO's mAP costs. `kolorun -np N detection_rate [IMAGES [PER_IMAGE [SET]]]` makes a set like
// COCO's, each rank its own images. It prints the time of the updates (matching) and of the compute
// (exchange and curves) on the slowest rank, as the median of rounds, and the peak memory of a rank
// in addition to the input and the results, per detection of its own. With SET, rank 0 also writes
// the whole set there, in the form of tests/metrics/oracle/coco.py, for pycocotools.
//
// `kolorun -np N detection_rate limit [IMAGES [PER_IMAGE]]` compares N ranks with one rank, and
// with N ranks that work independently of each other.
//
// `kolorun -np N detection_rate memory|memory-one [IMAGES [PER_IMAGE]]` fails if a rank needs more
// than it may in addition to the input, the results and what its communicator keeps; with -one rank
// 0 has all images.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/detection.h>

#include "bench/coco_data.h"
#include "bench/micro/check.h"

enum { ROUNDS = 7, WARM_BYTES = 8 << 20 };
enum { BYTES_MAX = 60 }; /* per detection */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The images of a rank, one after the other. */
struct set {
    size_t images, truths, found;
    int64_t *id, *truth_category, *category, *truth_id;
    size_t *truth_counts, *counts;
    double *truth_box, *truth_area, *box, *score;
    uint8_t *crowd;
};

static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (!memory)
        exit(1);
    return memory;
}

static void make(struct set *set, size_t images, int per_image, int rank, int ranks)
{
    struct coco_data data = {.seed = 1, .found = per_image};
    size_t found = (images / (size_t)ranks + 1) * (size_t)per_image;
    size_t truths = (images / (size_t)ranks + 1) * COCO_DATA_TRUTHS_MAX;
    *set = (struct set){.id = room(images, 8),
                        .truth_counts = room(images, 8),
                        .counts = room(images, 8),
                        .truth_category = room(truths, 8),
                        .truth_box = room(4 * truths, 8),
                        .truth_area = room(truths, 8),
                        .truth_id = room(truths, 8),
                        .crowd = room(truths, 1),
                        .category = room(found, 8),
                        .box = room(4 * found, 8),
                        .score = room(found, 8)};
    for (size_t i = (size_t)rank; i < images; i += (size_t)ranks) {
        struct coco_image image = {.box = set->box + 4 * set->found,
                                   .score = set->score + set->found,
                                   .category = set->category + set->found};
        coco_data_make(&data, i, &image);
        size_t n = (size_t)image.truths, at = set->truths;
        memcpy(set->truth_box + 4 * at, image.truth_box, 32 * n);
        memcpy(set->truth_area + at, image.truth_area, 8 * n);
        memcpy(set->truth_category + at, image.truth_category, 8 * n);
        memcpy(set->crowd + at, image.truth_crowd, n);
        for (size_t g = 0; g < n; g++)
            set->truth_id[at + g] = (int64_t)(at + g) + 1;
        set->truth_counts[set->images] = n;
        set->counts[set->images] = (size_t)image.found;
        set->id[set->images++] = (int64_t)i;
        set->truths += n;
        set->found += (size_t)image.found;
    }
}

static int64_t categories[COCO_DATA_CATEGORIES];

/* Bytes, from /proc/self/status. */
static double memory(const char *field)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtod(line + strlen(field), NULL);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Resets the peak to the present memory. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static double slowest(struct kolo_comm *comm, double seconds)
{
    check(kolo_allreduce(comm, &seconds, &seconds, 1, KOLO_FLOAT64, KOLO_MAX, NULL, NULL), NULL);
    return seconds;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bytes of the arrays. */
static double results_of(const struct kolo_detection_result *result)
{
    double ends = (double)(result->thresholds * result->categories * result->areas * result->caps);
    return sizeof(double) * ends * (double)(2 * result->recalls + 1);
}

/* Of one evaluation on this rank. */
struct times {
    double update, compute, both; /* seconds */
    double bytes;                 /* peak memory in addition to input and results */
};

static struct times evaluate(struct kolo_comm *comm, const struct set *set,
                             struct kolo_detection_result *result)
{
    struct kolo_detection *detection = NULL;
    struct kolo_detection_config config = {
        .size = sizeof config, .categories = categories, .category_count = COCO_DATA_CATEGORIES};
    struct kolo_boxes truths = {.count = set->truths,
                                .image_counts = set->truth_counts,
                                .boxes = set->truth_box,
                                .dtype = KOLO_FLOAT64,
                                .categories = set->truth_category,
                                .areas = set->truth_area,
                                .crowds = set->crowd,
                                .ids = set->truth_id};
    struct kolo_boxes found = {.count = set->found,
                               .image_counts = set->counts,
                               .boxes = set->box,
                               .dtype = KOLO_FLOAT64,
                               .categories = set->category,
                               .scores = set->score};
    check(kolo_detection_create(&config, &detection), NULL);
    check(kolo_barrier(comm, NULL, NULL), NULL);
    forget_peak();
    double before = memory("VmRSS:"), start = now();
    check(kolo_detection_update(detection, set->id, set->images, &truths, &found), NULL);
    double middle = now();
    check(kolo_detection_compute(comm, detection, NULL), NULL);
    double end = now();
    check(kolo_detection_result(detection, result), NULL);
    struct times times = {.update = middle - start,
                          .compute = end - middle,
                          .both = end - start,
                          .bytes = memory("VmHWM:") - before - results_of(result)};
    kolo_detection_destroy(detection);
    return times;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void measure(struct kolo_comm *comm, const struct set *set)
{
    double updates[ROUNDS], computes[ROUNDS], both[ROUNDS], most = 0;
    struct kolo_detection_result result = {.size = sizeof result};
    for (int round = 0; round < ROUNDS; round++) {
        struct times times = evaluate(comm, set, &result);
        updates[round] = slowest(comm, times.update);
        computes[round] = slowest(comm, times.compute);
        both[round] = slowest(comm, times.both);
        if (round == 0) /* later rounds find memory that was used before */
            most = times.bytes;
    }
    most = slowest(comm, set->found ? most / (double)set->found : 0);
    if (kolo_rank(comm) == 0)
        printf("%d ranks, %lld images, %lld truths, %lld detections: update %.4f s, compute %.4f "
               "s, both %.4f s; %.1f bytes a detection; AP %.17g\n",
               kolo_size(comm), (long long)result.images, (long long)result.truths,
               (long long)result.detections, median(updates), median(computes), median(both), most,
               result.stats[0]);
}

/* How much faster the ranks together are than rank 0 alone, and what the machine allows: every rank
 * evaluates everything by itself at the same time as the others, and likewise its share. The four
 * alternate, so that a slow minute of the machine affects all of them. */
static void measure_limit(struct kolo_comm *comm, const struct set *share, const struct set *whole)
{
    enum { ALONE, COPIES, SHARES, TOGETHER, KINDS };
    double seconds[KINDS][ROUNDS], times_as_fast[KINDS][ROUNDS];
    struct kolo_detection_result result = {.size = sizeof result};
    struct kolo_comm *self = NULL;
    int ranks = kolo_size(comm);
    check(kolo_split(comm, kolo_rank(comm), 0, NULL, &self), NULL);
    for (int round = 0; round < ROUNDS; round++) {
        check(kolo_barrier(comm, NULL, NULL), NULL);
        double alone = kolo_rank(comm) == 0 ? evaluate(self, whole, &result).both : 0;
        seconds[ALONE][round] = slowest(comm, alone);
        seconds[COPIES][round] = slowest(comm, evaluate(self, whole, &result).both);
        seconds[SHARES][round] = slowest(comm, evaluate(self, share, &result).both);
        seconds[TOGETHER][round] = slowest(comm, evaluate(comm, share, &result).both);
        for (int kind = 0; kind < KINDS; kind++)
            times_as_fast[kind][round] =
                seconds[ALONE][round] / seconds[kind][round] * (kind == COPIES ? ranks : 1);
    }
    if (kolo_rank(comm) == 0)
        printf("%lld detections, alone %.4f s; medians of %d ratios to it: %d at once %.2f times "
               "the work in its time (%.4f s each), a share each and no exchange %.2f times as "
               "fast (%.4f s), together %.2f times as fast (%.4f s)\n",
               (long long)result.detections, median(seconds[ALONE]), ROUNDS, ranks,
               median(times_as_fast[COPIES]), median(seconds[COPIES]),
               median(times_as_fast[SHARES]), median(seconds[SHARES]),
               median(times_as_fast[TOGETHER]), median(seconds[TOGETHER]));
    check(kolo_finalize(self), NULL);
}

static void put(FILE *file, const void *values, size_t count)
{
    if (fwrite(values, 8, count, file) != count)
        exit(1);
}

static void put_images(FILE *file, const struct set *set, const size_t *counts)
{
    for (size_t i = 0; i < set->images; i++)
        for (size_t n = 0; n < counts[i]; n++)
            put(file, &set->id[i], 1);
}

/* In the order of coco.py's write_set(). */
static void write_set(const char *path, const struct set *set)
{
    FILE *file = fopen(path, "wb");
    int64_t head[14] = {(int64_t)set->images, (int64_t)set->truths, (int64_t)set->found,
                        COCO_DATA_CATEGORIES};
    if (!file)
        exit(1);
    put(file, head, 14);
    put(file, set->id, set->images);
    put(file, categories, COCO_DATA_CATEGORIES);
    put_images(file, set, set->truth_counts);
    put(file, set->truth_category, set->truths);
    put(file, set->truth_box, 4 * set->truths);
    put(file, set->truth_area, set->truths);
    for (size_t g = 0; g < set->truths; g++)
        put(file, &(int64_t){set->crowd[g]}, 1);
    put(file, set->truth_id, set->truths);
    for (size_t g = 0; g < set->truths; g++)
        put(file, &(int64_t){0}, 1);
    put_images(file, set, set->counts);
    put(file, set->category, set->found);
    put(file, set->box, 4 * set->found);
    put(file, set->score, set->found);
    fclose(file);
}

static void warm_with(struct kolo_comm *comm, size_t bytes, int64_t *mine, int64_t *all,
                      size_t *counts)
{
    size_t ranks = (size_t)kolo_size(comm), each = (bytes / ranks + 7) / 8;
    for (size_t r = 0; r < ranks; r++)
        counts[r] = each;
    check(kolo_allreduce(comm, mine, all, each * ranks, KOLO_INT64, KOLO_SUM, NULL, NULL), NULL);
    check(kolo_allgather(comm, mine, all, each, KOLO_INT64, NULL, NULL), NULL);
    check(kolo_allgatherv(comm, mine, all, counts, NULL, KOLO_INT64, NULL, NULL), NULL);
    check(kolo_alltoallv(comm, mine, counts, NULL, all, counts, NULL, KOLO_INT64, NULL, NULL),
          NULL);
}

/* Makes the collectives of a compute in every length, so that the communicator has allocated what
 * it keeps for them, even if each length takes another path. */
static void warm(struct kolo_comm *comm)
{
    size_t ranks = (size_t)kolo_size(comm);
    int64_t *mine = room(WARM_BYTES / 8 + ranks, 8), *all = room(WARM_BYTES / 8 + ranks, 8);
    size_t *counts = room(ranks, sizeof *counts);
    for (size_t bytes = 8; bytes <= WARM_BYTES; bytes *= 2)
        warm_with(comm, bytes, mine, all, counts);
    free(mine);
    free(all);
    free(counts);
}

/* Per detection of this rank, or per detection of an equal share if that is more: a rank without
 * any still computes its part of the curves. */
static int measure_memory(struct kolo_comm *comm, const struct set *set)
{
    struct kolo_detection_result result = {.size = sizeof result};
    warm(comm);
    double bytes = evaluate(comm, set, &result).bytes;
    double share = (double)result.detections / kolo_size(comm);
    double found = (double)set->found > share ? (double)set->found : share;
    double most = slowest(comm, bytes / found);
    if (kolo_rank(comm) == 0)
        printf("%d ranks, %lld detections: %.1f bytes a detection and rank, at most %d\n",
               kolo_size(comm), (long long)result.detections, most, BYTES_MAX);
    return most > BYTES_MAX;
}

enum way { RATE, LIMIT, MEMORY, MEMORY_ONE, WAYS };

static enum way way_of(const char *word)
{
    static const char *const words[WAYS] = {"", "limit", "memory", "memory-one"};
    for (int way = LIMIT; word && way < WAYS; way++)
        if (strcmp(word, words[way]) == 0)
            return (enum way)way;
    return RATE;
}

int main(int argc, char **argv)
{
    enum way way = way_of(argv[1]);
    argv += way != RATE;
    argc -= way != RATE;
    size_t images = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 5000;
    int per_image = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 100;
    struct kolo_comm *comm = NULL;
    struct set set, whole;
    for (int k = 0; k < COCO_DATA_CATEGORIES; k++)
        categories[k] = k + 1;
    check(kolo_init(NULL, &comm), NULL);
    int failures = 0;
    if (way == MEMORY_ONE)
        make(&set, kolo_rank(comm) == 0 ? images : 0, per_image, 0, 1);
    else
        make(&set, images, per_image, kolo_rank(comm), kolo_size(comm));
    if (argc > 3 && kolo_rank(comm) == 0)
        write_set(argv[3], &set);
    if (way == LIMIT) {
        make(&whole, images, per_image, 0, 1);
        measure_limit(comm, &set, &whole);
    } else if (way == RATE) {
        measure(comm, &set);
    } else {
        failures = measure_memory(comm, &set);
    }
    check(kolo_finalize(comm), NULL);
    return failures;
}
