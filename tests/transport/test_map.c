// SPDX-License-Identifier: Apache-2.0
// transport/map.c: a table of numbers, of which some are removed.
#include "transport/map.h"

#include <criterion/criterion.h>

Test(map, finds_what_was_put_and_nothing_else)
{
    static uint32_t values[3000];
    struct kolo_map map = {0};
    uint32_t cursor = 0, seen = 0;
    cr_assert_null(kolo_map_get(&map, 0));
    for (uint32_t i = 0; i < 3000; i++)
        cr_assert_eq(kolo_map_put(&map, i * 65536 + i % 7, &values[i]), KOLO_OK);
    for (uint32_t i = 0; i < 3000; i++)
        cr_assert_eq(kolo_map_get(&map, i * 65536 + i % 7), &values[i]);
    cr_assert_null(kolo_map_get(&map, 7));
    for (uint32_t *value; (value = kolo_map_next(&map, &cursor)) != NULL; seen++)
        ++*value;
    cr_assert_eq(seen, 3000);
    for (uint32_t i = 0; i < 3000; i++)
        cr_assert_eq(values[i], 1);
    kolo_map_fini(&map);
    cr_assert_null(kolo_map_get(&map, 0));
}

/** Without room to spare a table that counted each put would also grow. */
Test(map, a_key_that_is_there_gets_another_value)
{
    static uint32_t values[100];
    struct kolo_map map = {0};
    uint32_t cursor = 0, seen = 0;
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq(kolo_map_put(&map, i, &values[0]), KOLO_OK);
    const uint32_t slots = map.slot_count;
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(kolo_map_put(&map, 3, &values[i]), KOLO_OK);
        cr_assert_eq(kolo_map_get(&map, 3), &values[i]);
        cr_assert_eq(map.count, 4);
    }
    cr_assert_eq(map.slot_count, slots);
    while (kolo_map_next(&map, &cursor))
        seen++;
    cr_assert_eq(seen, 4);
    kolo_map_remove(&map, 3);
    cr_assert_eq(map.count, 3);
    cr_assert_null(kolo_map_get(&map, 3));
    kolo_map_fini(&map);
}

/* Keys whose slots collide, inserted and removed at random, against a plain table. */
Test(map, removing_hides_nothing)
{
    enum { KEYS = 64, STEPS = 20000 };
    static uint32_t values[KEYS];
    bool is_there[KEYS] = {false};
    struct kolo_map map = {0};
    uint32_t noise = 1, count = 0;
    kolo_map_remove(&map, 5);
    for (int step = 0; step < STEPS; step++) {
        noise = noise * 1664525u + 1013904223u;
        uint32_t key = noise >> 26;
        if (is_there[key]) {
            kolo_map_remove(&map, key);
            count--;
        } else {
            cr_assert_eq(kolo_map_put(&map, key, &values[key]), KOLO_OK);
            count++;
        }
        is_there[key] = !is_there[key];
        cr_assert_eq(map.count, count);
        for (uint32_t at = 0; at < KEYS; at++)
            cr_assert_eq(kolo_map_get(&map, at), is_there[at] ? &values[at] : NULL, "key %u", at);
    }
    kolo_map_fini(&map);
}
