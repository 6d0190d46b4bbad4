// SPDX-License-Identifier: Apache-2.0
// The data of a call, and the reference for its result. Every element that a rank sends is a small
// integer drawn by a hash of (round, rank, position), so that an element from another position,
// another rank or an earlier call is noticed. The integers are so small that every order of
// reduction is exact in every type. This rank alone computes the reference, with integers, and uses
// nothing of the library but its two 16-bit conversions.
#include <inttypes.h>
#include <string.h>

#include "bench/bench.h"
#include "memory/reduce.h"

enum { UNTOUCHED = 0x5a, CANARY = 0xa5, MINMAX_SPAN = 201 };

/* ---- values ---- */

static uint32_t mix(uint32_t round, int rank, size_t i)
{
    uint64_t x = (uint64_t)i + ((uint64_t)(unsigned)rank << 44) + ((uint64_t)round << 36);
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9U;
    return (uint32_t)(x >> 32);
}

/* The largest sum up to which every integer is exact. */
static int64_t exact_limit(kolo_dtype dtype)
{
    if (dtype == KOLO_BFLOAT16)
        return 256;
    return dtype == KOLO_FLOAT16 ? 2048 : 1 << 20;
}

/* For bit and logical operators: what one rank changes in a result that the others would leave. */
static int64_t bits_of(kolo_redop op, uint32_t hash, int nranks)
{
    uint32_t rare = hash % (4 * (uint32_t)nranks);
    int64_t bit = rare < 7 ? 1 << rare : 0, truth = 1 + hash / 65536 % 100;
    if (op == KOLO_BAND || op == KOLO_BOR)
        return op == KOLO_BOR ? bit : 127 ^ bit;
    if (op == KOLO_BXOR)
        return hash / 65536 % 128;
    if (op == KOLO_LXOR)
        return hash % 2 ? truth : 0;
    return (rare < 3) == (op == KOLO_LOR) ? truth : 0;
}

static bool is_of_bits(kolo_redop op)
{
    return op == KOLO_BAND || op == KOLO_BOR || op == KOLO_BXOR || op == KOLO_LAND ||
           op == KOLO_LOR || op == KOLO_LXOR;
}

static bool is_unsigned(kolo_dtype dtype)
{
    return dtype == KOLO_UINT8 || dtype == KOLO_UINT16 || dtype == KOLO_UINT32 ||
           dtype == KOLO_UINT64;
}

static int64_t value_of(const struct bench_call *call, int rank, size_t i)
{
    const struct bench_options *o = call->options;
    uint32_t hash = mix(call->round, rank, i);
    if (call->operation->reduces && is_of_bits(o->op))
        return bits_of(o->op, hash, call->nranks);
    if (!call->operation->reduces || o->op == KOLO_MIN || o->op == KOLO_MAX)
        return (int64_t)(hash % MINMAX_SPAN) - (is_unsigned(o->dtype) ? 0 : 100);
    if (o->op == KOLO_PROD) { /* all but one rank hold 1 */
        uint32_t shared = mix(call->round, -1 & 0xfffff, i);
        return shared % (uint32_t)call->nranks == (uint32_t)rank ? 2 + shared / 65536 % 6 : 1;
    }
    int64_t most = exact_limit(o->dtype) / call->nranks;
    if (most == 0) /* more ranks than exact sums: the first ones hold 0 or 1 */
        return rank < exact_limit(o->dtype) ? hash & 1 : 0;
    return hash % (uint32_t)(most < 7 ? most + 1 : 8);
}

/* An integer as the type stores it. */
static int64_t wrapped(kolo_dtype dtype, int64_t value)
{
    switch (dtype) {
    case KOLO_INT8:
        return (int8_t)value;
    case KOLO_INT16:
        return (int16_t)value;
    case KOLO_INT32:
        return (int32_t)value;
    case KOLO_UINT8:
        return (uint8_t)value;
    case KOLO_UINT16:
        return (uint16_t)value;
    case KOLO_UINT32:
        return (uint32_t)value;
    case KOLO_UINT64: /* no value here is that large */
    case KOLO_INT64:
    case KOLO_FLOAT16:
    case KOLO_BFLOAT16:
    case KOLO_FLOAT32:
    case KOLO_FLOAT64:
    case KOLO_DTYPES:
    case KOLO_DTYPE_LAST:
        break;
    }
    return value;
}

static int64_t combine(kolo_redop op, int64_t a, int64_t b)
{
    if (op == KOLO_BAND || op == KOLO_BOR)
        return op == KOLO_BAND ? a & b : a | b;
    if (op == KOLO_BXOR)
        return a ^ b;
    if (op == KOLO_LAND || op == KOLO_LOR)
        return op == KOLO_LAND ? a && b : a || b;
    if (op == KOLO_LXOR)
        return !a != !b;
    if (op == KOLO_MIN)
        return a < b ? a : b;
    if (op == KOLO_MAX)
        return a > b ? a : b;
    return op == KOLO_PROD ? a * b : a + b;
}

/* Element @p i of the reduction of all ranks, unscaled; it has a fraction only if it is an average
 * of floats. */
static double combined(const struct bench_call *call, size_t i)
{
    const struct bench_options *o = call->options;
    int64_t result = value_of(call, 0, i);
    for (int rank = 1; rank < call->nranks; rank++)
        result = combine(o->op, result, value_of(call, rank, i));
    if (o->op == KOLO_LAND || o->op == KOLO_LOR || o->op == KOLO_LXOR)
        result = result != 0; /* also with one rank */
    if (o->op != KOLO_AVERAGE)
        return (double)result;
    return bench_is_float(o->dtype) ? (double)result / call->nranks
                                    : (double)(wrapped(o->dtype, result) / call->nranks);
}

/* The same, scaled: the factors are powers of two, with which all that is exact stays so. */
static double reduced(const struct bench_call *call, size_t i)
{
    return combined(call, i) * call->options->prescale * call->options->postscale;
}

/* ---- elements ---- */

static void store(void *at, kolo_dtype dtype, double value)
{
    float narrow = (float)value;
    unsigned short half;
    int64_t integer;
    switch (dtype) {
    case KOLO_FLOAT16:
        half = kolo_float16_from_float(narrow);
        memcpy(at, &half, sizeof half);
        return;
    case KOLO_BFLOAT16:
        half = kolo_bfloat16_from_float(narrow);
        memcpy(at, &half, sizeof half);
        return;
    case KOLO_FLOAT32:
        memcpy(at, &narrow, sizeof narrow);
        return;
    case KOLO_FLOAT64:
        memcpy(at, &value, sizeof value);
        return;
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
        break;
    }
    integer = (int64_t)value;
    memcpy(at, &integer, kolo_dtype_bytes(dtype)); /* little-endian */
}

static void element_text(const void *at, kolo_dtype dtype, char *text, size_t capacity)
{
    unsigned short half;
    float narrow;
    double value;
    int64_t integer = 0;
    memcpy(&half, at, sizeof half <= kolo_dtype_bytes(dtype) ? sizeof half : 0);
    if (dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16) {
        narrow = dtype == KOLO_FLOAT16 ? kolo_float16_to_float(half) : kolo_bfloat16_to_float(half);
        snprintf(text, capacity, "%.9g", (double)narrow);
    } else if (dtype == KOLO_FLOAT32) {
        memcpy(&narrow, at, sizeof narrow);
        snprintf(text, capacity, "%.9g", (double)narrow);
    } else if (dtype == KOLO_FLOAT64) {
        memcpy(&value, at, sizeof value);
        snprintf(text, capacity, "%.17g", value);
    } else {
        memcpy(&integer, at, kolo_dtype_bytes(dtype));
        snprintf(text, capacity, "%" PRId64, wrapped(dtype, integer));
    }
}

/* ---- what is sent, and what must come out ---- */

static bool is_broadcast(const struct bench_call *call)
{
    return call->operation->send == BENCH_NOTHING && call->operation->recv == BENCH_ONE;
}

static double sent(const struct bench_call *call, int rank, size_t i)
{
    return (double)value_of(call, rank, i);
}

static int block_of(const size_t *displs, int nranks, size_t i)
{
    int low = 0, high = nranks - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (displs[middle] <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static double expected(const struct bench_call *call, size_t i)
{
    size_t own = call->operation->recv == BENCH_OWN ? call->displs[call->rank] : 0;
    int rank;
    switch (call->operation->result) {
    case BENCH_REDUCED:
        return reduced(call, own + i);
    case BENCH_ROOTS:
        return sent(call, call->root, own + i);
    case BENCH_GATHERED:
        rank = block_of(call->displs, call->nranks, i);
        return sent(call, rank, i - call->displs[rank]);
    case BENCH_TRANSPOSED:
        rank = block_of(call->from_displs, call->nranks, i);
        return sent(call, rank, call->from_places[rank] + i - call->from_displs[rank]);
    case BENCH_NEIGHBOURS:
        return sent(call, (call->rank + call->nranks - 1) % call->nranks, i);
    case BENCH_PEERS:
        return sent(call, call->rank == 0 ? call->peer : 0, i);
    case BENCH_FROM_FIRST:
        return sent(call, 0, i);
    case BENCH_UNCHECKED:
        break;
    }
    return 0;
}

static bool has_result(const struct bench_call *call)
{
    switch (call->operation->result) {
    case BENCH_UNCHECKED:
        return false;
    case BENCH_PEERS:
        return call->rank == 0 || call->rank == call->peer;
    case BENCH_FROM_FIRST:
        return call->rank == call->peer;
    case BENCH_REDUCED:
    case BENCH_ROOTS:
    case BENCH_GATHERED:
    case BENCH_TRANSPOSED:
    case BENCH_NEIGHBOURS:
        break;
    }
    return !call->operation->on_root || call->rank == call->root;
}

/* In a broadcast, the root sends its only buffer. */
static void *sent_from(const struct bench_call *call, size_t *count_out)
{
    *count_out = bench_call_send_count(call);
    if (!is_broadcast(call))
        return call->send;
    *count_out = call->rank == call->root ? call->count : 0;
    return call->recv;
}

/** Fills what this rank sends, @p count elements at @p send. @p period of them are drawn and the
 * rest repeat them, because drawing one takes longer than reducing it. */
static void fill_sent(const struct bench_call *call, uint8_t *send, size_t count, size_t period)
{
    const kolo_dtype dtype = call->options->dtype;
    const size_t bytes = kolo_dtype_bytes(dtype), drawn = count < period ? count : period;
    for (size_t i = 0; i < drawn; i++)
        store(send + i * bytes, dtype, sent(call, call->rank, i));
    for (size_t done = drawn, more; done < count; done += more) {
        more = done < count - done ? done : count - done;
        memcpy(send + done * bytes, send, more * bytes);
    }
}

void bench_data_fill(const struct bench_call *call, size_t period)
{
    size_t count, bytes = kolo_dtype_bytes(call->options->dtype);
    uint8_t *recv = call->recv, *send;
    memset(recv, UNTOUCHED, bench_call_recv_count(call) * bytes);
    send = sent_from(call, &count);
    fill_sent(call, send, count, period);
    bool apart = !call->options->in_place && !is_broadcast(call);
    if (apart) {
        memset(recv + bench_call_recv_count(call) * bytes, CANARY, BENCH_CANARY_BYTES);
        memset(send + count * bytes, CANARY, BENCH_CANARY_BYTES);
    }
}

/* ---- the check ---- */

static void found(struct bench_mismatch *mismatch, const struct bench_call *call, int64_t element,
                  const void *want, const void *got)
{
    if (mismatch->errors++ > 0)
        return;
    mismatch->rank = call->rank;
    mismatch->element = element;
    element_text(want, call->options->dtype, mismatch->expected, sizeof mismatch->expected);
    element_text(got, call->options->dtype, mismatch->got, sizeof mismatch->got);
}

static void check_canary(const struct bench_call *call, const uint8_t *at, const char *what,
                         struct bench_mismatch *mismatch)
{
    for (size_t i = 0; i < BENCH_CANARY_BYTES; i++) {
        if (at[i] == CANARY)
            continue;
        if (mismatch->errors++ == 0) {
            mismatch->rank = call->rank;
            mismatch->element = -1;
            snprintf(mismatch->expected, sizeof mismatch->expected, "nothing behind %s", what);
            snprintf(mismatch->got, sizeof mismatch->got, "a write %zu bytes behind", i);
        }
        return;
    }
}

void bench_data_check(const struct bench_call *call, struct bench_mismatch *mismatch_out)
{
    kolo_dtype dtype = call->options->dtype;
    size_t bytes = kolo_dtype_bytes(dtype), sent_count, count = bench_call_recv_count(call);
    const uint8_t *recv = call->recv, *send = sent_from(call, &sent_count);
    uint8_t want[8];
    *mismatch_out = (struct bench_mismatch){.rank = -1};
    for (size_t i = 0; has_result(call) && i < count; i++) {
        store(want, dtype, expected(call, i));
        if (memcmp(recv + i * bytes, want, bytes) != 0)
            found(mismatch_out, call, (int64_t)i, want, recv + i * bytes);
    }
    if (call->options->in_place)
        return;
    for (size_t i = 0; i < sent_count; i++) {
        store(want, dtype, sent(call, call->rank, i));
        if (memcmp(send + i * bytes, want, bytes) != 0)
            found(mismatch_out, call, (int64_t)i, want, send + i * bytes);
    }
    if (is_broadcast(call))
        return;
    check_canary(call, recv + count * bytes, "the result", mismatch_out);
    check_canary(call, send + sent_count * bytes, "the send buffer", mismatch_out);
}
