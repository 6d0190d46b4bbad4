// SPDX-License-Identifier: Apache-2.0
// memory/pin.c in a process without a driver; tests/memory/test_cuda_pin.c has one.
#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/log.h"
#include "memory/memory.h"

static void none(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    cr_assert_fail("level %d: %s", (int)level, line);
}

Test(pin, nothing_is_locked_and_nothing_said_where_there_are_no_devices)
{
    struct kolo_pin pin = {.is_held = true};
    void *memory = kolo_aligned(4096, 4096);
    kolo_log_set_level(KOLO_LOG_DEBUG);
    kolo_log_set_sink(none, NULL);
    kolo_pin(NULL, memory, 4096, &pin);
    cr_assert(!pin.ops && !pin.is_held);
    kolo_unpin(&pin, memory);
    kolo_log_set_sink(NULL, NULL);
    kolo_free_memory(memory);
}
