// SPDX-License-Identifier: Apache-2.0
// The naive oracle of the reduction kernels and the checks against it, for the Criterion test and
// for the plain stress program (which also runs under emulators and ThreadSanitizer). It computes
// one element at a time, and converts 16-bit floats by searching the table of their values, so it
// has no method in common with the kernels.
#ifndef KOLO_TESTS_REDUCE_ORACLE_H
#define KOLO_TESTS_REDUCE_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/reduce.h"

struct oracle_failure {
    char text[256];
};

// ---- elements as text and as numbers

union oracle_element {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    uint16_t half;
    uint32_t bits32;
    uint64_t bits64;
    float f32;
    double f64;
};

/** The value of a sign, an exponent and a mantissa, by definition. */
static inline double oracle_short_value(uint16_t bits, int mantissa_bits)
{
    const int exponent_bits = 15 - mantissa_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    double value;
    if (exponent == (1 << exponent_bits) - 1)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        value = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return bits & 0x8000 ? -value : value;
}

/** The nearest 16-bit float (of two, the even one), by bisection over their values. Infinity has
 * the value that the next finite number would have. */
static inline uint16_t oracle_short_from(double value, int mantissa_bits)
{
    const uint16_t infinity = (uint16_t)(((1 << (15 - mantissa_bits)) - 1) << mantissa_bits);
    if (isnan(value))
        return (uint16_t)(infinity | (1 << (mantissa_bits - 1)));
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs(value);
    uint16_t low = 0, high = infinity;
    while (high - low > 1) { /* value(low) <= magnitude, < value(high) or high is infinity */
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (oracle_short_value(middle, mantissa_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const double below = oracle_short_value(low, mantissa_bits);
    const double above = high < infinity
                             ? oracle_short_value(high, mantissa_bits)
                             : 2 * below - oracle_short_value((uint16_t)(low - 1), mantissa_bits);
    const double down = magnitude - below, up = above - magnitude;
    const bool is_low = down < up || (down == up && low % 2 == 0);
    return sign | (is_low ? low : high);
}

enum { ORACLE_HALF_MANTISSA = 10, ORACLE_BRAIN_MANTISSA = 7 };

/** Bitwise and logical operators are defined for integers only. */
static inline bool oracle_is_defined(kolo_dtype dtype, kolo_redop op)
{
    const bool is_float = dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16 ||
                          dtype == KOLO_FLOAT32 || dtype == KOLO_FLOAT64;
    return !is_float || op <= KOLO_AVERAGE;
}

// ---- one element

#define ORACLE_FLOAT_COMBINE(name, real, quiet_nan)                                                \
    static inline real name(real x, real y, kolo_redop op)                                         \
    {                                                                                              \
        real r;                                                                                    \
        if (op == KOLO_SUM || op == KOLO_AVERAGE)                                                  \
            r = x + y;                                                                             \
        else if (op == KOLO_PROD)                                                                  \
            r = x * y;                                                                             \
        else if (isnan(x) || isnan(y))                                                             \
            r = (real)NAN;                                                                         \
        else if (x == 0 && y == 0)                                                                 \
            r = (op == KOLO_MIN) == (signbit(x) != 0) ? x : y;                                     \
        else                                                                                       \
            r = (op == KOLO_MIN) == (x < y) ? x : y;                                               \
        return isnan(r) ? quiet_nan : r;                                                           \
    }
static inline float oracle_nan32(void)
{
    return (union oracle_element){.bits32 = 0x7fc00000u}.f32;
}
static inline double oracle_nan64(void)
{
    return (union oracle_element){.bits64 = 0x7ff8000000000000u}.f64;
}
ORACLE_FLOAT_COMBINE(oracle_combine32, float, oracle_nan32())
ORACLE_FLOAT_COMBINE(oracle_combine64, double, oracle_nan64())

static inline uint64_t oracle_wrap(uint64_t x, uint64_t y, kolo_redop op)
{
    const bool p = x != 0, q = y != 0;
    switch ((int)op) {
    case KOLO_PROD:
        return x * y;
    case KOLO_BAND:
        return x & y;
    case KOLO_BOR:
        return x | y;
    case KOLO_BXOR:
        return x ^ y;
    case KOLO_LAND:
        return p && q;
    case KOLO_LOR:
        return p || q;
    case KOLO_LXOR:
        return p != q;
    default:
        return x + y;
    }
}

#define ORACLE_INTEGER(field, type)                                                                \
    do {                                                                                           \
        if (op == KOLO_MIN)                                                                        \
            r.field = a.field < b.field ? a.field : b.field;                                       \
        else if (op == KOLO_MAX)                                                                   \
            r.field = a.field > b.field ? a.field : b.field;                                       \
        else                                                                                       \
            r.field = (type)oracle_wrap((uint64_t)a.field, (uint64_t)b.field, op);                 \
    } while (0)

static inline union oracle_element oracle_combine_short(union oracle_element a,
                                                        union oracle_element b, kolo_redop op,
                                                        int mantissa_bits)
{
    const float r = oracle_combine32((float)oracle_short_value(a.half, mantissa_bits),
                                     (float)oracle_short_value(b.half, mantissa_bits), op);
    return (union oracle_element){.half = oracle_short_from((double)r, mantissa_bits)};
}

static inline union oracle_element oracle_combine(kolo_dtype dtype, kolo_redop op,
                                                  union oracle_element a, union oracle_element b)
{
    union oracle_element r = {.bits64 = 0};
    switch (dtype) {
    case KOLO_INT8:
        ORACLE_INTEGER(i8, int8_t);
        break;
    case KOLO_INT16:
        ORACLE_INTEGER(i16, int16_t);
        break;
    case KOLO_INT32:
        ORACLE_INTEGER(i32, int32_t);
        break;
    case KOLO_INT64:
        ORACLE_INTEGER(i64, int64_t);
        break;
    case KOLO_UINT8:
        ORACLE_INTEGER(u8, uint8_t);
        break;
    case KOLO_UINT16:
        ORACLE_INTEGER(u16, uint16_t);
        break;
    case KOLO_UINT32:
        ORACLE_INTEGER(u32, uint32_t);
        break;
    case KOLO_UINT64:
        ORACLE_INTEGER(u64, uint64_t);
        break;
    case KOLO_FLOAT16:
        return oracle_combine_short(a, b, op, ORACLE_HALF_MANTISSA);
    case KOLO_BFLOAT16:
        return oracle_combine_short(a, b, op, ORACLE_BRAIN_MANTISSA);
    case KOLO_FLOAT32:
        r.f32 = oracle_combine32(a.f32, b.f32, op);
        break;
    case KOLO_FLOAT64:
        r.f64 = oracle_combine64(a.f64, b.f64, op);
        break;
    case KOLO_DTYPES:
    case KOLO_DTYPE_LAST:
        abort();
    }
    return r;
}

/** Integers are divided in 128 bits, which every dividend and divisor fits into. */
static inline union oracle_element oracle_divide(kolo_dtype dtype, union oracle_element x,
                                                 size_t divisor)
{
    __extension__ typedef __int128 wide;
    const float by = (float)divisor;
    float q;
    union oracle_element r = {.bits64 = 0};
    switch (dtype) {
    case KOLO_INT8:
        r.i8 = (int8_t)((wide)x.i8 / (wide)divisor);
        break;
    case KOLO_INT16:
        r.i16 = (int16_t)((wide)x.i16 / (wide)divisor);
        break;
    case KOLO_INT32:
        r.i32 = (int32_t)((wide)x.i32 / (wide)divisor);
        break;
    case KOLO_INT64:
        r.i64 = (int64_t)((wide)x.i64 / (wide)divisor);
        break;
    case KOLO_UINT8:
        r.u8 = (uint8_t)((wide)x.u8 / (wide)divisor);
        break;
    case KOLO_UINT16:
        r.u16 = (uint16_t)((wide)x.u16 / (wide)divisor);
        break;
    case KOLO_UINT32:
        r.u32 = (uint32_t)((wide)x.u32 / (wide)divisor);
        break;
    case KOLO_UINT64:
        r.u64 = (uint64_t)((wide)x.u64 / (wide)divisor);
        break;
    case KOLO_FLOAT16:
        q = (float)oracle_short_value(x.half, ORACLE_HALF_MANTISSA) / by;
        r.half = oracle_short_from((double)q, ORACLE_HALF_MANTISSA);
        break;
    case KOLO_BFLOAT16:
        q = (float)oracle_short_value(x.half, ORACLE_BRAIN_MANTISSA) / by;
        r.half = oracle_short_from((double)q, ORACLE_BRAIN_MANTISSA);
        break;
    case KOLO_FLOAT32:
        r.f32 = isnan(x.f32) ? oracle_nan32() : x.f32 / by;
        break;
    case KOLO_FLOAT64:
        r.f64 = isnan(x.f64) ? oracle_nan64() : x.f64 / (double)divisor;
        break;
    case KOLO_DTYPES:
    case KOLO_DTYPE_LAST:
        abort();
    }
    return r;
}

// ---- data: every pair of the special values, then random bits

enum { ORACLE_SPECIALS = 24, ORACLE_COUNT_MAX = 4097 };

static inline uint64_t oracle_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/** Special values of floats: zeros, subnormals, the smallest normals, ones, the largest,
 * infinities, NaNs of both kinds, and a value that rounds to a tie; each with both signs. */
static inline void oracle_float_specials(uint64_t specials[ORACLE_SPECIALS], int mantissa_bits,
                                         int bits)
{
    const uint64_t one = 1, sign = one << (bits - 1), implicit = one << mantissa_bits;
    const uint64_t infinity = sign - implicit;
    const uint64_t bias = (infinity >> mantissa_bits) / 2;
    const uint64_t positive[ORACLE_SPECIALS / 2] = {0,
                                                    1,
                                                    implicit - 1,
                                                    implicit,
                                                    bias << mantissa_bits,
                                                    (bias << mantissa_bits) + 1,
                                                    (bias - 1 - (uint64_t)mantissa_bits)
                                                        << mantissa_bits,
                                                    infinity - 1,
                                                    infinity - implicit,
                                                    infinity,
                                                    infinity + 1,
                                                    infinity + implicit - 1};
    for (int i = 0; i < ORACLE_SPECIALS / 2; i++) {
        specials[2 * i] = positive[i];
        specials[2 * i + 1] = positive[i] | sign;
    }
}

static inline void oracle_integer_specials(uint64_t specials[ORACLE_SPECIALS], int bits)
{
    const uint64_t sign = (uint64_t)1 << (bits - 1);
    const uint64_t centres[] = {0, sign, sign >> 1, 0x55u, 0xff, 100};
    for (int i = 0; i < ORACLE_SPECIALS; i++)
        specials[i] = centres[i / 4] + (uint64_t)(i % 4) - 2;
}

static inline void oracle_specials(kolo_dtype dtype, uint64_t specials[ORACLE_SPECIALS])
{
    static const int mantissas[KOLO_DTYPES] = {
        [KOLO_FLOAT16] = 10, [KOLO_BFLOAT16] = 7, [KOLO_FLOAT32] = 23, [KOLO_FLOAT64] = 52};
    const int bits = 8 * (int)kolo_dtype_bytes(dtype);
    if (mantissas[dtype])
        oracle_float_specials(specials, mantissas[dtype], bits);
    else
        oracle_integer_specials(specials, bits);
}

/** Element @p i of the two operands. After the pairs of special values, half of the floats have an
 * exponent of middle size, so that sums neither vanish nor absorb the smaller operand. */
static inline void oracle_operands(kolo_dtype dtype, size_t i, const uint64_t *specials,
                                   uint64_t *state, uint64_t *a_out, uint64_t *b_out)
{
    if (i < (size_t)ORACLE_SPECIALS * ORACLE_SPECIALS) {
        *a_out = specials[i / ORACLE_SPECIALS];
        *b_out = specials[i % ORACLE_SPECIALS];
        return;
    }
    *a_out = oracle_random(state);
    *b_out = oracle_random(state);
    if (i % 2 == 0)
        return;
    const double x = (double)(int64_t)*a_out * 0x1p-62, y = (double)(int64_t)*b_out * 0x1p-60;
    union oracle_element p = {.bits64 = *a_out}, q = {.bits64 = *b_out};
    if (dtype == KOLO_FLOAT64)
        p.f64 = x, q.f64 = y;
    else if (dtype == KOLO_FLOAT32)
        p.f32 = (float)x, q.f32 = (float)y;
    else if (dtype == KOLO_FLOAT16)
        p.half = oracle_short_from(x, 10), q.half = oracle_short_from(y, 10);
    else if (dtype == KOLO_BFLOAT16)
        p.half = oracle_short_from(x, 7), q.half = oracle_short_from(y, 7);
    *a_out = p.bits64;
    *b_out = q.bits64;
}

/** The operands and the oracle's results for one type and operator, packed. */
struct oracle_data {
    kolo_dtype dtype;
    kolo_redop op;
    size_t size; /* of an element, in bytes */
    uint8_t a[8 * ORACLE_COUNT_MAX], b[8 * ORACLE_COUNT_MAX], expected[8 * ORACLE_COUNT_MAX];
};

static inline struct oracle_data *oracle_data_create(kolo_dtype dtype, kolo_redop op)
{
    struct oracle_data *data = calloc(1, sizeof *data);
    if (!data)
        abort();
    *data = (struct oracle_data){.dtype = dtype, .op = op, .size = kolo_dtype_bytes(dtype)};
    uint64_t specials[ORACLE_SPECIALS], state = 7;
    oracle_specials(dtype, specials);
    for (size_t i = 0; i < ORACLE_COUNT_MAX; i++) {
        union oracle_element a, b;
        oracle_operands(dtype, i, specials, &state, &a.bits64, &b.bits64);
        const union oracle_element r = oracle_combine(dtype, op, a, b);
        memcpy(data->a + i * data->size, &a, data->size);
        memcpy(data->b + i * data->size, &b, data->size);
        memcpy(data->expected + i * data->size, &r, data->size);
    }
    return data;
}

// ---- the checks

enum { ORACLE_GUARD = 64, ORACLE_GUARD_BYTE = 0xa5 };

/** @p bytes bytes at @p shift from an aligned address. The allocation ends right behind them, for
 * AddressSanitizer, or after a guard. */
struct oracle_buffer {
    uint8_t *memory, *at;
    size_t shift, bytes;
};

static inline struct oracle_buffer oracle_buffer_create(const uint8_t *from, size_t bytes,
                                                        size_t shift, size_t guard)
{
    struct oracle_buffer buffer = {.shift = shift, .bytes = bytes};
    buffer.memory = malloc(shift + bytes + guard + (shift + bytes + guard == 0));
    if (!buffer.memory)
        abort();
    buffer.at = buffer.memory + shift;
    memset(buffer.memory, ORACLE_GUARD_BYTE, shift + bytes + guard);
    if (from)
        memcpy(buffer.at, from, bytes);
    return buffer;
}

static inline bool oracle_guard_holds(const struct oracle_buffer *buffer)
{
    for (size_t i = 0; i < buffer->shift; i++)
        if (buffer->memory[i] != ORACLE_GUARD_BYTE)
            return false;
    for (size_t i = 0; i < ORACLE_GUARD; i++)
        if (buffer->at[buffer->bytes + i] != ORACLE_GUARD_BYTE)
            return false;
    return true;
}

enum oracle_alias { ORACLE_APART, ORACLE_OUT_IS_A, ORACLE_OUT_IS_B, ORACLE_ALIASES };

/** Checks one call of a kernel: @p count elements from element @p first of the data, with all three
 * buffers @p shift bytes off alignment. @p swapped: computes op(b, a), which must be the same. */
static inline bool oracle_check_call(kolo_reduce_fn kernel, const struct oracle_data *data,
                                     size_t first, size_t count, size_t shift,
                                     enum oracle_alias alias, bool swapped,
                                     struct oracle_failure *why)
{
    const size_t bytes = count * data->size, from = first * data->size;
    const uint8_t *a = swapped ? data->b : data->a, *b = swapped ? data->a : data->b;
    struct oracle_buffer in_a =
        oracle_buffer_create(a + from, bytes, shift, alias == ORACLE_OUT_IS_A ? ORACLE_GUARD : 0);
    struct oracle_buffer in_b =
        oracle_buffer_create(b + from, bytes, shift, alias == ORACLE_OUT_IS_B ? ORACLE_GUARD : 0);
    struct oracle_buffer apart = oracle_buffer_create(NULL, bytes, shift, ORACLE_GUARD);
    const struct oracle_buffer *out = alias == ORACLE_APART      ? &apart
                                      : alias == ORACLE_OUT_IS_A ? &in_a
                                                                 : &in_b;
    kernel(out->at, in_a.at, in_b.at, count);
    bool good = oracle_guard_holds(out);
    if (!good)
        snprintf(why->text, sizeof why->text, "wrote outside of the result");
    for (size_t i = 0; good && i < count; i++) {
        const size_t at = i * data->size;
        if (memcmp(out->at + at, data->expected + from + at, data->size) == 0)
            continue;
        uint64_t x = 0, y = 0, got = 0, expected = 0;
        memcpy(&x, a + from + at, data->size);
        memcpy(&y, b + from + at, data->size);
        memcpy(&got, out->at + at, data->size);
        memcpy(&expected, data->expected + from + at, data->size);
        snprintf(why->text, sizeof why->text, "element %zu of %#llx and %#llx: %#llx, not %#llx", i,
                 (unsigned long long)x, (unsigned long long)y, (unsigned long long)got,
                 (unsigned long long)expected);
        good = false;
    }
    free(in_a.memory);
    free(in_b.memory);
    free(apart.memory);
    return good;
}

/** Checks one kernel with all counts, misalignments and aliases. */
static inline bool oracle_check_kernel(const char *variant, const struct oracle_data *data,
                                       struct oracle_failure *why)
{
    static const size_t counts[] = {
        0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1000, ORACLE_COUNT_MAX};
    const kolo_reduce_fn kernel = kolo_reduce_function_of(variant, data->dtype, data->op);
    const size_t shifts[] = {0, data->size, 1};
    uint64_t state = 11;
    struct oracle_failure inner;
    bool good = kernel != NULL;
    if (!kernel)
        snprintf(why->text, sizeof why->text, "there is no kernel of %s", variant);
    for (size_t c = 0; good && c < sizeof counts / sizeof counts[0]; c++)
        for (size_t run = 0; good && run < 3 * ORACLE_ALIASES * 2; run++) {
            const size_t first = oracle_random(&state) % (ORACLE_COUNT_MAX - counts[c] + 1);
            const size_t shift = shifts[run / 2 % 3];
            const enum oracle_alias alias = (enum oracle_alias)(run / 6);
            good = oracle_check_call(kernel, data, first, counts[c], shift, alias, run % 2, &inner);
            if (!good)
                snprintf(why->text, sizeof why->text,
                         "%s %s %s, count %zu, %zu bytes off, alias %d%s: %.120s", variant,
                         kolo_dtype_text(data->dtype), kolo_redop_text(data->op), counts[c], shift,
                         (int)alias, run % 2 ? ", swapped" : "", inner.text);
        }
    return good;
}

/** Checks kolo_divide of one variant and type, with the first operands of the data. */
static inline bool oracle_check_divide(const char *variant, const struct oracle_data *data,
                                       size_t divisor, struct oracle_failure *why)
{
    const kolo_divide_fn divide = kolo_divide_function_of(variant, data->dtype);
    const size_t count = ORACLE_COUNT_MAX;
    struct oracle_buffer buffer =
        oracle_buffer_create(data->a, count * data->size, 1, ORACLE_GUARD);
    divide(buffer.at, count, divisor);
    bool good = oracle_guard_holds(&buffer);
    if (!good)
        snprintf(why->text, sizeof why->text, "wrote outside of the data");
    for (size_t i = 0; good && i < count; i++) {
        union oracle_element x = {.bits64 = 0}, got = {.bits64 = 0};
        memcpy(&x, data->a + i * data->size, data->size);
        memcpy(&got, buffer.at + i * data->size, data->size);
        const union oracle_element expected = oracle_divide(data->dtype, x, divisor);
        good = memcmp(&got, &expected, data->size) == 0;
        if (!good)
            snprintf(why->text, sizeof why->text, "%s %s: %#llx / %zu = %#llx, not %#llx", variant,
                     kolo_dtype_text(data->dtype), (unsigned long long)x.bits64, divisor,
                     (unsigned long long)got.bits64, (unsigned long long)expected.bits64);
    }
    free(buffer.memory);
    return good;
}

#endif
