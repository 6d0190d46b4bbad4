// SPDX-License-Identifier: Apache-2.0
// Makes the arrays of a detection's update readable for the host. Private to metrics/.
#ifndef KOLO_METRICS_COCO_STAGE_H
#define KOLO_METRICS_COCO_STAGE_H

#include "metrics/coco.h"
#include "metrics/stage.h"

struct kolo_coco_staged {
    struct kolo_boxes truths, found;
    struct kolo_coco_update update; /* of these two */
};

/** Makes @p staged_out from @p given, which need not have been checked: arrays that are read are
 *  staged, everything else is copied as it is. The result is valid until kolo_stage_end().
 *  Returns the status of the stage. */
kolo_status kolo_coco_stage(struct kolo_stage *stage, const struct kolo_coco_params *params,
                            const struct kolo_coco_update *given,
                            struct kolo_coco_staged *staged_out) KOLO_NODISCARD;

#endif
