// SPDX-License-Identifier: Apache-2.0
// Owns keypoints: how they are checked, the area of a detection that gives none, and how similar
// two sets of keypoints are. Every operation of similarity() is one of pycocotools' (computeOks),
// in the same order, and terms are added in NumPy's order.
//
// Only exp is the C library's. NumPy has its own exp on processors with AVX-512, which differs in
// the last bit for some arguments, so a similarity may differ too. A decision differs only if a
// similarity is that close to a threshold or to another similarity.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_overlap.h"

/* COCO's sigmas of a person, in tenths: nose, eyes, ears, shoulders, elbows, wrists, hips,
 * knees, ankles. */
static const double coco_sigmas[] = {.26, .25, .25,  .35,  .35, .79, .79, .72, .72,
                                     .62, .62, 1.07, 1.07, .87, .87, .89, .89};
enum { COCO_POINTS = sizeof coco_sigmas / sizeof *coco_sigmas, NUMBERS = 3 /* x, y, v */ };

/* pycocotools' vars */
static double variance(double sigma)
{
    double twice = sigma * 2;
    return twice * twice;
}

kolo_status kolo_coco_sigmas_take(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config)
{
    if (params->kind != KOLO_DETECTION_KEYPOINTS && (config->sigmas || config->sigma_count > 0))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: %zu sigmas, but only keypoints have sigmas",
                         config->sigma_count);
    if (params->kind != KOLO_DETECTION_KEYPOINTS)
        return KOLO_OK;
    params->sigmas = config->sigmas ? config->sigma_count : COCO_POINTS;
    if (params->sigmas < 1 || params->sigmas > KOLO_DETECTION_POINTS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: %zu sigmas; give 1 to %d",
                         params->sigmas, KOLO_DETECTION_POINTS_MAX);
    params->sigma = kolo_calloc(params->sigmas, sizeof *params->sigma);
    if (!params->sigma)
        return KOLO_ERR_NO_MEMORY;
    for (size_t p = 0; p < params->sigmas; p++) {
        double sigma = config->sigmas ? config->sigmas[p] : coco_sigmas[p] / 10;
        params->sigma[p] = sigma;
        if (!(sigma > 0) || !isnormal(variance(sigma)))
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_create: sigmas[%zu] is %g; give a number above 0 "
                             "whose square a double can hold",
                             p, sigma);
    }
    return KOLO_OK;
}

static const double *points_of(const struct kolo_coco_params *params,
                               const struct kolo_boxes *object, size_t i)
{
    return object->keypoints + NUMBERS * params->sigmas * i;
}

/* Returns the extent of all points along one axis, whether or not they are visible. */
static double extent(const double *points, size_t count)
{
    double low = points[0], high = points[0];
    for (size_t p = 1; p < count; p++) {
        double at = points[NUMBERS * p]; /* it is finite, and fmin() would be a call */
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    return high - low;
}

/* Computes the area as pycocotools' loadRes does. */
static double found_area(const struct kolo_coco_params *params, const struct kolo_boxes *object,
                         size_t i)
{
    const double *points = points_of(params, object, i);
    return extent(points, params->sigmas) * extent(points + 1, params->sigmas);
}

static double area(const struct kolo_coco_params *params, const struct kolo_boxes *object, size_t i)
{
    (void)params;
    struct kolo_coco_box box = kolo_coco_box_read(object, i);
    return box.w * box.h;
}

static size_t count_seen(const struct kolo_coco_params *params, const double *points)
{
    size_t seen = 0;
    for (size_t p = 0; p < params->sigmas; p++)
        seen += points[NUMBERS * p + 2] > 0;
    return seen;
}

static bool is_blank(const struct kolo_coco_params *params, const struct kolo_boxes *object,
                     size_t i)
{
    return object->point_counts ? object->point_counts[i] == 0
                                : count_seen(params, points_of(params, object, i)) == 0;
}

static kolo_status check_points(const struct kolo_coco_params *params, const char *what,
                                const struct kolo_boxes *object, size_t i)
{
    const double *points = points_of(params, object, i);
    for (size_t p = 0; p < params->sigmas; p++, points += NUMBERS)
        if (!isfinite(points[0]) || !isfinite(points[1]) || !isfinite(points[2]))
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_update: keypoint %zu of object %zu of %s is not "
                             "finite: %g %g %g",
                             p, i, what, points[0], points[1], points[2]);
    if (!isfinite(found_area(params, object, i)))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: the keypoints of object %zu of %s are too far "
                         "from each other",
                         i, what);
    return KOLO_OK;
}

static kolo_status check_part(const struct kolo_coco_params *params, const char *what,
                              const struct kolo_boxes *object)
{
    kolo_status status = KOLO_OK;
    if (object && object->count > 0 && !object->keypoints)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %s.keypoints is NULL", what);
    for (size_t i = 0; status == KOLO_OK && object && i < object->count; i++)
        status = check_points(params, what, object, i);
    return status;
}

static kolo_status check(const struct kolo_coco_params *params,
                         const struct kolo_coco_update *update)
{
    kolo_status status = check_part(params, "truths", update->truths);
    return status == KOLO_OK ? check_part(params, "detections", update->found) : status;
}

static double above_zero(double a)
{
    return a > 0 ? a : 0;
}

/* Returns how far a coordinate is outside the ground truth's box, extended by its own length on
 * each side. */
static double outside(double at, double from, double length)
{
    double low = from - length, high = from + length * 2;
    return above_zero(low - at) + above_zero(at - high);
}

static double term(double dx, double dy, double sigma, double area)
{
    return exp(-((dx * dx + dy * dy) / variance(sigma) / (area + 0x1p-52) / 2));
}

static double similarity(const struct kolo_coco_params *params, const double *found,
                         const double *truth, const struct kolo_coco_box *box, double area)
{
    double terms[KOLO_DETECTION_POINTS_MAX];
    size_t count = 0;
    bool is_seen = count_seen(params, truth) > 0;
    for (size_t p = 0; p < params->sigmas; p++, found += NUMBERS, truth += NUMBERS) {
        double sigma = params->sigma[p];
        if (!is_seen)
            terms[count++] = term(outside(found[0], box->x, box->w),
                                  outside(found[1], box->y, box->h), sigma, area);
        else if (truth[2] > 0)
            terms[count++] = term(found[0] - truth[0], found[1] - truth[1], sigma, area);
    }
    return kolo_coco_mean(terms, count, params->mean_rule);
}

static kolo_status overlap(const struct kolo_coco_params *params,
                           const struct kolo_coco_group *group, struct kolo_coco_shapes *shapes,
                           double *overlaps)
{
    (void)shapes;
    const struct kolo_boxes *found = group->update->found, *truths = group->update->truths;
    for (size_t g = 0; g < group->truths; g++) {
        struct kolo_coco_box box = kolo_coco_box_read(truths, group->truth_number[g]);
        const double *truth = points_of(params, truths, group->truth_number[g]);
        for (size_t d = 0; d < group->detections; d++)
            overlaps[d * group->truths + g] =
                similarity(params, points_of(params, found, group->found_number[d]), truth, &box,
                           group->truth[g].area);
    }
    return KOLO_OK;
}

const struct kolo_coco_kind_ops kolo_coco_keypoints = {.name = "keypoints",
                                                       .has_truth_boxes = true,
                                                       .check = check,
                                                       .area = area,
                                                       .found_area = found_area,
                                                       .is_blank = is_blank,
                                                       .overlap = overlap};
