// SPDX-License-Identifier: Apache-2.0
// FNV-1a: the published values. They are compared between ranks and saved, so they must not change.
#include "base/hash.h"

#include <criterion/criterion.h>
#include <string.h>

Test(hash, has_the_published_values)
{
    static const struct {
        const char *text;
        uint64_t hash;
        uint32_t hash32;
    } known[] = {{"", 0xcbf29ce484222325, 0x811c9dc5},
                 {"a", 0xaf63dc4c8601ec8c, 0xe40c292c},
                 {"foobar", 0x85944171f73967e8, 0xbf9cf968}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *text = known[i].text;
        cr_assert_eq(kolo_hash(KOLO_HASH_START, text, strlen(text)), known[i].hash, "'%s'", text);
        cr_assert_eq(kolo_hash_text(KOLO_HASH_START, text), known[i].hash, "'%s'", text);
        cr_assert_eq(kolo_hash32(KOLO_HASH32_START, text, strlen(text)), known[i].hash32, "'%s'",
                     text);
    }
}

Test(hash, continues)
{
    const uint64_t foo = kolo_hash_text(KOLO_HASH_START, "foo");
    cr_assert_eq(kolo_hash_text(foo, "bar"), kolo_hash_text(KOLO_HASH_START, "foobar"));
    cr_assert_eq(kolo_hash(foo, NULL, 0), foo);
    const uint32_t foo32 = kolo_hash32(KOLO_HASH32_START, "foo", 3);
    cr_assert_eq(kolo_hash32(foo32, "bar", 3), UINT32_C(0xbf9cf968));
    cr_assert_eq(kolo_hash32(foo32, NULL, 0), foo32);
}

Test(hash, bytes_are_not_negative)
{
    const unsigned char byte = 0xFF;
    cr_assert_eq(kolo_hash(KOLO_HASH_START, &byte, 1), kolo_hash_word(KOLO_HASH_START, 0xFF));
    cr_assert_eq(kolo_hash_text(KOLO_HASH_START, "\xFF"), kolo_hash_word(KOLO_HASH_START, 0xFF));
}

Test(hash, a_word_is_one_step)
{
    const uint64_t prime = UINT64_C(1099511628211);
    cr_assert_eq(kolo_hash_word(3, 5), (UINT64_C(3) ^ 5) * prime);
}
