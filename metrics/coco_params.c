// SPDX-License-Identifier: Apache-2.0
// Owns the parameters of an evaluation.
//
// COCO's thresholds are those of numpy.linspace: a product and a sum that are rounded one after the
// other, with the last value set exactly. 0.5 + 0.05 * i, or a division by 100, would differ in the
// last bit of some values and move detections across a threshold. TorchMetrics' thresholds are
// those of torch.linspace, in float32.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "metrics/coco_overlap.h"
#include "metrics/metric.h"

static const struct kolo_area_range coco_areas[] = {
    {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};
static const struct kolo_area_range point_areas[] = {
    {0, 1e10}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}; /* no range of small objects */
static const struct kolo_area_range voc_areas[] = {{-INFINITY, INFINITY}};
static const int coco_caps[] = {1, 10, 100}, point_caps[] = {20}, lvis_caps[] = {300};
static const int voc_caps[] = {KOLO_DETECTION_CAP_MAX};
enum { LVIS_IMAGE_CAP = 300 };

/* The defaults of each set of rules, for fields that a config leaves out. */
static const struct defaults {
    size_t thresholds, recalls, areas, caps;
    const struct kolo_area_range *area;
    const int *cap;
    int image_cap; /* 0: none */
} coco = {10, 101, 4, 3, coco_areas, coco_caps, 0},
  points = {10, 101, 3, 1, point_areas, point_caps, 0},
  lvis = {10, 101, 4, 1, coco_areas, lvis_caps, LVIS_IMAGE_CAP},
  voc = {1, 11, 1, 1, voc_areas, voc_caps, 0};

static const struct defaults *defaults_of(const struct kolo_coco_params *params)
{
    if (params->rules == KOLO_DETECTION_LVIS)
        return &lvis;
    if (params->rules == KOLO_DETECTION_VOC)
        return &voc;
    return params->kind == KOLO_DETECTION_KEYPOINTS ? &points : &coco;
}

/* numpy.linspace(first, last, count) */
static void linspace(double *values, size_t count, double first, double last)
{
    double step = count > 1 ? (last - first) / (double)(count - 1) : 0;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)i * step + first;
    if (count > 1)
        values[count - 1] = last;
}

/* Value @p i of torch.linspace(first, last, count) of PyTorch 2, whose multiplication and addition
 * compilers fuse: one rounding to float32, as in double all of it is exact for so few values. */
static float torch_value(size_t i, size_t count, float first, float last)
{
    const double step = (double)((last - first) / (float)(count - 1));
    return i < count / 2 ? (float)((double)first + step * (double)i)
                         : (float)((double)last - step * (double)(count - i - 1));
}

static void torch_linspace(double *values, size_t count, float first, float last)
{
    for (size_t i = 0; i < count; i++)
        values[i] = count > 1 ? (double)torch_value(i, count, first, last) : (double)first;
}

/* Computes value @p i from the nearer end, in float32. */
static float torch_v1_value(size_t i, size_t count, float first, float last)
{
    float step = (last - first) / (float)(count - 1);
    return i < count / 2 ? first + step * (float)i : last - step * (float)(count - i - 1);
}

/* The same of PyTorch 1, which made vectors of eight values, two at a time: each value is the first
 * of its vector plus a multiple of the step. The rest is made one by one. */
static void torch_v1_linspace(double *values, size_t count, float first, float last)
{
    enum { VECTOR = 8, CHUNK = 2 * VECTOR };
    if (count == 1) {
        values[0] = (double)first;
        return;
    }
    float step = (last - first) / (float)(count - 1);
    for (size_t i = 0; i < count; i++) {
        size_t within = i < count / CHUNK * CHUNK ? i % VECTOR : 0;
        values[i] = (double)(torch_v1_value(i - within, count, first, last) + (float)within * step);
    }
}

static void fill(const struct kolo_detection_config *config, double *values, size_t count,
                 double first, double last)
{
    if (config->threshold_mode == KOLO_THRESHOLDS_TORCH32)
        torch_linspace(values, count, (float)first, (float)last);
    else if (config->threshold_mode == KOLO_THRESHOLDS_TORCH32_V1)
        torch_v1_linspace(values, count, (float)first, (float)last);
    else
        linspace(values, count, first, last);
}

static kolo_status ascending(const char *what, const double *values, size_t count, size_t most,
                             double above)
{
    if (count < 1 || count > most)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: %zu %s; give 1 to %zu", count,
                         what, most);
    for (size_t i = 0; i < count; i++)
        if (!(values[i] > above && values[i] <= 1) || (i && values[i] <= values[i - 1]))
            return kolo_fail(
                KOLO_ERR_INVALID,
                "kolo_detection_create: %s[%zu] is %.17g; give ascending values up to 1", what, i,
                values[i]);
    return KOLO_OK;
}

/* Refuses a count without its array: otherwise the defaults would be used, against the program's
 * intention. */
static kolo_status refuse_halves(const struct kolo_detection_config *config)
{
    const struct {
        const char *what;
        const void *array;
        size_t count;
    } lists[] = {{"thresholds", config->thresholds, config->threshold_count},
                 {"recalls", config->recalls, config->recall_count},
                 {"areas", config->areas, config->area_count},
                 {"caps", config->caps, config->cap_count},
                 {"sigmas", config->sigmas, config->sigma_count}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!lists[i].array && lists[i].count > 0)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_create: %s is NULL, but there are %zu; give both, or "
                             "neither for the defaults of the rules",
                             lists[i].what, lists[i].count);
    return KOLO_OK;
}

static kolo_status take_grids(struct kolo_coco_params *params,
                              const struct kolo_detection_config *config)
{
    const struct defaults *otherwise = defaults_of(params);
    params->thresholds = config->thresholds ? config->threshold_count : otherwise->thresholds;
    params->recalls = config->recalls ? config->recall_count : otherwise->recalls;
    kolo_status status = KOLO_OK;
    if (config->thresholds)
        status = ascending("thresholds", config->thresholds, config->threshold_count,
                           KOLO_DETECTION_FLAGS_MAX, 0);
    if (status == KOLO_OK && config->recalls)
        status = ascending("recalls", config->recalls, config->recall_count,
                           KOLO_DETECTION_RECALLS_MAX, -0x1p-1074);
    if (status != KOLO_OK)
        return status;
    if (config->thresholds)
        memcpy(params->threshold, config->thresholds, params->thresholds * sizeof(double));
    else
        fill(config, params->threshold, params->thresholds, 0.5, 0.95);
    if (config->recalls)
        memcpy(params->recall, config->recalls, params->recalls * sizeof(double));
    else
        fill(config, params->recall, params->recalls, 0, 1);
    return KOLO_OK;
}

static kolo_status take_areas(struct kolo_coco_params *params,
                              const struct kolo_detection_config *config)
{
    const struct kolo_area_range *areas = config->areas ? config->areas : defaults_of(params)->area;
    params->areas = config->areas ? config->area_count : defaults_of(params)->areas;
    if (params->areas < 1 || params->areas > KOLO_DETECTION_AREAS_MAX ||
        params->areas * params->thresholds > KOLO_DETECTION_FLAGS_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: %zu areas and %zu thresholds; give 1 to %d areas "
                         "whose product with the thresholds is at most %d",
                         params->areas, params->thresholds, KOLO_DETECTION_AREAS_MAX,
                         KOLO_DETECTION_FLAGS_MAX);
    for (size_t a = 0; a < params->areas; a++)
        if (!(areas[a].low <= areas[a].high))
            return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: areas[%zu] is from %g to %g",
                             a, areas[a].low, areas[a].high);
    memcpy(params->area, areas, params->areas * sizeof *areas);
    return KOLO_OK;
}

static kolo_status take_caps(struct kolo_coco_params *params,
                             const struct kolo_detection_config *config)
{
    const int *caps = config->caps ? config->caps : defaults_of(params)->cap;
    params->caps = config->caps ? config->cap_count : defaults_of(params)->caps;
    if (params->caps < 1 || params->caps > KOLO_DETECTION_CAPS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: %zu caps; give 1 to %d",
                         params->caps, KOLO_DETECTION_CAPS_MAX);
    for (size_t m = 0; m < params->caps; m++)
        if (caps[m] < 1 || caps[m] > KOLO_DETECTION_CAP_MAX || (m && caps[m] <= caps[m - 1]))
            return kolo_fail(
                KOLO_ERR_INVALID,
                "kolo_detection_create: caps[%zu] is %d; give ascending values from 1 to %d", m,
                caps[m], KOLO_DETECTION_CAP_MAX);
    memcpy(params->cap, caps, params->caps * sizeof *caps);
    int image_cap = config->image_cap ? config->image_cap : defaults_of(params)->image_cap;
    if (image_cap < -1)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: image_cap is %d; give -1, 0 or more", image_cap);
    params->image_cap = image_cap > 0 ? (size_t)image_cap : 0;
    return KOLO_OK;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static kolo_status take_categories(struct kolo_coco_params *params,
                                   const struct kolo_detection_config *config)
{
    if (!config->categories)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: categories is NULL; give the "
                                           "ids of all categories");
    if (config->category_count < 1 || config->category_count > INT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: category_count %zu is not in 1..%d",
                         config->category_count, INT32_MAX);
    params->categories = config->category_count;
    params->classes = config->any_category ? 1 : params->categories;
    params->category = kolo_calloc(params->categories, sizeof *params->category);
    if (!params->category)
        return KOLO_ERR_NO_MEMORY;
    memcpy(params->category, config->categories, params->categories * sizeof *params->category);
    qsort(params->category, params->categories, sizeof *params->category, by_value);
    for (size_t k = 1; k < params->categories; k++)
        if (params->category[k] == params->category[k - 1])
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_create: category %lld is given twice",
                             (long long)params->category[k]);
    return KOLO_OK;
}

static kolo_status take_groups(struct kolo_coco_params *params,
                               const struct kolo_detection_config *config)
{
    params->group = kolo_calloc(params->categories, sizeof *params->group);
    if (!params->group)
        return KOLO_ERR_NO_MEMORY;
    for (size_t k = 0; config->groups && k < params->categories; k++) {
        if (config->groups[k] < 0)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_create: groups[%zu] is %lld; give 0 or more", k,
                             (long long)config->groups[k]);
        params->group[kolo_coco_category(params, config->categories[k])] = config->groups[k];
    }
    return KOLO_OK;
}

static kolo_status take_rules(struct kolo_coco_params *params,
                              const struct kolo_detection_config *config)
{
    if ((unsigned)config->rules > KOLO_DETECTION_VOC)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: unknown rules %d; use a kolo_detection_rules",
                         (int)config->rules);
    if (config->rules != KOLO_DETECTION_COCO && config->kind == KOLO_DETECTION_KEYPOINTS)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: rules %d are for boxes and masks; keypoints "
                         "need KOLO_DETECTION_COCO",
                         (int)config->rules);
    params->rules = config->rules;
    params->slack = config->rules == KOLO_DETECTION_VOC ? 0 : 0x1p-52;
    params->is_continuous = config->continuous_boxes;
    return KOLO_OK;
}

static kolo_status check_enumerations(const struct kolo_detection_config *config)
{
    if ((unsigned)config->mode > KOLO_DETECTION_FIXED)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: mode %d is not a value of kolo_detection_mode",
                         (int)config->mode);
    if ((unsigned)config->mean_rule > KOLO_MEAN_NUMPY_1)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: mean_rule %d is not a value of kolo_mean_rule",
                         (int)config->mean_rule);
    if ((unsigned)config->threshold_mode > KOLO_THRESHOLDS_TORCH32_V1)
        return kolo_fail(
            KOLO_ERR_INVALID,
            "kolo_detection_create: threshold_mode %d is not a value of kolo_threshold_mode",
            (int)config->threshold_mode);
    if (!kolo_coco_kind_of(config->kind))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_create: kind %d is not a value of kolo_detection_kind",
                         (int)config->kind);
    return KOLO_OK;
}

kolo_status kolo_coco_params_make(struct kolo_coco_params *params,
                                  const struct kolo_detection_config *config)
{
    kolo_status status = kolo_check_struct("kolo_detection_create", "config",
                                           "kolo_detection_config", config, sizeof *config);
    if (status != KOLO_OK)
        return status;
    status = check_enumerations(config);
    if (status != KOLO_OK)
        return status;
    *params = (struct kolo_coco_params){.kind = config->kind,
                                        .mode = config->mode,
                                        .mean_rule = config->mean_rule,
                                        .any_category = config->any_category};
    status = refuse_halves(config);
    if (status == KOLO_OK)
        status = take_rules(params, config);
    if (status == KOLO_OK)
        status = take_grids(params, config);
    if (status == KOLO_OK)
        status = take_areas(params, config);
    if (status == KOLO_OK)
        status = take_caps(params, config);
    if (status == KOLO_OK)
        status = take_categories(params, config);
    if (status == KOLO_OK)
        status = take_groups(params, config);
    if (status == KOLO_OK)
        status = kolo_coco_sigmas_take(params, config);
    if (status != KOLO_OK)
        kolo_coco_params_free(params);
    return status;
}

void kolo_coco_params_free(struct kolo_coco_params *params)
{
    kolo_free_memory(params->category);
    kolo_free_memory(params->sigma);
    kolo_free_memory(params->group);
    params->category = NULL;
    params->group = NULL;
    params->sigma = NULL;
}

int64_t kolo_coco_category(const struct kolo_coco_params *params, int64_t id)
{
    size_t low = 0, high = params->categories;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (params->category[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < params->categories && params->category[low] == id ? (int64_t)low : -1;
}

uint64_t kolo_coco_params_digest(const struct kolo_coco_params *params)
{
    uint64_t sizes[] = {params->kind,         params->mode,       params->mean_rule,
                        params->any_category, params->thresholds, params->recalls,
                        params->areas,        params->caps,       params->categories,
                        params->sigmas,       params->rules,      params->image_cap,
                        params->is_continuous};
    uint64_t digest = kolo_hash(KOLO_HASH_START, sizes, sizeof sizes);
    digest = kolo_hash(digest, params->threshold, params->thresholds * sizeof *params->threshold);
    digest = kolo_hash(digest, params->recall, params->recalls * sizeof *params->recall);
    digest = kolo_hash(digest, params->area, params->areas * sizeof *params->area);
    digest = kolo_hash(digest, params->cap, params->caps * sizeof *params->cap);
    digest = kolo_hash(digest, params->group, params->categories * sizeof *params->group);
    digest = kolo_hash(digest, params->sigma, params->sigmas * sizeof *params->sigma);
    return kolo_hash(digest, params->category, params->categories * sizeof *params->category);
}
