// SPDX-License-Identifier: Apache-2.0
// The fold kernels of all types and operators: many inputs, one result, many outputs. They use the
// vectors and operators of memory/reduce_kernels.h, and like these are compiled once per
// instruction set. A file memory/reduce_<set>.c must define, before it includes
// memory/reduce_table.h:
//
//   vector_stream()  stores a vector at an address that is aligned for it, past the caches if the
//                    instruction set can
//   stream_fence()   makes such stores visible to other processors before any later store
//
// How they work: a few vectors of every input are combined in registers, from left to right, and
// the result is stored to every output, so each element is loaded once, and stored once per output.
// All inputs of a vector are read before any output of it is written, so outputs may be inputs. A
// NaN is made canonical only once, at the end, since no later step of a sum or product turns it
// into a number.
#ifndef KOLO_MEMORY_FOLD_KERNELS_H
#define KOLO_MEMORY_FOLD_KERNELS_H

#include "memory/reduce_kernels.h"

enum {
    /** Vectors in registers at a time; 16-bit floats need two accumulators for each. */
    FOLD_VECTORS = 4,
    FOLD_BLOCK = FOLD_VECTORS * KOLO_VECTOR_BYTES
};

/** The intermediate result for one vector of elements: one vector, or two of float32. */
struct accumulator {
    bits_vector low, high;
};

/** How the result of an average is completed; for other folds `divides` is false. */
struct fold_finish {
    bool divides;
    bits_vector by;
};

typedef struct accumulator (*fold_begin)(bits_vector x);
typedef struct accumulator (*fold_step)(struct accumulator acc, bits_vector x);
typedef bits_vector (*fold_end)(struct accumulator acc, const struct fold_finish *finish);

// ---- operators whose accumulator has the elements' type

#define KOLO_FOLD_STEP(op, name)                                                                   \
    static KOLO_ALWAYS_INLINE struct accumulator step_##op##_##name(struct accumulator acc,        \
                                                                    bits_vector x)                 \
    {                                                                                              \
        return (struct accumulator){.low = op##_##name(acc.low, x)};                               \
    }
#define KOLO_FOLD_INTEGER_STEPS(name)                                                              \
    KOLO_FOLD_STEP(sum, name)                                                                      \
    KOLO_FOLD_STEP(min, name)                                                                      \
    KOLO_FOLD_STEP(max, name)                                                                      \
    KOLO_FOLD_STEP(prod, name)                                                                     \
    KOLO_FOLD_STEP(band, name)                                                                     \
    KOLO_FOLD_STEP(bor, name)                                                                      \
    KOLO_FOLD_STEP(bxor, name)                                                                     \
    KOLO_FOLD_STEP(land, name)                                                                     \
    KOLO_FOLD_STEP(lor, name)                                                                      \
    KOLO_FOLD_STEP(lxor, name)                                                                     \
    static KOLO_ALWAYS_INLINE struct accumulator begin_truth_##name(bits_vector x)                 \
    {                                                                                              \
        return (struct accumulator){.low = truth_##name(x)};                                       \
    }
KOLO_FOLD_INTEGER_STEPS(int8)
KOLO_FOLD_INTEGER_STEPS(uint8)
KOLO_FOLD_INTEGER_STEPS(int16)
KOLO_FOLD_INTEGER_STEPS(int32)
KOLO_FOLD_INTEGER_STEPS(int64)
KOLO_FOLD_STEP(min, uint16)
KOLO_FOLD_STEP(max, uint16)
KOLO_FOLD_STEP(min, uint32)
KOLO_FOLD_STEP(max, uint32)
KOLO_FOLD_STEP(min, uint64)
KOLO_FOLD_STEP(max, uint64)
KOLO_FOLD_STEP(min, float16)
KOLO_FOLD_STEP(max, float16)
KOLO_FOLD_STEP(min, bfloat16)
KOLO_FOLD_STEP(max, bfloat16)
KOLO_FOLD_STEP(min, float32)
KOLO_FOLD_STEP(max, float32)
KOLO_FOLD_STEP(min, float64)
KOLO_FOLD_STEP(max, float64)

static KOLO_ALWAYS_INLINE struct accumulator begin_plain(bits_vector x)
{
    return (struct accumulator){.low = x};
}

static KOLO_ALWAYS_INLINE bits_vector end_plain(struct accumulator acc,
                                                const struct fold_finish *finish)
{
    (void)finish;
    return acc.low;
}

// ---- sums and products of floats

#define KOLO_FOLD_FLOAT(name, vector)                                                              \
    static KOLO_ALWAYS_INLINE struct accumulator step_sum_##name(struct accumulator acc,           \
                                                                 bits_vector x)                    \
    {                                                                                              \
        return (struct accumulator){.low = (bits_vector)((vector)acc.low + (vector)x)};            \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE struct accumulator step_prod_##name(struct accumulator acc,          \
                                                                  bits_vector x)                   \
    {                                                                                              \
        return (struct accumulator){.low = (bits_vector)((vector)acc.low * (vector)x)};            \
    }                                                                                              \
    static KOLO_ALWAYS_INLINE bits_vector end_##name(struct accumulator acc,                       \
                                                     const struct fold_finish *finish)             \
    {                                                                                              \
        vector x = (vector)acc.low;                                                                \
        if (finish->divides)                                                                       \
            x /= (vector)finish->by;                                                               \
        return (bits_vector)canonical_##name(x);                                                   \
    }
KOLO_FOLD_FLOAT(float32, f32_vector)
KOLO_FOLD_FLOAT(float64, f64_vector)

/** 16-bit floats: decoded once, added or multiplied in float32, rounded once. */
#define KOLO_FOLD_SHORT_STEP(op, name, sign)                                                       \
    static KOLO_ALWAYS_INLINE struct accumulator step_##op##_##name(struct accumulator acc,        \
                                                                    bits_vector x)                 \
    {                                                                                              \
        const struct float_pair pair = name##_decode(x);                                           \
        return (struct accumulator){(bits_vector)((f32_vector)acc.low sign pair.low),              \
                                    (bits_vector)((f32_vector)acc.high sign pair.high)};           \
    }
#define KOLO_FOLD_SHORT(name)                                                                      \
    static KOLO_ALWAYS_INLINE struct accumulator begin_##name(bits_vector x)                       \
    {                                                                                              \
        const struct float_pair pair = name##_decode(x);                                           \
        return (struct accumulator){(bits_vector)pair.low, (bits_vector)pair.high};                \
    }                                                                                              \
    KOLO_FOLD_SHORT_STEP(sum, name, +)                                                             \
    KOLO_FOLD_SHORT_STEP(prod, name, *)                                                            \
    static KOLO_ALWAYS_INLINE bits_vector end_##name(struct accumulator acc,                       \
                                                     const struct fold_finish *finish)             \
    {                                                                                              \
        struct float_pair pair = {(f32_vector)acc.low, (f32_vector)acc.high};                      \
        if (finish->divides) {                                                                     \
            pair.low /= (f32_vector)finish->by;                                                    \
            pair.high /= (f32_vector)finish->by;                                                   \
        }                                                                                          \
        pair.low = canonical_float32(pair.low);                                                    \
        pair.high = canonical_float32(pair.high);                                                  \
        return name##_encode(pair);                                                                \
    }
KOLO_FOLD_SHORT(float16)
KOLO_FOLD_SHORT(bfloat16)

// ---- the loops

static KOLO_ALWAYS_INLINE void vector_store(uint8_t *at, bits_vector x, bool stream)
{
    if (stream)
        vector_stream(at, x);
    else
        memcpy(at, &x, sizeof x);
}

/** Stores to every output. An output that is not aligned where the first one is gets plain
 * stores. */
static KOLO_ALWAYS_INLINE void fold_store(const struct kolo_fold_job *job, size_t i, bits_vector a,
                                          bits_vector b, bits_vector c, bits_vector d)
{
    for (size_t j = 0; j < job->nout; j++) {
        uint8_t *const to = (uint8_t *)job->out[j] + i;
        const bool stream = job->stream && (uintptr_t)to % KOLO_VECTOR_BYTES == 0;
        vector_store(to, a, stream);
        vector_store(to + KOLO_VECTOR_BYTES, b, stream);
        vector_store(to + 2 * KOLO_VECTOR_BYTES, c, stream);
        vector_store(to + 3 * KOLO_VECTOR_BYTES, d, stream);
    }
}

/** Folds the bytes [i, i + bytes), at most a vector. Missing bytes are zeros, which are safe for
 * every operator. */
static KOLO_ALWAYS_INLINE void fold_part(const struct kolo_fold_job *job, size_t i, size_t bytes,
                                         fold_begin begin, fold_step step, fold_end end,
                                         const struct fold_finish *finish)
{
    struct accumulator acc = begin(part_load((const uint8_t *)job->in[0] + i, bytes));
    for (size_t k = 1; k < job->nin; k++)
        acc = step(acc, part_load((const uint8_t *)job->in[k] + i, bytes));
    const bits_vector r = end(acc, finish);
    for (size_t j = 0; j < job->nout; j++)
        part_store((uint8_t *)job->out[j] + i, r, bytes);
}

/** The bytes before the first output is aligned for streamed stores. 0 if no element begins there;
 * then everything is stored plainly. */
static inline size_t fold_head(const struct kolo_fold_job *job, size_t size)
{
    const size_t head = (size_t)(0 - ((uintptr_t)job->out[0] + job->from)) % KOLO_VECTOR_BYTES;
    const size_t bytes = job->to - job->from;
    if (!job->stream || head % size != 0)
        return 0;
    return head < bytes ? head : bytes;
}

static KOLO_ALWAYS_INLINE void fold_blocks(const struct kolo_fold_job *job, size_t size,
                                           fold_begin begin, fold_step step, fold_end end,
                                           const struct fold_finish *finish)
{
    enum { V = KOLO_VECTOR_BYTES };
    const size_t head = fold_head(job, size);
    size_t i = job->from + head;
    if (head > 0)
        fold_part(job, job->from, head, begin, step, end, finish);
    for (; job->to - i >= FOLD_BLOCK; i += FOLD_BLOCK) {
        const uint8_t *at = (const uint8_t *)job->in[0] + i;
        struct accumulator a = begin(vector_load(at)), b = begin(vector_load(at + V));
        struct accumulator c = begin(vector_load(at + 2 * V)), d = begin(vector_load(at + 3 * V));
        for (size_t k = 1; k < job->nin; k++) {
            at = (const uint8_t *)job->in[k] + i;
            a = step(a, vector_load(at));
            b = step(b, vector_load(at + V));
            c = step(c, vector_load(at + 2 * V));
            d = step(d, vector_load(at + 3 * V));
        }
        fold_store(job, i, end(a, finish), end(b, finish), end(c, finish), end(d, finish));
    }
    for (; job->to - i >= V; i += V)
        fold_part(job, i, V, begin, step, end, finish);
    if (i < job->to)
        fold_part(job, i, job->to - i, begin, step, end, finish);
    if (job->stream)
        stream_fence();
}

// ---- the kernels

#define KOLO_FOLD_KERNEL(op, name, size, begin, end)                                               \
    static void fold_##op##_##name(const struct kolo_fold_job *job)                                \
    {                                                                                              \
        const struct fold_finish finish = {.divides = false};                                      \
        fold_blocks(job, size, begin, step_##op##_##name, end, &finish);                           \
    }
#define KOLO_FOLD_AVERAGE_KERNEL(name, size, begin, vector, real)                                  \
    static void fold_sum_##name(const struct kolo_fold_job *job)                                   \
    {                                                                                              \
        const vector by = (vector){0} + (real)job->divisor;                                        \
        const struct fold_finish finish = {job->divisor > 1, (bits_vector)by};                     \
        fold_blocks(job, size, begin, step_sum_##name, end_##name, &finish);                       \
    }
#define KOLO_FOLD_ORDER_KERNELS(name, size)                                                        \
    KOLO_FOLD_KERNEL(min, name, size, begin_plain, end_plain)                                      \
    KOLO_FOLD_KERNEL(max, name, size, begin_plain, end_plain)
#define KOLO_FOLD_INTEGER_KERNELS(name, size)                                                      \
    KOLO_FOLD_ORDER_KERNELS(name, size)                                                            \
    KOLO_FOLD_KERNEL(sum, name, size, begin_plain, end_plain)                                      \
    KOLO_FOLD_KERNEL(prod, name, size, begin_plain, end_plain)                                     \
    KOLO_FOLD_KERNEL(band, name, size, begin_plain, end_plain)                                     \
    KOLO_FOLD_KERNEL(bor, name, size, begin_plain, end_plain)                                      \
    KOLO_FOLD_KERNEL(bxor, name, size, begin_plain, end_plain)                                     \
    KOLO_FOLD_KERNEL(land, name, size, begin_truth_##name, end_plain)                              \
    KOLO_FOLD_KERNEL(lor, name, size, begin_truth_##name, end_plain)                               \
    KOLO_FOLD_KERNEL(lxor, name, size, begin_truth_##name, end_plain)
#define KOLO_FOLD_FLOAT_KERNELS(name, size, begin, vector, real)                                   \
    KOLO_FOLD_AVERAGE_KERNEL(name, size, begin, vector, real)                                      \
    KOLO_FOLD_ORDER_KERNELS(name, size)                                                            \
    KOLO_FOLD_KERNEL(prod, name, size, begin, end_##name)

KOLO_FOLD_INTEGER_KERNELS(int8, 1)
KOLO_FOLD_INTEGER_KERNELS(uint8, 1)
KOLO_FOLD_INTEGER_KERNELS(int16, 2)
KOLO_FOLD_INTEGER_KERNELS(int32, 4)
KOLO_FOLD_INTEGER_KERNELS(int64, 8)
KOLO_UNSIGNED_TYPES(KOLO_FOLD_ORDER_KERNELS)
KOLO_FOLD_FLOAT_KERNELS(float16, 2, begin_float16, f32_vector, float)
KOLO_FOLD_FLOAT_KERNELS(bfloat16, 2, begin_bfloat16, f32_vector, float)
KOLO_FOLD_FLOAT_KERNELS(float32, 4, begin_plain, f32_vector, float)
KOLO_FOLD_FLOAT_KERNELS(float64, 8, begin_plain, f64_vector, double)

/** A copy with streamed stores. */
static void copy_stream(void *out, const void *in, size_t bytes)
{
    enum { V = KOLO_VECTOR_BYTES };
    uint8_t *to = out;
    const uint8_t *from = in;
    const size_t ahead = (size_t)(0 - (uintptr_t)to) % V, head = ahead < bytes ? ahead : bytes;
    size_t i = head;
    memcpy(to, from, head);
    for (; bytes - i >= FOLD_BLOCK; i += FOLD_BLOCK) {
        const bits_vector a = vector_load(from + i), b = vector_load(from + i + V);
        const bits_vector c = vector_load(from + i + 2 * V), d = vector_load(from + i + 3 * V);
        vector_stream(to + i, a);
        vector_stream(to + i + V, b);
        vector_stream(to + i + 2 * V, c);
        vector_stream(to + i + 3 * V, d);
    }
    memcpy(to + i, from + i, bytes - i);
    stream_fence();
}

#endif
