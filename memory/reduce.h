// SPDX-License-Identifier: Apache-2.0
// CPU reduction kernels: a table by type and operator, chosen once by what the processor supports
// (AVX-512, AVX2, NEON, plain C). All variants give the same bits. KOLO_AVERAGE combines as a sum;
// kolo_divide completes it.
#ifndef KOLO_MEMORY_REDUCE_H
#define KOLO_MEMORY_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include <kolo/types.h>

/** out[i] = a[i] op b[i] for i < count. out may equal a or b exactly; otherwise they must not
 * overlap. No alignment is assumed. Commutative in every bit: op(a, b) and op(b, a) are equal, also
 * for NaNs. */
typedef void (*kolo_reduce_fn)(void *out, const void *a, const void *b, size_t count);

/** The kernel for a type and an operator. NULL: one of them does not exist, or the type does not
 * have the operator (floats have no bitwise and logical ones). Thread-safe. */
kolo_reduce_fn kolo_reduce_function(kolo_dtype dtype, kolo_redop op);

/** data[i] /= divisor (> 0), as <kolo/types.h> says for average. No alignment is assumed. */
typedef void (*kolo_divide_fn)(void *data, size_t count, size_t divisor);
void kolo_divide(void *data, size_t count, kolo_dtype dtype, size_t divisor);

/** out[i] = in[i] * factor, computed in float64 for float64 and in float32 (with the factor as a
 * float32) for the other floats, and rounded to nearest even. out equals in exactly or does not
 * overlap it. For floats only. */
typedef void (*kolo_scale_fn)(void *out, const void *in, size_t count, double factor);
void kolo_scale(void *out, const void *in, size_t count, kolo_dtype dtype, double factor);
/** Whether @p dtype is one of the floats. */
bool kolo_dtype_is_float(kolo_dtype dtype);

/** For tests and `kolorun info`: the variants that this processor can run, "avx512", "avx2",
 * "neon", "c", best first; NULL beyond the last. */
const char *kolo_reduce_variant(int index);
/** The kernel of a named variant; NULL if this processor or build does not have it. */
kolo_reduce_fn kolo_reduce_function_of(const char *variant, kolo_dtype dtype, kolo_redop op);
kolo_divide_fn kolo_divide_function_of(const char *variant, kolo_dtype dtype);
kolo_scale_fn kolo_scale_function_of(const char *variant, kolo_dtype dtype);

/** Conversions of single 16-bit floats: round to nearest even; NaN becomes the quiet NaN without
 * payload when it is narrowed. */
float kolo_float16_to_float(unsigned short half);
unsigned short kolo_float16_from_float(float value);
float kolo_bfloat16_to_float(unsigned short brain);
unsigned short kolo_bfloat16_from_float(float value);

#endif
