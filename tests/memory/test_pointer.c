// SPDX-License-Identifier: Apache-2.0
// memory/pointer.c in a process without a driver; tests/memory/test_cuda.c has one.
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
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof from, copy, KOLO_NEVER), KOLO_OK);
    cr_assert_str_eq(copy, from);
    cr_assert_eq(kolo_pointer_fetch(&pointer, 0, NULL, KOLO_NEVER), KOLO_OK);
    cr_assert_eq(kolo_pointer_look(NULL, &pointer), KOLO_OK);
    cr_assert(kolo_pointer_is_host(&pointer));
}

/** If there is a device, its memory is recognised. */
Test(pointer, memory_of_a_device_that_is_not_there_is_refused)
{
    struct kolo_pointer pointer = {.device = 77}, found;
    const kolo_status status = kolo_device_alloc(-1, NULL, 64, &pointer);
    if (status == KOLO_OK) {
        cr_assert_eq(kolo_pointer_look(pointer.memory, &found), KOLO_OK);
        cr_assert(found.kind == KOLO_MEMORY_DEVICE && found.device == pointer.device);
        cr_assert_eq(kolo_device_free(&pointer, KOLO_NEVER, NULL), KOLO_OK);
        kolo_device_release(&pointer);
        return;
    }
    cr_assert_eq(status, KOLO_ERR_UNSUPPORTED, "%s", kolo_error_detail());
    cr_assert(pointer.device == 77 && kolo_error_detail()[0] != '\0');
}
