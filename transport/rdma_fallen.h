// SPDX-License-Identifier: Apache-2.0
// What a rank does about pairs whose RDMA failed at the start and that go on by TCP. It warns once
// for each cause, with the number of pairs and one of them as an example, and it avoids running
// into the same failure with every peer of a large job. Pure: it knows no devices and no links.
#ifndef KOLO_TRANSPORT_RDMA_FALLEN_H
#define KOLO_TRANSPORT_RDMA_FALLEN_H

#include "transport/rdma_handshake.h"

enum {
    KOLO_RDMA_CAUSES = 4,         /* how many are counted at a time */
    KOLO_RDMA_FALLEN_IN_A_ROW = 4 /* after this many failures RDMA is not tried any more */
};

struct kolo_rdma_fallen {
    struct kolo_rdma_cause {
        char text[KOLO_RDMA_REASON_BYTES];
        char host[64]; /* of the example */
        int peer;      /* of the example */
        int count, told;
    } causes[KOLO_RDMA_CAUSES];
    int cause_count;
    int in_a_row; /* tries that failed since the last success */
};

/** This side could not reach @p peer by RDMA, for the reason @p text. If there are too many causes
 *  at a time, warns of older ones. */
void kolo_rdma_fallen_note(struct kolo_rdma_fallen *fallen, int peer, const char *host,
                           const char *text);
/** Warns of what was noted since the last time, in a line for each cause. */
void kolo_rdma_fallen_tell(struct kolo_rdma_fallen *fallen);

/** A try failed that cost time or memory, on either side. */
void kolo_rdma_fallen_failed(struct kolo_rdma_fallen *fallen);
void kolo_rdma_fallen_succeeded(struct kolo_rdma_fallen *fallen);
bool kolo_rdma_fallen_gives_up(const struct kolo_rdma_fallen *fallen);
/** How long the next first message may take: half of what the previous try had, so that all tries
 *  in a row take at most a second in total. */
int64_t kolo_rdma_fallen_patience_ns(const struct kolo_rdma_fallen *fallen);

#endif
