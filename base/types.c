// SPDX-License-Identifier: Apache-2.0
// Sizes and names of element types and operators, from the maps of <kolo/types.h>.
#include <kolo/types.h>

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

/* A caller may pass any integer as the enumeration, so the test is made on the unsigned value. */
size_t kolo_dtype_bytes(kolo_dtype dtype)
{
    return (unsigned)dtype < KOLO_DTYPES ? dtype_rows[dtype].bytes : 0;
}

const char *kolo_dtype_text(kolo_dtype dtype)
{
    return (unsigned)dtype < KOLO_DTYPES ? dtype_rows[dtype].text : "?";
}

const char *kolo_redop_text(kolo_redop op)
{
    return (unsigned)op < KOLO_REDOPS ? redop_texts[op] : "?";
}
