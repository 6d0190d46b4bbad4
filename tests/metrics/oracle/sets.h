// SPDX-License-Identifier: Apache-2.0
// What coco_eval and segm_eval share: sets in files, as sets.py knows them, of native int64 and
// float64; which rank has which image; and results that must be the same bits for all worlds. It
// ends the process where something is wrong.
#ifndef KOLO_TESTS_ORACLE_SETS_H
#define KOLO_TESTS_ORACLE_SETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/detection.h>

static inline void die(const char *what)
{
    fprintf(stderr, "evaluation: %s: %s\n", what, kolo_error_detail());
    exit(1);
}

static inline void *need(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        die("out of memory");
    return memory;
}

static inline void *read_array(FILE *file, size_t count, size_t bytes)
{
    void *array = need(count, bytes);
    if (fread(array, bytes, count, file) != count)
        die("the set is too short");
    return array;
}

enum { STRIDED, BLOCK, HASHED, ONE_HAS_ALL, BACKWARDS };

/** Does this rank have the image? Some images are on two ranks, as padding makes them. */
static inline bool has(int64_t deal, size_t image, size_t images, int rank, int ranks)
{
    size_t r = (size_t)rank, n = (size_t)ranks, padded = image % 5 == 0 ? image + 1 : image;
    switch (deal) {
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

/** A set's results on one rank, which others are compared with. */
struct outcome {
    const char *out; /* the file they go to */
    double *values;  /* precision, recall, scores, stats; voc's points and areas */
    int64_t counts[3];
    bool is_kept;
};

static inline size_t copy(double *to, const double *from, size_t count)
{
    if (from)
        memcpy(to, from, count * sizeof *to);
    return from ? count : 0;
}

/** Keeps the first result, compares others with it. */
static inline void look(struct outcome *outcome, const struct kolo_detection_result *result,
                        int ranks)
{
    size_t ends = result->thresholds * result->categories * result->areas * result->caps;
    size_t points = ends * result->recalls, n = 0;
    double *values = need(2 * points + 3 * ends + KOLO_DETECTION_STATS_MAX, sizeof *values);
    const int64_t counts[] = {result->images, result->truths, result->detections};
    n += copy(values + n, result->precision, points);
    n += copy(values + n, result->recall, ends);
    n += copy(values + n, result->scores, points);
    n += copy(values + n, result->stats, KOLO_DETECTION_STATS_MAX);
    n += copy(values + n, result->voc_points, ends);
    n += copy(values + n, result->voc_areas, ends);
    if (!outcome->is_kept) {
        FILE *file = fopen(outcome->out, "wb");
        if (!file || fwrite(values, 8, n, file) != n || fclose(file))
            die(outcome->out);
        outcome->values = values;
        memcpy(outcome->counts, counts, sizeof counts);
        outcome->is_kept = true;
        return;
    }
    if (memcmp(values, outcome->values, n * sizeof *values) ||
        memcmp(counts, outcome->counts, sizeof counts)) {
        fprintf(stderr, "evaluation: %s: %d ranks have other results than one\n", outcome->out,
                ranks);
        exit(1);
    }
    free(values);
}

/** Gives a rank's images to the detection. */
typedef kolo_status feed_of(const void *set, struct kolo_detection *detection, int rank, int ranks);

/** All of a rank. */
static inline kolo_status evaluate(struct kolo_comm *comm,
                                   const struct kolo_detection_config *config, feed_of *feed,
                                   const void *set, struct outcome *outcome)
{
    struct kolo_detection *detection = NULL;
    struct kolo_detection_result result = {.size = sizeof result};
    kolo_status status = kolo_detection_create(config, &detection);
    if (status == KOLO_OK)
        status = feed(set, detection, kolo_rank(comm), kolo_size(comm));
    if (status == KOLO_OK)
        status = kolo_detection_compute(comm, detection, NULL);
    if (status == KOLO_OK)
        status = kolo_detection_result(detection, &result);
    if (status == KOLO_OK)
        look(outcome, &result, kolo_size(comm));
    kolo_detection_destroy(detection);
    return status;
}

/** The set of a file on one rank, then on as many as it asks for, by threads; EVALUATE_ON=one: on
 * one alone, which takes a fraction of the time. */
static inline void in_worlds(const char *path, int64_t ranks,
                             kolo_status (*rank_main)(struct kolo_comm *, void *), void *job)
{
    const char *on = getenv("EVALUATE_ON");
    if (kolo_run_threads(1, NULL, rank_main, job) != KOLO_OK)
        die(path);
    if (ranks > 1 && !(on && strcmp(on, "one") == 0) &&
        kolo_run_threads((int)ranks, NULL, rank_main, job) != KOLO_OK)
        die(path);
}

#endif
