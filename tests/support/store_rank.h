// SPDX-License-Identifier: Apache-2.0
// A rank as the store's client sees it, for tests that run several as threads of one process.
#ifndef KOLO_TESTS_STORE_RANK_H
#define KOLO_TESTS_STORE_RANK_H

#include "runtime/store.h"

struct store_rank {
    int rank, size;
    struct kolo_poller *poller;
    struct kolo_store_client *client;
    const struct kolo_peer *peers;
    kolo_status joined;
    char why[1024]; /* the detail of `joined` */
    kolo_status failed;
    int failed_rank;
    uint32_t failed_scope;
    char text[KOLO_STORE_TEXT_MAX]; /* the text of `failed` */
    int left, lost;
    void *context; /* belongs to the test */
};
/** Joins over @p fd, or at @p places if fd is -1. rank->joined and rank->why have the outcome. */
kolo_status store_rank_join(struct store_rank *rank, int number, int size, int fd,
                            const struct kolo_place *places, size_t count,
                            const struct kolo_secret *secret, int timeout_ms);
/** Dispatches until the call has ended or @p timeout_ms have passed. */
kolo_status store_rank_wait(struct store_rank *rank, struct kolo_store_call *call, int timeout_ms);
/** Dispatches until a failure or the loss of the store is reported, or @p left ranks have left.
 * False: @p timeout_ms passed first. */
bool store_rank_hear(struct store_rank *rank, int left, int timeout_ms);
/** Leaves the store with a goodbye and closes. */
void store_rank_close(struct store_rank *rank);

/** Runs @p body for @p count ranks, each in a thread of its own, and waits for all. */
void store_ranks_run(struct store_rank *ranks, int count, void (*body)(struct store_rank *rank),
                     void *context);

#endif
