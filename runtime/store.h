// SPDX-License-Identifier: Apache-2.0
// The store: where the ranks of a job meet. There is one server per job (in kolorun, or in a thread
// of rank 0 if there is no launcher) and one client per rank, connected by an authenticated
// connection that stays open. Over it go
//
//   - the table of ranks
//   - the key-value store
//   - the news that a rank died or failed
//   - reports of stalled calls, which the server compares: two ranks that wait in different calls
//     get an error at once, whatever their plans send to whom
//
// Messages are [u32 bytes][u8 type][body], have a maximum length (KOLO_STORE_MESSAGE_MAX), and are
// read by the checked reader. Server and client are event-driven on a poller and never block,
// except in the functions that say so.
#ifndef KOLO_RUNTIME_STORE_H
#define KOLO_RUNTIME_STORE_H

#include "transport/conn.h"
#include "transport/transport.h"

enum {
    KOLO_STORE_MESSAGE_MAX = 64 << 20,
    KOLO_STORE_VALUE_MAX = 1 << 20,
    KOLO_STORE_KEY_MAX = 255,
    KOLO_STORE_TOTAL_MAX = 256 << 20, /* of all keys and values of a job together */
    KOLO_STORE_TEXT_MAX = 1024,
    KOLO_STORE_CALL_MAX = 320 /* a call in words, with its sequence number */
};

/** What a failure ends: the communicator with that number, or one of these. */
#define KOLO_STORE_RANK UINT32_MAX       /* every communicator that contains the rank */
#define KOLO_STORE_JOB (UINT32_MAX - 1u) /* every communicator of the job */
/** What the server writes before the ranks that are not in a call. */
#define KOLO_STORE_ABSENT "not there yet: "
/** With a communicator's number, which never has this bit: whoever reports the failure does not
 * know whether all members have opened the communicator. */
#define KOLO_STORE_UNMET (1u << 30)
/** What a rank waits for that no other rank can bring. */
enum kolo_own_wait {
    KOLO_OWN_NONE,   /* nothing: it waits for other ranks */
    KOLO_OWN_STREAM, /* its stream has not reached the call */
    KOLO_OWN_DEVICE, /* the call has not begun, since the program's device is busy */
    KOLO_OWN_INPUT,  /* its input is being copied to the host */
    KOLO_OWN_WORK,   /* its device works for the call */
    KOLO_OWN_RESULT, /* the call is over, and its result is being copied to its device */
    KOLO_OWN_WAITS
};
/** What follows "rank 3 waits for". */
const char *kolo_own_text(enum kolo_own_wait own);
/** Whether @p text has the words of one of them, so that it says why others wait. */
bool kolo_own_is_in(const char *text);
/** The number of channels of each communicator on each link. A channel's number divided by this is
 * the communicator's number. */
enum { KOLO_CHANNELS_PER_COMM = 4 };
/* The channels of a communicator; its number times the above is added. */
enum { KOLO_CHANNEL_COLLECTIVE = 0, KOLO_CHANNEL_MESSAGE = 1, KOLO_CHANNEL_CLOSING = 2 };
/** The key that counts the communicators made so far. It begins with a control character, which
 * people do not write in keys. */
#define KOLO_STORE_NUMBERS_KEY "\001communicators"

/* ---- server ---- */

/** Callbacks to the owner of a server, from dispatch or from a call below. Any may be NULL. */
struct kolo_store_server_events {
    void *context;
    void (*joined)(void *context);         /* all ranks have joined; the table was sent */
    void (*came)(void *context, int rank); /* called kolo_init, even if too late to join */
    void (*left)(void *context, int rank); /* said goodbye */
    /** The connection of @p rank ended without goodbye, and kolo_store_server_died had not been
     * called for it. */
    void (*lost)(void *context, int rank);
    /** The job or one of its communicators failed, because of a rank (it aborted, joined wrongly,
     * or its connection was lost and no verdict came) or because of what the server found (a
     * mismatch, missing ranks: rank -1). All ranks are already being told. Not called for
     * kolo_store_server_died and _abort. */
    void (*aborted)(void *context, int rank, kolo_status why, const char *text);
    /** Where the owner has started @p rank, which has not joined. False: it does not know. */
    bool (*started)(void *context, int rank, const char **host_out, uint32_t *pid_out);
    /** A line for the user, such as a stall warning that names the missing ranks. */
    void (*notice)(void *context, const char *text);
};
struct kolo_store_server;
struct kolo_store_server_config {
    int size;
    /** Who gave the size, for messages: "rank 0", "kolorun". A constant, or NULL. */
    const char *owner;
    struct kolo_secret secret;
    /** The tag of the greeting; a client with another one is rejected. 0: none. */
    uint64_t job_id;
    /** Counts from the first rank's JOIN, since a program need not use kolo. When it is over, each
     * rank that has joined gets ERR_TIMEOUT with the names of the missing ranks. */
    int64_t start_timeout_ms;
    int64_t stall_warn_ms;
    struct kolo_ports ports; /* where it listens if the port is left open */
    /** After this time of silence the connection of a host counts as lost; 0: the system's
     * default. */
    int64_t peer_timeout_ms;
    /** How long a lost connection may wait for a verdict (kolo_store_server_died). After that the
     * ranks are only told "lost its connection". */
    int64_t lost_grace_ms;
    struct kolo_store_server_events events;
};
kolo_status kolo_store_server_create(struct kolo_poller *poller,
                                     const struct kolo_store_server_config *config,
                                     struct kolo_store_server **server_out) KOLO_NODISCARD;
/** Listens at @p place (port 0: any port); *port_out, which may be NULL, gets the port. May be
 * called for both IPv4 and IPv6. */
kolo_status kolo_store_server_listen(struct kolo_store_server *server,
                                     const struct kolo_place *place,
                                     uint16_t *port_out) KOLO_NODISCARD;
/** Serves a connection that needs no proof (a socket pair inside this process). Takes @p fd in
 * every case. */
kolo_status kolo_store_server_adopt(struct kolo_store_server *server, int fd) KOLO_NODISCARD;
/** @p rank is dead, and @p how says how ("killed by signal 9 (SIGKILL)", "exited with status 3").
 * All ranks are told once, as ERR_PEER "rank 5 (host7, pid 812) killed by ...". Before all ranks
 * have joined this fails the job, later the communicators that contain the rank. */
void kolo_store_server_died(struct kolo_store_server *server, int rank, const char *how);
/** Fails the job on every rank. */
void kolo_store_server_abort(struct kolo_store_server *server, kolo_status why, const char *text);
/** Fires the deadlines that have passed, including kolo_conn_expire, and returns the next one. Call
 * it after every dispatch. */
kolo_deadline kolo_store_server_expire(struct kolo_store_server *server);
/** The number of ranks whose connection is open now. */
int kolo_store_server_connected(const struct kolo_store_server *server);
/** Whether @p rank has joined and its connection is open. */
bool kolo_store_server_is_here(const struct kolo_store_server *server, int rank);
/** Whether @p rank has ever called kolo_init, whatever happened to it later. */
bool kolo_store_server_has_come(const struct kolo_store_server *server, int rank);
/** Where a rank is, and in which call it is known to wait: each call is reported once it has waited
 * for KOLO_STALL. */
struct kolo_store_view {
    enum { KOLO_VIEW_ABSENT, KOLO_VIEW_HERE, KOLO_VIEW_LEFT, KOLO_VIEW_GONE } place;
    int32_t pid; /* as it said when it joined; 0: it has not */
    /** The same for all ranks that wait in the same call; NULL: this one is not known to wait. */
    const void *call;
    int64_t since_ns;       /* when the first rank was known to wait in that call */
    bool is_awaited;        /* ranks wait for it in a call in which it is not */
    bool is_silent;         /* a failure came after all that its program has asked of the store */
    enum kolo_own_wait own; /* what it waits for in that call, if not for other ranks */
    char words[KOLO_STORE_CALL_MAX];
};
/** Fills an element for each rank. ERR_NO_MEMORY: nothing is known of calls. */
kolo_status kolo_store_server_view(const struct kolo_store_server *server,
                                   struct kolo_store_view *views_out) KOLO_NODISCARD;
/** The process of @p rank as it said when it joined; 0: it has not. */
int32_t kolo_store_server_pid(const struct kolo_store_server *server, int rank);
void kolo_store_server_destroy(struct kolo_store_server *server);

/** Runs a server on a thread of its own, from which its events come, until kolo_store_thread_stop.
 * That waits until every rank has left (up to the deadline), then ends the server. *port_out, which
 * may be NULL, gets the port of all places; places with port 0 share one that the system chooses.
 * If the thread can no longer notice what ranks send, it fails the job with ERR_SYSTEM and ends the
 * server at once. ERR_CONNECT: it cannot listen at one of the places; ERR_SYSTEM: it lacks
 * something else; ERR_NO_MEMORY. */
struct kolo_store_thread;
kolo_status kolo_store_thread_start(const struct kolo_store_server_config *config,
                                    const struct kolo_place *places, size_t count,
                                    uint16_t *port_out,
                                    struct kolo_store_thread **thread_out) KOLO_NODISCARD;
/** Makes a socket pair, lets the server adopt one end, and returns the other. Any thread.
 * ERR_SYSTEM also if the server has ended. */
kolo_status kolo_store_thread_pair(struct kolo_store_thread *thread, int *fd_out) KOLO_NODISCARD;
void kolo_store_thread_stop(struct kolo_store_thread *thread, kolo_deadline deadline);

/* ---- client ---- */

struct kolo_store_client_events {
    void *context;
    /** Something failed: a rank died (ERR_PEER, @p rank), aborted, timed out or mismatched. @p
     * scope says what this ends: a communicator's number, KOLO_STORE_RANK or KOLO_STORE_JOB. @p
     * text is the full message. */
    void (*failed)(void *context, int rank, uint32_t scope, kolo_status why, const char *text);
    /** @p rank said goodbye. */
    void (*left)(void *context, int rank);
    /** The connection to the server was lost. */
    void (*lost)(void *context);
    /** A question (struct kolo_store_call) has been answered or has failed. */
    void (*answered)(void *context);
};
struct kolo_store_client;
struct kolo_store_client_config {
    /** Used by the client; its owner must dispatch it after the join. Events come only from
     * there. */
    struct kolo_poller *poller;
    int fd; /* an authenticated connection (kolo_rendezvous_dial, kolo_store_dial) */
    const struct kolo_peer *self;
    int size; /* number of ranks */
    kolo_deadline deadline;
    struct kolo_store_client_events events;
};
/** Joins. Blocks until all ranks have joined, without running other callbacks of the poller. Takes
 * the connection in every case.
 *  @return KOLO_OK and the table of all peers, which the client owns; ERR_CONNECT; ERR_TIMEOUT (the
 *  detail names the missing ranks); ERR_INVALID (the detail says whether the size differs or a rank
 *  was given twice); ERR_PEER. */
kolo_status kolo_store_client_join(const struct kolo_store_client_config *config,
                                   struct kolo_store_client **client_out,
                                   const struct kolo_peer **peers_out) KOLO_NODISCARD;

/** Sets how long the server's host may be silent before the connection counts as lost
 * (KOLO_PEER_TIMEOUT). */
void kolo_store_client_keepalive(struct kolo_store_client *client, int64_t peer_timeout_ms);

/** A question to the store. The memory is the caller's; it must stay until status is no longer
 * KOLO_AGAIN, or until the question is cancelled. */
struct kolo_store_call {
    kolo_status status; /* AGAIN; OK; ERR_NOT_FOUND; ERR_TIMEOUT; ERR_INVALID (add: not an integer);
                           ERR_PEER */
    void *value;        /* get: the answer; the caller frees it (kolo_free_memory) */
    size_t bytes;       /* of the answer */
    void *room;         /* shrink: the caller's memory for the answer, so that there is some */
    size_t room_bytes;
    int64_t sum; /* add: the new value; shrink: the number of the communicator */
    /** On failure: the store's explanation, or what happened to the question. */
    char why[400];
    bool is_answered; /* the store answered; else it failed in this process */
    uint32_t id;      /* chosen by the client */
    struct kolo_store_call *next;
};
void kolo_store_client_set(struct kolo_store_client *client, const char *key, const void *value,
                           size_t bytes, struct kolo_store_call *call);
/** @p wait: the answer comes when the key exists; otherwise at once. */
void kolo_store_client_get(struct kolo_store_client *client, const char *key, bool wait,
                           struct kolo_store_call *call);
void kolo_store_client_add(struct kolo_store_client *client, const char *key, int64_t amount,
                           struct kolo_store_call *call);
void kolo_store_client_cancel(struct kolo_store_client *client, struct kolo_store_call *call);

/** A communicator that has failed, as a rank sees it; the sets of ranks have a bit for each. */
struct kolo_store_loss {
    uint32_t number; /* the communicator's */
    uint32_t timeout_ms;
    const uint8_t *members;
    const uint8_t
        *lost;          /* ranks that this one can no longer reach, whether they are alive or not */
    uint8_t *survivors; /* room for the answer; may be the members */
};
/** Asks which ranks continue after a loss. The answer comes when every member has asked, finalized
 * the communicator, left or died, and is the same for all: the survivors get a bit for each rank
 * that asked and continues, if call->bytes is as many as it should be; call->sum is a number for
 * their new communicator. If two ranks that asked cannot reach each other, one of them is left out
 * and gets ERR_PEER. ERR_TIMEOUT after timeout_ms: call->why names a rank that has not asked. */
void kolo_store_client_shrink(struct kolo_store_client *client, const struct kolo_store_loss *loss,
                              struct kolo_store_call *call);

/** Says that this rank has finalized communicator @p number, whose ranks are the bits of @p
 * members: ranks that shrink it do not wait for this one. */
void kolo_store_client_finalized(struct kolo_store_client *client, uint32_t number,
                                 const uint8_t *members);

/** A call in which a rank waits while nothing moves. */
struct kolo_stall_report {
    uint32_t channel, sequence;   /* on a channel of messages: a number of this rank only */
    const struct kolo_desc *desc; /* this rank's description of the call */
    const char *words;            /* the same in words */
    const uint8_t *members;       /* the ranks it needs, a bit each; NULL: all ranks */
    enum kolo_own_wait own;       /* what it waits for itself; then it needs no rank now */
};
/** Reports that this rank has been waiting in a call. If another rank waits at the same channel and
 * sequence number with another description, the server answers through `failed` (ERR_MISMATCH; both
 * sides are named). On a channel of messages nothing is compared. */
void kolo_store_client_stalled(struct kolo_store_client *client,
                               const struct kolo_stall_report *report);
/** Reports that a call which was reported continues. */
void kolo_store_client_resumed(struct kolo_store_client *client, uint32_t channel,
                               uint32_t sequence);
/** Fails @p scope (a communicator's number, perhaps with KOLO_STORE_UNMET, or KOLO_STORE_JOB) on
 * every rank, with this text. The server adds to a TIMEOUT which ranks are not in the call that
 * this rank has reported as stalled. */
void kolo_store_client_abort(struct kolo_store_client *client, uint32_t scope, kolo_status why,
                             const char *text);
/** Hands the table of peers to the caller (kolo_peers_drop), because an endpoint that drains needs
 * it after the client has been closed. Call it just before the close. NULL for NULL. */
const struct kolo_peer *kolo_store_client_take_peers(struct kolo_store_client *client);
/** Says goodbye, waits until that has been written (at most until the deadline), and closes. NULL
 * is allowed. */
void kolo_store_client_close(struct kolo_store_client *client, kolo_deadline deadline);

#endif
