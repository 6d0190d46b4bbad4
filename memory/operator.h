// SPDX-License-Identifier: Apache-2.0
// Operators that the program defined (kolo_op_create), as folds and links use them.
#ifndef KOLO_MEMORY_OPERATOR_H
#define KOLO_MEMORY_OPERATOR_H

#include <stddef.h>

#include "memory/fold.h"

struct kolo_operator {
    /** into[i] = into[i] op from[i], i < count. */
    void (*fold)(void *into, const void *from, size_t count, kolo_dtype dtype, void *context);
    void *context;
};

/** As kolo_fold: out[j][i] = ((in[0][i] op in[1][i]) op in[2][i]) ..., with the same rules for
 * overlap. The program's function gets memory that is aligned to the largest power of two which
 * divides the element's size, at most KOLO_OPERATOR_ALIGN, whatever the alignment of the vectors.
 * It never gets an output to write to. */
void kolo_operator_fold(const struct kolo_operator *op, kolo_dtype dtype, void *const out[],
                        size_t nout, const void *const in[], size_t nin, size_t count,
                        enum kolo_store_how how);
enum { KOLO_OPERATOR_ALIGN = 16 };

#endif
