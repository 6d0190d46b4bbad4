// SPDX-License-Identifier: Apache-2.0
// Packs and unpacks the numbers that accompany RDMA's messages (rdma_number.h).
#include "transport/rdma_number.h"

enum {
    MARK_SHIFT = 16,
    CHECK_SHIFT = 5,
    CHECK_BITS = 11,
    DATA_BITS = 21,
    GENERATOR = 0xa65, /* x^11 + x^9 + x^6 + x^5 + x^2 + 1 */
    CHECK_OF_ZERO = 0x2b5
};

/** Of the mark and the credit, bit by bit: a table would save less than it costs in the cache. */
static uint32_t check_of(uint16_t mark, uint32_t credit)
{
    uint32_t rest = (uint32_t)mark << CHECK_SHIFT | credit;
    rest <<= CHECK_BITS;
    for (int bit = DATA_BITS - 1; bit >= 0; bit--)
        rest ^= (rest >> (bit + CHECK_BITS) & 1) * ((uint32_t)GENERATOR << bit);
    return rest ^ CHECK_OF_ZERO;
}

uint32_t kolo_rdma_number_pack(uint16_t mark, uint32_t credit, bool has_check)
{
    const uint32_t check = has_check ? check_of(mark, credit) << CHECK_SHIFT : 0;
    return (uint32_t)mark << MARK_SHIFT | check | credit;
}

uint16_t kolo_rdma_number_mark(uint32_t number)
{
    return (uint16_t)(number >> MARK_SHIFT);
}

bool kolo_rdma_number_unpack(uint32_t number, bool has_check, uint16_t *mark_out,
                             uint32_t *credit_out)
{
    const uint32_t most = has_check ? KOLO_RDMA_CREDIT_CHECKED_MAX : KOLO_RDMA_CREDIT_MAX;
    const uint16_t mark = kolo_rdma_number_mark(number);
    const uint32_t credit = number & most;
    if (has_check && number != kolo_rdma_number_pack(mark, credit, true))
        return false;
    *mark_out = mark;
    *credit_out = credit;
    return true;
}
