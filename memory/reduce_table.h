// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set's kernels. A file memory/reduce_<set>.c includes it last, after
// what memory/reduce_kernels.h and memory/fold_kernels.h say that they need.
#ifndef KOLO_MEMORY_REDUCE_TABLE_H
#define KOLO_MEMORY_REDUCE_TABLE_H

#include "memory/fold_kernels.h"
#include "memory/reduce_kernels.h"

#define KOLO_COMBINE_ROW(dtype, name)                                                              \
    [KOLO_##dtype] = {[KOLO_SUM] = kernel_sum_##name,                                              \
                      [KOLO_MIN] = kernel_min_##name,                                              \
                      [KOLO_MAX] = kernel_max_##name,                                              \
                      [KOLO_PROD] = kernel_prod_##name,                                            \
                      [KOLO_AVERAGE] = kernel_sum_##name}

#define KOLO_FOLD_ROW(dtype, name)                                                                 \
    [KOLO_##dtype] = {[KOLO_SUM] = fold_sum_##name,                                                \
                      [KOLO_MIN] = fold_min_##name,                                                \
                      [KOLO_MAX] = fold_max_##name,                                                \
                      [KOLO_PROD] = fold_prod_##name,                                              \
                      [KOLO_AVERAGE] = fold_sum_##name}

extern const struct kolo_reduce_variant KOLO_VARIANT;
const struct kolo_reduce_variant KOLO_VARIANT = {
    .name = KOLO_VARIANT_NAME,
    .usable = KOLO_VARIANT_USABLE,
    .combine = {KOLO_COMBINE_ROW(INT8, int8), KOLO_COMBINE_ROW(INT16, int16),
                KOLO_COMBINE_ROW(INT32, int32), KOLO_COMBINE_ROW(INT64, int64),
                KOLO_COMBINE_ROW(UINT8, uint8), KOLO_COMBINE_ROW(FLOAT16, float16),
                KOLO_COMBINE_ROW(BFLOAT16, bfloat16), KOLO_COMBINE_ROW(FLOAT32, float32),
                KOLO_COMBINE_ROW(FLOAT64, float64)},
    .divide = {[KOLO_INT8] = divide_int8,
               [KOLO_INT16] = divide_int16,
               [KOLO_INT32] = divide_int32,
               [KOLO_INT64] = divide_int64,
               [KOLO_UINT8] = divide_uint8,
               [KOLO_FLOAT16] = divide_float16,
               [KOLO_BFLOAT16] = divide_bfloat16,
               [KOLO_FLOAT32] = divide_float32,
               [KOLO_FLOAT64] = divide_float64},
    .fold = {KOLO_FOLD_ROW(INT8, int8), KOLO_FOLD_ROW(INT16, int16), KOLO_FOLD_ROW(INT32, int32),
             KOLO_FOLD_ROW(INT64, int64), KOLO_FOLD_ROW(UINT8, uint8),
             KOLO_FOLD_ROW(FLOAT16, float16), KOLO_FOLD_ROW(BFLOAT16, bfloat16),
             KOLO_FOLD_ROW(FLOAT32, float32), KOLO_FOLD_ROW(FLOAT64, float64)},
    .copy_stream = copy_stream,
};

#endif
