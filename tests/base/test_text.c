// SPDX-License-Identifier: Apache-2.0
// No control character is left of a text, whatever its bytes are, and everything else is.
#include "base/text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(text, no_control_character_is_left)
{
    char text[] = "\x1b[31ma\tb\x7f\xc2\x9b"
                  "2J\xc3\xa9\xe2\x82\xac\xc2\xa0\xc2";
    kolo_text_clean(text);
    cr_expect_str_eq(text, "?[31ma?b???"
                           "2J\xc3\xa9\xe2\x82\xac\xc2\xa0\xc2");
    char nothing[] = "";
    kolo_text_clean(nothing);
    cr_expect_str_eq(nothing, "");
}

Test(text, zeros_are_replaced_where_bytes_are_counted)
{
    char text[] = "a\0b\n\0\xc2\x80";
    kolo_text_clean_bytes(text, sizeof text - 1);
    cr_expect_str_eq(text, "a?b\?\?\?\?");
    kolo_text_clean_bytes(text, 0);
    cr_expect_str_eq(text, "a?b\?\?\?\?");
}

Test(text, each_byte_is_judged)
{
    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {(char)byte, '\0'};
        const bool is = byte < 32 || byte == 127;
        cr_assert_eq(kolo_text_is_control(text[0]), is, "%d", byte);
        cr_assert_eq(kolo_text_control(text), (size_t)is, "%d", byte);
    }
    for (int byte = 0x80; byte < 0xc0; byte++) {
        const char text[] = {(char)0xc2, (char)byte, '\0'};
        cr_assert_eq(kolo_text_control(text), byte < 0xa0 ? 2 : 0, "%d", byte);
    }
}

/** Nothing is read or written beyond the text, which a sanitizer sees. */
Test(text, random_bytes_are_cleaned_in_place)
{
    srandom(1);
    for (int round = 0; round < 1000; round++) {
        const size_t bytes = (size_t)random() % 20;
        char *text = calloc(bytes + 1, 1);
        for (size_t i = 0; i < bytes; i++)
            text[i] = (char)(random() % 4 == 0 ? 0xc2 : random());
        kolo_text_clean_bytes(text, bytes);
        cr_assert_eq(strlen(text), bytes);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(kolo_text_control(text + i), (size_t)0);
        free(text);
    }
}
