// SPDX-License-Identifier: Apache-2.0
// See oracle.h.
#include "tests/support/oracle.h"

#include <stdint.h>
#include <string.h>

#include "memory/reduce.h"

/* The numbers repeat after this many elements, a prime, so that for a large vector the reference
 * costs no more than the comparison. */
enum { PERIOD = 1009, ELEMENT_BYTES_MAX = 8 };

static bool is_float(kolo_dtype dtype)
{
    return dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16 || dtype == KOLO_FLOAT32 ||
           dtype == KOLO_FLOAT64;
}

static bool is_unsigned(kolo_dtype dtype)
{
    return dtype == KOLO_UINT8 || dtype == KOLO_UINT16 || dtype == KOLO_UINT32 ||
           dtype == KOLO_UINT64;
}

/** Small enough for all sums and products over 64 ranks to be exact in every float type. */
static int64_t number(const struct oracle *oracle, int rank, size_t index)
{
    uint32_t x = (uint32_t)(index % PERIOD) * 2654435761u + (uint32_t)rank * 40503u + oracle->seed;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    if (oracle->op == KOLO_PROD)
        return is_float(oracle->dtype) ? (x % 16 == 0 ? 2 : 1) : (int64_t)(x % 7) + 1;
    int64_t low = is_unsigned(oracle->dtype) ? 0 : -3;
    return low + (int64_t)(x % 8);
}

static void store(kolo_dtype dtype, int64_t whole, double real, void *at)
{
    unsigned short half;
    float single = (float)real;
    switch (dtype) {
    case KOLO_FLOAT16:
        half = kolo_float16_from_float(single);
        memcpy(at, &half, 2);
        break;
    case KOLO_BFLOAT16:
        half = kolo_bfloat16_from_float(single);
        memcpy(at, &half, 2);
        break;
    case KOLO_FLOAT32:
        memcpy(at, &single, 4);
        break;
    case KOLO_FLOAT64:
        memcpy(at, &real, 8);
        break;
    case KOLO_INT8:
    case KOLO_INT16:
    case KOLO_INT32:
    case KOLO_INT64:
    case KOLO_UINT8:
    case KOLO_UINT16:
    case KOLO_UINT32:
    case KOLO_UINT64:
    case KOLO_DTYPES:
    case KOLO_DTYPE_LAST:
        /* little-endian: the low bytes, so the value wraps */
        memcpy(at, &whole, kolo_dtype_bytes(dtype));
        break;
    }
}

/** An integer as an integer type stores it. */
static int64_t wrapped(kolo_dtype dtype, int64_t value)
{
    int64_t out = 0;
    int bits = 8 * (int)kolo_dtype_bytes(dtype);
    memcpy(&out, &value, kolo_dtype_bytes(dtype));
    if (!is_unsigned(dtype) && bits < 64 && (out >> (bits - 1) & 1))
        out -= INT64_C(1) << bits;
    return out;
}

static int64_t combine(kolo_redop op, int64_t a, int64_t b)
{
    switch (op) {
    case KOLO_MIN:
        return a < b ? a : b;
    case KOLO_MAX:
        return a > b ? a : b;
    case KOLO_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    case KOLO_LAND:
        return a && b;
    case KOLO_LOR:
        return a || b;
    case KOLO_LXOR:
        return !a != !b;
    case KOLO_SUM:
    case KOLO_AVERAGE:
    case KOLO_REDOPS:
    case KOLO_REDOP_LAST:
        break;
    }
    return a + b;
}

static void reduced(const struct oracle *oracle, size_t index, void *at)
{
    int64_t value = number(oracle, 0, index);
    if (oracle->op >= KOLO_LAND)
        value = value != 0;
    for (int rank = 1; rank < oracle->ranks; rank++)
        value = combine(oracle->op, value, number(oracle, rank, index));
    bool divides = oracle->op == KOLO_AVERAGE;
    double real = (double)value;
    if (divides && oracle->dtype == KOLO_FLOAT64)
        real /= oracle->ranks;
    else if (divides && is_float(oracle->dtype))
        real = (float)value / (float)oracle->ranks;
    if (divides && !is_float(oracle->dtype))
        value = wrapped(oracle->dtype, value) / oracle->ranks;
    store(oracle->dtype, value, real, at);
}

static void element(const struct oracle *oracle, int rank, size_t index, void *at)
{
    if (rank < 0) {
        reduced(oracle, index, at);
        return;
    }
    int64_t value = number(oracle, rank, index);
    store(oracle->dtype, value, (double)value, at);
}

/** One period of rank @p rank's elements (-1: of the reduction), from @p offset on. */
static size_t make_period(const struct oracle *oracle, int rank, size_t offset, size_t count,
                          unsigned char period[PERIOD * ELEMENT_BYTES_MAX])
{
    size_t bytes = kolo_dtype_bytes(oracle->dtype), length = count < PERIOD ? count : PERIOD;
    for (size_t i = 0; i < length; i++)
        element(oracle, rank, offset + i, period + i * bytes);
    return length;
}

void oracle_fill(const struct oracle *oracle, int rank, size_t offset, void *data, size_t count)
{
    unsigned char period[PERIOD * ELEMENT_BYTES_MAX];
    size_t bytes = kolo_dtype_bytes(oracle->dtype);
    size_t length = make_period(oracle, rank, offset, count, period);
    for (size_t i = 0; i < count; i += length) {
        size_t part = count - i < length ? count - i : length;
        memcpy((unsigned char *)data + i * bytes, period, part * bytes);
    }
}

static bool equals(const struct oracle *oracle, int rank, size_t offset, const void *data,
                   size_t count, size_t *at_out)
{
    unsigned char period[PERIOD * ELEMENT_BYTES_MAX];
    size_t bytes = kolo_dtype_bytes(oracle->dtype);
    size_t length = make_period(oracle, rank, offset, count, period);
    for (size_t i = 0; i < count; i += length) {
        size_t part = count - i < length ? count - i : length;
        const unsigned char *at = (const unsigned char *)data + i * bytes;
        if (memcmp(at, period, part * bytes) == 0)
            continue;
        for (*at_out = i; memcmp(at, period + (*at_out - i) * bytes, bytes) == 0; at += bytes)
            (*at_out)++;
        return false;
    }
    return true;
}

bool oracle_is_of(const struct oracle *oracle, int rank, size_t offset, const void *data,
                  size_t count, size_t *at_out)
{
    return equals(oracle, rank, offset, data, count, at_out);
}

bool oracle_is_reduced(const struct oracle *oracle, size_t offset, const void *data, size_t count,
                       size_t *at_out)
{
    return equals(oracle, -1, offset, data, count, at_out);
}
