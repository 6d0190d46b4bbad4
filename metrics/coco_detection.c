// SPDX-License-Identifier: Apache-2.0
// The life of a detection: the checks of the public functions, the result, and the functions that
// make it a metric like the others (metric.h). It has no words and no records; its images are its
// store.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"
#include "metrics/coco_stage.h"
#include "metrics/metric.h"

struct kolo_detection {
    struct kolo_metric metric;
    struct kolo_coco_params params;
    struct kolo_coco_images images;
    struct kolo_coco_arrays arrays;
    struct kolo_detection_result result;
    int64_t expected; /* number of images; 0: not known */
};

static const int64_t any_category[] = {-1}; /* as pycocotools calls it */

static struct kolo_detection *detection_of(struct kolo_metric *metric)
{
    return (struct kolo_detection *)(void *)metric;
}

static const struct kolo_detection *const_detection_of(const struct kolo_metric *metric)
{
    return (const struct kolo_detection *)(const void *)metric;
}

/* Precision, scores and recall are one allocation with this many values. */
static size_t values_of(const struct kolo_coco_arrays *arrays)
{
    return 2 * arrays->points + arrays->ends;
}

static void release_arrays(struct kolo_coco_arrays *arrays)
{
    kolo_pages_free(arrays->precision, values_of(arrays), sizeof *arrays->precision);
    kolo_free_memory(arrays->voc_points);
    kolo_free_memory(arrays->voc_areas);
    *arrays = (struct kolo_coco_arrays){.precision = NULL};
}

static kolo_status fail_arrays(const struct kolo_coco_params *params,
                               const struct kolo_coco_arrays *arrays)
{
    size_t mib = values_of(arrays) / (1 << 20) * sizeof *arrays->precision;
    return kolo_fail(KOLO_ERR_NO_MEMORY,
                     "no memory for the results, %zu MiB on each rank: precision and scores of %zu "
                     "categories, %zu thresholds, %zu recalls, %zu area ranges and %zu caps",
                     mib, params->classes, params->thresholds, params->recalls, params->areas,
                     params->caps);
}

static kolo_status make_arrays(const struct kolo_coco_params *params,
                               struct kolo_coco_arrays *arrays)
{
    release_arrays(arrays);
    arrays->ends = params->thresholds * params->classes * params->areas * params->caps;
    arrays->points = arrays->ends * params->recalls;
    arrays->precision = kolo_pages(values_of(arrays), sizeof *arrays->precision);
    bool is_there = arrays->precision != NULL;
    if (is_there) {
        arrays->scores = arrays->precision + arrays->points;
        arrays->recall = arrays->scores + arrays->points;
    }
    if (params->rules == KOLO_DETECTION_VOC) {
        arrays->voc_points = kolo_calloc(arrays->ends, sizeof *arrays->voc_points);
        arrays->voc_areas = kolo_calloc(arrays->ends, sizeof *arrays->voc_areas);
        is_there = is_there && arrays->voc_points && arrays->voc_areas;
    }
    return is_there ? KOLO_OK : fail_arrays(params, arrays);
}

static void describe(struct kolo_detection *detection)
{
    const struct kolo_coco_params *params = &detection->params;
    struct kolo_detection_result *result = &detection->result;
    result->size = sizeof *result;
    result->thresholds = params->thresholds;
    result->recalls = params->recalls;
    result->categories = params->classes;
    result->areas = params->areas;
    result->caps = params->caps;
    result->category_ids = params->any_category ? any_category : params->category;
    result->precision = detection->arrays.precision;
    result->recall = detection->arrays.recall;
    result->scores = detection->arrays.scores;
    result->voc_points = detection->arrays.voc_points;
    result->voc_areas = detection->arrays.voc_areas;
}

/* ---- the table ---- */

static kolo_status exchange(struct kolo_metric *metric, struct kolo_comm *comm,
                            const size_t *chosen, size_t count, int64_t *words,
                            const struct kolo_opts *opts)
{
    struct kolo_detection *detection = detection_of(metric);
    (void)chosen, (void)count, (void)words;
    kolo_status mine = make_arrays(&detection->params, &detection->arrays);
    return kolo_coco_share(comm, &detection->params, &detection->images, mine, &detection->arrays,
                           &detection->result, opts);
}

static kolo_status finish(struct kolo_metric *metric)
{
    struct kolo_detection *detection = detection_of(metric);
    struct kolo_detection_result *result = &detection->result;
    describe(detection);
    if (detection->expected > 0 && result->images > detection->expected)
        return kolo_fail(KOLO_ERR_DATA,
                         "detection: %lld different images were given, but images is %lld in the "
                         "config: give their number, or 0",
                         (long long)result->images, (long long)detection->expected);
    result->missing_images = detection->expected > 0 ? detection->expected - result->images : 0;
    metric->counts = (struct kolo_sample_counts){.counted = result->images,
                                                 .duplicates = result->duplicate_images,
                                                 .missing = result->missing_images};
    return KOLO_OK;
}

static void destroy(struct kolo_metric *metric)
{
    struct kolo_detection *detection = detection_of(metric);
    kolo_coco_images_free(&detection->images);
    kolo_coco_params_free(&detection->params);
    release_arrays(&detection->arrays);
}

static size_t store_bytes(const struct kolo_metric *metric)
{
    const struct kolo_detection *detection = const_detection_of(metric);
    return kolo_coco_images_bytes(&detection->images, &detection->params);
}

static void store_write(const struct kolo_metric *metric, struct kolo_writer *writer)
{
    const struct kolo_detection *detection = const_detection_of(metric);
    kolo_coco_images_write(&detection->images, &detection->params, writer);
}

static kolo_status store_read(struct kolo_metric *metric, struct kolo_reader *reader)
{
    struct kolo_detection *detection = detection_of(metric);
    return kolo_coco_images_read(&detection->images, &detection->params, reader);
}

static kolo_status store_merge(struct kolo_metric *into, const struct kolo_metric *from)
{
    return kolo_coco_images_append(&detection_of(into)->images, &const_detection_of(from)->images);
}

static void store_clear(struct kolo_metric *metric)
{
    kolo_coco_images_clear(&detection_of(metric)->images);
    release_arrays(&detection_of(metric)->arrays);
}

static const struct kolo_metric_store store = {
    .bytes = store_bytes,
    .write = store_write,
    .read = store_read,
    .merge = store_merge,
    .clear = store_clear,
};

static const struct kolo_metric_ops ops = {
    .name = "detection",
    .exchange = exchange,
    .finish = finish,
    .destroy = destroy,
    .store = &store,
};

/* ---- the calls ---- */

static kolo_status make(struct kolo_coco_params *params, int64_t expected,
                        struct kolo_detection **detection_out)
{
    struct kolo_metric *metric;
    kolo_status status = kolo_metric_create(&ops, sizeof **detection_out, 0, 0, &metric);
    if (status != KOLO_OK)
        return status;
    struct kolo_detection *detection = detection_of(metric);
    uint64_t digest = kolo_coco_params_digest(params);
    detection->params = *params;
    detection->expected = expected;
    kolo_metric_setting(metric, &digest, sizeof digest);
    kolo_metric_setting(metric, &expected, sizeof expected);
    *detection_out = detection;
    return KOLO_OK;
}

kolo_status kolo_detection_create(const struct kolo_detection_config *config,
                                  struct kolo_detection **detection_out)
{
    struct kolo_coco_params params;
    if (!detection_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: detection_out is NULL");
    kolo_status status = kolo_coco_params_make(&params, config);
    if (status != KOLO_OK)
        return status;
    if (config->images < 0)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: images %lld is negative",
                           (long long)config->images);
    if (status == KOLO_OK)
        status = make(&params, config->images, detection_out);
    if (status != KOLO_OK)
        kolo_coco_params_free(&params);
    return status;
}

struct kolo_metric *kolo_detection_metric(struct kolo_detection *detection)
{
    return detection ? &detection->metric : NULL;
}

kolo_status kolo_detection_update(struct kolo_detection *detection, const int64_t *images,
                                  size_t count, const struct kolo_boxes *truths,
                                  const struct kolo_boxes *detections)
{
    if (!detection || (!images && count > 0))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: %s is NULL",
                         detection ? "images" : "detection");
    if (count >= UINT32_MAX) /* before a loop runs that often */
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: %zu images; give fewer at a time", count);
    const struct kolo_coco_update given = {
        .ids = images, .images = count, .truths = truths, .found = detections};
    struct kolo_stage stage = {.call = "kolo_detection_update"};
    struct kolo_coco_staged staged;
    kolo_status status = kolo_coco_stage(&stage, &detection->params, &given, &staged);
    if (status == KOLO_OK)
        status = kolo_coco_check(&detection->params, &staged.update);
    if (status == KOLO_OK)
        status = kolo_coco_images_add(&detection->images, &detection->params, &staged.update);
    if (status == KOLO_OK)
        detection->metric.is_computed = false;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_detection_compute(struct kolo_comm *comm, struct kolo_detection *detection,
                                   const struct kolo_opts *opts)
{
    /* If it is NULL, kolo_metrics_compute() tells the other ranks. */
    struct kolo_metric *metric = kolo_detection_metric(detection);
    kolo_status status = kolo_metrics_compute(comm, &metric, 1, opts);
    if (status == KOLO_ERR_INVALID && comm && !detection)
        return kolo_fail(status, "kolo_detection_compute: the detection is NULL");
    return status;
}

static kolo_status check_computed(const struct kolo_detection *detection, const char *function)
{
    if (!detection)
        return kolo_fail(KOLO_ERR_INVALID, "%s: the detection is NULL", function);
    if (!detection->metric.is_computed)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: not computed since the last update; call kolo_detection_compute() on "
                         "all ranks",
                         function);
    return KOLO_OK;
}

kolo_status kolo_detection_result(const struct kolo_detection *detection,
                                  struct kolo_detection_result *result_out)
{
    kolo_status status = check_computed(detection, "kolo_detection_result");
    if (status != KOLO_OK)
        return status;
    status = kolo_check_struct("kolo_detection_result", "result_out", "kolo_detection_result",
                               result_out, sizeof *result_out);
    if (status != KOLO_OK)
        return status;
    *result_out = detection->result;
    return KOLO_OK;
}

static kolo_status check_slice(const struct kolo_coco_params *params,
                               const struct kolo_detection_slice *slice)
{
    const struct {
        const char *name;
        int64_t value, low, end;
    } fields[] = {{"threshold", slice->threshold, -1, (int64_t)params->thresholds},
                  {"category", slice->category, -1, (int64_t)params->classes},
                  {"area", (int64_t)slice->area, 0, (int64_t)params->areas},
                  {"cap", (int64_t)slice->cap, 0, (int64_t)params->caps},
                  {"group", slice->group, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].low || fields[i].value >= fields[i].end)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_average: slice->%s is %lld, not in %lld..%lld",
                             fields[i].name, (long long)fields[i].value, (long long)fields[i].low,
                             (long long)fields[i].end - 1);
    return KOLO_OK;
}

kolo_status kolo_detection_average(const struct kolo_detection *detection,
                                   const struct kolo_detection_slice *slice, double *average_out)
{
    kolo_status status = check_computed(detection, "kolo_detection_average");
    if (status != KOLO_OK)
        return status;
    status = kolo_check_struct("kolo_detection_average", "slice", "kolo_detection_slice", slice,
                               sizeof *slice);
    if (status != KOLO_OK)
        return status;
    if (!average_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_average: average_out is NULL");
    status = check_slice(&detection->params, slice);
    if (status != KOLO_OK)
        return status;
    *average_out = kolo_coco_average(&detection->params, &detection->arrays, slice);
    return KOLO_OK;
}

void kolo_detection_reset(struct kolo_detection *detection)
{
    kolo_metric_reset(kolo_detection_metric(detection));
}

void kolo_detection_destroy(struct kolo_detection *detection)
{
    kolo_metric_destroy(kolo_detection_metric(detection));
}
