// SPDX-License-Identifier: Apache-2.0
// The 32-bit number that accompanies a message or the last write of a row (rdma_queue.h), in the
// processor's byte order: a mark and the credit that is returned. With checksums it has a check,
// because a wrong mark may end another receive than the one that was written, or one too early, and
// wrong credit may make a link stand still.
//
//   without checks   mark (16 bits) | credit (16)
//   with             mark (16 bits) | check (11) | credit (5)
//
// The check is a CRC whose generator was found by trying all of 11 bits: any 1 to 5 changed bits of
// the 32 are noticed, and of numbers at random all but one in 2048. It is not 0 for a number of
// zeros, so that a number that is missing is noticed too.
#ifndef KOLO_TRANSPORT_RDMA_NUMBER_H
#define KOLO_TRANSPORT_RDMA_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KOLO_RDMA_CREDIT_MAX = UINT16_MAX, /* in one number */
    KOLO_RDMA_CREDIT_CHECKED_MAX = 31  /* in one with a check */
};

/** @p credit must fit. */
uint32_t kolo_rdma_number_pack(uint16_t mark, uint32_t credit, bool has_check);
/** The mark of a number that was packed here. */
uint16_t kolo_rdma_number_mark(uint32_t number);
/** False: the check is wrong. */
bool kolo_rdma_number_unpack(uint32_t number, bool has_check, uint16_t *mark_out,
                             uint32_t *credit_out);

#endif
