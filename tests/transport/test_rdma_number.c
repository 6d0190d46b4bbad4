// SPDX-License-Identifier: Apache-2.0
// The numbers that accompany RDMA's messages: what they carry, and that a check notices up to five
// changed bits, wherever they are.
#include "transport/rdma_number.h"

#include <criterion/criterion.h>

static bool is_right(uint32_t number)
{
    uint16_t mark = 0;
    uint32_t credit = 0;
    return kolo_rdma_number_unpack(number, true, &mark, &credit);
}

Test(rdma_number, carries_every_mark_and_credit)
{
    for (uint32_t mark = 0; mark <= UINT16_MAX; mark++)
        for (uint32_t credit = 0; credit <= KOLO_RDMA_CREDIT_CHECKED_MAX; credit++)
            for (int has_check = 0; has_check < 2; has_check++) {
                const uint32_t number =
                    kolo_rdma_number_pack((uint16_t)mark, credit, has_check != 0);
                uint16_t mark_there = 0;
                uint32_t credit_there = 0;
                cr_assert_eq(kolo_rdma_number_mark(number), mark);
                cr_assert(
                    kolo_rdma_number_unpack(number, has_check != 0, &mark_there, &credit_there) &&
                        mark_there == mark && credit_there == credit,
                    "mark %u, credit %u: %08x", mark, credit, number);
            }
}

Test(rdma_number, is_what_it_was_without_checks)
{
    uint16_t mark = 0;
    uint32_t credit = 0;
    cr_assert_eq(kolo_rdma_number_pack(0xabcd, 0x1234, false), 0xabcd1234);
    cr_assert(kolo_rdma_number_unpack(0xabcd1234, false, &mark, &credit));
    cr_assert(mark == 0xabcd && credit == 0x1234);
}

/** Changes up to @p left more bits, from bit @p from on. */
static void change(uint32_t number, uint32_t changed, int from, int left)
{
    cr_assert(changed == 0 || !is_right(number ^ changed), "%08x with %08x", number, changed);
    for (int bit = from; bit < 32 && left > 0; bit++)
        change(number, changed | UINT32_C(1) << bit, bit + 1, left - 1);
}

Test(rdma_number, up_to_five_changed_bits_are_noticed)
{
    const uint32_t zero = kolo_rdma_number_pack(0, 0, true);
    int least = 32;
    change(zero, 0, 0, 5);
    change(kolo_rdma_number_pack(0xf041, 28, true), 0, 0, 5);
    for (uint32_t mark = 0; mark <= UINT16_MAX; mark += 127)
        for (uint32_t credit = 0; credit <= KOLO_RDMA_CREDIT_CHECKED_MAX; credit++)
            change(kolo_rdma_number_pack((uint16_t)mark, credit, true), 0, 0, 1);
    /* the distance of all right numbers from one */
    for (uint32_t mark = 0; mark <= UINT16_MAX; mark++)
        for (uint32_t credit = 0; credit <= KOLO_RDMA_CREDIT_CHECKED_MAX; credit++) {
            const uint32_t number = kolo_rdma_number_pack((uint16_t)mark, credit, true);
            const int bits = __builtin_popcount(number ^ zero);
            least = bits > 0 && bits < least ? bits : least;
        }
    cr_assert_eq(least, 6);
}

Test(rdma_number, a_missing_number_is_wrong)
{
    cr_assert(!is_right(0) && !is_right(UINT32_MAX));
}
