// SPDX-License-Identifier: Apache-2.0
// From the text of a JSON number to the double that is nearest to it: strtod()'s bits, faster.
#ifndef KOLO_EVALUATE_NUMBER_H
#define KOLO_EVALUATE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVAL_NUMBER_MAX = 1100 }; /* bytes of text; no double has so many digits */

/** @param text  as JSON's grammar has numbers; no zero byte need follow. @return false: it is
 *  longer than EVAL_NUMBER_MAX. The value may be infinite. Threads: any. */
bool eval_number_read(const char *text, size_t length, double *value_out);

/** A number of digits alone, with or without a minus. @return false: it has others, or its value
 *  does not fit. */
bool eval_number_read_whole(const char *text, size_t length, int64_t *value_out);

#endif
