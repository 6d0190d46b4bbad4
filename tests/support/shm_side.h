// SPDX-License-Identifier: Apache-2.0
// One rank of a world of two over shm, driven step by step: both in one thread, or one in each of
// two processes that exchange struct kolo_peer over a socket pair.
#ifndef KOLO_TESTS_SHM_SIDE_H
#define KOLO_TESTS_SHM_SIDE_H

#include "transport/shm.h"
#include "transport/transport.h"

struct shm_side {
    struct kolo_settings settings;
    struct kolo_secret secret;
    struct kolo_heap *heap;
    struct kolo_endpoint *endpoint;
    struct kolo_peer peers[2];
    struct kolo_link *link;
    int rank;
    int downs, lefts;     /* events so far */
    kolo_status down_why; /* of the last down event */
    char down_text[KOLO_DETAIL_MAX];
};

/** Initialises side @p rank with default settings, which may then be changed; shm_side_open() opens
 * its endpoint. False: the detail says why. */
void shm_side_init(struct shm_side *side, int rank);
bool shm_side_open(struct shm_side *side);
/** Connects to the other side: creates the link. */
bool shm_side_meet(struct shm_side *side, const struct kolo_peer *other);
void shm_side_close(struct shm_side *side);

/** Opens and connects both sides in this thread. Without @p both_dial only side 0 dials. */
bool shm_pair_open(struct shm_side sides[2], bool both_dial);
void shm_pair_close(struct shm_side sides[2]);

/** Drives @p sides (one or two) until *@p flag is not KOLO_AGAIN; false after 10 s. */
bool shm_drive(struct shm_side *sides, int count, const kolo_status *flag);
/** Drives the sides until the links of all are up (or down). */
bool shm_drive_up(struct shm_side *sides, int count);
/** Drives the sides for @p rounds rounds. */
void shm_drive_rounds(struct shm_side *sides, int count, int rounds);

void shm_send(struct shm_side *side, uint32_t channel, const void *src, size_t bytes,
              struct kolo_work *work);
void shm_recv(struct shm_side *side, uint32_t channel, void *dst, size_t bytes,
              struct kolo_work *work);

/** Opens a pair and brings both links up, or fails the test. A side that is zero gets default
 * settings. */
void shm_pair_up(struct shm_side sides[2], bool both_dial);
/** Sends @p bytes bytes from side @p from to the other and compares them; fails the test if they
 * differ. */
void shm_transfer(struct shm_side sides[2], int from, uint8_t *src, uint8_t *dst, size_t bytes);

int shm_count_fds(void);
/** The number of mappings of memfds in this process. */
int shm_count_maps(void);

#endif
