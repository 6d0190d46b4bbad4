// SPDX-License-Identifier: Apache-2.0
/** Element types and reduction operators. */
#ifndef KOLO_TYPES_H
#define KOLO_TYPES_H

#include <stddef.h>

#include <kolo/status.h>

KOLO_BEGIN_DECLS

/** Element types: X(name, bytes, text). The values (0, 1, ...) are part of the ABI and of the wire
 *  format. */
#define KOLO_DTYPE_MAP(X)                                                                          \
    X(INT8, 1, "int8")                                                                             \
    X(INT16, 2, "int16")                                                                           \
    X(INT32, 4, "int32")                                                                           \
    X(INT64, 8, "int64")                                                                           \
    X(UINT8, 1, "uint8")                                                                           \
    X(FLOAT16, 2, "float16")                                                                       \
    X(BFLOAT16, 2, "bfloat16")                                                                     \
    X(FLOAT32, 4, "float32")                                                                       \
    X(FLOAT64, 8, "float64")                                                                       \
    X(UINT16, 2, "uint16")                                                                         \
    X(UINT32, 4, "uint32")                                                                         \
    X(UINT64, 8, "uint64")

typedef enum kolo_dtype {
#define KOLO_DTYPE_ENUM(name, bytes, text) KOLO_##name,
    KOLO_DTYPE_MAP(KOLO_DTYPE_ENUM)
#undef KOLO_DTYPE_ENUM
        KOLO_DTYPES, /* how many there are */
    KOLO_DTYPE_LAST = 0x11000
} kolo_dtype;

/** A user-defined element type of @p bytes bytes, 1 to KOLO_OPAQUE_BYTES_MAX, such as
 *  KOLO_OPAQUE(sizeof(struct best)). Every call takes it; reductions need a user-defined operator
 *  (kolo_op_create). No element is ever split. */
#ifdef __cplusplus
#define KOLO_OPAQUE(bytes) (static_cast<kolo_dtype>(KOLO_DTYPE_OPAQUE + (bytes)))
#else
#define KOLO_OPAQUE(bytes) ((kolo_dtype)(KOLO_DTYPE_OPAQUE + (bytes)))
#endif
enum { KOLO_OPAQUE_BYTES_MAX = 4096, KOLO_DTYPE_OPAQUE = KOLO_DTYPE_LAST - KOLO_OPAQUE_BYTES_MAX };

/** Reduction operators: X(name, text).
 *
 *  sum and prod of integers wrap around. For min and max of floats, NaN wins over every number, and
 *  -0 is less than +0. A float operation whose result is NaN gives the positive quiet NaN without
 *  payload (0x7fc00000 in float32), whatever NaNs went in, so that results do not depend on the
 *  processor or on the order of two operands. (A single rank has no operation: its data stays as it
 *  is, also for average.) float16 and bfloat16 are accumulated in float32, in the order of ranks,
 *  and rounded to nearest even once, at the end. (They are rounded at every step only if KOLO_PLAN
 *  forces a plan that combines pairs, or if there are more than 4096 ranks on several hosts. With
 *  KOLO_NESTED_BYTES, an allreduce that is long enough also rounds the sum of each host.)
 *
 *  average is the sum divided by the number of ranks, once, at the end: integers are truncated
 *  toward zero; floats are divided in float64 for float64 and in float32 for all others, then
 *  rounded to nearest even to their type. The sum of integers may wrap before it is divided.
 *
 *  band, bor and bxor combine the bits of integers. land, lor and lxor combine integers as logical
 *  values: every value but 0 is true, and the result is 1 or 0, also in a world of one rank. These
 *  six are KOLO_ERR_INVALID for floats. */
#define KOLO_REDOP_MAP(X)                                                                          \
    X(SUM, "sum")                                                                                  \
    X(MIN, "min")                                                                                  \
    X(MAX, "max")                                                                                  \
    X(PROD, "prod")                                                                                \
    X(AVERAGE, "average")                                                                          \
    X(BAND, "band")                                                                                \
    X(BOR, "bor")                                                                                  \
    X(BXOR, "bxor")                                                                                \
    X(LAND, "land")                                                                                \
    X(LOR, "lor")                                                                                  \
    X(LXOR, "lxor")

typedef enum kolo_redop {
#define KOLO_REDOP_ENUM(name, text) KOLO_##name,
    KOLO_REDOP_MAP(KOLO_REDOP_ENUM)
#undef KOLO_REDOP_ENUM
        KOLO_REDOPS, /* how many there are */
    KOLO_REDOP_LAST = 2023
} kolo_redop;

/** Values from here on are user-defined operators (kolo_op_create). */
enum { KOLO_REDOP_OWN = 1000 };

/** The size of one element in bytes; 0 for a value that is not a type. Threads: any. */
KOLO_API size_t kolo_dtype_bytes(kolo_dtype dtype);
/** The name of a type, such as "float32" or "opaque"; "?" for a value that is not a type.
 *  Threads: any. */
KOLO_API const char *kolo_dtype_text(kolo_dtype dtype);
/** The name of an operator, such as "sum"; "own" for a user-defined one; "?" for a value that is
 *  not an operator. Threads: any. */
KOLO_API const char *kolo_redop_text(kolo_redop op);

KOLO_END_DECLS
#endif
