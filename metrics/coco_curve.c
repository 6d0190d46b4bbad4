// SPDX-License-Identifier: Apache-2.0
// Precision, recall and scores of one category, or of a part of it, after pycocotools' accumulate. A
// point of the curve that may be the highest from there on is a true detection, so only those are
// looked at: how many misses stand before it. Misses are counted by what is left: all detections so
// far, without those left out and the true ones. The places of the recall thresholds are found as
// whole numbers of true detections, and between two of them the highest precision alone is kept.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

/* One cap's way through a run. */
struct walk {
    const struct kolo_coco_params *params;
    const struct kolo_coco_needed *needed; /* NULL: counts alone */
    const int64_t *true_before, *misses_before;
    double *precision, *score;                     /* of this cap */
    const struct kolo_coco_record *first;          /* that the cap lets through */
    int64_t seen;                                  /* in the run, as all that follows */
    int64_t out_of_area[KOLO_DETECTION_AREAS_MAX]; /* misses left out at all thresholds */
    int64_t left_out[KOLO_DETECTION_FLAGS_MAX];    /* others that are left out */
    int64_t is_true[KOLO_DETECTION_FLAGS_MAX];
    size_t reached[KOLO_DETECTION_FLAGS_MAX]; /* recalls */
};

/* The least number of true detections that reaches a recall, by the division that is compared. */
static int64_t needed_for(double recall, int64_t counted)
{
    int64_t needed = (int64_t)ceil(recall * (double)counted);
    while (needed > 0 && (double)(needed - 1) / (double)counted >= recall)
        needed--;
    while ((double)needed / (double)counted < recall)
        needed++;
    return needed;
}

void kolo_coco_need(const struct kolo_coco_params *params, const int64_t *counted,
                    struct kolo_coco_needed *needed)
{
    for (size_t a = 0; a < params->areas; a++)
        for (size_t r = 0; r < params->recalls; r++)
            needed->count[a][r] =
                counted[a] > 0 ? needed_for(params->recall[r], counted[a]) : INT64_MAX;
}

kolo_status kolo_coco_arc_make(struct kolo_coco_arc *arc, const struct kolo_coco_params *params)
{
    size_t points = params->caps * params->areas * params->thresholds * params->recalls;
    arc->precision = kolo_calloc(points, sizeof *arc->precision);
    arc->score = kolo_calloc(points, sizeof *arc->score);
    return arc->precision && arc->score ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

void kolo_coco_arc_free(struct kolo_coco_arc *arc)
{
    kolo_free_memory(arc->precision);
    kolo_free_memory(arc->score);
    *arc = (struct kolo_coco_arc){.precision = NULL};
}

static int64_t misses_of(const struct walk *walk, size_t flag, size_t area)
{
    return walk->misses_before[flag] + walk->seen - walk->out_of_area[area] - walk->left_out[flag] -
           walk->is_true[flag];
}

static void add_true(struct walk *walk, size_t flag, double score)
{
    size_t a = flag / walk->params->thresholds, recalls = walk->params->recalls;
    int64_t misses = misses_of(walk, flag, a);
    int64_t found = walk->true_before[flag] + ++walk->is_true[flag];
    if (!walk->needed)
        return;
    const int64_t *needed = walk->needed->count[a];
    size_t *reached = &walk->reached[flag];
    while (*reached < recalls && needed[*reached] <= found)
        walk->score[flag * recalls + (*reached)++] = score;
    double precision = (double)found / ((double)misses + (double)found + walk->params->slack);
    if (*reached > 0 && precision > walk->precision[flag * recalls + *reached - 1])
        walk->precision[flag * recalls + *reached - 1] = precision;
}

static void add(struct walk *walk, const struct kolo_coco_record *record)
{
    size_t thresholds = walk->params->thresholds;
    uint64_t all = (UINT64_C(1) << thresholds) - 1;
    uint64_t is_true = kolo_coco_flags(record->is_true),
             ignored = kolo_coco_flags(record->is_ignored);
    for (uint64_t left = is_true; left; left &= left - 1)
        add_true(walk, (size_t)__builtin_ctzll(left), record->score);
    for (size_t a = 0; a < walk->params->areas; a++) {
        uint64_t here = ignored >> a * thresholds & all;
        if (here == all) {
            walk->out_of_area[a]++;
            continue;
        }
        for (; here; here &= here - 1)
            walk->left_out[a * thresholds + (size_t)__builtin_ctzll(here)]++;
    }
    walk->seen++;
}

/* The recalls that what stands before the run has reached. */
static void start(struct walk *walk)
{
    const struct kolo_coco_params *params = walk->params;
    for (size_t flag = 0; flag < params->areas * params->thresholds; flag++) {
        const int64_t *needed = walk->needed->count[flag / params->thresholds];
        while (walk->true_before[flag] > 0 && walk->reached[flag] < params->recalls &&
               needed[walk->reached[flag]] <= walk->true_before[flag])
            walk->reached[flag]++;
    }
}

/* The first detection reaches a recall of 0, true or not. */
static void score_of_first(struct walk *walk, double score)
{
    const struct kolo_coco_params *params = walk->params;
    for (size_t flag = 0; flag < params->areas * params->thresholds; flag++)
        if (walk->needed->count[flag / params->thresholds][0] == 0)
            walk->score[flag * params->recalls] = score;
}

enum {
    AHEAD = 8
}; /* records that are asked for before their turn: they stand anywhere in memory */

static void walk_run(struct walk *walk, const struct kolo_coco_run *run)
{
    const struct kolo_coco_params *params = walk->params;
    for (size_t i = 0; i < run->count; i++) {
        const struct kolo_coco_record *record = kolo_coco_run_at(run, i);
        if (i + AHEAD < run->count)
            __builtin_prefetch(kolo_coco_run_at(run, i + AHEAD));
        for (size_t m = params->caps; m-- > 0 && record->position < params->cap[m];) {
            if (!walk[m].first)
                walk[m].first = record;
            add(&walk[m], record);
        }
    }
}

static void end(struct walk *walk, size_t m, struct kolo_coco_course *course)
{
    const struct kolo_coco_params *params = walk->params;
    if (walk->needed && walk->first) /* of a later piece nobody reads it */
        score_of_first(walk, walk->first->score);
    course->seen[m] += walk->seen;
    for (size_t flag = 0; flag < params->areas * params->thresholds; flag++) {
        course->misses[m][flag] = misses_of(walk, flag, flag / params->thresholds);
        course->is_true[m][flag] += walk->is_true[flag];
    }
}

void kolo_coco_pass(const struct kolo_coco_params *params, const struct kolo_coco_run *run,
                    struct kolo_coco_course *course)
{
    struct walk walk[KOLO_DETECTION_CAPS_MAX];
    for (size_t m = 0; m < params->caps; m++)
        walk[m] = (struct walk){.params = params,
                                .true_before = course->is_true[m],
                                .misses_before = course->misses[m]};
    walk_run(walk, run);
    for (size_t m = 0; m < params->caps; m++)
        end(&walk[m], m, course);
}

static double highest_of(const double *precision, size_t recalls)
{
    double highest = 0;
    for (size_t r = 0; r < recalls; r++)
        highest = precision[r] > highest ? precision[r] : highest;
    return highest;
}

void kolo_coco_draw(const struct kolo_coco_params *params, const struct kolo_coco_run *run,
                    const struct kolo_coco_needed *needed, struct kolo_coco_course *course,
                    struct kolo_coco_arc *arc)
{
    struct walk walk[KOLO_DETECTION_CAPS_MAX];
    size_t flags = params->areas * params->thresholds, recalls = params->recalls;
    memset(arc->precision, 0, params->caps * flags * recalls * sizeof *arc->precision);
    for (size_t m = 0; m < params->caps; m++) {
        walk[m] = (struct walk){.params = params,
                                .needed = needed,
                                .true_before = course->is_true[m],
                                .misses_before = course->misses[m],
                                .precision = arc->precision + m * flags * recalls,
                                .score = arc->score + m * flags * recalls};
        start(&walk[m]);
    }
    walk_run(walk, run);
    for (size_t m = 0; m < params->caps; m++) {
        end(&walk[m], m, course);
        for (size_t flag = 0; flag < flags; flag++)
            arc->highest[m][flag] = highest_of(walk[m].precision + flag * recalls, recalls);
    }
}
