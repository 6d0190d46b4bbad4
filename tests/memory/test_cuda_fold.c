// SPDX-License-Identifier: Apache-2.0
// memory/cuda_fold.c and the CUDA kernels: the source that nvcc compiles, compiled for the host and
// run by the mock one thread after the other, against the host's kernels, bit for bit. Covers every
// type and operator, numbers of inputs and outputs, lengths and alignments, special values and
// random bits.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "memory/cuda_fold.h"
#include "memory/cuda_image.h"
#include "memory/cuda_job.h"
#include "tests/memory/reduce_oracle.h"
#include "tests/support/mock_cuda.h"

/* BYTES: more than all threads of the mock's device process at a time */
enum { INPUTS = 11, OUTPUTS = 3, BYTES = 80000, CALLS = 60, SHIFT = 64 };

struct bench {
    const struct mock_cuda *mock;
    const struct kolo_cuda_driver *driver;
    struct kolo_cuda_kernels *kernels;
    void *stream;
    uint8_t *in[INPUTS], *out[OUTPUTS]; /* on the device */
    uint8_t host_in[INPUTS][BYTES], host_out[BYTES], got[BYTES];
};

static struct bench *begin(void)
{
    struct bench *bench = calloc(1, sizeof *bench);
    cr_assert_not_null(bench);
    bench->mock = mock_cuda_load();
    bench->mock->begin();
    bench->mock->set_current(0);
    bench->driver = kolo_cuda_driver_loaded();
    bench->stream = bench->mock->stream(0);
    if (kolo_cuda_image_bytes == 0)
        cr_skip_test("this build has no CUDA kernels: nvcc was not found");
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &bench->kernels), KOLO_OK,
                 "%s", kolo_error_detail());
    for (int k = 0; k < INPUTS; k++)
        bench->in[k] = bench->mock->alloc(MOCK_DEVICE, 0, BYTES);
    for (int j = 0; j < OUTPUTS; j++)
        bench->out[j] = bench->mock->alloc(MOCK_DEVICE, 0, BYTES);
    return bench;
}

static void end(struct bench *bench)
{
    cr_assert_eq(bench->driver->stream_synchronize(bench->stream), KOLO_CUDA_SUCCESS);
    kolo_cuda_kernels_unload(bench->kernels);
    free(bench);
}

static void fill(struct bench *bench, kolo_dtype dtype)
{
    struct oracle_data *pool = oracle_data_create(dtype, KOLO_SUM);
    const size_t size = pool->size;
    for (size_t k = 0; k < INPUTS; k++) {
        for (size_t i = 0; i < BYTES / size; i++)
            memcpy(bench->host_in[k] + i * size,
                   (k % 2 ? pool->b : pool->a) +
                       (i * 37 + k * 613 + i * k) % ORACLE_COUNT_MAX * size,
                   size);
        bench->mock->write(bench->in[k], bench->host_in[k], BYTES);
    }
    free(pool);
}

/** Checks one fold of random shape, in which an output may be an input. */
static void check(struct bench *bench, const struct kolo_fold *fold, uint64_t *state)
{
    const size_t size = kolo_dtype_bytes(fold->dtype), kind = oracle_random(state) % 3;
    const size_t nin = 1 + oracle_random(state) % INPUTS, nout = 1 + oracle_random(state) % OUTPUTS;
    const size_t room = (BYTES - SHIFT) / size, wanted = oracle_random(state) % 2 ? room : 70;
    const size_t count = oracle_random(state) % (wanted + 1);
    const void *in[INPUTS], *host[INPUTS];
    void *out[OUTPUTS], *place[] = {bench->host_out};
    for (size_t k = 0; k < nin; k++) {
        const size_t shift = kind == 0 ? 0 : oracle_random(state) % 16 * (kind == 1 ? 1 : 4);
        in[k] = bench->in[k] + shift;
        host[k] = bench->host_in[k] + shift;
    }
    for (size_t j = 0; j < nout; j++)
        out[j] = bench->out[j] + (kind == 0 ? 0 : oracle_random(state) % 16);
    const size_t aliased = oracle_random(state) % (2 * nin);
    if (aliased < nin)
        out[0] = (void *)(uintptr_t)in[aliased];
    kolo_fold(fold, place, 1, host, nin, count, KOLO_STORE_CACHED);
    cr_assert_eq(kolo_cuda_fold(bench->kernels, bench->stream, fold, out, nout, in, nin, count),
                 KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(bench->driver->stream_synchronize(bench->stream), KOLO_CUDA_SUCCESS);
    for (size_t j = 0; j < nout && count > 0; j++) {
        bench->mock->read(out[j], bench->got, count * size);
        for (size_t i = 0; i < count; i++)
            cr_assert(memcmp(bench->got + i * size, bench->host_out + i * size, size) == 0,
                      "%s %s: element %zu of %zu, %zu inputs, alignment %zu",
                      kolo_dtype_text(fold->dtype), kolo_redop_text(fold->op), i, count, nin, kind);
    }
    if (aliased < nin)
        bench->mock->write(bench->in[aliased], bench->host_in[aliased], BYTES);
}

ParameterizedTestParameters(cuda_fold, kernels)
{
    static int dtypes[KOLO_DTYPES];
    for (int i = 0; i < KOLO_DTYPES; i++)
        dtypes[i] = i;
    return cr_make_param_array(int, dtypes, KOLO_DTYPES);
}

ParameterizedTest(int *dtype, cuda_fold, kernels, .timeout = 200)
{
    struct bench *bench = begin();
    uint64_t state = 5;
    fill(bench, (kolo_dtype)*dtype);
    for (int op = 0; op < KOLO_REDOPS; op++)
        for (int call = 0; call < CALLS && kolo_reduce_function((kolo_dtype)*dtype, (kolo_redop)op);
             call++)
            check(bench,
                  &(struct kolo_fold){.dtype = (kolo_dtype)*dtype,
                                      .op = (kolo_redop)op,
                                      .divisor = call % 3 == 0 ? (size_t)call * 7 : 1},
                  &state);
    end(bench);
}

Test(cuda_fold, scales)
{
    static const double factors[] = {0.1, -3, 1e-300, 65504, 0x1p-14};
    struct bench *bench = begin();
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        const size_t count = BYTES / kolo_dtype_bytes((kolo_dtype)dtype) - 3;
        if (!kolo_dtype_is_float((kolo_dtype)dtype))
            continue;
        fill(bench, (kolo_dtype)dtype);
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
            const size_t bytes = count * kolo_dtype_bytes((kolo_dtype)dtype);
            kolo_scale(bench->host_out, bench->host_in[0], count, (kolo_dtype)dtype, factors[i]);
            cr_assert_eq(kolo_cuda_scale(bench->kernels, bench->stream, bench->out[0], bench->in[0],
                                         count, (kolo_dtype)dtype, factors[i]),
                         KOLO_OK);
            cr_assert_eq(bench->driver->stream_synchronize(bench->stream), KOLO_CUDA_SUCCESS);
            bench->mock->read(bench->out[0], bench->got, bytes);
            cr_assert(memcmp(bench->got, bench->host_out, bytes) == 0, "%s times %g",
                      kolo_dtype_text((kolo_dtype)dtype), factors[i]);
        }
    }
    end(bench);
}

Test(cuda_fold, what_has_no_kernel_is_unsupported_and_starts_nothing)
{
    struct bench *bench = begin();
    const void *in[KOLO_CUDA_INPUTS_MAX + 1];
    void *out[] = {bench->out[0]};
    for (size_t k = 0; k < sizeof in / sizeof *in; k++)
        in[k] = bench->in[0];
    const int launches = bench->mock->calls("cuLaunchKernel");
    const struct kolo_fold sum = {.dtype = KOLO_INT8, .op = KOLO_SUM};
    const struct kolo_fold floats = {.dtype = KOLO_FLOAT32, .op = KOLO_BXOR};
    cr_assert_eq(kolo_cuda_fold(bench->kernels, bench->stream, &sum, out, 1, in,
                                KOLO_CUDA_INPUTS_MAX + 1, 1),
                 KOLO_ERR_UNSUPPORTED);
    cr_assert_eq(kolo_cuda_fold(bench->kernels, bench->stream, &floats, out, 1, in, 2, 1),
                 KOLO_ERR_UNSUPPORTED);
    cr_assert_eq(bench->mock->calls("cuLaunchKernel"), launches);
    cr_assert_eq(
        kolo_cuda_fold(bench->kernels, bench->stream, &sum, out, 1, in, KOLO_CUDA_INPUTS_MAX, 1),
        KOLO_OK);
    end(bench);
}

Test(cuda_fold, a_driver_that_is_too_old_is_unsupported_and_others_are_named)
{
    struct bench *bench = begin();
    struct kolo_cuda_kernels *kernels = NULL;
    kolo_cuda_kernels_unload(bench->kernels);
    bench->mock->fail("cuModuleLoadData", 1, KOLO_CUDA_UNSUPPORTED_PTX);
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &kernels),
                 KOLO_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(kolo_error_detail(), "newer than this driver"), "%s",
                       kolo_error_detail());
    bench->mock->fail("cuModuleGetFunction", 5, KOLO_CUDA_NOT_FOUND);
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &kernels), KOLO_ERR_SYSTEM);
    bench->mock->fail("cuFuncLoad", 7, KOLO_CUDA_OUT_OF_MEMORY);
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &kernels),
                 KOLO_ERR_NO_MEMORY);
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &bench->kernels), KOLO_OK);
    bench->mock->fail("cuLaunchKernel", 1, KOLO_CUDA_OUT_OF_MEMORY);
    cr_assert_eq(kolo_cuda_scale(bench->kernels, bench->stream, bench->out[0], bench->in[0], 4,
                                 KOLO_FLOAT32, 2),
                 KOLO_ERR_NO_MEMORY);
    cr_assert_null(kernels);
    end(bench);
}

Test(cuda_fold, a_context_has_them_once)
{
    struct bench *bench = begin();
    struct kolo_cuda_kernels *again = NULL, *other = NULL;
    const int loads = bench->mock->calls("cuModuleLoadData");
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 0, KOLO_NEVER, &again), KOLO_OK);
    cr_assert_eq(again, bench->kernels);
    cr_assert_eq(bench->mock->calls("cuModuleLoadData"), loads);
    bench->mock->set_current(1);
    cr_assert_eq(kolo_cuda_kernels_load(bench->driver, 1, KOLO_NEVER, &other), KOLO_OK);
    cr_assert_neq(other, again);
    kolo_cuda_kernels_unload(other);
    bench->mock->set_current(0);
    kolo_cuda_kernels_unload(again);
    cr_assert_eq(bench->mock->calls("cuModuleUnload"), 1);
    end(bench);
}
