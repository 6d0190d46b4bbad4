// SPDX-License-Identifier: Apache-2.0
// Computes averages with NumPy's order of additions, which decides their last bit, and the summary
// numbers of pycocotools (twelve for boxes and masks, ten for keypoints) and of the lvis package.
// Owns nothing.
#include <math.h>

#include "metrics/coco.h"

enum { PAIRWISE_MOST = 128, NUMPY_1_BLOCK = 8192 };

/* Where the values of a sum come from, in order. */
struct source {
    /* Returns the next values: where they are stored, or copied into @p block. */
    const double *(*take)(struct source *source, size_t count, double block[PAIRWISE_MOST]);
};

static double sum_of(const double *values, size_t count)
{
    if (count < 8) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += values[i];
        return sum;
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

/* NumPy's pairwise_sum. It reads the values from the first to the last. */
static double pairwise(struct source *source, size_t count)
{
    double block[PAIRWISE_MOST];
    if (count <= PAIRWISE_MOST)
        return sum_of(source->take(source, count, block), count);
    size_t half = count / 2;
    half -= half % 8;
    double first = pairwise(source, half);
    return first + pairwise(source, count - half);
}

static double sum_by(struct source *source, size_t count, kolo_mean_rule rule)
{
    size_t block = rule == KOLO_MEAN_NUMPY_1 ? NUMPY_1_BLOCK : count;
    double sum = 0;
    for (size_t i = 0; i < count; i += block)
        sum += pairwise(source, count - i < block ? count - i : block);
    return sum;
}

/* ---- of a list ---- */

struct list {
    struct source source;
    const double *next;
};

static const double *take_of_list(struct source *source, size_t count, double block[PAIRWISE_MOST])
{
    struct list *list = (struct list *)source;
    const double *values = list->next;
    (void)block;
    list->next += count;
    return values;
}

double kolo_coco_sum(const double *values, size_t count, kolo_mean_rule rule)
{
    struct list list = {.source.take = take_of_list, .next = values};
    return sum_by(&list.source, count, rule);
}

double kolo_coco_mean(const double *values, size_t count, kolo_mean_rule rule)
{
    return kolo_coco_sum(values, count, rule) / (double)count;
}

/* ---- of a slice of the results ---- */

/* The entries of a slice that are not -1, in rows of categories. */
struct entries {
    struct source source;
    const struct kolo_coco_params *params;
    const struct kolo_detection_slice *slice;
    const double *array;
    size_t first_row, end_row, first_class, end_class;
    size_t row, class; /* of the next entry */
};

static void open_slice(struct entries *entries, const struct kolo_coco_params *params,
                       const struct kolo_coco_arrays *arrays,
                       const struct kolo_detection_slice *slice)
{
    size_t points = slice->of_recall ? 1 : params->recalls;
    bool is_one = slice->category >= 0, has_all = slice->threshold < 0;
    size_t first = has_all ? 0 : (size_t)slice->threshold;
    *entries =
        (struct entries){.params = params,
                         .slice = slice,
                         .array = slice->of_recall ? arrays->recall : arrays->precision,
                         .first_row = first * points,
                         .end_row = (has_all ? params->thresholds : first + 1) * points,
                         .first_class = is_one ? (size_t)slice->category : 0,
                         .end_class = is_one ? (size_t)slice->category + 1 : params->classes};
    entries->row = entries->first_row;
    entries->class = entries->first_class;
}

static const double *entry(const struct entries *entries, size_t row, size_t class)
{
    const struct kolo_coco_params *params = entries->params;
    int64_t group = entries->slice->group;
    if (group > 0 && (params->any_category || params->group[class] != group))
        return NULL;
    const double *value = entries->array + kolo_coco_at(params, row, class, entries->slice->area,
                                                        entries->slice->cap);
    return *value > -1 ? value : NULL;
}

/* In an area range, all entries of a category without ground truth are -1, and no entry of
 * another category is. So it is enough to count in one row. */
static size_t count_entries(const struct entries *entries)
{
    size_t count = 0;
    for (size_t k = entries->first_class; k < entries->end_class; k++)
        count += entry(entries, entries->first_row, k) != NULL;
    return count * (entries->end_row - entries->first_row);
}

static const double *take_of_slice(struct source *source, size_t count, double block[PAIRWISE_MOST])
{
    struct entries *entries = (struct entries *)source;
    size_t taken = 0;
    for (; taken < count && entries->row < entries->end_row; entries->row++) {
        for (; taken < count && entries->class < entries->end_class; entries->class ++) {
            const double *value = entry(entries, entries->row, entries->class);
            if (value)
                block[taken++] = *value;
        }
        if (entries->class < entries->end_class)
            break;
        entries->class = entries->first_class;
    }
    return block;
}

double kolo_coco_average(const struct kolo_coco_params *params,
                         const struct kolo_coco_arrays *arrays,
                         const struct kolo_detection_slice *slice)
{
    struct entries entries;
    open_slice(&entries, params, arrays, slice);
    entries.source.take = take_of_slice;
    size_t count = count_entries(&entries);
    return count > 0 ? sum_by(&entries.source, count, params->mean_rule) / (double)count : -1;
}

/* A summary number. It is -1 if the evaluation lacks its threshold, area range or cap. */
struct number {
    bool of_recall;
    double threshold; /* 0: all */
    size_t area, cap;
    int cap_value; /* 0: `cap` is the index of the cap */
    int64_t group;
};

/* pycocotools takes AP at a cap of 100; AP50 and the other APs at the third cap, whatever its
 * value; AR at the first three caps; and AR of the area ranges at the third. */
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

/* All numbers of keypoints are at a cap of 20, and there is no area range of small objects. */
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

/* LVIS has one cap. Groups 1 to 3 are rare, common and frequent categories. */
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

/* Returns false if there is no such threshold, area range or cap. */
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

static void average_numbers(const struct kolo_coco_params *params,
                            const struct kolo_coco_arrays *arrays, const struct number *numbers,
                            size_t count, const struct kolo_coco_turn *turn, double *stats)
{
    for (size_t i = 0; i < count; i++) {
        struct kolo_detection_slice slice;
        if (i % turn->ranks != turn->rank)
            stats[i] = -INFINITY;
        else if (find_slice(params, &numbers[i], &slice))
            stats[i] = kolo_coco_average(params, arrays, &slice);
    }
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
    average_numbers(params, arrays, numbers, *count_out, turn, stats);
    return KOLO_OK;
}
