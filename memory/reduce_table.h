// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set's kernels. A file memory/reduce_<set>.c includes it last, after
// the definitions that memory/reduce_kernels.h and memory/fold_kernels.h ask for.
#ifndef KOLO_MEMORY_REDUCE_TABLE_H
#define KOLO_MEMORY_REDUCE_TABLE_H

#include "memory/fold_kernels.h"
#include "memory/reduce_kernels.h"

/** order: the type whose minima and maxima these are; the other operators are those of name,
 * the signed type of the same size, since integers wrap. */
#define KOLO_INTEGER_ROW_AS(what, dtype, order, name)                                              \
    [KOLO_##dtype] = {[KOLO_SUM] = what##_sum_##name,     [KOLO_MIN] = what##_min_##order,         \
                      [KOLO_MAX] = what##_max_##order,    [KOLO_PROD] = what##_prod_##name,        \
                      [KOLO_AVERAGE] = what##_sum_##name, [KOLO_BAND] = what##_band_##name,        \
                      [KOLO_BOR] = what##_bor_##name,     [KOLO_BXOR] = what##_bxor_##name,        \
                      [KOLO_LAND] = what##_land_##name,   [KOLO_LOR] = what##_lor_##name,          \
                      [KOLO_LXOR] = what##_lxor_##name}
#define KOLO_INTEGER_ROW(what, dtype, name) KOLO_INTEGER_ROW_AS(what, dtype, name, name)
#define KOLO_FLOAT_ROW(what, dtype, name)                                                          \
    [KOLO_##dtype] = {[KOLO_SUM] = what##_sum_##name,                                              \
                      [KOLO_MIN] = what##_min_##name,                                              \
                      [KOLO_MAX] = what##_max_##name,                                              \
                      [KOLO_PROD] = what##_prod_##name,                                            \
                      [KOLO_AVERAGE] = what##_sum_##name}
#define KOLO_ROWS(what)                                                                            \
    KOLO_INTEGER_ROW(what, INT8, int8), KOLO_INTEGER_ROW(what, INT16, int16),                      \
        KOLO_INTEGER_ROW(what, INT32, int32), KOLO_INTEGER_ROW(what, INT64, int64),                \
        KOLO_INTEGER_ROW(what, UINT8, uint8), KOLO_INTEGER_ROW_AS(what, UINT16, uint16, int16),    \
        KOLO_INTEGER_ROW_AS(what, UINT32, uint32, int32),                                          \
        KOLO_INTEGER_ROW_AS(what, UINT64, uint64, int64), KOLO_FLOAT_ROW(what, FLOAT16, float16),  \
        KOLO_FLOAT_ROW(what, BFLOAT16, bfloat16), KOLO_FLOAT_ROW(what, FLOAT32, float32),          \
        KOLO_FLOAT_ROW(what, FLOAT64, float64)

extern const struct kolo_reduce_variant KOLO_VARIANT;
const struct kolo_reduce_variant KOLO_VARIANT = {
    .name = KOLO_VARIANT_NAME,
    .usable = KOLO_VARIANT_USABLE,
    .combine = {KOLO_ROWS(kernel)},
    .divide = {[KOLO_INT8] = divide_int8,
               [KOLO_INT16] = divide_int16,
               [KOLO_INT32] = divide_int32,
               [KOLO_INT64] = divide_int64,
               [KOLO_UINT8] = divide_uint8,
               [KOLO_UINT16] = divide_uint16,
               [KOLO_UINT32] = divide_uint32,
               [KOLO_UINT64] = divide_uint64,
               [KOLO_FLOAT16] = divide_float16,
               [KOLO_BFLOAT16] = divide_bfloat16,
               [KOLO_FLOAT32] = divide_float32,
               [KOLO_FLOAT64] = divide_float64},
    .fold = {KOLO_ROWS(fold)},
    .scale = {[KOLO_FLOAT16] = scale_float16,
              [KOLO_BFLOAT16] = scale_bfloat16,
              [KOLO_FLOAT32] = scale_float32,
              [KOLO_FLOAT64] = scale_float64},
    .copy_stream = copy_stream,
};

#endif
