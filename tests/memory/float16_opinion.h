// SPDX-License-Identifier: Apache-2.0
// A second implementation of float16: the compiler's own type, if it has one for this target.
#ifndef KOLO_TESTS_FLOAT16_OPINION_H
#define KOLO_TESTS_FLOAT16_OPINION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FLT16_MANT_DIG__
static inline bool opinion_float(uint16_t half, float *value_out)
{
    __extension__ _Float16 value;
    memcpy(&value, &half, sizeof value);
    *value_out = (float)value;
    return true;
}
static inline bool opinion_half(float value, uint16_t *half_out)
{
    __extension__ const _Float16 half = (_Float16)value;
    memcpy(half_out, &half, sizeof half);
    return true;
}
#else
static inline bool opinion_float(uint16_t half, float *value_out)
{
    (void)half, (void)value_out;
    return false;
}
static inline bool opinion_half(float value, uint16_t *half_out)
{
    (void)value, (void)half_out;
    return false;
}
#endif

#endif
