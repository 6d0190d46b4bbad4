// SPDX-License-Identifier: Apache-2.0
// What kolo-coco says: pycocotools' lines, a table of classes, and everything as JSON.
#ifndef KOLO_EVALUATE_REPORT_H
#define KOLO_EVALUATE_REPORT_H

#include <stdio.h>

#include "evaluate/evaluation.h"

/** The lines of pycocotools' summarize(), and the classes where they are asked for. */
kolo_status eval_report_print(const struct eval_evaluation *evaluation, FILE *out) KOLO_NODISCARD;
/** Writes options->json: the whole file or none. */
kolo_status eval_report_json(const struct eval_evaluation *evaluation) KOLO_NODISCARD;

#endif
