// SPDX-License-Identifier: Apache-2.0
// Decides which detection takes which ground truth, as pycocotools' evaluateImg does. Detections
// choose in the order of their scores. Each takes the free ground truth that it overlaps most, the
// last one among equals. It takes one that is left out only if there is no other. A crowd may be
// taken any number of times. Owns no input, and must never look at boxes or scores.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

kolo_status kolo_coco_scratch_grow(struct kolo_coco_scratch *scratch, size_t detections,
                                   size_t truths)
{
    kolo_status status;
    KOLO_TRY(kolo_grow((void **)&scratch->overlaps, &scratch->overlap_room, detections * truths,
                       sizeof *scratch->overlaps));
    KOLO_TRY(kolo_grow((void **)&scratch->verdicts, &scratch->verdict_room, detections,
                       sizeof *scratch->verdicts));
    KOLO_TRY(kolo_grow((void **)&scratch->hopeful, &scratch->hopeful_room, detections,
                       sizeof *scratch->hopeful));
    KOLO_TRY(kolo_grow((void **)&scratch->ignored, &scratch->ignored_room, truths, 1));
    KOLO_TRY(kolo_grow((void **)&scratch->taken, &scratch->taken_room, truths, 1));
    KOLO_TRY(
        kolo_grow((void **)&scratch->order, &scratch->order_room, truths, sizeof *scratch->order));
out:
    return status;
}

void kolo_coco_scratch_free(struct kolo_coco_scratch *scratch)
{
    kolo_free_memory(scratch->overlaps);
    kolo_free_memory(scratch->verdicts);
    kolo_free_memory(scratch->hopeful);
    kolo_free_memory(scratch->ignored);
    kolo_free_memory(scratch->taken);
    kolo_free_memory(scratch->order);
    *scratch = (struct kolo_coco_scratch){.overlaps = NULL};
}

bool kolo_coco_is_left_out(const struct kolo_coco_truth *truth, const struct kolo_area_range *area)
{
    return truth->is_ignored || truth->area < area->low || truth->area > area->high;
}

/* Puts ground truths that count first and those left out after them, both in their own order. */
static void order_truths(struct kolo_coco_scratch *scratch, const struct kolo_coco_truth *truth,
                         size_t truths, const struct kolo_area_range *area)
{
    size_t counted = 0;
    for (size_t g = 0; g < truths; g++) {
        scratch->ignored[g] = kolo_coco_is_left_out(&truth[g], area);
        if (!scratch->ignored[g])
            scratch->order[counted++] = (uint32_t)g;
    }
    for (size_t g = 0; counted < truths; g++)
        if (scratch->ignored[g])
            scratch->order[counted++] = (uint32_t)g;
}

/* Returns the ground truth that a detection takes; -1: none. */
static int64_t choose(const struct kolo_coco_scratch *scratch, const double *overlaps,
                      const struct kolo_coco_truth *truth, size_t truths, double threshold)
{
    double best = threshold;
    int64_t found = -1;
    for (size_t i = 0; i < truths; i++) {
        uint32_t g = scratch->order[i];
        if (scratch->taken[g] && !truth[g].is_crowd)
            continue;
        if (found >= 0 && !scratch->ignored[found] && scratch->ignored[g])
            break;
        if (overlaps[g] < best)
            continue;
        best = overlaps[g];
        found = g;
    }
    return found;
}

/* Finds the detections that may take a ground truth at some threshold; the others are misses at
 * all thresholds. */
static size_t find_hopeful(struct kolo_coco_scratch *scratch, size_t detections, size_t truths,
                           double lowest)
{
    size_t count = 0;
    for (size_t d = 0; d < detections; d++) {
        const double *overlaps = scratch->overlaps + d * truths;
        bool reaches = false;
        for (size_t g = 0; g < truths; g++)
            reaches |= !(overlaps[g] < lowest); /* true for NaN, from areas that underflow */
        scratch->hopeful[count] = (uint32_t)d;
        count += reaches;
    }
    return count;
}

/* Sets all verdicts to misses. A miss of a detection outside an area range does not count in
 * that range; a miss that may be right (partial) counts in none. */
static void judge_misses(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                         const double *areas, const uint8_t *partial, size_t detections)
{
    uint64_t all = (UINT64_C(1) << params->thresholds) - 1;
    for (size_t d = 0; d < detections; d++) {
        uint64_t ignored = partial[d] ? UINT64_MAX >> (64 - params->areas * params->thresholds) : 0;
        for (size_t a = 0; a < params->areas; a++)
            if (areas[d] < params->area[a].low || areas[d] > params->area[a].high)
                ignored |= all << a * params->thresholds;
        scratch->verdicts[d] = (struct kolo_coco_verdict){.is_ignored = ignored};
    }
}

/* pycocotools limits the threshold, so that an overlap of 1 that was rounded down still matches. */
static double reachable(double threshold)
{
    return fmin(threshold, 1 - 1e-10);
}

static void match_one(struct kolo_coco_scratch *scratch, double threshold, size_t bit,
                      size_t hopeful, const struct kolo_coco_truth *truth, size_t truths)
{
    uint64_t flag = UINT64_C(1) << bit;
    memset(scratch->taken, 0, truths);
    for (size_t i = 0; i < hopeful; i++) {
        uint32_t d = scratch->hopeful[i];
        struct kolo_coco_verdict *verdict = &scratch->verdicts[d];
        int64_t g = choose(scratch, scratch->overlaps + d * truths, truth, truths, threshold);
        if (g < 0)
            continue;
        scratch->taken[g] = 1;
        if (scratch->ignored[g]) {
            verdict->is_ignored |= flag;
        } else if (!truth[g].is_unseen) {
            verdict->is_true |= flag;
            verdict->is_ignored &= ~flag;
        } /* unseen: the detection stays a miss, but the ground truth is taken */
    }
}

void kolo_coco_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                     const double *areas, const uint8_t *partial, size_t detections,
                     const struct kolo_coco_truth *truth, size_t truths)
{
    judge_misses(scratch, params, areas, partial, detections);
    if (params->rules == KOLO_DETECTION_VOC) {
        kolo_voc_match(scratch, params, detections, truth, truths);
        return;
    }
    if (truths == 0)
        return;
    size_t hopeful = find_hopeful(scratch, detections, truths, reachable(params->threshold[0]));
    if (hopeful == 0)
        return;
    for (size_t a = 0; a < params->areas; a++) {
        order_truths(scratch, truth, truths, &params->area[a]);
        for (size_t t = 0; t < params->thresholds; t++)
            match_one(scratch, reachable(params->threshold[t]), a * params->thresholds + t, hopeful,
                      truth, truths);
    }
}
