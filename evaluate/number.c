// SPDX-License-Identifier: Apache-2.0
// See number.h. A number is digits * 10^power. Up to 19 digits fit 64 bits, and so does 5^27: the
// quotient of two such numbers in 128 bits, and whether a remainder is left, decide how it rounds;
// a product of 128 bits does likewise. Python writes 16 or 17 digits, so nearly all numbers go this
// way; the rest is strtod()'s, which is slower by five times and right in every case.
#include "evaluate/number.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 19,        /* of which any number fits 64 bits */
    EXACT_POWER = 22,       /* of ten that a double holds as it is */
    PRODUCT_POWER_MAX = 19, /* of ten that fits 64 bits */
    QUOTIENT_POWER_MAX = 27 /* of five that fits 64 bits */
};

__extension__ typedef unsigned __int128 wide; /* gcc's and clang's, on 64 bits */

struct decimal {
    bool is_negative;
    uint64_t digits;
    int count;     /* of digits without leading zeros */
    int64_t power; /* of ten */
};

static const char *read_digits(const char *at, const char *end, struct decimal *decimal)
{
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (decimal->count < DIGITS_MAX)
            decimal->digits = 10 * decimal->digits + (uint64_t)(*at - '0');
        decimal->count += decimal->digits > 0;
    }
    return at;
}

static const char *read_exponent(const char *at, const char *end, int64_t *exponent)
{
    bool is_negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (*exponent < EVAL_NUMBER_MAX * INT64_C(1000))
            *exponent = 10 * *exponent + (*at - '0');
    *exponent = is_negative ? -*exponent : *exponent;
    return at;
}

static struct decimal read_decimal(const char *at, const char *end)
{
    struct decimal decimal = {.is_negative = at < end && *at == '-'};
    at = read_digits(at + decimal.is_negative, end, &decimal);
    if (at < end && *at == '.') {
        const char *point = at + 1;
        at = read_digits(point, end, &decimal);
        decimal.power = point - at;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int64_t exponent = 0;
        (void)read_exponent(at + 1, end, &exponent);
        decimal.power += exponent;
    }
    return decimal;
}

/* 2^exponent, of those that are normal numbers. */
static double power_of_2(int exponent)
{
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* digits / 10^power. The quotient has 63 or 64 bits; its last one, far below what a double keeps,
 * is set where a remainder is left, so that a conversion rounds once and right. */
static double quotient(uint64_t digits, int power)
{
    uint64_t five = 1;
    for (int i = 0; i < power; i++)
        five *= 5;
    int up = __builtin_clzll(digits), five_up = __builtin_clzll(five);
    wide numerator = (wide)(digits << up) << 63;
    uint64_t denominator = five << five_up;
    uint64_t q = (uint64_t)(numerator / denominator);
    uint64_t rest = (uint64_t)numerator - q * denominator;
    return (double)(q | (rest != 0)) * power_of_2(five_up - up - power - 63);
}

static double product(uint64_t digits, int power)
{
    uint64_t ten = 1;
    for (int i = 0; i < power; i++)
        ten *= 10;
    wide all = (wide)digits * ten;
    uint64_t high = (uint64_t)(all >> 64);
    if (high == 0)
        return (double)(uint64_t)all;
    int up = __builtin_clzll(high);
    all <<= up;
    return (double)((uint64_t)(all >> 64) | ((uint64_t)all != 0)) * power_of_2(64 - up);
}

/* @return false: not among what is done here. */
static bool scale(uint64_t digits, int64_t power, double *value_out)
{
    static const double tens[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool is_exact = digits <= UINT64_C(1) << 53; /* as a double: one operation rounds once */
    if (digits == 0)
        *value_out = 0;
    else if (is_exact && power <= 0 && power >= -EXACT_POWER)
        *value_out = (double)digits / tens[-power];
    else if (is_exact && power > 0 && power <= EXACT_POWER)
        *value_out = (double)digits * tens[power];
    else if (power < 0 && power >= -QUOTIENT_POWER_MAX)
        *value_out = quotient(digits, (int)-power);
    else if (power >= 0 && power <= PRODUCT_POWER_MAX)
        *value_out = product(digits, (int)power);
    else
        return false;
    return true;
}

bool eval_number_read(const char *text, size_t length, double *value_out)
{
    char copy[EVAL_NUMBER_MAX + 1];
    struct decimal decimal = read_decimal(text, text + length);
    double value;
    if (decimal.count <= DIGITS_MAX && scale(decimal.digits, decimal.power, &value)) {
        *value_out = decimal.is_negative ? -value : value;
        return true;
    }
    if (length > EVAL_NUMBER_MAX)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *value_out = strtod(copy, NULL);
    return true;
}
