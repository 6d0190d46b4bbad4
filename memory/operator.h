// SPDX-License-Identifier: Apache-2.0
// Operators of the program's own (kolo_op_create), as the folds and the links use them.
#ifndef KOLO_MEMORY_OPERATOR_H
#define KOLO_MEMORY_OPERATOR_H

#include <stddef.h>

#include "memory/fold.h"

struct kolo_operator {
    /** into[i] = into[i] op from[i], i < count. */
    void (*fold)(void *into, const void *from, size_t count, kolo_dtype dtype, void *context);
    void *context;
};

/** As kolo_fold: out[j][i] = ((in[0][i] op in[1][i]) op in[2][i]) ..., with the same rules of what
 * may overlap. The function gets memory as aligned as KOLO_OPERATOR_ALIGN and the element's size
 * have it, whatever the alignment of the vectors, and never an output to write into. */
void kolo_operator_fold(const struct kolo_operator *op, kolo_dtype dtype, void *const out[],
                        size_t nout, const void *const in[], size_t nin, size_t count,
                        enum kolo_store_how how);
enum { KOLO_OPERATOR_ALIGN = 16 };

#endif
