// SPDX-License-Identifier: Apache-2.0
// Decides which detection takes which ground truth by PASCAL VOC's rules (VOCevaldet.m of its
// development kit). Each detection looks only at the ground truth that it overlaps most, the first
// one among equals, whether or not another has taken it. A difficult ground truth is left out and
// may be taken any number of times. Any other makes one detection true, and all later ones misses.
//
// Also owns VOC's boxes, whose right and bottom pixels are inside: an edge is one longer than the
// difference of its ends.
#include <string.h>

#include "metrics/coco_overlap.h"

struct corners {
    double left, top, right, bottom;
};

static struct corners corners_of(const struct kolo_boxes *boxes, size_t i)
{
    double four[4];
    for (size_t j = 0; j < 4; j++)
        four[j] = boxes->dtype == KOLO_FLOAT32 ? (double)((const float *)boxes->boxes)[4 * i + j]
                                               : ((const double *)boxes->boxes)[4 * i + j];
    bool has_size = boxes->format == KOLO_BOX_XYWH;
    return (struct corners){.left = four[0],
                            .top = four[1],
                            .right = has_size ? four[0] + four[2] : four[2],
                            .bottom = has_size ? four[1] + four[3] : four[3]};
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* Computes the overlap with the same operations as the development kit. */
static double overlap_of(const struct corners *found, const struct corners *truth)
{
    double w = least(found->right, truth->right) - most(found->left, truth->left) + 1;
    double h = least(found->bottom, truth->bottom) - most(found->top, truth->top) + 1;
    if (!(w > 0 && h > 0))
        return 0;
    double either = (found->right - found->left + 1) * (found->bottom - found->top + 1) +
                    (truth->right - truth->left + 1) * (truth->bottom - truth->top + 1) - w * h;
    return w * h / either;
}

void kolo_voc_overlap(const struct kolo_coco_group *group, double *overlaps)
{
    for (size_t d = 0; d < group->detections; d++) {
        struct corners found = corners_of(group->update->found, group->found_number[d]);
        for (size_t g = 0; g < group->truths; g++) {
            struct corners truth = corners_of(group->update->truths, group->truth_number[g]);
            overlaps[d * group->truths + g] = overlap_of(&found, &truth);
        }
    }
}

/* Returns the ground truth that a detection overlaps most, the first one among equals. */
static size_t nearest(const double *overlaps, size_t truths)
{
    size_t best = 0;
    for (size_t g = 1; g < truths; g++)
        if (overlaps[g] > overlaps[best])
            best = g;
    return best;
}

static void match_one(struct kolo_coco_scratch *scratch, double threshold, uint64_t flag,
                      size_t detections, size_t truths)
{
    memset(scratch->taken, 0, truths);
    for (size_t d = 0; d < detections; d++) {
        const double *overlaps = scratch->overlaps + d * truths;
        struct kolo_coco_verdict *verdict = &scratch->verdicts[d];
        size_t g = nearest(overlaps, truths);
        if (!(overlaps[g] >= threshold))
            continue;
        if (scratch->ignored[g]) {
            verdict->is_ignored |= flag;
        } else if (!scratch->taken[g]) {
            scratch->taken[g] = 1;
            verdict->is_true |= flag;
            verdict->is_ignored &= ~flag;
        }
    }
}

void kolo_voc_match(struct kolo_coco_scratch *scratch, const struct kolo_coco_params *params,
                    size_t detections, const struct kolo_coco_truth *truth, size_t truths)
{
    if (truths == 0)
        return;
    for (size_t a = 0; a < params->areas; a++) {
        for (size_t g = 0; g < truths; g++)
            scratch->ignored[g] = kolo_coco_is_left_out(&truth[g], &params->area[a]);
        for (size_t t = 0; t < params->thresholds; t++)
            match_one(scratch, params->threshold[t], UINT64_C(1) << (a * params->thresholds + t),
                      detections, truths);
    }
}
