// SPDX-License-Identifier: Apache-2.0
// See number.h. A number is digits * 10^power. Up to 19 digits fit into 64 bits, and so does 5^27.
// The 128-bit quotient of two such numbers, and whether there is a remainder, decide how it rounds;
// likewise a 128-bit product. Python writes 16 or 17 digits, so nearly all numbers take this path;
// the others go to strtod(), which is five times slower and right in every case. Digits are read
// eight at a time, as the bytes of a word, as long as the number itself has eight more bytes.
#include "evaluate/number.h"

#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 19,         /* any number of this many digits fits 64 bits */
    EXACT_POWER = 22,        /* largest power of ten that a double represents exactly */
    PRODUCT_POWER_MAX = 19,  /* largest power of ten that fits 64 bits */
    QUOTIENT_POWER_MAX = 27, /* largest power of five that fits 64 bits */
    WORD = 8                 /* bytes of a word */
};
#define EACH_BYTE UINT64_C(0x0101010101010101)

__extension__ typedef unsigned __int128 wide; /* gcc's and clang's, on 64 bits */

struct decimal {
    const char *begin, *end; /* of the text */
    bool is_negative;
    uint64_t digits;
    int count;     /* of digits without leading zeros */
    int64_t power; /* of ten */
};

static const uint64_t tens[PRODUCT_POWER_MAX + 1] = {1,
                                                     10,
                                                     100,
                                                     1000,
                                                     10000,
                                                     100000,
                                                     1000000,
                                                     10000000,
                                                     100000000,
                                                     1000000000,
                                                     10000000000,
                                                     100000000000,
                                                     1000000000000,
                                                     10000000000000,
                                                     100000000000000,
                                                     1000000000000000,
                                                     10000000000000000,
                                                     100000000000000000,
                                                     1000000000000000000,
                                                     10000000000000000000u};

/* The bytes of a text of at least 8 bytes from @p at on, the first one lowest; 0 for bytes after
 * its end. */
static uint64_t load_word(const struct decimal *text, const char *at)
{
    size_t left = (size_t)(text->end - at), back = left < WORD ? WORD - left : 0;
    uint64_t word;
    memcpy(&word, at - back, WORD);
    return le64toh(word) >> 8 * back;
}

/* How many of the low bytes of a word are digits. A carry or borrow from a byte that is not a digit
 * affects only the bytes after it. */
static unsigned count_digits(uint64_t word)
{
    uint64_t others = ((word + 0x46 * EACH_BYTE) | (word - '0' * EACH_BYTE)) & 0x80 * EACH_BYTE;
    return others ? (unsigned)__builtin_ctzll(others) / 8 : WORD;
}

/* The value of the low @p count bytes, 1 to 8 digits: pairs become numbers of two digits, pairs of
 * these numbers of four, and those a number of eight. */
static uint64_t digits_of(uint64_t word, unsigned count)
{
    word = (word - '0' * EACH_BYTE) << 8 * (WORD - count);
    word = (word * (10 << 8 | 1) >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word * (100 << 16 | 1) >> 16) & UINT64_C(0x0000ffff0000ffff);
    return word * (UINT64_C(10000) << 32 | 1) >> 32;
}

/* Inline, so that the number stays in registers. */
__attribute__((always_inline)) static inline const char *read_words(const char *at,
                                                                    struct decimal *decimal)
{
    unsigned count = WORD;
    while (count == WORD && at < decimal->end && decimal->count <= DIGITS_MAX - WORD) {
        uint64_t word = load_word(decimal, at);
        count = count_digits(word);
        if (count > 0)
            decimal->digits = tens[count] * decimal->digits + digits_of(word, count);
        decimal->count += (int)count;
        at += count;
    }
    return at;
}

__attribute__((always_inline)) static inline const char *read_digits(const char *at,
                                                                     struct decimal *decimal)
{
    const char *end = decimal->end;
    while (decimal->count == 0 && at < end && *at == '0')
        at++;
    if (end - decimal->begin >= WORD)
        at = read_words(at, decimal);
    for (; at < end && *at >= '0' && *at <= '9'; at++, decimal->count++)
        if (decimal->count < DIGITS_MAX)
            decimal->digits = 10 * decimal->digits + (uint64_t)(*at - '0');
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
    struct decimal decimal = {.begin = at, .end = end, .is_negative = at < end && *at == '-'};
    at = read_digits(at + decimal.is_negative, &decimal);
    if (at < end && *at == '.') {
        const char *point = at + 1;
        at = read_digits(point, &decimal);
        decimal.power = point - at;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int64_t exponent = 0;
        (void)read_exponent(at + 1, end, &exponent);
        decimal.power += exponent;
    }
    return decimal;
}

/* 2^exponent, for exponents of normal numbers. */
static double power_of_2(int exponent)
{
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts a word and rounds once, correctly: its last bit, far below the precision of a double, is
 * set if there is any remainder. The shift by one bit makes it a signed number, which processors
 * convert without testing its size. */
static double round_word(uint64_t word, bool is_more, int exponent)
{
    return (double)(int64_t)(word >> 1 | (word & 1) | is_more) * power_of_2(exponent + 1);
}

/* digits / 10^power. The quotient has 63 or 64 bits. */
static double quotient(uint64_t digits, int power)
{
    static const uint64_t fives[QUOTIENT_POWER_MAX + 1] = {1,
                                                           5,
                                                           25,
                                                           125,
                                                           625,
                                                           3125,
                                                           15625,
                                                           78125,
                                                           390625,
                                                           1953125,
                                                           9765625,
                                                           48828125,
                                                           244140625,
                                                           1220703125,
                                                           6103515625,
                                                           30517578125,
                                                           152587890625,
                                                           762939453125,
                                                           3814697265625,
                                                           19073486328125,
                                                           95367431640625,
                                                           476837158203125,
                                                           2384185791015625,
                                                           11920928955078125,
                                                           59604644775390625,
                                                           298023223876953125,
                                                           1490116119384765625,
                                                           7450580596923828125};
    uint64_t five = fives[power];
    int up = __builtin_clzll(digits), five_up = __builtin_clzll(five);
    wide numerator = (wide)(digits << up) << 63;
    uint64_t denominator = five << five_up;
    uint64_t q = (uint64_t)(numerator / denominator);
    uint64_t rest = (uint64_t)numerator - q * denominator;
    return round_word(q, rest != 0, five_up - up - power - 63);
}

static double product(uint64_t digits, int power)
{
    wide all = (wide)digits * tens[power];
    uint64_t high = (uint64_t)(all >> 64);
    if (high == 0)
        return (double)(uint64_t)all;
    int up = __builtin_clzll(high);
    all <<= up;
    return round_word((uint64_t)(all >> 64), (uint64_t)all != 0, 64 - up);
}

/* @return false if this path cannot convert it. */
static bool scale(uint64_t digits, int64_t power, double *value_out)
{
    static const double exact[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool is_exact = digits <= UINT64_C(1) << 53; /* as a double: one operation rounds once */
    if (digits == 0)
        *value_out = 0;
    else if (is_exact && power <= 0 && power >= -EXACT_POWER)
        *value_out = (double)digits / exact[-power];
    else if (is_exact && power > 0 && power <= EXACT_POWER)
        *value_out = (double)digits * exact[power];
    else if (power < 0 && power >= -QUOTIENT_POWER_MAX)
        *value_out = quotient(digits, (int)-power);
    else if (power >= 0 && power <= PRODUCT_POWER_MAX)
        *value_out = product(digits, (int)power);
    else
        return false;
    return true;
}

/* Not inlined, so that callers on the fast path do not need its copy. */
__attribute__((noinline)) static bool read_slowly(const char *text, size_t length,
                                                  double *value_out)
{
    char copy[EVAL_NUMBER_MAX + 1];
    if (length > EVAL_NUMBER_MAX)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *value_out = strtod(copy, NULL);
    return true;
}

static bool is_digit(const char *text, size_t length)
{
    return length == 1 && text[0] >= '0' && text[0] <= '9';
}

bool eval_number_read(const char *text, size_t length, double *value_out)
{
    double value;
    if (is_digit(text, length)) {
        *value_out = text[0] - '0';
        return true;
    }
    struct decimal decimal = read_decimal(text, text + length);
    if (decimal.count > DIGITS_MAX || !scale(decimal.digits, decimal.power, &value))
        return read_slowly(text, length, value_out);
    *value_out = decimal.is_negative ? -value : value;
    return true;
}

bool eval_number_read_whole(const char *text, size_t length, int64_t *value_out)
{
    struct decimal decimal = {.begin = text, .end = text + length};
    decimal.is_negative = length > 0 && text[0] == '-';
    const char *begin = text + decimal.is_negative, *end = read_digits(begin, &decimal);
    uint64_t limit = (uint64_t)INT64_MAX + decimal.is_negative;
    if (end == begin || end != decimal.end || decimal.count > DIGITS_MAX || decimal.digits > limit)
        return false;
    *value_out = (int64_t)(decimal.is_negative ? -decimal.digits : decimal.digits);
    return true;
}
