// SPDX-License-Identifier: Apache-2.0
// memory/fold.c and the fold kernels: every variant that runs on this machine, with every type and
// operator, against a naive fold of single elements. The shapes of calls are drawn from a seed.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <fenv.h>

#include "base/float_mode.h"
#include "memory/fold.h"
#include "memory/reduce.h"
#include "tests/memory/reduce_oracle.h"

enum { INPUTS = 17, OUTPUTS = 9, COUNT = 1100, CALLS = 500, SHIFT = 130 };

// ---- the naive fold

static bool is_short(kolo_dtype dtype)
{
    return dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16;
}

/** Sums and products of 16-bit floats are computed in float32 until the end. */
static union oracle_element fold_shorts(kolo_dtype dtype, kolo_redop op,
                                        const union oracle_element *in, size_t nin, size_t divisor)
{
    const int mantissa = dtype == KOLO_FLOAT16 ? ORACLE_HALF_MANTISSA : ORACLE_BRAIN_MANTISSA;
    float acc = (float)oracle_short_value(in[0].half, mantissa);
    for (size_t k = 1; k < nin; k++)
        acc = oracle_combine32(acc, (float)oracle_short_value(in[k].half, mantissa), op);
    if (divisor > 1)
        acc /= (float)divisor;
    return (union oracle_element){.half = oracle_short_from((double)acc, mantissa)};
}

static union oracle_element fold_naively(const struct kolo_fold *fold,
                                         const union oracle_element *in, size_t nin)
{
    const size_t divisor = fold->op == KOLO_AVERAGE ? fold->divisor : 0;
    if (nin == 1 && fold->op >= KOLO_LAND)
        return oracle_combine(fold->dtype, KOLO_LOR, in[0], in[0]);
    if (nin == 1 && divisor <= 1)
        return in[0];
    if (is_short(fold->dtype) && fold->op != KOLO_MIN && fold->op != KOLO_MAX)
        return fold_shorts(fold->dtype, fold->op, in, nin, divisor);
    union oracle_element acc = in[0];
    for (size_t k = 1; k < nin; k++)
        acc = oracle_combine(fold->dtype, fold->op, acc, in[k]);
    return divisor > 1 ? oracle_divide(fold->dtype, acc, divisor) : acc;
}

// ---- data: INPUTS vectors and the folds of the first 1, 2, ... of them

struct fold_data {
    struct kolo_fold fold;
    size_t size;
    uint8_t in[INPUTS][8 * COUNT], expected[INPUTS + 1][8 * COUNT];
};

/** An element from the oracle's pool: special values meet each other at every position of a
 * fold. */
static uint64_t element(const struct oracle_data *pool, size_t i, size_t k)
{
    const size_t at = (i * 37 + k * 613 + i * k) % ORACLE_COUNT_MAX;
    uint64_t x = 0;
    memcpy(&x, (k % 2 ? pool->b : pool->a) + at * pool->size, pool->size);
    return x;
}

static struct fold_data *data_create(struct kolo_fold fold)
{
    struct fold_data *data = calloc(1, sizeof *data);
    struct oracle_data *pool = oracle_data_create(fold.dtype, KOLO_SUM);
    cr_assert(data != NULL);
    data->fold = fold;
    data->size = pool->size;
    for (size_t i = 0; i < COUNT; i++) {
        union oracle_element in[INPUTS];
        for (size_t k = 0; k < INPUTS; k++) {
            in[k].bits64 = element(pool, i, k);
            memcpy(data->in[k] + i * data->size, &in[k], data->size);
        }
        for (size_t n = 1; n <= INPUTS; n++) {
            const union oracle_element r = fold_naively(&fold, in, n);
            memcpy(data->expected[n] + i * data->size, &r, data->size);
        }
    }
    free(pool);
    return data;
}

// ---- one call

/** The shape of one call. */
struct shape {
    size_t nin, nout, first, count;
    size_t in_shift[INPUTS], out_shift[OUTPUTS];
    int alias[OUTPUTS]; /* the input that is also this output; -1: none */
    enum kolo_store_how how;
};

static size_t draw(uint64_t *state, size_t below)
{
    return oracle_random(state) % below;
}

static struct shape shape_draw(uint64_t *state, size_t size)
{
    static const size_t counts[] = {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, COUNT};
    struct shape shape = {.nin = 1 + draw(state, INPUTS), .nout = 1 + draw(state, OUTPUTS)};
    shape.count = counts[draw(state, sizeof counts / sizeof counts[0])];
    shape.first = draw(state, COUNT - shape.count + 1);
    shape.how = draw(state, 2) ? KOLO_STORE_STREAM : KOLO_STORE_CACHED;
    const size_t kind = draw(state, 3); /* all aligned, aligned to elements, or to bytes */
    const size_t unit = kind == 2 ? 1 : size;
    for (size_t k = 0; k < shape.nin; k++)
        shape.in_shift[k] = kind ? unit * draw(state, 16) : 0;
    for (size_t j = 0; j < shape.nout; j++) {
        shape.out_shift[j] = kind ? unit * draw(state, 16) : 0;
        shape.alias[j] = draw(state, 3) ? -1 : (int)draw(state, shape.nin);
    }
    return shape;
}

/** All buffers end with a guard, or, if they are only read, at the end of the allocation. */
static void check_call(const char *variant, const struct fold_data *data, const struct shape *shape)
{
    const size_t bytes = shape->count * data->size, at = shape->first * data->size;
    struct oracle_buffer in[INPUTS], out[OUTPUTS];
    const void *from[INPUTS];
    void *to[OUTPUTS];
    bool is_output[INPUTS] = {false};
    for (size_t j = 0; j < shape->nout; j++)
        if (shape->alias[j] >= 0)
            is_output[shape->alias[j]] = true;
    for (size_t k = 0; k < shape->nin; k++) {
        in[k] = oracle_buffer_create(data->in[k] + at, bytes, shape->in_shift[k],
                                     is_output[k] ? ORACLE_GUARD : 0);
        from[k] = in[k].at;
    }
    for (size_t j = 0; j < shape->nout; j++) {
        out[j] = shape->alias[j] >= 0
                     ? in[shape->alias[j]]
                     : oracle_buffer_create(NULL, bytes, shape->out_shift[j], ORACLE_GUARD);
        to[j] = out[j].at;
    }
    cr_assert(kolo_fold_of(variant, &data->fold, to, shape->nout, from, shape->nin, shape->count,
                           shape->how));
    for (size_t j = 0; j < shape->nout; j++) {
        cr_assert(memcmp(to[j], data->expected[shape->nin] + at, bytes) == 0,
                  "%s %s %s: %zu inputs, output %zu of %zu, %zu elements, how %d: wrong", variant,
                  kolo_dtype_text(data->fold.dtype), kolo_redop_text(data->fold.op), shape->nin, j,
                  shape->nout, shape->count, (int)shape->how);
        cr_assert(oracle_guard_holds(&out[j]), "%s %s: wrote outside of output %zu", variant,
                  kolo_dtype_text(data->fold.dtype), j);
    }
    for (size_t k = 0; k < shape->nin; k++) {
        cr_assert(is_output[k] || memcmp(from[k], data->in[k] + at, bytes) == 0,
                  "%s: input %zu was changed", variant, k);
        free(in[k].memory);
    }
    for (size_t j = 0; j < shape->nout; j++)
        if (shape->alias[j] < 0)
            free(out[j].memory);
}

ParameterizedTestParameters(fold, kernels)
{
    static int dtypes[KOLO_DTYPES];
    for (int i = 0; i < KOLO_DTYPES; i++)
        dtypes[i] = i;
    return cr_make_param_array(int, dtypes, KOLO_DTYPES);
}

static void check_fold(struct kolo_fold fold)
{
    struct fold_data *data = data_create(fold);
    const char *variant;
    for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++) {
        uint64_t state = 17;
        for (int call = 0; call < CALLS; call++) {
            const struct shape shape = shape_draw(&state, data->size);
            check_call(variant, data, &shape);
        }
    }
    free(data);
}

ParameterizedTest(int *dtype, fold, kernels, .timeout = 200)
{
    for (int op = 0; op < KOLO_REDOPS && oracle_is_defined((kolo_dtype)*dtype, (kolo_redop)op);
         op++)
        check_fold((struct kolo_fold){.dtype = (kolo_dtype)*dtype, .op = (kolo_redop)op});
    check_fold((struct kolo_fold){.dtype = (kolo_dtype)*dtype, .op = KOLO_AVERAGE, .divisor = 1});
    check_fold((struct kolo_fold){.dtype = (kolo_dtype)*dtype, .op = KOLO_AVERAGE, .divisor = 7});
    check_fold((struct kolo_fold){.dtype = (kolo_dtype)*dtype, .op = KOLO_MAX, .divisor = 7});
}

/** The results of the naive fold on an x86-64, which kernels must give everywhere: ranks of one job
 * may be on different processors. */
Test(fold, has_the_same_bits_on_every_processor, .timeout = 200)
{
    static const uint64_t bits[KOLO_DTYPES] = {
        [KOLO_INT8] = UINT64_C(0xd43766f044a13a6d),
        [KOLO_INT16] = UINT64_C(0x76130913be4f17a8),
        [KOLO_INT32] = UINT64_C(0x47274b82df5bada0),
        [KOLO_INT64] = UINT64_C(0x2898ff0444480075),
        [KOLO_UINT8] = UINT64_C(0x8076186f99612e37),
        [KOLO_FLOAT16] = UINT64_C(0xd8318a7c7c1e582c),
        [KOLO_BFLOAT16] = UINT64_C(0x3e62d2602aee2fe7),
        [KOLO_FLOAT32] = UINT64_C(0x5f4a2a8da4465ddc),
        [KOLO_FLOAT64] = UINT64_C(0xcd5a9138bfbfb66d),
        [KOLO_UINT16] = UINT64_C(0x7be744de0bd49e1b),
        [KOLO_UINT32] = UINT64_C(0x8a62168335730c52),
        [KOLO_UINT64] = UINT64_C(0x6c4cb8832ea53fc8),
    };
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
        for (int op = 0; op < KOLO_REDOPS && oracle_is_defined((kolo_dtype)dtype, (kolo_redop)op);
             op++) {
            struct fold_data *data = data_create(
                (struct kolo_fold){.dtype = (kolo_dtype)dtype, .op = (kolo_redop)op, .divisor = 7});
            for (size_t i = 0; i < sizeof data->expected; i++)
                hash = (hash ^ ((const uint8_t *)data->expected)[i]) * UINT64_C(0x100000001b3);
            free(data);
        }
        cr_expect(hash == bits[dtype], "%s: 0x%016llx", kolo_dtype_text((kolo_dtype)dtype),
                  (unsigned long long)hash);
    }
}

/** If every step were rounded, adding 2^-11 n times to 1 would give 1; accumulated in float32 it
 * does not. */
Test(fold, shorts_are_rounded_once)
{
    const uint16_t one = 0x3c00, small = kolo_float16_from_float(0x1p-11f);
    uint16_t result = 0;
    const void *in[9] = {&one};
    for (int k = 1; k < 9; k++)
        in[k] = &small;
    void *out[] = {&result};
    kolo_fold(&(struct kolo_fold){.dtype = KOLO_FLOAT16, .op = KOLO_SUM}, out, 1, in, 9, 1,
              KOLO_STORE_CACHED);
    cr_assert(kolo_float16_to_float(result) == 1 + 8 * 0x1p-11f);
}

/** The order of operands determines the result of a sum of floats: it is from left to right. */
Test(fold, order_is_left_to_right)
{
    const float big = 0x1p24f, one = 1, less = -0x1p24f;
    const void *ones_first[] = {&one, &one, &big, &less};
    const void *big_first[] = {&big, &one, &one, &less};
    float result;
    void *out[] = {&result};
    const struct kolo_fold fold = {.dtype = KOLO_FLOAT32, .op = KOLO_SUM};
    kolo_fold(&fold, out, 1, ones_first, 4, 1, KOLO_STORE_CACHED);
    cr_assert(result == 2);
    kolo_fold(&fold, out, 1, big_first, 4, 1, KOLO_STORE_CACHED);
    cr_assert(result == 0);
}

/** A program may round upwards, and take subnormals for zero; the result has the same bits. */
Test(fold, is_the_same_in_every_mode_of_the_processor)
{
    const float subnormal = 0x1p-140f, one = 1, small = 0x1p-30f;
    const float a[] = {subnormal, one}, b[] = {subnormal, small};
    float sum[2] = {0}, scaled[2] = {0}, halves[2] = {subnormal, one};
    const void *in[] = {a, b};
    void *out[] = {sum};
    const struct kolo_fold fold = {.dtype = KOLO_FLOAT32, .op = KOLO_SUM};
    cr_assert_eq(fesetround(FE_UPWARD), 0);
    const uint64_t upwards = kolo_float_mode_get() & KOLO_FLOAT_MODE_MASK;
    kolo_fold(&fold, out, 1, in, 2, 2, KOLO_STORE_CACHED);
    cr_assert_eq(kolo_float_mode_get() & KOLO_FLOAT_MODE_MASK, upwards, "the program's mode stays");
    fesetround(FE_TONEAREST);
    cr_assert(sum[0] == 2 * subnormal && sum[1] == one, "%a %a", (double)sum[0], (double)sum[1]);
    kolo_float_mode_set(KOLO_FLOAT_ODD);
    kolo_fold(&fold, out, 1, in, 2, 2, KOLO_STORE_CACHED);
    kolo_scale(scaled, a, 2, KOLO_FLOAT32, 0.5);
    kolo_divide(halves, 2, KOLO_FLOAT32, 2);
    kolo_float_mode_set(KOLO_FLOAT_MODE);
    cr_assert(sum[0] == 2 * subnormal && sum[1] == one, "%a %a", (double)sum[0], (double)sum[1]);
    cr_assert(scaled[0] == subnormal / 2 && halves[0] == subnormal / 2, "%a %a", (double)scaled[0],
              (double)halves[0]);
}

Test(fold, unknown_variant)
{
    cr_assert(!kolo_fold_of("mmx", &(struct kolo_fold){.dtype = KOLO_INT8}, NULL, 1, NULL, 1, 0,
                            KOLO_STORE_CACHED));
    cr_assert(!kolo_copy_of("mmx", NULL, NULL, 0));
}

Test(fold, copies)
{
    uint8_t from[4096 + SHIFT];
    uint64_t state = 3;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)oracle_random(&state);
    for (size_t bytes = 0; bytes < 4096; bytes += 1 + bytes / 7)
        for (size_t shift = 0; shift < SHIFT; shift += 13) {
            const char *variant;
            for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++) {
                struct oracle_buffer to = oracle_buffer_create(NULL, bytes, shift, ORACLE_GUARD);
                cr_assert(kolo_copy_of(variant, to.at, from + SHIFT - shift, bytes));
                cr_assert(memcmp(to.at, from + SHIFT - shift, bytes) == 0);
                cr_assert(oracle_guard_holds(&to), "%s wrote outside", variant);
                free(to.memory);
            }
            struct oracle_buffer to = oracle_buffer_create(NULL, bytes, shift, ORACLE_GUARD);
            kolo_copy(to.at, from, bytes, shift % 2 ? KOLO_STORE_CACHED : KOLO_STORE_STREAM);
            cr_assert(memcmp(to.at, from, bytes) == 0 && oracle_guard_holds(&to));
            free(to.memory);
        }
}
