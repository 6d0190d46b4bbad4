// SPDX-License-Identifier: Apache-2.0
// Sizes and names of element types and operators, from the maps of <kolo/types.h>.
#include <kolo/types.h>

#include <stdbool.h>

struct dtype_row {
    size_t bytes;
    const char *text;
};

static const struct dtype_row dtype_rows[KOLO_DTYPES] = {
#define ROW(name, bytes, text) [KOLO_##name] = {bytes, text},
    KOLO_DTYPE_MAP(ROW)
#undef ROW
};

static const char *const redop_texts[KOLO_REDOPS] = {
#define ROW(name, text) [KOLO_##name] = text,
    KOLO_REDOP_MAP(ROW)
#undef ROW
};

static bool is_opaque(kolo_dtype dtype)
{
    return (unsigned)dtype > KOLO_DTYPE_OPAQUE && (unsigned)dtype <= KOLO_DTYPE_LAST;
}

/* A caller may pass any integer as the enumeration, so unsigned values are compared. */
size_t kolo_dtype_bytes(kolo_dtype dtype)
{
    if ((unsigned)dtype < KOLO_DTYPES)
        return dtype_rows[dtype].bytes;
    return is_opaque(dtype) ? (size_t)dtype - KOLO_DTYPE_OPAQUE : 0;
}

const char *kolo_dtype_text(kolo_dtype dtype)
{
    if ((unsigned)dtype < KOLO_DTYPES)
        return dtype_rows[dtype].text;
    return is_opaque(dtype) ? "opaque" : "?";
}

const char *kolo_redop_text(kolo_redop op)
{
    if ((unsigned)op < KOLO_REDOPS)
        return redop_texts[op];
    return (unsigned)op >= KOLO_REDOP_OWN && (unsigned)op <= KOLO_REDOP_LAST ? "own" : "?";
}
