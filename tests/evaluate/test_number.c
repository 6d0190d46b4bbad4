// SPDX-License-Identifier: Apache-2.0
// Compares the parser with strtod(): millions of numbers as Python writes them, and numbers that
// are hard to round.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/number.h"

static uint64_t state = 7;

static uint64_t next_bits(void)
{
    uint64_t bits = state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

static double of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What follows the text must not be read. */
static void is_as_strtod(const char *text)
{
    char copy[EVAL_NUMBER_MAX + 8];
    double got, expected = strtod(text, NULL);
    size_t length = strlen(text);
    memcpy(copy, text, length);
    memcpy(copy + length, "12e7", 5);
    cr_assert(eval_number_read(copy, length, &got));
    cr_assert(memcmp(&got, &expected, sizeof got) == 0, "%s: %a instead of %a", text, got,
              expected);
}

Test(number, words)
{
    static const char *const words[] = {"0",
                                        "-0",
                                        "0.0",
                                        "-0.0",
                                        "1",
                                        "-1",
                                        "10",
                                        "0.1",
                                        "0.30000000000000004",
                                        "1e5",
                                        "1E+5",
                                        "1e-5",
                                        "9007199254740993",
                                        "9007199254740992",
                                        "9007199254740991",
                                        "9007199254740993.0",
                                        "9007199254740992.5",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "9999999999999999999",
                                        "99999999999999999999",
                                        "1e22",
                                        "1e23",
                                        "9007199254740993e19",
                                        "12345678901234567e19",
                                        "12345678901234567e20",
                                        "1e308",
                                        "1.7976931348623157e308",
                                        "1e309",
                                        "-1e400",
                                        "4.9e-324",
                                        "2.4703282292062327e-324",
                                        "2.4703282292062328e-324",
                                        "1e-400",
                                        "0e999999999999999999999",
                                        "1e999999999999999999999",
                                        "1e-999999999999999999999",
                                        "2.2250738585072011e-308",
                                        "0.000000000000000000000000001",
                                        "0.0000000000000000000000000001",
                                        "1234567890123456789e-27",
                                        "1234567890123456789e-28",
                                        "8.589973e9",
                                        "7450580596923828125e-27",
                                        "0.500000000000000166533453693773481063544750213623046875",
                                        "1.00000000000000011102230246251565404236316680908203125",
                                        "1.00000000000000011102230246251565404236316680908203124",
                                        "1.00000000000000011102230246251565404236316680908203126",
                                        "000",
                                        "0.000000e0"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_as_strtod(words[i]);
}

Test(number, as_python_writes_them)
{
    char text[64];
    for (int i = 0; i < 1000000; i++) {
        double u = (double)(next_bits() >> 11) * 0x1p-53;
        double value = i % 4 == 0   ? u
                       : i % 4 == 1 ? 640 * u
                       : i % 4 == 2 ? (float)(u * u)
                                    : 1e5 * u;
        snprintf(text, sizeof text, "%.*g", 15 + i / 4 % 3, value);
        is_as_strtod(text);
    }
}

Test(number, of_any_bits_and_digits)
{
    char text[64];
    for (int i = 0; i < 300000; i++) {
        double value = of_bits(next_bits());
        if (value == value && value - value == 0) {
            snprintf(text, sizeof text, "%.*g", 1 + (int)(next_bits() % 20), value);
            is_as_strtod(text);
        }
        snprintf(text, sizeof text, "%llu", (unsigned long long)next_bits());
        text[1 + next_bits() % 19] = '\0';
        snprintf(text + strlen(text), 8, "e%d", (int)(next_bits() % 60) - 30);
        is_as_strtod(text);
    }
}

/* The decimal numbers nearest to the midpoint between two doubles, from both sides. */
Test(number, at_the_middle)
{
    char text[64];
    for (int i = 0; i < 300000; i++) {
        double value =
            of_bits((next_bits() >> 12) | (uint64_t)(1023 - 10 + next_bits() % 40) << 52);
        long double middle =
            ((long double)value + (long double)of_bits(1 + *(uint64_t *)&value)) / 2;
        for (int digits = 17; digits <= 19; digits++) {
            snprintf(text, sizeof text, "%.*Lf", digits - 8 > 0 ? digits - 8 : 0, middle);
            is_as_strtod(text);
            snprintf(text, sizeof text, "%.*Lg", digits, middle);
            is_as_strtod(text);
        }
    }
}

/* In memory that begins and ends with the text. */
Test(number, of_any_length)
{
    for (size_t length = 1; length <= 44; length++)
        for (size_t point = 0; point < length; point++)
            for (size_t exponent = point; exponent < length; exponent++) {
                char *text = malloc(length), copy[48] = {0};
                double got, expected;
                for (size_t i = 0; i < length; i++)
                    text[i] = (char)('0' + next_bits() % 10);
                text[point] = point % 3 ? '.' : '0';
                text[exponent] = exponent > point + 1 && exponent + 1 < length ? 'e' : '7';
                memcpy(copy, text, length);
                expected = strtod(copy, NULL);
                cr_assert(eval_number_read(text, length, &got));
                cr_assert(memcmp(&got, &expected, sizeof got) == 0, "%s: %a instead of %a", copy,
                          got, expected);
                free(text);
            }
}

Test(number, whole)
{
    static const char *const no[] = {"",
                                     "-",
                                     "1.0",
                                     "1e0",
                                     "9223372036854775808",
                                     "1-",
                                     "+1",
                                     "0x1",
                                     " 1",
                                     "1 ",
                                     "-9223372036854775809",
                                     "18446744073709551616",
                                     "100000000000000000000"};
    static const int64_t yes[] = {0, 7, -7, 12345678, INT64_MAX, INT64_MIN, 1000000000000000000};
    char text[32];
    int64_t value = 5;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        cr_expect_not(eval_number_read_whole(no[i], strlen(no[i]), &value), "%s", no[i]);
    cr_expect_eq(value, 5);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        snprintf(text, sizeof text, "%lld", (long long)yes[i]);
        cr_expect(eval_number_read_whole(text, strlen(text), &value) && value == yes[i], "%s",
                  text);
    }
    cr_expect(eval_number_read_whole("-0", 2, &value) && value == 0);
}

Test(number, too_long)
{
    char text[EVAL_NUMBER_MAX + 2];
    double value;
    memset(text, '1', sizeof text);
    cr_expect_not(eval_number_read(text, sizeof text, &value));
    text[EVAL_NUMBER_MAX] = '\0';
    is_as_strtod(text);
    memset(text, '0', sizeof text);
    cr_expect(eval_number_read(text, sizeof text, &value), "zeros are no digits");
    cr_expect_eq(value, 0);
}
