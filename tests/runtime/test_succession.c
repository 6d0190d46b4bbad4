// SPDX-License-Identifier: Apache-2.0
// Which broadcast is expected after which: one that followed it twice in a row, and nothing else.
#include <criterion/criterion.h>

#include "runtime/succession.h"

enum { NONE = KOLO_SUCCESSION_NONE };

/** Begins calls from @p roots; returns what is expected after the last one. */
static int after(const int roots[], int count)
{
    struct kolo_succession succession = {.running = NONE};
    for (int i = 0; i < count; i++)
        kolo_succession_begin(&succession, roots[i]);
    return kolo_succession_next(&succession);
}

#define AFTER(...)                                                                                 \
    after((const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

Test(succession, what_was_so_twice_is_expected)
{
    cr_assert_eq(AFTER(0, 1, 2, 0, 1, 2, 0), 1);
    cr_assert_eq(AFTER(0, 1, 2, 0, 1, 2, 0, 1), 2);
    cr_assert_eq(AFTER(3, 3, 3), 3);
    cr_assert_eq(AFTER(63, 62, 63, 62, 63), 62);
}

Test(succession, what_was_so_once_is_not)
{
    cr_assert_eq(AFTER(1), NONE);
    cr_assert_eq(AFTER(1, 2), NONE);
    cr_assert_eq(AFTER(1, 2, 1), NONE);
    cr_assert_eq(AFTER(0, 1, 2, 0), NONE);
}

Test(succession, what_was_otherwise_is_learnt_anew)
{
    cr_assert_eq(AFTER(0, 1, 0, 1, 0, 2, 0), NONE, "0 was followed by 1, 1 and 2");
    cr_assert_eq(AFTER(0, 1, 0, 1, 0, 2, 0, 2, 0), 2);
    cr_assert_eq(AFTER(0, 1, 0, 2, 0, 1, 0, 2, 0), NONE, "by 1 and 2 in turn");
}

Test(succession, another_collective_ends_a_row)
{
    cr_assert_eq(AFTER(0, 1, 0, 1, NONE), NONE);
    cr_assert_eq(AFTER(0, NONE, 0, NONE, 0), NONE, "nobody is expected where another follows");
    cr_assert_eq(AFTER(0, 1, 0, 1, NONE, 0), 1, "what is known of 0 holds");
    cr_assert_eq(AFTER(0, 1, 0, 1, 0, NONE, 0), NONE, "and not any more");
}
