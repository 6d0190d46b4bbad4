// SPDX-License-Identifier: Apache-2.0
// A rank as the store's client sees it, for tests that run several in threads of one process.
#ifndef KOLO_TESTS_STORE_RANK_H
#define KOLO_TESTS_STORE_RANK_H

#include "runtime/store.h"

struct store_rank {
    int rank, size;
    struct kolo_poller *poller;
    struct kolo_store_client *client;
    const struct kolo_peer *peers;
    kolo_status joined;
    char why[1024]; /* of joined */
    kolo_status failed;
    int failed_rank;
    uint32_t failed_scope;
    char text[KOLO_STORE_TEXT_MAX]; /* of failed */
    int left, lost;
    void *context; /* the test's */
};
/** Joins by @p fd, or by @p places with fd -1; rank->joined and rank->why say how it went. */
kolo_status store_rank_join(struct store_rank *rank, int number, int size, int fd,
                            const struct kolo_place *places, size_t count,
                            const struct kolo_secret *secret, int timeout_ms);
/** Dispatches until the call has ended, or @p timeout_ms. */
kolo_status store_rank_wait(struct store_rank *rank, struct kolo_store_call *call, int timeout_ms);
/** Until failed, lost or @p left ranks have left; false: @p timeout_ms came first. */
bool store_rank_hear(struct store_rank *rank, int left, int timeout_ms);
/** Goodbye. */
void store_rank_close(struct store_rank *rank);

/** Runs @p body for @p count ranks in threads of their own and waits for all. */
void store_ranks_run(struct store_rank *ranks, int count, void (*body)(struct store_rank *rank),
                     void *context);

#endif
