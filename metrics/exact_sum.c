// SPDX-License-Identifier: Apache-2.0
// Exact sums of doubles: see kolo/metrics.h. Owns nothing; it is arithmetic on the caller's struct.
//
// Bit b of limb l weighs 2^(32 l + b - 1074). So the lowest bit is the smallest subnormal, and a
// finite double touches three neighbouring limbs, all below limb 66. A limb is signed, and takes
// 2^30 additions of 32-bit parts before carries must be propagated. Limb 67, the last, holds the
// sign and whatever overflows.
#include <limits.h>
#include <math.h>
#include <string.h>

#include <kolo/metrics.h>

#include "metrics/metric.h"

enum {
    LIMBS = KOLO_EXACT_SUM_LIMBS,
    LIMB_BITS = 32,
    LOWEST_EXPONENT = -1074,
    MANTISSA_BITS = 53,
};
static const int64_t CARRY_EVERY = INT64_C(1) << 30;
static const int64_t LIMB_MASK = INT64_C(0xffffffff);

void kolo_exact_sum_init(struct kolo_exact_sum *sum)
{
    memset(sum, 0, sizeof *sum);
}

void kolo_exact_sum_carry(struct kolo_exact_sum *sum)
{
    for (int i = 0; i < LIMBS - 1; i++) {
        int64_t low = sum->limbs[i] & LIMB_MASK;
        sum->limbs[i + 1] +=
            (sum->limbs[i] - low) / (LIMB_MASK + 1); /* exact: rounds toward minus infinity */
        sum->limbs[i] = low;
    }
    sum->since_carry = 0;
}

static void count_nonfinite(struct kolo_exact_sum *sum, double value)
{
    if (isnan(value))
        sum->nans++;
    else if (value > 0)
        sum->plus_infinities++;
    else
        sum->minus_infinities++;
}

void kolo_exact_sum_add(struct kolo_exact_sum *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7ff) {
        count_nonfinite(sum, value);
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    int position = exponent > 0 ? exponent - 1 : 0; /* of the mantissa's lowest bit */
    int64_t *limb = sum->limbs + position / LIMB_BITS;
    int shift = position % LIMB_BITS;
    uint64_t low = (mantissa & (uint64_t)LIMB_MASK) << shift; /* 63 bits at most */
    uint64_t high = (mantissa >> LIMB_BITS) << shift;         /* 52 bits at most */
    int64_t sign = bits >> 63 ? -1 : 1;
    limb[0] += sign * (int64_t)(low & (uint64_t)LIMB_MASK);
    limb[1] += sign * (int64_t)((low >> LIMB_BITS) + (high & (uint64_t)LIMB_MASK));
    limb[2] += sign * (int64_t)(high >> LIMB_BITS);
    if (++sum->since_carry >= CARRY_EVERY)
        kolo_exact_sum_carry(sum);
}

double kolo_exact_product(double a, double b, double *rest_out)
{
    const double product = a * b;
    *rest_out = fma(a, b, -product);
    return product;
}

void kolo_exact_sum_add_float32(struct kolo_exact_sum *sum, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kolo_exact_sum_add(sum, (double)values[i]);
}

void kolo_exact_sum_merge(struct kolo_exact_sum *sum, struct kolo_exact_sum *other)
{
    kolo_exact_sum_carry(other);
    kolo_exact_sum_carry(sum);
    for (int i = 0; i < LIMBS; i++)
        sum->limbs[i] += other->limbs[i];
    kolo_exact_sum_carry(sum);
    sum->nans += other->nans;
    sum->plus_infinities += other->plus_infinities;
    sum->minus_infinities += other->minus_infinities;
}

/* Writes the magnitude of a sum whose carries have been propagated, and returns whether the sum
 * is negative. All limbs of the magnitude are in [0, 2^32), except the last, which is >= 0. */
static bool take_magnitude(const struct kolo_exact_sum *sum, struct kolo_exact_sum *magnitude)
{
    *magnitude = *sum;
    bool is_negative = sum->limbs[LIMBS - 1] < 0;
    if (is_negative) {
        for (int i = 0; i < LIMBS; i++)
            magnitude->limbs[i] = -magnitude->limbs[i];
        kolo_exact_sum_carry(magnitude);
    }
    return is_negative;
}

static int bit_at(const struct kolo_exact_sum *sum, int position)
{
    return (int)(sum->limbs[position / LIMB_BITS] >> (position % LIMB_BITS) & 1);
}

static bool any_bit_below(const struct kolo_exact_sum *sum, int position)
{
    for (int i = 0; i < position / LIMB_BITS; i++)
        if (sum->limbs[i])
            return true;
    return (sum->limbs[position / LIMB_BITS] & ((INT64_C(1) << position % LIMB_BITS) - 1)) != 0;
}

static int highest_bit(const struct kolo_exact_sum *sum)
{
    for (int i = LIMBS - 1; i >= 0; i--)
        if (sum->limbs[i])
            return i * LIMB_BITS + 63 - __builtin_clzll((unsigned long long)sum->limbs[i]);
    return -1;
}

double kolo_exact_sum_value(struct kolo_exact_sum *sum)
{
    struct kolo_exact_sum magnitude;
    kolo_exact_sum_carry(sum);
    bool is_negative = take_magnitude(sum, &magnitude);
    int highest = highest_bit(&magnitude);
    if (highest < 0)
        return 0.0;
    if (highest >= (LIMBS - 1) * LIMB_BITS) /* far beyond the largest double */
        return is_negative ? -INFINITY : INFINITY;
    int lowest = highest - (MANTISSA_BITS - 1);
    if (lowest < 0)
        lowest = 0;
    int64_t mantissa = 0;
    for (int position = highest; position >= lowest; position--)
        mantissa = mantissa * 2 + bit_at(&magnitude, position);
    if (lowest > 0 && bit_at(&magnitude, lowest - 1) &&
        ((mantissa & 1) || any_bit_below(&magnitude, lowest - 1)))
        mantissa++;
    double value = ldexp((double)mantissa, lowest + LOWEST_EXPONENT);
    return is_negative ? -value : value;
}

struct kolo_exact_sum kolo_exact_of(const int64_t *words)
{
    struct kolo_exact_sum sum;
    memcpy(&sum, words, sizeof sum);
    return sum;
}

bool kolo_exact_accepts(const int64_t *words)
{
    const struct kolo_exact_sum sum = kolo_exact_of(words);
    const int64_t most = INT64_C(1) << 40; /* far below what could overflow when added */
    for (int i = 0; i < LIMBS - 1; i++)
        if (sum.limbs[i] < 0 || sum.limbs[i] > LIMB_MASK)
            return false;
    return sum.limbs[LIMBS - 1] >= -most && sum.limbs[LIMBS - 1] <= most && sum.nans >= 0 &&
           sum.nans <= KOLO_ELEMENT_COUNT_MAX && sum.plus_infinities >= 0 &&
           sum.plus_infinities <= KOLO_ELEMENT_COUNT_MAX && sum.minus_infinities >= 0 &&
           sum.minus_infinities <= KOLO_ELEMENT_COUNT_MAX && sum.since_carry == 0;
}
