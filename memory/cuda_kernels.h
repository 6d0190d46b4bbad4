// SPDX-License-Identifier: Apache-2.0
// The reduction kernels for CUDA devices: folds (many inputs, one result, many outputs), as
// kolo_fold, and scaling, as kolo_scale. Written in the common subset of C and C++, so that the
// compilers for the device and for the host read the same text: nvcc through
// memory/cuda_kernels.cu, and gcc for the tests' libcuda.so.1, which runs them thread by thread, so
// that their bits can be compared with those of the CPU kernels. The including file must define
// before
//
//   KOLO_DEVICE              before a function that kernels call; _APART: one that is not inlined
//   KOLO_KERNEL(name)        the head of kernel `name`, whose one parameter is `job`
//   KOLO_THREAD, _THREADS    the number of this thread in the grid, and of all threads
//   packet_get, packet_put   16 bytes at an address that is a multiple of 16
//   float16_decode, _encode  one float16 from its bits and to them, rounded to nearest even
//   KOLO_UNROLLED            before a loop that is to be unrolled
//
// How they work: a thread takes every KOLO_THREADS-th packet of 16 bytes, loads it from every
// input, combines from left to right in registers, and stores the result to every output. All
// inputs of a packet are read before any output of it is written, so outputs may be inputs. The
// memory's throughput is limited by the number of loads in flight. So if addresses are aligned, a
// thread loads four packets of an input, or for a short vector one packet of four inputs, before it
// uses the first.
//
// The bits of results equal those of memory/fold_kernels.h: integers are unsigned inside; sums and
// products of 16-bit floats are float32 until the end; every float NaN becomes the quiet NaN
// without payload; -0 is less than +0. Nothing is contracted (nvcc -fmad=false) or flushed.
#ifndef KOLO_MEMORY_CUDA_KERNELS_H
#define KOLO_MEMORY_CUDA_KERNELS_H

#include <stdint.h>
#include <string.h>

#include "memory/cuda_job.h"

enum { PACKET = KOLO_CUDA_PACKET_BYTES, AHEAD = 4, AT_ONCE = 4 };

struct packet {
    uint32_t word[PACKET / 4];
};

/** An address as a pointer of @p type. */
#define KOLO_AT(type, address) ((type *)(uintptr_t)(address))

/** Loads less than a packet, or an unaligned packet. Missing bytes are zeros, which are safe for
 * every operator. */
KOLO_DEVICE_APART struct packet part_load(uint64_t address, unsigned bytes)
{
    struct packet x = {{0, 0, 0, 0}};
    if (bytes == PACKET && address % 4 == 0) {
        for (unsigned i = 0; i < PACKET / 4; i++)
            x.word[i] = KOLO_AT(const uint32_t, address)[i];
        return x;
    }
    for (unsigned i = 0; i < PACKET; i++)
        if (i < bytes)
            x.word[i / 4] |= (uint32_t)KOLO_AT(const uint8_t, address)[i] << i % 4 * 8;
    return x;
}

KOLO_DEVICE_APART void part_store(uint64_t address, struct packet x, unsigned bytes)
{
    if (bytes == PACKET && address % 4 == 0) {
        for (unsigned i = 0; i < PACKET / 4; i++)
            KOLO_AT(uint32_t, address)[i] = x.word[i];
        return;
    }
    for (unsigned i = 0; i < PACKET; i++)
        if (i < bytes)
            KOLO_AT(uint8_t, address)[i] = (uint8_t)(x.word[i / 4] >> i % 4 * 8);
}

KOLO_DEVICE struct packet packet_load(uint64_t address, unsigned bytes)
{
    if (bytes == PACKET && address % PACKET == 0)
        return packet_get(address);
    return part_load(address, bytes);
}

/** Loads a packet if all addresses and lengths are multiples of a word. */
KOLO_DEVICE struct packet words_load(uint64_t address, unsigned bytes)
{
    struct packet x;
    if (bytes == PACKET && address % PACKET == 0)
        return packet_get(address);
    KOLO_UNROLLED
    for (unsigned i = 0; i < PACKET / 4; i++)
        x.word[i] = 4 * i < bytes ? KOLO_AT(const uint32_t, address)[i] : 0;
    return x;
}

KOLO_DEVICE void packet_store(uint64_t address, struct packet x, unsigned bytes)
{
    if (bytes == PACKET && address % PACKET == 0)
        packet_put(address, x);
    else
        part_store(address, x, bytes);
}

/* ---- single elements ---- */

KOLO_DEVICE uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

KOLO_DEVICE float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

KOLO_DEVICE uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

KOLO_DEVICE double double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

KOLO_DEVICE float float32_canonical(float x)
{
    return x != x ? float_of_bits(0x7fc00000u) : x;
}

KOLO_DEVICE double float64_canonical(double x)
{
    return x != x ? double_of_bits(0x7ff8000000000000u) : x;
}

KOLO_DEVICE float bfloat16_decode(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/** For values that are not NaN, or the canonical NaN, whose lower half rounding does not carry
 * anywhere. */
KOLO_DEVICE uint16_t bfloat16_encode(float x)
{
    uint32_t bits = bits_of_float(x);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/** Rounds toward zero. Magnitudes are divided, which also works for the smallest signed integer. */
KOLO_DEVICE uint32_t quotient32(uint32_t x, int is_signed, uint64_t divisor)
{
    uint32_t negative = is_signed ? x >> 31 : 0, magnitude = (x ^ (0 - negative)) + negative;
    magnitude = divisor > 0xffffffffu ? 0 : magnitude / (uint32_t)divisor;
    return (magnitude ^ (0 - negative)) + negative;
}

KOLO_DEVICE uint64_t quotient64(uint64_t x, int is_signed, uint64_t divisor)
{
    uint64_t negative = is_signed ? x >> 63 : 0, magnitude = (x ^ (0 - negative)) + negative;
    magnitude /= divisor;
    return (magnitude ^ (0 - negative)) + negative;
}

/* ---- packets of elements ---- */

#define KOLO_LANES(name, type, result)                                                             \
    KOLO_DEVICE struct packet name(struct packet a, struct packet b)                               \
    {                                                                                              \
        type x[PACKET / sizeof(type)], y[PACKET / sizeof(type)];                                   \
        memcpy(x, &a, PACKET);                                                                     \
        memcpy(y, &b, PACKET);                                                                     \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            x[i] = (type)(result);                                                                 \
        memcpy(&a, x, PACKET);                                                                     \
        return a;                                                                                  \
    }

#define KOLO_ORDER_OF_LANES(name, type)                                                            \
    KOLO_LANES(min_##name, type, x[i] < y[i] ? x[i] : y[i])                                        \
    KOLO_LANES(max_##name, type, x[i] > y[i] ? x[i] : y[i])
#define KOLO_AVERAGE_LANES(name, type, divided)                                                    \
    KOLO_DEVICE struct packet average_##name(struct packet a, uint64_t divisor)                    \
    {                                                                                              \
        type x[PACKET / sizeof(type)];                                                             \
        memcpy(x, &a, PACKET);                                                                     \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            x[i] = (type)(divided);                                                                \
        memcpy(&a, x, PACKET);                                                                     \
        return a;                                                                                  \
    }
/** @p wide: the unsigned type in which sums and products wrap without a signed overflow. */
#define KOLO_INTEGER_LANES(name, type, wide, divided)                                              \
    KOLO_LANES(sum_##name, type, (wide)x[i] + (wide)y[i])                                          \
    KOLO_LANES(prod_##name, type, (wide)x[i] * (wide)y[i])                                         \
    KOLO_ORDER_OF_LANES(name, type)                                                                \
    KOLO_LANES(land_##name, type, x[i] != 0 && y[i] != 0)                                          \
    KOLO_LANES(lor_##name, type, x[i] != 0 || y[i] != 0)                                           \
    KOLO_LANES(lxor_##name, type, (x[i] != 0) != (y[i] != 0))                                      \
    KOLO_AVERAGE_LANES(name, type, divided)
KOLO_INTEGER_LANES(int8, int8_t, uint32_t, quotient32((uint32_t)x[i], 1, divisor))
KOLO_INTEGER_LANES(uint8, uint8_t, uint32_t, quotient32((uint32_t)x[i], 0, divisor))
KOLO_INTEGER_LANES(int16, int16_t, uint32_t, quotient32((uint32_t)x[i], 1, divisor))
KOLO_INTEGER_LANES(int32, int32_t, uint32_t, quotient32((uint32_t)x[i], 1, divisor))
KOLO_INTEGER_LANES(int64, int64_t, uint64_t, quotient64((uint64_t)x[i], 1, divisor))

/* Only sums, which may be divided, and the order of two numbers need kernels of their own: other
 * results are those of the signed type of the same size. */
#define KOLO_UNSIGNED_LANES(name, type, wide, divided)                                             \
    KOLO_LANES(sum_##name, type, (wide)x[i] + (wide)y[i])                                          \
    KOLO_ORDER_OF_LANES(name, type)                                                                \
    KOLO_AVERAGE_LANES(name, type, divided)
KOLO_UNSIGNED_LANES(uint16, uint16_t, uint32_t, quotient32((uint32_t)x[i], 0, divisor))
KOLO_UNSIGNED_LANES(uint32, uint32_t, uint32_t, quotient32((uint32_t)x[i], 0, divisor))
KOLO_UNSIGNED_LANES(uint64, uint64_t, uint64_t, quotient64((uint64_t)x[i], 0, divisor))

KOLO_LANES(band, uint32_t, x[i] & y[i])
KOLO_LANES(bor, uint32_t, x[i] | y[i])
KOLO_LANES(bxor, uint32_t, x[i] ^ y[i])

/** Minima and maxima of floats, by their bits: of two equal values min takes the OR and max the
 * AND, which distinguishes -0 from +0 and changes nothing else. */
#define KOLO_ORDER_LANES(name, type, value, quiet_nan)                                             \
    KOLO_DEVICE type min_of_##name(type a, type b)                                                 \
    {                                                                                              \
        if (value(a) < value(b))                                                                   \
            return a;                                                                              \
        if (value(b) < value(a))                                                                   \
            return b;                                                                              \
        return value(a) == value(b) ? (type)(a | b) : (type)(quiet_nan);                           \
    }                                                                                              \
    KOLO_DEVICE type max_of_##name(type a, type b)                                                 \
    {                                                                                              \
        if (value(a) > value(b))                                                                   \
            return a;                                                                              \
        if (value(b) > value(a))                                                                   \
            return b;                                                                              \
        return value(a) == value(b) ? (type)(a & b) : (type)(quiet_nan);                           \
    }                                                                                              \
    KOLO_LANES(min_##name, type, min_of_##name(x[i], y[i]))                                        \
    KOLO_LANES(max_##name, type, max_of_##name(x[i], y[i]))
KOLO_ORDER_LANES(float32, uint32_t, float_of_bits, 0x7fc00000u)
KOLO_ORDER_LANES(float64, uint64_t, double_of_bits, 0x7ff8000000000000u)
KOLO_ORDER_LANES(float16, uint16_t, float16_decode, 0x7e00u)
KOLO_ORDER_LANES(bfloat16, uint16_t, bfloat16_decode, 0x7fc0u)

/* ---- the intermediate result of a packet: the packet, or its floats ---- */

KOLO_DEVICE struct packet packet_begin(struct packet x)
{
    return x;
}

KOLO_DEVICE struct packet packet_end(struct packet x, const struct kolo_cuda_job *how)
{
    (void)how;
    return x;
}

#define KOLO_AVERAGE_END(name)                                                                     \
    KOLO_DEVICE struct packet end_##name(struct packet x, const struct kolo_cuda_job *how)         \
    {                                                                                              \
        return how->divisor > 1 ? average_##name(x, how->divisor) : x;                             \
    }
#define KOLO_INTEGER_ENDS(name)                                                                    \
    KOLO_DEVICE struct packet begin_truth_##name(struct packet x)                                  \
    {                                                                                              \
        return lor_##name(x, x);                                                                   \
    }                                                                                              \
    KOLO_AVERAGE_END(name)
KOLO_INTEGER_ENDS(int8)
KOLO_INTEGER_ENDS(uint8)
KOLO_INTEGER_ENDS(int16)
KOLO_INTEGER_ENDS(int32)
KOLO_INTEGER_ENDS(int64)
KOLO_AVERAGE_END(uint16)
KOLO_AVERAGE_END(uint32)
KOLO_AVERAGE_END(uint64)

/** Sums and products of floats; they are computed in @p real. */
#define KOLO_FLOAT_FOLD(name, type, real, decode, encode, canonical)                               \
    struct name##_lanes {                                                                          \
        real lane[PACKET / sizeof(type)];                                                          \
    };                                                                                             \
    KOLO_DEVICE struct name##_lanes begin_##name(struct packet x)                                  \
    {                                                                                              \
        type bits[PACKET / sizeof(type)];                                                          \
        struct name##_lanes acc;                                                                   \
        memcpy(bits, &x, PACKET);                                                                  \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            acc.lane[i] = decode(bits[i]);                                                         \
        return acc;                                                                                \
    }                                                                                              \
    KOLO_DEVICE struct name##_lanes sum_##name(struct name##_lanes acc, struct packet x)           \
    {                                                                                              \
        const struct name##_lanes y = begin_##name(x);                                             \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            acc.lane[i] = acc.lane[i] + y.lane[i];                                                 \
        return acc;                                                                                \
    }                                                                                              \
    KOLO_DEVICE struct name##_lanes prod_##name(struct name##_lanes acc, struct packet x)          \
    {                                                                                              \
        const struct name##_lanes y = begin_##name(x);                                             \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            acc.lane[i] = acc.lane[i] * y.lane[i];                                                 \
        return acc;                                                                                \
    }                                                                                              \
    KOLO_DEVICE struct packet end_##name(struct name##_lanes acc, const struct kolo_cuda_job *how) \
    {                                                                                              \
        type bits[PACKET / sizeof(type)];                                                          \
        struct packet x;                                                                           \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++) {                                     \
            const real r = how->divisor > 1 ? acc.lane[i] / (real)how->divisor : acc.lane[i];      \
            bits[i] = encode(canonical(r));                                                        \
        }                                                                                          \
        memcpy(&x, bits, PACKET);                                                                  \
        return x;                                                                                  \
    }                                                                                              \
    KOLO_DEVICE struct packet scale_##name(struct packet x, const struct kolo_cuda_job *how)       \
    {                                                                                              \
        struct name##_lanes acc = begin_##name(x);                                                 \
        struct kolo_cuda_job no_division;                                                          \
        no_division.divisor = 0;                                                                   \
        KOLO_UNROLLED                                                                              \
        for (unsigned i = 0; i < PACKET / sizeof(type); i++)                                       \
            acc.lane[i] = acc.lane[i] * (real)how->factor;                                         \
        return end_##name(acc, &no_division);                                                      \
    }
KOLO_FLOAT_FOLD(float32, uint32_t, float, float_of_bits, bits_of_float, float32_canonical)
KOLO_FLOAT_FOLD(float64, uint64_t, double, double_of_bits, bits_of_double, float64_canonical)
KOLO_FLOAT_FOLD(float16, uint16_t, float, float16_decode, float16_encode, float32_canonical)
KOLO_FLOAT_FOLD(bfloat16, uint16_t, float, bfloat16_decode, bfloat16_encode, float32_canonical)

/* ---- the kernels */

/** Whole and aligned packets, @p most for each thread at once, so that many loads are in flight. */
#define KOLO_FOLD_MANY(most, acc, begin, step, end)                                                \
    for (; i + ((most)-1) * KOLO_THREADS < whole; i += (most)*KOLO_THREADS) {                      \
        const uint64_t at = i * PACKET, stride = KOLO_THREADS * PACKET;                            \
        struct packet x[most];                                                                     \
        acc r[most];                                                                               \
        KOLO_UNROLLED                                                                              \
        for (unsigned j = 0; j < most; j++)                                                        \
            x[j] = packet_get(job.in[0] + at + j * stride);                                        \
        KOLO_UNROLLED                                                                              \
        for (unsigned j = 0; j < most; j++)                                                        \
            r[j] = begin(x[j]);                                                                    \
        for (unsigned k = 1; k < job.nin; k++) {                                                   \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < most; j++)                                                    \
                x[j] = packet_get(job.in[k] + at + j * stride);                                    \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < most; j++)                                                    \
                r[j] = step(r[j], x[j]);                                                           \
        }                                                                                          \
        KOLO_UNROLLED                                                                              \
        for (unsigned j = 0; j < most; j++)                                                        \
            x[j] = end(r[j], &job);                                                                \
        for (unsigned k = 0; k < job.nout; k++) {                                                  \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < most; j++)                                                    \
                packet_put(job.out[k] + at + j * stride, x[j]);                                    \
        }                                                                                          \
    }

/** One packet after the other, from AHEAD inputs at a time; beyond the last input, the last one is
 * loaded again. */
#define KOLO_FOLD_EACH(acc, begin, step, end)                                                      \
    for (; i < packets; i += KOLO_THREADS) {                                                       \
        const uint64_t at = i * PACKET;                                                            \
        const unsigned bytes = job.bytes - at < PACKET ? (unsigned)(job.bytes - at) : PACKET;      \
        acc r = begin(packet_load(job.in[0] + at, bytes));                                         \
        unsigned k = 1;                                                                            \
        for (; (job.fit & KOLO_CUDA_FIT_WORDS) && k < job.nin; k += AHEAD) {                       \
            struct packet x[AHEAD];                                                                \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < AHEAD; j++)                                                   \
                x[j] = words_load(job.in[k + j < job.nin ? k + j : job.nin - 1] + at, bytes);      \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < AHEAD; j++)                                                   \
                if (k + j < job.nin)                                                               \
                    r = step(r, x[j]);                                                             \
        }                                                                                          \
        for (; k < job.nin; k++)                                                                   \
            r = step(r, packet_load(job.in[k] + at, bytes));                                       \
        const struct packet x = end(r, &job);                                                      \
        for (unsigned j = 0; j < job.nout; j++)                                                    \
            packet_store(job.out[j] + at, x, bytes);                                               \
    }

#define KOLO_PACKETS                                                                               \
    const uint64_t packets = (job.bytes + PACKET - 1) / PACKET;                                    \
    const uint64_t whole = job.fit & KOLO_CUDA_FIT_PACKETS ? job.bytes / PACKET : 0;               \
    uint64_t i = KOLO_THREAD

/** @p acc: the type of the intermediate result. */
#define KOLO_FOLD_KERNEL(name, most, acc, begin, step, end)                                        \
    KOLO_KERNEL(kolo_fold_##name)                                                                  \
    {                                                                                              \
        KOLO_PACKETS;                                                                              \
        KOLO_FOLD_MANY(most, acc, begin, step, end)                                                \
        KOLO_FOLD_EACH(acc, begin, step, end)                                                      \
    }

/** For an operator that is rarely used with long vectors: half the code. */
#define KOLO_RARE_KERNEL(name, acc, begin, step, end)                                              \
    KOLO_KERNEL(kolo_fold_##name)                                                                  \
    {                                                                                              \
        KOLO_PACKETS;                                                                              \
        (void)whole;                                                                               \
        KOLO_FOLD_EACH(acc, begin, step, end)                                                      \
    }

#define KOLO_UNSIGNED_FOLDS(name, most)                                                            \
    KOLO_FOLD_KERNEL(sum_##name, most, struct packet, packet_begin, sum_##name, end_##name)        \
    KOLO_FOLD_KERNEL(min_##name, most, struct packet, packet_begin, min_##name, packet_end)        \
    KOLO_FOLD_KERNEL(max_##name, most, struct packet, packet_begin, max_##name, packet_end)
#define KOLO_INTEGER_FOLDS(name, most)                                                             \
    KOLO_UNSIGNED_FOLDS(name, most)                                                                \
    KOLO_RARE_KERNEL(prod_##name, struct packet, packet_begin, prod_##name, packet_end)            \
    KOLO_RARE_KERNEL(land_##name, struct packet, begin_truth_##name, land_##name, packet_end)      \
    KOLO_RARE_KERNEL(lor_##name, struct packet, begin_truth_##name, lor_##name, packet_end)        \
    KOLO_RARE_KERNEL(lxor_##name, struct packet, begin_truth_##name, lxor_##name, packet_end)
KOLO_INTEGER_FOLDS(int8, AT_ONCE)
KOLO_INTEGER_FOLDS(uint8, AT_ONCE)
KOLO_INTEGER_FOLDS(int16, AT_ONCE - 1)
KOLO_INTEGER_FOLDS(int32, AT_ONCE)
KOLO_INTEGER_FOLDS(int64, AT_ONCE)
KOLO_UNSIGNED_FOLDS(uint16, AT_ONCE - 1)
KOLO_UNSIGNED_FOLDS(uint32, AT_ONCE)
KOLO_UNSIGNED_FOLDS(uint64, AT_ONCE)

/* the same for all types; band of one input is a copy */
KOLO_FOLD_KERNEL(band, AT_ONCE, struct packet, packet_begin, band, packet_end)
KOLO_FOLD_KERNEL(bor, AT_ONCE, struct packet, packet_begin, bor, packet_end)
KOLO_FOLD_KERNEL(bxor, AT_ONCE, struct packet, packet_begin, bxor, packet_end)

/** @p most: for sums; a packet of 16-bit floats needs the registers of two. A kernel that needs
 * more registers than a processor has for KOLO_CUDA_BLOCKS blocks keeps some values in memory (nvcc
 * -Xptxas -v). */
#define KOLO_FLOAT_FOLDS(name, most)                                                               \
    KOLO_FOLD_KERNEL(sum_##name, most, struct name##_lanes, begin_##name, sum_##name, end_##name)  \
    KOLO_RARE_KERNEL(prod_##name, struct name##_lanes, begin_##name, prod_##name, end_##name)      \
    KOLO_FOLD_KERNEL(min_##name, AT_ONCE, struct packet, packet_begin, min_##name, packet_end)     \
    KOLO_FOLD_KERNEL(max_##name, AT_ONCE, struct packet, packet_begin, max_##name, packet_end)     \
    KOLO_KERNEL(kolo_scale_##name)                                                                 \
    {                                                                                              \
        KOLO_PACKETS;                                                                              \
        for (; i + (AT_ONCE - 1) * KOLO_THREADS < whole; i += AT_ONCE * KOLO_THREADS) {            \
            struct packet x[AT_ONCE];                                                              \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < AT_ONCE; j++)                                                 \
                x[j] = packet_get(job.in[0] + (i + j * KOLO_THREADS) * PACKET);                    \
            KOLO_UNROLLED                                                                          \
            for (unsigned j = 0; j < AT_ONCE; j++)                                                 \
                packet_put(job.out[0] + (i + j * KOLO_THREADS) * PACKET,                           \
                           scale_##name(x[j], &job));                                              \
        }                                                                                          \
        for (; i < packets; i += KOLO_THREADS) {                                                   \
            const uint64_t at = i * PACKET;                                                        \
            const unsigned bytes = job.bytes - at < PACKET ? (unsigned)(job.bytes - at) : PACKET;  \
            const struct packet x = packet_load(job.in[0] + at, bytes);                            \
            packet_store(job.out[0] + at, scale_##name(x, &job), bytes);                           \
        }                                                                                          \
    }
KOLO_FLOAT_FOLDS(float32, AT_ONCE)
KOLO_FLOAT_FOLDS(float64, AT_ONCE)
KOLO_FLOAT_FOLDS(float16, AT_ONCE - 1)
KOLO_FLOAT_FOLDS(bfloat16, AT_ONCE - 1)

#endif
