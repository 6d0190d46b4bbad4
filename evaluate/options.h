// SPDX-License-Identifier: Apache-2.0
// The command line of kolo-coco.
#ifndef KOLO_EVALUATE_OPTIONS_H
#define KOLO_EVALUATE_OPTIONS_H

#include <stdbool.h>

#include <kolo/detection.h>

enum { EVAL_GO_ON = -1, EVAL_CAPS = 3, EVAL_AREA_BORDERS = 2 };

struct eval_options {
    const char *truths, *detections; /* files */
    const char *json, *plot;         /* files; NULL: none */
    /* as they were given; NULL: not */
    const char *max_dets, *area_list, *threshold_list, *sigmas;
    bool verbose, per_class, any_category, skip_unknown, pixel_boxes;
    kolo_detection_kind kind;
    kolo_detection_rules rules;
    kolo_detection_mode mode;
    kolo_mean_rule mean_rule;
    kolo_threshold_mode threshold_mode;
    int caps[EVAL_CAPS];
    size_t cap_count; /* 0: all count */
    struct kolo_area_range areas[KOLO_DETECTION_AREAS_MAX];
    size_t area_count; /* 0: those of the rules */
    double thresholds[KOLO_DETECTION_FLAGS_MAX];
    size_t threshold_count;
};

/** @return EVAL_GO_ON, or the exit status: either information was asked for and printed, or there
 * was a mistake, which was reported in one line. */
int eval_options_parse(int argc, char **argv, struct eval_options *options);
/** pycocotools' iouType. */
const char *eval_kind_name(kolo_detection_kind kind);
/** "coco", "lvis" or "voc". */
const char *eval_rules_name(kolo_detection_rules rules);
/** "numpy64", "torch32" or "torch32-v1". */
const char *eval_threshold_mode_name(kolo_threshold_mode mode);

#endif
