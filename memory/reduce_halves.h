// SPDX-License-Identifier: Apache-2.0
// Conversion of float16 to float32 and back where no instruction does it: integer arithmetic in
// 32-bit lanes, with the elements at even places and those at odd places apart. Rounds to nearest
// even. Like the instructions, it does not depend on the processor's flush-to-zero modes: no step
// produces a subnormal float32 that matters.
#ifndef KOLO_MEMORY_REDUCE_HALVES_H
#define KOLO_MEMORY_REDUCE_HALVES_H

#include "memory/reduce_vectors.h"

enum {
    HALF_INFINITY = 0x7c00,
    HALF_QUIET_NAN = 0x7e00,
    HALF_NORMAL = 0x400, /* the smallest normal half */
    REBIAS = 112 << 23   /* difference of the exponents' biases, 127 - 15 */
};

static KOLO_ALWAYS_INLINE u32_vector lanes_select(u32_vector mask, u32_vector yes, u32_vector no)
{
    return (yes & mask) | (no & ~mask);
}

/** @p half: one float16 in each lane, the upper bits 0. */
static KOLO_ALWAYS_INLINE f32_vector half_lanes_decode(u32_vector half)
{
    u32_vector magnitude = half & 0x7fff, sign = (half & 0x8000) << 16;
    u32_vector normal = (magnitude << 13) + REBIAS;
    u32_vector special = (magnitude << 13) | 0x7f800000;
    /* a subnormal half is a small integer times 2^-24 */
    f32_vector small = __builtin_convertvector((i32_vector)magnitude, f32_vector) * 0x1p-24f;
    u32_vector is_special = (u32_vector)((i32_vector)magnitude >= HALF_INFINITY);
    u32_vector is_small = (u32_vector)((i32_vector)magnitude < HALF_NORMAL);
    u32_vector value = lanes_select(is_small, (u32_vector)small, normal);
    return (f32_vector)(lanes_select(is_special, special, value) | sign);
}

/** One float16 in each lane, the upper bits 0. */
static KOLO_ALWAYS_INLINE u32_vector half_lanes_encode(f32_vector value)
{
    u32_vector bits = (u32_vector)value, sign = (bits >> 16) & 0x8000;
    u32_vector magnitude = bits & 0x7fffffff;
    i32_vector compared = (i32_vector)magnitude;
    u32_vector normal = (magnitude - REBIAS + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    /* 0.5's last place is 2^-24, the smallest half: the addition rounds to it */
    u32_vector small = (u32_vector)((f32_vector)magnitude + 0.5f) - 0x3f000000;
    u32_vector is_small = (u32_vector)(compared < 0x38800000);    /* below 2^-14 */
    u32_vector is_infinite = (u32_vector)(compared > 0x477fefff); /* from 65520 up */
    u32_vector is_nan = (u32_vector)(compared > 0x7f800000);
    u32_vector half = lanes_select(is_small, small, normal);
    half = lanes_select(is_infinite, (u32_vector){0} + HALF_INFINITY, half);
    return lanes_select(is_nan, (u32_vector){0} + HALF_QUIET_NAN, half | sign);
}

static KOLO_ALWAYS_INLINE struct float_pair halves_decode(bits_vector x)
{
    u32_vector bits = (u32_vector)x;
    return (struct float_pair){half_lanes_decode(bits & 0xffff), half_lanes_decode(bits >> 16)};
}

static KOLO_ALWAYS_INLINE bits_vector halves_encode(struct float_pair pair)
{
    return (bits_vector)(half_lanes_encode(pair.low) | (half_lanes_encode(pair.high) << 16));
}

#endif
