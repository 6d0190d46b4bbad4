// SPDX-License-Identifier: Apache-2.0
// memory/operator.c: folds by the program's own functions against a loop over single elements, for
// elements of any size, at any alignment, and with outputs that are inputs.
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memory/operator.h"

enum { NIN_MAX = 5, NOUT = 2, ROOM = 40000 };

struct seen {
    size_t element_bytes;
    bool is_misaligned, is_other_type;
};

/** Not commutative, and different for the bytes of an element: 3 a + b + the position of the
 * byte. */
static uint8_t combine(uint8_t a, uint8_t b, size_t place)
{
    return (uint8_t)(3u * a + b + place);
}

static void fold(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    struct seen *seen = context;
    size_t size = kolo_dtype_bytes(dtype), align = size & (~size + 1);
    uint8_t *a = into;
    const uint8_t *b = from;
    align = align < 16 ? align : 16;
    seen->is_other_type |= size != seen->element_bytes;
    seen->is_misaligned |= (uintptr_t)into % align != 0 || (uintptr_t)from % align != 0;
    for (size_t i = 0; i < count * size; i++)
        a[i] = combine(a[i], b[i], i % size);
}

static uint8_t memory[NIN_MAX + NOUT][ROOM], before[NIN_MAX + NOUT][ROOM];

static void check(size_t size, size_t count, size_t nin, size_t shift, bool in_place)
{
    struct seen seen = {.element_bytes = size};
    const struct kolo_operator op = {fold, &seen};
    const void *in[NIN_MAX];
    void *out[NOUT];
    for (size_t k = 0; k < NIN_MAX + NOUT; k++)
        for (size_t i = 0; i < ROOM; i++)
            memory[k][i] = (uint8_t)rand();
    memcpy(before, memory, sizeof memory);
    for (size_t k = 0; k < nin; k++)
        in[k] = memory[k] + shift * k;
    for (size_t j = 0; j < NOUT; j++)
        out[j] = memory[NIN_MAX + j] + shift;
    if (in_place)
        out[1] = memory[nin - 1] + shift * (nin - 1);
    kolo_operator_fold(&op, KOLO_OPAQUE(size), out, NOUT, in, nin, count, KOLO_STORE_CACHED);
    cr_assert(!seen.is_other_type && !seen.is_misaligned, "size %zu shift %zu", size, shift);
    for (size_t i = 0; i < count * size; i++) {
        uint8_t want = before[0][i];
        for (size_t k = 1; k < nin; k++)
            want = combine(want, before[k][shift * k + i], i % size);
        for (size_t j = 0; j < NOUT; j++)
            cr_assert(((uint8_t *)out[j])[i] == want, "size %zu count %zu nin %zu, byte %zu", size,
                      count, nin, i);
    }
    for (size_t j = 0; j < NOUT; j++) /* nothing is written beyond the end */
        cr_assert(memcmp(memory[NIN_MAX + j] + shift + count * size,
                         before[NIN_MAX + j] + shift + count * size,
                         ROOM - shift - count * size) == 0);
}

Test(operator, every_size_and_place)
{
    static const size_t sizes[] = {1, 2, 3, 8, 12, 16, 24, 100, 4095, KOLO_OPAQUE_BYTES_MAX};
    srand(5);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t nin = 1; nin <= NIN_MAX; nin += 2)
            for (size_t shift = 0; shift < 4; shift++) {
                check(sizes[s], 1, nin, shift, shift % 2 == 0);
                check(sizes[s], 30000 / sizes[s], nin, shift, shift % 2 == 1);
            }
}

Test(operator, no_elements)
{
    check(24, 0, 3, 1, false);
}

/** A fold calls it, whatever operator and type it has. */
Test(operator, as_a_fold)
{
    struct seen seen = {.element_bytes = 4};
    const struct kolo_operator op = {fold, &seen};
    const struct kolo_fold through = {.dtype = KOLO_FLOAT32, .op = KOLO_BAND, .own = &op};
    uint32_t a = 0x01020304, b = 0x10203040, result = 0;
    const void *in[2] = {&a, &b};
    void *out = &result;
    kolo_fold(&through, &out, 1, in, 2, 1, KOLO_STORE_CACHED);
    fold(&a, &b, 1, KOLO_FLOAT32, &seen);
    cr_assert(result == a);
}
