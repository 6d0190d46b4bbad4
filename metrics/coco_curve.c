// SPDX-License-Identifier: Apache-2.0
// Precision, recall and scores of one category, after pycocotools' accumulate. A point of the curve
// that may be the highest from there on is a true detection, so only those are listed: how many
// misses stand before it. Misses are counted by what is left: all detections so far, without those
// left out and the true ones. The places of the recall thresholds are found as whole numbers of true
// detections.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

/* What is known after some records, for each flag (area range and threshold). */
struct course {
    size_t seen;
    const struct kolo_coco_record *first;
    size_t out_of_area[KOLO_DETECTION_AREAS_MAX]; /* misses left out at all thresholds */
    size_t left_out[KOLO_DETECTION_FLAGS_MAX];    /* others that are left out */
    size_t is_true[KOLO_DETECTION_FLAGS_MAX];
};

struct curve {
    const struct kolo_coco_params *params;
    const int64_t *counted;
    size_t start[KOLO_DETECTION_FLAGS_MAX]; /* of each flag's part of the lists */
    double *precision;                      /* of true detections */
    double *score;
    int64_t needed[KOLO_DETECTION_AREAS_MAX]
                  [KOLO_DETECTION_RECALLS_MAX]; /* true ones, per recall */
};

static uint64_t flags_of(const uint8_t *bytes)
{
    uint64_t flags = 0;
    for (size_t i = 0; i < KOLO_COCO_FLAG_BYTES; i++)
        flags |= (uint64_t)bytes[i] << 8 * i;
    return flags;
}

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

static kolo_status prepare(struct curve *curve, size_t count)
{
    const struct kolo_coco_params *params = curve->params;
    size_t sum = 0;
    for (size_t a = 0; a < params->areas; a++) {
        size_t most = (size_t)curve->counted[a] < count ? (size_t)curve->counted[a] : count;
        for (size_t t = 0; t < params->thresholds; t++) {
            curve->start[a * params->thresholds + t] = sum;
            sum += most;
        }
        for (size_t r = 0; curve->counted[a] > 0 && r < params->recalls; r++)
            curve->needed[a][r] = needed_for(params->recall[r], curve->counted[a]);
    }
    curve->precision = kolo_calloc(sum, sizeof *curve->precision);
    curve->score = kolo_calloc(sum, sizeof *curve->score);
    return curve->precision && curve->score ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void add_true(struct curve *curve, struct course *course, size_t flag, double score)
{
    size_t a = flag / curve->params->thresholds;
    size_t misses =
        course->seen - course->out_of_area[a] - course->left_out[flag] - course->is_true[flag];
    size_t at = curve->start[flag] + course->is_true[flag]++;
    double is_true = (double)course->is_true[flag];
    curve->precision[at] = is_true / ((double)misses + is_true + 0x1p-52);
    curve->score[at] = score;
}

static void add(struct curve *curve, struct course *course, const struct kolo_coco_record *record)
{
    size_t thresholds = curve->params->thresholds;
    uint64_t all = (UINT64_C(1) << thresholds) - 1;
    uint64_t is_true = flags_of(record->is_true), ignored = flags_of(record->is_ignored);
    for (uint64_t left = is_true; left; left &= left - 1)
        add_true(curve, course, (size_t)__builtin_ctzll(left), record->score);
    for (size_t a = 0; a < curve->params->areas; a++) {
        uint64_t here = ignored >> a * thresholds & all;
        if (here == all) {
            course->out_of_area[a]++;
            continue;
        }
        for (; here; here &= here - 1)
            course->left_out[a * thresholds + (size_t)__builtin_ctzll(here)]++;
    }
    if (!course->first)
        course->first = record;
    course->seen++;
}

/* Each point takes the highest precision from there on. */
static void raise_precision(double *precision, size_t count)
{
    for (size_t i = count; i-- > 1;)
        if (precision[i] > precision[i - 1])
            precision[i - 1] = precision[i];
}

static void write_flag(const struct curve *curve, const struct course *course, size_t a, size_t t,
                       size_t category, size_t m, const struct kolo_coco_arrays *arrays)
{
    const struct kolo_coco_params *params = curve->params;
    size_t flag = a * params->thresholds + t, found = course->is_true[flag];
    double *precision = curve->precision + curve->start[flag];
    const double *score = curve->score + curve->start[flag];
    raise_precision(precision, found);
    if (course->seen > 0)
        arrays->recall[kolo_coco_at(params, t, category, a, m)] =
            (double)found / (double)curve->counted[a];
    for (size_t r = 0; course->seen > 0 && r < params->recalls; r++) {
        size_t at = kolo_coco_at(params, t * params->recalls + r, category, a, m);
        size_t needed = (size_t)curve->needed[a][r];
        if (needed > found)
            break; /* so are the later ones; they stay 0 */
        if (needed > 0) {
            arrays->precision[at] = precision[needed - 1];
            arrays->scores[at] = score[needed - 1];
        } else { /* the first detection reaches a recall of 0, true or not */
            arrays->precision[at] = found > 0 ? precision[0] : 0;
            arrays->scores[at] = course->first->score;
        }
    }
}

static void write_cap(struct curve *curve, size_t category, size_t m,
                      const struct kolo_coco_record *records, const uint32_t *order, size_t count,
                      const struct kolo_coco_arrays *arrays)
{
    const struct kolo_coco_params *params = curve->params;
    struct course course = {.seen = 0};
    for (size_t i = 0; i < count; i++)
        if (records[order[i]].position < params->cap[m])
            add(curve, &course, &records[order[i]]);
    for (size_t a = 0; a < params->areas; a++)
        for (size_t t = 0; curve->counted[a] > 0 && t < params->thresholds; t++)
            write_flag(curve, &course, a, t, category, m, arrays);
}

kolo_status kolo_coco_curve(const struct kolo_coco_params *params, size_t category,
                            const struct kolo_coco_record *records, const uint32_t *order,
                            size_t count, const int64_t *counted,
                            const struct kolo_coco_arrays *arrays)
{
    struct curve *curve = kolo_calloc(1, sizeof *curve);
    if (!curve)
        return KOLO_ERR_NO_MEMORY;
    curve->params = params;
    curve->counted = counted;
    kolo_status status = prepare(curve, count);
    for (size_t m = 0; status == KOLO_OK && m < params->caps; m++)
        write_cap(curve, category, m, records, order, count, arrays);
    kolo_free_memory(curve->precision);
    kolo_free_memory(curve->score);
    kolo_free_memory(curve);
    return status;
}
