// SPDX-License-Identifier: Apache-2.0
// The output of kolo-coco: pycocotools' lines, a table of classes, everything as JSON, a picture.
#ifndef KOLO_EVALUATE_REPORT_H
#define KOLO_EVALUATE_REPORT_H

#include <stdio.h>

#include "evaluate/evaluation.h"

/** Checks that --json and --plot can be written, before anything is read. */
kolo_status eval_report_probe(const struct eval_options *options) KOLO_NODISCARD;
/** --verbose: what was read. */
void eval_report_counts(const struct eval_evaluation *evaluation, FILE *out);
/** Prints the lines of pycocotools' summarize(), and the classes if asked for; writes --json and
 * --plot, either completely or not at all. */
kolo_status eval_report_write(const struct eval_evaluation *evaluation) KOLO_NODISCARD;

#endif
