// SPDX-License-Identifier: Apache-2.0
// tools/letters.c: valid and invalid UTF-8.
#include <criterion/criterion.h>
#include <string.h>

#include "tools/letters.h"

Test(letters, first_has_one_to_four_bytes)
{
    cr_expect_eq(letters_first("a"), 1);
    cr_expect_eq(letters_first("\xc3\xa9"), 2);
    cr_expect_eq(letters_first("\xe2\x82\xac"), 3);
    cr_expect_eq(letters_first("\xf4\x8f\xbf\xbf"), 4);
}

Test(letters, none_begins_in_what_is_no_utf8)
{
    static const char *const none[] = {"\x80",
                                       "\xc0\x80",
                                       "\xc3",
                                       "\xe0\x80\xaf",
                                       "\xed\xa0\x80",
                                       "\xf0\x80\x80\x80",
                                       "\xf4\x90\x80\x80",
                                       "\xff"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_eq(letters_first(none[i]), 0, "number %zu", i);
}

Test(letters, repair_keeps_letters_and_the_length)
{
    char text[] = "a\xc3\xa9\0\xed\xa0\x80z\xe2\x82";
    letters_repair(text, sizeof text - 1);
    cr_expect_str_eq(text, "a\xc3\xa9\?\?\?\?z\?\?");
}
