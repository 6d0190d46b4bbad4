// SPDX-License-Identifier: Apache-2.0
// Element types and operators. Their values are ABI and wire format.
#include <kolo/types.h>

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    kolo_dtype dtype;
    int value;
    size_t bytes;
    const char *text;
} dtypes[] = {
    {KOLO_INT8, 0, 1, "int8"},         {KOLO_INT16, 1, 2, "int16"},
    {KOLO_INT32, 2, 4, "int32"},       {KOLO_INT64, 3, 8, "int64"},
    {KOLO_UINT8, 4, 1, "uint8"},       {KOLO_FLOAT16, 5, 2, "float16"},
    {KOLO_BFLOAT16, 6, 2, "bfloat16"}, {KOLO_FLOAT32, 7, 4, "float32"},
    {KOLO_FLOAT64, 8, 8, "float64"},   {KOLO_UINT16, 9, 2, "uint16"},
    {KOLO_UINT32, 10, 4, "uint32"},    {KOLO_UINT64, 11, 8, "uint64"},
};

static const struct {
    kolo_redop op;
    int value;
    const char *text;
} redops[] = {
    {KOLO_SUM, 0, "sum"},   {KOLO_MIN, 1, "min"},         {KOLO_MAX, 2, "max"},
    {KOLO_PROD, 3, "prod"}, {KOLO_AVERAGE, 4, "average"}, {KOLO_BAND, 5, "band"},
    {KOLO_BOR, 6, "bor"},   {KOLO_BXOR, 7, "bxor"},       {KOLO_LAND, 8, "land"},
    {KOLO_LOR, 9, "lor"},   {KOLO_LXOR, 10, "lxor"},
};

Test(types, element_types_are_pinned)
{
    cr_assert(sizeof dtypes / sizeof *dtypes == KOLO_DTYPES, "a type was added: pin it here");
    for (size_t i = 0; i < KOLO_DTYPES; i++) {
        cr_assert((int)dtypes[i].dtype == dtypes[i].value, "%s", dtypes[i].text);
        cr_assert(kolo_dtype_bytes(dtypes[i].dtype) == dtypes[i].bytes, "%s", dtypes[i].text);
        cr_assert(strcmp(kolo_dtype_text(dtypes[i].dtype), dtypes[i].text) == 0, "%s",
                  dtypes[i].text);
    }
}

Test(types, operators_are_pinned)
{
    cr_assert(sizeof redops / sizeof *redops == KOLO_REDOPS, "an operator was added: pin it here");
    for (size_t i = 0; i < KOLO_REDOPS; i++) {
        cr_assert((int)redops[i].op == redops[i].value, "%s", redops[i].text);
        cr_assert(strcmp(kolo_redop_text(redops[i].op), redops[i].text) == 0, "%s", redops[i].text);
    }
}

Test(types, values_that_are_none)
{
    static const int none[] = {-1, KOLO_DTYPES, KOLO_DTYPES + 1, 1 << 30};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cr_assert(kolo_dtype_bytes((kolo_dtype)none[i]) == 0, "%d", none[i]);
        cr_assert(strcmp(kolo_dtype_text((kolo_dtype)none[i]), "?") == 0, "%d", none[i]);
    }
    static const int no_operators[] = {-1, KOLO_REDOPS, KOLO_REDOPS + 1, 1 << 30};
    for (size_t i = 0; i < sizeof no_operators / sizeof *no_operators; i++)
        cr_assert(strcmp(kolo_redop_text((kolo_redop)no_operators[i]), "?") == 0, "%d",
                  no_operators[i]);
}
