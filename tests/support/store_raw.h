// SPDX-License-Identifier: Apache-2.0
// A store server under a poller, and ranks that send its messages byte by byte: for tests of
// messages that kolo's own client never sends.
#ifndef KOLO_TESTS_STORE_RAW_H
#define KOLO_TESTS_STORE_RAW_H

#include "runtime/store_wire.h"

struct raw_server {
    struct kolo_poller *poller;
    struct kolo_store_server *server;
    int joined, came, left, lost, aborted, notices;
    int last_rank;
    kolo_status why;
    char text[KOLO_STORE_TEXT_MAX];   /* why aborted */
    char notice[KOLO_STORE_TEXT_MAX]; /* the last notice */
};
/** A server for @p size ranks. Its owner knows where rank 7 was started: host7, pid 812. Start
 * timeout 60 s, stall warning 30 s, grace period 500 ms. */
kolo_status raw_server_open(struct raw_server *raw, int size);
void raw_server_close(struct raw_server *raw);
/** Dispatches and expires until nothing is ready. */
void raw_server_pump(struct raw_server *raw);

struct raw_rank {
    struct kolo_stream stream;
    bool is_closed; /* by the server */
    uint8_t type;   /* of the message that raw_rank_next() returned */
    struct kolo_reader body;
    uint32_t scope; /* of FAILED */
    /* of FAILED, LEFT and ANSWER */
    int32_t rank;
    uint32_t id;
    kolo_status status;
    int64_t sum;
    char text[KOLO_STORE_TEXT_MAX];
    const uint8_t *value;
    size_t bytes;
};
kolo_status raw_rank_open(struct raw_server *raw, struct raw_rank *rank);
void raw_rank_close(struct raw_rank *rank);
/** Sends raw bytes; false if the socket does not take them all. */
bool raw_rank_send(struct raw_rank *rank, const void *data, size_t bytes);
/** Reads the next message. False: there is none, or (is_closed) none will come. */
bool raw_rank_next(struct raw_rank *rank);

/* Each of these sends one message. */
void raw_join(struct raw_rank *rank, int number, uint32_t size, uint32_t timeout_ms,
              const char *host, size_t peer_bytes);
void raw_set(struct raw_rank *rank, uint32_t id, const char *key, const void *value, size_t bytes);
void raw_get(struct raw_rank *rank, uint32_t id, bool wait, const char *key);
void raw_add(struct raw_rank *rank, uint32_t id, const char *key, int64_t amount);
void raw_stalled(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                 const char *words);
/** @p members: the ranks that it waits for, one bit each, in a world of at most 7 ranks. */
void raw_stalled_for(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                     const char *words, const uint8_t *members);
/** @p own: what it waits for itself. */
void raw_stalled_own(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                     const char *words, const uint8_t *members, enum kolo_own_wait own);
void raw_resumed(struct raw_rank *rank, uint32_t channel, uint32_t sequence);
/** @p members: one bit per rank, in a world of at most 7 ranks. */
void raw_shrink(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                uint8_t members);
/** Like raw_shrink(), from a rank that cannot reach the ranks @p lost any more. */
void raw_shrink_without(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                        uint8_t members, uint8_t lost);
/** As raw_shrink_without(), of any number of ranks: @p bytes each of members and of lost ones. */
void raw_shrink_many(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                     const uint8_t *members, const uint8_t *lost, size_t bytes);
void raw_finalized(struct raw_rank *rank, uint32_t number, uint8_t members);
void raw_abort(struct raw_rank *rank, uint32_t scope, int32_t why, const char *text);
/** CANCEL or LEAVE: a type and at most one number. */
void raw_plain(struct raw_rank *rank, enum kolo_store_type type, bool has_number, uint32_t number);

#endif
