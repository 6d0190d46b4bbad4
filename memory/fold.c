// SPDX-License-Identifier: Apache-2.0
// Runs folds with the kernels of the best instruction set (memory/fold_kernels.h), in pieces that
// suit them. Must never compute an element itself, nor allocate.
#include "memory/fold.h"

#include <stdint.h>
#include <string.h>

#include "base/float_mode.h"
#include "memory/operator.h"
#include "memory/reduce.h"
#include "memory/reduce_variant.h"

/** Bytes of each input and output at a time, if a piece is read twice, so that it stays in the
 * nearest cache. */
enum { PIECE_BYTES = 4096 };

static size_t piece_end(size_t from, size_t to)
{
    return to - from > PIECE_BYTES ? from + PIECE_BYTES : to;
}

/** Copies the bytes [from, to) of @p source, which are in the cache, to all outputs from number @p
 * first on. */
static void spread(const struct kolo_reduce_variant *variant, const struct kolo_fold_job *job,
                   const void *source, size_t first)
{
    const uint8_t *from = (const uint8_t *)source + job->from;
    for (size_t j = first; j < job->nout; j++) {
        uint8_t *to = (uint8_t *)job->out[j] + job->from;
        if (to == from)
            continue;
        if (job->stream)
            variant->copy_stream(to, from, job->to - job->from);
        else
            memcpy(to, from, job->to - job->from);
    }
}

/** The fold of one input is that input, bit for bit; not for logical operators. All outputs are
 * copied from the input, because what was streamed to the first output would have to be read from
 * memory again. */
static void fold_one(const struct kolo_reduce_variant *variant, const struct kolo_fold_job *job)
{
    struct kolo_fold_job piece = *job;
    for (; piece.from < job->to; piece.from = piece.to) {
        piece.to = piece_end(piece.from, job->to);
        spread(variant, &piece, job->in[0], 0);
    }
}

/** Integers are not divided in registers: each piece of sums is stored to the first output, divided
 * there, and copied to the others. */
static void fold_integer_average(const struct kolo_reduce_variant *variant,
                                 const struct kolo_fold *fold, const struct kolo_fold_job *job)
{
    const size_t size = kolo_dtype_bytes(fold->dtype);
    struct kolo_fold_job sums = *job, piece = *job;
    sums.nout = 1;
    sums.stream = false;
    for (; piece.from < job->to; piece.from = piece.to) {
        piece.to = piece_end(piece.from, job->to);
        sums.from = piece.from;
        sums.to = piece.to;
        variant->fold[fold->dtype][KOLO_SUM](&sums);
        variant->divide[fold->dtype]((uint8_t *)job->out[0] + piece.from,
                                     (piece.to - piece.from) / size, job->divisor);
        spread(variant, &piece, job->out[0], 1);
    }
}

static bool is_float(kolo_dtype dtype)
{
    return dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16 || dtype == KOLO_FLOAT32 ||
           dtype == KOLO_FLOAT64;
}

/** Logical operators: their result is 1 or 0, even for a single input. */
static bool is_logical(kolo_redop op)
{
    return op == KOLO_LAND || op == KOLO_LOR || op == KOLO_LXOR;
}

static void fold_by(const struct kolo_reduce_variant *variant, const struct kolo_fold *fold,
                    const struct kolo_fold_job *job)
{
    if (job->nin == 1 && job->divisor <= 1 && !is_logical(fold->op))
        fold_one(variant, job);
    else if (job->divisor > 1 && !is_float(fold->dtype))
        fold_integer_average(variant, fold, job);
    else
        variant->fold[fold->dtype][fold->op](job);
}

static void fold_of(const struct kolo_reduce_variant *variant, const struct kolo_fold *fold,
                    void *const out[], size_t nout, const void *const in[], size_t nin,
                    size_t count, enum kolo_store_how how)
{
    const struct kolo_fold_job job = {.out = out,
                                      .in = in,
                                      .nout = nout,
                                      .nin = nin,
                                      .to = count * kolo_dtype_bytes(fold->dtype),
                                      .divisor = fold->op == KOLO_AVERAGE ? fold->divisor : 0,
                                      .stream = how == KOLO_STORE_STREAM};
    fold_by(variant, fold, &job);
}

void kolo_fold(const struct kolo_fold *fold, void *const out[], size_t nout, const void *const in[],
               size_t nin, size_t count, enum kolo_store_how how)
{
    const uint64_t mode = kolo_float_mode_begin();
    if (fold->own)
        kolo_operator_fold(fold->own, fold->dtype, out, nout, in, nin, count, how);
    else
        fold_of(kolo_reduce_best(), fold, out, nout, in, nin, count, how);
    kolo_float_mode_end(mode);
}

bool kolo_fold_of(const char *variant, const struct kolo_fold *fold, void *const out[], size_t nout,
                  const void *const in[], size_t nin, size_t count, enum kolo_store_how how)
{
    const struct kolo_reduce_variant *found = kolo_reduce_variant_named(variant);
    if (found)
        fold_of(found, fold, out, nout, in, nin, count, how);
    return found != NULL;
}

void kolo_copy(void *out, const void *in, size_t bytes, enum kolo_store_how how)
{
    if (how == KOLO_STORE_STREAM)
        kolo_reduce_best()->copy_stream(out, in, bytes);
    else
        memcpy(out, in, bytes);
}

bool kolo_copy_of(const char *variant, void *out, const void *in, size_t bytes)
{
    const struct kolo_reduce_variant *found = kolo_reduce_variant_named(variant);
    if (found)
        found->copy_stream(out, in, bytes);
    return found != NULL;
}
