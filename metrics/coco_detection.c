// SPDX-License-Identifier: Apache-2.0
// The life of a detection: what the public calls check, and what a result is made of.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"
#include "runtime/comm.h"

struct kolo_detection {
    struct kolo_coco_params params;
    struct kolo_coco_images images;
    struct kolo_coco_arrays arrays;
    struct kolo_detection_result result;
    bool is_computed;
};

static const int64_t any_category[] = {-1}; /* as pycocotools calls it */

kolo_status kolo_detection_create(const struct kolo_detection_config *config,
                                  struct kolo_detection **detection_out)
{
    if (!detection_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_create: detection_out is NULL");
    struct kolo_detection *detection = kolo_calloc(1, sizeof *detection);
    if (!detection)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_coco_params_make(&detection->params, config);
    if (status != KOLO_OK)
        kolo_free_memory(detection);
    else
        *detection_out = detection;
    return status;
}

kolo_status kolo_detection_update(struct kolo_detection *detection, const int64_t *images,
                                  size_t count, const struct kolo_boxes *truths,
                                  const struct kolo_boxes *detections)
{
    if (!detection || (!images && count > 0))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_update: detection or images is NULL");
    const struct kolo_coco_update given = {
        .ids = images, .images = count, .truths = truths, .found = detections};
    kolo_status status = kolo_coco_check(&detection->params, &given);
    if (status == KOLO_OK)
        status = kolo_coco_images_add(&detection->images, &detection->params, &given);
    if (status == KOLO_OK)
        detection->is_computed = false;
    return status;
}

static void release_arrays(struct kolo_coco_arrays *arrays)
{
    kolo_free_memory(arrays->precision);
    kolo_free_memory(arrays->recall);
    kolo_free_memory(arrays->scores);
    *arrays = (struct kolo_coco_arrays){.precision = NULL};
}

static kolo_status make_arrays(const struct kolo_coco_params *params,
                               struct kolo_coco_arrays *arrays)
{
    release_arrays(arrays);
    arrays->ends = params->thresholds * params->classes * params->areas * params->caps;
    arrays->points = arrays->ends * params->recalls;
    arrays->precision = kolo_calloc(arrays->points, sizeof *arrays->precision);
    arrays->scores = kolo_calloc(arrays->points, sizeof *arrays->scores);
    arrays->recall = kolo_calloc(arrays->ends, sizeof *arrays->recall);
    return arrays->precision && arrays->scores && arrays->recall ? KOLO_OK : KOLO_ERR_NO_MEMORY;
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
}

kolo_status kolo_detection_compute(struct kolo_comm *comm, struct kolo_detection *detection,
                                   const struct kolo_opts *opts)
{
    if (!comm || !detection)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_compute: comm or detection is NULL");
    kolo_status status = kolo_group_none(comm, "kolo_detection_compute");
    if (status != KOLO_OK)
        return status;
    detection->is_computed = false;
    kolo_status mine = make_arrays(&detection->params, &detection->arrays);
    status = kolo_coco_share(comm, &detection->params, &detection->images, mine, &detection->arrays,
                             &detection->result, opts);
    if (status != KOLO_OK)
        return status;
    describe(detection);
    detection->is_computed = true;
    return KOLO_OK;
}

kolo_status kolo_detection_result(const struct kolo_detection *detection,
                                  struct kolo_detection_result *result_out)
{
    if (!detection || !detection->is_computed)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_result: the detection is NULL or not "
                                           "computed since its last update");
    if (!result_out || result_out->size != sizeof *result_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_result: result_out is NULL or its size "
                                           "is not sizeof(struct kolo_detection_result)");
    *result_out = detection->result;
    return KOLO_OK;
}

kolo_status kolo_detection_average(const struct kolo_detection *detection,
                                   const struct kolo_detection_slice *slice, double *average_out)
{
    if (!detection || !detection->is_computed)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_detection_average: the detection is NULL or not "
                                           "computed since its last update");
    if (!slice || slice->size != sizeof *slice || !average_out)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_average: average_out or slice is NULL, or its size is not "
                         "sizeof(struct kolo_detection_slice)");
    const struct kolo_coco_params *params = &detection->params;
    if (slice->threshold < -1 || slice->threshold >= (int64_t)params->thresholds ||
        slice->category < -1 || slice->category >= (int64_t)params->classes ||
        slice->area >= params->areas || slice->cap >= params->caps)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_average: threshold %lld, category %lld, area %zu or cap "
                         "%zu is none; there are %zu, %zu, %zu and %zu",
                         (long long)slice->threshold, (long long)slice->category, slice->area,
                         slice->cap, params->thresholds, params->classes, params->areas,
                         params->caps);
    return kolo_coco_average(params, &detection->arrays, slice, average_out);
}

void kolo_detection_reset(struct kolo_detection *detection)
{
    kolo_coco_images_clear(&detection->images);
    release_arrays(&detection->arrays);
    detection->is_computed = false;
}

void kolo_detection_destroy(struct kolo_detection *detection)
{
    if (!detection)
        return;
    kolo_coco_images_free(&detection->images);
    kolo_coco_params_free(&detection->params);
    release_arrays(&detection->arrays);
    kolo_free_memory(detection);
}
