// SPDX-License-Identifier: Apache-2.0
// Precision, recall and scores of one category, or of a part of it, after pycocotools' accumulate.
// A point of the curve that may be the highest from there on is a true detection, so only those are
// looked at: how many misses stand before it. Misses are counted by what is left: all detections so
// far, without those left out and the true ones. The places of the recall thresholds are found as
// whole numbers of true detections, and between two of them the highest precision alone is kept.
//
// Most records are misses, and a miss is counted once, at the first cap that lets it through: what
// a cap has seen is what it and those before it have counted.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

/* One cap's and flag's way through a run. What was before the run is in found and known. */
struct lane {
    int64_t found;  /* true detections */
    int64_t known;  /* they and misses, but for what the cap and the area range let through here */
    int64_t next;   /* so many found reach one more recall */
    size_t reached; /* recalls */
    double best;    /* precision since then */
};

struct walk {
    const struct kolo_coco_params *params;
    const struct kolo_coco_needed *needed; /* NULL: counts alone */
    struct kolo_coco_arc *arc;             /* the same */
    size_t flags;
    /* of the caps that let a record through: counted at the first */
    int64_t seen[KOLO_DETECTION_CAPS_MAX];
    int64_t out_of_area[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_AREAS_MAX]; /* at all thresholds */
    struct lane lane[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
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

/* ---- one record ---- */

/* Where the values of a cap and flag begin in an arc. */
static size_t values_of(const struct walk *walk, size_t m, size_t flag)
{
    return (m * walk->flags + flag) * walk->params->recalls;
}

/* Keeps the best precision since the last recall that was reached. */
static void settle(const struct walk *walk, size_t m, size_t flag)
{
    const struct lane *lane = &walk->lane[m][flag];
    if (lane->reached == 0)
        return;
    walk->arc->precision[values_of(walk, m, flag) + lane->reached - 1] = lane->best;
    if (lane->best > walk->arc->highest[m][flag])
        walk->arc->highest[m][flag] = lane->best;
}

/* One more recall at least is reached. */
static void reach(struct walk *walk, size_t m, size_t flag, double score)
{
    struct lane *lane = &walk->lane[m][flag];
    size_t recalls = walk->params->recalls;
    const int64_t *needed = walk->needed->count[flag / walk->params->thresholds];
    double *scores = walk->arc->score + values_of(walk, m, flag);
    settle(walk, m, flag);
    while (lane->reached < recalls && needed[lane->reached] <= lane->found)
        scores[lane->reached++] = score;
    lane->next = lane->reached < recalls ? needed[lane->reached] : INT64_MAX;
    lane->best = 0;
}

/* What is true or left out at some thresholds, by the caps from the first on that let it
 * through. */
static void judge(struct walk *walk, size_t from, double score, uint64_t is_true, uint64_t left_out)
{
    const struct kolo_coco_params *params = walk->params;
    int64_t through[KOLO_DETECTION_AREAS_MAX] = {0};
    for (size_t m = 0; m < params->caps; m++) {
        for (size_t a = 0; a < params->areas; a++)
            through[a] += walk->seen[m] - walk->out_of_area[m][a];
        if (m < from)
            continue;
        for (uint64_t left = is_true; left; left &= left - 1) {
            size_t flag = (size_t)__builtin_ctzll(left);
            struct lane *lane = &walk->lane[m][flag];
            if (++lane->found >= lane->next)
                reach(walk, m, flag, score);
            int64_t counted = lane->known + through[flag / params->thresholds];
            double precision = (double)lane->found / ((double)counted + params->slack);
            lane->best = precision > lane->best ? precision : lane->best;
        }
        for (uint64_t left = left_out; left; left &= left - 1)
            walk->lane[m][__builtin_ctzll(left)].known--;
    }
}

static void add(struct walk *walk, const struct kolo_coco_record *record)
{
    const struct kolo_coco_params *params = walk->params;
    size_t from = 0;
    for (size_t m = 0; m < params->caps; m++)
        from += record->position >= params->cap[m];
    if (from == params->caps)
        return;
    uint64_t is_true = kolo_coco_flags(record->is_true),
             left_out = kolo_coco_flags(record->is_ignored);
    uint64_t range = (UINT64_C(1) << params->thresholds) - 1;
    walk->seen[from]++;
    for (size_t a = 0; a < params->areas; a++, range <<= params->thresholds) {
        bool is_out = (left_out & range) == range;
        walk->out_of_area[from][a] += is_out;
        left_out &= ~(is_out ? range : 0);
    }
    if (is_true | left_out)
        judge(walk, from, record->score, is_true, left_out);
}

/* ---- a run ---- */

/* The recalls that what stands before the run has reached. */
static void start(struct walk *walk, const struct kolo_coco_course *course)
{
    const struct kolo_coco_params *params = walk->params;
    for (size_t m = 0; m < params->caps; m++)
        for (size_t flag = 0; flag < walk->flags; flag++) {
            struct lane *lane = &walk->lane[m][flag];
            *lane = (struct lane){.found = course->is_true[m][flag],
                                  .known = course->is_true[m][flag] + course->misses[m][flag],
                                  .next = INT64_MAX};
            if (!walk->needed)
                continue;
            const int64_t *needed = walk->needed->count[flag / params->thresholds];
            while (lane->found > 0 && lane->reached < params->recalls &&
                   needed[lane->reached] <= lane->found)
                lane->reached++;
            if (lane->reached < params->recalls)
                lane->next = needed[lane->reached];
        }
}

/* The first detection of a class reaches a recall of 0, true or not. It is the best of its image,
 * so each cap lets it through. In a later piece nobody reads these scores. */
static void score_of_first(const struct walk *walk, double score)
{
    for (size_t m = 0; m < walk->params->caps; m++)
        for (size_t flag = 0; flag < walk->flags; flag++)
            if (walk->needed->count[flag / walk->params->thresholds][0] == 0)
                walk->arc->score[values_of(walk, m, flag)] = score;
}

/* @return the score of its first record; 0: it has none. */
static double walk_run(struct walk *walk, struct kolo_coco_run *run)
{
    const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX];
    kolo_coco_run_rewind(run);
    size_t count = kolo_coco_run_take(run, taken);
    double first = count > 0 ? taken[0]->score : 0;
    for (; count > 0; count = kolo_coco_run_take(run, taken))
        for (size_t i = 0; i < count; i++)
            add(walk, taken[i]);
    return first;
}

static void end(struct walk *walk, struct kolo_coco_course *course)
{
    const struct kolo_coco_params *params = walk->params;
    int64_t through[KOLO_DETECTION_AREAS_MAX] = {0}, seen = 0;
    for (size_t m = 0; m < params->caps; m++) {
        seen += walk->seen[m];
        course->seen[m] += seen;
        for (size_t a = 0; a < params->areas; a++)
            through[a] += walk->seen[m] - walk->out_of_area[m][a];
        for (size_t flag = 0; flag < walk->flags; flag++) {
            const struct lane *lane = &walk->lane[m][flag];
            if (walk->needed)
                settle(walk, m, flag);
            course->misses[m][flag] =
                lane->known + through[flag / params->thresholds] - lane->found;
            course->is_true[m][flag] = lane->found;
        }
    }
}

void kolo_coco_pass(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    struct kolo_coco_course *course)
{
    struct walk walk = {.params = params, .flags = params->areas * params->thresholds};
    start(&walk, course);
    (void)walk_run(&walk, run);
    end(&walk, course);
}

void kolo_coco_draw(const struct kolo_coco_params *params, struct kolo_coco_run *run,
                    const struct kolo_coco_needed *needed, struct kolo_coco_course *course,
                    struct kolo_coco_arc *arc)
{
    struct walk walk = {.params = params,
                        .needed = needed,
                        .arc = arc,
                        .flags = params->areas * params->thresholds};
    memset(arc->precision, 0, params->caps * walk.flags * params->recalls * sizeof *arc->precision);
    memset(arc->highest, 0, sizeof arc->highest);
    start(&walk, course);
    double first = walk_run(&walk, run);
    if (run->count > 0)
        score_of_first(&walk, first);
    end(&walk, course);
}
