// SPDX-License-Identifier: Apache-2.0
// Averages as NumPy makes them, which decides their last bit, and pycocotools' twelve numbers.
#include <math.h>

#include "base/alloc.h"
#include "metrics/coco.h"

enum { PAIRWISE_MOST = 128, NUMPY_1_BLOCK = 8192 };

/* numpy's pairwise_sum */
static double pairwise(const double *values, size_t count)
{
    if (count < 8) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += values[i];
        return sum;
    }
    if (count > PAIRWISE_MOST) {
        size_t half = count / 2;
        half -= half % 8;
        return pairwise(values, half) + pairwise(values + half, count - half);
    }
    double sums[8];
    for (size_t i = 0; i < 8; i++)
        sums[i] = values[i];
    size_t i = 8;
    for (; i < count - count % 8; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += values[i + j];
    double sum =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < count; i++)
        sum += values[i];
    return sum;
}

double kolo_coco_sum(const double *values, size_t count, kolo_mean_rule rule)
{
    size_t block = rule == KOLO_MEAN_NUMPY_1 ? NUMPY_1_BLOCK : count;
    double sum = 0;
    for (size_t i = 0; i < count; i += block)
        sum += pairwise(values + i, count - i < block ? count - i : block);
    return sum;
}

double kolo_coco_mean(const double *values, size_t count, kolo_mean_rule rule)
{
    return kolo_coco_sum(values, count, rule) / (double)count;
}

static size_t gather(const struct kolo_coco_params *params, const struct kolo_coco_arrays *arrays,
                     const struct kolo_detection_slice *slice, double *values)
{
    size_t points = slice->of_recall ? 1 : params->recalls;
    const double *array = slice->of_recall ? arrays->recall : arrays->precision;
    size_t first_t = slice->threshold < 0 ? 0 : (size_t)slice->threshold;
    size_t end_t = slice->threshold < 0 ? params->thresholds : first_t + 1;
    size_t first_k = slice->category < 0 ? 0 : (size_t)slice->category;
    size_t end_k = slice->category < 0 ? params->classes : first_k + 1;
    size_t count = 0;
    for (size_t row = first_t * points; row < end_t * points; row++)
        for (size_t k = first_k; k < end_k; k++) {
            if (slice->group > 0 && (params->any_category || params->group[k] != slice->group))
                continue;
            double value = array[kolo_coco_at(params, row, k, slice->area, slice->cap)];
            if (value > -1)
                values[count++] = value;
        }
    return count;
}

kolo_status kolo_coco_average(const struct kolo_coco_params *params,
                              const struct kolo_coco_arrays *arrays,
                              const struct kolo_detection_slice *slice, double *average_out)
{
    size_t rows =
        (slice->threshold < 0 ? params->thresholds : 1) * (slice->of_recall ? 1 : params->recalls);
    double *values =
        kolo_calloc(rows * (slice->category < 0 ? params->classes : 1), sizeof *values);
    if (!values)
        return KOLO_ERR_NO_MEMORY;
    size_t count = gather(params, arrays, slice, values);
    *average_out = count > 0 ? kolo_coco_mean(values, count, params->mean_rule) : -1;
    kolo_free_memory(values);
    return KOLO_OK;
}

/* A number whose setting is not there is -1. */
struct number {
    bool of_recall;
    double threshold; /* 0: all */
    size_t area, cap;
    int cap_value; /* 0: by place */
    int64_t group;
};

/* pycocotools takes the AP at a cap of 100 and AP50 and the rest at the third cap, whatever it is;
 * AR at the first three. */
static const struct number coco_numbers[] = {
    {.cap_value = 100},
    {.threshold = 0.5, .cap = 2},
    {.threshold = 0.75, .cap = 2},
    {.area = 1, .cap = 2},
    {.area = 2, .cap = 2},
    {.area = 3, .cap = 2},
    {.of_recall = true, .cap = 0},
    {.of_recall = true, .cap = 1},
    {.of_recall = true, .cap = 2},
    {.of_recall = true, .area = 1, .cap = 2},
    {.of_recall = true, .area = 2, .cap = 2},
    {.of_recall = true, .area = 3, .cap = 2},
};

/* Of keypoints all at a cap of 20; there are no small ones. */
enum { POINTS_CAP = 20 };
static const struct number point_numbers[] = {
    {.cap_value = POINTS_CAP},
    {.cap_value = POINTS_CAP, .threshold = 0.5},
    {.cap_value = POINTS_CAP, .threshold = 0.75},
    {.cap_value = POINTS_CAP, .area = 1},
    {.cap_value = POINTS_CAP, .area = 2},
    {.cap_value = POINTS_CAP, .of_recall = true},
    {.cap_value = POINTS_CAP, .of_recall = true, .threshold = 0.5},
    {.cap_value = POINTS_CAP, .of_recall = true, .threshold = 0.75},
    {.cap_value = POINTS_CAP, .of_recall = true, .area = 1},
    {.cap_value = POINTS_CAP, .of_recall = true, .area = 2},
};

/* LVIS has one cap; groups are rare, common and frequent categories. */
static const struct number lvis_numbers[] = {
    {.cap = 0},
    {.threshold = 0.5},
    {.threshold = 0.75},
    {.area = 1},
    {.area = 2},
    {.area = 3},
    {.group = 1},
    {.group = 2},
    {.group = 3},
    {.of_recall = true},
    {.of_recall = true, .area = 1},
    {.of_recall = true, .area = 2},
    {.of_recall = true, .area = 3},
};

/* false: there is no such threshold, area range or cap. */
static bool find_slice(const struct kolo_coco_params *params, const struct number *number,
                       struct kolo_detection_slice *slice)
{
    *slice = (struct kolo_detection_slice){.of_recall = number->of_recall,
                                           .threshold = -1,
                                           .category = -1,
                                           .area = number->area,
                                           .cap = number->cap,
                                           .group = number->group};
    for (size_t t = 0; number->threshold > 0 && t < params->thresholds; t++)
        if (params->threshold[t] == number->threshold)
            slice->threshold = (int64_t)t;
    if (number->threshold > 0 && slice->threshold < 0)
        return false;
    if (number->cap_value > 0) {
        while (slice->cap < params->caps && params->cap[slice->cap] != number->cap_value)
            slice->cap++;
    }
    return slice->cap < params->caps && slice->area < params->areas;
}

static kolo_status average_numbers(const struct kolo_coco_params *params,
                                   const struct kolo_coco_arrays *arrays,
                                   const struct number *numbers, size_t count,
                                   const struct kolo_coco_turn *turn, double *stats)
{
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        struct kolo_detection_slice slice;
        if (i % turn->ranks != turn->rank) {
            stats[i] = -INFINITY;
            continue;
        }
        if (find_slice(params, &numbers[i], &slice))
            status = kolo_coco_average(params, arrays, &slice, &stats[i]);
    }
    return status;
}

kolo_status kolo_coco_stats(const struct kolo_coco_params *params,
                            const struct kolo_coco_arrays *arrays,
                            const struct kolo_coco_turn *turn,
                            double stats[KOLO_DETECTION_STATS_MAX], size_t *count_out)
{
    const struct number *numbers = coco_numbers;
    *count_out = sizeof coco_numbers / sizeof *coco_numbers;
    for (size_t i = 0; i < KOLO_DETECTION_STATS_MAX; i++)
        stats[i] = -1;
    if (params->rules == KOLO_DETECTION_VOC)
        return kolo_voc_stats(params, arrays, stats, count_out);
    if (params->rules == KOLO_DETECTION_LVIS) {
        numbers = lvis_numbers;
        *count_out = sizeof lvis_numbers / sizeof *lvis_numbers;
    } else if (params->kind == KOLO_DETECTION_KEYPOINTS) {
        numbers = point_numbers;
        *count_out = sizeof point_numbers / sizeof *point_numbers;
    }
    return average_numbers(params, arrays, numbers, *count_out, turn, stats);
}
