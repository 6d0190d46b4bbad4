// SPDX-License-Identifier: Apache-2.0
// The vector types of the kernels, which are KOLO_VECTOR_BYTES wide. Casts between them keep the
// bits.
#ifndef KOLO_MEMORY_REDUCE_VECTORS_H
#define KOLO_MEMORY_REDUCE_VECTORS_H

#include <stdint.h>

#define KOLO_ALWAYS_INLINE inline __attribute__((always_inline))
#define KOLO_VECTOR __attribute__((vector_size(KOLO_VECTOR_BYTES)))

typedef int8_t i8_vector KOLO_VECTOR;
typedef uint8_t u8_vector KOLO_VECTOR;
typedef int16_t i16_vector KOLO_VECTOR;
typedef uint16_t u16_vector KOLO_VECTOR;
typedef int32_t i32_vector KOLO_VECTOR;
typedef uint32_t u32_vector KOLO_VECTOR;
typedef int64_t i64_vector KOLO_VECTOR;
typedef uint64_t u64_vector KOLO_VECTOR;
typedef float f32_vector KOLO_VECTOR;
typedef double f64_vector KOLO_VECTOR;

/** A vector whose element type is not determined yet. */
typedef uint64_t bits_vector KOLO_VECTOR;

/** The elements of a vector of 16-bit floats, as float32. The decoder decides which element is
 * where; its encoder must agree. */
struct float_pair {
    f32_vector low, high;
};

#endif
