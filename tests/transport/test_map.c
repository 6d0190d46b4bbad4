// SPDX-License-Identifier: Apache-2.0
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
