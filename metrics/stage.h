// SPDX-License-Identifier: Apache-2.0
// Makes the arrays of one update readable for the host. Private to metrics/.
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
    const char *call;   /* the public function, for the detail */
    const char *part;   /* the struct that has the arrays, such as "truths."; NULL: none */
    kolo_status status; /* the first failure */
    enum { KOLO_STAGE_UNKNOWN, KOLO_STAGE_HOST, KOLO_STAGE_FOREIGN } pointers;
    struct kolo_stage_copy *copies;
};

/** Stages an array of @p count rows of @p columns elements. Returns @p array itself if the host
 *  can read it or if there is nothing to read, else a copy that is valid until kolo_stage_end().
 *  After a failure it does nothing. An array that is larger than an address space allows is a
 *  failure, also in host memory, before any of it is read. */
const void *kolo_stage(struct kolo_stage *stage, const char *name, const void *array, size_t count,
                       size_t columns, size_t element_bytes);
/** Frees the copies. */
void kolo_stage_end(struct kolo_stage *stage);

#endif
