// SPDX-License-Identifier: Apache-2.0
// The numbers of an evaluation: which there are under its rules, what they are called, and the
// lines and the table that print them.
#ifndef KOLO_EVALUATE_SUMMARY_H
#define KOLO_EVALUATE_SUMMARY_H

#include <stdio.h>

#include "evaluate/evaluation.h"

enum { EVAL_KEY_BYTES = 16 };

/** How many there are: the elements of result.stats, in its order. */
size_t eval_summary_count(const struct eval_evaluation *evaluation);
/** The name by which users of pycocotools and the lvis package know it. */
void eval_summary_key(const struct eval_evaluation *evaluation, size_t i, char key[EVAL_KEY_BYTES]);
/** Whether it exists for single categories; those of LVIS's groups do not. */
bool eval_summary_is_of_classes(const struct eval_evaluation *evaluation, size_t i);
/** The number for one category, -1 if there is none. @return what kolo_detection_average does. */
kolo_status eval_summary_of_class(const struct eval_evaluation *evaluation, size_t class, size_t i,
                                  double *value_out) KOLO_NODISCARD;
/** IoU threshold @p t. */
double eval_summary_threshold(const struct eval_evaluation *evaluation, size_t t);
/** "" if there is none. */
const char *eval_summary_name(const struct eval_evaluation *evaluation, size_t class);

/** Prints the lines of pycocotools' summarize(), of the lvis package's print_results(), or two for
 * VOC. */
void eval_summary_print(const struct eval_evaluation *evaluation, FILE *out);
/** Prints a line for each category. @return what kolo_detection_average does. */
kolo_status eval_summary_print_classes(const struct eval_evaluation *evaluation,
                                       FILE *out) KOLO_NODISCARD;

#endif
