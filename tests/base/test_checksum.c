// SPDX-License-Identifier: Apache-2.0
// XXH3: the values of xxHash's own library, which ranks of different builds must agree on, that all
// variants for this processor have them, and that pieces do not matter but every bit does.
#include "base/checksum_variant.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { LONGEST = 100000 };
static uint8_t bytes[LONGEST];

static void fill_bytes(void)
{
    for (size_t i = 0; i < LONGEST; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
}

/** The variant, unless this processor cannot run it. */
static const struct kolo_checksum_variant *usable(int index)
{
    const struct kolo_checksum_variant *variant = kolo_checksum_variants[index];
    return variant->usable() ? variant : NULL;
}

TestSuite(checksum, .init = fill_bytes, .timeout = 60);

Test(checksum, has_the_values_of_the_library)
{
    static const struct {
        size_t length;
        uint64_t sum;
    } known[] = {
        {0, 0x2d06800538d394c2},      {1, 0xc44bdff4074eecdb},    {3, 0xc3489259e968ad9e},
        {4, 0xd3d60c1519014e89},      {8, 0xb88dee77f6bf6980},    {9, 0x03688dcad730d826},
        {16, 0x9da23836adf2be1e},     {17, 0xf34c3c9cf5a112d1},   {128, 0x65f3c2c00fa93185},
        {129, 0x28065c6ec25f5b25},    {240, 0x4917a75c0ef8eed7},  {241, 0x541b19226f0052e8},
        {256, 0xf2331523b74cf0a4},    {1024, 0xba464919c6bb3ccd}, {1025, 0x2aa0034e7827ee42},
        {LONGEST, 0x4e16d63e05fac6ed}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_assert_eq(kolo_checksum_of(bytes, known[i].length), known[i].sum, "%zu bytes",
                     known[i].length);
    cr_assert_eq(kolo_checksum_of("abc", 3), 0x78af5f94892f3950);
    cr_assert_eq(kolo_checksum_of(NULL, 0), known[0].sum);
    for (int v = 0; kolo_checksum_variants[v]; v++)
        for (size_t i = 0; usable(v) && i < sizeof known / sizeof known[0]; i++)
            cr_assert_eq(usable(v)->of(bytes, known[i].length), known[i].sum, "%s, %zu bytes",
                         usable(v)->name, known[i].length);
}

Test(checksum, uses_the_best_variant)
{
    const struct kolo_checksum_variant *first = NULL, *last = NULL;
    for (int v = 0; kolo_checksum_variants[v]; v++) {
        last = usable(v);
        first = first ? first : last;
    }
    cr_assert(last != NULL, "every processor can run the last variant");
    cr_assert_str_eq(last->name, "c");
    cr_assert(kolo_checksum_best() == first);
    cr_assert(kolo_checksum_best() == first, "again");
}

/** By pieces of sizes that @p seed draws, most of them short, and some of none. */
static uint64_t sum_by_pieces(const struct kolo_checksum_variant *variant, const uint8_t *data,
                              size_t length, unsigned seed)
{
    struct kolo_checksum checksum;
    variant->begin(&checksum);
    for (size_t at = 0; at < length;) {
        seed = seed * 1103515245 + 12345;
        size_t step = (seed >> 16) % (seed >> 30 == 0 ? 5000u : 300u);
        step = step < length - at ? step : length - at;
        variant->add(&checksum, data + at, step);
        at += step;
    }
    return variant->end(&checksum);
}

/** Compares every variant with the last one. Nothing is allocated behind the bytes, so that
 * AddressSanitizer sees it if a variant reads there. */
static void compare(size_t length, size_t offset)
{
    uint8_t *memory = NULL;
    int last = 0;
    cr_assert(posix_memalign((void **)&memory, 64, offset + length + (offset + length == 0)) == 0);
    uint8_t *data = memory + offset;
    memcpy(data, bytes, length);
    while (kolo_checksum_variants[last + 1])
        last++;
    const uint64_t sum = kolo_checksum_variants[last]->of(data, length);
    for (int v = 0; kolo_checksum_variants[v]; v++) {
        const struct kolo_checksum_variant *variant = usable(v);
        const unsigned seed = (unsigned)(length * 64 + offset);
        if (!variant)
            continue;
        cr_assert_eq(variant->of(data, length), sum, "%s, %zu bytes at %zu", variant->name, length,
                     offset);
        cr_assert_eq(sum_by_pieces(variant, data, length, seed), sum,
                     "%s, %zu bytes at %zu by pieces", variant->name, length, offset);
    }
    free(memory);
}

Test(checksum, all_variants_agree)
{
    for (size_t length = 0; length < 2200; length++)
        for (size_t offset = 0; offset < 64; offset += 1 + length % 13)
            compare(length, offset);
    for (size_t length = 2200; length < LONGEST; length += 1 + length / 7)
        for (size_t offset = 0; offset < 64; offset++)
            compare(length, offset);
}

Test(checksum, does_not_depend_on_the_pieces)
{
    static const size_t lengths[] = {0, 1, 16, 240, 241, 255, 256, 257, 5000, LONGEST};
    static const size_t steps[] = {1, 7, 64, 255, 256, 257, 4096};
    struct kolo_checksum checksum;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
            kolo_checksum_begin(&checksum);
            for (size_t at = 0; at < lengths[i]; at += steps[j]) {
                const size_t left = lengths[i] - at;
                kolo_checksum_add(&checksum, bytes + at, left < steps[j] ? left : steps[j]);
                kolo_checksum_add(&checksum, NULL, 0);
            }
            cr_assert_eq(kolo_checksum_end(&checksum), kolo_checksum_of(bytes, lengths[i]),
                         "%zu bytes by %zu", lengths[i], steps[j]);
            cr_assert_eq(kolo_checksum_end(&checksum), kolo_checksum_of(bytes, lengths[i]),
                         "again");
        }
}

Test(checksum, notices_each_bit)
{
    static const size_t lengths[] = {1, 3, 8, 16, 17, 100, 129, 240, 241, 1030};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const uint64_t sum = kolo_checksum_of(bytes, lengths[i]);
        for (size_t bit = 0; bit < 8 * lengths[i]; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            cr_assert_neq(kolo_checksum_of(bytes, lengths[i]), sum, "bit %zu of %zu bytes", bit,
                          lengths[i]);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

Test(checksum, notices_what_a_sum_does_not)
{
    const uint64_t sum = kolo_checksum_of(bytes, 4096);
    uint8_t other[4096];
    memcpy(other, bytes, sizeof other);
    memcpy(other + 8, bytes + 16, 8); /* two words in each other's place */
    memcpy(other + 16, bytes + 8, 8);
    cr_assert_neq(kolo_checksum_of(other, sizeof other), sum);
    memcpy(other, bytes, sizeof other);
    other[0] = (uint8_t)(other[0] + 2), other[2] = (uint8_t)(other[2] - 2);
    cr_assert_neq(kolo_checksum_of(other, sizeof other), sum);
    memset(other, 0, sizeof other);
    cr_assert_neq(kolo_checksum_of(other, 100), kolo_checksum_of(other, 101));
}
