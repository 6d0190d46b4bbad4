// SPDX-License-Identifier: Apache-2.0
// memory/reduce*.c: every variant that runs on this machine, with every type and operator, against
// the naive oracle.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "tests/memory/float16_opinion.h"
#include "tests/memory/reduce_oracle.h"

ParameterizedTestParameters(reduce, kernels)
{
    static int dtypes[KOLO_DTYPES];
    for (int i = 0; i < KOLO_DTYPES; i++)
        dtypes[i] = i;
    return cr_make_param_array(int, dtypes, KOLO_DTYPES);
}

ParameterizedTest(int *dtype, reduce, kernels, .timeout = 200)
{
    for (int op = 0; op < KOLO_REDOPS; op++) {
        cr_assert(!kolo_reduce_function((kolo_dtype)*dtype, (kolo_redop)op) ==
                  !oracle_is_defined((kolo_dtype)*dtype, (kolo_redop)op));
        if (!oracle_is_defined((kolo_dtype)*dtype, (kolo_redop)op))
            continue;
        struct oracle_data *data = oracle_data_create((kolo_dtype)*dtype, (kolo_redop)op);
        const char *variant;
        for (int i = 0; (variant = kolo_reduce_variant(i)) != NULL; i++) {
            struct oracle_failure why;
            cr_assert(oracle_check_kernel(variant, data, &why), "%s", why.text);
        }
        free(data);
    }
}

ParameterizedTestParameters(reduce, division)
{
    static int dtypes[KOLO_DTYPES];
    for (int i = 0; i < KOLO_DTYPES; i++)
        dtypes[i] = i;
    return cr_make_param_array(int, dtypes, KOLO_DTYPES);
}

ParameterizedTest(int *dtype, reduce, division, .timeout = 200)
{
    static const size_t divisors[] = {1,
                                      2,
                                      3,
                                      5,
                                      7,
                                      8,
                                      16,
                                      64,
                                      127,
                                      128,
                                      129,
                                      255,
                                      256,
                                      257,
                                      1000,
                                      4096,
                                      32767,
                                      32768,
                                      32769,
                                      65535,
                                      65536,
                                      65537,
                                      1u << 24,
                                      0x7fffffffu,
                                      0x80000000u,
                                      0x80000001u,
                                      0xffffffffu,
                                      (size_t)1 << 32,
                                      ((size_t)1 << 53) + 1,
                                      (size_t)1 << 62,
                                      SIZE_MAX / 2,
                                      SIZE_MAX / 2 + 1,
                                      SIZE_MAX};
    struct oracle_data *data = oracle_data_create((kolo_dtype)*dtype, KOLO_SUM);
    const char *variant;
    for (int i = 0; (variant = kolo_reduce_variant(i)) != NULL; i++)
        for (size_t d = 0; d < sizeof divisors / sizeof divisors[0]; d++) {
            struct oracle_failure why;
            cr_assert(oracle_check_divide(variant, data, divisors[d], &why), "%s", why.text);
        }
    free(data);
}

/** All pairs of a 16-bit float with a special one, in both orders: every input is decoded, and
 * every kind of output is encoded. */
static void check_all_shorts(kolo_dtype dtype, int mantissa_bits, kolo_redop op)
{
    enum { ALL = 65536 };
    uint64_t specials[ORACLE_SPECIALS];
    oracle_specials(dtype, specials);
    uint16_t *a = calloc(3 * ALL, sizeof *a), *b = a + ALL, *out = b + ALL;
    for (int s = 0; s < ORACLE_SPECIALS; s++) {
        for (int i = 0; i < ALL; i++) {
            a[i] = (uint16_t)i;
            b[i] = (uint16_t)specials[s];
        }
        const char *variant;
        for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++) {
            kolo_reduce_function_of(variant, dtype, op)(out, a, b, ALL);
            for (int i = 0; i < ALL; i += v == 0 ? 1 : 7) {
                const union oracle_element x = {.half = a[i]}, y = {.half = b[i]};
                const uint16_t expected = oracle_combine_short(x, y, op, mantissa_bits).half;
                cr_assert(out[i] == expected, "%s: %#x %s %#x = %#x, not %#x", variant, x.half,
                          kolo_redop_text(op), y.half, out[i], expected);
            }
        }
    }
    free(a);
}

Test(reduce, every_float16, .timeout = 200)
{
    check_all_shorts(KOLO_FLOAT16, ORACLE_HALF_MANTISSA, KOLO_SUM);
    check_all_shorts(KOLO_FLOAT16, ORACLE_HALF_MANTISSA, KOLO_MAX);
}

Test(reduce, every_bfloat16, .timeout = 200)
{
    check_all_shorts(KOLO_BFLOAT16, ORACLE_BRAIN_MANTISSA, KOLO_SUM);
    check_all_shorts(KOLO_BFLOAT16, ORACLE_BRAIN_MANTISSA, KOLO_PROD);
}

Test(reduce, variants_agree_on_random_bits)
{
    enum { BYTES = 1 << 20 };
    uint64_t *a = malloc(4 * BYTES), *b = a + BYTES / 8, *best = b + BYTES / 8;
    uint64_t *other = best + BYTES / 8, state = 3;
    for (size_t i = 0; i < 2 * BYTES / 8; i++)
        a[i] = oracle_random(&state);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++) {
            const size_t count = BYTES / kolo_dtype_bytes((kolo_dtype)dtype);
            if (!oracle_is_defined((kolo_dtype)dtype, (kolo_redop)op))
                continue;
            kolo_reduce_function((kolo_dtype)dtype, (kolo_redop)op)(best, a, b, count);
            const char *variant;
            for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++) {
                kolo_reduce_function_of(variant, (kolo_dtype)dtype, (kolo_redop)op)(other, b, a,
                                                                                    count);
                cr_assert(memcmp(best, other, BYTES) == 0, "%s differs in %s %s", variant,
                          kolo_dtype_text((kolo_dtype)dtype), kolo_redop_text((kolo_redop)op));
            }
        }
    free(a);
}

Test(reduce, dispatch)
{
    const char *best = kolo_reduce_variant(0), *last = NULL, *variant;
    cr_assert(best != NULL);
    for (int i = 0; (variant = kolo_reduce_variant(i)) != NULL; i++)
        last = variant;
    cr_assert_str_eq(last, "c");
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++)
            cr_assert(kolo_reduce_function((kolo_dtype)dtype, (kolo_redop)op) ==
                      kolo_reduce_function_of(best, (kolo_dtype)dtype, (kolo_redop)op));
    cr_assert(kolo_reduce_function(KOLO_DTYPES, KOLO_SUM) == NULL);
    cr_assert(kolo_reduce_function(KOLO_INT8, KOLO_REDOPS) == NULL);
    cr_assert(kolo_reduce_function((kolo_dtype)-1, KOLO_SUM) == NULL);
    cr_assert(kolo_reduce_function_of("mmx", KOLO_INT8, KOLO_SUM) == NULL);
    cr_assert(kolo_divide_function_of("mmx", KOLO_INT8) == NULL);
    cr_assert(kolo_reduce_variant(100) == NULL);
    cr_assert(kolo_reduce_variant(-1) == NULL);
}

Test(reduce, divide_dispatches)
{
    float data[3] = {3, -7, INFINITY};
    kolo_divide(data, 3, KOLO_FLOAT32, 2);
    cr_assert(data[0] == 1.5f && data[1] == -3.5f && data[2] == INFINITY);
    int64_t least[1] = {INT64_MIN};
    kolo_divide(least, 1, KOLO_INT64, 1);
    cr_assert(least[0] == INT64_MIN);
}

static void check_decode(float got, double expected, unsigned bits)
{
    cr_assert(isnan(expected) ? isnan(got)
                              : (double)got == expected && !signbit(got) == !signbit(expected),
              "%#x decodes to %a, not %a", bits, (double)got, expected);
}

Test(reduce, decodes_every_16_bit_float)
{
    for (unsigned i = 0; i < 65536; i++) {
        const unsigned short bits = (unsigned short)i;
        check_decode(kolo_float16_to_float(bits), oracle_short_value(bits, ORACLE_HALF_MANTISSA),
                     i);
        check_decode(kolo_bfloat16_to_float(bits), oracle_short_value(bits, ORACLE_BRAIN_MANTISSA),
                     i);
        float second;
        if (opinion_float(bits, &second))
            check_decode(kolo_float16_to_float(bits), (double)second, i);
    }
}

static void check_encode(float value)
{
    const double x = (double)value;
    const unsigned half = kolo_float16_from_float(value);
    const unsigned brain = kolo_bfloat16_from_float(value);
    const unsigned half_expected = oracle_short_from(x, ORACLE_HALF_MANTISSA);
    const unsigned brain_expected = oracle_short_from(x, ORACLE_BRAIN_MANTISSA);
    cr_assert(half == half_expected, "%a to float16: %#x, not %#x", x, half, half_expected);
    cr_assert(brain == brain_expected, "%a to bfloat16: %#x, not %#x", x, brain, brain_expected);
    uint16_t second;
    if (!isnan(value) && opinion_half(value, &second))
        cr_assert(half == second, "%a to float16: %#x, the compiler says %#x", x, half, second);
}

/** Each 16-bit float, the midpoint between it and the next, and the float32 neighbours of both. */
Test(reduce, encodes_at_every_tie, .timeout = 200)
{
    for (int mantissa_bits = ORACLE_BRAIN_MANTISSA; mantissa_bits <= ORACLE_HALF_MANTISSA;
         mantissa_bits += ORACLE_HALF_MANTISSA - ORACLE_BRAIN_MANTISSA)
        for (unsigned i = 0; i < 65535; i++) {
            const double at = oracle_short_value((uint16_t)i, mantissa_bits);
            const double next = oracle_short_value((uint16_t)(i + 1), mantissa_bits);
            const float values[] = {(float)at, (float)((at + next) / 2)};
            for (int k = 0; k < 2; k++) {
                check_encode(values[k]);
                check_encode(nextafterf(values[k], INFINITY));
                check_encode(nextafterf(values[k], -INFINITY));
            }
        }
    uint64_t specials[ORACLE_SPECIALS];
    oracle_specials(KOLO_FLOAT32, specials);
    for (int i = 0; i < ORACLE_SPECIALS; i++)
        check_encode((union oracle_element){.bits64 = specials[i]}.f32);
    check_encode(65519.996f);
    check_encode(65520.0f);
    check_encode(0x1.fffffep127f);
    uint64_t state = 5;
    for (int i = 0; i < 300000; i++)
        check_encode((union oracle_element){.bits32 = (uint32_t)oracle_random(&state)}.f32);
}

/** Compares with single elements; a factor is rounded to float32 if the arithmetic is in
 * float32. */
static void check_scale(const char *variant, kolo_dtype dtype, double factor)
{
    struct oracle_data *data = oracle_data_create(dtype, KOLO_PROD);
    struct oracle_buffer out =
        oracle_buffer_create(NULL, ORACLE_COUNT_MAX * data->size, 1, ORACLE_GUARD);
    kolo_scale_function_of(variant, dtype)(out.at, data->a, ORACLE_COUNT_MAX, factor);
    for (size_t i = 0; i < ORACLE_COUNT_MAX; i++) {
        union oracle_element x = {.bits64 = 0}, got = {.bits64 = 0}, expected = {.bits64 = 0};
        memcpy(&x, data->a + i * data->size, data->size);
        memcpy(&got, out.at + i * data->size, data->size);
        const int mantissa = dtype == KOLO_FLOAT16 ? ORACLE_HALF_MANTISSA : ORACLE_BRAIN_MANTISSA;
        if (dtype == KOLO_FLOAT64)
            expected.f64 = oracle_combine64(x.f64, factor, KOLO_PROD);
        else if (dtype == KOLO_FLOAT32)
            expected.f32 = oracle_combine32(x.f32, (float)factor, KOLO_PROD);
        else
            expected.half = oracle_short_from(
                (double)((float)oracle_short_value(x.half, mantissa) * (float)factor), mantissa);
        cr_assert(memcmp(&got, &expected, data->size) == 0, "%s %s: %#llx * %g = %#llx, not %#llx",
                  variant, kolo_dtype_text(dtype), (unsigned long long)x.bits64, factor,
                  (unsigned long long)got.bits64, (unsigned long long)expected.bits64);
    }
    cr_assert(oracle_guard_holds(&out), "%s wrote outside", variant);
    free(out.memory);
    free(data);
}

Test(reduce, scales)
{
    static const double factors[] = {0.1, -3, 1e-9, 1e300};
    static const kolo_dtype floats[] = {KOLO_FLOAT16, KOLO_BFLOAT16, KOLO_FLOAT32, KOLO_FLOAT64};
    const char *variant;
    for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++)
        for (int dtype = 0; dtype < 4; dtype++)
            for (int f = 0; f < 4; f++)
                check_scale(variant, floats[dtype], factors[f]);
    cr_assert(!kolo_dtype_is_float(KOLO_INT32) && !kolo_dtype_is_float(KOLO_DTYPES));
}
