// SPDX-License-Identifier: Apache-2.0
// The reduction kernels of all types and operators, written once with vectors of the compiler
// (GCC's vector extensions, which clang has too) and compiled once per instruction set. A file
// memory/reduce_<set>.c defines
//
//   KOLO_VECTOR_BYTES    the width of a register: 16, 32 or 64
//   KOLO_VARIANT         the identifier of its struct kolo_reduce_variant
//   KOLO_VARIANT_NAME    its name as text
//   KOLO_VARIANT_USABLE  its run-time check
//
// includes memory/reduce_vectors.h, defines halves_decode() and halves_encode() over those vectors,
// and includes memory/reduce_table.h last, which includes this. Everything here is static, so that
// no function compiled for one instruction set can replace that of another.
//
// Rules that keep all variants, and op(a, b) and op(b, a), equal in every bit: integers are
// unsigned inside; every float NaN becomes the quiet NaN without payload; minima and maxima of -0
// and +0 are decided by their bits; 16-bit floats are computed as float32 and rounded once.
#ifndef KOLO_MEMORY_REDUCE_KERNELS_H
#define KOLO_MEMORY_REDUCE_KERNELS_H

#include <string.h>

#include "memory/reduce_variant.h"
#include "memory/reduce_vectors.h"

/** How one vector's worth of elements is combined. */
typedef bits_vector (*combine_vector)(bits_vector x, bits_vector y);

static KOLO_ALWAYS_INLINE bits_vector vector_load(const uint8_t *at)
{
    bits_vector x;
    memcpy(&x, at, sizeof x);
    return x;
}

/** Copies at most a vector, without a call of memcpy. */
static KOLO_ALWAYS_INLINE void part_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t at = 0;
    for (size_t size = KOLO_VECTOR_BYTES; size > 8; size /= 2)
        if (bytes & size) {
            memcpy(to + at, from + at, size);
            at += size;
        }
    if (bytes & 8) {
        memcpy(to + at, from + at, 8);
        at += 8;
    }
    if (bytes & 4) {
        memcpy(to + at, from + at, 4);
        at += 4;
    }
    if (bytes & 2) {
        memcpy(to + at, from + at, 2);
        at += 2;
    }
    if (bytes & 1)
        to[at] = from[at];
}

/** Loads the first @p bytes bytes of a vector (at most all of it), followed by zeros. A single
 * element of 4 or 8 bytes, as in the smallest messages, goes through a register: if it were stored
 * as bytes and read back as a vector, the load would wait for the stores. */
static KOLO_ALWAYS_INLINE bits_vector part_load(const uint8_t *at, size_t bytes)
{
    bits_vector x = {0};
    uint64_t element;
    uint32_t word;
    if (bytes == 8) {
        memcpy(&element, at, 8);
        x = (bits_vector){element};
    } else if (bytes == 4) {
        memcpy(&word, at, 4);
        x = (bits_vector){word};
    } else
        part_copy((uint8_t *)&x, at, bytes);
    return x;
}

static KOLO_ALWAYS_INLINE void part_store(uint8_t *at, bits_vector x, size_t bytes)
{
    const uint64_t first = x[0];
    const uint32_t word = (uint32_t)first;
    if (bytes == 8)
        memcpy(at, &first, 8);
    else if (bytes == 4)
        memcpy(at, &word, 4);
    else
        part_copy(at, (const uint8_t *)&x, bytes);
}

/** Both operands are read before the result is written, so out may equal a or b. The last, partial
 * vector is padded with zeros, which are safe for every operator. */
static KOLO_ALWAYS_INLINE void combine_bytes(void *out, const void *a, const void *b, size_t bytes,
                                             combine_vector combine)
{
    enum { UNROLL = 4, BLOCK = UNROLL * KOLO_VECTOR_BYTES };
    uint8_t *to = out;
    const uint8_t *from_a = a, *from_b = b;
    size_t i = 0;
    for (; bytes - i >= BLOCK; i += BLOCK)
        for (size_t j = i; j < i + BLOCK; j += KOLO_VECTOR_BYTES) {
            bits_vector r = combine(vector_load(from_a + j), vector_load(from_b + j));
            memcpy(to + j, &r, sizeof r);
        }
    for (; bytes - i >= KOLO_VECTOR_BYTES; i += KOLO_VECTOR_BYTES) {
        bits_vector r = combine(vector_load(from_a + i), vector_load(from_b + i));
        memcpy(to + i, &r, sizeof r);
    }
    if (i < bytes) {
        bits_vector x = part_load(from_a + i, bytes - i), y = part_load(from_b + i, bytes - i);
        part_store(to + i, combine(x, y), bytes - i);
    }
}

// ---- vectors of integers

static KOLO_ALWAYS_INLINE bits_vector bits_select(bits_vector mask, bits_vector yes, bits_vector no)
{
    return (yes & mask) | (no & ~mask);
}

/** No instruction set multiplies bytes: two products of 16 bits give the even and the odd bytes. */
static KOLO_ALWAYS_INLINE bits_vector prod_bytes(bits_vector x, bits_vector y)
{
    u16_vector a = (u16_vector)x, b = (u16_vector)y;
    u16_vector low = (a * b) & 0xff, high = (a & 0xff00) * (b >> 8);
    return (bits_vector)(low | high);
}

#define KOLO_BIT_VECTOR(op, name, result)                                                          \
    static KOLO_ALWAYS_INLINE bits_vector op##_##name(bits_vector x, bits_vector y)                \
    {                                                                                              \
        return result;                                                                             \
    }
/** Minima and maxima, in which signed and unsigned integers of a size differ. */
#define KOLO_ORDER_VECTORS(name, compared)                                                         \
    static KOLO_ALWAYS_INLINE bits_vector min_##name(bits_vector x, bits_vector y)                 \
    {                                                                                              \
        return bits_select((bits_vector)((compared)x < (compared)y), x, y);                        \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE bits_vector max_##name(bits_vector x, bits_vector y)                 \
    {                                                                                              \
        return bits_select((bits_vector)((compared)x > (compared)y), x, y);                        \
    }
#define KOLO_INTEGER_VECTORS(name, compared, wrapping)                                             \
    KOLO_ORDER_VECTORS(name, compared)                                                             \
    static KOLO_ALWAYS_INLINE bits_vector sum_##name(bits_vector x, bits_vector y)                 \
    {                                                                                              \
        return (bits_vector)((wrapping)x + (wrapping)y);                                           \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE bits_vector truth_##name(bits_vector x)                              \
    {                                                                                              \
        return (bits_vector)((wrapping)((wrapping)x != 0) & 1);                                    \
    }                                                                                              \
    KOLO_BIT_VECTOR(band, name, x &y)                                                              \
    KOLO_BIT_VECTOR(bor, name, x | y)                                                              \
    KOLO_BIT_VECTOR(bxor, name, x ^ y)                                                             \
    KOLO_BIT_VECTOR(land, name, truth_##name(x) & truth_##name(y))                                 \
    KOLO_BIT_VECTOR(lor, name, truth_##name(x | y))                                                \
    KOLO_BIT_VECTOR(lxor, name, truth_##name(x) ^ truth_##name(y))
#define KOLO_INTEGER_PRODUCT(name, wrapping)                                                       \
    static KOLO_ALWAYS_INLINE bits_vector prod_##name(bits_vector x, bits_vector y)                \
    {                                                                                              \
        return (bits_vector)((wrapping)x * (wrapping)y);                                           \
    }

KOLO_INTEGER_VECTORS(int8, i8_vector, u8_vector)
KOLO_INTEGER_VECTORS(uint8, u8_vector, u8_vector)
KOLO_INTEGER_VECTORS(int16, i16_vector, u16_vector)
KOLO_INTEGER_VECTORS(int32, i32_vector, u32_vector)
KOLO_INTEGER_VECTORS(int64, i64_vector, u64_vector)
KOLO_ORDER_VECTORS(uint16, u16_vector)
KOLO_ORDER_VECTORS(uint32, u32_vector)
KOLO_ORDER_VECTORS(uint64, u64_vector)
KOLO_INTEGER_PRODUCT(int16, u16_vector)
KOLO_INTEGER_PRODUCT(int32, u32_vector)
KOLO_INTEGER_PRODUCT(int64, u64_vector)

static KOLO_ALWAYS_INLINE bits_vector prod_int8(bits_vector x, bits_vector y)
{
    return prod_bytes(x, y);
}

static KOLO_ALWAYS_INLINE bits_vector prod_uint8(bits_vector x, bits_vector y)
{
    return prod_bytes(x, y);
}

// ---- vectors of float32 and float64

/** Of two equal values min takes the OR of the bits and max the AND. This gives the right result
 * for -0 and +0 and changes nothing else. If neither value is ordered before the other, one is a
 * NaN. */
#define KOLO_FLOAT_VECTORS(name, vector, wide, quiet_nan)                                          \
    static KOLO_ALWAYS_INLINE vector canonical_##name(vector x)                                    \
    {                                                                                              \
        wide nan = (wide)(x != x);                                                                 \
        return (vector)(((wide)x & ~nan) | (nan & (quiet_nan)));                                   \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE vector plus_##name(vector x, vector y)                               \
    {                                                                                              \
        return canonical_##name(x + y);                                                            \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE vector times_##name(vector x, vector y)                              \
    {                                                                                              \
        return canonical_##name(x * y);                                                            \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE vector lesser_##name(vector x, vector y)                             \
    {                                                                                              \
        wide up = (wide)(x <= y), down = (wide)(x >= y);                                           \
        return (vector)(((wide)x & up) | ((wide)y & down) | (~(up | down) & (quiet_nan)));         \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE vector greater_##name(vector x, vector y)                            \
    {                                                                                              \
        wide up = (wide)(x <= y), down = (wide)(x >= y);                                           \
        return (vector)(((wide)x | ~down) & ((wide)y | ~up) & (up | down | (quiet_nan)));          \
    }
#define KOLO_FLOAT_COMBINE(op, name, vector, how)                                                  \
    static KOLO_ALWAYS_INLINE bits_vector op##_##name(bits_vector x, bits_vector y)                \
    {                                                                                              \
        return (bits_vector)how##_##name((vector)x, (vector)y);                                    \
    }
#define KOLO_FLOAT_COMBINES(name, vector)                                                          \
    KOLO_FLOAT_COMBINE(sum, name, vector, plus)                                                    \
    KOLO_FLOAT_COMBINE(prod, name, vector, times)                                                  \
    KOLO_FLOAT_COMBINE(min, name, vector, lesser)                                                  \
    KOLO_FLOAT_COMBINE(max, name, vector, greater)

KOLO_FLOAT_VECTORS(float32, f32_vector, u32_vector, 0x7fc00000u)
KOLO_FLOAT_VECTORS(float64, f64_vector, u64_vector, 0x7ff8000000000000u)
KOLO_FLOAT_COMBINES(float32, f32_vector)
KOLO_FLOAT_COMBINES(float64, f64_vector)

// ---- vectors of 16-bit floats: sums and products as two vectors of float32 each

static KOLO_ALWAYS_INLINE struct float_pair float16_decode(bits_vector x)
{
    return halves_decode(x);
}

static KOLO_ALWAYS_INLINE bits_vector float16_encode(struct float_pair pair)
{
    return halves_encode(pair);
}

/** A bfloat16 is the upper half of a float32, so the even and the odd elements stay in their lanes
 * without shuffles. */
static KOLO_ALWAYS_INLINE struct float_pair bfloat16_decode(bits_vector x)
{
    u32_vector bits = (u32_vector)x;
    return (struct float_pair){(f32_vector)(bits << 16), (f32_vector)(bits & 0xffff0000u)};
}

/** Rounds to nearest even. The lower half of a NaN must not let rounding carry into infinity and
 * beyond; it is 0, since a NaN here is a decoded bfloat16 or canonical. */
static KOLO_ALWAYS_INLINE bits_vector bfloat16_encode(struct float_pair pair)
{
    u32_vector low = (u32_vector)pair.low, high = (u32_vector)pair.high;
    low = (low + 0x7fff + ((low >> 16) & 1)) >> 16;
    high = (high + 0x7fff + ((high >> 16) & 1)) & 0xffff0000u;
    return (bits_vector)(low | high);
}

/** Which of the 16-bit floats are NaN. */
static KOLO_ALWAYS_INLINE u16_vector short_nans(u16_vector x, int16_t infinity)
{
    return (u16_vector)((i16_vector)(x & 0x7fff) > infinity);
}

/** Signed integers that have the order of the 16-bit floats, -0 before +0. */
static KOLO_ALWAYS_INLINE i16_vector short_order(u16_vector x)
{
    return (i16_vector)(x ^ ((u16_vector)((i16_vector)x >> 15) & 0x7fff));
}

#define KOLO_SHORT_FLOAT_COMBINE(op, name, sign)                                                   \
    static KOLO_ALWAYS_INLINE bits_vector op##_##name(bits_vector x, bits_vector y)                \
    {                                                                                              \
        struct float_pair a = name##_decode(x), b = name##_decode(y);                              \
        struct float_pair r = {a.low sign b.low, a.high sign b.high};                              \
        return canonical_##name(name##_encode(r));                                                 \
    }

#define KOLO_SHORT_FLOAT_ORDER(op, name, sign, infinity, quiet_nan)                                \
    static KOLO_ALWAYS_INLINE bits_vector op##_##name(bits_vector x, bits_vector y)                \
    {                                                                                              \
        u16_vector a = (u16_vector)x, b = (u16_vector)y;                                           \
        u16_vector first = (u16_vector)(short_order(a) sign short_order(b));                       \
        u16_vector nan = short_nans(a, infinity) | short_nans(b, infinity);                        \
        return (bits_vector)((((a & first) | (b & ~first)) & ~nan) | (nan & (quiet_nan)));         \
    }

#define KOLO_SHORT_FLOAT_COMBINES(name, infinity, quiet_nan)                                       \
    static KOLO_ALWAYS_INLINE bits_vector canonical_##name(bits_vector x)                          \
    {                                                                                              \
        u16_vector nan = short_nans((u16_vector)x, infinity);                                      \
        return (bits_vector)(((u16_vector)x & ~nan) | (nan & (quiet_nan)));                        \
    }                                                                                              \
    KOLO_SHORT_FLOAT_COMBINE(sum, name, +)                                                         \
    KOLO_SHORT_FLOAT_COMBINE(prod, name, *)                                                        \
    KOLO_SHORT_FLOAT_ORDER(min, name, <, infinity, quiet_nan)                                      \
    KOLO_SHORT_FLOAT_ORDER(max, name, >, infinity, quiet_nan)

KOLO_SHORT_FLOAT_COMBINES(float16, 0x7c00, 0x7e00)
KOLO_SHORT_FLOAT_COMBINES(bfloat16, 0x7f80, 0x7fc0)

// ---- the kernels: X(type, bytes of an element)

#define KOLO_INTEGER_TYPES(X)                                                                      \
    X(int8, 1)                                                                                     \
    X(int16, 2)                                                                                    \
    X(int32, 4)                                                                                    \
    X(int64, 8)                                                                                    \
    X(uint8, 1)
/** The other operators of these have the kernels of the signed type of their size. */
#define KOLO_UNSIGNED_TYPES(X)                                                                     \
    X(uint16, 2)                                                                                   \
    X(uint32, 4)                                                                                   \
    X(uint64, 8)
#define KOLO_KERNEL_TYPES(X)                                                                       \
    KOLO_INTEGER_TYPES(X)                                                                          \
    X(float16, 2)                                                                                  \
    X(bfloat16, 2)                                                                                 \
    X(float32, 4)                                                                                  \
    X(float64, 8)

#define KOLO_KERNEL(op, name, size)                                                                \
    static void kernel_##op##_##name(void *out, const void *a, const void *b, size_t count)        \
    {                                                                                              \
        combine_bytes(out, a, b, count *(size), op##_##name);                                      \
    }
#define KOLO_ORDER_KERNELS(name, size)                                                             \
    KOLO_KERNEL(min, name, size)                                                                   \
    KOLO_KERNEL(max, name, size)
#define KOLO_KERNELS(name, size)                                                                   \
    KOLO_ORDER_KERNELS(name, size)                                                                 \
    KOLO_KERNEL(sum, name, size)                                                                   \
    KOLO_KERNEL(prod, name, size)
#define KOLO_BIT_KERNELS(name, size)                                                               \
    KOLO_KERNEL(band, name, size)                                                                  \
    KOLO_KERNEL(bor, name, size)                                                                   \
    KOLO_KERNEL(bxor, name, size)                                                                  \
    KOLO_KERNEL(land, name, size)                                                                  \
    KOLO_KERNEL(lor, name, size)                                                                   \
    KOLO_KERNEL(lxor, name, size)
KOLO_KERNEL_TYPES(KOLO_KERNELS)
KOLO_INTEGER_TYPES(KOLO_BIT_KERNELS)
KOLO_UNSIGNED_TYPES(KOLO_ORDER_KERNELS)

// ---- division of an average

/** Truncates toward zero. If @p real holds two integers exactly, their quotient rounded to real
 * truncates to the same integer as the exact quotient. A divisor above @p limit, which exceeds
 * every element, gives 0, as the limit does. */
#define KOLO_INTEGER_DIVIDE(name, integer, real, limit)                                            \
    static void divide_##name(void *data, size_t count, size_t divisor)                            \
    {                                                                                              \
        const real by = (real)(divisor < (limit) ? divisor : (limit));                             \
        uint8_t *at = data;                                                                        \
        for (size_t i = 0; i < count; i++) {                                                       \
            integer x;                                                                             \
            memcpy(&x, at + i * sizeof(x), sizeof(x));                                             \
            x = (integer)((real)x / by);                                                           \
            memcpy(at + i * sizeof(x), &x, sizeof(x));                                             \
        }                                                                                          \
    }
KOLO_INTEGER_DIVIDE(int8, int8_t, float, 0x100u)
KOLO_INTEGER_DIVIDE(uint8, uint8_t, float, 0x100u)
KOLO_INTEGER_DIVIDE(int16, int16_t, float, 0x10000u)
KOLO_INTEGER_DIVIDE(uint16, uint16_t, float, 0x10000u)
KOLO_INTEGER_DIVIDE(int32, int32_t, double, 0x100000000u)
KOLO_INTEGER_DIVIDE(uint32, uint32_t, double, 0x100000000u)

/** No float holds every int64, so magnitudes are divided; this also works for INT64_MIN. */
static void divide_int64(void *data, size_t count, size_t divisor)
{
    uint8_t *at = data;
    for (size_t i = 0; i < count; i++) {
        uint64_t x;
        memcpy(&x, at + i * sizeof x, sizeof x);
        uint64_t negative = x >> 63, magnitude = (x ^ (0 - negative)) + negative;
        magnitude /= divisor;
        x = (magnitude ^ (0 - negative)) + negative;
        memcpy(at + i * sizeof x, &x, sizeof x);
    }
}

static void divide_uint64(void *data, size_t count, size_t divisor)
{
    uint8_t *at = data;
    for (size_t i = 0; i < count; i++) {
        uint64_t x;
        memcpy(&x, at + i * sizeof x, sizeof x);
        x /= divisor;
        memcpy(at + i * sizeof x, &x, sizeof x);
    }
}

/** As combine_bytes, but in place, with a second operand that is the same for all elements. */
static KOLO_ALWAYS_INLINE void divide_bytes(void *data, size_t bytes, bits_vector by,
                                            combine_vector divide)
{
    uint8_t *at = data;
    size_t i = 0;
    for (; bytes - i >= KOLO_VECTOR_BYTES; i += KOLO_VECTOR_BYTES) {
        bits_vector r = divide(vector_load(at + i), by);
        memcpy(at + i, &r, sizeof r);
    }
    if (i < bytes) {
        bits_vector x = {0};
        memcpy(&x, at + i, bytes - i);
        bits_vector r = divide(x, by);
        memcpy(at + i, &r, bytes - i);
    }
}

static KOLO_ALWAYS_INLINE bits_vector quotient_float32(bits_vector x, bits_vector by)
{
    return (bits_vector)canonical_float32((f32_vector)x / (f32_vector)by);
}

static KOLO_ALWAYS_INLINE bits_vector quotient_float64(bits_vector x, bits_vector by)
{
    return (bits_vector)canonical_float64((f64_vector)x / (f64_vector)by);
}

#define KOLO_SHORT_FLOAT_QUOTIENT(name)                                                            \
    static KOLO_ALWAYS_INLINE bits_vector quotient_##name(bits_vector x, bits_vector by)           \
    {                                                                                              \
        struct float_pair a = name##_decode(x);                                                    \
        struct float_pair r = {a.low / (f32_vector)by, a.high / (f32_vector)by};                   \
        return canonical_##name(name##_encode(r));                                                 \
    }
KOLO_SHORT_FLOAT_QUOTIENT(float16)
KOLO_SHORT_FLOAT_QUOTIENT(bfloat16)

#define KOLO_FLOAT_DIVIDE(name, size, vector, real)                                                \
    static void divide_##name(void *data, size_t count, size_t divisor)                            \
    {                                                                                              \
        const vector by = (vector){0} + (real)divisor;                                             \
        divide_bytes(data, count *(size), (bits_vector)by, quotient_##name);                       \
    }
KOLO_FLOAT_DIVIDE(float16, 2, f32_vector, float)
KOLO_FLOAT_DIVIDE(bfloat16, 2, f32_vector, float)
KOLO_FLOAT_DIVIDE(float32, 4, f32_vector, float)
KOLO_FLOAT_DIVIDE(float64, 8, f64_vector, double)

// ---- scaling

#define KOLO_SHORT_FLOAT_SCALED(name)                                                              \
    static KOLO_ALWAYS_INLINE bits_vector scaled_##name(bits_vector x, bits_vector by)             \
    {                                                                                              \
        struct float_pair a = name##_decode(x);                                                    \
        struct float_pair r = {canonical_float32(a.low * (f32_vector)by),                          \
                               canonical_float32(a.high * (f32_vector)by)};                        \
        return name##_encode(r);                                                                   \
    }
KOLO_SHORT_FLOAT_SCALED(float16)
KOLO_SHORT_FLOAT_SCALED(bfloat16)

/** As divide_bytes, from one buffer to another. */
static KOLO_ALWAYS_INLINE void scale_bytes(void *out, const void *in, size_t bytes, bits_vector by,
                                           combine_vector scale)
{
    uint8_t *to = out;
    const uint8_t *from = in;
    size_t i = 0;
    for (; bytes - i >= KOLO_VECTOR_BYTES; i += KOLO_VECTOR_BYTES) {
        bits_vector r = scale(vector_load(from + i), by);
        memcpy(to + i, &r, sizeof r);
    }
    if (i < bytes)
        part_store(to + i, scale(part_load(from + i, bytes - i), by), bytes - i);
}

#define KOLO_FLOAT_SCALE(name, size, vector, real, scale)                                          \
    static void scale_##name(void *out, const void *in, size_t count, double factor)               \
    {                                                                                              \
        const vector by = (vector){0} + (real)factor;                                              \
        scale_bytes(out, in, count *(size), (bits_vector)by, scale);                               \
    }
KOLO_FLOAT_SCALE(float16, 2, f32_vector, float, scaled_float16)
KOLO_FLOAT_SCALE(bfloat16, 2, f32_vector, float, scaled_bfloat16)
KOLO_FLOAT_SCALE(float32, 4, f32_vector, float, prod_float32)
KOLO_FLOAT_SCALE(float64, 8, f64_vector, double, prod_float64)

#endif
