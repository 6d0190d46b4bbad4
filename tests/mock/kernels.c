// SPDX-License-Identifier: Apache-2.0
// The library's CUDA kernels, compiled for the host from the same source and run one thread after
// the other.
#include <stdlib.h>
#include <string.h>

#include "tests/mock/mock.h"

struct packet;
static _Thread_local struct kolo_cuda_job job;
static _Thread_local uint64_t thread_number, thread_count;

#define KOLO_DEVICE static inline __attribute__((unused))
#define KOLO_DEVICE_APART static
#define KOLO_KERNEL(name) static void name(void)
#define KOLO_THREAD thread_number
#define KOLO_THREADS thread_count
#define KOLO_UNROLLED
#define packet_get(address) packet_part(address)
#define packet_put(address, x) packet_whole(address, x)

/* An independent implementation of what devices have instructions for. It goes through double, in
 * which scaling by a power of two is exact and a float16 is an integer. */
static float float16_decode(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa ? __builtin_nanf("") : (float)(sign * __builtin_inf());
    if (exponent == 0)
        return (float)(sign * mantissa * 0x1p-24);
    return (float)(sign * __builtin_ldexp(1024 + mantissa, exponent - 25));
}

static uint16_t float16_encode(float x)
{
    const uint16_t sign = __builtin_signbit(x) ? 0x8000 : 0;
    const double magnitude = __builtin_fabs((double)x);
    int exponent;
    if (x != x)
        return 0x7e00;
    if (magnitude == 0)
        return sign;
    if (magnitude >= 65520)
        return (uint16_t)(sign | 0x7c00);
    (void)__builtin_frexp(magnitude, &exponent); /* magnitude < 2^exponent */
    const int place = exponent - 11 < -24 ? -24 : exponent - 11;
    const double units = __builtin_rint(__builtin_ldexp(magnitude, -place)); /* to nearest even */
    /* a mantissa of 11 bits carries into the exponent by itself */
    return (uint16_t)(sign | (uint16_t)((place + 24) * 1024 + (int)units));
}

static struct packet packet_part(uint64_t address);
static void packet_whole(uint64_t address, struct packet x);
#include "memory/cuda_kernels.h"

static struct packet packet_part(uint64_t address)
{
    struct packet x;
    if (address % PACKET != 0)
        abort();
    memcpy(&x, (const void *)(uintptr_t)address, PACKET);
    return x;
}

static void packet_whole(uint64_t address, struct packet x)
{
    if (address % PACKET != 0)
        abort();
    memcpy((void *)(uintptr_t)address, &x, PACKET);
}

#define ENTRY(label)                                                                               \
    {                                                                                              \
        .name = #label, .run = label                                                               \
    }
#define INTEGERS(type)                                                                             \
    ENTRY(kolo_fold_sum_##type), ENTRY(kolo_fold_prod_##type), ENTRY(kolo_fold_min_##type),        \
        ENTRY(kolo_fold_max_##type), ENTRY(kolo_fold_land_##type), ENTRY(kolo_fold_lor_##type),    \
        ENTRY(kolo_fold_lxor_##type)
#define UNSIGNED(type)                                                                             \
    ENTRY(kolo_fold_sum_##type), ENTRY(kolo_fold_min_##type), ENTRY(kolo_fold_max_##type)
#define FLOATS(type)                                                                               \
    ENTRY(kolo_fold_sum_##type), ENTRY(kolo_fold_prod_##type), ENTRY(kolo_fold_min_##type),        \
        ENTRY(kolo_fold_max_##type), ENTRY(kolo_scale_##type)

static struct mock_kernel kernels[] = {
    INTEGERS(int8),   INTEGERS(uint8),       INTEGERS(int16),      INTEGERS(int32),
    INTEGERS(int64),  FLOATS(float16),       FLOATS(bfloat16),     FLOATS(float32),
    FLOATS(float64),  ENTRY(kolo_fold_band), ENTRY(kolo_fold_bor), ENTRY(kolo_fold_bxor),
    UNSIGNED(uint16), UNSIGNED(uint32),      UNSIGNED(uint64),     {.name = NULL}};

struct mock_kernel *mock_kernels(void)
{
    return kernels;
}

struct mock_kernel *mock_kernel_named(const char *name)
{
    for (size_t i = 0; kernels[i].name; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

void mock_kernel_run(const struct mock_kernel *kernel, const struct kolo_cuda_job *given,
                     uint64_t threads)
{
    job = *given;
    thread_count = threads;
    for (thread_number = 0; thread_number < threads; thread_number++)
        kernel->run();
}
