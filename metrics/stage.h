// SPDX-License-Identifier: Apache-2.0
// The arrays of one update, where the host can read them. Private to metrics/.
//
//     struct kolo_stage stage = {.call = "kolo_accuracy_update"};
//     scores = kolo_stage(&stage, "scores", scores, count, classes, sizeof *scores);
//     labels = kolo_stage(&stage, "labels", labels, count, 1, sizeof *labels);
//     if (stage.status == KOLO_OK)
//         ...
//     kolo_stage_end(&stage);
#ifndef KOLO_METRICS_STAGE_H
#define KOLO_METRICS_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct kolo_stage {
    const char *call;   /* of the program, for the detail */
    const char *part;   /* the struct that the arrays are of, as "truths."; NULL: none */
    kolo_status status; /* the first failure */
    enum { KOLO_STAGE_UNKNOWN, KOLO_STAGE_HOST, KOLO_STAGE_FOREIGN } pointers;
    struct kolo_stage_copy *copies;
};

/** @p count rows of @p columns elements: @p array itself where the host can read it (or nothing is
 * to be read); else a copy, valid until kolo_stage_end. After a failure nothing is looked at. More
 * than any process has is a failure, the host's too, before a byte is read. */
const void *kolo_stage(struct kolo_stage *stage, const char *name, const void *array, size_t count,
                       size_t columns, size_t element_bytes);
/** Frees the copies. */
void kolo_stage_end(struct kolo_stage *stage);

#endif
