// SPDX-License-Identifier: Apache-2.0
// The reduction kernels in plain C, for every processor (its baseline vectors: SSE2 on x86-64), and
// the conversions of single 16-bit floats.
#define KOLO_VECTOR_BYTES 16
#define KOLO_VARIANT kolo_reduce_c
#define KOLO_VARIANT_NAME "c"
#define KOLO_VARIANT_USABLE kolo_reduce_usable_always

// clang-format off: the order matters
#include "memory/fold_plain.h"
#include "memory/reduce_halves.h"
#include "memory/reduce_table.h"
// clang-format on

bool kolo_reduce_usable_always(void)
{
    return true;
}

float kolo_float16_to_float(unsigned short half)
{
    return half_lanes_decode((u32_vector){half})[0];
}

unsigned short kolo_float16_from_float(float value)
{
    return (unsigned short)half_lanes_encode((f32_vector){value})[0];
}

float kolo_bfloat16_to_float(unsigned short brain)
{
    return bfloat16_decode((bits_vector)(u32_vector){brain}).low[0];
}

unsigned short kolo_bfloat16_from_float(float value)
{
    const struct float_pair pair = {.low = canonical_float32((f32_vector){value})};
    return (unsigned short)((u32_vector)bfloat16_encode(pair))[0];
}
