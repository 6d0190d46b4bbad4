// SPDX-License-Identifier: Apache-2.0
// The internals of the store's server, shared by its files: store_server.c (connections, and the
// functions that its owner calls), store_server_messages.c (messages from ranks),
// store_server_tell.c (messages to ranks), store_server_due.c (deadlines), store_server_shrink.c
// (which ranks survive).
#ifndef KOLO_RUNTIME_STORE_SERVER_H
#define KOLO_RUNTIME_STORE_SERVER_H

#include "runtime/store_kv.h"
#include "runtime/store_stall.h"
#include "runtime/store_wire.h"
#include "transport/map.h"

enum {
    HANDSHAKE_MS = 10000, /* time to prove the secret */
    REJECTED_MS = 5000,   /* time for a rejected rank to read why */
    FILLS_PER_EVENT = 16, /* then other connections have their turn */
    /** While more than this waits to be read by a rank, its questions are not read. */
    OUT_BYTES_MAX = 8 << 20,
    TELL_EVERY_MS = 1000, /* how often the log names the ranks that a start waits for */
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
    struct kolo_watch watch; /* must be first: the callback gets its address */
    struct kolo_store_server *server;
    struct kolo_stream stream;
    struct kolo_kv_owner waits;
    int rank;              /* -1 until JOIN */
    bool is_rejected;      /* it was told the reason; its messages are ignored */
    kolo_deadline join_by; /* KOLO_NEVER once joined */
    bool has_more;         /* messages have come that wait until it has read its answers */
    uint32_t events;       /* the events that the poller watches */
    struct kolo_store_connection *prev, *next;
};

struct kolo_store_member {
    enum kolo_member_state state;
    struct kolo_store_connection *connection; /* NULL unless MEMBER_JOINED */
    int32_t pid;
    char host[KOLO_STORE_HOST_MAX];
    bool has_come;     /* it called kolo_init, even if too late to join */
    uint32_t failures; /* of the server, when its program last asked something */
    uint8_t *peer;     /* opaque bytes for the table of ranks */
    size_t peer_bytes;
    kolo_deadline verdict_by; /* with MEMBER_LOST: until then a verdict may come */
};

struct kolo_shrink;

struct kolo_store_server {
    struct kolo_poller *poller;
    struct kolo_store_server_config config;
    struct kolo_listener *listeners[LISTENERS_MAX];
    size_t listener_count;
    struct kolo_store_connection *connections;
    struct kolo_store_member *members;
    int32_t *leaving; /* ranks that left since the others were told; each at most once */
    int leaving_count;
    int joined_count;
    bool has_world; /* the table was sent */
    struct kolo_kv *kv;
    struct kolo_stalls *stalls;
    struct kolo_shrink *shrinks;
    struct kolo_map retired;     /* communicators that some members have finalized */
    struct kolo_message *failed; /* the message FAILED, kept for ranks that join later */
    bool has_failed;             /* the job as a whole has failed */
    struct kolo_map failed_comms;
    uint32_t failures; /* how many were told to the ranks */
    int64_t first_join_ns;
    /** When the start must be over, and when the log next reports it. */
    kolo_deadline start_by, tell_by;
    kolo_deadline due; /* no deadline of the server is earlier */
};

enum { KOLO_SERVER_NAME_MAX = 128 };
/** Writes "rank 5 (host7, pid 812)", or "rank 5" for a rank that never joined and whose
 * start is not known. Returns @p text. */
const char *kolo_server_name(const struct kolo_store_server *server, int rank,
                             char text[KOLO_SERVER_NAME_MAX]);
/** Makes sure that expire checks all deadlines at @p deadline or earlier. */
void kolo_server_due_at(struct kolo_store_server *server, kolo_deadline deadline);
void kolo_server_set_state(struct kolo_store_server *server, int rank,
                           enum kolo_member_state state);

/** Tells the poller which events the connection waits for now. */
void kolo_server_watch(struct kolo_store_connection *connection);
/** Sends an ANSWER; on failure with this thread's detail. */
void kolo_server_answer(struct kolo_store_connection *connection, uint32_t id, kolo_status status,
                        int64_t sum, const void *value, size_t bytes);
/** The callback of the key-value table. */
void kolo_server_answer_wait(void *context, struct kolo_kv_owner *owner, uint32_t id,
                             const void *value, size_t bytes);
/** Tells the ranks that are connected which ranks have left since the last time, in one message:
 * when a thousand leave at once, each rank gets a few messages instead of a thousand. Must be
 * called before anything else is sent. */
void kolo_server_tell_left(struct kolo_store_server *server);
void kolo_server_broadcast(struct kolo_store_server *server, struct kolo_message *message);
/** Fails @p scope. Each scope can fail only once, and none after the job has failed. */
void kolo_server_fail(struct kolo_store_server *server, int rank, uint32_t scope, kolo_status why,
                      const char *words, bool tell_owner);
/** Tells one connection why it cannot take part (@p message NULL: there was no memory to say it),
 * and closes it. */
void kolo_server_reject(struct kolo_store_connection *connection, struct kolo_message *message);
/** The rank joined wrongly. Before the start is complete this fails the job; afterwards only that
 * rank is told. */
void kolo_server_reject_join(struct kolo_store_connection *connection, int rank, const char *text);

/** Handles SHRINK. In store_server_shrink.c, as those below. */
kolo_status kolo_server_shrink(struct kolo_store_connection *connection, struct kolo_reader *body);
/** Handles FINALIZED: ranks that shrink that communicator do not wait for this rank. */
kolo_status kolo_server_finalized(struct kolo_store_connection *connection,
                                  struct kolo_reader *body);
/** @p rank no longer waits for the result of a shrink: of call @p id, or of any (0). */
void kolo_server_shrink_forget(struct kolo_store_server *server, int rank, uint32_t id);
/** Adds to the views who waits in a shrink, and for whom. */
void kolo_server_shrink_view(const struct kolo_store_server *server, struct kolo_store_view *views);
void kolo_server_shrink_expire(struct kolo_store_server *server);
void kolo_server_shrink_end(struct kolo_store_server *server);

/** Adds to the text of a call's timeout, which @p rank reports, who is not in that call, and which
 * other ranks wait in it for their own devices. In store_server_due.c. */
void kolo_server_say_absent(const struct kolo_store_server *server, int rank, uint32_t scope,
                            char text[KOLO_STORE_TEXT_MAX]);

/** Handles every complete message that has arrived. ERR_LINK: the connection has ended in order;
 * any other failure: why it must be dropped. */
kolo_status kolo_server_handle_all(struct kolo_store_connection *connection);
/** Fires the server's own deadlines, except those of connections. */
void kolo_server_expire_own(struct kolo_store_server *server);

#endif
