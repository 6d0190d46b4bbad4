// SPDX-License-Identifier: Apache-2.0
// transport/forgotten.c: ranges that are added in any order, compared with a table of all numbers.
#include "transport/forgotten.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES = 400, WIDTH = 4 };

static void add(struct kolo_forgotten *forgotten, uint32_t first, uint32_t count)
{
    cr_assert_eq(kolo_forgotten_add(forgotten, first, count), KOLO_OK);
}

Test(forgotten, has_what_was_added_in_any_order_and_nothing_else)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct kolo_forgotten forgotten = {0};
        bool is_in[RANGES + 1] = {false};
        unsigned state = seed;
        for (int i = 0; i < RANGES; i++) {
            const uint32_t at = (uint32_t)rand_r(&state) % RANGES;
            if (!is_in[at])
                add(&forgotten, at * WIDTH, WIDTH);
            is_in[at] = true;
            for (uint32_t number = 0; number <= RANGES * WIDTH; number++)
                cr_assert_eq(kolo_forgotten_has(&forgotten, number), is_in[number / WIDTH],
                             "seed %u, %d added: %u", seed, i + 1, number);
        }
        kolo_forgotten_fini(&forgotten);
        cr_assert(!kolo_forgotten_has(&forgotten, 0));
    }
}

Test(forgotten, ranges_that_touch_become_one)
{
    struct kolo_forgotten forgotten = {0};
    for (uint32_t i = 0; i < 1000; i += 2)
        add(&forgotten, i * WIDTH, WIDTH);
    cr_assert_eq(forgotten.count, 500);
    for (uint32_t i = 1; i < 1000; i += 2)
        add(&forgotten, i * WIDTH, WIDTH);
    cr_assert_eq(forgotten.count, 1);
    cr_assert_eq(forgotten.ranges[0].first, 0);
    cr_assert_eq(forgotten.ranges[0].last, 1000 * WIDTH - 1);
    kolo_forgotten_fini(&forgotten);
}

Test(forgotten, the_first_and_the_last_numbers_do_not_touch)
{
    struct kolo_forgotten forgotten = {0};
    add(&forgotten, UINT32_MAX - 1, 2);
    add(&forgotten, 0, 1);
    add(&forgotten, 7, 0);
    cr_assert_eq(forgotten.count, 2);
    cr_assert(kolo_forgotten_has(&forgotten, 0) && kolo_forgotten_has(&forgotten, UINT32_MAX) &&
              kolo_forgotten_has(&forgotten, UINT32_MAX - 1));
    cr_assert(!kolo_forgotten_has(&forgotten, 1) && !kolo_forgotten_has(&forgotten, 7) &&
              !kolo_forgotten_has(&forgotten, UINT32_MAX - 2));
    kolo_forgotten_fini(&forgotten);
}
