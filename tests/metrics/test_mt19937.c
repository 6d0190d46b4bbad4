// SPDX-License-Identifier: Apache-2.0
// metrics/mt19937.c against the published numbers.
#include <criterion/criterion.h>

#include "metrics/mt19937.h"

/* The outputs that the C++ standard requires of mt19937, and the first ones of the reference code
 * for its default seed. */
Test(mt19937, gives_the_published_numbers)
{
    struct kolo_mt19937 mt;
    kolo_mt19937_seed(&mt, 5489);
    cr_assert_eq(kolo_mt19937_next(&mt), 3499211612u);
    cr_assert_eq(kolo_mt19937_next(&mt), 581869302u);
    for (int i = 2; i < 9999; i++)
        (void)kolo_mt19937_next(&mt);
    cr_assert_eq(kolo_mt19937_next(&mt), 4123659995u, "the 10000th output");
}
