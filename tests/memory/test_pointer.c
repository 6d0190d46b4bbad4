// SPDX-License-Identifier: Apache-2.0
// memory/pointer.c in a process without a device's driver; tests/memory/test_cuda.c has one.
#include <criterion/criterion.h>
#include <string.h>

#include "memory/memory.h"

Test(pointer, all_is_the_hosts_where_nothing_else_can_be)
{
    struct kolo_pointer pointer;
    char from[] = "eleven here", copy[sizeof from] = "";
    cr_assert_not(kolo_pointer_may_be_foreign());
    cr_assert_eq(kolo_pointer_look(from, &pointer), KOLO_OK);
    cr_assert(kolo_pointer_is_host(&pointer));
    cr_assert(pointer.kind == KOLO_MEMORY_HOST && pointer.memory == from && pointer.device == -1 &&
              !pointer.ops);
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof from, copy), KOLO_OK);
    cr_assert_str_eq(copy, from);
    cr_assert_eq(kolo_pointer_fetch(&pointer, 0, NULL), KOLO_OK);
    cr_assert_eq(kolo_pointer_look(NULL, &pointer), KOLO_OK);
    cr_assert(kolo_pointer_is_host(&pointer));
}
