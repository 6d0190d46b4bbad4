// SPDX-License-Identifier: Apache-2.0
// See summary.h. A number is a mean over a slice of the result's arrays. A table for each set of
// rules says which slices there are, and how they are printed. Some numbers name their own cap,
// whatever is set, as in pycocotools. If something is missing, such as a threshold, the number is
// -1.
#include "evaluate/summary.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

struct number {
    const char *key;
    bool of_recall;
    double threshold; /* 0: all */
    size_t area, cap;
    int cap_value; /* 0: use the cap with index `cap` */
    char group;    /* LVIS: r, c or f; 0: all */
};

struct numbers {
    size_t count;
    const struct number *number;
    const char *const *areas; /* how they are printed */
    size_t shown;             /* columns of the table of classes */
    size_t column[KOLO_DETECTION_STATS_MAX];
};

static const struct number coco_numbers[] = {
    {"AP", false, 0, 0, 2, 100, 0},    {"AP50", false, 0.5, 0, 2, 0, 0},
    {"AP75", false, 0.75, 0, 2, 0, 0}, {"APs", false, 0, 1, 2, 0, 0},
    {"APm", false, 0, 2, 2, 0, 0},     {"APl", false, 0, 3, 2, 0, 0},
    {"AR1", true, 0, 0, 0, 0, 0},      {"AR10", true, 0, 0, 1, 0, 0},
    {"AR100", true, 0, 0, 2, 0, 0},    {"ARs", true, 0, 1, 2, 0, 0},
    {"ARm", true, 0, 2, 2, 0, 0},      {"ARl", true, 0, 3, 2, 0, 0},
};
static const struct number point_numbers[] = {
    {"AP", false, 0, 0, 0, 20, 0},      {"AP50", false, 0.5, 0, 0, 20, 0},
    {"AP75", false, 0.75, 0, 0, 20, 0}, {"APm", false, 0, 1, 0, 20, 0},
    {"APl", false, 0, 2, 0, 20, 0},     {"AR", true, 0, 0, 0, 20, 0},
    {"AR50", true, 0.5, 0, 0, 20, 0},   {"AR75", true, 0.75, 0, 0, 20, 0},
    {"ARm", true, 0, 1, 0, 20, 0},      {"ARl", true, 0, 2, 0, 20, 0},
};
static const struct number lvis_numbers[] = {
    {"AP", false, 0, 0, 0, 0, 0},      {"AP50", false, 0.5, 0, 0, 0, 0},
    {"AP75", false, 0.75, 0, 0, 0, 0}, {"APs", false, 0, 1, 0, 0, 0},
    {"APm", false, 0, 2, 0, 0, 0},     {"APl", false, 0, 3, 0, 0, 0},
    {"APr", false, 0, 0, 0, 0, 'r'},   {"APc", false, 0, 0, 0, 0, 'c'},
    {"APf", false, 0, 0, 0, 0, 'f'},   {"AR@", true, 0, 0, 0, 0, 0},
    {"ARs@", true, 0, 1, 0, 0, 0},     {"ARm@", true, 0, 2, 0, 0, 0},
    {"ARl@", true, 0, 3, 0, 0, 0},
};
/* Not means over slices of precision: the result has arrays of them. */
enum { VOC_POINTS, VOC_AREA };
static const struct number voc_numbers[] = {
    [VOC_POINTS] = {"AP11", false, 0, 0, 0, 0, 0},
    [VOC_AREA] = {"APauc", false, 0, 0, 0, 0, 0},
};
static const char *const coco_areas[] = {"all", "small", "medium", "large"};
static const char *const point_areas[] = {"all", "medium", "large"};
static const char *const lvis_areas[] = {"all", "s", "m", "l"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct numbers coco = {
    COUNT(coco_numbers), coco_numbers, coco_areas, 7, {0, 1, 2, 3, 4, 5, 8}};
static const struct numbers points = {
    COUNT(point_numbers), point_numbers, point_areas, 6, {0, 1, 2, 3, 4, 5}};
static const struct numbers lvis = {
    COUNT(lvis_numbers), lvis_numbers, lvis_areas, 7, {0, 1, 2, 3, 4, 5, 9}};
static const struct numbers voc = {
    COUNT(voc_numbers), voc_numbers, coco_areas, 2, {VOC_POINTS, VOC_AREA}};

static const struct numbers *numbers_of(const struct eval_evaluation *evaluation)
{
    if (evaluation->options->rules == KOLO_DETECTION_LVIS)
        return &lvis;
    if (evaluation->options->rules == KOLO_DETECTION_VOC)
        return &voc;
    return evaluation->options->kind == KOLO_DETECTION_KEYPOINTS ? &points : &coco;
}

size_t eval_summary_count(const struct eval_evaluation *evaluation)
{
    return numbers_of(evaluation)->count;
}

void eval_summary_key(const struct eval_evaluation *evaluation, size_t i, char key[EVAL_KEY_BYTES])
{
    const char *name = numbers_of(evaluation)->number[i].key;
    bool has_cap = name[strlen(name) - 1] == '@';
    if (has_cap)
        (void)snprintf(key, EVAL_KEY_BYTES, "%s%d", name, evaluation->options->caps[0]);
    else
        (void)snprintf(key, EVAL_KEY_BYTES, "%s", name);
}

bool eval_summary_is_of_classes(const struct eval_evaluation *evaluation, size_t i)
{
    return numbers_of(evaluation)->number[i].group == 0;
}

double eval_summary_threshold(const struct eval_evaluation *evaluation, size_t t)
{
    const struct eval_options *options = evaluation->options;
    bool is_last = t + 1 == evaluation->result.thresholds;
    if (options->threshold_count > 0)
        return options->thresholds[t];
    return is_last && t > 0 ? 0.95 : 0.5 + 0.05 * (double)t; /* for printing and looking up */
}

/* The index of a threshold; -1 for all; -2: there is none. Those that the user gave are compared
 * as the library compares them, exactly; 0.5 + 0.05 * t may differ from what is looked up. */
static int64_t find_threshold(const struct eval_evaluation *evaluation, double threshold)
{
    const double slack = evaluation->options->threshold_count > 0 ? 0 : 1e-12;
    for (size_t t = 0; threshold > 0 && t < evaluation->result.thresholds; t++)
        if (fabs(eval_summary_threshold(evaluation, t) - threshold) <= slack)
            return (int64_t)t;
    return threshold > 0 ? -2 : -1;
}

static size_t find_cap(const struct eval_options *options, const struct number *number)
{
    size_t cap = number->cap;
    if (number->cap_value == 0)
        return cap;
    for (cap = 0; cap < options->cap_count && options->caps[cap] != number->cap_value;)
        cap++;
    return cap;
}

/* The mean over the thresholds of a category's values in VOC's arrays [T, K, A, M]. */
static double voc_of_class(const struct kolo_detection_result *result, size_t class, size_t i)
{
    const double *values = i == VOC_POINTS ? result->voc_points : result->voc_areas;
    double sum = 0;
    for (size_t t = 0; t < result->thresholds; t++) {
        double value = values[(t * result->categories + class) * result->areas * result->caps +
                              result->caps - 1];
        if (value < 0)
            return -1;
        sum += value;
    }
    return sum / (double)result->thresholds;
}

kolo_status eval_summary_of_class(const struct eval_evaluation *evaluation, size_t class, size_t i,
                                  double *value_out)
{
    const struct number *number = &numbers_of(evaluation)->number[i];
    const struct kolo_detection_result *result = &evaluation->result;
    if (evaluation->options->rules == KOLO_DETECTION_VOC) {
        *value_out = voc_of_class(result, class, i);
        return KOLO_OK;
    }
    const struct kolo_detection_slice slice = {.size = sizeof slice,
                                               .of_recall = number->of_recall,
                                               .threshold =
                                                   find_threshold(evaluation, number->threshold),
                                               .category = (int64_t) class,
                                               .area = number->area,
                                               .cap = find_cap(evaluation->options, number)};
    *value_out = -1;
    if (slice.threshold < -1 || slice.cap >= result->caps)
        return KOLO_OK;
    return kolo_detection_average(evaluation->detection, &slice, value_out);
}

const char *eval_summary_name(const struct eval_evaluation *evaluation, size_t class)
{
    const char *name =
        evaluation->options->any_category ? NULL : evaluation->truths.category[class].name;
    return name ? name : "";
}

/* "0.50:0.95" for all. */
static void threshold_words(const struct eval_evaluation *evaluation, double threshold,
                            char text[EVAL_KEY_BYTES])
{
    size_t last = evaluation->result.thresholds - 1;
    if (threshold > 0)
        (void)snprintf(text, EVAL_KEY_BYTES, "%.2f", threshold);
    else
        (void)snprintf(text, EVAL_KEY_BYTES, "%.2f:%.2f", eval_summary_threshold(evaluation, 0),
                       eval_summary_threshold(evaluation, last));
}

static void print_number(const struct eval_evaluation *evaluation, size_t i, FILE *out)
{
    const struct numbers *numbers = numbers_of(evaluation);
    const struct number *number = &numbers->number[i];
    const struct eval_options *options = evaluation->options;
    bool is_lvis = options->rules == KOLO_DETECTION_LVIS;
    char threshold[EVAL_KEY_BYTES], group[] = {number->group, '\0'};
    threshold_words(evaluation, number->threshold, threshold);
    fprintf(out, " %-18s %s @[ IoU=%-9s | area=%6s | maxDets=%3d ",
            number->of_recall ? "Average Recall" : "Average Precision",
            number->of_recall ? "(AR)" : "(AP)", threshold, numbers->areas[number->area],
            number->cap_value ? number->cap_value : options->caps[number->cap]);
    if (is_lvis) /* without a blank, as in lvis */
        fprintf(out, "catIds=%3s]", number->group ? group : "all");
    else
        fputc(']', out);
    fprintf(out, " = %0.3f\n", evaluation->result.stats[i]);
}

static void print_voc(const struct eval_evaluation *evaluation, FILE *out)
{
    char threshold[EVAL_KEY_BYTES];
    threshold_words(evaluation,
                    evaluation->result.thresholds > 1 ? 0 : eval_summary_threshold(evaluation, 0),
                    threshold);
    static const char *const words[] = {
        [VOC_POINTS] = "at 11 recalls (VOC 2007)", [VOC_AREA] = "under the curve (VOC 2010)"};
    for (size_t i = 0; i < COUNT(words); i++)
        fprintf(out, " Average Precision  (AP) @[ IoU=%-9s | %-26s ] = %0.3f\n", threshold,
                words[i], evaluation->result.stats[i]);
}

void eval_summary_print(const struct eval_evaluation *evaluation, FILE *out)
{
    if (evaluation->options->rules == KOLO_DETECTION_VOC) {
        print_voc(evaluation, out);
        return;
    }
    for (size_t i = 0; i < numbers_of(evaluation)->count; i++)
        print_number(evaluation, i, out);
}

/* A name comes from a file: characters that could move a terminal's cursor are replaced. */
static void print_name(const char *name, FILE *out)
{
    for (size_t bytes; *name; name += bytes > 0 ? bytes : 1) {
        bytes = kolo_text_control(name);
        fputc(bytes > 0 ? '?' : *name, out);
    }
}

kolo_status eval_summary_print_classes(const struct eval_evaluation *evaluation, FILE *out)
{
    const struct numbers *numbers = numbers_of(evaluation);
    fprintf(out, "\n%8s", "category");
    for (size_t i = 0; i < numbers->shown; i++) {
        const struct number *number = &numbers->number[numbers->column[i]];
        fprintf(out, " %6s", number->of_recall ? "AR" : number->key);
    }
    fputs("  name\n", out);
    for (size_t k = 0; k < evaluation->result.categories; k++) {
        fprintf(out, "%8lld", (long long)evaluation->result.category_ids[k]);
        for (size_t i = 0; i < numbers->shown; i++) {
            double value;
            kolo_status status = eval_summary_of_class(evaluation, k, numbers->column[i], &value);
            if (status != KOLO_OK)
                return status;
            fprintf(out, " %6.3f", value);
        }
        fputs("  ", out);
        print_name(eval_summary_name(evaluation, k), out);
        fputc('\n', out);
    }
    return KOLO_OK;
}
