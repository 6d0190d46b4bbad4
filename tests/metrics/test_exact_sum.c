// SPDX-License-Identifier: Apache-2.0
// Two oracles: 128-bit integers for numbers with a narrow range of exponents (the compiler's
// conversion to double rounds correctly), and sums that Python's math.fsum printed, for wide
// ranges.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/metrics.h>

#include "metrics/metric.h"

__extension__ typedef __int128 int128; /* no ISO type */

static uint64_t next_random(uint64_t *state)
{
    return *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double sum_of(const double *values, size_t count)
{
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    for (size_t i = 0; i < count; i++)
        kolo_exact_sum_add(&sum, values[i]);
    return kolo_exact_sum_value(&sum);
}

static void expect_bits(double got, double expected, const char *what)
{
    cr_assert(memcmp(&got, &expected, sizeof got) == 0, "%s: got %a, expected %a", what, got,
              expected);
}

Test(exact_sum, equals_128_bit_integers)
{
    uint64_t state = 11;
    for (int round = 0; round < 2000; round++) {
        int128 exact = 0;
        double values[64];
        int count = (int)(next_random(&state) >> 58) + 1;
        for (int i = 0; i < count; i++) {
            int64_t mantissa = (int64_t)next_random(&state) >> 11; /* 53 bits, signed */
            int shift = (int)(next_random(&state) >> 58);          /* 0..63 */
            exact += (int128)mantissa * ((int128)1 << shift);
            values[i] = ldexp((double)mantissa, shift - 100);
        }
        expect_bits(sum_of(values, (size_t)count), ldexp((double)exact, -100) + 0.0,
                    "128-bit oracle");
    }
}

Test(exact_sum, a_product_and_what_its_rounding_took_are_exact)
{
    uint64_t state = 5;
    int rounded = 0;
    for (int round = 0; round < 10000; round++) {
        const int64_t a = (int64_t)next_random(&state) >> 11,
                      b = (int64_t)next_random(&state) >> 11;
        double rest, product = kolo_exact_product((double)a, (double)b, &rest);
        expect_bits(product, (double)a * (double)b, "the product");
        cr_assert((int128)product + (int128)rest == (int128)a * b, "%a and %a of %lld * %lld",
                  product, rest, (long long)a, (long long)b);
        rounded += rest != 0;
    }
    cr_assert_gt(rounded, 9000);
}

Test(exact_sum, equals_python_fsum)
{
    static const struct {
        uint64_t seed;
        int count;
        unsigned mask, offset;
        double expected;
    } vectors[] = {
        {1, 1000, 0x7f, 960, 0x1.69b4a4e1d2c46p+64},
        {2, 5000, 0x3ff, 300, 0x1.416405e84bce2p+300},
        {3, 20000, 0x7ff, 0, -0x1.1bd74733813f9p+1007},
        {4, 777, 0x3f, 0, 0x1.c707387902834p-958},
        {5, 100000, 0xf, 1015, -0x1.b9f700262f164p+12},
    };
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        uint64_t state = vectors[v].seed;
        double *values = calloc((size_t)vectors[v].count, sizeof *values);
        for (int i = 0; i < vectors[v].count; i++) {
            uint64_t a = next_random(&state), b = next_random(&state);
            uint64_t exponent = (b >> 20 & vectors[v].mask) + vectors[v].offset;
            if (exponent >= 0x7ef)
                exponent = 0x7e0;
            values[i] = double_of((b >> 63) << 63 | exponent << 52 | a >> 12);
        }
        expect_bits(sum_of(values, (size_t)vectors[v].count), vectors[v].expected, "fsum");
        free(values);
    }
}

Test(exact_sum, does_not_depend_on_order_or_grouping)
{
    enum { COUNT = 5000 };
    static double values[COUNT];
    uint64_t state = 5;
    for (int i = 0; i < COUNT; i++)
        values[i] = double_of((next_random(&state) & ~(UINT64_C(0x7ff) << 52)) |
                              (next_random(&state) >> 54) << 52);
    double expected = sum_of(values, COUNT);
    for (int groups = 1; groups <= 64; groups *= 2) {
        struct kolo_exact_sum parts[64], total;
        kolo_exact_sum_init(&total);
        for (int g = 0; g < groups; g++)
            kolo_exact_sum_init(&parts[g]);
        for (int i = COUNT - 1; i >= 0; i--)
            kolo_exact_sum_add(&parts[(i * 7) % groups], values[i]);
        for (int g = groups - 1; g >= 0; g--)
            kolo_exact_sum_merge(&total, &parts[g]);
        expect_bits(kolo_exact_sum_value(&total), expected, "groups");
    }
}

Test(exact_sum, handles_the_edges_of_double)
{
    expect_bits(sum_of(NULL, 0), 0.0, "empty");
    expect_bits(sum_of((double[]){-0.0}, 1), 0.0, "-0");
    expect_bits(sum_of((double[]){DBL_TRUE_MIN}, 1), DBL_TRUE_MIN, "smallest");
    expect_bits(sum_of((double[]){-DBL_TRUE_MIN}, 1), -DBL_TRUE_MIN, "minus smallest");
    expect_bits(sum_of((double[]){DBL_MIN, -DBL_TRUE_MIN}, 2), DBL_MIN - DBL_TRUE_MIN,
                "largest subnormal");
    expect_bits(sum_of((double[]){DBL_MAX}, 1), DBL_MAX, "largest");
    expect_bits(sum_of((double[]){DBL_MAX, DBL_MAX}, 2), INFINITY, "overflow");
    expect_bits(sum_of((double[]){-DBL_MAX, -DBL_MAX}, 2), -INFINITY, "minus overflow");
    expect_bits(sum_of((double[]){DBL_MAX, DBL_MAX, -DBL_MAX}, 3), DBL_MAX, "overflow and back");
    expect_bits(sum_of((double[]){DBL_MAX, 0x1p969}, 2), DBL_MAX,
                "below half an ulp of the largest");
    expect_bits(sum_of((double[]){DBL_MAX, 0x1p970}, 2), INFINITY,
                "half an ulp rounds to even: overflow");
    expect_bits(sum_of((double[]){1, 0x1p-53}, 2), 1, "half rounds to even, down");
    expect_bits(sum_of((double[]){1 + DBL_EPSILON, 0x1p-53}, 2), 1 + 2 * DBL_EPSILON,
                "half to even, up");
    expect_bits(sum_of((double[]){1, 0x1p-53, DBL_TRUE_MIN}, 3), 1 + DBL_EPSILON,
                "above half by the smallest");
    expect_bits(sum_of((double[]){-1, -0x1p-53, -DBL_TRUE_MIN}, 3), -1 - DBL_EPSILON, "negative");
    expect_bits(sum_of((double[]){1e308, 1, -1e308}, 3), 1, "cancellation");
}

Test(exact_sum, counts_what_is_not_finite)
{
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    const double values[] = {1, NAN, INFINITY, -INFINITY, -INFINITY, 2};
    for (int i = 0; i < 6; i++)
        kolo_exact_sum_add(&sum, values[i]);
    cr_assert_eq(sum.nans, 1);
    cr_assert_eq(sum.plus_infinities, 1);
    cr_assert_eq(sum.minus_infinities, 2);
    expect_bits(kolo_exact_sum_value(&sum), 3, "the finite ones");
}

Test(exact_sum, passes_on_carries_in_time)
{
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    kolo_exact_sum_add(&sum, -0x1.fffffffffffffp30);
    sum.since_carry = (INT64_C(1) << 30) - 2; /* as if that many numbers had been added */
    kolo_exact_sum_add(&sum, -1);
    cr_assert_eq(sum.since_carry, (INT64_C(1) << 30) - 1);
    kolo_exact_sum_add(&sum, -1);
    cr_assert_eq(sum.since_carry, 0);
    for (int i = 0; i < KOLO_EXACT_SUM_LIMBS - 1; i++)
        cr_assert(sum.limbs[i] >= 0 && sum.limbs[i] < INT64_C(1) << 32);
    expect_bits(kolo_exact_sum_value(&sum), -0x1.fffffffffffffp30 - 2, "after the carry");
}

Test(exact_sum, adds_float32)
{
    const float values[] = {0.1f, 0.2f, 0x1p-149f, -0.1f};
    struct kolo_exact_sum sum;
    kolo_exact_sum_init(&sum);
    kolo_exact_sum_add_float32(&sum, values, 4);
    expect_bits(kolo_exact_sum_value(&sum), (double)0.2f, "float32");
}

/** Of words from outside: only what adding them cannot overflow. */
Test(exact_sum, accepts_what_can_be_added)
{
    const int64_t most = INT64_C(1) << 40, limb = (INT64_C(1) << 32) - 1;
    struct kolo_exact_sum good;
    int64_t words[KOLO_EXACT_WORDS];
    kolo_exact_sum_init(&good);
    good.limbs[0] = good.limbs[KOLO_EXACT_SUM_LIMBS - 2] = limb;
    good.limbs[KOLO_EXACT_SUM_LIMBS - 1] = -most;
    good.nans = good.plus_infinities = good.minus_infinities = KOLO_ELEMENT_COUNT_MAX;
    struct kolo_exact_sum sums[12];
    for (int i = 0; i < 12; i++)
        sums[i] = good;
    sums[0].limbs[KOLO_EXACT_SUM_LIMBS - 1] = most; /* also good */
    sums[1].limbs[0] = -1;
    sums[2].limbs[KOLO_EXACT_SUM_LIMBS - 2] = limb + 1;
    sums[3].limbs[KOLO_EXACT_SUM_LIMBS - 1] = most + 1;
    sums[4].limbs[KOLO_EXACT_SUM_LIMBS - 1] = -most - 1;
    sums[5].nans++;
    sums[6].plus_infinities++;
    sums[7].minus_infinities++;
    sums[8].since_carry = 1;
    sums[9].nans = -1;
    sums[10].plus_infinities = -1;
    sums[11].minus_infinities = -1;
    memcpy(words, &good, sizeof good);
    cr_assert(kolo_exact_accepts(words));
    for (int i = 0; i < 12; i++) {
        memcpy(words, &sums[i], sizeof sums[i]);
        cr_assert(kolo_exact_accepts(words) == (i == 0), "case %d", i);
    }
}
