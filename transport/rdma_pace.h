// SPDX-License-Identifier: Apache-2.0
// How fast each rail of a link is, and on which the next piece of a long message gets through
// first. Pure: who posts says what and when, and when it was told to be over. So a slow rail gets
// less, and none stands still while another has all.
#ifndef KOLO_TRANSPORT_RDMA_PACE_H
#define KOLO_TRANSPORT_RDMA_PACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    KOLO_RDMA_PIECE_BYTES = 256 << 10, /* of a message that is striped */
    /* on a rail at most: more would bind what another has room for first */
    KOLO_RDMA_PIECES_OUT = 4
};

struct kolo_rdma_pace {
    uint64_t out_bytes; /* posted, and not over */
    /* of the time that is not counted yet: the first of these was posted, or one before was over */
    int64_t since;
    uint64_t bytes, ns; /* that were over, and what they took, older ones with less weight */
};

void kolo_rdma_pace_posted(struct kolo_rdma_pace *pace, size_t bytes, int64_t now);
void kolo_rdma_pace_over(struct kolo_rdma_pace *pace, size_t bytes, int64_t now);
/** The number of the one of @p paces (NULL: not to be used) for the next @p bytes of @p left bytes
 * that are to be posted: where they are over first. -1: it is better to wait, for that one has
 * enough, and another would be the last of all to end. */
int kolo_rdma_pace_choose(struct kolo_rdma_pace *const *paces, int count, size_t bytes,
                          size_t left);

#endif
