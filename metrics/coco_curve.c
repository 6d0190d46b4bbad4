// SPDX-License-Identifier: Apache-2.0
// Computes precision, recall and scores of one category, or of a part of it, with the results of
// pycocotools' accumulate. Never moves or copies records: it reads them from a run (coco_run.c).
//
// A point of the curve that may be the highest from there on is always a true detection, so only
// true detections are examined. Each needs the number of misses before it, which follows from other
// counts: all detections so far, without those left out and the true ones. The recall thresholds
// are first converted to whole numbers of true detections, and between two of them only the highest
// precision is kept.
//
// Most records are misses. A miss is counted once, at the first cap that lets it through; the
// number that a cap has seen is the sum of the counts of that cap and of all lower ones.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

/* The counts of one cap and flag along a run. At first, found and known are those before the
 * run. */
struct lane {
    int64_t found; /* true detections */
    /* True detections and misses before the run, less the records of the run that are left out
     * at this threshold; all that the cap lets through are in `seen` and `out_of_area` of the
     * walk. */
    int64_t known;
    int64_t next;   /* the value of found that reaches one more recall */
    size_t reached; /* number of recalls reached */
    double best;    /* highest precision since the last of them was reached */
};

struct walk {
    const struct kolo_coco_params *params;
    const struct kolo_coco_needed *needed; /* NULL: only counts are wanted */
    struct kolo_coco_arc *arc;             /* the same */
    size_t flags;
    /* A record is counted at the first cap that lets it through. */
    int64_t seen[KOLO_DETECTION_CAPS_MAX];
    /* records that are left out at all thresholds of an area range */
    int64_t out_of_area[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_AREAS_MAX];
    struct lane lane[KOLO_DETECTION_CAPS_MAX][KOLO_DETECTION_FLAGS_MAX];
};

/* Returns the least number of true detections whose quotient with @p counted reaches the recall.
 * The product alone may be off by one, because the quotient is rounded. */
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

/* Returns where the values of a cap and flag begin in an arc. */
static size_t values_of(const struct walk *walk, size_t m, size_t flag)
{
    return (m * walk->flags + flag) * walk->params->recalls;
}

/* Stores the best precision since the last recall that was reached. */
static void settle(const struct walk *walk, size_t m, size_t flag)
{
    const struct lane *lane = &walk->lane[m][flag];
    if (lane->reached == 0)
        return;
    walk->arc->precision[values_of(walk, m, flag) + lane->reached - 1] = lane->best;
    if (lane->best > walk->arc->highest[m][flag])
        walk->arc->highest[m][flag] = lane->best;
}

/* Called when at least one more recall is reached. */
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

/* Counts a record that is true, or left out at some thresholds, for the caps from number @p from
 * on, which let it through. */
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

/* Initializes the lanes with what comes before the run, and with the recalls that it reaches. */
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

/* The first detection of a class reaches a recall of 0, whether or not it is true. It is the
 * best of its image, so each cap lets it through. In the later pieces of a class these scores
 * are not read. */
static void score_of_first(const struct walk *walk, double score)
{
    for (size_t m = 0; m < walk->params->caps; m++)
        for (size_t flag = 0; flag < walk->flags; flag++)
            if (walk->needed->count[flag / walk->params->thresholds][0] == 0)
                walk->arc->score[values_of(walk, m, flag)] = score;
}

/* @return the score of the first record; 0 if there is none. */
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
