// SPDX-License-Identifier: Apache-2.0
// The reduction kernels for 64-bit Arm: the same as plain C, whose vectors are NEON's there, except
// for the conversions of float16, for which NEON has instructions. Every 64-bit Arm processor has
// NEON.
#include <arm_neon.h>

#define KOLO_VECTOR_BYTES 16
#define KOLO_VARIANT kolo_reduce_neon
#define KOLO_VARIANT_NAME "neon"
#define KOLO_VARIANT_USABLE kolo_reduce_usable_always

#include "memory/reduce_vectors.h"

static KOLO_ALWAYS_INLINE struct float_pair halves_decode(bits_vector x)
{
    const float16x8_t halves = vreinterpretq_f16_u64((uint64x2_t)x);
    return (struct float_pair){(f32_vector)vcvt_f32_f16(vget_low_f16(halves)),
                               (f32_vector)vcvt_high_f32_f16(halves)};
}

static KOLO_ALWAYS_INLINE bits_vector halves_encode(struct float_pair pair)
{
    const float16x4_t low = vcvt_f16_f32((float32x4_t)pair.low);
    return (bits_vector)vreinterpretq_u64_f16(vcvt_high_f16_f32(low, (float32x4_t)pair.high));
}

// clang-format off: the order matters
#include "memory/fold_plain.h"
#include "memory/reduce_table.h"
// clang-format on
