// SPDX-License-Identifier: Apache-2.0
// R2 from exact sums: see metrics/exact_ratio.h. Owns nothing. It computes with natural numbers of
// 32-bit limbs, lowest first. An exact sum is such a number times 2^-1074, so the product of two is
// one times 2^-2148, and a sum that is compared with a product, or subtracted, is shifted by 1074
// bits.
#include "metrics/exact_ratio.h"

#include <math.h>
#include <string.h>

enum {
    LIMB_BITS = 32,
    SUM_LIMBS = KOLO_EXACT_SUM_LIMBS + 1,
    BIG_LIMBS = 2 * SUM_LIMBS + 4,
    SHIFT = 1074
};

struct big {
    uint32_t limbs[BIG_LIMBS];
};

/* Returns |sum| in units of 2^-1074. */
static struct big magnitude_of(const struct kolo_exact_sum *sum)
{
    struct kolo_exact_sum plain = *sum;
    struct big big = {{0}};
    kolo_exact_sum_carry(&plain);
    if (plain.limbs[KOLO_EXACT_SUM_LIMBS - 1] < 0) {
        for (int i = 0; i < KOLO_EXACT_SUM_LIMBS; i++)
            plain.limbs[i] = -plain.limbs[i];
        kolo_exact_sum_carry(&plain);
    }
    for (int i = 0; i < KOLO_EXACT_SUM_LIMBS; i++)
        big.limbs[i] = (uint32_t)plain.limbs[i];
    big.limbs[KOLO_EXACT_SUM_LIMBS] =
        (uint32_t)((uint64_t)plain.limbs[KOLO_EXACT_SUM_LIMBS - 1] >> LIMB_BITS);
    return big;
}

static struct big times(const struct big *a, const struct big *b)
{
    struct big product = {{0}};
    for (int i = 0; i < BIG_LIMBS; i++) {
        uint64_t carried = 0;
        for (int j = 0; a->limbs[i] && i + j < BIG_LIMBS; j++) {
            carried += product.limbs[i + j] + (uint64_t)a->limbs[i] * b->limbs[j];
            product.limbs[i + j] = (uint32_t)carried;
            carried >>= LIMB_BITS;
        }
    }
    return product;
}

/* Returns n * |sum| in units of 2^-2148. */
static struct big scaled(const struct kolo_exact_sum *sum, int64_t n)
{
    struct big count = {{(uint32_t)n, (uint32_t)((uint64_t)n >> LIMB_BITS)}}, unit = {{0}};
    unit.limbs[SHIFT / LIMB_BITS] = UINT32_C(1) << SHIFT % LIMB_BITS;
    struct big magnitude = magnitude_of(sum), product = times(&count, &magnitude);
    return times(&product, &unit);
}

static int compare(const struct big *a, const struct big *b)
{
    for (int i = BIG_LIMBS - 1; i >= 0; i--)
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

/* Returns a - b; a must be >= b. */
static struct big minus(const struct big *a, const struct big *b)
{
    struct big difference;
    int64_t borrowed = 0;
    for (int i = 0; i < BIG_LIMBS; i++) {
        borrowed += (int64_t)a->limbs[i] - (int64_t)b->limbs[i];
        difference.limbs[i] = (uint32_t)borrowed;
        borrowed = borrowed < 0 ? -1 : 0;
    }
    return difference;
}

/* Rounds to nearest, ties to even. The value is the result times 2^*exponent_out. */
static double rounded(const struct big *big, int *exponent_out)
{
    int highest = BIG_LIMBS - 1;
    while (highest > 0 && !big->limbs[highest])
        highest--;
    uint64_t top = 0;
    bool sticky = false;
    int lowest = highest >= 2 ? highest - 2 : 0;
    for (int i = highest; i > lowest; i--)
        top = top << LIMB_BITS | big->limbs[i];
    int free_bits = top ? __builtin_clzll(top) : LIMB_BITS; /* to be filled from the lowest limb */
    int taken = free_bits < LIMB_BITS ? free_bits : LIMB_BITS;
    uint64_t last = big->limbs[lowest];
    if (taken)
        top = top << taken | last >> (LIMB_BITS - taken);
    sticky = taken < LIMB_BITS && (last << taken & UINT64_C(0xffffffff)) != 0;
    for (int i = 0; i < lowest; i++)
        sticky = sticky || big->limbs[i];
    *exponent_out = lowest * LIMB_BITS + LIMB_BITS - taken;
    return (double)(top | sticky);
}

static double quotient(const struct big *over, const struct big *under)
{
    int over_exponent, under_exponent;
    double a = rounded(over, &over_exponent), b = rounded(under, &under_exponent);
    return ldexp(a / b, over_exponent - under_exponent);
}

/* Returns what the squares of n tiny numbers may have lost, times n: each at most 2^-1074. */
static struct big blur_of(int64_t n)
{
    struct kolo_exact_sum blur;
    kolo_exact_sum_init(&blur);
    kolo_exact_sum_add(&blur, (double)n * 0x1p-1074);
    return scaled(&blur, n);
}

double kolo_exact_r2(int64_t n, const struct kolo_exact_sum *residuals,
                     const struct kolo_exact_sum *squares, const struct kolo_exact_sum *sum)
{
    static const struct big zero;
    struct big unexplained = scaled(residuals, n), all = scaled(squares, n);
    struct big magnitude = magnitude_of(sum), square = times(&magnitude, &magnitude);
    struct big blur = blur_of(n), spread = zero, rest;
    if (compare(&all, &square) > 0)
        spread = minus(&all, &square);
    if (compare(&spread, &blur) <= 0)
        return compare(&unexplained, &zero) == 0 ? 1 : 0;
    if (compare(&spread, &unexplained) >= 0) {
        rest = minus(&spread, &unexplained);
        return quotient(&rest, &spread);
    }
    rest = minus(&unexplained, &spread);
    return -quotient(&rest, &spread);
}
