// SPDX-License-Identifier: Apache-2.0
// Folds with an operator of the program. The function works on a piece of memory of the library,
// which holds the first operand; the other operands are passed to it one after the other. So an
// output may be any of the inputs, and need not be aligned. Must never let the function write to
// memory of another rank.
#include "memory/operator.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum { PIECE_BYTES = KOLO_OPAQUE_BYTES_MAX };

/** The piece that the function works on, and an aligned copy of an operand. */
struct piece {
    alignas(64) uint8_t into[PIECE_BYTES];
    alignas(64) uint8_t from[PIECE_BYTES];
};

/** The largest power of two that divides the size, at most KOLO_OPERATOR_ALIGN. */
static size_t alignment_of(size_t element_bytes)
{
    size_t power = element_bytes & (~element_bytes + 1);
    return power < KOLO_OPERATOR_ALIGN ? power : KOLO_OPERATOR_ALIGN;
}

void kolo_operator_fold(const struct kolo_operator *op, kolo_dtype dtype, void *const out[],
                        size_t nout, const void *const in[], size_t nin, size_t count,
                        enum kolo_store_how how)
{
    const size_t size = kolo_dtype_bytes(dtype), most = PIECE_BYTES / size;
    const size_t align = alignment_of(size);
    struct piece piece;
    for (size_t done = 0, elements; done < count; done += elements) {
        elements = count - done < most ? count - done : most;
        const size_t at = done * size, bytes = elements * size;
        memcpy(piece.into, (const uint8_t *)in[0] + at, bytes);
        for (size_t k = 1; k < nin; k++) {
            const uint8_t *from = (const uint8_t *)in[k] + at;
            if ((uintptr_t)from % align != 0)
                from = memcpy(piece.from, from, bytes);
            op->fold(piece.into, from, elements, dtype, op->context);
        }
        for (size_t j = 0; j < nout; j++)
            kolo_copy((uint8_t *)out[j] + at, piece.into, bytes, how);
    }
}
