// SPDX-License-Identifier: Apache-2.0
// Precision over recall as a picture (SVG): by IoU threshold, and by category.
#ifndef KOLO_EVALUATE_PLOT_H
#define KOLO_EVALUATE_PLOT_H

#include <stdio.h>

#include "evaluate/evaluation.h"

/** @return KOLO_OK; ERR_NO_MEMORY. Write errors are left in @p out. */
kolo_status eval_plot_write(const struct eval_evaluation *evaluation, FILE *out) KOLO_NODISCARD;

#endif
