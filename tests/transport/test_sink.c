// SPDX-License-Identifier: Apache-2.0
// transport/sink.c: where the bytes of a frame go: copied, reduced or dropped.
#include <criterion/criterion.h>
#include <string.h>

#include "base/float_mode.h"
#include "memory/reduce.h"
#include "transport/core.h"

/* An operator whose result depends on the order of its operands. */
static void subtract(void *out, const void *a, const void *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t left, right;
        memcpy(&left, (const uint8_t *)a + 2 * i, 2);
        memcpy(&right, (const uint8_t *)b + 2 * i, 2);
        left = (uint16_t)(left - right);
        memcpy((uint8_t *)out + 2 * i, &left, 2);
    }
}

static struct kolo_sink reducing(uint16_t *dst, const uint16_t *local, size_t bytes, bool first)
{
    return (struct kolo_sink){.dst = (uint8_t *)dst,
                              .local = (const uint8_t *)local,
                              .left = bytes,
                              .reduce = subtract,
                              .element_bytes = 2,
                              .incoming_first = first};
}

Test(sink, the_order_of_the_operands_is_kept)
{
    uint16_t local[2] = {100, 200}, incoming[2] = {1, 2}, dst[2];
    struct kolo_sink sink = reducing(dst, local, sizeof dst, false);
    cr_assert_eq(kolo_sink_put(&sink, incoming, sizeof incoming), 4);
    cr_assert(dst[0] == 99 && dst[1] == 198);
    sink = reducing(dst, local, sizeof dst, true);
    cr_assert_eq(kolo_sink_put(&sink, incoming, sizeof incoming), 4);
    cr_assert(dst[0] == (uint16_t)-99 && dst[1] == (uint16_t)-198);
}

/** The rank's program may have changed the processor's mode. */
Test(sink, reduces_in_the_mode_of_all_ranks)
{
    const float subnormal = 0x1p-140f;
    float local = subnormal, incoming = subnormal, dst = 0;
    struct kolo_sink sink = {.dst = (uint8_t *)&dst,
                             .local = (const uint8_t *)&local,
                             .left = sizeof dst,
                             .reduce = kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM),
                             .element_bytes = sizeof dst};
    kolo_float_mode_set(KOLO_FLOAT_ODD);
    const uint64_t mode = kolo_float_mode_get() & KOLO_FLOAT_MODE_MASK;
    cr_assert_eq(kolo_sink_put(&sink, &incoming, sizeof incoming), sizeof incoming);
    cr_assert_eq(kolo_float_mode_get() & KOLO_FLOAT_MODE_MASK, mode, "the program's mode stays");
    kolo_float_mode_set(KOLO_FLOAT_MODE);
    cr_assert(dst == 2 * subnormal, "%a", (double)dst);
}

Test(sink, takes_whole_elements_only_when_it_reduces)
{
    uint16_t local[3] = {10, 20, 30}, incoming[3] = {1, 2, 3}, dst[3] = {0};
    struct kolo_sink sink = reducing(dst, local, sizeof dst, false);
    cr_assert_eq(kolo_sink_put(&sink, incoming, 1), 0);
    cr_assert_eq(kolo_sink_put(&sink, incoming, 3), 2);
    cr_assert_eq(kolo_sink_put(&sink, incoming + 1, 4), 4);
    cr_assert(dst[0] == 9 && dst[1] == 18 && dst[2] == 27);
    cr_assert_eq(sink.left, 0);
}

Test(sink, never_takes_more_than_the_frame)
{
    uint8_t memory[4] = {0, 0, 0, 7}, data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    size_t room = 0;
    struct kolo_sink sink;
    kolo_sink_to_memory(&sink, memory, 3);
    cr_assert_eq(kolo_sink_put(&sink, data, 1), 1);
    cr_assert_eq(kolo_sink_room(&sink, &room), memory + 1);
    cr_assert_eq(room, 2);
    memory[1] = 2;
    kolo_sink_stored(&sink, 1);
    cr_assert_eq(kolo_sink_put(&sink, data + 2, 6), 1);
    cr_assert(memory[2] == 3 && memory[3] == 7 && sink.left == 0);
    cr_assert_eq(kolo_sink_put(&sink, data, 8), 0);
    cr_assert_null(kolo_sink_room(&sink, &room));
}

Test(sink, drops_what_nobody_wants)
{
    uint8_t memory[4] = {9, 9, 9, 9}, data[4] = {1, 2, 3, 4};
    size_t room = 0;
    struct kolo_sink sink;
    kolo_sink_to_memory(&sink, memory, 4);
    cr_assert_eq(kolo_sink_put(&sink, data, 1), 1);
    kolo_sink_drop(&sink);
    cr_assert_null(kolo_sink_room(&sink, &room));
    cr_assert_eq(kolo_sink_put(&sink, data, 4), 3);
    cr_assert(memory[0] == 1 && memory[1] == 9 && sink.left == 0);
}
