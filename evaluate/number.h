// SPDX-License-Identifier: Apache-2.0
// Converts the text of a JSON number to the nearest double: the same bits as strtod(), but faster.
#ifndef KOLO_EVALUATE_NUMBER_H
#define KOLO_EVALUATE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVAL_NUMBER_MAX = 1100 }; /* bytes of text; no double has so many digits */

/** @param text  a number in JSON's grammar; need not be followed by a zero byte. @return false if
 * it is longer than EVAL_NUMBER_MAX. The value may be infinite. Threads: any. */
bool eval_number_read(const char *text, size_t length, double *value_out);

/** Reads an integer: digits only, with or without a minus. @return false if there are other
 * characters, or the value does not fit. */
bool eval_number_read_whole(const char *text, size_t length, int64_t *value_out);

#endif
