// SPDX-License-Identifier: Apache-2.0
// The inside of the store's server, shared by its files: store_server.c (connections and what the
// owner calls), store_server_messages.c (what ranks say), store_server_tell.c (what they are told),
// store_server_due.c (what time brings), store_server_shrink.c (who survives).
#ifndef KOLO_RUNTIME_STORE_SERVER_H
#define KOLO_RUNTIME_STORE_SERVER_H

#include "runtime/store_kv.h"
#include "runtime/store_stall.h"
#include "runtime/store_wire.h"
#include "transport/map.h"

enum {
    HANDSHAKE_MS = 10000,    /* to prove the secret */
    REJECTED_MS = 5000,      /* for a rejected rank to read why */
    FILLS_PER_EVENT = 16,    /* then others have their turn */
    OUT_BYTES_MAX = 8 << 20, /* a rank that does not read its answers is not asked for more */
    TELL_EVERY_MS = 1000,    /* whom a start waits for, in the log */
    LISTENERS_MAX = 16
};

enum kolo_member_state {
    MEMBER_ABSENT,
    MEMBER_JOINED,
    MEMBER_LEFT,
    MEMBER_LOST,
    MEMBER_DEAD,
    MEMBER_STATES
};

struct kolo_store_connection {
    struct kolo_watch watch; /* first: the callback gets it */
    struct kolo_store_server *server;
    struct kolo_stream stream;
    struct kolo_kv_owner waits;
    int rank;              /* -1 until JOIN */
    bool is_rejected;      /* it was told why; its messages are ignored */
    kolo_deadline join_by; /* KOLO_NEVER once joined */
    uint32_t events;       /* what the poller watches */
    struct kolo_store_connection *prev, *next;
};

struct kolo_store_member {
    enum kolo_member_state state;
    struct kolo_store_connection *connection; /* NULL unless MEMBER_JOINED */
    int32_t pid;
    char host[KOLO_STORE_HOST_MAX];
    bool has_come; /* it called kolo_init, be it too late to join */
    uint8_t *peer; /* opaque, for the table */
    size_t peer_bytes;
    kolo_deadline verdict_by; /* MEMBER_LOST */
};

struct kolo_shrink;

struct kolo_store_server {
    struct kolo_poller *poller;
    struct kolo_store_server_config config;
    struct kolo_listener *listeners[LISTENERS_MAX];
    size_t listener_count;
    struct kolo_store_connection *connections;
    struct kolo_store_member *members;
    int32_t *leaving; /* who left since the others were told, at most once each */
    int leaving_count;
    int joined_count;
    bool has_world; /* the table went out */
    struct kolo_kv *kv;
    struct kolo_stalls *stalls;
    struct kolo_shrink *shrinks;
    struct kolo_map retired;     /* communicators that some members have finalized */
    struct kolo_message *failed; /* FAILED, kept for ranks that join later */
    bool has_failed;             /* the job, as a whole */
    struct kolo_map failed_comms;
    int64_t first_join_ns;
    kolo_deadline start_by, tell_by; /* of the start: its end; the next word on it in the log */
    kolo_deadline due;               /* no deadline of ours comes before it */
};

/** "rank 5 (host7, pid 812)", or "rank 5" of one that never joined. */
void kolo_server_name(const struct kolo_store_server *server, int rank, char *text,
                      size_t capacity);
/** Expire looks at all deadlines no later than at this one. */
void kolo_server_due_at(struct kolo_store_server *server, kolo_deadline deadline);
void kolo_server_set_state(struct kolo_store_server *server, int rank,
                           enum kolo_member_state state);

/** Tells the poller what the connection waits for now. */
void kolo_server_watch(struct kolo_store_connection *connection);
/** An ANSWER; on failure with this thread's detail. */
void kolo_server_answer(struct kolo_store_connection *connection, uint32_t id, kolo_status status,
                        int64_t sum, const void *value, size_t bytes);
/** For the table of keys. */
void kolo_server_answer_wait(void *context, struct kolo_kv_owner *owner, uint32_t id,
                             const void *value, size_t bytes);
/** Tells the ranks that are there who has left since the last time, in one message: when a thousand
 * leave at once, each hears of them in a few instead of a thousand. Before anything else is said.
 */
void kolo_server_tell_left(struct kolo_store_server *server);
void kolo_server_broadcast(struct kolo_store_server *server, struct kolo_message *message);
/** Fails @p scope, each the first time only, and nothing once the job has failed. */
void kolo_server_fail(struct kolo_store_server *server, int rank, uint32_t scope, kolo_status why,
                      const char *words, bool tell_owner);
/** Tells one connection why it cannot take part (NULL: no memory to say it), and lets it go. */
void kolo_server_reject(struct kolo_store_connection *connection, struct kolo_message *message);
/** It joined wrongly: before the start that fails the job, afterwards only it hears so. */
void kolo_server_reject_join(struct kolo_store_connection *connection, int rank, const char *text);

/** SHRINK. store_server_shrink.c */
kolo_status kolo_server_shrink(struct kolo_store_connection *connection, struct kolo_reader *body);
/** FINALIZED: whoever shrinks that communicator does not wait for this rank. */
kolo_status kolo_server_finalized(struct kolo_store_connection *connection,
                                  struct kolo_reader *body);
/** @p rank does not wait for survivors any more: by the call @p id, or (0) by any. */
void kolo_server_shrink_forget(struct kolo_store_server *server, int rank, uint32_t id);
void kolo_server_shrink_expire(struct kolo_store_server *server);
void kolo_server_shrink_end(struct kolo_store_server *server);

/** Every whole message that has arrived. ERR_LINK: the connection is done with; else why it must
 * be dropped. */
kolo_status kolo_server_handle_all(struct kolo_store_connection *connection);
/** Fires the server's own deadlines but those of connections. */
void kolo_server_expire_own(struct kolo_store_server *server);

#endif
