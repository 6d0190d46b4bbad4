// SPDX-License-Identifier: Apache-2.0
// Folding: combines many inputs from left to right into one result, and stores that to many places
// in the same pass, so that each element is read and written as few times as possible.
#ifndef KOLO_MEMORY_FOLD_H
#define KOLO_MEMORY_FOLD_H

#include <stdbool.h>
#include <stddef.h>

#include <kolo/types.h>

/** How a result is stored. */
enum kolo_store_how {
    KOLO_STORE_CACHED, /* the result will be read soon, by this core or another */
    KOLO_STORE_STREAM  /* non-temporal: the result exceeds the caches and is not read soon */
};

struct kolo_operator;

/** What a fold computes: ((in[0] op in[1]) op in[2]) ..., then finished. Operands are always
 * combined in this order, so the bits of the result depend on nothing else. float16 and bfloat16
 * are accumulated in float32 and rounded once, at the end; an average is divided before that. So a
 * fold must get all inputs at once: a fold of folds would round more often. The fold of one input
 * is that input, bit for bit, or 1 or 0 if the operator is logical. Other results are as
 * <kolo/types.h> says. */
struct kolo_fold {
    kolo_dtype dtype;
    kolo_redop op;  /* one that the type has: kolo_reduce_function() is not NULL */
    size_t divisor; /* of KOLO_AVERAGE; 0 or 1: none */
    /** Used instead of op if not NULL; accepts any type (memory/operator.h). */
    const struct kolo_operator *own;
};

/** out[j][i] = the fold of in[0][i] ... in[nin - 1][i], for i < count and j < nout. nin and nout
 * are at least 1. Inputs may be any memory, also the same memory twice. Each out[j] either equals
 * some in[k] exactly or overlaps none; it may equal several. No alignment is assumed. Streamed
 * stores are visible to other processors on return. */
void kolo_fold(const struct kolo_fold *fold, void *const out[], size_t nout, const void *const in[],
               size_t nin, size_t count, enum kolo_store_how how);

/** As memcpy, but stores as @p how says. Streamed stores are visible to other processors on
 * return. */
void kolo_copy(void *out, const void *in, size_t bytes, enum kolo_store_how how);

/** For tests: as kolo_fold, and a streamed kolo_copy, with the kernels of a named variant
 * (kolo_reduce_variant). False: this processor or build does not have it. */
bool kolo_fold_of(const char *variant, const struct kolo_fold *fold, void *const out[], size_t nout,
                  const void *const in[], size_t nin, size_t count, enum kolo_store_how how);
bool kolo_copy_of(const char *variant, void *out, const void *in, size_t bytes);

#endif
