// SPDX-License-Identifier: Apache-2.0
// The arrays of a detection's update, where the host can read them. Private to metrics/.
#ifndef KOLO_METRICS_COCO_STAGE_H
#define KOLO_METRICS_COCO_STAGE_H

#include "metrics/coco.h"
#include "metrics/stage.h"

struct kolo_coco_staged {
    struct kolo_boxes truths, found;
    struct kolo_coco_update update; /* of these two */
};

/** Makes @p staged_out of @p given, which was not checked: each array that is read is staged, all
 * else stays as it is. Valid until kolo_stage_end. Returns the stage's status. */
kolo_status kolo_coco_stage(struct kolo_stage *stage, const struct kolo_coco_params *params,
                            const struct kolo_coco_update *given,
                            struct kolo_coco_staged *staged_out) KOLO_NODISCARD;

#endif
