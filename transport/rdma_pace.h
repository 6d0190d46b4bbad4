// SPDX-License-Identifier: Apache-2.0
// Estimates how fast each rail of a link is, and chooses the rail that will deliver the next piece
// of a long message first. A slow rail therefore gets less, and no rail is idle while another has
// all the work. Pure: whoever posts tells it what was posted and when, and when it completed.
#ifndef KOLO_TRANSPORT_RDMA_PACE_H
#define KOLO_TRANSPORT_RDMA_PACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    KOLO_RDMA_PIECE_BYTES = 256 << 10, /* of a message that is striped */
    /* at most on one rail: more would commit pieces that another rail has room for earlier */
    KOLO_RDMA_PIECES_OUT = 4
};

struct kolo_rdma_pace {
    uint64_t out_bytes; /* posted and not completed */
    /* the start of the time that is not counted yet: when the first of these was posted, or the
     * last one completed */
    int64_t since;
    uint64_t bytes, ns; /* completed bytes and the time they took; older ones count less */
};

void kolo_rdma_pace_posted(struct kolo_rdma_pace *pace, size_t bytes, int64_t now);
void kolo_rdma_pace_over(struct kolo_rdma_pace *pace, size_t bytes, int64_t now);
/** The index of the one of @p paces (NULL: must not be used) that will complete the next @p bytes
 *  of the @p left bytes still to be posted first. -1: it is better to wait, since that rail is busy
 *  and every other one would finish last of all. */
int kolo_rdma_pace_choose(struct kolo_rdma_pace *const *paces, int count, size_t bytes,
                          size_t left);

#endif
